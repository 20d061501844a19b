"""Behaviours 57 to 60: many runs at once and one after the other, and what each is said to have cost."""

import random
import time
from functools import partial
from typing import Any, Final

import anyio
import anyio.lowlevel

from metier.model.guarantee import Guarantee
from metier.model.job import Report
from metier.model.ports import NotAnswered
from metier.testing.sandbox_kit import leftovers
from metier.testing.sandbox_kit.behaviour import behaviour
from metier.testing.sandbox_kit.bench import FLAT_BYTES, Bench
from metier.testing.sandbox_kit.checks_broken import a_broken_guest_is_never_used_again
from metier.testing.sandbox_kit.checks_host import Noting
from metier.testing.sandbox_kit.checks_kill import fewer, warmed_look
from metier.testing.sandbox_kit.checks_time import GRACE
from metier.testing.sandbox_kit.checks_walls import CALLS

AT_ONCE: Final = 4
_BURNED: Final = 0.3
_PATIENCE: Final = 3.0
"""How long to wait for the first who is told to come back later."""


def _talk(number: int) -> dict[str, Any]:
    """Something to say that is another in each call, and one letter longer in each than in the one before."""
    return {"text": f"number {number:04} " + "x" * number}


async def calls_at_once_do_not_mix_and_beyond_capacity_the_answer_is_busy(bench: Bench) -> None:
    reports: dict[int, Report] = {}
    alone = [(await bench.run("talk", _talk(number))).usage.output_bytes for number in range(2)]

    async def run(number: int) -> None:
        if number % 8 == 7:
            reports[number] = await _violate(bench, number)
        else:
            reports[number] = await bench.run("talk", _talk(number), timeout=30.0)

    async with anyio.create_task_group() as tasks:
        for number in range(bench.times(40, 100)):
            tasks.start_soon(run, number)
    for number, report in reports.items():
        if number % 8 == 7:
            bench.expect("own_violation", _own(bench, report, number), report)
            continue
        mine = _talk(number)
        bench.expect("own_result", report.ending == "returned" and bench.guest.said(report) == mine, report)
        bench.expect("own_output", mine["text"] in bench.guest.shown(report), report.stdout)
        bench.expect("no_violation", not report.violations and not report.denials, report)
        used = alone[0] + (alone[1] - alone[0]) * number
        bench.expect("own_usage", report.usage.output_bytes == used, f"{number}: {used} {report.usage}")
    await _busy(bench)


async def _violate(bench: Bench, number: int) -> Report:
    """Do what is a violation, by a name that no other call has."""
    if "ask" not in bench.guest.absent:
        refusal = NotAnswered(name="Refused", message=f"number_{number}_", kind="violation")
        asks: dict[str, Any] = {"asks": [[f"number_{number}_", {}]]}
        return await bench.run("ask", asks, host=Noting("host", refusal), timeout=30.0)
    name = list(CALLS)[number % len(CALLS)]
    return await bench.run("system_calls", {"calls": {name: CALLS[name]}}, timeout=30.0)


def _own(bench: Bench, report: Report, number: int) -> bool:
    """Whether its one violation is told, and is its own; where none can be told, that none is."""
    told = [each.detail for each in report.violations]
    if Guarantee.VIOLATIONS_SEEN not in bench.promises:
        return told == []
    name = f"number_{number}_" if "ask" not in bench.guest.absent else list(CALLS)[number % len(CALLS)]
    return len(told) == 1 and name in told[0]


