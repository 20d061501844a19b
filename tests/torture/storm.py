"""Runs many sandboxes of every temper, several at once, then says what is left of them. Two programs of its own, one
around the other, so that what they count is theirs; `test_thousand_runs.py` starts it.

    storm.py WALL RUNS SEED FOLDER
"""

import gc
import json
import math
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import census
import kinds

from metier.sandbox import cgroup
from metier.sandbox.bubblewrap import Bubblewrap
from metier.sandbox.deno import DenoSandbox
from metier.sandbox.landlock import Landlock
from metier.sandbox.native import NativeSandbox
from metier.sandbox.python import PythonSandbox
from metier.sandbox.wasm import WasmSandbox

AT_ONCE = 4
CANCELLED = 0.2
"""The share of runs that their caller gives up, at any moment of theirs."""
LATE = 1.0
STUCK = 40.0
"""Longer than any run may take here."""


class Storm:
    """What happened."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)  # noqa: S311  the same storm again for the same seed
        self.endings: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.late: list[str] = []
        self._under_way: dict[int, tuple[str, float]] = {}
        self._number = 0

    async def go(self, every: list[kinds.Kind], runs: int) -> None:
        """Every kind at least once, if there are runs enough, in any order."""
        todo = [every[number % len(every)] for number in range(runs)]
        self.dice.shuffle(todo)

        async def work() -> None:
            while todo:
                await self._one(todo.pop())

        async with anyio.create_task_group() as watching:
            watching.start_soon(self._watch)
            async with anyio.create_task_group() as tasks:
                for _ in range(AT_ONCE):
                    tasks.start_soon(work)
            watching.cancel_scope.cancel()

    async def _watch(self) -> None:
        """A run that never comes back cannot be cancelled either, so the program ends here and names it."""
        while True:
            await anyio.sleep(1)
            stuck = [name for name, since in self._under_way.values() if time.monotonic() - since > STUCK]
            if stuck:
                print("never came back:", ", ".join(stuck), file=sys.stderr, flush=True)
                os._exit(3)

    async def _one(self, kind: kinds.Kind) -> None:
        job = kind.make()
        # From a tenth of a millisecond on: a start has as many moments as all the rest of a run.
        given_up = self.dice.random() < CANCELLED
        patience = 10 ** self.dice.uniform(-4, -0.5) if given_up else math.inf
        began = time.monotonic()
        number = self._number = self._number + 1
        self._under_way[number] = (f"{kind.name} with a patience of {patience:.4f} s", began)
        try:
            with anyio.move_on_after(patience) as scope:
                report = await kind.sandbox.run(job)
        except Exception as error:  # noqa: BLE001  a backend that raises is what we are looking for
            self.wrong.append(f"{kind.name} raised {error!r}"[:400])
            return
        finally:
            del self._under_way[number]
        took = time.monotonic() - began
        if scope.cancelled_caught:
            self.endings["cancelled"] += 1
            self._in_time(kind, took, patience)
            return
        self.endings[report.ending] += 1
        if report.ending not in kind.endings:
            self.wrong.append(f"{kind.name} ended as {report.ending}: {report.fault} {report.stderr[-200:]}")
        if report.ending == "timed_out":
            self._in_time(kind, took, job.limits.timeout)

    def _in_time(self, kind: kinds.Kind, took: float, limit: float) -> None:
        if took > limit + LATE:
            self.late.append(f"{kind.name}: {took:.2f} s with a limit of {limit:.2f} s")


def wall_of(name: str) -> Bubblewrap | Landlock:
    groups = cgroup.find()
    return Bubblewrap(groups=groups) if name == "bubblewrap" else Landlock(groups=groups)


def absent(name: str) -> str:
    """Why there is no such wall here, or nothing."""

    async def look() -> str:
        wall = wall_of(name)
        try:
            lacking = wall.missing()
            return "" if wall.guarantees() else f"no {name} here: {lacking[0].what}: {lacking[0].why}"
        finally:
            await wall.aclose()

    return anyio.run(look)


@asynccontextmanager
async def sandboxes(wall_name: str, folder: str) -> AsyncIterator[list[kinds.Kind]]:
    """Everything that can run here, closed afterwards."""
    wall = wall_of(wall_name)
    native, python = NativeSandbox(wall), PythonSandbox(wall)
    work, modules = (os.path.join(folder, name) for name in ("work", "modules"))
    for each in (work, modules):
        os.makedirs(each, exist_ok=True)
    every = [*kinds.native(native, work), *kinds.code(python, "python", kinds.PYTHON)]
    deno = DenoSandbox(wall, cache=os.path.join(folder, "engine"))
    wasm = WasmSandbox(os.path.join(folder, "machine-code"))
    if deno.guarantees():
        every += kinds.code(deno, "javascript", kinds.JAVASCRIPT)
    if wasm.guarantees():
        every += kinds.wasm(wasm, modules)
    try:
        yield every
    finally:
        for each in (native, python, deno, wasm, wall):
            await each.aclose()


async def storm(wall_name: str, runs: int, seed: int, folder: str) -> dict[str, Any]:
    first, then = Storm(seed), Storm(seed + 1)
    names = await _through(first, wall_name, folder, 0)
    before = counted()
    await _through(then, wall_name, folder, runs)
    after = counted()
    return {
        "kinds": names,
        "runs": sum(then.endings.values()) + len(then.wrong),
        "endings": dict(then.endings),
        "wrong": [*first.wrong, *then.wrong],
        "late": [*first.late, *then.late],
        "mounts": more(before["mounts"], after["mounts"]),
        "descriptors": more(before["descriptors"], after["descriptors"]),
        "temporary": os.listdir(os.environ["TMPDIR"]),
        "memory_mb": round(after["memory_mb"] - before["memory_mb"], 1),
    }


async def _through(one: Storm, wall_name: str, folder: str, runs: int) -> int:
    """A storm with sandboxes of its own, at least as long as there are kinds of runs."""
    async with sandboxes(wall_name, folder) as every:
        await one.go(every, runs or len(every))
        return len(every)


def counted() -> dict[str, Any]:
    gc.collect()
    return {"mounts": census.mounts(), "descriptors": census.descriptors(), "memory_mb": census.memory_mb()}


def more(before: list[str], after: list[str]) -> list[str]:
    return sorted((Counter(after) - Counter(before)).elements())


def inside(wall: str, runs: str, seed: str, folder: str) -> dict[str, Any]:
    """The storm itself, and what it still has in its own hands: the dead that it did not wait for count as well."""
    found = anyio.run(storm, wall, int(runs), int(seed), folder)
    found["processes"] = census.within(1.0, lambda: [f"{pid} of ours" for pid in census.below(os.getpid())])
    found["groups"] = census.within(1.0, census.groups)
    return found


def around(arguments: list[str]) -> dict[str, Any]:
    """A program around the storm, to which everything falls that the storm lost."""
    census.adopt_orphans()
    child = subprocess.Popen(
        [sys.executable, os.path.abspath(__file__), "--inside", *arguments], stdout=subprocess.PIPE
    )
    said, _ = child.communicate()
    if child.returncode:
        sys.exit(child.returncode)
    found = json.loads(said)

    def look() -> list[str]:
        census.bury()
        return census.alive(census.below(os.getpid()))

    found["processes"] += census.within(1.0, look)
    return found


def main() -> None:
    arguments = sys.argv[1:]
    if arguments[0] == "--inside":
        print(json.dumps(inside(*arguments[1:])))
    elif why := absent(arguments[0]):
        print(json.dumps({"absent": why}))
    else:
        print(json.dumps(around(arguments)))


if __name__ == "__main__":
    main()
