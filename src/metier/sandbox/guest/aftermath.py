"""After a run: everything it started is killed and reaped, and everything it left in its own folders removed.

Standard library only: the package is not importable here.
"""

import os
import signal
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    import resource


def signal_all(number: int, *, by_tree: bool) -> None:
    """Send a signal to everything of the run. `by_tree` where there is no process namespace: then only what descends
    from us is meant."""
    for pid in below(os.getpid()) if by_tree else (-1,):  # -1: everybody but the first process and us
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def others(main: int, *, by_tree: bool) -> bool:
    """Whether anybody of the run is left besides its main process."""
    if by_tree:
        return any(pid != main for pid in below(os.getpid()))
    return any(name.isdigit() and int(name) not in (1, main, os.getpid()) for name in os.listdir("/proc"))


class Spent:
    """What a run has used, as the kernel tells it of those that were waited for."""

    def __init__(self) -> None:
        self.seconds = 0.0
        """Of the processor."""
        self.largest = 0
        """Bytes of memory the largest had."""
        self.written = 0
        """Bytes written to disks."""

    def add(self, usage: "resource.struct_rusage") -> None:
        self.seconds += usage.ru_utime + usage.ru_stime
        self.largest = max(self.largest, usage.ru_maxrss * 1024)
        self.written += usage.ru_oublock * 512  # all the kernel tells who may not look at himself


def reap_orphans(main: int, spent: Spent, most: int) -> bool:
    """Wait for those of the run that have ended and nobody else waits for, the main process left alone: as long as they
    are there, they count. False when there may be more than `most`."""
    for _ in range(most):
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None or found.si_pid == main:
            return True
        spent.add(os.wait4(found.si_pid, 0)[2])
    return False


def sweep(main: int, spent: Spent, *, by_tree: bool) -> int:
    """Kill and reap all that is left. Gives the main process's status."""
    status = 0
    while True:
        signal_all(signal.SIGKILL, by_tree=by_tree)
        try:
            pid, ended, usage = os.wait4(-1, 0)
        except ChildProcessError:
            return status
        if pid == main:
            status = ended
        spent.add(usage)


def below(top: int) -> "list[int]":
    """Every process that descends from `top`."""
    found: list[int] = []
    todo = [top]
    while todo:
        pid = todo.pop()
        try:
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                    children = [int(each) for each in file.read().split()]
                found += children
                todo += children
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked
    return found


def empty(folder: str) -> None:
    """Remove everything in `folder`, however deep; its makers are gone. No link is followed."""
    try:
        top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except PermissionError:
        os.chmod(folder, 0o700)  # the last run closed it; it is ours all the same
        top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    mark, number = os.urandom(8).hex(), 0
    try:
        os.fchmod(top, 0o700)
        # The folder itself stays, so nothing may be written on it either.
        for name in os.listxattr(top):
            os.removexattr(top, name)
        while names := _some(top):
            for name in names:
                if not _is_folder(name, top):
                    os.unlink(name, dir_fd=top)
                    continue
                inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
                try:
                    while deeper := _some(inner):
                        for each in deeper:
                            if _is_folder(each, inner):
                                # Brought up instead of gone into: depth costs nothing then.
                                os.rename(each, f"{mark}{number}", src_dir_fd=inner, dst_dir_fd=top)
                                number += 1
                            else:
                                os.unlink(each, dir_fd=inner)
                finally:
                    os.close(inner)
                os.rmdir(name, dir_fd=top)
        os.utime(top, (0, 0))
    finally:
        os.close(top)


def _some(folder: int) -> "list[str]":
    """Some of the names in a folder: a run may have made more than there is memory for."""
    with os.scandir(folder) as entries:
        return [entry.name for entry, _ in zip(entries, range(1_000))]  # noqa: B905


def _is_folder(name: str, parent: int) -> bool:
    if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
        return False
    os.chmod(name, 0o700, dir_fd=parent)  # whatever it was, it can be emptied now
    return True
