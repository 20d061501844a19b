"""Behaviours 47 to 53: network, privilege, neighbours, terminals, code made at run time."""

import ctypes
import os
import shutil
import stat
import time
from typing import Any

import anyio

from metier.model.guarantee import Guarantee
from metier.sandbox.guest.syscall_filter import NUMBERS
from metier.testing.sandbox_kit import host_process, leftovers, servers
from metier.testing.sandbox_kit.behaviour import behaviour
from metier.testing.sandbox_kit.bench import Bench
from metier.testing.sandbox_kit.checks_files import SECRET, place
from metier.testing.sandbox_kit.probes_python import PYTHON


async def no_network_of_any_family(bench: Bench) -> None:
    with servers.on_loopback() as listening:
        async with anyio.create_task_group() as tasks:
            listening.serve(tasks)
            await bench.attack_outside("network", listening.params)
            bench.prove("tcp" in listening.reached, f"reached from outside: {listening.reached}")
            listening.reached.clear()
            await bench.attack_inside("network", listening.params)
            bench.expect("reached", not listening.reached, listening.reached)
            if Guarantee.NETWORK_BY_GRANT in bench.promises:
                report = await bench.run("network", listening.params, hosts=("metier-kit.invalid",))
                refused = bench.said(report).get("did") == []  # where the request itself is all there is
                bench.expect("granted_ran", report.ending == "returned" or refused, report)
                bench.expect("granted_reached", not listening.reached, listening.reached)
            tasks.cancel_scope.cancel()


async def no_unix_socket_by_name_or_by_path(bench: Bench) -> None:
    folder = bench.folder("s")
    with servers.by_name(folder) as listening:
        async with anyio.create_task_group() as tasks:
            listening.serve(tasks)
            asked = listening.params
            granted = (place(folder, writable=True),)
            report = await bench.attack("unix_sockets", asked, asked, places=granted)
            bench.expect("no_violation", not report.violations, report.violations)
            tasks.cancel_scope.cancel()


async def no_privilege_is_left_also_when_the_host_is_root(bench: Bench) -> None:
    folder = bench.folder("granted")
    own = bench.file(folder, "own", "mine")
    program = os.path.join(folder, "id")
    shutil.copy("/usr/bin/id", program)
    os.chmod(program, 0o4755)  # noqa: S103  that is the point of it
    asked: dict[str, Any] = {"own": own, "setuid": program}
    control = await bench.control("privilege", asked)
    if os.geteuid() == 0:
        bench.prove(control["capabilities"] and "device" in control["did"], control)
        for name in ("device", "own"):
            os.unlink(os.path.join(folder, name))
        bench.file(folder, "own", "mine")
    else:
        bench.prove(control["no_new_privileges"] == 0 or bool(control["groups"]), control)
    if await bench.absent("privilege", asked):
        return
    said = await bench.value("privilege", asked, places=(place(folder, writable=True),))
    bench.expect("no_new_privileges", said["no_new_privileges"] == 1, said)
    bench.expect("capabilities", said["capabilities"] is False, said)
    bench.expect("groups", said["groups"] == [], said)
    for name in said["did"]:
        bench.expect(name, False, said)
    bench.expect("no_device", not _device_in(folder), os.listdir(folder))


def _device_in(folder: str) -> bool:
    return any(stat.S_ISCHR(os.lstat(os.path.join(folder, name)).st_mode) for name in os.listdir(folder))


