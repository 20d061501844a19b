"""What goes wrong with kernel.db, in words: what it is, and what to do. Nothing that is stored there is in any of them."""

import os
import sqlite3
from typing import Final

from metier.errors import StateError

BROKEN: Final = "\ufffd"
"""What a stored text begins with that is no UTF-8. So it is no JSON either, and nobody's name."""
_PRIMARY: Final = 0xFF
_WAITED: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_LOCKS: Final = "/proc/locks"
_WRITER: Final = "120"
"""The byte of the side file on which SQLite has the lock of who writes."""


def text_of(raw: bytes) -> str:
    """A stored text. One that is damaged is read as one: an error would be that of every row, and repeat what is stored."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return BROKEN + raw.decode("utf-8", "replace")


def is_broken(*texts: str) -> bool:
    """Whether one of these stored texts is damaged."""
    return any(each.startswith(BROKEN) for each in texts)


def unusable(error: Exception, path: str) -> StateError:
    """Why the file at `path` cannot be used."""
    if isinstance(error, OSError):
        return _said(error.strerror or type(error).__name__)
    code: int = getattr(error, "sqlite_errorcode", 0)
    if code & _PRIMARY in _WAITED:
        return StateError(
            f"what the modules keep (kernel.db) is being written to: {_writer(path)} holds it, and did not let go of it in time",
            remedy="Wait a moment and do the same again; if it stays so, look at that process and end it",
        )
    if code & _PRIMARY in _DAMAGED or isinstance(error, UnicodeDecodeError):
        return StateError(
            f"what the modules keep (kernel.db) is damaged ({_name_of(error)})",
            remedy="End the host, move kernel.db and the files beside it (-wal, -shm) away, and bring it back from a backup",
        )
    return _said(_name_of(error))


def _said(what: str) -> StateError:
    return StateError(
        f"what the modules keep (kernel.db) cannot be used: {what}",
        remedy="Look at the state folder: is there room on the disk, and may you read and write there?",
    )


def _name_of(error: Exception) -> str:
    """SQLite's own name for it: the text may quote what was read or written."""
    name: str = getattr(error, "sqlite_errorname", "")
    return name or type(error).__name__


def _writer(path: str) -> str:
    """Who holds the lock of who writes, as far as the kernel tells.

    The side file is not opened for it: to close that again would let go of every lock that this process has on it.
    """
    try:
        status = os.stat(f"{path}-shm")
        file = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
        with open(_LOCKS, encoding="ascii", errors="replace") as opened:
            rows = [line.split() for line in opened]
    except OSError:
        return "another process"
    holders = {row[4] for row in rows if len(row) == 8 and row[3] == "WRITE" and row[5:7] == [file, _WRITER]}
    if str(os.getpid()) in holders:
        return "this process itself"
    known = sorted(each for each in holders if each.isdigit() and each != "0")
    return f"process {known[0]}" if known else "another process"
