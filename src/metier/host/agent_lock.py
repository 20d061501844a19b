"""One agent runs once at a time, whatever process of Metier's started it: whoever runs it holds a lock on a file in the state.

The lock goes with the process that holds it, so one that was killed locks nobody out.
"""

import os
import time
from contextlib import suppress
from typing import Final, final

from metier.record.private import make_private_folder

FOLDER: Final = "agents"
PATIENCE: Final = 0.1
"""Whoever asks whether an agent runs holds its lock for a moment; who wants to run it waits so long."""
_AGAIN_SECONDS: Final = 0.01
_FLAGS: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC


@final
class AgentLock:
    """Held until it is let go."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def note(self, pid: int) -> None:
        """Say which process it is, for whoever asks."""
        os.pwrite(self._descriptor, f"{pid:<20}".encode(), 0)

    def release(self) -> None:
        """Let the next one run. Once is enough."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.ftruncate(descriptor, 0)
            os.close(descriptor)


def hold(home: str, name: str, *, patience: float = 0.0) -> AgentLock | None:
    """The lock of an agent; None while somebody holds it, for at least `patience` seconds. Blocking.

    Raises:
        StateError, OSError: when the state cannot be used.
    """
    folder = os.path.join(home, FOLDER)
    make_private_folder(folder)
    return _locked(os.open(os.path.join(folder, f"{name}.lock"), _FLAGS | os.O_CREAT, 0o600), patience)


def _locked(descriptor: int, patience: float) -> AgentLock | None:
    from fcntl import LOCK_EX, LOCK_NB, flock

    deadline = time.monotonic() + patience
    while True:
        try:
            flock(descriptor, LOCK_EX | LOCK_NB)
        except OSError:
            if time.monotonic() >= deadline:
                os.close(descriptor)
                return None
            time.sleep(_AGAIN_SECONDS)
        else:
            return AgentLock(descriptor)


def running(home: str, name: str) -> int | None:
    """The process of an agent that runs, 0 where it is not known yet; None when it does not run."""
    try:
        descriptor = os.open(os.path.join(home, FOLDER, f"{name}.lock"), _FLAGS)
    except FileNotFoundError:
        return None  # it never ran, and to ask leaves nothing behind
    held = _locked(descriptor, 0.0)
    if held is not None:
        held.release()
        return None
    with suppress(OSError, ValueError), open(os.path.join(home, FOLDER, f"{name}.lock"), "rb") as file:
        return int(file.read(20) or b"0")
    return 0
