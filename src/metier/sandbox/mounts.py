"""Which folder goes where inside a mount namespace, each held by a descriptor from the moment it was looked at.

Bubblewrap before 0.12 follows a link in the parent of a mount point out to the host while it builds a sandbox. So
no mount point of ours ever lies below a folder that came from outside: where a grant lies inside another grant with
other rights, the outer one is given piece by piece, around the inner one. Every mount point is then a fresh entry in
a folder that only we could write. No link is followed on the way to any of them, and none is opened by its name twice:
another run may be swapping folders at this very moment.
"""

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from glob import glob
from typing import Final, final

from msgspec import Struct

from metier.model.job import Place
from metier.sandbox.openreal import open_real
from metier.sandbox.wall import WallError

PIECES: Final = 400
"""The most mounts one run may take; a folder of thousands would be slow and is better granted whole."""

SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
"""Programs and libraries of the machine, read-only for everyone."""
LOADERS: Final = (
    *("/lib64/ld-linux*.so*", "/lib/ld-linux*.so*", "/lib/*/ld-linux*.so*", "/lib/ld-musl-*.so*"),
)
SYSTEM_FILES: Final = ("/etc/ld.so.cache", "/etc/alternatives")
NETWORK_FILES: Final = (
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/ca-certificates",
    "/etc/pki/tls/certs",
)
"""Only for who may use the network: every mount makes a start slower."""
OURS: Final = ("/proc", "/dev", "/sys")
"""Inside, these are never the machine's."""

_BY_NAME: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_TO_LIST: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@final
class Held(Struct, frozen=True):
    """A place and what lies there, as an O_PATH descriptor."""

    place: Place
    descriptor: int


@final
class Holding:
    """Places opened for one start. `with Holding(places) as held:`; closed afterwards."""

    def __init__(self, places: Sequence[Place]) -> None:
        """Raises WallError when a place cannot be given, or is not what it was."""
        self.held: list[Held] = []
        for place in places:
            check_place(place)
        rest = sorted(set(places), key=lambda place: (place.path, not place.writable))
        try:
            while rest:
                top = rest.pop(0)
                inner = [place for place in rest if _below(place.path, top.path)]
                rest = [place for place in rest if not _below(place.path, top.path)]
                self._hold(top, [place for place in inner if place.path != top.path])
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> list[Held]:
        return self.held

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        while self.held:
            os.close(self.held.pop().descriptor)

    def _hold(self, top: Place, inner: Sequence[Place]) -> None:
        descriptor = open_real(top.path)
        try:
            check_same(top, os.fstat(descriptor))
        except BaseException:
            os.close(descriptor)
            raise
        # A grant to read inside one to write adds nothing: what covers it allows more.
        writable = [] if top.writable else [place for place in inner if place.writable]
        if not writable:
            self._add(top, descriptor)
            return
        try:
            self._around(descriptor, top.path, writable)
        finally:
            os.close(descriptor)

    def _around(self, folder: int, path: str, inner: Sequence[Place]) -> None:
        """Everything in `folder`, with what lies in `inner` given as it is granted there."""
        try:
            listed = os.open(".", _TO_LIST, dir_fd=folder)
            names = set(os.listdir(listed))
            os.close(listed)
        except OSError as error:
            raise WallError(f"{path} cannot be listed: {error.strerror}") from None
        for name in sorted(names | {place.path[len(path) + 1 :].partition("/")[0] for place in inner}):
            here = f"{path}/{name}"
            wanted = [place for place in inner if _below(place.path, here)]
            with suppress(FileNotFoundError):  # it went away meanwhile
                self._piece(folder, name, here, wanted)

    def _piece(self, folder: int, name: str, path: str, wanted: Sequence[Place]) -> None:
        descriptor = os.open(name, _BY_NAME, dir_fd=folder)
        found = os.fstat(descriptor)
        exact = [place for place in wanted if place.path == path]
        if wanted and not exact:
            try:
                self._around(descriptor, path, wanted)
            finally:
                os.close(descriptor)
            return
        if not (stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)):
            os.close(descriptor)  # a link leads elsewhere, and nothing else of the kind is a file
            return
        try:
            for place in exact:
                check_same(place, found)
        except BaseException:
            os.close(descriptor)
            raise
        self._add(exact[0] if exact else Place(path=path), descriptor)

    def _add(self, place: Place, descriptor: int) -> None:
        self.held.append(Held(place, descriptor))
        if len(self.held) > PIECES:
            raise WallError(
                f"{place.path} lies in a folder with too many entries to be granted around one inside it"
            )


@cache
def system_folders() -> tuple[tuple[str, str], ...]:
    """Each system folder with the link it is on this machine, or an empty text when it is a real one."""
    found: list[tuple[str, str]] = []
    for path in SYSTEM:
        if os.path.islink(path):
            found.append((path, os.readlink(path).lstrip("/")))
        elif os.path.isdir(path):
            found.append((path, ""))
    return tuple(found)


@cache
def system_files(network: bool) -> tuple[str, ...]:
    """What of the machine's configuration is there, read-only."""
    return tuple(filter(os.path.exists, (*SYSTEM_FILES, *(NETWORK_FILES if network else ()))))


@cache
def loaders() -> tuple[str, ...]:
    """What the kernel starts every program of the machine with."""
    names = (name for pattern in LOADERS for name in glob(pattern))
    return tuple(sorted({os.path.realpath(name) for name in names}))


def is_system(path: str) -> bool:
    """Whether every sandbox has it anyway."""
    return any(_below(path, folder) for folder, link in system_folders() if not link)


def check_place(place: Place) -> None:
    """Raises WallError for what cannot be granted to anyone."""
    path = place.path
    if not path.startswith("/") or os.path.normpath(path) != path or "\0" in path:
        raise WallError(f"{path!r} is not a plain absolute path")
    if path == "/":
        raise WallError("the whole file system cannot be granted; name the folders that are meant")
    for ours in OURS:
        if _below(path, ours):
            raise WallError(f"{path} cannot be granted: a sandbox has its own {ours}")
    if place.writable and is_system(path):
        raise WallError(f"{path} cannot be granted for writing: it belongs to the machine")


def check_same(place: Place, found: os.stat_result) -> None:
    """Raises WallError when what lies there now is not what the call was judged with."""
    if place.inode and (found.st_dev, found.st_ino) != (place.device, place.inode):
        raise WallError(f"{place.path} was replaced after the call was judged")


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")
