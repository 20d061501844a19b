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
from metier.model.job import Fault, Job, Report
from metier.model.skill import Limits
from metier.sandbox.protocol import Missing
from metier.sandbox.wasm_attempt import Attempt, Shared
from metier.sandbox.wasm_cache import Cache
from metier.sandbox.wasm_files import reaches
from metier.sandbox.wasm_module import Refused
from metier.sandbox.wasm_run import Work, not_started

GUARANTEES: Final = frozenset(Guarantee) - {Guarantee.NETWORK_BY_GRANT}
RUNNING: Final = 64
WAITING: Final = 64
_MOST_SECONDS: Final = 300.0
_MOST_MB: Final = 4_096
_MOST_LOST: Final = 8


@final
class WasmSandbox:
    """Implements `metier.sandbox.protocol.Sandbox` for `WasmModule` entries."""

    def __init__(self, cache: str) -> None:
        """`cache` is a folder for machine code and for what runs write. It is made private to this user, or refused."""
        self._cache = Cache(cache)
        self._shared = Shared(self._cache)
        self._slots: anyio.Semaphore | None = None
        self._threads: anyio.CapacityLimiter | None = None
        self._inside = 0
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
        if not isinstance(job.entry, WasmModule):
            return not_started("this sandbox runs WASM only")
        unfit = _unfit(job)
        if unfit:
            return not_started(unfit)
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
                seconds=min(limits.timeout, _MOST_SECONDS),
                memory_bytes=min(limits.memory_mb, _MOST_MB) << 20,
                output_bytes=limits.output_bytes,
                fuel=limits.fuel,
                host=job.host,
            )
        )

    async def run_work(self, work: Work) -> Report:
        """Run it, compiling it first where that is needed. Cancelling ends it at once."""
        if not self._installed:
            return not_started("wasmtime is not installed; pip install 'metier[wasm]'")
        if self._inside >= RUNNING + WAITING or self._shared.lost >= _MOST_LOST:
            return Report(
                ending="busy", fault=Fault(name="Busy", message="too many runs at once; try again shortly")
            )
        if self._slots is None or self._threads is None:
            self._slots = anyio.Semaphore(RUNNING, fast_acquire=True)
            self._threads = anyio.CapacityLimiter(math.inf)
        self._inside += 1
        try:
            async with self._slots:
                return await self._attempts(work, self._threads)
        except (Refused, StateError) as error:
            return not_started(str(error))
        finally:
            self._inside -= 1

    async def aclose(self) -> None:
        """End the clock. Runs end with the tasks that await them."""
        await to_thread.run_sync(self._shared.close)

    async def _attempts(self, work: Work, threads: anyio.CapacityLimiter) -> Report:
        for _ in range(3):
            found = await Attempt(self._shared, work).run(threads)
            if isinstance(found, Report):
                return found
            await self._shared.parts().modules.compile(found)
        return not_started("the module changes while it is being compiled")


def _unfit(job: Job) -> str:
    """Why this job is not run at all; empty when it may be."""
    limits: Limits = job.limits
    if not 0 < limits.timeout < math.inf or limits.memory_mb < 1 or limits.output_bytes < 0:
        return "its limits must be greater than zero"
    if limits.fuel is not None and not 0 < limits.fuel < 2**63:
        return "its fuel must be greater than zero"
    texts = [
        *job.environment,
        *job.environment.values(),
        job.entry.path if isinstance(job.entry, WasmModule) else "",
    ]
    texts += [job.bundle, job.cwd, *(place.path for place in job.places)]
    for text in texts:
        if "\0" in text or not (text.isascii() or _is_text(text)):
            return "a name or value of it holds a NUL, or is not text"
    if any("=" in name or not name for name in job.environment):
        return "the name of a variable is empty or holds ="
    return ""


def _is_text(text: str) -> bool:
    return not any("\ud800" <= sign <= "\udfff" for sign in text)
