"""The module `triggers`: what people set up to happen by itself. For people only, since a trigger acts on behalf of who set it up.

Nobody but he, or the owner of this machine, may let one fire (again): else somebody could act under another's name.
"""

import secrets
import time
from collections.abc import Callable
from typing import Final, final

from anyio import to_thread

from metier.catalog.catalog import Catalog
from metier.kernel import trigger_store
from metier.kernel.calling import Calls
from metier.kernel.events import OURS, Events, Happened
from metier.kernel.firing_store import firings
from metier.kernel.operation import NOTHING, Asked, Module, OperationError, module, offered
from metier.kernel.store import Store
from metier.kernel.trigger import BAD, AnyTrigger, read, written
from metier.kernel.trigger_declared import declared_by
from metier.kernel.trigger_match import Occasion
from metier.kernel.trigger_occasion import RECEIVED, of_event
from metier.kernel.trigger_rounds import Inbox, Rounds
from metier.kernel.trigger_store import KeptTrigger
from metier.kernel.trigger_template import filled
from metier.model import strictjson
from metier.model.call import ValidCall
from metier.model.digest import Json
from metier.model.outcome import Completed, Failed, Refused
from metier.model.text import one_line

FORBIDDEN: Final = "E_AGENT_FORBIDDEN"
_SHOWN: Final = 20
_ID: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {"id": {"type": "string", "minLength": 1, "maxLength": 200}},
    "required": ["id"],
    "additionalProperties": False,
}
_TRIGGER: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {"trigger": {"type": "object"}},
    "required": ["trigger"],
    "additionalProperties": False,
}
_SKILL: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {"skill": {"type": "string", "minLength": 1, "maxLength": 200}},
    "required": ["skill"],
    "additionalProperties": False,
}
_TEST: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "maxLength": 65_536},
        "channel": {"type": "string", "maxLength": 200},
        "event": {"type": "string", "maxLength": 200},
        "source": {"type": "string", "maxLength": 200},
        "payload": {},
        "tool": {"type": "string", "maxLength": 200},
        "phase": {"type": "string", "enum": ["before", "after", "instead"]},
    },
    "additionalProperties": False,
}


def _no_skill(_: str) -> str:
    return ""


