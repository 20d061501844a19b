"""The sandbox for WASM modules and components: wasmtime in this process, a fresh store for every run.

A run sees no system but WASI: the granted folders, its arguments and environment, clocks and random numbers. It has
one memory limit, burns fuel, and is ended by the clock. Runs share an engine and machine code, nothing else.
Compiling is not part of a run and has limits and a line of its own, and who waits for it keeps nobody from running;
the time limit starts with the skill's first instruction.

What a run prints may hold escape sequences for terminals: whoever shows it must take them out.
"""

import importlib.util
import math
import os
from collections.abc import Awaitable, Callable
from typing import Final, final

import anyio
from anyio import to_thread
from msgspec import Struct

from metier.errors import StateError
from metier.model.digest import canonical
from metier.model.entry import WasmModule
from metier.model.guarantee import Guarantee
from metier.model.job import Job, Report
from metier.sandbox.admission import Admission, busy, not_started
from metier.sandbox.artifacts import Artifacts
from metier.sandbox.protocol import Missing
from metier.sandbox.wasm_attempt import Attempt, Shared
from metier.sandbox.wasm_cache import Cache
from metier.sandbox.wasm_compile import NotNow, Refused, Source
from metier.sandbox.wasm_files import reaches
from metier.sandbox.wasm_run import Work

GUARANTEES: Final = frozenset(Guarantee) - {Guarantee.NETWORK_BY_GRANT}
RUNNING: Final = min(64, max(8, 4 * (os.cpu_count() or 1)))
WAITING: Final = 512
LEAST_WAIT: Final = 10.0
"""Seconds that a call waits for its module to be compiled, also where its own time limit is shorter."""
_MOST_LOST: Final = 8
_TRIES: Final = 3


@final
class _Wanted(Struct, frozen=True):
    """Work whose module has to be compiled first."""

    work: Work
    source: Source


_LEFT: Final = Report(ending="not_started")
"""Of an attempt that found its module not compiled; nobody gets to see it."""


@final
class WasmSandbox:
    """Implements `metier.sandbox.protocol.Sandbox` for `WasmModule` entries."""

    def __init__(self, cache: str) -> None:
        """`cache` is a folder for machine code and for what runs write. It is made private to this user, or refused."""
        self._cache = Cache(cache)
        self._shared = Shared(self._cache)
        self._admission = Admission(RUNNING, WAITING)
        self._threads: anyio.CapacityLimiter | None = None
        self._installed = importlib.util.find_spec("wasmtime") is not None

    @property
    def name(self) -> str:
        return "wasm"

    def takes(self, job: Job) -> bool:
        return isinstance(job.entry, WasmModule)

    def guarantees(self) -> frozenset[Guarantee]:
        return GUARANTEES if self._installed else frozenset()

    def missing(self) -> tuple[Missing, ...]:
        if self._installed:
            return ()
        return (
            Missing(
                what="wasmtime",
                why="the Python package wasmtime is not installed",
                remedy="pip install 'metier[wasm]'",
                costs=GUARANTEES,
            ),
        )

    async def run(self, job: Job) -> Report:
        if not self._installed:
            return not_started("wasmtime is not installed; pip install 'metier[wasm]'")
        if self._shared.lost >= _MOST_LOST:
            return busy("too many runs could not be ended; try again shortly")
        return await self._compiling(lambda: self._in_turn(job))

    async def run_work(self, work: Work) -> Report:
        """Run it now, compiling it first where that is needed. Cancelling ends it at once."""
        return await self._compiling(lambda: self._try(work))

    async def _compiling(self, attempt: Callable[[], Awaitable["Report | _Wanted"]]) -> Report:
        """What `attempt` comes to, once its module is compiled."""
        for _ in range(_TRIES):
            found = await attempt()
            if isinstance(found, Report):
                return found
            work, patience = found.work, max(found.work.seconds, LEAST_WAIT)
            try:
                await self._shared.parts().modules.compile(found.source, work.bundle, patience)
            except NotNow as error:
                return busy(str(error))
            except Refused as error:
                return not_started(str(error), name="BadModule")
            except StateError as error:
                return not_started(str(error))
        return not_started("the module changes while it is being compiled")

    async def _in_turn(self, job: Job) -> "Report | _Wanted":
        """An attempt as one of those that run at once. Whoever has to wait for a compile leaves again."""
        wanted: list[_Wanted] = []

        async def attempt(job: Job) -> Report:
            artifacts = Artifacts(job)
            work = self._work(job, artifacts)
            found = await self._try(work) if isinstance(work, Work) else work
            if isinstance(found, Report):
                return artifacts.told(found)
            wanted.append(found)
            return _LEFT

        report = await self._admission.run(job, attempt)
        return wanted[0] if wanted else report

    async def _try(self, work: Work) -> "Report | _Wanted":
        if self._threads is None:
            self._threads = anyio.CapacityLimiter(math.inf)
        try:
            found = await Attempt(self._shared, work).run(self._threads)
        except Refused as error:
            return not_started(str(error), name="BadModule")
        except StateError as error:
            return not_started(str(error))
        return found if isinstance(found, Report) else _Wanted(work, found)

    def _work(self, job: Job, artifacts: Artifacts) -> Work | Report:
        if not isinstance(job.entry, WasmModule):
            return not_started("this sandbox runs WASM only")
        if any(place.writable for place in job.places) and reaches(job.places, self._cache.folder):
            return not_started(
                "a folder it may write to holds Metier's own machine code; grant a narrower one"
            )
        limits = job.limits
        return Work(
            form="tool" if job.entry.function is None else "function",
            bundle=job.bundle,
            path=job.entry.path,
            function=job.entry.function or "",
            arguments=job.arguments,
            argv=(job.entry.path.rpartition("/")[2],),
            environment=job.environment,
            stdin=canonical(job.arguments) if job.entry.function is None else b"",
            places=job.places,
            cwd=job.cwd,
            seconds=limits.timeout,
            memory_bytes=limits.memory_mb << 20,
            output_bytes=limits.output_bytes,
            fuel=limits.fuel,
            host=job.host,
            take=artifacts.take,
        )

    async def aclose(self) -> None:
        """End the clock. Runs end with the tasks that await them."""
        await to_thread.run_sync(self._shared.close)
