"""The module `schedules`, and the clock behind it: what people set up to be done at its time, on their behalf.

One process runs the clock. It looks at the wall, not at how long it slept, so a machine that slept or whose clock was set notices;
what is due is claimed in the file before it is done, so nothing is done twice; what nobody was there for is written down as missed.
"""

import logging
import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, final

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from metier.catalog.catalog import Catalog
from metier.errors import MetierError
from metier.kernel import schedule_store
from metier.kernel.calling import Calls
from metier.kernel.delivery_watch import Watch
from metier.kernel.events import OURS, Events, Happened
from metier.kernel.firing import told_of
from metier.kernel.firing_store import Fired, ended, firings
from metier.kernel.operation import NOTHING, Asked, Module, OperationError, module, offered
from metier.kernel.schedule import BAD, AnySchedule, read, written
from metier.kernel.schedule_clock import next_due, overdue
from metier.kernel.schedule_firing import ScheduleFiring
from metier.kernel.schedule_notice import PostedWebhooks, Teller, Webhooks
from metier.kernel.schedule_store import BROUGHT_BACK, NO_HOST, KeptSchedule
from metier.kernel.store import Store
from metier.kernel.trigger_declared import declared_by
from metier.model import strictjson
from metier.model.digest import Json
from metier.model.outcome import Completed
from metier.model.text import one_line

FORBIDDEN: Final = "E_AGENT_FORBIDDEN"
_SHOWN: Final = 20
_LONGEST_SLEEP: Final = 15.0
"""Seconds after which the clock on the wall is looked at again, whatever is due when."""
_log: Final = logging.getLogger("metier.schedules")


