"""Calls that must go upward through the layers, as Protocols handed in by `runtime.py`."""

from collections.abc import Awaitable, Callable
from typing import Literal, Protocol, TypeAlias, final

from msgspec import Struct

from metier.model.call import ApprovedCall, ValidCall
from metier.model.digest import Json
from metier.model.outcome import Attempt, Completed, Failed, Outcome, Refused
from metier.model.verdict import Verdict

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


class Around(Protocol):
    """Who stands around calls: hooks and triggers. They can make what the gate decides stricter, and never weaker."""

    async def before(self, valid: ValidCall) -> Verdict | Refused | None:
        """What they say about a call that every layer lets pass, before anybody is asked about it. None: nothing.

        Of a verdict only an ASK or a DENY counts. A refusal ends the call as it stands. Asked each time the call is judged, so
        once more where somebody was asked and it is taken up again (`valid.call.approval`). Never raises.
        """
        ...

    async def begins(self, valid: ValidCall) -> None:
        """It runs now: the gate said yes, and that is on the record. Waited for, once for each call that runs. It decides nothing
        any more, and never raises."""
        ...

    def after(self, valid: ValidCall, outcome: Completed | Failed) -> None:
        """Told how it ended, after that was recorded. Takes it at once and never waits or raises."""
        ...


class Host(Protocol):
    """What one running call may ask of us. Bound to that call: who asks is never said by who asks."""

    async def ask(self, method: str, params: dict[str, Json]) -> Answered | NotAnswered:
        """Answer one request. Never raises but for cancellation, which is how a run's end reaches it."""
        ...


Operate: TypeAlias = Callable[[dict[str, Json], float], Awaitable[Answered | NotAnswered]]
"""Has code that lives do one thing within so many seconds. Never raises but for cancellation. `TimedOut`: it did not answer in time;
`Gone`: it is over; `Busy`: it has as much to do as it may; `Hung`: it never answered what was asked before; any other name is that of the error it raised."""


class Lives(Protocol):
    """Who is told that a life began."""

    def ready(self, operate: Operate) -> None:
        """It was enabled and answers from now on. Told once, in the loop of the run; must not wait or raise."""
        ...
