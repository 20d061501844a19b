"""The module `schedules`: what people set up to be done at its time, on their behalf."""

import secrets
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from operator import itemgetter
from typing import Final, final

from anyio import to_thread

from metier.catalog.catalog import Catalog
from metier.kernel import schedule_store
from metier.kernel.behalf import Since, never
from metier.kernel.calling import Calls
from metier.kernel.delivery_watch import Watch
from metier.kernel.events import Events
from metier.kernel.firing_call import told_of
from metier.kernel.firing_store import firings
from metier.kernel.operation import NOTHING, Asked, Module, OperationError, module, offered
from metier.kernel.schedule import BAD, LATEST, AnySchedule, all_notices, read, written
from metier.kernel.schedule_attempts import Attempt, begun
from metier.kernel.schedule_firing import ScheduleFiring
from metier.kernel.schedule_missed import Missed, believed, moments
from metier.kernel.schedule_notice import Notifying, PostedWebhooks, Teller, Webhooks
from metier.kernel.schedule_rounds import Rounds
from metier.kernel.schedule_store import KeptSchedule
from metier.kernel.store import Store
from metier.kernel.trigger_declared import declared_by
from metier.kernel.webhook_url import read_webhook
from metier.model import strictjson
from metier.model.digest import Json, digest_bytes
from metier.model.outcome import Completed
from metier.model.text import one_line

FORBIDDEN: Final = "E_AGENT_FORBIDDEN"
_SHOWN: Final = 20


