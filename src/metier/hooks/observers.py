"""Hooks that look on: fired in the background, and never waited for by what they look at.

Each skill has a lane of its own, so its hooks are told in the order in which things happened, and one that is slow holds up no other.
What happens while too many wait in a lane is not told, and counted. When the runtime closes, those that wait have a moment.
"""

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias, final

import anyio
from anyio import CapacityLimiter
from anyio.abc import TaskGroup
from msgspec import Struct

from metier.hooks.happening import Fired

MOST_WAITING: Final = 64
"""In one lane. Each may hold as much as a tool may give back."""
AT_ONCE: Final = 4
_log: Final = logging.getLogger("metier.hooks")


@final
class Waiting(Struct, frozen=True):
    """Something that happened."""

    event: str
    """`type:action`."""
    make: Callable[[], Fired]
    """Makes the event. Called in a thread."""
    but: tuple[str, ...] = ()
    """Skills whose hooks are not told: they were asked."""


Fire: TypeAlias = Callable[[str, Waiting], Awaitable[None]]
"""Has the hooks of one lane told."""


@final
class Observers:
    """Belongs to one loop. Nothing is started before something happens."""

    def __init__(self, fire: Fire, tasks: TaskGroup) -> None:
        self._fire = fire
        self._tasks = tasks
        self._lanes: dict[str, deque[Waiting]] = {}
        """Those in which something waits or is done."""
        self._limiter = CapacityLimiter(AT_ONCE)
        self._idle: anyio.Event | None = None
        """Made when it closes, and set when nobody works any more."""
        self.dropped = 0
        """How often somebody was not told of something."""

    def busy(self, lane: str) -> bool:
        """Whether something of this lane is not done yet."""
        return lane in self._lanes

    def tell(self, lane: str, waiting: Waiting) -> None:
        """Have it told, or drop it. Never waits."""
        there = self._lanes.get(lane)
        if self._idle is not None or (there is not None and len(there) >= MOST_WAITING):
            self.dropped += 1
            if self.dropped & (self.dropped - 1) == 0:  # the first, the second, the fourth, …
                _log.warning(
                    "hooks are slower than what happens: %d events were not told to them", self.dropped
                )
            return
        if there is not None:
            there.append(waiting)
            return
        self._lanes[lane] = deque((waiting,))
        self._tasks.start_soon(self._work, lane)

    async def close(self, seconds: float) -> None:
        """Take no more; those that wait have so many seconds."""
        self._idle = anyio.Event()
        if self._lanes:
            with anyio.move_on_after(seconds):
                await self._idle.wait()
        if left := sum(map(len, self._lanes.values())):
            _log.warning("%d events were not told to hooks: the runtime was closed", left)

    async def _work(self, lane: str) -> None:
        waiting = self._lanes[lane]
        try:
            while waiting:
                async with self._limiter:
                    await self._fire(lane, waiting[0])
                waiting.popleft()
        finally:
            del self._lanes[lane]
            if not self._lanes and self._idle is not None:
                self._idle.set()