_NOWHERE = -4096
"""An address that is nobody's."""
_NEW_USER, _SHARES_FILES = 0x10000000, 0x200
CALLS: dict[str, list[int]] = {
    name: [NUMBERS[name], *arguments]
    for name, arguments in {
        "ptrace": [9999, 0, 0, 0],
        "process_vm_readv": [1, 0, 0, 0, 0, 7],
        "process_vm_writev": [1, 0, 0, 0, 0, 7],
        "pidfd_getfd": [-1, 0, 0],
        "mount": [_NOWHERE, _NOWHERE, _NOWHERE, 0, 0],
        "umount2": [_NOWHERE, 0xFFFF],
        "pivot_root": [_NOWHERE, _NOWHERE],
        "chroot": [_NOWHERE],
        "move_mount": [-1, _NOWHERE, -1, _NOWHERE, 0],
        "open_tree": [-1, _NOWHERE, 0],
        "fsopen": [_NOWHERE, 0],
        "fsconfig": [-1, 99, 0, 0, 0],
        "fsmount": [-1, 0, 0],
        "fspick": [-1, _NOWHERE, 0],
        "mount_setattr": [-1, _NOWHERE, 0, 0, 0],
        "unshare": [0],
        "setns": [-1, 0],
        "bpf": [9999, 0, 0],
        "perf_event_open": [_NOWHERE, 0, -1, -1, 0],
        "userfaultfd": [0x7FFF],
        "io_uring_setup": [0, _NOWHERE],
        "io_uring_enter": [-1, 0, 0, 0, 0, 0],
        "io_uring_register": [-1, 99, 0, 0],
        "add_key": [_NOWHERE, _NOWHERE, 0, 0, 0],
        "request_key": [_NOWHERE, _NOWHERE, 0, 0],
        "keyctl": [9999, 0, 0, 0, 0],
        "open_by_handle_at": [-1, _NOWHERE, 0],
        "init_module": [_NOWHERE, 0, _NOWHERE],
        "finit_module": [-1, _NOWHERE, 0],
        "delete_module": [_NOWHERE, 0],
        "kexec_load": [0, 0, 0, 0xFFFF],
        "reboot": [0, 0, 0, 0],
        "swapon": [_NOWHERE, 0],
        "swapoff": [_NOWHERE],
        "acct": [_NOWHERE],
        "settimeofday": [_NOWHERE, 0],
        "clock_settime": [9999, _NOWHERE],
        "sethostname": [_NOWHERE, 100_000],
        "setdomainname": [_NOWHERE, 100_000],
        "iopl": [99],
        "ioperm": [1 << 20, 1, 1],
        "clone": [_NEW_USER | _SHARES_FILES, 0, 0, 0, 0],
    }.items()
}
"""Each with arguments that the kernel itself would refuse, or that change nothing."""
QUIET: dict[str, list[int]] = {"clone3": [NUMBERS["clone3"], 0, 0], "unknown": [2_000, 0, 0]}


async def dangerous_syscalls_are_refused(bench: Bench) -> None:
    await bench.attack_outside("system_calls", {"calls": {**CALLS, **QUIET}})
    if await bench.absent("system_calls", {"calls": {}}):
        return
    watched = Guarantee.VIOLATIONS_SEEN in bench.promises
    for name in CALLS if watched else ():
        await _stopped(bench, name, "system_calls", {"calls": {name: CALLS[name]}})
    report = await bench.attack_inside("system_calls", {"calls": QUIET if watched else {**CALLS, **QUIET}})
    bench.expect("goes_on", report.ending == "returned" and not report.violations, report)
    answers = bench.said(report).get("answers", {})
    quiet = {name: answers.get(name) for name in QUIET}
    bench.expect("unknown", quiet == dict.fromkeys(QUIET, "ENOSYS"), quiet)


