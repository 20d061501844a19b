"""What a skill that lives may ask of the host, beside what every running code may: to have operations done, to answer for modules,
to tell that something happened, and to keep a state of its own.

`execute` makes a call of its own that goes through every stage. One that is privileged and was not granted is refused to the skill
and no more: contracts are written so that they try. Nothing here looks at who asks, which is known.
"""

import re
from collections.abc import Sequence
from typing import Final, Protocol, final

from anyio import to_thread
from msgspec import json

from metier.host.bridge import Service
from metier.host.operation import told
from metier.model.digest import Json
from metier.model.outcome import Failed, Outcome, Refused
from metier.model.permission import PermissionSet
from metier.model.ports import Answered, NotAnswered
from metier.model.text import one_line
from metier.sandbox.given_secrets import masked
from metier.sandbox.secret import Mask

FORBIDDEN: Final = "E_AGENT_FORBIDDEN"
MOST_PAYLOAD: Final = 65_536
"""Bytes of what is told with an event."""
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}", re.ASCII)
_EVENT: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]{0,127}", re.ASCII)
_CODE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}", re.ASCII)
_NOT_HIS: Final = frozenset({"forbidden", "not_trusted"})


class Resident(Protocol):
    """The life that asks."""

    async def call(self, tool: str, arguments: dict[str, Json], inside: str) -> Outcome:
        """Make a call inside of the life, and of that operation where it is one that is under way."""
        ...

    async def register(self, name: str, operations: Sequence[str], *, hears: bool) -> NotAnswered | None:
        """Answer for a module, which is told of events where it `hears`."""
        ...

    def emit(self, name: str, payload: Json, inside: str) -> NotAnswered | None:
        """Tell everybody, as part of that operation where it is one that is under way."""
        ...

    async def state_get(self, key: str) -> Answered | NotAnswered:
        """What was kept."""
        ...

    async def state_set(self, key: str, value: Json) -> Answered | NotAnswered:
        """Keep something."""
        ...


def services_of(resident: Resident, mask: Mask) -> dict[str, Service]:
    """Everything that it may ask for besides. `mask` hides what the code was given as variables."""
    return {
        "execute": Execute(resident, mask),
        "module.register": Register(resident),
        "emit": Emit(resident, mask),
        "state.get": StateGet(resident),
        "state.set": StateSet(resident, mask),
    }


class _Open:
    """Open to every skill that lives; nothing is held."""

    def allowed(self, permissions: PermissionSet) -> bool:
        return True

    async def aclose(self) -> None:
        """Nothing is held."""


@final
class Execute(_Open):
    """`execute {module, op, params, meta, for}`. What stands in `meta` goes nowhere: nobody says who he is. `for` is the operation that
    it is part of, as the guest has it."""

    def __init__(self, resident: Resident, mask: Mask) -> None:
        self._resident = resident
        self._mask = mask

    async def answer(self, params: dict[str, Json]) -> Answered | NotAnswered:
        module, op = params.get("module"), params.get("op")
        arguments = params.get("params")
        if not params.keys() <= {"module", "op", "params", "meta", "for"}:
            return _invalid("execute", "it takes a module, an operation, parameters and meta")
        if not isinstance(module, str) or not isinstance(op, str):
            return _invalid("execute", "`module` and `op` are names")
        if not isinstance(arguments, dict | None):
            return _invalid("execute", "the parameters of an operation are an object")
        name = f"{module}.{op}"
        if not _WORD.fullmatch(module) or not _WORD.fullmatch(op):
            message = f"there is no operation {one_line(name, 120)!r}: a name is letters, digits, _ and -"
            return NotAnswered(name="E_SKILLS_BAD_MODULE", message=message)
        hide, given = self._mask.text, (arguments or {}).items()
        hidden = {hide(each): await _hidden(value, self._mask) for each, value in given}
        return _told(name, await self._resident.call(name, hidden, _inside(params)))


@final
class Register(_Open):
    """`module.register {name, operations, hears}`."""

    def __init__(self, resident: Resident) -> None:
        self._resident = resident

    async def answer(self, params: dict[str, Json]) -> Answered | NotAnswered:
        name, given, hears = params.get("name"), params.get("operations"), params.get("hears", False)
        if (
            not params.keys() <= {"name", "operations", "hears"}
            or not isinstance(name, str)
            or not isinstance(hears, bool)
            or not isinstance(given, list)
        ):
            return _invalid("module.register", "it takes a name and a list of operations")
        operations = [each for each in given if isinstance(each, str)]
        if len(operations) != len(given):
            return _invalid("module.register", "operations are names")
        return await self._resident.register(name, operations, hears=hears) or Answered()


@final
class Emit(_Open):
    """`emit {name, payload, for}`."""

    def __init__(self, resident: Resident, mask: Mask) -> None:
        self._resident = resident
        self._mask = mask

    async def answer(self, params: dict[str, Json]) -> Answered | NotAnswered:
        name = params.get("name")
        if not params.keys() <= {"name", "payload", "for"} or not isinstance(name, str):
            return _invalid("emit", "it takes the name of an event and what is told with it")
        if not _EVENT.fullmatch(name):
            return _invalid("emit", "the name of an event is at most 128 letters, digits and _ . : -")
        payload = params.get("payload")
        if len(json.encode(payload)) > MOST_PAYLOAD:
            return NotAnswered(
                name="TooLarge", message=f"What is told with an event has at most {MOST_PAYLOAD:,} bytes"
            )
        hidden = await _hidden(payload, self._mask)
        return self._resident.emit(name, hidden, _inside(params)) or Answered()


@final
class StateGet(_Open):
    """`state.get {key}`."""

    def __init__(self, resident: Resident) -> None:
        self._resident = resident

    async def answer(self, params: dict[str, Json]) -> Answered | NotAnswered:
        key = params.get("key")
        if params.keys() != {"key"} or not isinstance(key, str):
            return _invalid("state.get", "it takes a key")
        return await self._resident.state_get(key)


@final
class StateSet(_Open):
    """`state.set {key, value}`."""

    def __init__(self, resident: Resident, mask: Mask) -> None:
        self._resident = resident
        self._mask = mask

    async def answer(self, params: dict[str, Json]) -> Answered | NotAnswered:
        key = params.get("key")
        if params.keys() != {"key", "value"} or not isinstance(key, str):
            return _invalid("state.set", "it takes a key and a value")
        return await self._resident.state_set(key, await _hidden(params["value"], self._mask))


def _inside(params: dict[str, Json]) -> str:
    claimed = params.get("for")
    return claimed if isinstance(claimed, str) else ""


async def _hidden(value: Json, mask: Mask) -> Json:
    """What is recorded, told to others or kept has no use for a secret."""
    if not mask:
        return value
    return await to_thread.run_sync(masked, value, mask)


def _told(name: str, outcome: Outcome) -> Answered | NotAnswered:
    match outcome:
        case Refused(code=code) if code in _NOT_HIS:
            said = ". ".join(filter(None, ("; ".join(outcome.reasons), outcome.remedy)))
            return NotAnswered(name=FORBIDDEN, message=f"{name} was refused: {said}")
        case Failed(value={"code": str(code), "message": str(message)}) if _CODE.fullmatch(code):
            return NotAnswered(name=code, message=message)
        case _:
            return told(name, outcome)


def _invalid(method: str, why: str) -> NotAnswered:
    return NotAnswered(name="InvalidRequest", message=f"{method} is refused: {why}")
