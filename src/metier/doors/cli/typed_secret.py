"""A secret comes by the keyboard, unseen, or by standard input. Never as an argument."""

import sys

import click

from metier.config.settings import Settings
from metier.host.sealed import MOST_BYTES, Sealed, value_problem
from metier.record.database import Database


def wrapped(settings: Settings, value: str, what: str) -> str:
    """`value` sealed for a call, so that nothing that sees the call sees it.

    Raises:
        StateError: when the state cannot be used.
    """
    with Database.open(settings.database):  # a key is only where a state is
        return Sealed(settings.home).wrapped(value, what)


def typed_secret(prompt: str) -> str:
    """What was typed or piped, without its last line end.

    Raises:
        click.UsageError: when it is none. It is not repeated.
    """
    if sys.stdin.isatty():
        value = str(click.prompt(prompt, hide_input=True, confirmation_prompt="Once more", err=True))
    else:
        data = sys.stdin.buffer.read(MOST_BYTES + 2)
        try:
            value = data.decode("utf-8").removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            raise click.UsageError("The secret on standard input is not UTF-8") from None
    if problem := value_problem(value):
        raise click.UsageError(f"{problem[0].upper()}{problem[1:]}")
    return value
