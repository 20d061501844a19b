"""What a life is held to that has no time limit: memory, a share of the processor, and how often anybody looks."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from lives import PYTHON, SCRIPT, Asked, Life, job, living, python, script
from metier.model.entry import PythonHandler
from metier.model.job import Fault, LifeBounds
from metier.model.ports import NotAnswered
from metier.model.skill import Limits
from metier.sandbox import bounds
from metier.sandbox.bounds import LIFE_LOOK_SECONDS, LOOK_SECONDS, Bounds, ProcessorTime
from metier.sandbox.landlock import Landlock
from metier.sandbox.policy import policy_of
from metier.sandbox.wall import Look, Policy


def run(body: Callable[[], Awaitable[None]]) -> None:
    anyio.run(body)


@pytest.mark.parametrize("files", [python(), script()], ids=["python", "typescript"])
def test_it_lives_behind_the_other_wall_too(files: dict[str, str], tmp_path: Path) -> None:
    async def body() -> None:
        async with living(tmp_path, files, walled=Landlock) as life:
            assert await life.do("plain", a=1) == {"a": 1}
            assert (await life.disable()).ending == "returned"

    run(body)


@pytest.mark.parametrize(
    "files",
    [
        python(PYTHON.replace("return {1, 2}", "held = []\n        while True: held.append(bytearray(b'x' * (1 << 20)))")),
        script(SCRIPT.replace("return new Set([1, 2]);", "const held = []; for (;;) held.push('x'.repeat(1 << 20).split(''));")),
    ],
    ids=["python", "typescript"],
)  # fmt: skip
def test_its_memory_is_bounded(files: dict[str, str], tmp_path: Path) -> None:
    async def body() -> None:
        async with living(tmp_path, files, limits=Limits(memory_mb=64)) as life:
            assert await life.do("plain", a=1) == {"a": 1}
            answer = await life.do("odd", seconds=60)
            assert isinstance(answer, NotAnswered)
            if answer.name == "Gone":
                assert (await life.over()).ending == "out_of_memory"
            else:  # the interpreter could say so itself, and goes on with less
                assert answer.name == "MemoryError"
                assert await life.do("plain", a=1) == {"a": 1}

    run(body)


def test_the_kernel_ends_no_life_for_the_time_it_took_in_months(tmp_path: Path) -> None:
    lives = job(tmp_path, python(), Life(), Asked())
    ends = replace(lives, life=None, entry=PythonHandler(path="skill.py"))
    assert policy_of(ends).cpu_seconds < 1_000
    assert policy_of(lives).cpu_seconds > 365 * 24 * 3600


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1_000.0]
    monkeypatch.setattr(bounds.time, "monotonic", lambda: now[0])
    return now


def lived(clock: list[float], seconds: float, share: float, within: LifeBounds) -> tuple[ProcessorTime, int]:
    """A life that takes `share` of a processor for so long, or until it is ended; and how often it was looked at."""
    watched, taken, looks, until = ProcessorTime(within), 0.0, 0, clock[0] + seconds
    while clock[0] < until and watched.why is None:
        pause = watched.pause(taken)
        clock[0] += pause
        taken += pause * share
        looks += 1
    return watched, looks


def test_one_that_does_nothing_is_looked_at_every_other_second(clock: list[float]) -> None:
    watched, looks = lived(clock, 600.0, 0.0, LifeBounds())
    assert watched.why is None
    assert looks < 600 / LIFE_LOOK_SECONDS + 20
    assert watched.pause(0.0) == LIFE_LOOK_SECONDS


def test_one_that_is_busy_is_looked_at_like_any_run(clock: list[float]) -> None:
    watched = ProcessorTime(LifeBounds())
    for _ in range(20):
        clock[0] += watched.pause(0.0)
    assert watched.pause(1.0) == LOOK_SECONDS


@pytest.mark.parametrize("share", [0.0, 0.5, 0.89])
def test_one_within_its_share_is_never_ended(share: float, clock: list[float]) -> None:
    assert lived(clock, 600.0, share, LifeBounds())[0].why is None


@pytest.mark.parametrize("share", [0.92, 1.0, 4.0])
def test_one_beyond_its_share_is_ended_when_the_window_is_over_and_no_sooner(
    share: float, clock: list[float]
) -> None:
    began = clock[0]
    watched, _ = lived(clock, 600.0, share, LifeBounds())
    assert isinstance(watched.why, Fault)
    assert 60.0 <= clock[0] - began <= 65.0
    assert watched.why.message.startswith(f"It used {60 * share:.0f}")


def test_a_burst_after_a_long_rest_is_not_counted_as_a_spin(clock: list[float]) -> None:
    watched, _ = lived(clock, 300.0, 0.0, LifeBounds())
    taken = 0.0
    for _ in range(600):  # half a minute at full speed
        clock[0] += 0.05
        taken += 0.05
        watched.pause(taken)
    assert watched.why is None


def test_where_the_skill_lies_is_not_told_in_the_errors_of_its_operations(tmp_path: Path) -> None:
    source = PYTHON.replace("return {1, 2}", "raise ValueError(__file__)")

    async def body() -> None:
        async with living(tmp_path, python(source)) as life:
            assert await life.do("odd") == NotAnswered(name="ValueError", message="{baseDir}/skill.py")

    run(body)


class Wrote:
    """A run that has written so much by now."""

    shared_folders: list[str]
    proxy = None

    def __init__(self, folder: Path) -> None:
        self.shared_folders = [str(folder)]
        self.written = 0

    def look(self) -> Look:
        return Look((), 0, self.written)


def test_what_a_life_writes_is_counted_by_the_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And within one day it is held to what any run may write."""
    gone = 0

    def used(_self: Bounds) -> dict[str, tuple[int, int]]:
        return {str(tmp_path): (gone, 0)}

    async def cut(bounds_of_life: Bounds) -> str:
        with anyio.move_on_after(0.3):
            return await bounds_of_life.until_over()
        return "goes on"

    async def body() -> list[str]:
        nonlocal gone
        monkeypatch.setattr(Bounds, "_now", used)
        seen: list[str] = []
        for day in (0.05, 3600.0):
            monkeypatch.setattr(bounds, "LIFE_DAY_SECONDS", day)
            running = Wrote(tmp_path)
            watched = Bounds(Policy(), running, bytes_most=1_000, life=LifeBounds())  # pyright: ignore[reportArgumentType]
            for _ in range(3):
                gone, running.written = gone + 600, running.written + 600
                seen.append(await cut(watched))
        return seen

    assert anyio.run(body) == ["goes on"] * 3 + ["goes on", "out_of_disk", "out_of_disk"]
