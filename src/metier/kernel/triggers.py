"""The module `triggers`: what people set up to happen by itself. For people only, since a trigger acts on behalf of who set it up.

Nobody but he, or the owner of this machine, may let one fire (again): else somebody could act under another's name.
"""

import secrets
from collections.abc import Callable
from typing import Final, final

from anyio import to_thread

from metier.catalog.catalog import Catalog
from metier.kernel import trigger_store
from metier.kernel.behalf import Behind, Since, by_itself, never
from metier.kernel.calling import Calls
from metier.kernel.events import NO_CAUSE, Events
from metier.kernel.firing_store import firings
from metier.kernel.operation import NOTHING, Asked, Module, OperationError, module, offered
from metier.kernel.store import Store
from metier.kernel.trigger import BAD, AnyTrigger, read, written
from metier.kernel.trigger_declared import Declared, declared_triggers
from metier.kernel.trigger_imagined import imagined
from metier.kernel.trigger_names import unlikely
from metier.kernel.trigger_rounds import Inbox, Rounds
from metier.kernel.trigger_store import KeptTrigger
from metier.kernel.trigger_template import TooMuch, filled
from metier.model import strictjson
from metier.model.call import Cause, ValidCall
from metier.model.digest import Json, digest_bytes
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
_ADOPT: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {
        "skill": {"type": "string", "minLength": 1, "maxLength": 200},
        "digest": {"type": "string", "maxLength": 100},
    },
    "required": ["skill"],
    "additionalProperties": False,
}
"""With a `digest` exactly those are accepted that `triggers.declared` showed with it."""
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


def no_cause(_: str) -> Cause:
    """Of calls about which nothing is known."""
    return NO_CAUSE


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
        cause_of: Callable[[str], Cause] = no_cause,
        since: Since = never,
        behind: Behind = by_itself,
    ) -> None:
        """
        Args:
            inbox: who keeps messages until they are handled; None where there are no channels.
            skill_of: the skill that registered a module; empty for ours.
            cause_of: what set off a call, by its id.
            since: when somebody was registered.
            behind: for whom somebody acts.
        """
        self._store = store
        self._catalog = catalog
        self._owner = owner
        self._skill_of = skill_of
        self._since = since
        self._rounds = Rounds(
            store=store,
            events=events,
            calls=calls,
            catalog=catalog,
            owner=owner,
            inbox=inbox,
            skill_of=skill_of,
            cause_of=cause_of,
            since=since,
            behind=behind,
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

    async def finish(self) -> None:
        """Before another process may become the host, once nobody tells of messages any more."""
        await self._rounds.finish()

    async def before(self, valid: ValidCall) -> Refused | None:
        """For the port `Around`."""
        return await self._rounds.around.before(valid)

    async def begins(self, valid: ValidCall) -> None:
        """For the port `Around`."""
        await self._rounds.around.begins(valid)

    def after(self, valid: ValidCall, outcome: Completed | Failed) -> None:
        """For the port `Around`."""
        self._rounds.around.after(valid, outcome)

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
                "triggers.declared", self._declared, "The triggers that a skill's file declares, and which can be accepted.", _SKILL,
                audience="operator", effect="read", risk="low",
            ),
            offered(
                "triggers.adopt", self._adopt, "Accept the triggers that a skill's file declares.", _ADOPT,
                audience="operator",
            ),
        )  # fmt: skip

    async def _create(self, asked: Asked) -> Json:
        catalog = self._catalog()

        def put() -> Json:
            trigger = _read(asked.arguments["trigger"])
            (made,) = self._put(asked, [trigger], "")
            return {**made, "note": unlikely(catalog, trigger, self._skill_of)}

        made = await to_thread.run_sync(put)
        await self._rounds.load()
        return made

    def _put(self, asked: Asked, triggers: list[AnyTrigger], skill: str) -> list[dict[str, Json]]:
        """All of them, or none."""
        # Never an id that was used before: grants are given to ids.
        new = {f"trg_{secrets.token_hex(8)}": each for each in triggers}
        by = asked.principal.id
        trigger_store.stored(self._store, new, owner=by, skill=skill, since=self._since(by))
        return [{"id": id, "name": each.name, "enabled": each.enabled} for id, each in new.items()]

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
        return await self._switch(kept, enabled=True, his=asked.principal.id == kept.owner)

    async def _disable(self, asked: Asked) -> Json:
        return await self._switch(await self._one(asked), enabled=False)

    async def _remove(self, asked: Asked) -> Json:
        kept = await self._his(asked, "remove")
        await to_thread.run_sync(trigger_store.removed, self._store, kept.id)
        self._rounds.forget(kept.id)
        await self._rounds.load()
        return {"id": kept.id, "name": kept.name, "removed": True}

    async def _declared(self, asked: Asked) -> Json:
        skill = str(asked.arguments["skill"])
        found = await to_thread.run_sync(declared_triggers, self._catalog(), skill)
        shown: list[Json] = [{"definition": _plain(each.trigger), "wider": each.wider} for each in found]
        return {"skill": skill, "digest": _digest(found), "triggers": shown}

    async def _adopt(self, asked: Asked) -> Json:
        skill, seen = str(asked.arguments["skill"]), asked.arguments.get("digest")
        catalog = self._catalog()

        def put() -> tuple[list[Json], list[Declared]]:
            found = declared_triggers(catalog, skill)
            if seen is not None and seen != _digest(found):
                raise OperationError(
                    BAD, f"what {one_line(skill, 60)!r} declares changed since it was shown; look again"
                )
            left = [each for each in found if each.wider]
            if len(left) == len(found):
                raise OperationError(
                    BAD,
                    f"nothing of what {one_line(skill, 60)!r} declares can be accepted as it is: {left[0].wider}; set up what you "
                    "want of it with `metier triggers add`",
                )
            strict = [each.trigger for each in found if not each.wider]
            return [*self._put(asked, strict, skill)], left

        made, left = await to_thread.run_sync(put)
        await self._rounds.load()
        rest: list[Json] = [{"name": each.trigger.name, "why": each.wider} for each in left]
        return {"skill": skill, "adopted": made, "left": rest}

    async def _test(self, asked: Asked) -> Json:
        given = asked.arguments
        if sum(key in given for key in ("text", "event", "tool")) != 1:
            raise OperationError(BAD, "say one of `text` (a message), `event` or `tool`")
        occasion, note = await to_thread.run_sync(
            imagined, given, self._catalog(), self._store, self._skill_of
        )
        hit = await to_thread.run_sync(self._rounds.would, occasion)
        rows: list[Json] = []
        for each in hit:
            missing: set[str] = set()
            trigger = each.trigger
            if trigger is not None:
                row = _view(each)
                try:
                    row["arguments"] = filled(trigger.arguments, occasion.around, missing)
                except TooMuch as error:
                    row["arguments"], row["problem"] = {}, str(error)
                row["missing"] = [*sorted(missing)]
                rows.append(row)
                if trigger.timing == "instead":
                    break
        return {"would_fire": rows, "note": note}

    async def _switch(self, kept: KeptTrigger, *, enabled: bool, his: bool = False) -> Json:
        def switch() -> None:
            since = self._since(kept.owner) if his else None  # only he himself can say that it acts for him
            trigger_store.switched(self._store, kept.id, enabled=enabled, since=since)

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


def _read(value: Json) -> AnyTrigger:
    try:
        strictjson.check(value)
    except ValueError as error:
        raise OperationError(BAD, f"this is no trigger: {error}") from None
    return read(value)


def _digest(found: list[Declared]) -> str:
    return digest_bytes("\n".join(written(each.trigger) for each in found).encode())


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
