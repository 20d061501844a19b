"""Whoever cancels a call, by a scope of anyio or by the loop underneath, at whatever moment: nothing of it is left."""

import asyncio
import os
import random
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio
import pytest

from jobs import command, python, shell
from metier.model.guarantee import Guarantee
from metier.model.job import Job
from metier.model.skill import Limits
from metier.sandbox import process
from metier.sandbox.bubblewrap import Bubblewrap
from metier.sandbox.landlock import Landlock
from metier.sandbox.native import NativeSandbox
from metier.sandbox.python import PythonSandbox
from metier.sandbox.unbroken import unbroken

Wall = Bubblewrap | Landlock
walls = pytest.mark.parametrize("kind", [Bubblewrap, Landlock])
cancels = pytest.mark.parametrize("natively", [False, True])
WATCHED = frozenset({Guarantee.VIOLATIONS_SEEN})


def below_us() -> set[int]:
    found: set[int] = set()
    todo = [os.getpid()]
    while todo:
        pid = todo.pop()
        try:
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/children") as file:
                    children = {int(each) for each in file.read().split()}
                found |= children
                todo += children
        except OSError:
            continue
    return found


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


async def cancelled_after(seconds: float, work: Callable[[], Awaitable[Any]], *, natively: bool) -> None:
    if not natively:
        with anyio.move_on_after(seconds):
            await work()
        return
    task = asyncio.ensure_future(work())
    await asyncio.sleep(seconds)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def run(wall: Wall, job: Job) -> None:
    native = NativeSandbox(wall)
    await (native if native.takes(job) else PythonSandbox(wall)).run(job)


def some_job(chance: random.Random) -> Job:
    few = Limits(timeout=20.0, memory_mb=chance.choice((64, 65)))
    return chance.choice((
        lambda: python("result = 1", limits=few),
        lambda: python("import time\ntime.sleep(20)", limits=few),
        lambda: shell("sleep 20", needs=WATCHED, limits=few),
        lambda: command("true", limits=few),
        lambda: command("sleep", "20", limits=Limits(timeout=20.0, memory_mb=chance.randrange(100, 200))),
    ))()  # fmt: skip


@pytest.mark.slow
@walls
@cancels
def test_a_call_cancelled_at_any_moment_leaves_nothing(
    kind: type[Wall], natively: bool, caplog: pytest.LogCaptureFixture
) -> None:
    chance = random.Random(11)  # noqa: S311
    before = below_us()

    async def work() -> None:
        wall = kind()
        pool: Any = wall._pool
        await run(wall, command("true"))
        await wall.aclose()
        wall = kind()
        pool = wall._pool
        open_before = descriptors()
        try:
            for _ in range(40):
                await cancelled_after(
                    chance.random() * 0.15, lambda: run(wall, some_job(chance)), natively=natively
                )
                assert not pool._busy, "whoever has no run is not busy"
        finally:
            await wall.aclose()
        assert descriptors() <= open_before

    anyio.run(work)
    assert below_us() <= before
    assert not caplog.records, "nothing was written to a descriptor that is closed"


@walls
@cancels
def test_a_call_that_waits_for_the_clearing_up_of_the_last_one_can_be_cancelled(
    kind: type[Wall], natively: bool
) -> None:
    mess = (
        "import os\nos.chdir(os.environ['TMPDIR'])\n"
        "for i in range(4_000): os.close(os.open(str(i), os.O_CREAT | os.O_WRONLY))\nresult = 1"
    )
    limits = Limits(timeout=30.0)

    async def work() -> tuple[int, int]:
        wall = kind()
        pool: Any = wall._pool
        try:
            await run(wall, python(mess, limits=limits))
            await cancelled_after(
                0.002, lambda: run(wall, python("result = 2", limits=limits)), natively=natively
            )
            return len(pool._busy), sum(map(len, pool._idle.values()))
        finally:
            await wall.aclose()

    before = descriptors()
    busy, idle = anyio.run(work)
    assert busy == 0
    assert idle <= 1
    assert descriptors() <= before + 2, "the threads that start and look have theirs"


@cancels
def test_a_supervisor_that_is_being_ended_is_ended_whoever_is_cancelled(natively: bool) -> None:
    before = below_us()

    async def work() -> None:
        wall = Bubblewrap()
        await run(wall, python("result = 1"))
        assert below_us() > before
        await cancelled_after(0.0, wall.aclose, natively=natively)

    anyio.run(work)
    assert below_us() <= before


def test_what_was_started_for_a_caller_who_has_gone_is_undone() -> None:
    begun, go_on = threading.Event(), threading.Event()
    undone: list[str] = []

    def slowly() -> str:
        begun.set()
        go_on.wait(10)
        return "built"

    async def work() -> None:
        task = asyncio.ensure_future(process.in_starter(slowly, undo=undone.append))
        while not begun.is_set():
            await asyncio.sleep(0.001)
        for _ in range(3):  # as often as anybody likes
            task.cancel()
            await asyncio.sleep(0.01)
        assert not task.done(), "what the work uses is not taken away from it"
        assert not undone
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert undone == ["built"]

    anyio.run(work)


def test_a_start_that_fails_for_a_caller_who_has_gone_needs_no_undoing() -> None:
    undone: list[object] = []
    go_on = threading.Event()

    def badly() -> None:
        go_on.wait(10)
        raise ValueError("no")

    async def work() -> None:
        task = asyncio.ensure_future(process.in_starter(badly, undo=undone.append))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.sleep(0.01)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    anyio.run(work)
    assert not undone


@cancels
def test_what_must_not_be_broken_off_goes_on_to_its_end(natively: bool) -> None:
    steps: list[int] = []

    async def slowly() -> None:
        for step in range(5):
            await anyio.sleep(0.01)
            steps.append(step)

    anyio.run(lambda: cancelled_after(0.015, lambda: unbroken(slowly), natively=natively))
    assert steps == [0, 1, 2, 3, 4]


def test_what_fails_unbroken_fails_as_it_is() -> None:
    async def badly() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        anyio.run(unbroken, badly)