@final
class Triggers:
    """Belongs to one loop."""

    def __init__(
        self,
        *,
        store: Store,
        events: Events,
        calls: Calls,
        catalog: Callable[[], Catalog],
        owner: str,
        inbox: Inbox | None = None,
        skill_of: Callable[[str], str] = _no_skill,
    ) -> None:
        """
        Args:
            inbox: who keeps messages until they are handled; None where there are no channels.
            skill_of: the skill that registered a module; empty for ours.
        """
        self._store = store
        self._catalog = catalog
        self._owner = owner
        self._rounds = Rounds(
            store=store,
            events=events,
            calls=calls,
            catalog=catalog,
            owner=owner,
            inbox=inbox,
            skill_of=skill_of,
        )

    async def load(self) -> None:
        """In every process, before the first call. See `Rounds.load`."""
        await self._rounds.load()

    async def watch(self) -> None:
        """In every process, until cancelled: fires what is set off."""
        await self._rounds.watch()

    async def run(self) -> None:
        """In the host, after `load` and beside `watch`, until cancelled: hears messages and events."""
        await self._rounds.run()

    async def drain(self, seconds: float) -> None:
        """Before a process ends: wait for what its calls set off."""
        await self._rounds.drain(seconds)

    async def before(self, valid: ValidCall) -> Refused | None:
        """For the port `Around`."""
        return await self._rounds.before(valid)

    def after(self, valid: ValidCall, outcome: Completed | Failed) -> None:
        """For the port `Around`."""
        self._rounds.after(valid, outcome)

    def module(self) -> Module:
        """What people can ask for."""
        return module(
            "triggers",
            offered("triggers.create", self._create, "Set up a trigger.", _TRIGGER, audience="operator"),
            offered(
                "triggers.list", self._list, "Every trigger, and why one does not fire.", NOTHING,
                audience="operator", effect="read", risk="low",
            ),
            offered(
                "triggers.get", self._get, "One trigger and what it last did.", _ID,
                audience="operator", effect="read", risk="low",
            ),
            offered("triggers.enable", self._enable, "Let a trigger fire.", _ID, audience="operator"),
            offered("triggers.disable", self._disable, "Keep a trigger from firing.", _ID, audience="operator"),
            offered("triggers.remove", self._remove, "Remove a trigger.", _ID, audience="operator"),
            offered(
                "triggers.test", self._test, "Which triggers a message, an event or a call would set off.", _TEST,
                audience="operator", effect="read", risk="low",
            ),
            offered(
                "triggers.adopt", self._adopt, "Accept the triggers that a skill's file declares.", _SKILL,
                audience="operator",
            ),
        )  # fmt: skip

    async def _create(self, asked: Asked) -> Json:
        made = await to_thread.run_sync(self._put, asked, asked.arguments["trigger"], "")
        await self._rounds.load()
        return made

    def _put(self, asked: Asked, value: Json, skill: str) -> Json:
        try:
            strictjson.check(value)
        except ValueError as error:
            raise OperationError(BAD, f"this is no trigger: {error}") from None
        trigger = read(value)
        id = f"trg_{secrets.token_hex(8)}"  # never one that was used before: grants are given to ids
        trigger_store.stored(self._store, id=id, owner=asked.principal.id, skill=skill, trigger=trigger)
        return {"id": id, "name": trigger.name, "enabled": trigger.enabled}

    async def _list(self, asked: Asked) -> Json:
        kept = await to_thread.run_sync(trigger_store.all_triggers, self._store)
        return {"triggers": [_view(each) for each in kept]}

    async def _get(self, asked: Asked) -> Json:
        kept = await self._one(asked)
        last = await to_thread.run_sync(firings, self._store, "trigger", kept.id, _SHOWN)
        view = _view(kept)
        view["firings"] = [
            {"at": each.began_at, "call_id": each.call_id, "outcome": each.outcome or "under way, or cut off"}
            for each in last
        ]
        return view

    async def _enable(self, asked: Asked) -> Json:
        kept = await self._his(asked, "enable")
        if kept.trigger is None:
            raise OperationError(BAD, kept.problem)
        return await self._switch(kept, enabled=True)

    async def _disable(self, asked: Asked) -> Json:
        return await self._switch(await self._one(asked), enabled=False)

    async def _remove(self, asked: Asked) -> Json:
        kept = await self._his(asked, "remove")
        await to_thread.run_sync(trigger_store.removed, self._store, kept.id)
        self._rounds.forget(kept.id)
        await self._rounds.load()
        return {"id": kept.id, "name": kept.name, "removed": True}

    async def _adopt(self, asked: Asked) -> Json:
        skill = str(asked.arguments["skill"])
        found = declared_by(self._catalog(), skill, "triggers")

        def put() -> list[Json]:
            for each in found:
                read(each)  # all of them or none
            return [self._put(asked, each, skill) for each in found]

        made = await to_thread.run_sync(put)
        await self._rounds.load()
        return {"skill": skill, "adopted": made}

    async def _test(self, asked: Asked) -> Json:
        given = asked.arguments
        if sum(key in given for key in ("text", "event", "tool")) != 1:
            raise OperationError(BAD, "say one of `text` (a message), `event` or `tool`")
        occasion = _imagined(given)
        hit = await to_thread.run_sync(self._rounds.would, occasion)
        rows: list[Json] = []
        for each in hit:
            missing: set[str] = set()
            trigger = each.trigger
            if trigger is not None:
                arguments = filled(trigger.arguments, occasion.around, missing)
                row = _view(each)
                row["arguments"], row["missing"] = arguments, [*sorted(missing)]
                rows.append(row)
                if trigger.timing == "instead":
                    break
        return {"would_fire": rows}

    async def _switch(self, kept: KeptTrigger, *, enabled: bool) -> Json:
        def switch() -> None:
            trigger_store.switched(self._store, kept.id, enabled=enabled)

        await to_thread.run_sync(switch)
        await self._rounds.load()
        return {"id": kept.id, "name": kept.name, "enabled": enabled}

    async def _one(self, asked: Asked) -> KeptTrigger:
        return await to_thread.run_sync(trigger_store.one_trigger, self._store, str(asked.arguments["id"]))

    async def _his(self, asked: Asked, what: str) -> KeptTrigger:
        """His own, or anybody's for the owner of the machine, who may everything that others may."""
        kept = await self._one(asked)
        if asked.principal.id not in (kept.owner, self._owner):
            shown = one_line(kept.owner, 60)
            raise OperationError(FORBIDDEN, f"{shown} set it up, and it acts for him: only he may {what} it")
        return kept


def _view(kept: KeptTrigger) -> dict[str, Json]:
    """What is shown of one."""
    trigger = kept.trigger
    return {
        "id": kept.id,
        "name": kept.name,
        "owner": kept.owner,
        "skill": kept.skill,
        "enabled": kept.enabled,
        "status": "broken" if trigger is None else "enabled" if kept.enabled else "disabled",
        "problem": kept.problem,
        "definition": _plain(trigger),
        "created_at": kept.created_at,
        "last_fired": kept.last_fired or None,
        "fired": kept.fired,
        "last_outcome": kept.last_outcome,
    }


def _plain(trigger: AnyTrigger | None) -> Json:
    return None if trigger is None else strictjson.loads(written(trigger))


def _imagined(given: dict[str, Json]) -> Occasion:
    """What is only supposed to have happened."""
    if "tool" in given:
        name = str(given["tool"])
        phase = given.get("phase", "after")
        return Occasion(
            kind="tool",
            name=name,
            source=OURS,
            counted="",
            around={"tool": {"name": name}},
            phase="before" if phase == "before" else "instead" if phase == "instead" else "after",
        )
    name, source, payload = (
        str(given.get("event", RECEIVED)),
        str(given.get("source", OURS)),
        given.get("payload"),
    )
    if "text" in given:
        source = OURS
        channel = str(given.get("channel", "test"))
        payload = {"channel": channel, "chat": "test", "message": 0, "author": "", "text": given["text"]}
    return of_event(Happened(name=name, source=source, payload=payload, at=time.time()), 0)
