"""Looks at a run's processes now and then, without keeping the event loop from its work.

A look takes as long as the run has processes. A short one is taken on the spot. After a long one the next is taken by a
thread of our own, and not at once: a run with many processes is looked at less often, and its neighbours do not wait.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, final

from metier.sandbox.process import Tree

QUICK_SECONDS: Final = 0.003
REST: Final = 4
"""After a long look, this many times as long nobody looks."""

_lock: Final = threading.Lock()
_looker: ThreadPoolExecutor | None = None


def _submit(work: Callable[[], Tree]) -> "Future[Tree]":
    global _looker  # one thread for all runs together, made when first needed
    with _lock:
        if _looker is None:
            _looker = ThreadPoolExecutor(1, thread_name_prefix="metier-looker")
        return _looker.submit(work)


@final
class Glance:
    """The looks at one run. Asked by one thread only."""

    def __init__(self, see: Callable[[], Tree]) -> None:
        self._see = see
        self._last = Tree(0.0, 0, 0, 0)
        self._took = 0.0
        self._ended = 0.0
        self._under_way: Future[Tree] | None = None

    def now(self) -> Tree:
        """What the run takes, as seen now; of one with many processes, as seen last."""
        if self._under_way is not None:
            if not self._under_way.done():
                return self._last
            looked, self._under_way = self._under_way, None
            self._last = looked.result()
        if self._took < QUICK_SECONDS:
            self._last = self._look()
        elif time.monotonic() - self._ended > REST * self._took:
            self._under_way = _submit(self._look)
        return self._last

    def _look(self) -> Tree:
        began = time.monotonic()
        try:
            return self._see()
        finally:
            self._ended = time.monotonic()
            self._took = self._ended - began
