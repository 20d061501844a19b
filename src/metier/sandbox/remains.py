"""Ends what is left of a run whose supervisor went without clearing up, where no namespace and no control group does.

Nobody is above such processes any more. They are known by the looks that were taken at the run, by its temporary folder
in what they were started with, and by descent from either. Each is held and stopped before any is killed: none has
children behind our back, and no process that took over a number is ever meant. One that left its session between two
looks, was orphaned and forgot its environment is not found.
"""

import os
import select
import signal
import threading
import time
from collections import deque
from contextlib import suppress
from typing import Final, TypeAlias, final

from msgspec import Struct

from metier.sandbox.process import Tree

MOST_SECONDS: Final = 5.0
"""In which the kernel takes away what was killed. One that sleeps in it beyond waking goes when it wakes."""

Life: TypeAlias = tuple[int, int]
"""A process for good: its number, and when it began."""


@final
class _Process(Struct, frozen=True):
    parent: int
    life: Life


@final
class Remains:
    """What was seen of the runs of one supervisor."""

    def __init__(self, temporary: str) -> None:
        self._word = b"\0TMPDIR=" + os.fsencode(temporary) + b"\0"
        # Two: a look that was taken just as the supervisor went may have found only some.
        self._looks: deque[frozenset[Life]] = deque(maxlen=2)
        self._ending: threading.Thread | None = None

    def note(self, seen: Tree) -> None:
        """A look at the run. One that found nothing says nothing: then the supervisor may have gone."""
        look = frozenset(zip(seen.processes, seen.since, strict=True))
        if look and (not self._looks or self._looks[-1] != look):
            self._looks.append(look)

    def end_soon(self) -> None:
        """As `end`, for whoever cannot wait. Once."""
        if self._ending is None:
            self._ending = threading.Thread(target=self.end, name="metier-remains", daemon=True)
            self._ending.start()

    def end(self) -> None:
        """Kill all of it, until nothing is found. Blocks for a moment."""
        give_up = time.monotonic() + MOST_SECONDS
        while held := self._hold():
            try:
                for pidfd in held:
                    _send(pidfd, signal.SIGKILL)
                gone = all(_ended(pidfd, give_up) for pidfd in held)
            finally:
                for pidfd in held:
                    os.close(pidfd)
            if not gone:
                return

    def _hold(self) -> list[int]:
        """All that is alive, stopped: a pidfd of each."""
        held: dict[Life, int] = {}
        try:
            while new := self._found(held):
                for life in new:
                    held[life] = _hold(life)
        except BaseException:
            for pidfd in held.values():
                os.close(pidfd)
            raise
        return [pidfd for pidfd in held.values() if pidfd >= 0]

    def _found(self, known: "dict[Life, int]") -> list[Life]:
        table = _table()
        seen = frozenset[Life]().union(*self._looks)
        ours = {
            pid for pid, each in table.items() if each.life in seen or each.life in known or self._marked(pid)
        }
        while more := {pid for pid, each in table.items() if each.parent in ours} - ours:
            ours |= more
        return [table[pid].life for pid in ours if table[pid].life not in known]

    def _marked(self, pid: int) -> bool:
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                return self._word in b"\0" + file.read() + b"\0"
        except OSError:
            return False  # another user's, or gone


def _table() -> dict[int, _Process]:
    """Every process that is alive, but for ourselves."""
    found: dict[int, _Process] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            with suppress(OSError):
                state, parent, began = _state(int(name))
                if state not in (b"Z", b"X"):
                    found[int(name)] = _Process(parent, (int(name), began))
    return found


def _state(pid: int) -> tuple[bytes, int, int]:
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return fields[0], int(fields[1]), int(fields[19])


def _hold(life: Life) -> int:
    """A pidfd of a process, which is stopped; -1 when it has gone."""
    pid, began = life
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return -1
    try:
        # It has been this one all the time: whoever has the number now had it when we took hold.
        if _state(pid)[2] == began:
            _send(pidfd, signal.SIGSTOP)
            return pidfd
    except OSError:
        pass
    os.close(pidfd)
    return -1


def _send(pidfd: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        signal.pidfd_send_signal(pidfd, number)


def _ended(pidfd: int, give_up: float) -> bool:
    waiting = select.poll()
    waiting.register(pidfd, select.POLLIN)
    return bool(waiting.poll(max(0.0, give_up - time.monotonic()) * 1000))
