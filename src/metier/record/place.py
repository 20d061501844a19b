"""Is the file under its name still the one that was opened?

A file that is removed or replaced while it is open can still be written: the bytes go where nobody will
ever find them, and the writer is not told. So the name is looked up again whenever something is recorded.

Nothing takes a name away or gives it to another file without changing the folder, so a folder that has not changed need
not be searched for each record. The times of a folder are only so exact: one that changed a moment ago is searched each time.
A further name in another folder shows in the file alone, so each file is looked at once a second whatever the folder says.
"""

import os
import time
from typing import Final, final

from metier.errors import StateError

SETTLED_NS: Final = 3_000_000_000
"""Longer than the coarsest clock of a file system ticks."""
AGAIN_SECONDS: Final = 1.0


@final
class Place:
    """Where files lie that belong together, in one folder. One that is not there is left out."""

    def __init__(self, *paths: str) -> None:
        self._folder = os.path.dirname(paths[0])
        self._files: dict[str, tuple[int, int, int]] = {}
        """Device, inode and how many names it has."""
        for path in paths:
            try:
                status = os.lstat(path)
            except OSError:
                continue
            self._files[path] = (status.st_dev, status.st_ino, status.st_nlink)
        self._searched: tuple[int, int, int] | None = None
        """The folder in which all of them were found, and when it had changed the last time."""
        self._search_again = 0.0

    def require(self) -> None:
        """Refuse unless every file still lies there, itself and not by a link, and under no other name than before.

        Raises:
            StateError: when one was removed, moved or replaced, or found to have a further name.
        """
        try:
            status = os.stat(self._folder)
        except OSError as error:
            raise _moved(self._folder, f"is no longer there ({error.strerror})") from error
        folder = (status.st_dev, status.st_ino, status.st_ctime_ns)
        if folder == self._searched and time.monotonic() < self._search_again:
            return
        self._search()
        settled = os.name == "posix" and time.time_ns() - status.st_ctime_ns > SETTLED_NS
        self._searched = folder if settled else None
        self._search_again = time.monotonic() + AGAIN_SECONDS

    def _search(self) -> None:
        for path, (device, inode, names) in self._files.items():
            try:
                status = os.lstat(path)
            except OSError as error:
                raise _moved(path, f"is no longer there ({error.strerror})") from error
            if (status.st_dev, status.st_ino) != (device, inode):
                raise _moved(path, "was replaced while it was in use")
            if status.st_nlink > names:
                raise StateError(
                    f"the state file {path} was given a second name (a hard link) while it was in use; nothing was recorded",
                    remedy=f"Find it with `find / -xdev -samefile {path}`, remove it, then start Metier again",
                )


def _moved(path: str, what: str) -> StateError:
    return StateError(
        f"the state file {path} {what}; nothing was recorded",
        remedy="Find out who moved it, put it back or restore a backup, then start Metier again",
    )
