"""Why the command does not do what it was asked: one sentence, and whether the question or the world is at fault."""

from typing import final

from msgspec import Struct


@final
class Problem(Struct, frozen=True, kw_only=True):
    """A reason that ends the command. It names no place of the machine: whoever reads it may be a model."""

    message: str
    """What, why and what to do."""
    usage: bool = False
    """Whether asking otherwise would help."""


def misused(message: str) -> Problem:
    """What was asked cannot be understood or is not offered."""
    return Problem(message=message, usage=True)


def failed(message: str) -> Problem:
    """It was asked well, and cannot be done here and now."""
    return Problem(message=message)
