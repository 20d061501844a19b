"""Behaviours 21 to 26: when a run ends, by itself or by force, nothing it started is left."""

# ruff: noqa: ASYNC110
# What happens outside tells nobody, so it is looked at again and again.

import os
import random
import signal
import time
from contextlib import suppress
from typing import Any

import anyio

from metier.model.job import Report
from metier.testing.sandbox_kit import host_process, leftovers
from metier.testing.sandbox_kit.behaviour import behaviour
from metier.testing.sandbox_kit.bench import Bench
from metier.testing.sandbox_kit.checks_time import GRACE, ends_in_time, warm
from metier.testing.sandbox_kit.guest import Bare

DAEMONS: dict[str, Any] = {"count": 3, "seconds": 20, "quiet": True, "stay": False}


def put_down(bench: Bench, bare: Bare) -> list[int]:
    """End what an act left outside; which of them were alive."""
    bench.need("daemons outside", isinstance(bare.value, dict), bare)
    found: list[int] = []
    for pid in bare.value["pids"]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            found.append(pid)
    return found


async def warmed_look(bench: Bench, *, still: float = 0.3, **granted: Any) -> leftovers.Seen:
    """What there is while nothing runs, once everything that is kept warm is there and for so many seconds nothing came.

    What is kept warm may be another one for runs that are `granted` something.
    """
    for _ in range(3):
        await warm(bench)
        if granted:
            await bench.value("echo", **granted)
    seen, since = leftovers.look(), time.monotonic()
    give_up = since + 5
    while time.monotonic() < min(since + still, give_up):
        await anyio.sleep(0.02)
        now = leftovers.look()
        if now.processes != seen.processes:
            seen, since = now, time.monotonic()
    return seen


def more_processes(before: leftovers.Seen) -> list[str]:
    """Processes beyond what was there before, not counting as many as were replaced."""
    now = leftovers.look().processes
    new = sorted(now - before.processes)
    return new if len(new) > len(before.processes - now) else []


async def fewer(bench: Bench, before: leftovers.Seen, what: str) -> None:
    """Within a second there are no more processes than before. A warm one may have been replaced meanwhile."""
    give_up = time.monotonic() + GRACE
    while (new := more_processes(before)) and time.monotonic() < give_up:
        await anyio.sleep(0.02)
    bench.expect(what, not new, new)


async def a_kill_ends_the_whole_tree(bench: Bench) -> None:
    control = await bench.bare("daemons", DAEMONS)
    bench.prove(len(put_down(bench, control)) == 3, control)
    if await bench.absent("daemons", DAEMONS):
        return
    before = await warmed_look(bench)
    for _ in range(bench.times(3, 50)):
        await ends_in_time(bench, "daemons", {**DAEMONS, "stay": True})
        await fewer(bench, before, "survivors")


async def a_guest_that_blocks_all_signals_is_killed(bench: Bench) -> None:
    control = await bench.bare("deaf", {"stay": False})
    bench.prove(control.value == "still here", control)
    if await bench.absent("deaf", {"stay": False}):
        return
    before = await warmed_look(bench)
    await ends_in_time(bench, "deaf", {"stay": True}, limit=1.0)
    await fewer(bench, before, "survivors")


async def orphans_and_zombies_are_gone_after_a_normal_end(bench: Bench) -> None:
    flood = {**DAEMONS, "zombies": 20}
    control = await bench.bare("daemons", flood)
    bench.prove(len(put_down(bench, control)) == 3, control)
    if await bench.absent("daemons", flood):
        return
    async with anyio.create_task_group() as tasks:
        for _ in range(2):  # both that will run at once are kept warm from here on
            tasks.start_soon(bench.run, "sleep", {"seconds": 0.3})
    before = leftovers.look()
    reports: list[Report] = []

    async def neighbour() -> None:
        reports.append(await bench.run("sleep", {"seconds": 1.0}))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(neighbour)
        await anyio.sleep(0.2)
        report = await bench.run("daemons", flood)
        bench.expect("ended", report.ending == "returned", report)
    bench.expect("neighbour", reports[0].ending == "returned", reports[0])
    await fewer(bench, before, "survivors")


async def a_grandchild_holding_stdout_does_not_hold_the_call(bench: Bench) -> None:
    holding = {**DAEMONS, "count": 1, "quiet": False}
    control = await bench.bare("daemons", holding)
    bench.prove(len(put_down(bench, control)) == 1, control)
    if await bench.absent("daemons", holding):
        return
    await warm(bench)
    began = time.monotonic()
    report = await bench.run("daemons", holding)
    took = time.monotonic() - began
    bench.expect("ended", report.ending == "returned", report)
    bench.expect("in_time", took < 3, f"{took:.1f} s")


async def death_of_the_host_ends_every_job(bench: Bench) -> None:
    """One host with a run of each kind: one that sleeps, and one that left its session."""
    control = await bench.bare("daemons", DAEMONS)
    bench.prove(len(put_down(bench, control)) == 3, control)
    tree = {**DAEMONS, "stay": True}
    acts: dict[str, dict[str, Any]] = {"sleep": {"seconds": 30}, "daemons": tree}
    acts = {act: params for act, params in acts.items() if act not in bench.guest.absent}
    async with host_process.started(bench, list(acts), list(acts.values()), bench.folder("host")) as host:
        await host.running()
        theirs = leftovers.below(host.pid)
        bench.need("running", bool(theirs) or not bench.guest.has_processes, "the other host runs nothing")
        host.kill()
        give_up = time.monotonic() + GRACE
        while leftovers.alive(theirs) and time.monotonic() < give_up:
            await anyio.sleep(0.02)
        bench.expect("survivors", not leftovers.alive(theirs), leftovers.alive(theirs))


async def a_cancelled_call_is_killed_like_a_timeout(bench: Bench) -> None:
    control = await bench.bare("daemons", DAEMONS)
    bench.prove(len(put_down(bench, control)) == 3, control)
    before = await warmed_look(bench)
    choose = random.Random(26)  # noqa: S311  the same moments every time
    act, params = ("daemons", {**DAEMONS, "stay": True})
    if act in bench.guest.absent:
        act, params = "loop", {}
    for number in range(bench.times(4, 200)):
        after = choose.uniform(0, 0.03) if number % 2 else choose.uniform(0.03, 0.4)
        began = time.monotonic()
        with anyio.move_on_after(after):
            await bench.run(act, params)
        took = time.monotonic() - began
        bench.expect(
            "in_time", took < after + GRACE, f"cancelled after {after:.3f} s, back after {took:.1f} s"
        )
    await fewer(bench, before, "survivors")
    bench.expect("next", (await bench.run("echo")).ending == "returned", "the next call did not run")


BEHAVIOURS = (
    behaviour(21, a_kill_ends_the_whole_tree, "RES-04", "tree_killed", slow=True),
    behaviour(22, a_guest_that_blocks_all_signals_is_killed, "RES-05", "tree_killed"),
    behaviour(23, orphans_and_zombies_are_gone_after_a_normal_end, "RES-04 RES-06", "tree_killed"),
    behaviour(24, a_grandchild_holding_stdout_does_not_hold_the_call, "RES-07", "output_bounded"),
    behaviour(25, death_of_the_host_ends_every_job, "LNX-14", "tree_killed", slow=True),
    behaviour(26, a_cancelled_call_is_killed_like_a_timeout, "RES-04 RES-05", "tree_killed", slow=True),
)
