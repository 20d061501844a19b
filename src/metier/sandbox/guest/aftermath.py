"""After a run: everything it started is killed and reaped, and everything it left in its own folders removed.

Standard library only: the package is not importable here.
"""

import os
import signal
import stat


def sweep(main: int, *, by_tree: bool) -> "tuple[int, float, int]":
    """Kill and reap all that is left. Gives the main process's status, processor seconds, and the largest size.

    `by_tree` where there is no process namespace: then only what descends from us is meant.
    """
    status, seconds, largest = 0, 0.0, 0
    while True:
        for pid in below(os.getpid()) if by_tree else (-1,):  # -1: everybody but the first process and us
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            pid, ended, usage = os.wait4(-1, 0)
        except ChildProcessError:
            return status, seconds, largest
        if pid == main:
            status = ended
        seconds += usage.ru_utime + usage.ru_stime
        largest = max(largest, usage.ru_maxrss * 1024)


def below(top: int) -> "list[int]":
    """Every process that descends from `top`."""
    found: list[int] = []
    todo = [top]
    while todo:
        pid = todo.pop()
        try:
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                    children = [int(each) for each in file.read().split()]
                found += children
                todo += children
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked
    return found


def empty(folder: str) -> None:
    """Remove everything in `folder`, however deep; its makers are gone. No link is followed."""
    top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    mark, number = os.urandom(8).hex(), 0
    try:
        os.fchmod(top, 0o700)
        while names := os.listdir(top):
            for name in names:
                if not _is_folder(name, top):
                    os.unlink(name, dir_fd=top)
                    continue
                inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
                try:
                    for deeper in os.listdir(inner):
                        if _is_folder(deeper, inner):
                            # Brought up instead of gone into: depth costs nothing then.
                            os.rename(deeper, f"{mark}{number}", src_dir_fd=inner, dst_dir_fd=top)
                            number += 1
                        else:
                            os.unlink(deeper, dir_fd=inner)
                finally:
                    os.close(inner)
                os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)


def _is_folder(name: str, parent: int) -> bool:
    if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
        return False
    os.chmod(name, 0o700, dir_fd=parent)  # whatever it was, it can be emptied now
    return True
