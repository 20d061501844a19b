"""Which folder goes where inside a mount namespace.

Bubblewrap before 0.12 follows a link in the parent of a mount point out to the host while it builds a sandbox. So
no mount point of ours ever lies below a folder that came from outside: where a grant lies inside another grant with
other rights, the outer one is given piece by piece, around the inner one. Every mount point is then a fresh entry in
a folder that only we could write.
"""

import os
from collections.abc import Sequence
from functools import cache
from typing import Final

from metier.model.job import Place
from metier.sandbox.wall import WallError

PIECES: Final = 512
"""The most mounts one run may take; a folder of thousands would be slow and is better granted whole."""

SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
"""Programs and libraries of the machine, read-only for everyone."""
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


def flatten(places: Sequence[Place]) -> tuple[Place, ...]:
    """The same places, none of them below another.

    Raises:
        WallError: a place cannot be given at all.
    """
    for place in places:
        check_place(place)
    wanted = sorted(set(places), key=lambda place: (place.path, place.writable))
    return tuple(_split(wanted, ()))


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


def _split(places: Sequence[Place], done: tuple[Place, ...]) -> tuple[Place, ...]:
    """Give each top place whole, unless something with other rights lies inside it."""
    rest = list(places)
    while rest:
        top = rest.pop(0)
        inner = [place for place in rest if _below(place.path, top.path)]
        rest = [place for place in rest if not _below(place.path, top.path)]
        same = [place for place in inner if place.path == top.path]
        writable = top.writable or any(place.writable for place in same)
        whole = Place(path=top.path, writable=writable, device=top.device, inode=top.inode)
        other = [place for place in inner if place.path != top.path and place.writable and not writable]
        # A read-only grant inside a writable one adds nothing: what covers it allows more.
        done = _around(whole, other, done) if other else (*done, whole)
        if len(done) > PIECES:
            raise WallError(f"{top.path} holds too many entries to be granted around a folder inside it")
    return done


def _around(outer: Place, inner: Sequence[Place], done: tuple[Place, ...]) -> tuple[Place, ...]:
    try:
        names = sorted(os.listdir(outer.path))
    except OSError as error:
        raise WallError(f"{outer.path} cannot be listed: {error.strerror}") from None
    pieces: list[Place] = list(inner)
    for name in names:
        path = f"{outer.path}/{name}"
        if os.path.islink(path) or any(_below(place.path, path) and place.path == path for place in inner):
            continue  # a link would be followed by whoever mounts it; the code inside cannot miss what it cannot use
        pieces.append(Place(path=path, writable=False))
        if len(pieces) > PIECES:
            raise WallError(f"{outer.path} holds too many entries to be granted around a folder inside it")
    return _split(sorted(pieces), done)


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")
