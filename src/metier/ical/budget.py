"""Bounds on thinking and on waiting: a repetition rule of a few characters can stand for more work than anybody has time
for, and a server may answer one byte at a time."""

import signal
import time
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Final, final

_LEAST: Final = 0.001


@final
class Spent(BaseException):
    """The time is used up. Not an Exception, so that no library takes it for a fault of its own and goes on."""


@contextmanager
def budget(seconds: float) -> Generator[None, None, None]:
    """Raises `Spent` inside when the block has used that much processor time. What others do meanwhile does not count,
    so a busy machine answers as an idle one does. For the main thread only; blocks do not nest."""
    with _timed(signal.SIGPROF, signal.ITIMER_PROF, seconds):
        yield


@contextmanager
def deadline(seconds: float) -> Generator[None, None, None]:
    """Raises `Spent` inside when that much time has gone by. For the main thread only; blocks do not nest."""
    with _timed(signal.SIGALRM, signal.ITIMER_REAL, seconds):
        yield


@contextmanager
def _timed(number: signal.Signals, timer: int, seconds: float) -> Generator[None, None, None]:
    def spent(_signal: int, _frame: FrameType | None) -> None:
        raise Spent

    handler = signal.signal(number, spent)
    began = time.monotonic()
    # Again after a moment, should the first one fall into code that cannot pass it on.
    left, again = signal.setitimer(timer, seconds, 0.1)
    try:
        yield
    finally:
        signal.setitimer(timer, 0)
        signal.signal(number, handler)
        if left:  # somebody else's, who waits for it still
            signal.setitimer(timer, max(left - (time.monotonic() - began), _LEAST), again)


@final
class Allowance:
    """Processor time for many things together."""

    def __init__(self, seconds: float) -> None:
        self._left = seconds

    @contextmanager
    def one(self, most: float) -> Generator[None, None, None]:
        """Raises `Spent` when this one has used as much as it may, or nothing is left for it."""
        if self._left < _LEAST:
            raise Spent
        began = time.process_time()
        try:
            with budget(min(most, self._left)):
                yield
        finally:
            self._left -= time.process_time() - began
