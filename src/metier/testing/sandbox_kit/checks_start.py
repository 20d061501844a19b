"""Behaviours 1 to 4: what is promised, what is refused, and limits and arguments as they are given."""

# ruff: noqa: ASYNC240
# Files of a test, quick to look at.

import math
import os
from typing import Any

from msgspec.structs import replace

from metier.model.entry import Command
from metier.model.guarantee import MEANING, Guarantee
from metier.model.job import Job
from metier.sandbox.protocol import Sandbox
from metier.sandbox.select import Unavailable, select
from metier.testing.sandbox_kit import leftovers
from metier.testing.sandbox_kit.behaviour import behaviour
from metier.testing.sandbox_kit.bench import Bench, limits_of
from metier.testing.sandbox_kit.outside import outside


async def a_missing_guarantee_refuses_the_job_and_names_it(bench: Bench) -> None:
    prepared = bench.guest.prepare("echo", {}, bench.folder("bundle"))
    job = bench.job(prepared)
    bench.prove(select(job, [bench.sandbox]) is bench.sandbox, select(job, [bench.sandbox]))
    for promise in frozenset(Guarantee) - bench.sandbox.guarantees():
        found = select(replace(job, needs=job.needs | {promise}), [bench.sandbox])
        lacking = found.lacking if isinstance(found, Unavailable) else frozenset[Guarantee]()
        bench.expect(
            "refused", lacking == frozenset({promise}), f"{promise} is not promised, and yet: {found}"
        )
        bench.expect("named", MEANING[promise] in str(found), found)
    # Who needs nothing of the machine has a gap here. Else a backend that never says no would not be found out.
    bench.expect("taken_away", bool(bench.backend.without), "no part was taken away (`Backend.without`)")
    for part, reopen in bench.backend.without.items():
        before = leftovers.look()
        opened = reopen(bench.folder("state"))
        try:
            await _lacks(bench, opened.sandbox, job, part)
        finally:
            await opened.aclose()
        await bench.gone(before, "nothing_started")


async def _lacks(bench: Bench, sandbox: Sandbox, job: Job, part: str) -> None:
    """Without a part of it the job is not taken or, where only a start can tell, not started."""
    found = select(job, [sandbox])
    if isinstance(found, Unavailable):
        bench.expect("named", any(part in each for each in found.reasons), found)
        bench.expect("remedy", bool(found.remedy), found)
        return
    report = await sandbox.run(job)
    bench.expect("refused", report.ending == "not_started", f"without {part}: {report}")
    bench.expect("named", report.fault is not None and part in report.fault.message, report)


async def stated_guarantees_are_exactly_those_this_kit_proves(bench: Bench) -> None:
    stated = bench.sandbox.guarantees()
    bench.expect("proven", stated <= bench.proven, stated - bench.proven)
    for gap in bench.backend.gaps:
        bench.expect("gap", gap.guarantee is None or gap.guarantee not in bench.promises, gap)
    broken = {gap.guarantee for gap in bench.backend.gaps if gap.guarantee is not None}
    costs = frozenset[Guarantee]().union(*(each.costs for each in bench.sandbox.missing()))
    lacking = frozenset(Guarantee) - stated
    known = broken | costs
    bench.expect("explained", lacking <= known, sorted(lacking - known))
    for each in bench.sandbox.missing():
        bench.expect("remedy", bool(each.what and each.why and each.remedy), each)
    report = await bench.run("echo")
    bench.expect("runs", report.ending == "returned", report)


UNFIT: tuple[dict[str, Any], ...] = (
    *({"timeout": value} for value in (-1.0, 0.0, math.nan, math.inf)),
    *({"memory_mb": value} for value in (-1, 0, 2**63)),
    *({"output_bytes": value} for value in (-1, 2**63)),
    *({"processes": value} for value in (-1, 0, 2**63)),
)


async def a_limit_below_one_above_the_maximum_or_not_a_number_is_refused_or_clamped(bench: Bench) -> None:
    """`execute` clamps before a job is made; a backend that is given nonsense all the same refuses it."""
    processes = "forks" not in bench.guest.absent or "threads" not in bench.guest.absent
    for unfit in (each for each in UNFIT if processes or "processes" not in each):
        prepared = bench.guest.prepare("echo", {}, bench.folder("bundle"))
        name, value = next(iter(unfit.items()))
        job = bench.job(prepared, limits=limits_of({"timeout": 5.0, **unfit}))
        report = await bench.sandbox.run(job)
        great = value == 2**63 and report.ending == "returned"
        refused = report.ending in ("not_started", "timed_out", "bad_result")
        bench.expect(name, refused or great, f"{name}={value}: {report}")


HOSTILE = (
    "--bind",
    "/",
    "/",
    "--",
    "--allow-all",
    "--share-net",
    "-c",
    "--ro-bind",
    "",
    "$(id)",
    "; id",
    "\n",
    "%s",
)


async def arguments_of_a_job_never_become_options_of_the_sandbox(bench: Bench) -> None:
    line = "printf '[%s]' " + " ".join(HOSTILE)
    loose = await outside(["/bin/sh", "-c", line], cwd="/", seconds=10, environment={"PATH": "/usr/bin:/bin"})
    bench.prove(b"uid=" in loose.stdout, loose)
    hostile = {name or "empty": name for name in HOSTILE}
    said = await bench.value("echo", dict(hostile))
    bench.expect("arguments", said == hostile, said)
    prepared = bench.guest.prepare("echo", {}, bench.folder("bundle"))
    if isinstance(prepared.entry, Command):
        program = os.path.realpath("/usr/bin/printf")
        entry = Command(argv=("printf", "[%s]", *HOSTILE))
        job = bench.job(type(prepared)(entry=entry, binaries={"printf": program}))
        report = await bench.sandbox.run(job)
        bench.expect("command", report.stdout == "".join(f"[{each}]" for each in HOSTILE), report)
    environment = {"LD_PRELOAD": "/nowhere.so", "BASH_ENV": "/nowhere", "A": "--bind / /"}
    report = await bench.run("echo", {"in": "environment"}, environment=environment)
    bench.expect("environment", report.ending in ("returned", "not_started"), report)


BEHAVIOURS = (
    behaviour(1, a_missing_guarantee_refuses_the_job_and_names_it, "LNX-02"),
    behaviour(2, stated_guarantees_are_exactly_those_this_kit_proves, "LNX-01", control="fault"),
    behaviour(
        3,
        a_limit_below_one_above_the_maximum_or_not_a_number_is_refused_or_clamped,
        "RES-02 RES-21",
        control="fault",
    ),
    behaviour(4, arguments_of_a_job_never_become_options_of_the_sandbox, "LNX-04"),
)
