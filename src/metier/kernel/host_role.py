"""The host role: of all processes that share a state one runs what lives, waits and fires by itself.

Whoever holds it holds a lock on `host.lock` in the state folder. The lock goes with its process, also when that is killed, so
nobody is locked out by one that is gone.
"""

import os
import threading
import time
from contextlib import suppress
from typing import Final, Self, final

import msgspec

from metier.errors import StateError
from metier.record.private import absolute, make_private_folder, require_private

FILE: Final = "host.lock"
PATIENCE: Final = 0.25
"""Whoever looks who holds it shares the lock for a moment; who wants it waits so long."""
_AGAIN_SECONDS: Final = 0.01
_MOST: Final = 200
_looking: Final = threading.Lock()
"""Those of one process look one after the other: who share the lock without a gap would keep everybody from taking it."""
_FLAGS: Final = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


@final
class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Another process that holds the role."""

    pid: int = 0
    """0 where it has not said so yet."""
    since: float = 0.0
    """Seconds since 1970."""

    def __str__(self) -> str:
        return f"process {self.pid}" if self.pid else "another process"


@final
class HostRole:
    """Held until it is released, or the process ends."""

    def __init__(self, home: str, descriptor: int) -> None:
        self._descriptor = descriptor
        self.home = home
        self.since = time.time()
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, msgspec.json.encode(Holder(pid=os.getpid(), since=self.since)), 0)

    @classmethod
    def try_take(cls, home: str) -> "Self | Holder":
        """The role, or who holds it. Blocks for a moment where somebody does.

        Raises:
            StateError: when the state cannot be used.
        """
        home = absolute(home)
        make_private_folder(home)
        path = os.path.join(home, FILE)
        try:
            while True:
                descriptor = os.open(path, _FLAGS | os.O_CREAT, 0o600)
                if not _locked(descriptor, PATIENCE):
                    os.close(descriptor)
                    return _written(path)
                if _same(descriptor, path):  # else somebody removed the file before the lock was on it
                    break
                os.close(descriptor)
            try:
                require_private(path, folder=False)
            except StateError:
                os.close(descriptor)
                raise
            return cls(home, descriptor)
        except OSError as error:
            raise _unusable(path, error) from error

    def in_place(self) -> bool:
        """Whether the lock is still the one that others meet: who removes the file lets a second host begin."""
        return self._descriptor >= 0 and _same(self._descriptor, os.path.join(self.home, FILE))

    def release(self) -> None:
        """Let another process have it. Once is enough."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            with suppress(OSError):  # what is written there is for people; the lock is what counts
                os.ftruncate(descriptor, 0)
            os.close(descriptor)

    def __del__(self) -> None:
        self.release()  # nobody holds what nobody knows of


def holder(home: str) -> Holder | None:
    """Who holds the role; None when nobody does. Asking leaves nothing behind.

    Raises:
        StateError: when it cannot be told.
    """
    path = os.path.join(absolute(home), FILE)
    with _looking:
        try:
            descriptor = os.open(path, _FLAGS)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unusable(path, error) from error
        try:
            return None if _locked(descriptor, 0.0, shared=True) else _written(path)
        finally:
            os.close(descriptor)


def _locked(descriptor: int, patience: float, *, shared: bool = False) -> bool:
    """Whether the lock is ours now. Those who share it do not keep each other out, and nobody else has it meanwhile."""
    if os.name != "posix":
        raise StateError(
            "this system has no locks that end with a process, so nothing can be the host here",
            remedy="Use Linux for what lives, waits and fires by itself; calls work without it",
        )
    from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock

    kind = LOCK_SH if shared else LOCK_EX
    deadline = time.monotonic() + patience
    while True:
        try:
            flock(descriptor, kind | LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_AGAIN_SECONDS)
        else:
            return True


def _same(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except OSError:
        return False


def _written(path: str) -> Holder:
    """What the one who holds it wrote about himself. It is for people: nothing is decided by it."""
    try:
        with open(os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)), "rb") as file:
            return msgspec.json.decode(file.read(_MOST), type=Holder)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return Holder()


def _unusable(path: str, error: OSError) -> StateError:
    return StateError(
        f"the host role cannot be looked at: {path}: {error.strerror}",
        remedy="Look at what lies there: it must be an ordinary file of yours (mode 0600)",
    )
