"""The module `skills`: which skills live, and how they fare; enable and disable them; ask them; and their own state.

What is told of a skill is XBot's record. Only people enable and disable. A state belongs to its skill alone.
"""

from collections.abc import Callable, Sequence
from typing import Final, final

from anyio import to_thread

from metier.catalog.catalog import Catalog
from metier.catalog.listed import Listed
from metier.config.settings import Settings
from metier.kernel.calling import Calls
from metier.kernel.host_role import holder
from metier.kernel.modules import BAD_MODULE, FORBIDDEN, Modules
from metier.kernel.operation import NOTHING, Asked, Module, Offered, OperationError, module, offered
from metier.kernel.residents import NO_HOST, Residents, broken_in, found, wanted
from metier.kernel.skill_record import (
    BAD_PARAMS,
    LONGEST_KEY,
    Life,
    lives,
    registered,
    state_get,
    state_set,
)
from metier.kernel.skill_shown import NOT_TOLD, intents_of, shown
from metier.kernel.store import Store
from metier.model.call import Principal
from metier.model.digest import Json
from metier.model.outcome import Completed, Failed, Pending, Refused
from metier.model.role import STEER
from metier.model.text import one_line

_ID: Final[dict[str, Json]] = {"type": "string", "minLength": 1, "maxLength": 214}
_ONE: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {"skill_id": _ID},
    "required": ["skill_id"],
    "additionalProperties": False,
}
_ONE_OR_ALL: Final[dict[str, Json]] = {**_ONE, "required": []}
_WORD: Final[dict[str, Json]] = {"type": "string", "pattern": "^[A-Za-z][A-Za-z0-9_-]{0,63}$"}
_CALL: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {"module": _WORD, "op": _WORD, "params": {"type": "object"}},
    "required": ["module", "op"],
    "additionalProperties": False,
}
_KEY: Final[dict[str, Json]] = {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY}
_GET: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {"key": _KEY},
    "required": ["key"],
    "additionalProperties": False,
}
_SET: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {"key": _KEY, "value": {}},
    "required": ["key", "value"],
    "additionalProperties": False,
}


