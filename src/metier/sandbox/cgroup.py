"""Control groups: one limit on the memory and the number of all processes of a run together, where we may make them.

Both kinds are known: the one hierarchy of version 2, and the older one with a hierarchy per controller. Groups are
made below the one we are in (version 2 forbids that where processes are: then beside it), never nearer the root.
Everything here blocks, mostly for microseconds; `kill` and `remove` for two seconds at the most.
"""

import os
import re
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, final

from msgspec import Struct

_PREFIX: Final = "metier"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,99}")
_OURS: Final = re.compile(rf"{_PREFIX}-(\d+)-(\d+)-(\d+)-.*")
_LEFT_SECONDS: Final = 3_600.0
"""A process is put into its group a moment after the group was made. One that is empty for so long has nobody."""
_PATIENCE_SECONDS: Final = 2.0
_PAUSE_SECONDS: Final = 0.002
_NEEDED: Final = frozenset({"memory", "pids"})


@final
class Layout(Struct, frozen=True, kw_only=True):
    """The folders under which groups are made. In version 2 all three are one."""

    memory: str
    pids: str
    kill: str = ""
    """Where `cgroup.kill` may be; empty when version 2 is not mounted at all."""
    unified: bool
    beside: bool = False
    """Next to our own group instead of below it."""

    @property
    def folders(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(folder for folder in (self.memory, self.pids, self.kill) if folder))


def layouts(memberships: str, mounts: str) -> tuple[Layout, ...]:
    """Where groups might be made, best first, by the text of /proc/self/cgroup and /proc/self/mountinfo."""
    places = _mounted(mounts)
    ours: dict[str, str] = {}
    for line in memberships.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            folder = _folder(places.get(controller), path)
            if folder:
                ours[controller] = folder
    unified = ours.get("", "")
    found: list[Layout] = []
    if "memory" in ours and "pids" in ours:
        found.append(Layout(memory=ours["memory"], pids=ours["pids"], kill=unified, unified=False))
    if unified:
        top = places[""][1]
        found.append(Layout(memory=unified, pids=unified, kill=unified, unified=True))
        above = os.path.dirname(unified)
        if top not in (unified, above):
            found.append(Layout(memory=above, pids=above, kill=above, unified=True, beside=True))
    return tuple(found)


def _mounted(mounts: str) -> dict[str, tuple[str, str]]:
    """Controller → (which part of the hierarchy, mounted where). Version 2 has the empty name."""
    places: dict[str, tuple[str, str]] = {}
    for line in mounts.splitlines():
        before, separated, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if not separated or len(fields) < 5 or len(kind) < 3:
            continue
        if kind[0] == "cgroup2":
            places.setdefault("", (fields[3], fields[4]))
        elif kind[0] == "cgroup":
            for option in kind[2].split(","):
                places.setdefault(option, (fields[3], fields[4]))
    return places


def _folder(place: tuple[str, str] | None, path: str) -> str:
    """The folder of a group, or nothing where that part of the hierarchy is not mounted."""
    if place is None or path.startswith("/.."):
        return ""
    root, mounted = place
    if root != "/":
        if path != root and not path.startswith(root + "/"):
            return ""
        path = path[len(root) :]
    return (mounted + path).rstrip("/")


def find() -> "Groups | None":
    """Where groups can be made here, found out by making one and removing it. None: nowhere. Never raises."""
    try:
        with open("/proc/self/cgroup") as cgroup, open("/proc/self/mountinfo") as mountinfo:
            candidates = layouts(cgroup.read(), mountinfo.read())
    except (OSError, ValueError):
        return None
    for layout in candidates:
        groups = Groups(layout)
        if groups.work():
            return groups
    return None


