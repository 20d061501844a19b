"""What there is on this machine because of us: processes, descriptors, mounts, control groups, temporary files.

Others may be running sandboxes here too, so a process counts when it descends from us, or when it is a sandbox's and
nobody is left above it.
"""

import os
import tempfile
from collections.abc import Mapping
from typing import Final, final

from msgspec import Struct

FIRST_TENANT: Final = 1_879_048_192
_SUPERVISOR: Final = "metier/sandbox/guest/"
_TEMPORARY: Final = ("metier-run-", "metier-stage-", "metier-kit-")


@final
class Seen(Struct, frozen=True, kw_only=True):
    """One look. Each part is a set of things told apart for good: a process by its number and its start."""

    processes: frozenset[str]
    descriptors: frozenset[str]
    mounts: frozenset[str]
    groups: frozenset[str]
    files: frozenset[str]

    def more_than(self, before: "Seen") -> list[str]:
        """What is here now and was not then, in words."""
        found: list[str] = []
        for name in self.__struct_fields__:
            new = getattr(self, name) - getattr(before, name)
            found += [f"{name}: {each}" for each in sorted(new)]
        return found


@final
class _Process(Struct, frozen=True):
    pid: int
    parent: int
    state: str
    started: str
    uid: int
    line: str


def mark() -> str:
    """A word by which programs of the kit are told from everybody else's, also when nobody is left above them."""
    return f"metier-kit-of-{os.getpid()}"


def look() -> Seen:
    """Look now."""
    return Seen(
        processes=frozenset(f"{each.pid} since {each.started}: {each.line[:160]}" for each in ours()),
        descriptors=_descriptors(),
        mounts=_mounts(),
        groups=_groups(),
        files=_files(),
    )


def ours() -> list[_Process]:
    """Our descendants, and what is left of sandboxes without anybody above."""
    table = _table()
    return [each for each in table.values() if _is_ours(each, table)]


def below(pid: int) -> dict[int, str]:
    """Everything that descends from a process, and when each began."""
    table = _table()
    return {
        each.pid: each.started for each in table.values() if each.pid != pid and _descends(each, pid, table)
    }


def serving(path: str) -> dict[int, str]:
    """Whoever below us has this file open, and everybody between them and us, and when each began."""
    table = _table()
    found: dict[int, str] = {}
    for pid in holders(path):
        above = table.get(pid)
        while above is not None and above.pid != os.getpid():
            found[above.pid] = above.started
            above = table.get(above.parent)
    return found


def directly_above(path: str) -> dict[int, str] | None:
    """Whoever started those below us that have this file open, and is none of them, and when each began; None when that is
    us."""
    table, found = _table(), holders(path)
    parents = {table[pid].parent for pid in found if pid in table} - {*found}
    if parents == {os.getpid()}:
        return None
    return {pid: table[pid].started for pid in parents - {os.getpid()} if pid in table}


def holders(path: str) -> list[int]:
    """Whoever below us has this file open."""
    meant = os.stat(path)
    return [pid for pid in below(os.getpid()) if _holds(pid, meant)]


def _holds(pid: int, meant: os.stat_result) -> bool:
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            found = os.stat(f"/proc/{pid}/fd/{name}")
            if (found.st_dev, found.st_ino) == (meant.st_dev, meant.st_ino):
                return True
    except OSError:
        pass  # it ended, or hides; whoever is meant does neither
    return False


def alive(processes: Mapping[int, str]) -> list[int]:
    """Which of these are still there."""
    table = _table()
    found: list[int] = []
    for pid, started in processes.items():
        now = table.get(pid)
        if now is not None and now.started == started and now.state != "Z":
            found.append(pid)
    return found


def memory_bytes() -> int:
    """What this process holds."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _is_ours(process: _Process, table: Mapping[int, _Process]) -> bool:
    if process.pid == os.getpid():
        return False
    if _descends(process, os.getpid(), table):
        return True
    if process.state == "Z":
        return False  # its parent is gone as well, so it is for the first process of the machine to bury it
    sandboxed = process.uid >= FIRST_TENANT or _SUPERVISOR in process.line
    return mark() in process.line or (sandboxed and process.parent in (0, 1))


def _descends(process: _Process, top: int, table: Mapping[int, _Process]) -> bool:
    seen = 0
    above: _Process | None = process
    while above is not None and above.pid != top and seen < 100:
        above = table.get(above.parent)
        seen += 1
    return above is not None and above.pid == top


def _table() -> dict[int, _Process]:
    found: dict[int, _Process] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
            with open(f"/proc/{name}/cmdline", "rb") as file:
                line = file.read(4096).replace(b"\0", b" ").decode("utf-8", "replace")
            uid = os.stat(f"/proc/{name}").st_uid
        except OSError:
            continue
        found[int(name)] = _Process(int(name), int(fields[1]), fields[0], fields[19], uid, line)
    return found


def _descriptors() -> frozenset[str]:
    found: set[str] = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add(f"{name} → {os.readlink(f'/proc/self/fd/{name}')}")
        except OSError:
            continue  # the one this listing was read with
    return frozenset(found)


def _mounts() -> frozenset[str]:
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        return frozenset(line.split(" ", 1)[1].rstrip() for line in file)


def _groups() -> frozenset[str]:
    mine = f"metier-{os.stat('/proc/self/ns/pid').st_ino}-{os.getpid()}-"
    found: set[str] = set()
    top = "/sys/fs/cgroup"
    for folder, names, _ in os.walk(top):
        found |= {f"{folder}/{name}" for name in names if name.startswith(mine)}
        if folder.count("/") > 8:
            names.clear()
    return frozenset(found)


def _files() -> frozenset[str]:
    top = tempfile.gettempdir()
    return frozenset(f"{top}/{name}" for name in os.listdir(top) if name.startswith(_TEMPORARY))
