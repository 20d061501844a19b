"""Files that are made under another name and given their own once they are whole."""

import os
import shutil
from contextlib import suppress

from metier.errors import StateError


def empty(path: str) -> None:
    """Make a new file that only this user can read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        if os.name == "posix":
            os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


def copy(source: str, target: str) -> None:
    """Copy a file into a new one."""
    empty(target)
    with open(source, "rb") as read, open(target, "r+b") as written:
        shutil.copyfileobj(read, written, 1 << 20)
        written.flush()
        os.fsync(written.fileno())


def settle(draft: str, target: str) -> None:
    """Give the finished file its name, unless somebody took that meanwhile; safe from a power cut."""
    descriptor = os.open(draft, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    try:
        os.link(draft, target)
    except FileExistsError:
        raise StateError(f"there is something at {target} now", remedy="Choose another name") from None
    if os.name != "posix":
        return
    folder = os.open(os.path.dirname(target), os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def forget(draft: str) -> None:
    """Remove it, whatever became of it."""
    for path in (draft, f"{draft}-wal", f"{draft}-shm", f"{draft}-journal"):
        with suppress(OSError):
            os.unlink(path)
