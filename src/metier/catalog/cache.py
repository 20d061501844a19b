"""What the manifests of a root said when they were last read, so that an unchanged tree is not parsed again.

A manifest is recognised by size, inode, mtime and ctime; one that is younger than two seconds is never remembered.
The cache is only ever a shortcut: any doubt about it means reading again.
"""

import os
import stat
import time
import zlib
from typing import Final, final

import msgspec
from msgspec import Struct

from metier.dialects.compiled import Compiled
from metier.errors import StateError
from metier.openfile import Signature, is_young
from metier.record.private import make_private_folder

FORMAT: Final = "5"
"""Raised whenever reading a manifest could give another result than before."""


@final
class Cached(Struct, frozen=True, array_like=True, gc=False):
    """One manifest: how to recognise it, and what it said."""

    signature: Signature
    compiled: Compiled | None
    """None of code that is no skill: to find that out is what costs."""


@final
class _File(Struct, frozen=True, array_like=True):
    format: str
    root: str
    manifests: dict[str, Cached]


_decoder: Final = msgspec.msgpack.Decoder(_File)
_encoder: Final = msgspec.msgpack.Encoder()


def _place(folder: str, root: str) -> str:
    # A checksum will do: two roots that share one only take the shortcut from each other, never the content.
    name = os.fsencode(root)
    return os.path.join(folder, f"catalog-{zlib.crc32(name):08x}-{len(name)}.bin")


def _opener(path: str, flags: int) -> int:
    """Whatever lies there, it neither leads elsewhere nor keeps anybody waiting."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def read(folder: str, root: str) -> dict[str, Cached]:
    """What is known of `root`, by path of the manifest; nothing when there is no usable cache."""
    try:
        with open(_place(folder, root), "rb", opener=_opener) as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.geteuid() or status.st_nlink != 1 or not stat.S_ISREG(status.st_mode):
                return {}  # somebody else wrote it, or may under another name
            cached = _decoder.decode(file.read())
    except (OSError, msgspec.DecodeError):
        return {}
    return cached.manifests if (cached.format, cached.root) == (FORMAT, root) else {}


def write(folder: str, root: str, manifests: dict[str, Cached]) -> None:
    """Remember `manifests`. A cache that cannot be written is no harm, so nothing is raised."""
    now = time.time_ns()
    kept = {path: cached for path, cached in manifests.items() if not is_young(cached.signature, now)}
    place = _place(folder, root)
    making = f"{place}.{os.getpid()}"
    try:
        data = _encoder.encode(_File(FORMAT, root, kept))
        make_private_folder(os.path.dirname(folder))
        make_private_folder(folder)
        descriptor = os.open(
            making, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(making, place)
    except (OSError, StateError):
        return
