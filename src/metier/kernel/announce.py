"""Approvers are told that something waits for their word, reminded before it expires, and told how it ended.

Only the host does this. Several requests that come close together are told at once. Each way has its own pace: one that fails is
tried again and holds up no other. What was told is kept, so a restart tells nothing twice.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, final

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

import metier.kernel.announce_rows as rows
from metier.config.settings import Settings
from metier.errors import MetierError
from metier.kernel.announce_ways import MOST_AT_ONCE, Announcer
from metier.kernel.delivery_ports import Never, NotNow, attempt
from metier.kernel.delivery_watch import Watch
from metier.kernel.events import Events, Happened
from metier.kernel.store import Store
from metier.model.approval import Approval
from metier.model.instant import seconds_of
from metier.record.approvals import approval_in, approvals_in
from metier.record.database import Database

SECONDS: Final = 30.0
"""How long one announcement may take."""
_LOOK_SECONDS: Final = 5.0
_FIRST_PAUSE: Final = 5.0
_LONGEST_PAUSE: Final = 300.0
_log: Final = logging.getLogger("metier.announce")


@final
class Announcements:
    """Belongs to one loop. `run` is for the host."""

    def __init__(
        self, store: Store, database: Database, events: Events, settings: Callable[[], Settings]
    ) -> None:
        """`database` is the record: requests are looked up there, whichever process made them."""
        self._store = store
        self._database = database
        self._events = events
        self._settings = settings
        self._ways: list[_Way] = []
        self._running: TaskGroup | None = None

    def add(self, announcer: Announcer) -> None:
        """Have approvers told by this way too, from now on."""
        way = _Way(announcer, self._store, self._database, self._settings)
        self._ways.append(way)
        if self._running is not None:
            self._running.start_soon(way.run)

    async def run(self) -> None:
        """Tell whoever is to be told, until cancelled."""
        with self._events.listening(self._heard):
            async with anyio.create_task_group() as running:
                self._running = running
                try:
                    for way in self._ways:
                        running.start_soon(way.run)
                    await anyio.sleep_forever()
                finally:
                    self._running = None

    def _heard(self, happened: Happened) -> None:
        if happened.name.startswith("approvals.") and happened.source == "metier":
            for way in self._ways:
                way.poke()


@final
class _Way:
    """One announcer and whom it tells."""

    def __init__(
        self, announcer: Announcer, store: Store, database: Database, settings: Callable[[], Settings]
    ) -> None:
        self._announcer = announcer
        self._store = store
        self._database = database
        self._settings = settings
        self._watch = Watch(database.data_version)
        self._seen: dict[str, float] = {}
        """By approval: when it was first seen here, so that what comes close together is told at once."""
        self._later: dict[tuple[str, str], tuple[float, float]] = {}
        """By recipient, and by the approval of which only its end cannot be told: not before this moment, and how long the pause was.
        The end of one must not keep what is new from him."""
        self._failed: Counter[tuple[str, str]] = Counter()
        """By recipient and approval: how often it could not be told. What fails again and again comes last, and keeps nothing else."""

    def poke(self) -> None:
        """Something was asked or decided."""
        self._watch.poke()

    async def run(self) -> None:
        """Until cancelled."""
        started = False
        while True:
            pause = _LOOK_SECONDS
            try:
                if not started:
                    await to_thread.run_sync(rows.forget_old, self._store, time.time())
                    started = True
                pause = await self._round()
            except MetierError as problem:
                _log.warning("what waits for somebody's word cannot be looked at: %s", problem.message)
            await self._watch.wait(pause)

    async def _round(self) -> float:
        """Tell everybody what is to be told now. Gives for how long nothing will be."""
        way = self._announcer.way
        pending = await to_thread.run_sync(self._pending)
        told = await to_thread.run_sync(rows.open_announcements, self._store, way)
        by_id = {each.id: each for each in pending}
        now = time.monotonic()
        self._seen = {id: self._seen.get(id, now) for id in by_id}
        open_ones = by_id.keys() | {each.approval for each in told}
        self._failed = Counter({key: count for key, count in self._failed.items() if key[1] in open_ones})
        self._later = {key: later for key, later in self._later.items() if key[1] in open_ones or not key[1]}
        pause = _LOOK_SECONDS
        for recipient in self._announcer.recipients():
            if (until := self._held_until(recipient)) > now:
                pause = min(pause, until - now)
                continue
            known = {each.approval: each for each in told if each.recipient == recipient}
            try:
                pause = min(
                    pause, await self._new(recipient, [each for each in pending if each.id not in known])
                )
            except NotNow as later:
                self._put_off(recipient, later)
            try:
                await self._remind(
                    recipient, [by_id[id] for id, each in known.items() if id in by_id and not each.reminded]
                )
            except NotNow as later:
                self._put_off(recipient, later)
        await self._ends([each for each in told if each.approval not in by_id])
        return pause

    async def _new(self, recipient: str, waiting: Sequence[Approval]) -> float:
        """Tell of requests that are new to him, once they had time to gather. Gives how long that still takes."""
        way = self._announcer.way
        over = await to_thread.run_sync(
            rows.over_for, self._store, way, recipient, [each.id for each in waiting]
        )
        items = [each for each in waiting if each.id not in over]
        if not items:
            return _LOOK_SECONDS
        gathered = time.monotonic() - min(self._seen[each.id] for each in items)
        if (left := self._settings().announce.batch_seconds - gathered) > 0:
            return left
        for some in self._parts(recipient, items):
            given = await self._told(recipient, some, reminder=False)
            references = _references(some, given)
            await to_thread.run_sync(
                partial(
                    rows.announced, self._store, way, recipient, references, time.time(), done=given is None
                )
            )
        return 0.0 if len(items) > MOST_AT_ONCE else _LOOK_SECONDS

    async def _remind(self, recipient: str, waiting: Sequence[Approval]) -> None:
        """Tell once more of what he was told and is about to expire."""
        now, before = time.time(), self._settings().announce.remind_minutes * 60
        items = [each for each in waiting if before and now >= _remind_at(each, before)]
        for some in self._parts(recipient, items):
            references = _references(some, await self._told(recipient, some, reminder=True))
            await to_thread.run_sync(rows.reminded, self._store, self._announcer.way, recipient, references)

    def _parts(self, recipient: str, items: Sequence[Approval]) -> list[Sequence[Approval]]:
        """What is told now, as one announcement each."""
        ordered = sorted(items, key=lambda each: self._failed[recipient, each.id])[:MOST_AT_ONCE]
        size = self._announcer.at_once
        return [ordered[start : start + size] for start in range(0, len(ordered), size)]

    async def _told(
        self, recipient: str, items: Sequence[Approval], *, reminder: bool
    ) -> "Mapping[str, str] | None":
        """What the announcer gives back; None when it is in vain.

        Raises:
            NotNow: when it is to be tried again.
        """
        try:
            given = await attempt(
                lambda: self._announcer.announce(recipient, items, reminder=reminder),
                SECONDS,
                f"announcing by {self._announcer.way}",
            )
        except NotNow:
            self._failed.update((recipient, each.id) for each in items)
            raise
        except Never as never:
            ids = ", ".join(each.id for each in items)
            _log.warning("%s: not announced by %s: %s", ids, self._announcer.way, never.why)
            return None
        self._later.pop((recipient, ""), None)
        return given

    async def _ends(self, over: Sequence[rows.Told]) -> None:
        """Tell of what is over. Whom one could not be told of is not tried with the others now: what is new to him comes before them."""
        failed: set[str] = set()
        for each in sorted(over, key=lambda told: self._failed[told.recipient, told.approval]):
            held = max(self._held_until(each.recipient), self._held_until(each.recipient, each.approval))
            if each.recipient not in failed and held <= time.monotonic() and not await self._over(each):
                failed.add(each.recipient)

    async def _over(self, told: rows.Told) -> bool:
        """Tell how one ended; whether it is done with."""
        way = self._announcer.way
        approval = await to_thread.run_sync(self._find, told.approval)
        if approval is not None:
            try:
                await attempt(
                    lambda: self._announcer.decided(told.recipient, approval, told.references),
                    SECONDS,
                    f"telling by {way} how it ended",
                )
            except NotNow as later:
                self._failed[told.recipient, told.approval] += 1
                self._put_off(told.recipient, later, "" if later.seconds else told.approval)
                return False
            except Never as never:
                _log.warning("how %s ended is not told by %s: %s", told.approval, way, never.why)
            else:
                self._later.pop((told.recipient, ""), None)
        await to_thread.run_sync(rows.closed, self._store, way, told.recipient, told.approval)
        return True

    def _held_until(self, recipient: str, approval: str = "") -> float:
        return self._later.get((recipient, approval), (0.0, 0.0))[0]

    def _put_off(self, recipient: str, later: NotNow, approval: str = "") -> None:
        """As long as was asked for; else longer each time, for as long as nothing gets through."""
        key = (recipient, approval)
        before = self._later.get(key, (0.0, 0.0))[1]
        grown = min(max(2 * before, _FIRST_PAUSE), _LONGEST_PAUSE)
        pause = max(_FIRST_PAUSE, min(later.seconds, 3_600.0)) if later.seconds else grown
        if key not in self._later:
            _log.warning("announcing by %s has to wait: %s", self._announcer.way, later.why)
        self._later[key] = (time.monotonic() + pause, before if later.seconds else grown)

    def _pending(self) -> list[Approval]:
        with self._database.reading() as connection:
            return [each for each in approvals_in(connection) if each.state == "pending"]

    def _find(self, approval: str) -> Approval | None:
        with self._database.reading() as connection:
            return approval_in(connection, approval)


def _references(items: Sequence[Approval], given: Mapping[str, str] | None) -> dict[str, str]:
    return {each.id: (given or {}).get(each.id, "")[:500] for each in items}


def _remind_at(approval: Approval, before: float) -> float:
    """When to remind: so long before its end, but not before half of its time is over."""
    asked, ends = seconds_of(approval.asked_at), approval.ends
    return max(ends - before, (asked + ends) / 2 if asked else 0.0)
