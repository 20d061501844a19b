"""Whether two processes have one and the same memory, as a child has with its parent until it has become the program it is to
be. Where the kernel does not tell, they have not."""

import ctypes
import platform
from typing import Final

_KCMP: Final = {"x86_64": 312, "aarch64": 272}.get(platform.machine(), -1)
_VM: Final = 1
_libc: Final = ctypes.CDLL(None)


def one_memory(pid: int, other: int) -> bool:
    """Whether the kernel says that these two share all of it."""
    return _KCMP >= 0 and _libc.syscall(_KCMP, pid, other, _VM, ctypes.c_ulong(0), ctypes.c_ulong(0)) == 0
