"""The folders a WASM run sees, each opened once and checked: what is used is what was looked at, not a name for it.

WASI knows folders only. A file that may be read is copied into a private folder and shown at its own path; a file
that may be written is refused, because a copy of it would be written instead.
"""

import ctypes
import fcntl
import os
import shutil
import stat
import struct
import sys
import tempfile
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, Self, final

from msgspec import Struct

from metier.model.diagnostic import Diagnostic
from metier.model.job import Place
from metier.openfile import read_small
from metier.record.private import make_private_folder
from metier.sandbox.wall import OUT

OWN: Final = "/tmp"  # noqa: S108  a name inside the guest, for a folder of this run alone
SKILL: Final = "/skill"
_MOST_COPIED: Final = 64 << 20
_PREFIX: Final = "runs-"
_MOST_SPARE: Final = 8
_STEP: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_DIRECTORY
_FOLDER: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_DIRECTORY
_OPENAT2: Final = 437
_NO_SYMLINKS: Final = 4
_WITHOUT_LINKS: Final = struct.pack("=QQQ", _FOLDER, 0, _NO_SYMLINKS)
_syscall: Final[Any] = ctypes.CDLL(None).syscall
_syscall.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
_syscall.restype = ctypes.c_long


class Unusable(Exception):
    """A folder or file cannot be given to the run. The text is for people."""


class NotAFolder(Unusable):
    """It is a plain file."""


@final
class Shown(Struct, frozen=True):
    """A folder as the guest will see it."""

    descriptor: int
    """Shared by the names of one folder."""
    guest: str
    writable: bool


@final
class Folders:
    """Opens what a run may use and takes it away again. `with Folders(…) as folders: folders.shown`."""

    def __init__(
        self, places: Iterable[Place], *, bundle: str, cwd: str, spare: "Spare", own: bool = True
    ) -> None:
        self._places = tuple(places)
        self._bundle = bundle
        self._cwd = cwd
        self._spare = spare
        self._own = own
        self._made: list[str] = []
        self.shown: list[Shown] = []
        self.left = ""
        """The folder it may leave files in, out here; empty where it has none."""

    def __enter__(self) -> Self:
        try:
            self._open()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _open(self) -> None:
        files = [place for place in self._places if not self._show_place(place)]
        if files:
            self._show_copies(files)
        if self._bundle:
            folder = open_folder(self._bundle)
            self._show(folder, self._bundle, writable=False)
            self._show(folder, SKILL, writable=False)
        if self._own and all(shown.guest != OWN for shown in self.shown):
            own = self._temporary()
            self._show(open_folder(own), OWN, writable=True)
            self.left = os.path.join(own, OUT)
        self._show_start()

    def _show(self, descriptor: int, guest: str, *, writable: bool) -> None:
        self.shown.append(Shown(descriptor, guest, writable))

    def _show_place(self, place: Place) -> bool:
        """False for a place that is a file."""
        try:
            folder = open_folder(place.path)
        except NotAFolder:
            return False
        self._show(folder, place.path, writable=place.writable)
        check_same(place, os.fstat(folder))
        return True

    def _show_copies(self, files: list[Place]) -> None:
        copies: dict[str, str] = {}
        for place in files:
            parent, name = os.path.split(place.path)
            if place.writable:
                raise Unusable(
                    f"{place.path} is a single file to write to, which WASI cannot give; grant its folder"
                )
            if any(shown.guest == parent for shown in self.shown):
                continue  # its folder is granted as well, with at least as much
            if parent not in copies:
                copies[parent] = self._temporary()
                os.rmdir(os.path.join(copies[parent], OUT))  # it stands for another folder, which has none
            _copy(place, os.path.join(copies[parent], name))
        for parent, copy in copies.items():
            self._show(open_folder(copy), parent, writable=False)

    def _show_start(self) -> None:
        """Relative paths start in the working directory: for WASI that is the folder named `.`."""
        wanted = self._cwd or OWN
        for shown in sorted(self.shown, key=lambda each: len(each.guest), reverse=True):
            if wanted == shown.guest or wanted.startswith(shown.guest.rstrip("/") + "/"):
                below = wanted[len(shown.guest) :].strip("/")
                folder = open_folder(below, shown.descriptor) if below else shown.descriptor
                self._show(folder, ".", writable=shown.writable)
                return
        if self._cwd:
            raise Unusable(f"{self._cwd} is not in any folder this run may use")

    def _temporary(self) -> str:
        self._made.append(self._spare.take())
        return self._made[-1]

    def _close(self) -> None:
        for descriptor in {shown.descriptor for shown in self.shown}:
            os.close(descriptor)
        self.shown.clear()
        for path in self._made:
            self._spare.give_back(path)
        self._made.clear()


