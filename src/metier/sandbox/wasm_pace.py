"""Keeps runs that call the host without a pause from crowding everybody else out.

What the host does for them is Python, and only one thread at a time runs Python: with dozens of such runs everybody
else, the event loop first of all, waits for its turn behind all of them. So a run looks now and then how long it has
to wait for its turn itself. Where that is long, it stays away for a while, the longer the fuller it is.
"""

import time
from typing import Final, final

from metier.sandbox.wasm_clock import Timer

_OFTEN: Final = 32
"""Calls from one look to the next."""
_SHORT: Final = 0.010
_TURN: Final = 0.005
"""How long Python lets a thread have it while others wait."""
_LONGEST: Final = 0.5


@final
class Pace:
    """Of one run."""

    __slots__ = ("_left", "_timer")

    def __init__(self, timer: Timer) -> None:
        self._timer = timer
        self._left = _OFTEN

    def step(self) -> None:
        """At every call of the host, in the thread of the run."""
        self._left -= 1
        if self._left <= 0:
            self._left = _OFTEN
            self._rest()

    def _rest(self) -> None:
        before = time.monotonic()
        time.sleep(0)
        waited = time.monotonic() - before
        if waited > _SHORT:
            # By the square: with n runs about √n are then in line, where in proportion it would be a share of n.
            self._timer.due.wait(min(waited * waited / _TURN, _LONGEST, self._timer.left))
