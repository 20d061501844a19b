"""Rounds in which everything that is compared takes its turn, begun only while the machine is quiet.

A case is timed with cold caches, as a call between other work has them: the one before it was something else.
"""

import gc
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from statistics import median, quantiles
from typing import NamedTuple

import anyio

QUIET_SECONDS = 0.04
BUSY_MOST = 0.2
PATIENCE_SECONDS = 3.0
"""How long a round waits for a quiet moment; then it begins all the same and is counted as such."""
BASELINE = "posix_spawn /bin/true"


class Turn(NamedTuple):
    """Something that is timed in every `every`-th round. It gives the seconds it took."""

    name: str
    run: Callable[[], Awaitable[float]]
    every: int = 1


class Seconds(NamedTuple):
    """What the rounds found."""

    times: dict[str, list[float]]
    restless: int
    """Rounds that began although the machine was busy."""

    def median(self, name: str) -> float:
        return median(self.times[name])

    def p90(self, name: str) -> float:
        return percentile(self.times[name], 90)

    def best(self, name: str) -> float:
        return min(self.times[name])

    def ratio(self, name: str) -> float:
        """How many times as long as starting a process that does nothing."""
        return self.median(name) / self.median(BASELINE)


def percentile(seconds: Sequence[float], rank: int) -> float:
    return quantiles(seconds, n=100, method="inclusive")[rank - 1] if len(seconds) > 1 else seconds[0]


async def rounds(turns: Sequence[Turn], count: int) -> Seconds:
    """Time all of them, the baseline among them, `count` times over."""
    times: dict[str, list[float]] = {BASELINE: [], **{turn.name: [] for turn in turns}}
    restless = 0
    gc.disable()
    try:
        for number in range(count):
            gc.collect()
            restless += not await _quiet()
            for _ in range(2):
                spawn()
            times[BASELINE].append(spawn())
            for turn in turns:
                if number % turn.every == 0:
                    times[turn.name].append(await turn.run())
    finally:
        gc.enable()
    return Seconds(times, restless)


def spawn() -> float:
    """The least that starting any program costs."""
    start = time.perf_counter()
    os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
    return time.perf_counter() - start


async def _quiet() -> bool:
    """Wait until the processors were nearly idle for a moment; False when that moment did not come."""
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        busy, total = _ticks()
        # The kernel counts in steps of 10 ms, so one look after 40 ms would see a single step as a quarter.
        await anyio.sleep(2 * QUIET_SECONDS)
        more_busy, more_total = _ticks()
        if more_busy - busy <= BUSY_MOST * (more_total - total):
            return True
    return False


def _ticks() -> tuple[int, int]:
    with open("/proc/stat", encoding="ascii") as file:
        numbers = [int(each) for each in file.readline().split()[1:9]]
    idle = numbers[3] + numbers[4]
    return sum(numbers) - idle, sum(numbers)
