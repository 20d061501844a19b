"""Calls, asks, approves and takes up while a disk is full, with more room each time, and again when there is room.

    gate_full.py limit|disk TIMES SEED FOLDER

`limit`: no file may grow beyond a size. `disk`: FOLDER lies on a small disk of its own, and something else fills it.
"""

import json
import os
import random
import resource
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import anyio
from gate_judge import Judge, Told
from gate_place import Place
from gate_storm import DECIDER

from metier.errors import MetierError
from metier.model.approval import Approval
from metier.model.outcome import Completed, Failed, Outcome, Pending, Refused
from metier.record.database import Database
from metier.record.deciding import decide
from metier.runtime import Runtime

UNLIMITED = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


@contextmanager
def limited(place: Place, room: int) -> Iterator[None]:
    sizes = [os.path.getsize(each) for each in (place.state, f"{place.state}-wal") if os.path.exists(each)]
    resource.setrlimit(resource.RLIMIT_FSIZE, (max(sizes) + room, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, UNLIMITED)


@contextmanager
def filled(place: Place, room: int) -> Iterator[None]:
    ballast = place.machine.top / "ballast"
    with open(ballast, "wb", buffering=0) as file:
        with suppress(OSError):
            while file.write(b"x" * 4096):
                pass
        file.truncate(max(0, file.tell() - room))
        try:
            yield
        finally:
            file.truncate(0)


class Kept:
    """What was told, and how it ended."""

    def __init__(self) -> None:
        self.told: list[Told] = []
        self.ends: Counter[str] = Counter()

    def take(self, outcome: Outcome) -> Outcome:
        match outcome:
            case Completed(call_id=call):
                self.told.append(("done", call))
            case Pending(call_id=call, approval_id=approval):
                self.told.append(("pending", approval, call))
            case Refused(call_id=call, code=code) if (
                code not in ("record_unavailable", "setup_unusable") and call
            ):
                self.told.append(("refused", call))
            case _:
                pass
        self.ends[getattr(outcome, "code", "") or type(outcome).__name__.lower()] += 1
        return outcome

    async def all(self, place: Place, runtime: Runtime) -> list[Outcome]:
        """One of each kind."""
        done = self.take(await runtime.call("pour", {"name": "tea", "note": "free"}))
        # Each another act: the same, asked again, runs on a yes that could not be used before.
        another = f"asked {len(self.told)}.{self.ends.total()}"
        asked = self.take(await runtime.call("pour", {"name": "tea", "note": another}))
        if not isinstance(asked, Pending):
            return [done, asked]
        try:
            with Database.open(place.state) as database:
                made = decide(database, asked.approval_id, by=DECIDER, decision="approve")
        except MetierError:
            self.ends["not approved"] += 1
            refused = await runtime.resume(asked.approval_id)
            assert isinstance(refused, Refused), refused
            return [done, asked, refused]
        assert isinstance(made, Approval)
        self.told.append(("approved", asked.approval_id))
        return [done, asked, self.take(await runtime.resume(asked.approval_id))]


async def work(place: Place, kind: str, times: int, dice: random.Random) -> dict[str, Any]:
    full = limited if kind == "limit" else filled
    kept, judge, problems = Kept(), Judge(place.state), list[str]()
    async with place.runtime() as runtime:
        await kept.all(place, runtime)
        for number in range(times):
            before = len(place.ran())
            with full(place, dice.choice((0, dice.randrange(9_000), dice.randrange(90_000)))):
                outcomes = await kept.all(place, runtime)
            may = sum(isinstance(each, Completed | Failed) for each in outcomes)
            if len(place.ran()) - before > may:
                problems.append(f"time {number}: something ran that was refused: {outcomes}")
            then = await kept.all(place, runtime)
            if [type(each) for each in then] != [Completed, Pending, Completed]:
                problems.append(f"time {number}: with room again: {then}")
            problems += [f"time {number}: {each}" for each in judge.problems(kept.told, place.ran())]
            kept.told = []
    return {"problems": problems, "ends": dict(kept.ends), "interrupted": len(judge.interrupted)}


def main() -> None:
    kind, times, seed, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    place = Place(folder)
    place.make()
    place.use()
    dice = random.Random(seed)  # noqa: S311
    print(json.dumps(anyio.run(work, place, kind, times, dice)))


if __name__ == "__main__":
    main()
