"""What a process that was killed while it made a file left beside it: drafts under a name that nobody else uses.

A draft of a state or a backup holds all of it in clear, so it must not outlive what is erased.
"""

import os
import stat
import time
from contextlib import suppress
from typing import Final

LEFT_SECONDS: Final = 3600.0
"""A draft is made and named in a moment. One this old has nobody any more."""
_NEW: Final = ".new"
_DRAFT: Final = ".draft"
_OURS: Final = ".metier-"
"""Backups lie in folders of others: the name of a draft there says whose it is."""
_BESIDE: Final = ("-wal", "-shm", "-journal")
_HEX: Final = frozenset("0123456789abcdef")


def sweep(path: str) -> None:
    """Remove the drafts of the file at `path` that were left for an hour. What cannot be removed stays."""
    _remove(path, (_NEW, _DRAFT), time.time() - LEFT_SECONDS)


def backup_draft(target: str) -> str:
    """A name for the draft of a backup at `target`, under which `sweep_backups` finds it."""
    return f"{target}{_OURS}{os.urandom(8).hex()}{_DRAFT}"


def sweep_backups(folder: str) -> None:
    """Remove the drafts of backups in a folder that were left for an hour, whatever the backups were to be called."""
    oldest = time.time() - LEFT_SECONDS
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            _, ours, rest = entry.name.rpartition(_OURS)
            if not ours or not _is_draft(rest, (_DRAFT,)):
                continue
            with suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                mine = os.name != "posix" or status.st_uid == os.geteuid()
                if mine and stat.S_ISREG(status.st_mode) and status.st_mtime < oldest:
                    os.unlink(entry.path)


def clear_restores(path: str) -> None:
    """Remove every draft of a restore to `path`, where there is a database: none of them can come to take its place."""
    if os.path.lexists(path):
        _remove(path, (_DRAFT,), float("inf"))


def finished(path: str) -> int:
    """Remove the drafts of the file at `path` that are the file itself: it has its name. How many could not be removed."""
    before = os.path.basename(path) + "."
    same: list[str] = []
    with suppress(OSError), os.scandir(os.path.dirname(path)) as entries:
        whole = os.lstat(path)
        for entry in entries:
            if not entry.name.startswith(before) or not _is_draft(entry.name[len(before) :], (_NEW, _DRAFT)):
                continue
            with suppress(OSError):  # whoever made it takes it away himself, a moment later
                if os.path.samestat(entry.stat(follow_symlinks=False), whole):
                    same.append(entry.path)
                    os.unlink(entry.path)
    return sum(map(os.path.lexists, same))


def _remove(path: str, ends: tuple[str, ...], oldest: float) -> None:
    before = os.path.basename(path) + "."
    with suppress(OSError), os.scandir(os.path.dirname(path)) as entries:
        for entry in entries:
            if not entry.name.startswith(before) or not _is_draft(entry.name[len(before) :], ends):
                continue
            with suppress(OSError):
                if (
                    entry.is_file(follow_symlinks=False)
                    and entry.stat(follow_symlinks=False).st_mtime < oldest
                ):
                    os.unlink(entry.path)


def _is_draft(rest: str, ends: tuple[str, ...]) -> bool:
    for end in _BESIDE:
        rest = rest.removesuffix(end)
    drawn, _, _ = rest.partition(".")
    return len(drawn) == 16 and _HEX.issuperset(drawn) and rest[16:] in ends
