"""The clock behind schedules: begins what is due.

One process runs it. It looks at the wall, not at how long it slept, so a machine that slept or whose clock was set notices; what is
due is claimed in the file before it is done, so nothing is done twice; what nobody was there for is written down as missed.
"""

import logging
import time
from typing import Final, final

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from metier.errors import MetierError
from metier.kernel import schedule_store
from metier.kernel.delivery_watch import Watch
from metier.kernel.firing_store import ended
from metier.kernel.schedule import AnySchedule
from metier.kernel.schedule_clock import next_due, overdue
from metier.kernel.schedule_firing import ScheduleFiring
from metier.kernel.schedule_store import BROUGHT_BACK, NO_HOST, KeptSchedule
from metier.kernel.store import Store

_LONGEST_SLEEP: Final = 15.0
"""Seconds after which the clock on the wall is looked at again, whatever is due when."""
_log: Final = logging.getLogger("metier.schedules")


@final
class Rounds:
    """Belongs to one loop; the host's."""

    def __init__(self, store: Store, watch: Watch, firing: ScheduleFiring) -> None:
        self._store = store
        self._watch = watch
        self._firing = firing
        self._busy: set[str] = set()
        self._next: dict[str, tuple[float, float]] = {}
        """What each is due next, and when that was last looked at."""

    async def run(self) -> None:
        """In the host, until cancelled."""
        await self._tidy()
        async with anyio.create_task_group() as tasks:
            while True:
                sleep = _LONGEST_SLEEP
                try:
                    sleep = await self._round(tasks, time.time())
                except MetierError as error:
                    _log.warning("schedules cannot be looked at: %s", error.message)
                await self._watch.wait(sleep)

    async def _tidy(self) -> None:
        try:
            if number := await to_thread.run_sync(schedule_store.cut_off, self._store):
                _log.warning(
                    "%d scheduled calls were cut off when the host ended; they are not done again", number
                )
        except MetierError as error:
            _log.warning("schedules cannot be looked at: %s", error.message)

    async def _round(self, tasks: TaskGroup, now: float) -> float:
        """Begin what is due. Seconds until somebody has to look again."""
        sleep = _LONGEST_SLEEP
        found = await to_thread.run_sync(schedule_store.all_schedules, self._store)
        self._next = {each.id: self._next[each.id] for each in found if each.id in self._next}
        for kept in found:
            schedule = kept.schedule
            if schedule is None or not kept.enabled or kept.next_due is None:
                continue
            if kept.next_due <= now:
                taken = await to_thread.run_sync(self._take, kept, schedule, now)
                if taken is not None:
                    tasks.start_soon(self._fire, kept, schedule, *taken)
                sleep = 0.0
            elif not self._is_next(kept, now) and await to_thread.run_sync(self._sooner, kept, schedule, now):
                sleep = 0.0
            else:
                self._next[kept.id] = (kept.next_due, now)
                sleep = min(sleep, kept.next_due - now)
        return sleep

    def _is_next(self, kept: KeptSchedule, now: float) -> bool:
        """Whether it is known that nothing is due before what is kept: that was looked at, and the clock only went on since."""
        due, looked_at = self._next.get(kept.id, (None, now))
        return due == kept.next_due and looked_at <= now

    def _take(self, kept: KeptSchedule, schedule: AnySchedule, now: float) -> tuple[float, int] | None:
        """Claim what is due: the moment and the firing."""
        since = schedule_store.accounted_until(self._store, kept, schedule, now)
        restored = schedule_store.restored_at(self._store)
        due, missed, count = overdue(schedule, since, now, kept.created_at, restored)
        following = next_due(schedule, now, kept.created_at)
        why = BROUGHT_BACK if missed and missed[-1] <= restored else NO_HOST
        number = schedule_store.claim(self._store, kept, due, missed, count, following, why)
        return (due, number) if due is not None and number else None

    def _sooner(self, kept: KeptSchedule, schedule: AnySchedule, now: float) -> bool:
        """Whether it is due before what is kept says, which is then set right. The clock was set back, perhaps while nobody looked."""
        due = next_due(schedule, now, kept.created_at)
        if due is None or kept.next_due is None or due >= kept.next_due:
            return False
        schedule_store.moved(self._store, kept, due)
        return True

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
