"""A clock that is wrong for a while: every moment of a schedule is done once, or truthfully said to be missed."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

import anyio
import pytest
from msgspec import Struct

from metier.kernel import schedule_rounds, schedule_store
from metier.kernel.schedule import AnySchedule, read
from metier.kernel.schedule_account import JUMPED, NO_HOST
from metier.kernel.schedule_clock import dues
from metier.kernel.schedule_missed import believed, moments
from metier.kernel.schedule_rounds import Rounds
from metier.kernel.schedule_store import KeptSchedule, all_schedules, one_schedule, stored
from metier.kernel.store import Store
from metier.model.digest import Json

BEGIN: Final = 1_893_456_000.0  # the first of January 2030
HOUR: Final = 3_600.0
YEAR: Final = 365 * 24 * HOUR
STEP: Final = 40.0
KINDS: Final[dict[str, dict[str, Json]]] = {
    "once": {"type": "once", "timestamp": int((BEGIN + 1.5 * HOUR) * 1_000)},
    "interval": {"type": "interval", "intervalMs": 1_500_000},
    "cron": {"type": "cron", "expression": "*/20 * * * *"},
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Firing:
    """Does nothing but write down what it should do."""

    def __init__(self) -> None:
        self.done: list[tuple[str, float]] = []

    async def catch_up(self) -> None:
        pass

    async def fire(self, kept: KeptSchedule, schedule: AnySchedule, due: float) -> None:
        self.done.append((kept.name, due))

    async def skip(self, kept: KeptSchedule, schedule: AnySchedule, due: float, why: str) -> None:
        raise AssertionError(why)


class World:
    """A machine whose clock is `ahead` of the time it really is."""

    def __init__(self, top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.really = BEGIN
        self.ahead = 0.0
        self.store = Store(str(top / "home"))
        self.firing = Firing()
        self.attended: list[tuple[float, float]] = []
        """From when to when a host ran with a right clock."""
        for module in (schedule_rounds, schedule_store):
            monkeypatch.setattr(module, "time", self)
        new = {f"sch_{name}": read({"name": name, "tool": "a/b", **about}) for name, about in KINDS.items()}
        stored(self.store, new, owner="human:me", skill="")

    def time(self) -> float:
        return self.really + self.ahead

    @asynccontextmanager
    async def host(self) -> AsyncGenerator["Host"]:
        async with anyio.create_task_group() as tasks:
            made: Any = Rounds(self.store, None, self.firing)  # type: ignore[arg-type]
            yield Host(self, made, tasks)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()


class Host:
    def __init__(self, world: World, rounds: Any, tasks: Any) -> None:
        self._world, self._rounds, self._tasks = world, rounds, tasks

    async def for_(self, seconds: float, ahead: float) -> None:
        """It runs for so long, while the clock is so far ahead."""
        world = self._world
        world.ahead = ahead
        start, end = world.really, world.really + seconds
        while True:
            for _ in range(4):
                sleep = await self._rounds._round(self._tasks, world.time())
                if sleep > 0:
                    break
            assert sleep > 0, "it comes to rest"
            self._rounds._was_here = True
            nexts = {(each.name, each.next_due) for each in all_schedules(world.store)}
            assert not nexts.intersection(world.firing.done), "what was done is not what is due next"
            if world.really >= end:
                break
            world.really = min(world.really + STEP, end)
        if ahead == 0:
            world.attended.append((start, end))


class Phase(Struct, frozen=True):
    """A host runs (or none) for so long while the clock is so far ahead."""

    seconds: float
    ahead: float = 0.0
    runs: bool = True
    anew: bool = False
    """By a host that was started for it."""


LONG_AGO = -BEGIN + 1_000
OFF = {"ahead by minutes": 300.0, "ahead by hours": 2.3 * HOUR, "ahead by a year": YEAR, "behind by minutes": -300.0,
       "behind by hours": -2.3 * HOUR, "in 1970": LONG_AGO}  # fmt: skip
STORIES: dict[str, list[Phase]] = {
    "right": [],
    "a year ahead, then in 1970": [Phase(1_000.0), Phase(80.0, YEAR), Phase(80.0, LONG_AGO)],
    "in 1970, then before it was set up": [Phase(700.0, 1_800.0), Phase(80.0, LONG_AGO), Phase(80.0, -HOUR)],
    "one error after the other": [
        Phase(1_000.0),
        Phase(700.0, 2.3 * HOUR),
        Phase(700.0, -0.5 * HOUR, anew=True),
        Phase(2_000.0, runs=False),
        Phase(80.0, YEAR, anew=True),
        Phase(700.0),
        Phase(80.0, LONG_AGO),
    ],
}
for _name, _ahead in OFF.items():
    STORIES |= {
        f"{_name}, for a moment while it runs": [Phase(1_000.0), Phase(80.0, _ahead)],
        f"{_name}, for an hour while it runs": [Phase(1_000.0), Phase(HOUR, _ahead)],
        f"{_name} at its start, right while it runs": [
            Phase(1_000.0),
            Phase(600.0, runs=False),
            Phase(80.0, _ahead, anew=True),
        ],
        f"{_name} at its start, right while it is down for an hour": [
            Phase(1_000.0),
            Phase(600.0, runs=False),
            Phase(80.0, _ahead, anew=True),
            Phase(HOUR, runs=False),
            Phase(0.0, anew=True),
        ],
        f"{_name} for an hour, right while it is down for two": [
            Phase(1_000.0),
            Phase(HOUR, _ahead),
            Phase(2 * HOUR, runs=False),
            Phase(0.0, anew=True),
        ],
        f"{_name} for an hour, right, and then down for long": [
            Phase(1_000.0),
            Phase(HOUR, _ahead),
            Phase(400.0),
            Phase(6_000.0, runs=False),
            Phase(0.0, anew=True),
        ],
        f"{_name}, twice": [Phase(1_000.0), Phase(80.0, _ahead), Phase(400.0), Phase(80.0, _ahead)],
    }


@pytest.mark.anyio
@pytest.mark.parametrize("story", STORIES)
async def test_whatever_the_clock_said_each_moment_is_done_once_or_said_to_be_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, story: str
) -> None:
    world = World(tmp_path, monkeypatch)
    await lived(world, [*STORIES[story], Phase(5 * HOUR - 1)])
    assert len(world.firing.done) == len(set(world.firing.done)), "nothing is done twice"
    for kept in all_schedules(world.store):
        assert kept.schedule is not None
        done = {due for name, due in world.firing.done if name == kept.name}
        told = [
            at
            for each in believed(world.store, kept.id, world.time())
            for at in moments(each, kept.schedule, kept.created_at, 1_000)
        ]
        assert len(told) == len(set(told)) == kept.missed, "what is counted is what is told, once"
        assert not done.intersection(told), "what was done was not missed"
        came = {*takewhile(lambda at: at <= world.really, dues(kept.schedule, BEGIN, BEGIN))}
        assert {at for at in told if at > BEGIN} | (done & came) == came, "and nothing is silent"
        for at in came - done:
            assert not any(start <= at <= end - STEP for start, end in world.attended), (
                "a host was there with a right clock"
            )
        assert kept.next_due is None or kept.next_due > world.really
        assert kept.last_outcome == "" or "missed" in kept.last_outcome


async def lived(world: World, phases: list[Phase]) -> None:
    """One host through all of it, but for where none runs or another is started."""
    left = [*phases]
    while left:
        if not left[0].runs:
            world.really += left.pop(0).seconds
            continue
        async with world.host() as host:
            while True:
                phase = left.pop(0)
                await host.for_(phase.seconds, phase.ahead)
                if not left or not left[0].runs or left[0].anew:
                    break


@pytest.mark.anyio
async def test_what_a_clock_that_is_ahead_counts_as_missed_is_not_missed_when_it_is_set_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, monkeypatch)
    async with world.host() as host:
        await host.for_(40, 0)
        await host.for_(80, 2.3 * HOUR)
        once = one_schedule(world.store, "once")
        assert (once.missed, once.next_due) == (1, None), "control: by that clock it was"
        assert JUMPED in once.last_outcome, "and not for want of a host"
        await host.for_(80, 0)
        once = one_schedule(world.store, "once")
        assert (once.missed, once.next_due) == (0, BEGIN + 1.5 * HOUR)
        assert "still to come" in once.last_outcome
    world.ahead = 2.3 * HOUR
    assert one_schedule(world.store, "once").missed == 1, "what was known there counts again there"


@pytest.mark.anyio
async def test_what_was_missed_long_ago_is_still_known_after_a_start_in_1970(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, monkeypatch)
    gone = Phase(HOUR + 100, runs=False)
    await lived(world, [Phase(0), gone, Phase(600), Phase(HOUR, LONG_AGO, anew=True), Phase(600)])
    cron = one_schedule(world.store, "cron")
    assert cron.missed == 6, "three while no host ran, and three while the machine thought it was 1970"
    assert {each.why for each in believed(world.store, cron.id, world.time())} == {NO_HOST, JUMPED}