def _object(**properties: Json) -> dict[str, Json]:
    """An object with all of these and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


_NAME: Final[dict[str, Json]] = {"type": "string", "minLength": 1, "maxLength": 200}
_ADOPT: Final[dict[str, Json]] = {**_object(skill=_NAME, digest=_NAME), "required": ["skill"]}
"""The digest is that of what was shown, where something was."""


@final
class Schedules:
    """Belongs to one loop."""

    def __init__(
        self,
        *,
        store: Store,
        events: Events,
        calls: Calls,
        catalog: Callable[[], Catalog],
        owner: str,
        webhooks: Webhooks | None = None,
        since: Since = never,
    ) -> None:
        """`since` says when somebody was registered."""
        self._store = store
        self._catalog = catalog
        self._owner = owner
        self._since = since
        self._watch = Watch(store)
        self._notifying = Notifying(store, webhooks or PostedWebhooks())
        self._firing = ScheduleFiring(
            store=store,
            events=events,
            calls=calls,
            catalog=catalog,
            teller=Teller(calls),
            since=since,
        )
        self._rounds = Rounds(store, self._watch, self._firing)

    def module(self) -> Module:
        """What people can ask for."""
        id = _object(id=_NAME)
        return module(
            "schedules",
            offered(
                "schedules.create", self._create, "Set up a schedule.", _object(schedule={"type": "object"}),
                audience="operator",
            ),
            offered(
                "schedules.list", self._list, "Every schedule: when it is due, what it last did, why it is not due.",
                NOTHING, audience="operator", effect="read", risk="low",
            ),
            offered(
                "schedules.get", self._get, "One schedule and its last firings.", id,
                audience="operator", effect="read", risk="low",
            ),
            offered("schedules.enable", self._enable, "Let a schedule be due.", id, audience="operator"),
            offered("schedules.disable", self._disable, "Keep a schedule from being due.", id, audience="operator"),
            offered("schedules.remove", self._remove, "Remove a schedule.", id, audience="operator"),
            offered("schedules.run_now", self._run_now, "Do it now, whenever it is due.", id, audience="operator"),
            offered(
                "schedules.missed", self._missed, "What was due and not done: no host ran, or the machine slept.", NOTHING,
                audience="operator", effect="read", risk="low",
            ),
            offered(
                "schedules.declared", self._declared, "The schedules that a skill's file declares.",
                _object(skill=_NAME), audience="operator", effect="read", risk="low",
            ),
            offered(
                "schedules.adopt", self._adopt, "Accept the schedules that a skill's file declares.", _ADOPT,
                audience="operator",
            ),
            self._notifying.offered(),
        )  # fmt: skip

    async def run(self) -> None:
        """In the host, until cancelled."""
        await self._rounds.run()

    async def _create(self, asked: Asked) -> Json:
        def put() -> Json:
            (made,) = self._put(asked, [_read(asked.arguments["schedule"])], "")
            return made

        made = await to_thread.run_sync(put)
        self._watch.poke()
        return made

    def _put(self, asked: Asked, schedules: Sequence[AnySchedule], skill: str) -> list[Json]:
        """All of them, or none."""
        # Never an id that was used before: grants are given to ids.
        new = {f"sch_{secrets.token_hex(8)}": each for each in schedules}
        by = asked.principal.id
        due = schedule_store.stored(self._store, new, owner=by, skill=skill, since=self._since(by))
        return [
            {"id": id, "name": each.name, "enabled": each.enabled, "next_due": _iso(due[id])}
            for id, each in new.items()
        ]

    async def _list(self, asked: Asked) -> Json:
        kept = await to_thread.run_sync(schedule_store.all_schedules, self._store)
        return {"schedules": [_view(each) for each in kept], "most_enabled": schedule_store.MOST_ENABLED}

    async def _get(self, asked: Asked) -> Json:
        kept = await self._one(asked)
        view = _view(kept)
        view["firings"] = await to_thread.run_sync(self._last, kept)
        return view

    def _last(self, kept: KeptSchedule) -> list[Json]:
        """What it did and what it missed, latest first."""
        rows = [
            (each.began_at, _row(each.due, each.attempt, each.call_id, each.outcome or "under way"))
            for each in firings(self._store, "schedule", kept.id, _SHOWN)
        ]
        for each in believed(self._store, kept.id, time.time())[:_SHOWN]:
            said = f"missed {each.stretch.count}: {each.why}"
            rows.append((each.said_at, _row(each.stretch.last, 0, "", said)))
        rows.sort(key=itemgetter(0), reverse=True)
        return [row for _, row in rows[:_SHOWN]]

    async def _enable(self, asked: Asked) -> Json:
        kept = await self._his(asked, "enable")
        if kept.schedule is None:
            raise OperationError(BAD, kept.problem)
        # Only he himself can say that it acts for him.
        his = asked.principal.id == kept.owner
        since = await to_thread.run_sync(self._since, kept.owner) if his else None
        due = await to_thread.run_sync(schedule_store.enable, self._store, kept, kept.schedule, since)
        self._watch.poke()
        return {"id": kept.id, "name": kept.name, "enabled": True, "next_due": _iso(due)}

    async def _disable(self, asked: Asked) -> Json:
        kept = await self._one(asked)
        await to_thread.run_sync(schedule_store.disable, self._store, kept.id)
        return {"id": kept.id, "name": kept.name, "enabled": False}

    async def _remove(self, asked: Asked) -> Json:
        kept = await self._his(asked, "remove")
        await to_thread.run_sync(schedule_store.removed, self._store, kept.id)
        return {"id": kept.id, "name": kept.name, "removed": True}

    async def _run_now(self, asked: Asked) -> Json:
        kept = await self._his(asked, "run")
        schedule = kept.schedule
        if schedule is None:
            raise OperationError(BAD, kept.problem)
        if why := await self._firing.of_another(kept):
            raise OperationError(FORBIDDEN, why)
        due = time.time()
        begin = partial(begun, self._store, kept.id, due, 1, asked_for=True)
        if why := await to_thread.run_sync(begin):
            raise OperationError(schedule_store.UNKNOWN, why)
        outcome = await self._firing.call(kept, schedule, due, parent=asked.call_id)
        said = told_of(outcome)
        await self._firing.write(
            Attempt(schedule=kept.id, due=due, number=1, said=said, call_id=outcome.call_id)
        )
        value = outcome.value if isinstance(outcome, Completed) else None
        return {"id": kept.id, "name": kept.name, "outcome": said, "call_id": outcome.call_id, "value": value}

    async def _missed(self, asked: Asked) -> Json:
        def look() -> list[Json]:
            rows: list[Json] = []
            for kept in schedule_store.all_schedules(self._store):
                if not kept.missed:
                    continue
                found = believed(self._store, kept.id, time.time())
                latest: list[Json] = []
                for each in found:
                    latest += [_iso(at) for at in _latest(kept, each, _SHOWN - len(latest))]
                why = found[0].why if found else ""
                rows.append(
                    {"id": kept.id, "name": kept.name, "missed": kept.missed, "why": why, "latest": latest}
                )
            return rows

        return {"missed": await to_thread.run_sync(look)}

    async def _declared(self, asked: Asked) -> Json:
        skill = str(asked.arguments["skill"])
        found = await to_thread.run_sync(self._declares, skill)
        shown: list[Json] = [{"definition": strictjson.loads(written(each))} for each in found]
        return {"skill": skill, "digest": _digest(found), "schedules": shown}

    async def _adopt(self, asked: Asked) -> Json:
        skill, seen = str(asked.arguments["skill"]), asked.arguments.get("digest")

        def put() -> list[Json]:
            found = self._declares(skill)
            if seen is not None and seen != _digest(found):
                raise OperationError(
                    BAD, f"what {one_line(skill, 60)!r} declares changed since it was shown; look again"
                )
            return self._put(asked, found, skill)

        made = await to_thread.run_sync(put)
        self._watch.poke()
        return {"skill": skill, "adopted": made}

    def _declares(self, skill: str) -> list[AnySchedule]:
        catalog = self._catalog()
        found = [_read(each) for each in declared_by(catalog, skill, "schedules")]
        listed = catalog.get(skill)
        tools = listed.skill.tools if listed is not None and listed.skill is not None else ()
        own = {tool.name for tool in tools}
        for each in found:
            if each.action_id and each.called not in own:
                shown, action = one_line(skill, 60), one_line(each.action_id, 60)
                raise OperationError(
                    BAD, f"the schedule {one_line(each.name, 60)!r}: {shown!r} has no action {action!r}"
                )
        return found

    async def _one(self, asked: Asked) -> KeptSchedule:
        return await to_thread.run_sync(schedule_store.one_schedule, self._store, str(asked.arguments["id"]))

    async def _his(self, asked: Asked, what: str) -> KeptSchedule:
        """His own, or anybody's for the owner of the machine, who may everything that others may."""
        kept = await self._one(asked)
        if asked.principal.id not in (kept.owner, self._owner):
            shown = one_line(kept.owner, 60)
            raise OperationError(FORBIDDEN, f"{shown} set it up, and it acts for him: only he may {what} it")
        return kept


