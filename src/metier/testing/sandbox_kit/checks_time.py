"""Behaviours 5 to 10: a run ends at its time limit, whatever it does."""

# ruff: noqa: ASYNC109
# A limit of the run, not of the function.

import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import Any

import anyio

from metier.model.job import Report
from metier.model.ports import Answered, NotAnswered
from metier.testing.sandbox_kit.behaviour import behaviour
from metier.testing.sandbox_kit.bench import Bench

LIMIT = 0.5
GRACE = 1.0


async def ends_in_time(
    bench: Bench, act: str, params: dict[str, Any], *, limit: float = LIMIT, **more: Any
) -> Report:
    """Run an act that never ends by itself; it must be over a second after its limit at the latest."""
    began = time.monotonic()
    report = await bench.run(act, params, timeout=limit, **more)
    took = time.monotonic() - began
    bench.expect("timed_out", report.ending == "timed_out", report)
    bench.expect("in_time", took <= limit + GRACE, f"{act} took {took:.2f} s of {limit} s")
    bench.expect("not_early", took >= limit * 0.9, f"{act} was over after {took:.2f} s of {limit} s")
    return report


async def warm(bench: Bench) -> None:
    """Have what is kept warm be there: what is timed afterwards is the limit, not the start."""
    bench.need("warm", (await bench.run("echo")).ending == "returned", "echo did not run")


async def an_endless_loop_ends_within_the_limit_plus_one_second(bench: Bench) -> None:
    control = await bench.bare("loop", seconds=LIMIT)
    bench.prove(control.exit_code is None, control)
    await warm(bench)
    for _ in range(bench.times(2, 200)):
        await ends_in_time(bench, "loop", {}, limit=0.3)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(ends_in_time, bench, "regex", {}))
        tasks.start_soon(partial(ends_in_time, bench, "loop", {}, at_load=True))


async def sleeping_past_the_limit_ends_within_the_limit_plus_one_second(bench: Bench) -> None:
    control = await bench.bare("sleep", {"seconds": LIMIT})
    bench.prove(control.value == "slept" and control.seconds >= LIMIT, control)
    await warm(bench)
    for _ in range(bench.times(2, 200)):
        report = await ends_in_time(bench, "sleep", {"seconds": 30}, limit=0.3)
        bench.expect("no_cpu", report.usage.cpu_seconds < 0.3, report.usage)


class Slow:
    """A host that takes ten seconds for everything."""

    async def ask(self, method: str, params: dict[str, Any]) -> Answered | NotAnswered:
        await anyio.sleep(10)
        return Answered(value="late")


async def a_blocking_host_call_does_not_outlive_the_limit(bench: Bench) -> None:
    with anyio.move_on_after(LIMIT + GRACE) as waiting:
        await Slow().ask("slow", {})
    bench.prove(waiting.cancelled_caught, "who waits for the host without a limit waits longer than one")
    if await bench.absent("ask"):
        return
    await warm(bench)
    await ends_in_time(bench, "ask", {"asks": [["slow", {}]]}, host=Slow())


async def a_stopped_guest_still_times_out(bench: Bench) -> None:
    async def outside(group: bool) -> None:
        control = await bench.bare("stop", {"group": group}, seconds=LIMIT)
        bench.prove(control.exit_code is None, control)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(outside, False)
        tasks.start_soon(outside, True)
    if await bench.absent("stop", {"group": False}):
        return
    async with anyio.create_task_group() as tasks:
        for group in (False, True):
            tasks.start_soon(partial(ends_in_time, bench, "stop", {"group": group}))


@contextmanager
def wrong_clock() -> Generator[list[float]]:
    """The clock on the wall goes wrong by what stands in the list; the monotonic one does not."""
    off = [0.0]
    right, right_ns = time.time, time.time_ns
    time.time = lambda: right() + off[0]
    time.time_ns = lambda: right_ns() + int(off[0] * 1e9)
    try:
        yield off
    finally:
        time.time, time.time_ns = right, right_ns


async def _by_the_wall(seconds: float, off: list[float], jump: float) -> float:
    """How long one waits who believes the clock on the wall, which jumps meanwhile; at most three times as long."""
    began, until = time.monotonic(), time.time() + seconds
    off[0] = jump
    while time.time() < until and time.monotonic() < began + 3 * seconds:  # noqa: ASYNC110  to be misled
        await anyio.sleep(0.01)
    return time.monotonic() - began


async def a_clock_jump_neither_shortens_nor_lengthens_a_run(bench: Bench) -> None:
    for jump, least, most in ((3_600.0, 0.0, 0.09), (-3_600.0, 0.25, 9.0)):
        with wrong_clock() as off:
            waited = await _by_the_wall(0.1, off, jump)
        bench.prove(least <= waited <= most, f"who believed a clock off by {jump} s waited for {waited} s")
    await warm(bench)
    for jump in (3_600.0, -3_600.0):
        with wrong_clock() as off:

            async def jump_soon(off: list[float] = off, jump: float = jump) -> None:
                await anyio.sleep(0.1)
                off[0] = jump

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(jump_soon)
                await ends_in_time(bench, "loop", {})
            report = await bench.run("echo", {"jump": jump})
            bench.expect("usage", 0 <= report.usage.seconds < 10, report.usage)


async def a_timeout_of_one_job_leaves_its_neighbour_running(bench: Bench) -> None:
    reports: dict[str, Report] = {}

    async def run(name: str, params: dict[str, Any], timeout: float) -> None:
        reports[name] = await bench.run(name, params, timeout=timeout)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, "loop", dict[str, Any](), 0.4)
        tasks.start_soon(run, "sleep", {"seconds": 1.2}, 10.0)
    bench.expect("timed_out", reports["loop"].ending == "timed_out", reports["loop"])
    bench.expect("neighbour", reports["sleep"].ending == "returned", reports["sleep"])


BEHAVIOURS = (
    behaviour(
        5, an_endless_loop_ends_within_the_limit_plus_one_second, "RES-01 WASM-06", "cpu_bounded", slow=True
    ),
    behaviour(
        6, sleeping_past_the_limit_ends_within_the_limit_plus_one_second, "RES-01 RES-02", "cpu_bounded"
    ),
    behaviour(7, a_blocking_host_call_does_not_outlive_the_limit, "WASM-07", "cpu_bounded"),
    behaviour(8, a_stopped_guest_still_times_out, "RES-24", "cpu_bounded", slow=True),
    behaviour(9, a_clock_jump_neither_shortens_nor_lengthens_a_run, "RES-26", "cpu_bounded"),
    behaviour(
        10, a_timeout_of_one_job_leaves_its_neighbour_running, "RES-01", "tree_killed", control="fault"
    ),
)
