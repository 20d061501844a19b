"""Open a file that a stranger may have prepared: no links, no devices, no waiting, no surprise in size."""

import errno
import os
import stat
from collections.abc import Callable
from typing import Final, TypeAlias

from metier.model.diagnostic import Diagnostic

Signature: TypeAlias = tuple[int, int, int, int]
"""Size, inode, mtime and ctime in nanoseconds: a file that still has these was not written to."""

# O_NONBLOCK so that a FIFO or a device cannot hold us up before fstat unmasks it.
_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
YOUNG_NS: Final = 2_000_000_000
"""A file changed this recently may change again without a new timestamp, so nothing is remembered about it."""


def spelled(path: str) -> str:
    """A path that can be shown and stored: bytes that are not UTF-8 are spelled out."""
    return path if path.isascii() else os.fsencode(path).decode("utf-8", "backslashreplace")


def signature_of(status: os.stat_result) -> Signature:
    return (status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)


def signature_at(path: str) -> Signature | None:
    """The signature of what lies at `path` now; None when nothing can be seen there."""
    try:
        return signature_of(os.stat(path))
    except OSError:
        return None


def has_second_name(status: os.stat_result) -> bool:
    """Whether a file of ours has another name too, under which whatever we run may be let at it.

    Package managers give the files they install several names. Those are root's, and what runs for us cannot write them.
    """
    return status.st_nlink > 1 and status.st_uid == os.geteuid()


def is_repository(folder: str, *, made: str = "") -> bool:
    """Whether git takes the folder itself for a repository, and so runs what the settings in it name; `made` is a name in it
    that is about to be there."""

    def has(name: str) -> bool:
        return made.casefold() == name.casefold() or os.path.lexists(f"{folder}/{name}")

    return makes_repository(has)


def makes_repository(has: Callable[[str], bool]) -> bool:
    """Whether git takes a folder with these names in it for a repository."""
    return has("HEAD") and (has("commondir") or (has("objects") and has("refs")))


def is_young(signature: Signature, now_ns: int) -> bool:
    """Whether the file was touched within the last two seconds, or claims to come from the future."""
    return now_ns - max(signature[2], signature[3]) < YOUNG_NS


def read_small(
    path: str, *, most: int, hard_links: bool = False, links: bool = False, folder: int | None = None
) -> tuple[bytes, os.stat_result] | Diagnostic:
    """The bytes of a regular file of at most `most` bytes, or why there are none.

    Args:
        hard_links: whether a second name for the file is acceptable.
        links: whether a symbolic link is followed.
        folder: descriptor of the folder that `path` is relative to.
    """
    try:
        descriptor = os.open(path, _FLAGS & ~os.O_NOFOLLOW if links else _FLAGS, dir_fd=folder)
    except OSError as error:
        return _cannot_open(path, error)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return _error("not_a_file", f"{os.path.basename(path)} is not a regular file, so it is not read")
        if status.st_nlink > 1 and not hard_links:
            return _error(
                "hard_link",
                f"{os.path.basename(path)} has a second name somewhere (hard link), so its content could change "
                "from there; replace it by a copy",
            )
        if status.st_size > most:
            return _error(
                "too_large",
                f"{os.path.basename(path)} has {status.st_size:,} bytes; at most {most:,} are read",
            )
        data = os.read(descriptor, status.st_size + 1)  # os.read sets aside as much as it is asked for
        if len(data) != status.st_size:  # it grew, or came in parts; the usual file arrives at once
            while len(data) <= most and (part := os.read(descriptor, 65_536)):
                data += part
        if len(data) > most:
            return _error("too_large", f"{os.path.basename(path)} grew past {most:,} bytes while it was read")
        return data, status
    except OSError as error:
        return _error("unreadable", f"cannot read {os.path.basename(path)}: {error.strerror}")
    finally:
        os.close(descriptor)


def _cannot_open(path: str, error: OSError) -> Diagnostic:
    name = os.path.basename(path)
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return _error("missing", f"there is no {name}")
    if error.errno == errno.ELOOP:
        return _error("link", f"{name} is a symbolic link; put the file itself there")
    if error.errno in (errno.ENXIO, errno.ENODEV, errno.EOPNOTSUPP):
        return _error("not_a_file", f"{name} is not a regular file, so it is not read")
    return _error("unreadable", f"cannot open {name}: {error.strerror}")


def _error(code: str, message: str) -> Diagnostic:
    return Diagnostic(code=code, severity="error", message=message)
