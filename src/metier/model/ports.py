"""Calls that must go upward through the layers, as Protocols handed in by `runtime.py`."""

from collections.abc import Awaitable, Callable
from typing import Literal, Protocol, TypeAlias, final

from msgspec import Struct

from metier.model.call import ApprovedCall
from metier.model.digest import Json
from metier.model.outcome import Attempt, Completed, Failed, Outcome

OperationFunction: TypeAlias = Callable[[ApprovedCall], Awaitable[Completed | Failed]]
"""Runs in the loop; what blocks in it is for it to put into a thread."""


class Operations(Protocol):
    """How `execute` finds the function behind an operation of a module."""

    def find(self, module: str, operation: str) -> OperationFunction | None:
        """The function, or None when no module offers it."""
        ...


@final
class Answered(Struct, frozen=True, kw_only=True):
    """What the host gives running code that asked."""

    value: Json = None
    refused: tuple[Attempt, ...] = ()
    """What was refused to a program that ran for the code; counted, not told to the code."""


@final
class NotAnswered(Struct, frozen=True, kw_only=True):
    """Why the host does not. All of it may be shown to the code: no path, secret or traceback of the host."""

    name: str
    """For example `PermissionDenied`, `NotFound`, `TimedOut`, `InvalidRequest`, `Busy`."""
    message: str
    kind: Literal["failed", "denied", "violation"] = "failed"
    """`denied` is counted, `violation` ends the run and disables the skill."""
    refused: tuple[Attempt, ...] = ()
    """As in `Answered`."""


class Caller(Protocol):
    """How what is running makes a call of its own."""

    async def call(self, inside: str, skill: str, tool: str, arguments: dict[str, Json]) -> Outcome:
        """How a call ended that the code of `skill` made inside of the call `inside`."""
        ...


class Host(Protocol):
    """What one running call may ask of us. Bound to that call: who asks is never said by who asks."""

    async def ask(self, method: str, params: dict[str, Json]) -> Answered | NotAnswered:
        """Answer one request. Never raises but for cancellation, which is how a run's end reaches it."""
        ...
