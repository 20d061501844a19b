"""The clock behind schedules: begins what is due.

One process runs it. It looks at the wall, not at how long it slept, so a machine that slept or whose clock was set notices; what is
due is claimed in the file before it is done, so nothing is done twice; what nobody was there for is written down as missed.
"""

import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, final

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from metier.errors import MetierError
from metier.kernel.delivery_watch import Watch
from metier.kernel.schedule import AnySchedule
from metier.kernel.schedule_account import set_right, take
from metier.kernel.schedule_attempts import cut_off
from metier.kernel.schedule_firing import ScheduleFiring
from metier.kernel.schedule_store import KeptSchedule, all_schedules
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
        self._next: dict[str, tuple[float | None, float]] = {}
        """What each is due next, and when that was last looked at."""
        self._was_here = False

    async def run(self) -> None:
        """In the host, until cancelled."""
        tidy = False
        async with anyio.create_task_group() as tasks:
            while True:
                sleep = _LONGEST_SLEEP
                try:
                    if not tidy:
                        await self._tidy(tasks)
                        tidy = True
                    sleep = await self._round(tasks, time.time())
                    self._was_here = True
                except MetierError as error:
                    _log.warning("schedules cannot be looked at: %s", error.message)
                await self._watch.wait(sleep)

    async def _tidy(self, tasks: TaskGroup) -> None:
        """Before anything is begun: what an earlier host left."""
        found = await to_thread.run_sync(cut_off, self._store)
        if not found:
            return
        _log.warning(
            "%d scheduled calls were cut off when the host ended; they are not done again", len(found)
        )
        there = {each.id: each for each in await to_thread.run_sync(all_schedules, self._store)}
        for each in found:
            kept = there.get(each.schedule)
            if kept is not None and kept.schedule is not None:
                tasks.start_soon(
                    self._guarded, kept.id, partial(self._firing.cut_off, kept, kept.schedule, each)
                )

    async def _round(self, tasks: TaskGroup, now: float) -> float:
        """Begin what is due. Seconds until somebody has to look again."""
        sleep = _LONGEST_SLEEP
        await self._firing.catch_up()
        found = await to_thread.run_sync(all_schedules, self._store)
        self._next = {each.id: self._next[each.id] for each in found if each.id in self._next}
        for kept in found:
            schedule = kept.schedule
            if schedule is None or not kept.enabled:
                continue
            if kept.next_due is not None and kept.next_due <= now:
                begin = partial(take, self._store, kept, schedule, now, was_here=self._was_here)
                due = await to_thread.run_sync(begin)
                if due is not None:
                    tasks.start_soon(self._guarded, kept.id, partial(self._fire, kept, schedule, due))
                sleep = 0.0
            elif not self._is_next(kept, now) and await to_thread.run_sync(
                set_right, self._store, kept, schedule, now
            ):
                sleep = 0.0
            else:
                self._next[kept.id] = (kept.next_due, now)
                sleep = min(sleep, kept.next_due - now) if kept.next_due is not None else sleep
        return sleep

    def _is_next(self, kept: KeptSchedule, now: float) -> bool:
        """Whether it is known that nothing is due before what is kept: that was looked at, and the clock only went on since."""
        known = self._next.get(kept.id)
        return known is not None and known[0] == kept.next_due and known[1] <= now

    async def _fire(self, kept: KeptSchedule, schedule: AnySchedule, due: float) -> None:
        if kept.id in self._busy:
            await self._firing.skip(kept, schedule, due, "the one before it still runs")
            return
        self._busy.add(kept.id)
        try:
            await self._firing.fire(kept, schedule, due)
        finally:
            self._busy.discard(kept.id)

    async def _guarded(self, id: str, does: Callable[[], Awaitable[None]]) -> None:
        try:
            await does()
        except MetierError as error:
            _log.warning("schedule %s: %s", id, error.message)
        except Exception:  # noqa: BLE001  one schedule that fails must not end the others
            _log.exception("schedule %s failed", id)
