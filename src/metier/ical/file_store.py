"""Calendars as .ics files: one that is named, or one a calendar in a folder.

A file is replaced whole, by one that was on the disk before, and only by its last reader: a lock keeps two of us apart,
and a file that somebody else changed meanwhile is read again. What cannot be read is never written.
"""

import fcntl
import os
import re
import secrets
import stat
import time
import unicodedata
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Final, final

from msgspec import Struct

from metier.ical.document import Calendar, Damaged, outline, with_event
from metier.ical.entry import Entry, taken_up
from metier.ical.problem import Problem, failed, misused
from metier.model.text import one_line

PRIMARY: Final = "calendar"
MOST_BYTES: Final = 16 * 1024 * 1024
PATIENCE: Final = 3.0
"""Seconds to wait for another writer."""
_TRIES: Final = 3
_NAMED: Final = 20
_FORBIDDEN: Final = re.compile(r"[/\\\x00-\x1f\x7f-\x9f\u2028\u2029]")


@final
class Place(Struct, frozen=True, kw_only=True):
    """Where one calendar is kept."""

    name: str
    folder: str
    file: str
    """Its name in the folder."""

    @property
    def path(self) -> str:
        return os.path.join(self.folder, self.file)


@final
class _Read(Struct, frozen=True, kw_only=True):
    """A file as it was."""

    data: bytes
    mode: int
    identity: tuple[int, int, int, int] | None
    """None: there was none."""


def place(environ: Mapping[str, str], calendar: str) -> Place | Problem:
    """The file that holds the calendar of that name; of no name, the primary one."""
    file, folder = environ.get("METIER_CALENDAR_FILE", ""), environ.get("METIER_CALENDAR_FOLDER", "")
    if file:
        # The operator's own word, so his links count; the folder is where the new file must lie.
        head, tail = os.path.split(os.path.realpath(file))
        name = os.path.basename(file).removesuffix(".ics")
        if not calendar or calendar.casefold() == name.casefold():
            if not os.path.lexists(os.path.join(head, tail)) and not os.access(head, os.W_OK):
                return failed(
                    "The calendar that METIER_CALENDAR_FILE names is not there, or this program may not see it."
                )
            return Place(name=name, folder=head, file=tail)
        if not folder:
            return misused("There is only one calendar here. Leave --calendar out.")
    if not folder:
        return failed(
            "No calendar is set up. Set METIER_CALENDAR_FILE or METIER_CALENDAR_FOLDER, or METIER_CALDAV_URL."
        )
    return _in_folder(os.path.abspath(folder), calendar or PRIMARY)


def _in_folder(folder: str, name: str) -> Place | Problem:
    name = unicodedata.normalize("NFC", name.strip()).removesuffix(".ics")
    if not name or name.startswith(".") or _FORBIDDEN.search(name) or len(name.encode()) > 100:
        return misused("This cannot be the name of a calendar: a short word or two, without slashes.")
    try:
        there = sorted(each for each in os.listdir(folder) if each.endswith(".ics") and each[0] != ".")
    except OSError:
        return failed("The folder that METIER_CALENDAR_FOLDER names is not there or cannot be read.")
    wanted = f"{name}.ics"
    alike = [each for each in there if unicodedata.normalize("NFC", each).casefold() == wanted.casefold()]
    if wanted not in there and len(alike) == 1:
        wanted = alike[0]
    called = wanted.removesuffix(".ics")
    if wanted not in there and called != PRIMARY:  # a name that was misheard begins no calendar
        return misused(f"There is no calendar of that name. {_names(there)}")
    return Place(name=called, folder=folder, file=wanted)


def _names(files: list[str]) -> str:
    names = [one_line(each.removesuffix(".ics"), 50) for each in files[:_NAMED]]
    if len(files) > _NAMED:
        names.append(f"and {len(files) - _NAMED} more")
    return (
        f"There are: {', '.join(names)}." if names else "Leave --calendar out: there is only the primary one."
    )


