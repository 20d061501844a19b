"""Behaviours 49 to 53: privilege, neighbours, terminals, code made at run time."""

import ctypes
import os
import shutil
import stat
import struct
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import anyio

from metier.model.guarantee import Guarantee
from metier.sandbox.guest.syscall_filter import NUMBERS
from metier.testing.sandbox_kit import checks_network, host_process, leftovers
from metier.testing.sandbox_kit.behaviour import behaviour
from metier.testing.sandbox_kit.bench import Bench
from metier.testing.sandbox_kit.checks_files import SECRET, place
from metier.testing.sandbox_kit.neighbours import neighbours
from metier.testing.sandbox_kit.probes_python import PYTHON


async def no_privilege_is_left_also_when_the_host_is_root(bench: Bench) -> None:
    root = os.geteuid() == 0
    folder, outside = bench.folder("granted"), bench.folder("control")
    asked, bare = (_programs(bench, each) for each in (folder, outside))
    control = await bench.control("privilege", bare)
    if root:
        bench.prove(control["capabilities"] and "device" in control["did"], control)
        for name in ("setuid", "capable"):
            bench.prove(not asked[name] or f"{name}_program" in control["did"], control)
    else:
        bench.prove(control["no_new_privileges"] == 0 or bool(control["groups"]), control)
    await _no_program_with_its_owners_rights(bench)
    if await bench.absent("privilege", asked):
        return
    said = await bench.value("privilege", asked, places=(place(folder, writable=True),))
    bench.expect("no_new_privileges", said["no_new_privileges"] == 1, said)
    bench.expect("capabilities", said["capabilities"] is False, said)
    # Only root can give its groups up; in a namespace those of anybody else are left without a number of their own.
    bench.expect("groups", set(said["groups"]) <= (set[int]() if root else {_NOBODY}), said)
    for name in said["did"]:
        bench.expect(name, False, said)
    bench.expect("no_device", not _device_in(folder), os.listdir(folder))
    bench.expect("own", os.stat(asked["own"]).st_uid == os.geteuid(), said)
    if root:
        await _no_group_of_the_host(bench, asked)


_NOBODY = 65_534
"""What every group without a number of its own in a user namespace is shown as."""
_GROUPS = [4, 27]
"""Of a host that is root. They need no name, and on most machines they mean something: the logs, sudo."""


async def _no_group_of_the_host(bench: Bench, asked: Mapping[str, Any]) -> None:
    """Tried in a host that is in some: one that is in none has none to let in."""
    folder = bench.folder("host")
    async with host_process.started(bench, ["privilege"], [asked], folder, groups=_GROUPS) as host:
        inside, outside = await host.answers()
    bench.prove(outside["bare"]["groups"] == _GROUPS, outside)
    bench.expect("groups", inside["ending"] == "returned" and inside["said"]["groups"] == [], inside)


_MAY_CHOWN = struct.pack("<5I", 0x02000001, 1, 0, 0, 0)
"""As the kernel keeps it with a file: who runs it may change the owners of files."""


def _programs(bench: Bench, folder: str) -> dict[str, Any]:
    """A file of ours, and programs that could give it to somebody else if they got the rights that stand in them."""
    asked: dict[str, Any] = {"own": bench.file(folder, "own", "mine"), "setuid": "", "capable": ""}
    if os.geteuid() != 0:
        bench.note(
            "only root has programs that give others its rights; that none can be gained is told by the kernel"
        )
        return asked
    if os.statvfs(folder).f_flag & os.ST_NOSUID:
        bench.note("programs with rights of their own have none in this file system")
        return asked
    for name in ("setuid", "capable"):
        asked[name] = os.path.join(folder, name)
        shutil.copy(shutil.which("chown") or "/bin/chown", asked[name])
    os.chmod(asked["setuid"], 0o4755)  # noqa: S103  that is the point of it
    try:
        os.setxattr(asked["capable"], "security.capability", _MAY_CHOWN)
    except OSError as error:
        bench.note(f"no capability can be kept with a file here: {error.strerror}")
        asked["capable"] = ""
    return asked


async def _no_program_with_its_owners_rights(bench: Bench) -> None:
    """None is left on the host, for whoever starts it there, by any call that makes or changes a file."""
    outside, folder = bench.folder("control"), bench.folder("granted")
    await bench.attack_outside("set_id", {"folder": outside})
    bench.prove(bool(_set_id_in(outside)), os.listdir(outside))
    await bench.attack_inside("set_id", {"folder": folder}, places=(place(folder, writable=True),))
    left = _set_id_in(folder)
    bench.expect("set_id", not left, left)