async def host_and_neighbours_cannot_be_seen_signalled_or_traced(bench: Bench) -> None:
    asked: dict[str, Any] = {"pids": {"host": os.getpid()}, "everybody": 0}
    control = await bench.control("others", asked)
    bench.prove({"signal_host", "see_host", "look_host"} <= set(control["did"]), control)
    room = ctypes.create_string_buffer(8)
    traced = {"pid": os.getpid(), "address": ctypes.addressof(room)}
    reading = await bench.control("trace", traced)
    bench.prove(os.geteuid() != 0 or "read" in reading["did"], reading)
    if await bench.absent("others", asked):
        return
    before = leftovers.look().processes
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.run, "sleep", {"seconds": 20})
        new = await neighbours(bench, before)
        pids = {f"neighbour_{number}": pid for number, pid in enumerate(new)}
        asked = {"pids": {"host": os.getpid(), **pids}, "everybody": len(before) + 9}
        report = await bench.run("others", asked)
        did = bench.said(report).get("did")
        bench.expect("others inside", did is not None, report)
        for name in did or ():
            bench.expect(name.split("_")[0], False, name)
        tasks.cancel_scope.cancel()
    if Guarantee.VIOLATIONS_SEEN in bench.promises:
        for how in ("ptrace", "process_vm_readv"):
            await _stopped(bench, how, "trace", {**traced, "how": [how]})
        return
    report = await bench.run("trace", traced)
    bench.expect("trace", bench.said(report).get("did") == [], report)


async def _stopped(bench: Bench, name: str, act: str, params: dict[str, Any]) -> None:
    """What no run may ever try ends it there and then, and is told."""
    report = await bench.run(act, params)
    bench.expect("stopped", report.ending != "returned" and report.value is None, report)
    bench.expect("told", [each.detail for each in report.violations] == [name], report)


async def neighbours(bench: Bench, before: frozenset[str]) -> list[int]:
    """The processes of a run that has just been started, once there are no more of them than a moment ago."""
    new, since, give_up = frozenset[str](), time.monotonic(), time.monotonic() + 10
    while (not new or time.monotonic() < since + 0.2) and time.monotonic() < give_up:
        await anyio.sleep(0.02)
        now = leftovers.look().processes - before
        if now != new:
            new, since = now, time.monotonic()
    bench.need("neighbour", bool(new), "nothing was started")
    return sorted(int(each.split()[0]) for each in new)


async def no_terminal_is_reachable(bench: Bench) -> None:
    ours, theirs = os.openpty()
    try:
        folder = bench.folder("host")
        async with host_process.started(bench, ["terminal"], [{}], folder, terminal=theirs) as host:
            answers = await host.answers()
            said = answers[0]["said"]
            bench.prove("open" in answers[-1]["bare"]["did"], answers)
            if answers[0]["ending"] == "returned":
                bench.expect("terminal", said["did"] == [], answers)
            else:
                bench.expect("terminal", "terminal" in bench.guest.absent, answers)
    finally:
        os.close(ours)
        os.close(theirs)


async def code_made_at_run_time_meets_the_same_walls(bench: Bench) -> None:
    file = bench.file(bench.folder("outside"), "secret", SECRET)
    folder = bench.folder("granted")
    for where, places in ((folder, (place(folder, writable=True),)), ("", ())):
        asked: dict[str, Any] = {"file": file, "secret": SECRET, "folder": where, "python": PYTHON}
        outside = {**asked, "folder": bench.folder("control")}
        await bench.attack("made_code", asked, outside, places=places)


BEHAVIOURS = (
    behaviour(47, no_network_of_any_family, "LNX-12 JS-07", "no_network network_by_grant"),
    behaviour(48, no_unix_socket_by_name_or_by_path, "LNX-11", "no_network"),
    behaviour(49, no_privilege_is_left_also_when_the_host_is_root, "LNX-08", "no_privilege"),
    behaviour(50, dangerous_syscalls_are_refused, "LNX-09", "no_privilege"),
    behaviour(
        51, host_and_neighbours_cannot_be_seen_signalled_or_traced, "LNX-07 LNX-15", "processes_hidden"
    ),
    behaviour(52, no_terminal_is_reachable, "LNX-05 JS-14", "no_privilege"),
    behaviour(
        53,
        code_made_at_run_time_meets_the_same_walls,
        "LNX-18 JS-05 JS-06 JS-09 JS-10 JS-16 PY-01 PY-02 PY-08",
        "contents no_privilege",
    ),
)
