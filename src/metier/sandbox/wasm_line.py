"""Who compiles when. Modules wait in one line and two are compiled at once, never two of one skill.

All who want the same module share one compile. A call waits a bounded time and is then told to come again, while the
compile goes on for whoever comes next; what nobody waits for any more is not begun. A module that was refused is
remembered by its digest, so that its next call costs nothing.

It belongs to no event loop: compiling is done in threads that end when the line is empty.
"""

import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, final

import anyio

from metier.sandbox.wasm_compile import NotNow, Refused, Source

_log: Final = logging.getLogger("metier.wasm")
_AT_ONCE: Final = 2
_MOST_MODULES: Final = 128
_MOST_OF_A_SKILL: Final = 16
_MOST_CALLS: Final = 64
"""That wait for the same module."""
_MOST_REFUSED: Final = 256
_ENDING_SECONDS: Final = 5.0


@final
class _Order:
    """A module to be compiled, and those who wait for it."""

    def __init__(self, source: Source, bundle: str) -> None:
        self.source: Final = source
        self.bundle: Final = bundle
        self.calls = 0
        self.begun = False
        self.done = False
        self.problem: Refused | NotNow | None = None
        self.bell: Final = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        """Readable once it is done."""
        self.ear: Final = anyio.Lock()
        """Only one may listen to a descriptor; it wakes the next."""


@final
class Line:
    """`make` compiles a module and keeps it, in a thread; it raises `Refused` or `NotNow` where it cannot."""

    def __init__(self, make: Callable[[Source, threading.Event], None]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._orders: OrderedDict[str, _Order] = OrderedDict()
        self._refused: OrderedDict[str, tuple[str, float]] = OrderedDict()
        self._workers: set[threading.Thread] = set()
        self._stopped = threading.Event()

    def check(self, key: str) -> None:
        """Raises `Refused` where that is known of the module with this digest."""
        with self._lock:
            self._check(key)

    def remember(self, key: str, why: Refused) -> None:
        with self._lock:
            self._remember(key, why)

    async def wait(self, source: Source, bundle: str, seconds: float) -> None:
        """Until the module is compiled. `bundle` says whose it is.

        Raises:
            Refused: when it cannot be.
            NotNow: when that takes longer than `seconds`, or too many wait.
        """
        order = self._join(source, bundle)
        try:
            with anyio.move_on_after(seconds):
                async with order.ear:
                    if not order.done:
                        await anyio.wait_readable(order.bell)
        finally:
            done = self._leave(order)
        if not done:
            where = "being compiled" if order.begun else "in line to be compiled"
            raise NotNow(f"its module is still {where} after {seconds:g} seconds; try again shortly")
        if order.problem is not None:
            raise type(order.problem)(*order.problem.args)

    def close(self) -> None:
        """End what is being compiled. Blocks until it has ended."""
        self._stopped.set()
        with self._lock:
            workers = tuple(self._workers)
            for order in [each for each in self._orders.values() if not each.begun]:
                self._settle(order, NotNow("the sandbox is being closed"))
        for worker in workers:
            worker.join(_ENDING_SECONDS)

    def _join(self, source: Source, bundle: str) -> _Order:
        with self._lock:
            self._check(source.key)
            order = self._orders.get(source.key)
            if order is None:
                order = self._new(source, bundle)
            if order.calls >= _MOST_CALLS:
                raise NotNow(f"{_MOST_CALLS} calls wait for its module to be compiled; try again shortly")
            order.calls += 1
            return order

    def _new(self, source: Source, bundle: str) -> _Order:
        of_skill = sum(1 for each in self._orders.values() if each.bundle == bundle)
        if self._stopped.is_set() or len(self._orders) >= _MOST_MODULES or of_skill >= _MOST_OF_A_SKILL:
            raise NotNow("too many modules are in line to be compiled; try again shortly")
        try:
            order = _Order(source, bundle)
        except OSError as error:
            raise NotNow(f"its module cannot be compiled now: {error.strerror}; try again later") from None
        self._orders[source.key] = order
        if len(self._workers) < _AT_ONCE and self._next() is not None:
            worker = threading.Thread(target=self._work, name="metier-wasm-compile", daemon=True)
            self._workers.add(worker)
            try:
                worker.start()
            except RuntimeError:
                self._workers.discard(worker)
                problem = NotNow("its module cannot be compiled now: no thread is to be had; try again later")
                self._settle(order, problem)
                raise problem from None
        return order

    def _leave(self, order: _Order) -> bool:
        """Whether it is done."""
        with self._lock:
            done = order.done
            order.calls -= 1
            if not order.calls and done:
                os.close(order.bell)
            elif not order.calls and not order.begun:
                self._settle(order, None)  # nobody wants it
            return done

    def _next(self) -> _Order | None:
        busy = {each.bundle for each in self._orders.values() if each.begun}
        waiting = (each for each in self._orders.values() if not each.begun and each.bundle not in busy)
        return next(waiting, None)

    def _work(self) -> None:
        while (order := self._take()) is not None:
            problem = self._tried(order.source)
            with self._lock:
                self._settle(order, problem)

    def _take(self) -> _Order | None:
        with self._lock:
            order = None if self._stopped.is_set() else self._next()
            if order is None:
                self._workers.discard(threading.current_thread())
            else:
                order.begun = True
            return order

    def _tried(self, source: Source) -> Refused | NotNow | None:
        try:
            self._make(source, self._stopped)
        except (Refused, NotNow) as problem:
            return problem
        except Exception:  # noqa: BLE001  the front door of a thread: those who wait are owed an answer, and we the reason
            _log.exception("a module could not be compiled")
            return NotNow("its module cannot be compiled now; try again later")
        return None

    def _settle(self, order: _Order, problem: Refused | NotNow | None) -> None:
        del self._orders[order.source.key]
        if isinstance(problem, Refused):
            self._remember(order.source.key, problem)
        order.problem = problem
        order.done = True
        if order.calls:
            os.eventfd_write(order.bell, 1)
        else:
            os.close(order.bell)

    def _check(self, key: str) -> None:
        why, until = self._refused.get(key, ("", 0.0))
        if time.monotonic() < until:
            self._refused.move_to_end(key)
            raise Refused(why)
        self._refused.pop(key, None)

    def _remember(self, key: str, why: Refused) -> None:
        self._refused[key] = str(why), time.monotonic() + why.holds
        self._refused.move_to_end(key)
        while len(self._refused) > _MOST_REFUSED:
            self._refused.popitem(last=False)
