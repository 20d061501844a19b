"""`call`: running code asks for one of Metier's own operations, such as `memory.search`.

What it may ask for stands by name among its permissions. Each request is a call of its own, made inside the one that runs: it
goes through every stage, under the name of the skill and for whoever asked for the skill, and is recorded. Where somebody has to
be asked first, the code is told so (`pending_approval`, with the id) and does not wait.
"""

from typing import Final, final

from metier.model.digest import Json
from metier.model.outcome import Completed, Failed, Outcome, Pending, Refused
from metier.model.permission import PermissionSet
from metier.model.ports import Answered, Caller, NotAnswered
from metier.model.text import one_line
from metier.sandbox.given_secrets import masked
from metier.sandbox.secret import Mask

MOST: Final = 64
"""Of one call."""


@final
class Operate:
    """The service `call` of one running call."""

    def __init__(
        self,
        call_id: str,
        skill: str,
        permissions: PermissionSet,
        caller: Caller | None,
        mask: Mask | None = None,
    ) -> None:
        """`caller` makes calls inside of that one; None where nobody does. `mask` hides what the code was given as variables."""
        self._call_id = call_id
        self._skill = skill
        self._granted = permissions.operations
        self._caller = caller
        self._mask = mask or Mask()
        self._asked = 0

    def allowed(self, permissions: PermissionSet) -> bool:
        return bool(permissions.operations)

    async def answer(self, params: dict[str, Json]) -> Answered | NotAnswered:
        name, arguments = params.get("operation"), params.get("arguments", {})
        if not params.keys() <= {"operation", "arguments"} or not isinstance(name, str):
            return _invalid("it takes the name of an operation and its arguments")
        if not isinstance(arguments, dict):
            return _invalid("the arguments of an operation are an object")
        if name not in self._granted:
            message = (
                f"{one_line(name, 64)!r} is outside what this skill may call; declare it and have it granted"
            )
            return NotAnswered(name="PermissionDenied", message=message, kind="violation")
        if self._caller is None or not self._skill:
            return NotAnswered(name="NotFound", message="Nobody here makes calls for running code")
        if self._asked >= MOST:
            return NotAnswered(
                name="Busy", message=f"A call asks for at most {MOST} operations; do more in another call"
            )
        self._asked += 1
        # They are recorded, and no operation has a use for a secret.
        hidden = {self._mask.text(each): masked(value, self._mask) for each, value in arguments.items()}
        return told(name, await self._caller.call(self._call_id, self._skill, name, hidden))

    async def aclose(self) -> None:
        """Nothing is held."""


def told(name: str, outcome: Outcome) -> Answered | NotAnswered:
    """How the operation ended, for the code that asked for it."""
    match outcome:
        case Completed(value=value):
            return Answered(value=value)
        case Pending():
            why = "; ".join(outcome.reasons)
            message = f"{outcome.approval_id}: {name} waits for somebody's word: {why}"
            return NotAnswered(name="pending_approval", message=message)
        case Refused():
            said = ". ".join(filter(None, ("; ".join(outcome.reasons), outcome.remedy)))
            return NotAnswered(name=outcome.code, message=f"{name} was refused: {said}")
        case Failed():
            return NotAnswered(name=outcome.code, message=outcome.message)


def _invalid(why: str) -> NotAnswered:
    return NotAnswered(name="InvalidRequest", message=f"call is refused: {why}")
