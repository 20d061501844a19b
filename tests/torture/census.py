"""Counts what a program has on this machine: processes, mounts, folders, control groups, descriptors, memory.

A program makes itself the parent of orphans first. Whatever anything it started leaves behind is then below it, so
nothing of a neighbour is ever counted and nothing of its own is missed.
"""

import ctypes
import os
import time
from collections.abc import Callable

SUBREAPER = 36


def adopt_orphans() -> None:
    assert ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0) == 0


def below(top: int) -> list[int]:
    """Every process that descends from `top`, the dead that nobody has waited for among them."""
    found, todo = [], [top]
    while todo:
        pid = todo.pop()
        try:
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                    children = [int(each) for each in file.read().split()]
                found += children
                todo += children
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def alive(pids: list[int]) -> list[str]:
    """Those that are not dead, as people can read them."""
    shown: list[str] = []
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                name, _, rest = file.read().partition("(")[2].rpartition(")")
            with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
                line = file.read().replace("\0", " ")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if rest.split()[0] not in "ZX":
            shown.append(f"{pid} {name} {line[:120]}")
    return shown


def bury() -> None:
    """Wait for every dead orphan. Only where nobody else waits for children any more."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def within(seconds: float, look: Callable[[], list[str]]) -> list[str]:
    """What `look` still finds after so many seconds; returns as soon as it finds nothing."""
    until = time.monotonic() + seconds
    while (found := look()) and time.monotonic() < until:
        time.sleep(0.01)
    return found


def mounts() -> list[str]:
    """What every thread of ours sees; one that was left in a namespace of its own is a line more."""
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        seen = sorted(line.split(" ", 5)[4] for line in file)
    spaces = {os.readlink(f"/proc/self/task/{each}/ns/mnt") for each in os.listdir("/proc/self/task")}
    return [*seen, *sorted(spaces)]


def groups() -> list[str]:
    """Control groups that bear our process number."""
    mark = f"-{os.stat('/proc/self/ns/pid').st_ino}-{os.getpid()}-"
    return [
        os.path.join(folder, name)
        for folder, names, _ in os.walk("/sys/fs/cgroup")
        for name in names
        if mark in name
    ]


def descriptors() -> list[str]:
    """What each open descriptor is, without the one used for looking."""
    shown: list[str] = []
    for each in os.listdir("/proc/self/fd"):
        try:
            shown.append(os.readlink(f"/proc/self/fd/{each}").split(":[")[0])
        except FileNotFoundError:
            continue
    return sorted(shown)


def memory_mb() -> float:
    with open("/proc/self/status", encoding="ascii") as file:
        return int(file.read().split("VmRSS:")[1].split()[0]) / 1024
