"""Opens a path on which no link lies, and no other: the kernel refuses one on the way, whenever it was put there."""

import ctypes
import os
import struct
from typing import Final

from metier.sandbox.wall import WallError

_OPENAT2: Final = 437
_AT_FDCWD: Final = -100
_NO_SYMLINKS: Final = 0x04
_libc: Final = ctypes.CDLL(None, use_errno=True)


def open_real(path: str) -> int:
    """An O_PATH descriptor. Raises WallError when there is nothing, or a link is on the way."""
    how = struct.pack("=QQQ", os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, 0, _NO_SYMLINKS)
    found: int = _libc.syscall(
        ctypes.c_long(_OPENAT2), ctypes.c_long(_AT_FDCWD), os.fsencode(path), how, ctypes.c_size_t(len(how))
    )
    if found < 0:
        raise WallError(f"{path} cannot be opened: {os.strerror(ctypes.get_errno())}")
    return found