@final
class Groups:
    """A place where groups can be made."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def work(self) -> bool:
        """Whether a group can really be made, limited and removed here."""
        try:
            if self._layout.unified:
                _prepare(self._layout)
            trial = self.make(f"trial-{time.monotonic_ns()}", memory_bytes=1 << 24, processes=1)
        except (OSError, ValueError):
            return False
        return trial.remove()

    def make(self, name: str, *, memory_bytes: int, processes: int) -> "Group":
        """A new group without processes, with its limits set. Raises OSError when any of it fails, and leaves
        nothing then. The name is ours to complete: it says who made it, for `sweep`."""
        if not _NAME.fullmatch(name) or memory_bytes < 1 or processes < 1:
            raise ValueError("a group needs a short plain name and limits above 0")
        pid = os.getpid()
        full = f"{_PREFIX}-{_namespace()}-{pid}-{_started(pid)}-{name}"
        made: list[str] = []
        try:
            for folder in self._layout.folders:
                os.mkdir(f"{folder}/{full}")
                made.append(f"{folder}/{full}")
            group = Group(self._layout, full)
            group.limit(memory_bytes=memory_bytes, processes=processes)
        except OSError:
            for folder in made:
                with suppress(OSError):
                    os.rmdir(folder)
            raise
        return group

    def sweep(self) -> int:
        """Remove the empty groups of processes that are gone, and say how many folders that were.

        Whether somebody in another container is gone cannot be seen from here, though his groups may be: what is his is
        removed only when it has been there for long.
        """
        removed, here = 0, _namespace()
        for folder in self._layout.folders:
            with suppress(OSError):
                for entry in os.listdir(folder):
                    ours = _OURS.fullmatch(entry)
                    if not ours:
                        continue
                    with suppress(OSError):  # not empty: somebody still lives in it
                        if int(ours[1]) == here:
                            gone = _started(int(ours[2])) != int(ours[3])
                        else:
                            gone = time.time() - os.stat(f"{folder}/{entry}").st_mtime > _LEFT_SECONDS
                        if gone:
                            os.rmdir(f"{folder}/{entry}")
                            removed += 1
        return removed


@final
class Group:
    """One group. Its limits hold for all processes in it together, and for what they start."""

    def __init__(self, layout: Layout, name: str) -> None:
        self._memory = f"{layout.memory}/{name}"
        self._pids = f"{layout.pids}/{name}"
        self._kill = f"{layout.kill}/{name}" if layout.kill else ""
        self._folders = tuple(f"{folder}/{name}" for folder in layout.folders)
        self._unified = layout.unified
        self._processes = 0
        self._killed_before = 0
        self._peak = -1
        self._events = -1

    def limit(self, *, memory_bytes: int, processes: int) -> None:
        """Set the limits; memory that was swapped out counts too."""
        self._processes = processes
        _write(f"{self._pids}/pids.max", str(processes))
        if self._unified:
            _write(f"{self._memory}/memory.max", str(memory_bytes))
            _write_if_there(f"{self._memory}/memory.swap.max", "0")
            return
        _write(f"{self._memory}/memory.limit_in_bytes", str(memory_bytes))
        if not _write_if_there(f"{self._memory}/memory.memsw.limit_in_bytes", str(memory_bytes)):
            _write(f"{self._memory}/memory.swappiness", "0")

    def attach(self, pid: int) -> None:
        """Put a process in; what it starts from now on is in as well, what it started before is not."""
        for folder in self._folders:
            _write(f"{folder}/cgroup.procs", str(pid))

    def peak_bytes(self) -> int:
        """The most memory the group had at once since it was made or `reset_peak`. Before Linux 6.12 version 2
        cannot begin anew, and before 5.19 it only tells what is used now."""
        if self._peak < 0:
            self._peak = self._open_peak()
        return int(os.pread(self._peak, 32, 0))

    def reset_peak(self) -> None:
        if self._peak < 0:
            self._peak = self._open_peak()
        with suppress(OSError):
            # In version 2 it begins anew only for the descriptor that said so.
            os.pwrite(self._peak, b"0", 0)

    def ran_out_of_memory(self) -> bool:
        """Whether a process was killed for want of memory since this was last asked."""
        if self._events < 0:
            file = "memory.events" if self._unified else "memory.oom_control"
            self._events = os.open(f"{self._memory}/{file}", os.O_RDONLY | os.O_CLOEXEC)
        counts = dict(line.split() for line in os.pread(self._events, 4_096, 0).splitlines())
        killed = int(counts.get(b"oom_kill", b"0"))
        before, self._killed_before = self._killed_before, killed
        return killed > before

    def _open_peak(self) -> int:
        """Kept open: this is asked after every run."""
        names = ("memory.peak", "memory.current") if self._unified else ("memory.max_usage_in_bytes",)
        for name in names:
            for flags in (os.O_RDWR, os.O_RDONLY):
                with suppress(OSError):
                    return os.open(f"{self._memory}/{name}", flags | os.O_CLOEXEC)
        raise FileNotFoundError(f"{self._memory} does not tell how much memory was used")

    def kill(self) -> None:
        """Kill everybody in it, and wait until they are gone or patience ends."""
        at_once = bool(self._kill) and _write_if_there(f"{self._kill}/cgroup.kill", "1")
        if not at_once:
            # Who cannot multiply can be counted out one by one.
            _write_if_there(f"{self._pids}/pids.max", "0")
        give_up = time.monotonic() + _PATIENCE_SECONDS
        while _kill_all(self._folders) and time.monotonic() < give_up:
            time.sleep(_PAUSE_SECONDS)
        if not at_once:
            _write_if_there(f"{self._pids}/pids.max", str(self._processes))

    def remove(self) -> bool:
        """Kill who is left in it and remove it. False: something held it for two seconds; `sweep` will find it."""
        for descriptor in (self._peak, self._events):
            if descriptor >= 0:
                os.close(descriptor)
        self._peak = self._events = -1
        self.kill()
        give_up = time.monotonic() + _PATIENCE_SECONDS
        while not all(_removed(folder) for folder in self._folders):
            if time.monotonic() > give_up:
                return False
            time.sleep(_PAUSE_SECONDS)
        return True


def _prepare(layout: Layout) -> None:
    """See to it that version 2 lets groups have limits there; raises where it does not."""
    if not os.access(f"{layout.memory}/cgroup.procs", os.W_OK):
        raise PermissionError(f"processes cannot be moved below {layout.memory}")
    control = f"{layout.memory}/cgroup.subtree_control"
    if not _NEEDED.issubset(_read(control).split()):
        if layout.beside:  # it is not ours to change
            raise PermissionError(f"groups in {layout.memory} have no limits on memory and processes")
        _write(control, " ".join(f"+{each}" for each in sorted(_NEEDED)))


def _kill_all(folders: Iterable[str]) -> bool:
    """Kill everybody listed; False when nobody was."""
    listed = _listed(folders)
    handles: dict[int, int] = {}
    try:
        for pid in listed:
            with suppress(OSError):
                handles[pid] = os.pidfd_open(pid)
        # Who is listed still, with the handle already open, is the one meant and not a newcomer with its number.
        for pid in handles.keys() & _listed(folders):
            with suppress(OSError):
                signal.pidfd_send_signal(handles[pid], signal.SIGKILL)
    finally:
        for handle in handles.values():
            os.close(handle)
    return bool(listed)


def _listed(folders: Iterable[str]) -> set[int]:
    listed: set[int] = set()
    for folder in folders:
        with suppress(OSError):
            listed.update(int(pid) for pid in _read(f"{folder}/cgroup.procs").split())
    # 0 stands for a process that this place cannot see.
    return listed - {0}


def _removed(folder: str) -> bool:
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _namespace() -> int:
    """In which process numbers mean what they mean here; 0 where that cannot be told."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def _started(pid: int) -> int:
    """When a process began, in ticks since the machine did; -1 when it is gone. Tells it from a later namesake."""
    try:
        return int(_read(f"/proc/{pid}/stat").rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return -1


def _read(path: str) -> str:
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read()


def _write(path: str, text: str) -> None:
    # Never creates: a file that is missing is a control that this kernel lacks.
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode("ascii"))
    finally:
        os.close(descriptor)


def _write_if_there(path: str, text: str) -> bool:
    try:
        _write(path, text)
    except FileNotFoundError:
        return False
    return True