async def _busy(bench: Bench) -> None:
    """Ask for a thousand at once, until somebody is told to come back later. Whoever has no bound is spared that."""
    told: list[Report] = []
    known = any(gap.behaviour == 57 and "busy" in gap.what for gap in bench.backend.gaps)

    async def run(scope: anyio.CancelScope) -> None:
        report = await bench.run("sleep", {"seconds": 20}, timeout=30.0)
        told.append(report)
        if report.ending != "timed_out":
            scope.cancel()

    with anyio.move_on_after(_PATIENCE) as patience:
        async with anyio.create_task_group() as tasks:
            for number in range(100 if known else 1_000):
                tasks.start_soon(run, tasks.cancel_scope)
                if number % 50 == 0:
                    # Making that many jobs takes the kit itself a while, and is not counted.
                    patience.deadline = anyio.current_time() + _PATIENCE
                    await anyio.lowlevel.checkpoint()
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
    for act, params, seconds in KINDS:
        await bench.run(act, params, timeout=seconds, memory_mb=96)
    async with anyio.create_task_group() as tasks:
        for _ in range(AT_ONCE):  # what is kept warm for that many such runs is there from here on
            tasks.start_soon(partial(bench.run, "sleep", {"seconds": 0.3}, memory_mb=96))
    before = await warmed_look(bench)
    choose = random.Random(58)  # noqa: S311  the same runs every time
    held = 0

    async def run(number: int) -> None:
        act, params, timeout = KINDS[number % len(KINDS)]
        with anyio.move_on_after(choose.uniform(0, 0.1) if params.get("cancelled") else 60):
            await bench.run(act, params, timeout=timeout, memory_mb=96)

    runs = bench.times(30, 1_000)
    for start in range(0, runs, AT_ONCE):
        async with anyio.create_task_group() as tasks:
            for number in range(start, start + AT_ONCE):
                tasks.start_soon(run, number)
        if start == runs // 5 // AT_ONCE * AT_ONCE:
            held = leftovers.memory_bytes()
    grown = leftovers.memory_bytes() - held
    bench.expect("host_flat", grown < FLAT_BYTES // 2, f"the host grew by {grown >> 20} MB")
    await fewer(bench, before, "processes")
    new = await _few_descriptors(len(before.descriptors))
    bench.expect("mounts", new.mounts <= before.mounts, sorted(new.mounts - before.mounts))
    bench.expect("groups", len(new.groups) <= len(before.groups), sorted(new.groups))
    bench.expect("descriptors", len(new.descriptors) <= len(before.descriptors), sorted(new.descriptors))


async def _few_descriptors(most: int) -> leftovers.Seen:
    """A look, as soon as there are no more descriptors than that, or after a second: sockets are closed by both ends."""
    give_up = time.monotonic() + GRACE
    while len((new := leftovers.look()).descriptors) > most and time.monotonic() < give_up:  # noqa: ASYNC110
        await anyio.sleep(0.02)
    return new


async def usage_is_reported_for_every_ending(bench: Bench) -> None:
    load: dict[str, Any] = {"cpu": _BURNED, "mb": 60, "output": 1_000, "child": False, "stay": False}
    children = (False,) if "forks" in bench.guest.absent else (False, True)
    idle = (await bench.run("echo")).usage
    for child in children:
        for stay in (False, True):
            ours = time.process_time()
            report = await bench.run(
                "burn", {**load, "child": child, "stay": stay}, timeout=1.5 if stay else 10.0
            )
            # A module knows no clock for processor time, but it burns ours. Others start up as well.
            mine = not bench.guest.has_processes
            least = time.process_time() - ours - 0.1 if mine else _BURNED
            most = _BURNED if mine else _BURNED + idle.cpu_seconds
            used = report.usage
            ended = "timed_out" if stay else "returned"
            bench.expect("ended", report.ending == ended, report)
            where = f"{'child' if child else 'own'} {ended}: {used}; {least:.3f} to {most:.3f}"
            bench.expect("cpu", 0.8 * least <= used.cpu_seconds <= 1.2 * most, where)
            # Twenty in the hundred, and what an interpreter takes for itself. An engine that clears up when it likes may
            # hold as much again.
            largest = 144 if bench.guest.name == "javascript" else 120
            bench.expect("memory", 60 << 20 <= used.memory_bytes <= largest << 20, where)
            bench.expect("output", 1_000 <= used.output_bytes <= 1_100, where)
            bench.expect("seconds", _BURNED <= used.seconds <= 4, where)
            fuel = bool(used.fuel) or (stay and used.fuel is None)
            bench.expect("fuel", fuel if bench.guest.burns_fuel else used.fuel is None, where)
    failed = await bench.run("end", {"how": "raise", "text": "failing"})
    bench.expect("seconds", failed.usage.seconds > 0, failed)
    await _killed(bench)
    if bench.guest.burns_fuel:
        await _fuel(bench)


async def _killed(bench: Bench) -> None:
    """What a run had when it was ended for its memory."""
    # Where no group counts, memory is looked at from time to time: who ends within a moment of his last piece is seen
    # with less than he had.
    report = await bench.run("memory", {"kind": "heap", "mb": 400, "stay": 0.3}, memory_mb=96)
    used = report.usage
    bench.expect("killed_memory", 48 << 20 <= used.memory_bytes <= 160 << 20, report)
    bench.expect("killed_time", 0 < used.seconds < 10 and used.cpu_seconds > 0, report)


async def _fuel(bench: Bench) -> None:
    """The same steps cost the same, and who has used up what he had has used all of it."""
    same = [(await bench.run("echo", {"same": True})).usage.fuel for _ in range(2)]
    bench.expect("fuel", same[0] == same[1] and bool(same[0]), same)
    out = await bench.run("loop", fuel=1_000_000)
    bench.expect("fuel", (out.ending, out.usage.fuel) == ("out_of_fuel", 1_000_000), out)
    late = (await bench.run("loop", timeout=0.2)).usage.fuel
    bench.expect("fuel", late is None or late > 1_000_000, f"{late} of a run that burned for 0.2 s")


BEHAVIOURS = (
    behaviour(
        57,
        calls_at_once_do_not_mix_and_beyond_capacity_the_answer_is_busy,
        "RES-11 LNX-15",
        "fresh_state",
        slow=True,
        control="fault",
    ),
    behaviour(
        58,
        a_thousand_runs_leave_nothing,
        "RES-04 RES-06",
        "tree_killed fresh_state",
        slow=True,
        control="fault",
    ),
    behaviour(59, a_broken_guest_is_never_used_again, "WASM-06", "fresh_state"),
    behaviour(60, usage_is_reported_for_every_ending, "RES-01 RES-09 WASM-06", slow=True, control="fault"),
)