def _set_id_in(folder: str) -> list[str]:
    rights = stat.S_ISUID | stat.S_ISGID
    return [name for name in os.listdir(folder) if os.lstat(os.path.join(folder, name)).st_mode & rights]


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
        "open_tree_attr": [-1, _NOWHERE, 0xFFFF, 0, 0],
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
        "kexec_file_load": [-1, -1, 0, 0, 0xFFFF],
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
        "vhangup": [],
        "clone": [_NEW_USER | _SHARES_FILES, 0, 0, 0, 0],
    }.items()
}
"""Each with arguments that the kernel itself would refuse, or that change nothing."""
QUIET: dict[str, list[int]] = {
    "clone3": [NUMBERS["clone3"], 0, 0],
    "io_uring_setup": [NUMBERS["io_uring_setup"], 0, _NOWHERE],
    "unknown": [2_000, 0, 0],
}
OUTSIDE = {**CALLS, **QUIET}
WORDS = {"i386": 20, "x32": 39}
"""Other machine words that this kernel may know, and the number of `getpid` in each."""


async def dangerous_syscalls_are_refused(bench: Bench) -> None:
    await bench.attack_outside("system_calls", {"calls": OUTSIDE})
    for word in WORDS:
        told: Any = (await bench.bare("other_word", {"word": word})).value
        if told and word in told["did"]:
            bench.prove(True, f"outside {word} is answered")
        else:
            bench.note(f"this kernel answers nobody who asks in {word}")
    if await bench.absent("system_calls", {"calls": {}}):
        return
    watched = Guarantee.VIOLATIONS_SEEN in bench.promises
    async with anyio.create_task_group() as tasks:
        few = anyio.CapacityLimiter(4)  # each ends the guest that it was tried in
        for name in CALLS if watched else ():
            asked: dict[str, Any] = {"calls": {name: CALLS[name]}}
            tasks.start_soon(_stopped, bench, name, "system_calls", asked, few)
        for word, number in WORDS.items():
            detail = f"number {number} of another machine word" if watched else ""
            tasks.start_soon(_stopped, bench, detail, "other_word", {"word": word}, few)
    every = {name: call for name, call in {**CALLS, **QUIET}.items() if name in QUIET or not watched}
    report = await bench.attack_inside("system_calls", {"calls": every})
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
    neighbour = bench.folder("neighbour")
    await bench.attack_outside(
        "files_of_others", _files_of(neighbour, bench.file(neighbour, _OF_A_NEIGHBOUR, SECRET))
    )
    if await bench.absent("stay"):
        await bench.absent("others", asked)
        return
    before = leftovers.look().processes
    async with anyio.create_task_group() as tasks:
        granted = bench.folder("granted")
        stays = {"seconds": 20, "secret": SECRET, "folder": granted}
        tasks.start_soon(partial(bench.run, "stay", stays, places=(place(granted, writable=True),)))
        file = await _told(bench, os.path.join(granted, "where"))
        new = await neighbours(bench, before) if bench.guest.has_processes else []
        await bench.attack_inside("files_of_others", _files_of(granted, file, *new))
        if not await bench.absent("others", asked):
            pids = {f"neighbour_{number}": pid for number, pid in enumerate(new)}
            asked = {"pids": {"host": os.getpid(), **pids}, "everybody": len(before) + 9}
            await _others(bench, asked)
        tasks.cancel_scope.cancel()
    if await bench.absent("trace", traced):
        return
    if Guarantee.VIOLATIONS_SEEN in bench.promises:
        for how in ("ptrace", "process_vm_readv"):
            await _stopped(bench, how, "trace", {**traced, "how": [how]})
        return
    report = await bench.run("trace", traced)
    bench.expect("trace", bench.said(report).get("did") == [], report)


async def _others(bench: Bench, asked: dict[str, Any]) -> None:
    report = await bench.run("others", asked)
    did = bench.said(report).get("did")
    bench.expect("others inside", did is not None, report)
    for name in did or ():
        bench.expect(name.split("_")[0], False, name)


_OF_A_NEIGHBOUR = "of-a-neighbour"


def _files_of(granted: str, file: str, *pids: int) -> dict[str, Any]:
    return {"file": file, "granted": granted, "secret": SECRET, "pids": list(pids or (os.getpid(),))}


async def _told(bench: Bench, path: str) -> str:
    """Where the neighbour has something of its own, as soon as it says so."""
    give_up = time.monotonic() + 10
    while time.monotonic() < give_up:
        with suppress(FileNotFoundError), open(path, encoding="utf-8") as file:  # noqa: ASYNC230
            if (said := file.read()).endswith(_OF_A_NEIGHBOUR):
                return said
        await anyio.sleep(0.01)
    bench.need("neighbour", False, "it did not say where its files are")
    return ""


async def _stopped(
    bench: Bench, name: str, act: str, params: dict[str, Any], at_once: anyio.CapacityLimiter | None = None
) -> None:
    """What no run may ever try ends it there and then, and is told, where there is somebody to tell."""
    async with at_once or anyio.CapacityLimiter(1):
        report = await bench.run(act, params)
    bench.expect("stopped", report.ending != "returned" and report.value is None, report)
    if name:
        bench.expect("told", [each.detail for each in report.violations] == [name], report)


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
                refused = answers[0]["ending"] in ("raised", "not_started")
                bench.expect("terminal", refused and "terminal" in bench.guest.absent, answers)
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
    *checks_network.BEHAVIOURS,
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
