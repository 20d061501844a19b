"""The sandbox for WASM modules and components: wasmtime in this process, a fresh store for every run.

A run sees no system but WASI: the granted folders, its arguments and environment, clocks and random numbers. It has
one memory limit, burns fuel, and is ended by the clock. Runs share an engine and machine code, nothing else.
Compiling is not part of a run and has limits of its own; the time limit starts with the skill's first instruction.

What a run prints may hold escape sequences for terminals: whoever shows it must take them out.
"""

import importlib.util
import math
from typing import Final, final

import anyio
from anyio import to_thread

from metier.errors import StateError
from metier.model.digest import canonical
from metier.model.entry import WasmModule
from metier.model.guarantee import Guarantee
from metier.model.job import Job, Report
from metier.sandbox.admission import Admission, busy, not_started
from metier.sandbox.protocol import Missing
from metier.sandbox.wasm_attempt import Attempt, Shared
from metier.sandbox.wasm_cache import Cache
from metier.sandbox.wasm_files import reaches
from metier.sandbox.wasm_module import Refused
from metier.sandbox.wasm_run import Work

GUARANTEES: Final = frozenset(Guarantee) - {Guarantee.NETWORK_BY_GRANT}
RUNNING: Final = 64
WAITING: Final = 64
_MOST_LOST: Final = 8


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
        return await self._admission.run(job, self._run)

    async def _run(self, job: Job) -> Report:
        if not isinstance(job.entry, WasmModule):
            return not_started("this sandbox runs WASM only")
        if any(place.writable for place in job.places) and reaches(job.places, self._cache.folder):
            return not_started(
                "a folder it may write to holds Metier's own machine code; grant a narrower one"
            )
        limits = job.limits
        return await self.run_work(
            Work(
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
            )
        )

    async def run_work(self, work: Work) -> Report:
        """Run it now, compiling it first where that is needed. Cancelling ends it at once."""
        if self._threads is None:
            self._threads = anyio.CapacityLimiter(math.inf)
        try:
            for _ in range(3):
                found = await Attempt(self._shared, work).run(self._threads)
                if isinstance(found, Report):
                    return found
                await self._shared.parts().modules.compile(found)
        except (Refused, StateError) as error:
            return not_started(str(error))
        return not_started("the module changes while it is being compiled")

    async def aclose(self) -> None:
        """End the clock. Runs end with the tasks that await them."""
        await to_thread.run_sync(self._shared.close)
