"""How often things may fire, and how long a chain may get in which one firing sets off the next. Belongs to one loop."""

import time
from collections import OrderedDict, deque
from typing import Final, final

DEEPEST: Final = 4
"""How many firings may lie one behind the other: event, trigger, call, event, and so on."""
MOST_ROUNDS: Final = 16
"""The same, where it can only be guessed that one set off the other: a skill that is told to do something by a firing tells an event
meanwhile, or right after. One that has much to tell does so anyway, so the bound is wider."""
PER_SOURCE: Final = 120
"""Firings a minute that one chat, one skill or one caller may set off, over all triggers."""
_MINUTE: Final = 60.0
_MOST_SOURCES: Final = 4_096
RIGHT_AFTER: Final = 0.2
"""Seconds for which what a skill tells by itself counts as set off by the firing that had it work."""


@final
class Rates:
    """What fired in the last minute."""

    def __init__(self) -> None:
        self._triggers: dict[str, deque[float]] = {}
        self._sources: OrderedDict[str, deque[float]] = OrderedDict()
        self._last: dict[str, float] = {}

    def refused(self, what: str, source: str, *, cooldown: float, per_minute: int, last_fired: float) -> str:
        """Why it may not fire now; empty where it may, and then it is counted."""
        now = time.monotonic()
        since = now - self._last[what] if what in self._last else max(time.time() - last_fired, 0.0)
        if since < cooldown:
            return f"it rests for {cooldown:g} s after each firing"
        mine = _of_the_minute(self._triggers.setdefault(what, deque()), now)
        if len(mine) >= per_minute:
            return f"it fired {per_minute} times in the last minute, which is the most"
        theirs = self._sources.setdefault(source, deque())
        self._sources.move_to_end(source)
        most = max(PER_SOURCE, per_minute)
        if len(_of_the_minute(theirs, now)) >= most:
            return f"{source} set off {most} firings in the last minute, which is the most"
        if len(self._sources) > _MOST_SOURCES:
            self._sources.popitem(last=False)
        mine.append(now)
        theirs.append(now)
        self._last[what] = now
        return ""

    def forget(self, what: str) -> None:
        """It is there no more."""
        self._triggers.pop(what, None)
        self._last.pop(what, None)


@final
class Guesses:
    """Which skills work for firings: what they tell meanwhile, or right after, may be set off by those. What is known need not be
    guessed (`Call.cause`)."""

    def __init__(self) -> None:
        self._under_way: dict[str, list[int]] = {}
        self._ended: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def begin(self, who: tuple[str, ...], rounds: int) -> None:
        """A firing begins behind which so many lie, and these work for it."""
        for each in who:
            self._under_way.setdefault(each, []).append(rounds)

    def end(self, who: tuple[str, ...], rounds: int) -> None:
        """It ends."""
        for each in who:
            running = self._under_way[each]
            running.remove(rounds)
            if not running:
                del self._under_way[each]
            self._ended[each] = (rounds, time.monotonic())
            self._ended.move_to_end(each)
            if len(self._ended) > _MOST_SOURCES:
                self._ended.popitem(last=False)

    def behind(self, who: str) -> int:
        """How many firings may lie behind what `who` does now."""
        most = max(self._under_way.get(who, ()), default=0)
        rounds, at = self._ended.get(who, (0, 0.0))
        return max(most, rounds if time.monotonic() - at < RIGHT_AFTER else 0)


def _of_the_minute(times: deque[float], now: float) -> deque[float]:
    while times and now - times[0] > _MINUTE:
        times.popleft()
    return times
