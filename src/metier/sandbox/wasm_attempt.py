"""A WASM run in a thread of its own, from the event loop's side: started, waited for, and ended when nobody waits."""

import threading
import time
from typing import Final, final

import anyio
from anyio import to_thread

from metier.model.job import Fault, Report
from metier.sandbox.admission import not_started
from metier.sandbox.wasm_cache import Cache
from metier.sandbox.wasm_clock import Clock, Timer
from metier.sandbox.wasm_compile import SETTINGS, Source
from metier.sandbox.wasm_files import Spare
from metier.sandbox.wasm_module import Modules
from metier.sandbox.wasm_raw import Raw
from metier.sandbox.wasm_run import Parts, Run, Work
from metier.sandbox.wasm_wasi import WasiImports

_LATE: Final = 0.8
"""A thread that is not back that long after its limit waits in the operating system, where nothing reaches it."""


@final
class Shared:
    """Makes the parts when the first run comes, because importing wasmtime takes a while. For any thread."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._parts: Parts | None = None
        self._lock = threading.Lock()
        self.lost = 0
        """Threads that nobody waits for any more and that are not back."""

    def parts(self) -> Parts:
        with self._lock:
            if self._parts is None:
                from wasmtime import Config, Engine

                config = Config()
                for name, value in SETTINGS.items():
                    setattr(config, name, value)
                engine = Engine(config)
                imports = WasiImports(engine, Raw())
                modules = Modules(engine, imports, self._cache)
                self._parts = Parts(engine, Clock(engine), imports, modules, Spare(self._cache.folder))
            return self._parts

    def lose(self, count: int) -> None:
        with self._lock:
            self.lost += count

    def close(self) -> None:
        with self._lock:
            parts, self._parts = self._parts, None
        if parts is not None:
            parts.modules.close()
            parts.clock.close()
            parts.spare.close()


@final
class Attempt:
    """One try in a thread of its own, which may find that the module is not compiled yet."""

    def __init__(self, shared: Shared, work: Work) -> None:
        self._shared = shared
        self._work = work
        self._lock = threading.Lock()
        self._stopped = False
        self._lost = False
        self._timer: Timer | None = None
        self._clock: Clock | None = None
        self._ended = threading.Event()

    async def run(self, threads: anyio.CapacityLimiter) -> Report | Source:
        with anyio.move_on_after(self._work.seconds + _LATE + 0.1):
            try:
                return await to_thread.run_sync(self._go, abandon_on_cancel=True, limiter=threads)
            except anyio.get_cancelled_exc_class():
                await self._stop()
                raise
        return Report(
            ending="timed_out",
            fault=Fault(name="TimedOut", message=f"it was not done after {self._work.seconds:g} seconds"),
        )

    def _go(self) -> Report | Source:
        try:
            parts = self._shared.parts()
            loaded = parts.modules.find(self._work.bundle, self._work.path, time.time_ns())
            if isinstance(loaded, Source):
                return loaded
            with self._lock:
                if self._stopped:
                    return not_started("it was cancelled")
                self._timer, self._clock = Timer(self._work.seconds), parts.clock
            return Run(self._work, loaded, parts, self._timer).go()
        finally:
            with self._lock:
                self._ended.set()
                if self._lost:
                    self._shared.lose(-1)

    async def _stop(self) -> None:
        with self._lock:
            self._stopped = True
            timer, clock = self._timer, self._clock
        if timer is None or clock is None:
            return
        clock.stop(timer, "cancelled")
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(self._ended.wait, _LATE)
        with self._lock:
            if not self._ended.is_set():
                self._lost = True
                self._shared.lose(1)