def events_of(place: Place) -> tuple[Calendar, ...] | Problem:
    """What the file holds. One that is not there yet holds nothing."""
    read = _read(place)
    return read if isinstance(read, Problem) else _outlined(read.data)


def add(place: Place, entry: Entry) -> Problem | None:
    """Put the event into the file, or say why it is as it was."""
    try:
        with _locked(place) as locked:
            if not locked:
                return failed("Another program is writing to this calendar. Try again.")
            for _ in range(_TRIES):
                problem, done = _added(place, entry)
                if problem is not None or done:
                    return problem
            return failed("Another program keeps changing this calendar. Try again.")
    except OSError as error:
        return failed(f"The calendar cannot be written: {error.strerror or 'the disk refused'}.")


def _added(place: Place, entry: Entry) -> tuple[Problem | None, bool]:
    read = _read(place)
    if isinstance(read, Problem):
        return read, False
    before = _outlined(read.data)
    if isinstance(before, Problem):
        return before, False
    data = with_event(read.data, entry.text)
    if isinstance(data, Damaged):
        return _harmed(data), False
    if len(data) > MOST_BYTES:
        return failed(f"The calendar is full: at most {MOST_BYTES // 1024 // 1024} MiB are kept."), False
    problem = taken_up(sum(len(each.events) for each in before), data)
    return (problem, False) if problem is not None else (None, _replaced(place, read, data))


def _read(place: Place) -> _Read | Problem:
    try:
        descriptor = os.open(place.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return _Read(data=b"", mode=0o600, identity=None)
    except OSError as error:
        return failed(f"The calendar cannot be read: {error.strerror or 'the disk refused'}.")
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return failed("The calendar cannot be read: it is no ordinary file.")
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        return failed(f"The calendar cannot be read: {error.strerror or 'the disk refused'}.")
    finally:
        os.close(descriptor)
    if len(data) > MOST_BYTES:
        return failed(f"The calendar is larger than {MOST_BYTES // 1024 // 1024} MiB.")
    return _Read(data=data, mode=stat.S_IMODE(status.st_mode), identity=_identity(status))


def _identity(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _outlined(data: bytes) -> tuple[Calendar, ...] | Problem:
    whole = outline(data)
    return _harmed(whole) if isinstance(whole, Damaged) else whole


def _harmed(damage: Damaged) -> Problem:
    return failed(
        f"The calendar file is damaged: {damage.why}. It was left as it is; mend it or put it aside."
    )


def _replaced(place: Place, read: _Read, data: bytes) -> bool:
    """Whether the file could be replaced; not, when it is no longer the one that was read."""
    folder = os.open(place.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    new = f".{place.file}.{secrets.token_hex(8)}"
    try:
        _swept(folder, place.file)
        _written(folder, new, read.mode, data)
        try:
            now = _identity(os.stat(place.file, dir_fd=folder, follow_symlinks=False))
        except FileNotFoundError:
            now = None
        if now != read.identity:
            return False
        os.rename(new, place.file, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)
        return True
    finally:
        with suppress(FileNotFoundError):
            os.unlink(new, dir_fd=folder)
        os.close(folder)


def _swept(folder: int, file: str) -> None:
    """Takes away what others of us were writing when they were ended. None is writing now: the lock is ours."""
    left = re.compile(rf"\.{re.escape(file)}\.[0-9a-f]{{16}}")
    for name in os.listdir(folder):
        if left.fullmatch(name):
            with suppress(OSError):
                os.unlink(name, dir_fd=folder)


def _written(folder: int, name: str, mode: int, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, 0o600, dir_fd=folder), "wb") as file:
        file.write(data)
        file.flush()
        os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())


@contextmanager
def _locked(place: Place) -> Generator[bool, None, None]:
    """Holds the calendar's lock, or says that somebody else keeps it. The lock file stays: taking it away could part two
    writers who both believe that they hold it."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(os.path.join(place.folder, f".{place.file}.lock"), flags, 0o600)
    try:
        until = time.monotonic() + PATIENCE
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > until:
                    yield False
                    return
                time.sleep(0.01)
            else:
                yield True
                return
    finally:
        os.close(descriptor)
