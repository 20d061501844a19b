"""Behaviours 11 to 20: memory, processes, disk, descriptors, the stack."""

import os
import signal
from typing import Any

import anyio

from metier.model.guarantee import Guarantee
from metier.model.job import Place, Report
from metier.testing.sandbox_kit import leftovers
from metier.testing.sandbox_kit.behaviour import behaviour
from metier.testing.sandbox_kit.bench import FLAT_BYTES, Bench
from metier.testing.sandbox_kit.checks_kill import fewer

MEMORY_MB = 96
ELSEWHERE = (
    *("/", "/dev", "/dev/mqueue", "/dev/shm", "/etc", "/home", "/opt", "/proc", "/root", "/run", "/run/lock"),  # noqa: S108
    *("/srv", "/sys", "/tmp", "/usr", "/usr/local", "/var", "/var/lib", "/var/tmp"),  # noqa: S108
)
"""Folders that some machine lets everybody write in, or root."""
OWN = 8
"""Room a backend may add to a limit for processes of its own."""


def stopped_for_memory(bench: Bench, report: Report, asked_mb: int) -> bool:
    """Whether a run that asked for more than it may have did not get it."""
    if report.ending == "returned":
        return bench.said(report).get("mb") != asked_mb
    return report.ending in bench.guest.leaves_uncaught


async def flat(bench: Bench, before: int) -> None:
    grown = leftovers.memory_bytes() - before
    bench.expect("host_flat", grown < FLAT_BYTES, f"the host grew by {grown >> 20} MB")


async def a_memory_bomb_is_stopped_and_the_host_stays_flat(bench: Bench) -> None:
    bomb: dict[str, Any] = {"kind": "heap", "mb": 512}
    control = await bench.control("memory", bomb)
    bench.prove(control["mb"] == 512, control)
    before = leftovers.memory_bytes()
    report = await bench.run("memory", bomb, memory_mb=MEMORY_MB)
    bench.expect("stopped", stopped_for_memory(bench, report, 512), report)
    await flat(bench, before)
    bench.expect("next", (await bench.run("echo")).ending == "returned", "the next call did not run")


async def memory_outside_the_script_heap_is_counted(bench: Bench) -> None:
    for kind in ("mapped", "shared", "held"):
        bomb: dict[str, Any] = {"kind": kind, "mb": 400}
        control = await bench.control("memory", bomb)
        bench.prove(control["mb"] == 400, control)
        report = await bench.run("memory", bomb, memory_mb=MEMORY_MB)
        refused = report.ending in ("raised", "exited") or stopped_for_memory(bench, report, 400)
        bench.expect(kind, refused, report)


async def one_huge_allocation_fails_at_once(bench: Bench) -> None:
    report = await bench.attack("huge", {"text": True}, {"text": False}, timeout=5.0)
    bench.expect("at_once", report.usage.seconds < 3, report.usage)


async def memory_of_all_processes_of_a_job_counts_together(bench: Bench) -> None:
    children: dict[str, Any] = {"children": 10, "mb": 40}
    control = await bench.control("children_memory", children)
    bench.prove(control["had"] == 10, control)
    if await bench.absent("children_memory", children):
        return
    report = await bench.run("children_memory", children, memory_mb=128, timeout=2.5)
    got = report.ending == "returned" and bench.said(report).get("had") == 10
    bench.expect("together", not got, report)


async def a_fork_bomb_is_bounded_for_root_and_for_a_user(bench: Bench) -> None:
    control = await bench.control("forks", {"most": 200})
    bench.prove(control["count"] == 200, control)
    if await bench.absent("forks", {"most": 200}):
        return
    for most in (20, 64):  # what is kept warm for such limits is there from here on
        await bench.value("echo", processes=most)
    before = leftovers.look()
    said = await bench.value("forks", {"most": 200}, processes=20)
    bench.expect("bounded", said["count"] <= 20 + OWN, said)
    bench.expect("usable", said["count"] >= 5, said)
    report = await bench.run("forks", {"most": 2_000}, processes=64, timeout=5.0)
    count = bench.said(report).get("count", 0)
    bench.expect("bounded", report.ending != "timed_out" and count <= 64 + OWN, report)
    await fewer(bench, before, "survivors")


async def a_thread_or_worker_bomb_is_bounded(bench: Bench) -> None:
    control = await bench.control("threads", {"most": 120})
    bench.prove(control["count"] == 120, control)
    if await bench.absent("threads", {"most": 120}):
        return
    report = await bench.run("threads", {"most": 120}, processes=32)
    bench.expect("bounded", bench.said(report).get("count", 0) <= 32 + OWN, report)


