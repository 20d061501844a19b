"""Where a server of this state is reached: it leaves its address in `serve.at` in the state folder, and a lock on that for as long as it serves.

The lock goes with its process, so an address that nobody serves any more is not believed. Where several serve one state the
first is the one that is found, and after it the next. Everything blocks.
"""

import os
import threading
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
        self._path = os.path.join(absolute(home), FILE)
        self._url = url
        self._descriptor = -1
        self._over = False
        self._saying = threading.Lock()
        self.say(_PATIENCE)

    @property
    def said(self) -> bool:
        """Whether this server is the one that is found."""
        return self._descriptor >= 0

    def say(self, patience: float = 0.0) -> None:
        """Unless another server is found already, or this one took it back. May be tried again."""
        with self._saying, suppress(OSError):
            if self._over or self.said:
                return
            descriptor = os.open(self._path, _FLAGS | os.O_CREAT, 0o600)
            if not _locked(descriptor, patience):
                os.close(descriptor)
                return
            self._descriptor = descriptor
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, self._url.encode()[:_MOST], 0)

    def take_back(self) -> None:
        """Nobody serves there any more. Once is enough."""
        with self._saying:
            self._over = True
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


def decide_at(home: str, approval: str) -> str:
    """The page of a server of this state where a request can be decided; empty when none runs that says so."""
    url = whereabouts(home)
    return page_of(url, approval) if url else ""


def page_of(url: str, approval: str) -> str:
    """The page of the server at `url` for one request."""
    return f"{url}/approvals/{approval}"


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