def _object(**properties: Json) -> dict[str, Json]:
    """An object with all of these and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


_NAME: Final[dict[str, Json]] = {"type": "string", "minLength": 1, "maxLength": 200}


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
    ) -> None:
        self._store = store
        self._events = events
        self._catalog = catalog
        self._owner = owner
        self._watch = Watch(store)
        self._busy: set[str] = set()
        self._firing = ScheduleFiring(
            store=store,
            events=events,
            calls=calls,
            catalog=catalog,
            teller=Teller(calls, webhooks or PostedWebhooks()),
        )

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
                "schedules.missed", self._missed, "What was due while no host ran.", NOTHING,
                audience="operator", effect="read", risk="low",
            ),
            offered(
                "schedules.adopt", self._adopt, "Accept the schedules that a skill's file declares.",
                _object(skill=_NAME), audience="operator",
            ),
        )  # fmt: skip

    async def run(self) -> None:
        """In the host, until cancelled."""
        with self._events.listening(self._heard):
            await self._tidy()
            async with anyio.create_task_group() as tasks:
                before = time.time()
                while True:
                    now = time.time()
                    sleep = _LONGEST_SLEEP
                    try:
                        sleep = await self._round(tasks, now, back=now < before - 1)
                    except MetierError as error:
                        _log.warning("schedules cannot be looked at: %s", error.message)
                    before = now
                    await self._watch.wait(sleep)

    async def _tidy(self) -> None:
        try:
            if number := await to_thread.run_sync(schedule_store.cut_off, self._store):
                _log.warning(
                    "%d scheduled calls were cut off when the host ended; they are not done again", number
                )
        except MetierError as error:
            _log.warning("schedules cannot be looked at: %s", error.message)

    async def _round(self, tasks: TaskGroup, now: float, *, back: bool) -> float:
        """Begin what is due. Seconds until somebody has to look again."""
        sleep = _LONGEST_SLEEP
        for kept in await to_thread.run_sync(schedule_store.all_schedules, self._store):
            schedule = kept.schedule
            if schedule is None or not kept.enabled or kept.next_due is None:
                continue
            if kept.next_due <= now:
                taken = await to_thread.run_sync(self._take, kept, schedule, now)
                if taken is not None:
                    tasks.start_soon(self._fire, kept, schedule, *taken)
                sleep = 0.0
            elif back:  # the clock was set back: what would have been next for it is far off
                await to_thread.run_sync(self._earlier, kept, schedule, now)
                sleep = 0.0
            else:
                sleep = min(sleep, kept.next_due - now)
        return sleep

    def _take(self, kept: KeptSchedule, schedule: AnySchedule, now: float) -> tuple[float, int] | None:
        """Claim what is due: the moment and the firing."""
        since = kept.next_due if kept.next_due is not None else now
        restored = schedule_store.restored_at(self._store)
        due, missed, count = overdue(schedule, since, now, kept.created_at, restored)
        following = next_due(schedule, now, kept.created_at)
        why = BROUGHT_BACK if missed and missed[-1] <= restored else NO_HOST
        number = schedule_store.claim(self._store, kept, due, missed, count, following, why)
        return (due, number) if due is not None and number else None

    def _earlier(self, kept: KeptSchedule, schedule: AnySchedule, now: float) -> None:
        due = next_due(schedule, now, kept.created_at)
        if due is not None and kept.next_due is not None and due < kept.next_due:
            schedule_store.moved(self._store, kept, due)

    async def _fire(self, kept: KeptSchedule, schedule: AnySchedule, due: float, number: int) -> None:
        try:
            if kept.id in self._busy:
                told = "skipped: the one before it still runs"
                await to_thread.run_sync(ended, self._store, "schedule", kept.id, number, told, "")
                return
            self._busy.add(kept.id)
            try:
                await self._firing.fire(kept, schedule, due, number)
            finally:
                self._busy.discard(kept.id)
        except MetierError as error:
            _log.warning("schedule %s: %s", kept.id, error.message)
        except Exception:  # noqa: BLE001  one schedule that fails must not end the others
            _log.exception("schedule %s failed", kept.id)

    def _heard(self, happened: Happened) -> None:
        """Which sessions are open."""
        if happened.source != OURS or not isinstance(happened.payload, dict):
            return
        session = str(happened.payload.get("session"))
        if happened.name == "session_start":
            self._firing.sessions.add(session)
        elif happened.name == "session_end":
            self._firing.sessions.discard(session)

    async def _create(self, asked: Asked) -> Json:
        made = await to_thread.run_sync(self._put, asked, asked.arguments["schedule"], "")
        self._watch.poke()
        return made

    def _put(self, asked: Asked, value: Json, skill: str) -> Json:
        try:
            strictjson.check(value)
        except ValueError as error:
            raise OperationError(BAD, f"this is no schedule: {error}") from None
        schedule = read(value)
        id = f"sch_{secrets.token_hex(8)}"  # never one that was used before: grants are given to ids
        owner = asked.principal.id
        due = schedule_store.stored(self._store, id=id, owner=owner, skill=skill, schedule=schedule)
        return {"id": id, "name": schedule.name, "enabled": schedule.enabled, "next_due": _iso(due)}

    async def _list(self, asked: Asked) -> Json:
        kept = await to_thread.run_sync(schedule_store.all_schedules, self._store)
        return {"schedules": [_view(each) for each in kept], "most_enabled": schedule_store.MOST_ENABLED}

    async def _get(self, asked: Asked) -> Json:
        kept = await self._one(asked)
        last = await to_thread.run_sync(firings, self._store, "schedule", kept.id, _SHOWN)
        view = _view(kept)
        view["firings"] = [_firing(each) for each in last]
        return view

    async def _enable(self, asked: Asked) -> Json:
        kept = await self._his(asked, "enable")
        if kept.schedule is None:
            raise OperationError(BAD, kept.problem)
        due = await to_thread.run_sync(schedule_store.enable, self._store, kept, kept.schedule)
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
        due = time.time()
        number = await to_thread.run_sync(schedule_store.tried_again, self._store, kept.id, due, 1)
        outcome = await self._firing.call(kept, schedule, due, parent=asked.call_id)
        said = told_of(outcome)
        await to_thread.run_sync(ended, self._store, "schedule", kept.id, number, said, outcome.call_id)
        value = outcome.value if isinstance(outcome, Completed) else None
        return {"id": kept.id, "name": kept.name, "outcome": said, "call_id": outcome.call_id, "value": value}

    async def _missed(self, asked: Asked) -> Json:
        def look() -> list[Json]:
            rows: list[Json] = []
            for kept in schedule_store.all_schedules(self._store):
                latest = firings(self._store, "schedule", kept.id, 1_000)
                moments: list[Json] = []
                moments += [_iso(each.due) for each in latest if each.outcome == "missed"][:_SHOWN]
                if kept.missed:
                    rows.append({"id": kept.id, "name": kept.name, "missed": kept.missed, "latest": moments})
            return rows

        return {"missed": await to_thread.run_sync(look)}

    async def _adopt(self, asked: Asked) -> Json:
        skill = str(asked.arguments["skill"])
        found = declared_by(self._catalog(), skill, "schedules")

        def put() -> list[Json]:
            for each in found:
                read(each)  # all of them or none
            return [self._put(asked, each, skill) for each in found]

        made = await to_thread.run_sync(put)
        self._watch.poke()
        return {"skill": skill, "adopted": made}

    async def _one(self, asked: Asked) -> KeptSchedule:
        return await to_thread.run_sync(schedule_store.one_schedule, self._store, str(asked.arguments["id"]))

    async def _his(self, asked: Asked, what: str) -> KeptSchedule:
        """His own, or anybody's for the owner of the machine, who may everything that others may."""
        kept = await self._one(asked)
        if asked.principal.id not in (kept.owner, self._owner):
            shown = one_line(kept.owner, 60)
            raise OperationError(FORBIDDEN, f"{shown} set it up, and it acts for him: only he may {what} it")
        return kept


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


def _firing(each: Fired) -> dict[str, Json]:
    outcome = each.outcome or "under way"
    return {"due": _iso(each.due), "attempt": each.attempt, "call_id": each.call_id, "outcome": outcome}


def _iso(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
