"""What was made or changed in folders since a moment: how many files, and how much room they take.

It goes by the time of change that a file system keeps, which no program can set. The machine's clock may be set while we
wait, and a file system may have a clock of its own, so the moment is kept as a time since the machine was started and said
in the words of whichever clock is furthest behind. Blocks; meant for a thread.
"""

import os
import stat
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, final

MARGIN_NS: Final = 2_000_000_000
"""The times of files are coarse, on some file systems whole seconds, and lag behind."""
UNREADABLE_SECONDS: Final = 0.5
"""So long a process may be one that nobody can look into: a copy of our supervisor is, until it has become the program."""
DEEPEST: Final = 100
BLOCK: Final = 512


@final
class Moment:
    """When something began."""

    def __init__(self) -> None:
        self._began = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self._ahead = _ahead()

    def note(self) -> None:
        """Look at the clock. To be done now and then: one that is set back makes files that seem to be older."""
        self._ahead = min(self._ahead, _ahead())

    def as_told_in(self, folder: str) -> int:
        """The moment as a time of change there, rather too early than too late."""
        self.note()
        ahead = self._ahead
        with suppress(OSError):  # no such file there: then its clock is taken for ours
            descriptor = os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                told = os.fstat(descriptor).st_ctime_ns
            finally:
                os.close(descriptor)
            ahead = min(ahead, told - time.clock_gettime_ns(time.CLOCK_BOOTTIME))
        return self._began + ahead - MARGIN_NS


def _ahead() -> int:
    return time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)


@final
class Grown:
    """What was found so far."""

    def __init__(self, moment: Moment) -> None:
        self._moment = moment
        self._linked: set[tuple[int, int]] = set()
        self.size = 0
        self.files = 0
        self.hidden = False
        """Whether there is something new that nobody can look into, which may hold anything."""

    def look_at_unnamed(self, processes: Iterable[int]) -> None:
        """Count the files that processes hold open and that have no name any more, so that no folder shows them."""
        until = time.monotonic() + UNREADABLE_SECONDS
        todo = [each for pid in processes for each in _threads(pid)]
        while todo := [each for each in todo if not self._looked_into(each)]:
            if time.monotonic() > until:
                self.hidden = True
                return
            time.sleep(0.02)

    def _looked_into(self, thread: str) -> bool:
        """Whether what it holds was counted; also where it has ended, and holds nothing."""
        try:
            descriptors = os.listdir(f"{thread}/fd")
        except (FileNotFoundError, ProcessLookupError):
            return True
        except OSError:
            return _has_ended(thread)
        for descriptor in descriptors:
            with suppress(OSError):
                found = os.stat(f"{thread}/fd/{descriptor}")
                identity = (found.st_dev, found.st_ino)
                if stat.S_ISREG(found.st_mode) and not found.st_nlink and identity not in self._linked:
                    self._linked.add(identity)
                    self.size += found.st_blocks * BLOCK
        return True

    def look(self, places: Iterable[str], *, enough: Callable[["Grown"], bool]) -> None:
        """Go through folders and files, links not followed, other file systems left out. Ends early when it is
        `enough`, which is asked after every file."""
        for place in outermost(places):
            try:
                found = os.lstat(place)
            except OSError:
                continue  # it was taken away
            since = self._moment.as_told_in(place)
            if not stat.S_ISDIR(found.st_mode):
                self._count(found, since)
            elif self._go_through(place, found.st_dev, since, enough):
                return

    def _go_through(self, top: str, device: int, since: int, enough: Callable[["Grown"], bool]) -> bool:
        # Where something was made comes first: whoever hides little among much is found soon.
        todo = deque([(top, 0, True)])
        while todo:
            path, depth, is_new = todo.pop()
            try:
                with os.scandir(path) as entries:
                    for entry in entries:
                        with suppress(FileNotFoundError):  # it went away meanwhile
                            found = entry.stat(follow_symlinks=False)
                            changed = self._count(found, since)
                            if entry.is_dir(follow_symlinks=False) and found.st_dev == device:
                                put = todo.append if changed else todo.appendleft
                                if depth < DEEPEST:
                                    put((entry.path, depth + 1, changed))
                                else:
                                    self.hidden |= (
                                        changed  # nobody goes that deep for good, and this must end
                                    )
                        if enough(self):
                            return True
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError:
                self.hidden |= is_new and path != top
            if enough(self):
                return True
        return False

    def _count(self, found: os.stat_result, since: int) -> bool:
        """Whether it is new, and then it is counted."""
        if found.st_ctime_ns < since:
            return False
        self.files += 1
        identity = (found.st_dev, found.st_ino)
        if found.st_nlink < 2 or stat.S_ISDIR(found.st_mode) or identity not in self._linked:
            self.size += found.st_blocks * BLOCK
            if found.st_nlink > 1:
                self._linked.add(identity)
        return True


def _threads(pid: int) -> list[str]:
    """Each by itself: one may have files the others have not, and go on when the first of them has ended."""
    try:
        return [f"/proc/{pid}/task/{each}" for each in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []  # all of them have ended


def _has_ended(thread: str) -> bool:
    """Whether it only waits for somebody to ask what it ended with. It holds nothing then, and an ordinary user may not look."""
    try:
        with open(f"{thread}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] in b"ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True
    except OSError:
        return False


def outermost(places: Iterable[str]) -> list[str]:
    """Those that lie in no other of them."""
    kept: list[str] = []
    for place in sorted(set(places)):
        if not any(place.startswith(f"{other.rstrip('/')}/") for other in kept):
            kept.append(place)
    return kept