@final
class Skills:
    """Belongs to one loop."""

    def __init__(
        self,
        residents: Residents,
        store: Store,
        modules: Callable[[], Modules],
        catalog: Callable[[], Catalog],
        settings: Callable[[], Settings],
        calls: Callable[[], Calls],
        more: Sequence[Offered] = (),
    ) -> None:
        """`more`: the operations of this module that are about trust, and done elsewhere."""
        self._more = more
        self._residents = residents
        self._store = store
        self._modules = modules
        self._catalog = catalog
        self._settings = settings
        self._calls = calls

    def module(self) -> Module:
        """The operations."""
        return module(
            "skills",
            offered(
                "skills.list",
                self._list,
                "Every skill that lives or could: whether it is enabled, how it fares, and why it does not live.",
                NOTHING,
                effect="read",
                risk="low",
            ),
            offered(
                "skills.info",
                self._info,
                "One skill that lives or could, by its id or its name.",
                _ONE,
                effect="read",
                risk="low",
            ),
            offered(
                "skills.list_intents",
                self._list_intents,
                "What skills say they can be asked for in words.",
                _ONE_OR_ALL,
                effect="read",
                risk="low",
            ),
            offered(
                "skills.enable",
                self._enable,
                "Have a skill live from now on, also after the next start.",
                _ONE,
                audience="operator",
                permission=STEER,
            ),
            offered(
                "skills.disable",
                self._disable,
                "End a skill that lives, remove what it registered, and do not start it again.",
                _ONE,
                audience="operator",
                permission=STEER,
            ),
            offered(
                "skills.reload_enabled",
                self._reload_enabled,
                "Start every enabled skill anew.",
                NOTHING,
                audience="operator",
                permission=STEER,
            ),
            offered(
                "skills.init_on_boot",
                self._init_on_boot,
                "Start every enabled skill that does not live.",
                NOTHING,
                audience="operator",
                permission=STEER,
            ),
            offered(
                "skills.call", self._call, "Have a skill that lives do an operation of its module.", _CALL
            ),
            offered(
                "skills.state_get",
                self._state_get,
                "What this skill kept under a key.",
                _GET,
                effect="read",
                risk="low",
            ),
            offered("skills.state_set", self._state_set, "Keep a value for this skill.", _SET, risk="low"),
            *self._more,
        )

    async def _list(self, asked: Asked) -> Json:
        return {"skills": await to_thread.run_sync(self._records, None, asked.principal)}

    async def _info(self, asked: Asked) -> Json:
        return await self._record(_text(asked, "skill_id"), asked.principal)

    async def _enable(self, asked: Asked) -> Json:
        name = await self._residents.enable(_text(asked, "skill_id"), asked.principal.id)
        return await self._record(name, asked.principal)

    async def _disable(self, asked: Asked) -> Json:
        name, _ = await self._residents.disable(_text(asked, "skill_id"), asked.principal.id)
        return await self._record(name, asked.principal)

    async def _reload_enabled(self, asked: Asked) -> Json:
        return _went(*await self._residents.reload_enabled(asked.principal.id))

    async def _init_on_boot(self, asked: Asked) -> Json:
        return _went(*await self._residents.init_on_boot())

    async def _list_intents(self, asked: Asked) -> Json:
        wanted = asked.arguments.get("skill_id")
        listed = self._living() if wanted is None else [self._found(str(wanted))]
        return {"intents": [each for one in listed for each in intents_of(one)]}

    async def _call(self, asked: Asked) -> Json:
        name = _text(asked, "module")
        operation, params = f"{name}.{_text(asked, 'op')}", asked.arguments.get("params", {})
        if not self._modules().owner(name):
            raise OperationError(BAD_MODULE, f"no skill that lives has a module {one_line(name, 64)!r}")
        if not isinstance(params, dict):
            raise OperationError(BAD_PARAMS, "`params` is an object")
        outcome = await self._calls().call(
            asked.principal,
            operation,
            params,
            parent=asked.call_id,
            surroundings=asked.surroundings,
            unattended=asked.unattended,
        )
        match outcome:
            case Completed(value=value):
                return value
            case Failed(value={"code": str(code), "message": str(message)}):
                raise OperationError(code, message)
            case Failed(code=code, message=message):
                raise OperationError(code, message)
            case Refused(code=code):
                why = ". ".join(filter(None, ("; ".join(outcome.reasons), outcome.remedy)))
                raise OperationError(FORBIDDEN if code == "forbidden" else code, why)
            case Pending(approval_id=approval):
                raise OperationError("pending_approval", f"{approval}: {operation} waits for somebody's word")

    async def _state_get(self, asked: Asked) -> Json:
        skill = _own(asked)
        return await to_thread.run_sync(state_get, self._store, skill, _text(asked, "key"))

    async def _state_set(self, asked: Asked) -> Json:
        skill = _own(asked)
        value = asked.arguments.get("value")
        await to_thread.run_sync(state_set, self._store, skill, _text(asked, "key"), value)
        return {"ok": True}

    # --- what is told

    def _living(self) -> list[Listed]:
        """Skills that live or could, by name."""
        every = self._catalog().by_name.values()
        return sorted(
            (each for each in every if each.skill is not None and each.skill.dialect == "xbot"),
            key=lambda each: each.name,
        )

    def _found(self, id: str) -> Listed:
        listed = found(self._catalog(), id)
        if listed is None or (listed.skill is not None and listed.skill.dialect != "xbot"):
            raise OperationError(
                "E_SKILLS_RESOLVE_FAILED", f"there is no skill {one_line(id, 80)!r} that lives"
            )
        return listed

    async def _record(self, id: str, by: Principal) -> Json:
        listed = self._found(id)
        (record,) = await to_thread.run_sync(self._records, listed, by)
        return record

    def _records(self, only: Listed | None, by: Principal) -> list[Json]:
        """Why one does not live is told to people, and to the skill itself: there may be a place of this machine in it, or the words
        of a stranger. Blocking."""
        settings = self._settings()
        kept, modules = lives(self._store), registered(self._store)
        live = wanted(settings, self._store, "")
        no_host = holder(settings.home) is None
        names: list[Json] = []
        every = [only] if only is not None else self._living()
        for each in every:
            life = kept.get(each.name) or Life(skill=each.name, enabled=None)
            if no_host and (life.status == "loaded" or each.name in live):
                life = Life(skill=each.name, enabled=life.enabled, status="error", error=NO_HOST)
            own = [name for name, (skill, _) in modules.items() if skill == each.name]
            told = by.kind == "human" or by.id == f"skill:{each.name}"
            names.append(shown(each, life, enabled=each.name in live, modules=own, why=told))
        if only is None:
            known = {each.name for each in every}
            for name, life in sorted(kept.items()):
                if name in live and name not in known:
                    names.append(_gone(life, broken_in(self._catalog(), name), by))
        return names


def _gone(life: Life, listed: Listed | None, by: Principal) -> Json:
    why = "it is enabled, but there is no such skill here any more; `metier skills check` may say why"
    if listed is not None:  # it is there, and cannot be read
        why = listed.why if by.kind == "human" else NOT_TOLD
    return {
        "id": life.skill,
        "name": life.skill,
        "enabled": True,
        "status": "error",
        "error": why,
    }


def _went(well: list[str], ill: dict[str, str]) -> Json:
    return {"loaded": [*well], "failed": dict(ill)}


def _text(asked: Asked, name: str) -> str:
    value = asked.arguments.get(name)
    if not isinstance(value, str):
        raise OperationError(BAD_PARAMS, f"`{name}` is a text")
    return value


def _own(asked: Asked) -> str:
    """The skill that asks: nobody else has its state."""
    kind, _, name = asked.principal.id.partition(":")
    if asked.principal.kind != "skill" or kind != "skill" or not name:
        raise OperationError(
            FORBIDDEN, "a state belongs to its skill, and only the skill itself reads and writes it"
        )
    return name