async def filling_the_disk_stays_inside(bench: Bench) -> None:
    work = bench.folder("work")
    places = (Place(path=work, writable=True),)
    control_folder = bench.folder("control")
    small: dict[str, Any] = {"kind": "sparse", "most": 1, "mb": 1}
    control = await bench.control("fill", {**small, "folder": control_folder})
    bench.prove(control["made"] == 1, control)
    for name, folder in (("work", work), ("temporary", "")):
        for kind, most in (
            ("large", 40),
            ("small", bench.times(bench.backend.small_files, 500)),
            ("sparse", 1),
        ):
            params = {"folder": folder, "kind": kind, "most": most, "mb": 64}
            report = await bench.run("fill", params, places=places, timeout=float(bench.times(25, 250)))
            full = report.ending == "returned" and bench.said(report).get("made") == most
            bench.expect(f"{name}_{kind}", not full and report.ending != "timed_out", report)
            await anyio.to_thread.run_sync(_clear, work)
    await _nowhere_else(bench, work)
    state = os.statvfs(work)
    bench.need("host_disk", state.f_bavail * state.f_frsize > 1 << 30, "the disk of the host is nearly full")


async def _nowhere_else(bench: Bench, work: str) -> None:
    """What is bounded is what may be written: a file can be made in no other folder."""
    control = bench.folder("control")
    asked: dict[str, Any] = {"folders": [control], "top": False, "own": []}
    did = (await bench.control("make_files", asked))["did"]
    bench.prove(did == [control], did)
    above = [os.path.dirname(work)]
    while above[-1] != "/":
        above.append(os.path.dirname(above[-1]))
    asked = {"folders": [*above, *ELSEWHERE], "top": True, "own": [work]}
    said = await bench.value("make_files", asked, places=(Place(path=work, writable=True),))
    bench.expect("elsewhere", said["did"] == [], said["did"])


def _clear(folder: str) -> None:
    import shutil

    shutil.rmtree(os.path.join(folder, "filled"), ignore_errors=True)


async def open_descriptors_are_bounded(bench: Bench) -> None:
    control = await bench.control("open_files", {"most": 900})
    bench.prove(control["count"] == 900, control)
    said = await bench.value("open_files", {"most": 900})
    bench.expect("bounded", said["count"] < 900, said)
    bench.need("host", len(os.listdir("/proc/self/fd")) > 0, "the host cannot open files any more")


async def deep_recursion_ends_the_job_and_not_the_host(bench: Bench) -> None:
    control = await bench.bare("recursion", {"unbounded": False})
    bench.prove(control.exit_code not in (0, None), control)
    for unbounded in (False, True):
        report = await bench.run("recursion", {"unbounded": unbounded})
        ended = report.ending in ("raised", "exited", "signalled", "out_of_memory", "stopped", "no_result")
        bench.expect("typed", ended, report)
        bench.expect("next", (await bench.run("echo")).ending == "returned", "the next call did not run")


async def a_crash_leaves_no_core_file(bench: Bench) -> None:
    work = bench.folder("work")
    crash: dict[str, Any] = {"signal": int(signal.SIGABRT)}
    outside = bench.folder("control")
    control = await bench.bare("crash", crash, cwd=outside)
    bench.prove(control.exit_code == -signal.SIGABRT, control)
    if not os.listdir(outside):
        bench.note("this machine leaves no core file beside a program, so only the limit on them can be seen")
    if await bench.absent("crash", crash):
        return
    places = (Place(path=work, writable=True),)
    machine_code = "system_calls" not in bench.guest.absent
    # An engine may take a SIGSEGV that somebody sent for one of its own tricks.
    for number in (signal.SIGABRT, *((signal.SIGSEGV,) if machine_code else ())):
        report = await bench.run("crash", {"signal": int(number)}, places=places, cwd=work)
        bench.expect("crashed", report.signal == number, report)
        bench.expect("no_core", os.listdir(work) == [], os.listdir(work))
    if machine_code:
        room = await bench.value("core_limit")
        bench.expect("no_room", room == [0, 0], room)


_EXACT = Guarantee.MEMORY_EXACT.value
BEHAVIOURS = (
    behaviour(11, a_memory_bomb_is_stopped_and_the_host_stays_flat, "RES-09 WASM-05", "memory_bounded"),
    behaviour(12, memory_outside_the_script_heap_is_counted, "RES-09 WASM-05", "memory_bounded"),
    behaviour(13, one_huge_allocation_fails_at_once, "RES-12", "memory_bounded"),
    behaviour(14, memory_of_all_processes_of_a_job_counts_together, "RES-09", _EXACT),
    behaviour(15, a_fork_bomb_is_bounded_for_root_and_for_a_user, "RES-03", "processes_bounded"),
    behaviour(16, a_thread_or_worker_bomb_is_bounded, "RES-12 JS-09", "processes_bounded"),
    behaviour(17, filling_the_disk_stays_inside, "RES-10", "disk_bounded", slow=True),
    behaviour(18, open_descriptors_are_bounded, "RES-11"),
    behaviour(19, deep_recursion_ends_the_job_and_not_the_host, "WASM-08", slow=True),
    behaviour(20, a_crash_leaves_no_core_file, "RES-25"),
)
