"""How long a call in a sandbox takes, as multiples of starting a program that does nothing.

    python benchmarks/sandbox.py [--rounds N] [--peers DIR] [--json]

What is timed is `run(job)` of the real backends: what a caller waits for, with state that is fresh for every call,
its folders, its limits, the way to the host and back, and the sweep afterwards. Every round runs every case once.
"""

import argparse
import json
import sys
import time
from statistics import median

import anyio

import sandbox_cases as ours
import sandbox_peers as peers
from metier.model.job import Job
from sandbox_rounds import BASELINE, Seconds, Turn, percentile, rounds

ROUNDS_LEAST = 40
CROWD = 64
CROWDS = 5


class Crowd:
    """Many calls at once, commands and Python code by turns."""

    def __init__(self, on: ours.Machine) -> None:
        self._on = on
        self._folder = on.places.new()
        self.waited: list[float] = []
        """Seconds from the common start to the end of each call."""
        self.took: list[float] = []
        self.failures: list[str] = []

    async def run(self) -> None:
        """One crowd after the other; the first is as cold as it comes."""
        for _ in range(CROWDS):
            start = time.perf_counter()
            async with anyio.create_task_group() as tasks:
                for number in range(CROWD):
                    job = ours.python() if number % 2 else ours.command(self._folder)
                    tasks.start_soon(self._one, job, start)
            self.took.append(time.perf_counter() - start)

    async def _one(self, job: Job, start: float) -> None:
        try:
            sandbox = self._on.choose(job)
            if isinstance(sandbox, str):
                self.failures.append(sandbox)
                return
            report = await sandbox.run(job)
            failure = "" if report.ending == "returned" else ours.told(report)
        except Exception as error:
            failure = f"an exception: {error!r}"[:300]
        self.waited.append(time.perf_counter() - start)
        if failure:
            self.failures.append(failure)

    def lines(self) -> list[str]:
        each = [CROWD / seconds for seconds in self.took]
        shown = [
            f"{CROWD} calls at once, commands and Python code mixed, {CROWDS} times:",
            f"  {median(each):.0f} calls a second (the first time {each[0]:.0f}), waited"
            f" p50 {median(self.waited) * 1e3:.0f} ms, p99 {percentile(self.waited, 99) * 1e3:.0f} ms,"
            f" {len(self.failures)} failures",
        ]
        return [*shown, *(f"  {failure}" for failure in self.failures[:5])]


async def measured(count: int, folder: str, people: bool) -> tuple[dict[str, float], list[str], list[str]]:
    """The figures for programs, the lines for people, and what went wrong."""
    async with ours.machine() as on:
        here: list[ours.Case] = []
        turns: list[Turn] = []
        absent: dict[str, str] = {}
        for case in ours.cases(on):
            turn = await ours.ready(case, on)
            if isinstance(turn, str):
                absent[case.name] = turn
            else:
                here.append(case)
                turns.append(turn)
        if not people:
            found = await rounds(turns, count)
            return _figures(here, found), [], [f"{name}: {why}" for name, why in absent.items()]
        with peers.found(folder) as (others, missing):
            found = await rounds([*turns, *(turn for _, turn in others)], count)
            lines = _table(here, absent, found, count)
            lines += _beside([peer for peer, _ in others], missing, found)
        crowd = Crowd(on)
        await crowd.run()
        return _figures(here, found), [*lines, "", *crowd.lines()], crowd.failures


def _figures(cases: list[ours.Case], found: Seconds) -> dict[str, float]:
    figures = {case.name: round(found.ratio(case.name), 3) for case in cases}
    return {**figures, "baseline_ms": round(found.median(BASELINE) * 1e3, 3)}


def _table(cases: list[ours.Case], absent: dict[str, str], found: Seconds, count: int) -> list[str]:
    busy = f"; {found.restless} of them began while the machine was busy" if found.restless else ""
    lines = [
        f"{count} rounds, median{busy}",
        "",
        f"{'':24}{'× spawn':>9}{'limit':>8}{'ms':>9}{'p90':>9}{'best':>9}",
        _row(BASELINE, found, BASELINE, ""),
    ]
    for case in cases:
        over = " over" if found.ratio(case.name) > case.limit else ""
        lines.append(_row(case.name, found, case.name, f"{case.limit:g}") + over)
    return [*lines, *(f"{name:24}not available: {why}" for name, why in absent.items())]


def _beside(here: list[peers.Peer], missing: dict[str, str], found: Seconds) -> list[str]:
    lines = ["", "instead of it:"]
    lines += [f"{_row(peer.name, found, peer.name, '')}  {peer.about}" for peer in here]
    return [*lines, *(f"{name:24}absent: {why}" for name, why in missing.items())]


def _row(shown: str, found: Seconds, name: str, limit: str) -> str:
    each = (found.median(name), found.p90(name), found.best(name))
    return f"{shown:24}{found.ratio(name):>9.2f}{limit:>8}" + "".join(f"{s * 1e3:>9.2f}" for s in each)


def _at_least(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of rounds")
    return int(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--rounds", type=_at_least, default=ROUNDS_LEAST, metavar="N", help=f"how many ({ROUNDS_LEAST})"
    )
    parser.add_argument(
        "--peers", default=".", metavar="DIR", help="where node_modules and venv of peers lie"
    )
    parser.add_argument("--json", action="store_true", help="print one flat object, name to ratio")
    given = parser.parse_args()
    figures, lines, wrong = anyio.run(measured, given.rounds, given.peers, not given.json)
    print(json.dumps(figures) if given.json else "\n".join(lines))
    if wrong:
        sys.exit("\n".join(wrong) if given.json else 1)


if __name__ == "__main__":
    main()
