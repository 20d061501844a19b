"""Where a server of this state is reached: it leaves its address in `serve.at` in the state folder, and a lock on that for as long as it serves.

The lock goes with its process, so an address that nobody serves any more is not believed. Where several serve one state the
first is the one that is found. Everything blocks.
"""

import os
import time
from contextlib import suppress
from typing import Final, final

from metier.record.private import absolute

FILE: Final = "serve.at"
_MOST: Final = 400
_PATIENCE: Final = 0.25
"""Whoever looks shares the lock for a moment; who wants it waits so long."""
_AGAIN_SECONDS: Final = 0.01
_FLAGS: Final = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


@final
class Whereabouts:
    """What a server says of itself until it takes it back. Where it cannot be said, everything else works all the same."""

    def __init__(self, home: str, url: str) -> None:
        self._descriptor = -1
        with suppress(OSError):
            descriptor = os.open(os.path.join(absolute(home), FILE), _FLAGS | os.O_CREAT, 0o600)
            if not _locked(descriptor, _PATIENCE):
                os.close(descriptor)
                return
            self._descriptor = descriptor
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, url.encode()[:_MOST], 0)

    def take_back(self) -> None:
        """Nobody serves there any more. Once is enough."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            with suppress(OSError):
                os.ftruncate(descriptor, 0)
            os.close(descriptor)


def whereabouts(home: str) -> str:
    """Where a server of this state is; empty when none runs that says so."""
    try:
        descriptor = os.open(os.path.join(absolute(home), FILE), _FLAGS)
    except OSError:
        return ""
    try:
        if _locked(descriptor, 0.0, shared=True):
            return ""
        return os.pread(descriptor, _MOST, 0).decode("ascii", "replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def _locked(descriptor: int, patience: float, *, shared: bool = False) -> bool:
    """Whether the lock is ours now."""
    if os.name != "posix":
        return shared  # there is no lock that goes with its process, so nobody is said to hold one
    from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock

    deadline = time.monotonic() + patience
    while True:
        try:
            flock(descriptor, (LOCK_SH if shared else LOCK_EX) | LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_AGAIN_SECONDS)
        else:
            return True
