"""Kills a host in the middle of its runs, several times, and says what is alive a second later.

killed.py WALL FOLDER            does that
killed.py --host WALL FOLDER     is the host
"""

import json
import os
import subprocess
import sys
from typing import Final

import anyio
import census
import kinds
from msgspec.structs import replace
from storm import absent, sandboxes

from metier.model.digest import Json
from metier.model.ports import Answered, NotAnswered

ROUNDS: Final = 3
LONG: Final = 1000.0
UNDER_WAY: Final = ("native many", "native deaf", "python sleeping", "python daemons")
CHURNING: Final = ("native good", "python good")


class Tells:
    """A host that never answers, but tells that it was asked."""

    def __init__(self) -> None:
        self.asked = anyio.Event()

    async def ask(self, method: str, params: dict[str, Json]) -> Answered | NotAnswered:
        self.asked.set()
        await anyio.sleep_forever()
        return Answered()


async def host(wall: str, folder: str) -> None:
    """Runs that wait, runs that come and go, and what is kept warm for more of them. Ends only by force."""
    async with sandboxes(wall, folder) as every:
        named = {kind.name: kind for kind in every}
        blocked = [kind for kind in every if kind.name.endswith(" blocked")]
        async with anyio.create_task_group() as tasks:
            for name in CHURNING:
                tasks.start_soon(_churn, named[name])
            for name in UNDER_WAY:
                job = named[name].make()
                long = replace(job, limits=replace(job.limits, timeout=LONG))
                tasks.start_soon(named[name].sandbox.run, long)
            for kind in blocked:
                tells, job = Tells(), kind.make()
                long = replace(job, host=tells, limits=replace(job.limits, timeout=LONG))
                tasks.start_soon(kind.sandbox.run, long)
                await tells.asked.wait()
            while sum("sleep 1000" in each for each in census.alive(census.below(os.getpid()))) < 8:
                await anyio.sleep(0.02)
            print("under way", flush=True)


async def _churn(kind: kinds.Kind) -> None:
    while True:
        await kind.sandbox.run(kind.make())


def killed(wall: str, folder: str) -> tuple[int, list[str]]:
    """How many processes there were, and what is left of them."""
    argv = [sys.executable, os.path.abspath(__file__), "--host", wall, folder]
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert child.stdout
    said = child.stdout.readline()
    before = len(census.alive(census.below(child.pid))) if said else 0
    child.kill()
    child.wait()
    child.stdout.close()

    def look() -> list[str]:
        census.bury()
        return census.alive(census.below(os.getpid()))

    return before, census.within(1.0, look)


def main() -> None:
    if sys.argv[1] == "--host":
        anyio.run(host, *sys.argv[2:])
        return
    wall, folder = sys.argv[1:]
    why = absent(wall)
    if why:
        print(json.dumps({"absent": why}))
        return
    census.adopt_orphans()
    rounds = [killed(wall, folder) for _ in range(ROUNDS)]
    left = [each for _, found in rounds for each in found]
    print(json.dumps({"before": min(before for before, _ in rounds), "expected": 12, "left": left}))


if __name__ == "__main__":
    main()
