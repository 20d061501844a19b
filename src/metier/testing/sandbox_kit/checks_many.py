"""Behaviours 57 to 60: many runs at once and one after the other, and what each is said to have cost."""

import random
from typing import Any

import anyio
import anyio.lowlevel

from metier.model.job import Report
from metier.testing.sandbox_kit import leftovers
from metier.testing.sandbox_kit.behaviour import behaviour
from metier.testing.sandbox_kit.bench import FLAT_BYTES, Bench
from metier.testing.sandbox_kit.checks_kill import fewer, warmed_look


async def calls_at_once_do_not_mix_and_beyond_capacity_the_answer_is_busy(bench: Bench) -> None:
    reports: dict[int, Report] = {}

    async def run(number: int) -> None:
        reports[number] = await bench.run("talk", {"text": f"number {number}"}, timeout=30.0)

    async with anyio.create_task_group() as tasks:
        for number in range(bench.times(40, 100)):
            tasks.start_soon(run, number)
    for number, report in reports.items():
        mine = {"text": f"number {number}"}
        bench.expect("own_result", report.ending == "returned" and bench.guest.said(report) == mine, report)
        bench.expect("own_output", mine["text"] in report.stdout + report.stderr, report.stdout)
    await _busy(bench)


async def _busy(bench: Bench) -> None:
    """Ask for a thousand at once, until somebody is told to come back later."""
    told: list[Report] = []

    async def run(scope: anyio.CancelScope) -> None:
        report = await bench.run("sleep", {"seconds": 20}, timeout=30.0)
        told.append(report)
        if report.ending != "timed_out":
            scope.cancel()

    async with anyio.create_task_group() as tasks:
        for number in range(1_000):
            tasks.start_soon(run, tasks.cancel_scope)
            if number % 50 == 0:
                await anyio.lowlevel.checkpoint()  # making that many jobs takes the kit itself a while
    bench.expect("busy", bool(told) and {each.ending for each in told} == {"busy"}, told[:1])


KINDS: tuple[tuple[str, dict[str, Any], float], ...] = (
    ("echo", {"good": True}, 10.0),
    ("end", {"how": "raise", "text": "failing"}, 10.0),
    ("end", {"how": "exit", "code": 3}, 10.0),
    ("memory", {"kind": "heap", "mb": 400}, 10.0),
    ("loop", {}, 0.1),
    ("echo", {"cancelled": True}, 10.0),
)


async def a_thousand_runs_leave_nothing(bench: Bench) -> None:
    before = await warmed_look(bench)
    choose = random.Random(58)  # noqa: S311  the same runs every time
    held = 0

    async def run(number: int) -> None:
        act, params, timeout = KINDS[number % len(KINDS)]
        with anyio.move_on_after(choose.uniform(0, 0.1) if params.get("cancelled") else 60):
            await bench.run(act, params, timeout=timeout, memory_mb=96)

    runs = bench.times(30, 1_000)
    for start in range(0, runs, 4):
        async with anyio.create_task_group() as tasks:
            for number in range(start, start + 4):
                tasks.start_soon(run, number)
        if start == runs // 5 // 4 * 4:
            held = leftovers.memory_bytes()
    grown = leftovers.memory_bytes() - held
    bench.expect("host_flat", grown < FLAT_BYTES // 2, f"the host grew by {grown >> 20} MB")
    new = leftovers.look()
    bench.expect("mounts", new.mounts <= before.mounts, sorted(new.mounts - before.mounts))
    most = len(before.processes) + 8 * 4
    bench.expect("processes", len(new.processes) <= most, sorted(new.processes))
    bench.expect("descriptors", len(new.descriptors) <= len(before.descriptors) + 80, sorted(new.descriptors))


async def a_broken_guest_is_never_used_again(bench: Bench) -> None:
    before = await warmed_look(bench)
    breaking: list[tuple[dict[str, Any], float]] = [({"crash": False}, 0.4), ({"crash": True}, 10.0)]
    for params, timeout in breaking:
        report = await bench.run("break_itself", params, timeout=timeout)
        bench.expect("broken", report.ending != "returned", report)
        said = await bench.value("look_for_mark", {"leave": False})
        bench.expect("fresh", said["files"] == [] and not said["module"], said)
    await fewer(bench, before, "survivors")


async def usage_is_reported_for_every_ending(bench: Bench) -> None:
    load: dict[str, Any] = {"cpu": 0.4, "mb": 60, "output": 1_000, "child": False, "stay": False}
    children = (False,) if "forks" in bench.guest.absent else (False, True)
    # A module knows no clock for processor time; on a busy machine it gets less of it than it wants.
    least = 0.1 if bench.guest.name == "wasm" else 0.32
    for child in children:
        for stay in (False, True):
            report = await bench.run(
                "burn", {**load, "child": child, "stay": stay}, timeout=1.0 if stay else 10.0
            )
            used = report.usage
            ended = "timed_out" if stay else "returned"
            bench.expect("ended", report.ending == ended, report)
            where = f"{'child' if child else 'own'} {ended}: {used}"
            bench.expect("cpu", least <= used.cpu_seconds <= 0.6, where)
            bench.expect("memory", 60 << 20 <= used.memory_bytes <= 120 << 20, where)
            bench.expect("output", 1_000 <= used.output_bytes <= 1_100, where)
            bench.expect("seconds", 0.3 <= used.seconds <= 4, where)
    failed = await bench.run("end", {"how": "raise", "text": "failing"})
    bench.expect("seconds", failed.usage.seconds > 0, failed)


BEHAVIOURS = (
    behaviour(
        57,
        calls_at_once_do_not_mix_and_beyond_capacity_the_answer_is_busy,
        "RES-11 LNX-15",
        "fresh_state",
        slow=True,
    ),
    behaviour(58, a_thousand_runs_leave_nothing, "RES-04 RES-06", "tree_killed fresh_state", slow=True),
    behaviour(59, a_broken_guest_is_never_used_again, "WASM-06", "fresh_state"),
    behaviour(60, usage_is_reported_for_every_ending, "RES-01 RES-09 WASM-06", slow=True),
)
