"""The processes of a run and what they hold open, seen from outside: an engine that shows its code nothing is not asked."""

import os
import time
from collections.abc import Iterable, Sequence

import anyio

from metier.testing.sandbox_kit import leftovers
from metier.testing.sandbox_kit.bench import Bench


async def neighbours(bench: Bench, before: frozenset[str]) -> list[int]:
    """The processes of a run that has just been started, once there are no more of them than a moment ago."""
    new, since, give_up = frozenset[str](), time.monotonic(), time.monotonic() + 10
    while (not new or time.monotonic() < since + 0.2) and time.monotonic() < give_up:
        await anyio.sleep(0.02)
        now = leftovers.look().processes - before
        if now != new:
            new, since = now, time.monotonic()
    bench.need("neighbour", bool(new), "nothing was started")
    return sorted(int(each.split()[0]) for each in new)


def identities(numbers: Iterable[int]) -> dict[tuple[int, int], int]:
    """Our own descriptors, by what cannot be mistaken for anything else."""
    return {(found.st_dev, found.st_ino): number for number in numbers for found in (os.fstat(number),)}


def held(pids: Sequence[int], wanted: dict[tuple[int, int], int]) -> tuple[list[str], int]:
    """Which of the wanted ones any of the processes has open, and how many of them could be looked at."""
    found: list[str] = []
    seen = 0
    for pid in pids:
        try:
            names = os.listdir(f"/proc/{pid}/fd")
        except OSError:
            continue  # gone, or somebody whom we may not look at
        seen += 1
        for name in names:
            try:
                now = os.stat(f"/proc/{pid}/fd/{name}")
            except OSError:
                continue
            if (now.st_dev, now.st_ino) in wanted:
                found.append(f"{pid} holds our descriptor {wanted[now.st_dev, now.st_ino]} as {name}")
    return found, seen
