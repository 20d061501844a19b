"""Is the file under its name still the one that was opened?

A file that is removed or replaced while it is open can still be written: the bytes go where nobody will
ever find them, and the writer is not told. So the name is looked up again whenever something is recorded.
"""

import os
from typing import TypeAlias

from metier.errors import StateError

Place: TypeAlias = dict[str, tuple[int, int]]
"""Device and inode of each file, by its path."""


def place_of(*paths: str) -> Place:
    """Where the files at `paths` lie. One that is not there is left out."""
    place: Place = {}
    for path in paths:
        try:
            status = os.lstat(path)
        except OSError:
            continue
        place[path] = (status.st_dev, status.st_ino)
    return place


def require_place(place: Place) -> None:
    """Refuse unless every file of `place` still lies there, itself and not by a link.

    Raises:
        StateError: when one was removed, moved or replaced.
    """
    for path, (device, inode) in place.items():
        try:
            status = os.lstat(path)
        except OSError as error:
            raise _moved(path, f"is no longer there ({error.strerror})") from error
        if (status.st_dev, status.st_ino) != (device, inode):
            raise _moved(path, "was replaced while it was in use")


def _moved(path: str, what: str) -> StateError:
    return StateError(
        f"the state file {path} {what}; nothing was recorded",
        remedy="Find out who moved it, put it back or restore a backup, then start Metier again",
    )