@final
class Spare:
    """Empty folders for runs to write in. Making and removing one costs as much as a small run, so the ones that a
    run left empty are kept. Those of a program that was killed are removed when the next one starts."""

    def __init__(self, folder: str) -> None:
        """`folder` is private to this user; several programs may share it."""
        self._folder = folder
        self._home = ""
        self._locked = -1
        self._free: list[str] = []
        self._made = 0
        self._lock = threading.Lock()

    def take(self) -> str:
        """An empty folder. The caller gives it back."""
        with self._lock:
            if self._free:
                path = self._free.pop()
                # The one thing about empty folders that their last user could have set.
                os.utime(os.path.join(path, OUT))
                os.utime(path)
                return path
            if not self._home:
                self._settle()
            self._made += 1
            path = os.path.join(self._home, str(self._made))
        os.mkdir(path, 0o700)
        os.mkdir(os.path.join(path, OUT), 0o700)
        return path

    def give_back(self, path: str) -> None:
        with self._lock, suppress(OSError):
            if len(self._free) < _MOST_SPARE and _is_as_new(path):
                self._free.append(path)
                return
        shutil.rmtree(path, ignore_errors=True)

    def close(self) -> None:
        with self._lock:
            self._free.clear()
            if self._home:
                shutil.rmtree(self._home, ignore_errors=True)
                os.close(self._locked)
                self._home = ""

    def _settle(self) -> None:
        make_private_folder(self._folder)
        # Resolved, because a link on the way to a folder is refused.
        folder = os.path.realpath(self._folder)
        for name in os.listdir(folder):
            if name.startswith(_PREFIX):
                _remove_abandoned(os.path.join(folder, name))
        home = tempfile.mkdtemp(prefix=_PREFIX, dir=folder)
        self._locked = os.open(home, _FOLDER)
        fcntl.flock(self._locked, fcntl.LOCK_EX)
        if not os.path.isdir(home):  # taken for abandoned before we held it
            os.close(self._locked)
            return self._settle()
        self._home = home
        return None


def _is_as_new(path: str) -> bool:
    """Whether there is nothing but the empty folder that was made in it."""
    if os.listdir(path) != [OUT]:
        return False
    out = os.open(os.path.join(path, OUT), _FOLDER)
    try:
        return not os.listdir(out)
    finally:
        os.close(out)


def _remove_abandoned(path: str) -> None:
    """Whoever uses such a folder holds a lock on it, and a program that is gone holds none."""
    try:
        folder = os.open(path, _FOLDER)
    except OSError:
        return
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    except OSError:
        return
    finally:
        os.close(folder)


def open_folder(path: str, at: int | None = None) -> int:
    """A descriptor of the folder, with no link anywhere on the way to it.

    Raises:
        NotAFolder: when it is a plain file.
        Unusable: when it cannot be opened, or a link is on the way to it.
    """
    parts = [part for part in path.split("/") if part]
    if "." in parts or ".." in parts:
        raise Unusable(f"{path} is not a real path")
    found = -1
    if parts and sys.platform == "linux":
        whole = ("/" if at is None else "") + "/".join(parts)
        found = _open_at_once(-1 if at is None else at, whole)
    return found if found >= 0 else walk(parts, at)


def _open_at_once(at: int, path: str) -> int:
    """One call for all of the path, which costs a fraction of a call for each part; -1 where that cannot be had."""
    return _syscall(_OPENAT2, at, os.fsencode(path), _WITHOUT_LINKS, len(_WITHOUT_LINKS))


def walk(parts: Sequence[str], at: int | None) -> int:
    """As `open_folder`, from part to part: finds out why it cannot be opened, and does without a new kernel."""
    path = ("/" if at is None else "") + "/".join(parts)
    held = os.open("/", _STEP) if at is None else os.dup(at)
    number, part = 0, ""
    try:
        for number, part in enumerate(parts, 1):
            inner = os.open(part, _FOLDER if number == len(parts) else _STEP, dir_fd=held)
            os.close(held)
            held = inner
    except OSError as error:
        plain = number == len(parts) and _is_plain_file(part, held)
        os.close(held)
        if plain:
            raise NotAFolder(f"{path} is a file") from None
        raise Unusable(f"{path} cannot be used: a link is on the way to it, or {error.strerror}") from None
    return held


def _is_plain_file(name: str, folder: int) -> bool:
    try:
        return stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


def check_same(place: Place, found: os.stat_result) -> None:
    if place.inode and (found.st_dev, found.st_ino) != (place.device, place.inode):
        raise Unusable(f"{place.path} was replaced after the call was judged")


def _copy(place: Place, target: str) -> None:
    parent, name = os.path.split(place.path)
    folder = open_folder(parent)
    try:
        found = read_small(name, most=_MOST_COPIED, hard_links=True, folder=folder)
    finally:
        os.close(folder)
    if isinstance(found, Diagnostic):
        raise Unusable(f"{place.path} cannot be used: {found.message}")
    data, status = found
    check_same(place, status)
    with open(target, "xb") as file:
        file.write(data)
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def reaches(places: Iterable[Place], folder: str) -> bool:
    """Whether a run with these places could write at, above or below `folder`."""
    folder = os.path.realpath(folder)
    for place in places:
        one, other = place.path.rstrip("/") + "/", folder.rstrip("/") + "/"
        if place.writable and (one.startswith(other) or other.startswith(one)):
            return True
    return False
