"""Ends WASM runs in time. One engine serves all of them and its epoch is theirs together, so a tick ends nobody:
it makes every running store ask whether *it* has to end.

One thread waits for the nearest time limit or the next order to stop, and ticks only then. While nothing runs it
does nothing.
"""

import ctypes
import importlib
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, final

if TYPE_CHECKING:
    from wasmtime import Engine, Store

Why: TypeAlias = Literal["timed_out", "cancelled", "stopped"]

_AGAIN: Final = 0.005
"""A run that is due may not have set its store up yet when the tick comes, so it is ticked until it is gone."""
_RESUME: Final = 0


@final
class Timer:
    """The time of one run. `why` says that it has to end; the run looks at it at every tick."""

    def __init__(self, seconds: float) -> None:
        self.deadline: Final = time.monotonic() + seconds
        self.why: Why | None = None
        self.due = threading.Event()
        """Set as soon as it has to end: what waits inside the run waits on this."""

    @property
    def left(self) -> float:
        return max(0.0, self.deadline - time.monotonic())

    def expired(self) -> bool:
        if self.why is None and time.monotonic() >= self.deadline:
            self.end("timed_out")
        return self.why is not None

    def end(self, why: Why) -> None:
        """The first reason stays."""
        if self.why is None:
            self.why = why
        self.due.set()


@final
class Clock:
    """Watches over the runs of one engine."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._timers: set[Timer] = set()
        self._changed = threading.Condition()
        self._wakes_at: float | None = None
        self._closed = False
        self._thread: threading.Thread | None = None
        self._tick_asks = _tick_asker()

    def enter(self, timer: Timer) -> None:
        with self._changed:
            self._timers.add(timer)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="metier-wasm-clock", daemon=True)
                self._thread.start()
            elif self._wakes_at is None or timer.deadline < self._wakes_at:
                # Waking it costs more than a small run: it is left asleep if it will be awake in time.
                self._changed.notify()

    def leave(self, timer: Timer) -> None:
        with self._changed:
            self._timers.discard(timer)

    def stop(self, timer: Timer, why: Why) -> None:
        """End a run now. From any thread."""
        timer.end(why)
        self._engine.increment_epoch()
        with self._changed:
            self._changed.notify()

    def attach(self, store: "Store", timer: Timer) -> Callable[[], None]:
        """Have `store` ask `timer` at every tick. What is returned must be called once the store is closed."""
        return self._tick_asks(store, timer)

    def close(self) -> None:
        """Only when no run is left."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        with self._changed:
            while not self._closed:
                expired = [timer for timer in self._timers if timer.expired()]
                if expired:
                    self._engine.increment_epoch()
                    wait: float | None = _AGAIN
                else:
                    wait = min((timer.left for timer in self._timers), default=None)
                self._wakes_at = None if wait is None else time.monotonic() + wait
                self._changed.wait(wait)


def _tick_asker() -> "Callable[[Store, Timer], Callable[[], None]]":
    """wasmtime can call back at a tick, but its Python package only shows that in its raw bindings."""
    raw: Any = importlib.import_module("wasmtime._bindings")
    watched: dict[int, Timer] = {}

    def ask(_context: int, key: int, more: Any, kind: Any) -> int:
        timer = watched.get(key)
        if timer is None or timer.expired():
            error = raw.wasmtime_error_new(b"the run was ended")
            return ctypes.cast(error, ctypes.c_void_p).value or 0
        more[0] = 1
        kind[0] = _RESUME
        return 0

    function = raw._wasmtime_store_epoch_deadline_callback
    asked = function.argtypes[1](ask)
    nothing = function.argtypes[3]()

    def attach(store: "Store", timer: Timer) -> Callable[[], None]:
        key = id(timer)
        watched[key] = timer
        raw.wasmtime_store_epoch_deadline_callback(store.ptr(), asked, key, nothing)
        store.set_epoch_deadline(1)
        return lambda: (watched.pop(key, None), None)[1]

    return attach