def _read(value: Json) -> AnySchedule:
    try:
        strictjson.check(value)
    except ValueError as error:
        raise OperationError(BAD, f"this is no schedule: {error}") from None
    schedule = read(value)
    if schedule.conditions.session_active:
        raise OperationError(
            BAD, "`sessionActive`: nobody tells of sessions yet, so it would always be skipped; leave it out"
        )
    for notice in (each for each in all_notices(schedule) if each.type == "webhook"):
        if isinstance(why := read_webhook(notice.url), str):
            raise OperationError(
                BAD, f"the schedule {one_line(schedule.name, 60)!r}: a webhook's `url` cannot be used: {why}"
            )
    return schedule


def _digest(found: Sequence[AnySchedule]) -> str:
    return digest_bytes("\n".join(map(written, found)).encode())


def _view(kept: KeptSchedule) -> dict[str, Json]:
    schedule = kept.schedule
    status = "broken" if schedule is None else "enabled" if kept.enabled else "disabled"
    return {
        "id": kept.id,
        "name": kept.name,
        "owner": kept.owner,
        "skill": kept.skill,
        "enabled": kept.enabled,
        "status": "over" if status == "enabled" and kept.next_due is None else status,
        "problem": kept.problem,
        "definition": None if schedule is None else strictjson.loads(written(schedule)),
        "next_due": _iso(kept.next_due) if kept.enabled else None,
        "last_due": _iso(kept.last_due),
        "last_outcome": kept.last_outcome,
        "missed": kept.missed,
    }


def _row(due: float, attempt: int, call_id: str, outcome: str) -> Json:
    return {"due": _iso(due), "attempt": attempt, "call_id": call_id, "outcome": outcome}


def _latest(kept: KeptSchedule, each: Missed, most: int) -> list[float]:
    if kept.schedule is None or most <= 0:
        return []
    return moments(each, kept.schedule, kept.created_at, most)


def _iso(seconds: float | None) -> str | None:
    """None also for what is no moment any more: one damaged number must not hide the rest."""
    if seconds is None or not 0 <= seconds <= LATEST:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
