"""JavaScript and TypeScript: handlers in files, inline code and hooks, each in an engine process of its own.

The engine (Deno) is not the wall; it stands behind one. It is always started on our own runner, which loads the
code of the skill by a checked import. Everything the code may ask for goes over the bridge to the job's host.

A job whose `context` has `hook` is a hook in the sense of OpenClaw: the event is what stands there, the entry's file
is loaded, and the value is the event's context as the hook left it. `metier.hooks` makes such calls, and says what a
hook may touch.
"""

import os
import re
import secrets
import signal
import time
from functools import partial
from typing import Final, final

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup
from msgspec.structs import replace

from metier.model.guarantee import Guarantee
from metier.model.job import Ending, Event, Fault, Job, Report, Usage
from metier.record.private import make_private_folder
from metier.sandbox import deno_plan
from metier.sandbox.admission import Admission, not_started
from metier.sandbox.artifacts import Artifacts, is_empty
from metier.sandbox.bounds import Bounds
from metier.sandbox.deno_plan import NotPossible, Shape, order_of, shape_of
from metier.sandbox.deno_pool import Engine, Pool
from metier.sandbox.deno_where import find_engine
from metier.sandbox.follow import follow
from metier.sandbox.life import bounds_of, in_words, lasts
from metier.sandbox.policy import LIFE_CPU_SECONDS
from metier.sandbox.protocol import Missing
from metier.sandbox.unbroken import unbroken
from metier.sandbox.wall import Cut, Ended, Wall
from metier.sandbox.wire import Broken, End, Raised, Returned, Wire

_OWN_END_SECONDS: Final = 0.5
"""How long a process that has said its last word may take to end by itself. It then goes with a code of its own,
and what stood ready for it behind the wall can serve the next one."""
_INLINE: Final = re.compile(r"data:application/(?:java|type)script,[\w.!~*'()%-]*")
"""Where the engine says that inline code lies: all of the code, once more."""
_FLAG: Final = re.compile(r", run again with the --allow-[a-z-]+ flag")
_REFUSED: Final = re.compile(r"Requires [a-z]+ access to ")
_ENGINE_GAVE_UP: Final = frozenset({signal.SIGTRAP, signal.SIGABRT, signal.SIGILL})


@final
class DenoSandbox:
    """Runs JavaScript and TypeScript behind a wall. Without the engine it promises nothing and starts nothing."""

    def __init__(self, wall: Wall, *, cache: str, pool_mb: int = 512, tasks: TaskGroup | None = None) -> None:
        """`cache` is a folder of our own, made when first needed. The engine wants one, and finds it empty and
        read-only: nothing of a skill is kept there. In `tasks` processes are cleared away and started ahead;
        without it that is done before a run returns."""
        self._wall = wall
        self._tasks = tasks
        self._engine = find_engine()
        self._cache = os.path.join(os.path.realpath(cache), "engine")
        self._has_cache = False
        self._pool = Pool(wall, megabytes=pool_mb)
        self._admission = Admission()
        self._under_way: set[Engine] = set()
        self._struck: set[Engine] = set()
        self._plain: set[tuple[str, tuple[int, ...]]] = set()
        self._closed = False

    @property
    def name(self) -> str:
        return f"deno ({self._wall.name})"

    def takes(self, job: Job) -> bool:
        """Whether it is JavaScript or TypeScript."""
        return deno_plan.takes(job)

    def guarantees(self) -> frozenset[Guarantee]:
        """Those of the wall; and output and time are bounded here, whatever the wall does about them."""
        if isinstance(self._engine, Missing):
            return frozenset()
        mine = self._wall.guarantees()
        if Guarantee.NO_NETWORK in mine:
            # Inside there is none; the one way out is the bridge, which asks egress.
            mine |= {Guarantee.NETWORK_BY_GRANT}
        return mine | {Guarantee.OUTPUT_BOUNDED}

    def missing(self) -> tuple[Missing, ...]:
        """The engine, if it is not there, and what the wall misses."""
        mine = (self._engine,) if isinstance(self._engine, Missing) else ()
        return (*mine, *self._wall.missing())

    async def run(self, job: Job) -> Report:
        """Run one job. Never raises but for cancellation, and then too nothing is left."""
        if isinstance(self._engine, Missing):
            return not_started(f"{self._engine.why}; {self._engine.remedy}")
        if not self.takes(job):
            return not_started("this is not JavaScript or TypeScript")
        return await self._admission.run(job, self._run)

    async def aclose(self) -> None:
        """End everything, also what is under way."""
        self._closed = True
        await unbroken(self._end_all)

    async def _end_all(self) -> None:
        await self._pool.aclose()
        for engine in tuple(self._under_way):
            await engine.kill()  # its run sees that, and clears it away
        for engine in tuple(self._struck):
            await self._bury(engine)

    async def _run(self, job: Job) -> Report:
        if self._closed:
            return not_started("this sandbox is closed")
        began = time.monotonic()
        limits = job.limits
        shape = await self._shape(job)
        if isinstance(shape, NotPossible):
            return not_started(shape.why)
        engine = await self._pool.take(shape)
        self._under_way.add(engine)
        artifacts = Artifacts(job)
        engine.take = artifacts.take
        key = secrets.token_hex(16)
        wire = Wire(
            engine.read_fd,
            engine.write_fd,
            key=key,
            host=job.host,
            alarm=job.alarm,
            output_bytes=limits.output_bytes,
            shared=True,
            lives=in_words(job.life, partial(_in_our_words, job=job)),
            enable_seconds=job.life_bounds.enable_seconds,
        )
        bounds = Bounds(shape.policy, engine, life=bounds_of(job))
        said: End | None = None

        async def until() -> Ended:
            nonlocal said
            said = await wire.run(order_of(job))
            return await self._after(said, engine)

        try:
            ended, cut = await follow(
                engine,
                until,
                seconds=max(0.0, lasts(job) - (time.monotonic() - began)),
                bounds=bounds,
                stop=anyio.Event(),
                alarm=job.alarm,
                beside=(engine.audit.run,),
            )
            engine.audit.finish()
        finally:
            await self._clear_away(engine, shape)
        report = _report(job, said, cut, wire, ended, engine, time.monotonic() - began)
        return artifacts.told(report if bounds.why is None else replace(report, fault=bounds.why))

    async def _after(self, said: End, engine: Engine) -> Ended:
        """Its last word is said: it goes now, and its corpse may be cleared away later."""
        if isinstance(said, Broken) and said.problem != "closed":
            return await engine.kill()
        await _kept(engine)
        struck = None if isinstance(said, Broken) else engine.strike()
        if struck is not None:
            return struck
        with anyio.move_on_after(_OWN_END_SECONDS):
            return await engine.wait()
        return await engine.kill()

    async def _clear_away(self, engine: Engine, shape: Shape) -> None:
        self._under_way.discard(engine)
        self._struck.add(engine)

        async def clear() -> None:
            await unbroken(partial(self._bury, engine))
            if shape.policy.cpu_seconds < LIFE_CPU_SECONDS:  # another life of its kind begins seldom
                await self._pool.refill(shape)

        if self._tasks is None or self._closed:
            await clear()
        else:
            self._tasks.start_soon(clear)

    async def _bury(self, engine: Engine) -> None:
        await engine.end()
        self._struck.discard(engine)

    async def _shape(self, job: Job) -> Shape | NotPossible:
        if isinstance(self._engine, Missing):
            return NotPossible(why=self._engine.why)
        if not self._has_cache:
            await to_thread.run_sync(make_private_folder, self._cache)
            self._has_cache = True
        shape = shape_of(job, engine=self._engine.path, cache=self._cache)
        if isinstance(shape, NotPossible) or not shape.bundle or (shape.bundle, shape.stamp) in self._plain:
            return shape
        problem = await to_thread.run_sync(deno_plan.only_plain_files, shape.bundle)
        if problem is None:
            self._plain.add((shape.bundle, shape.stamp))
        return problem or shape


async def _kept(engine: Engine) -> None:
    """Take what it leaves, while it is there to be looked into; others hand that over when they have ended."""
    folder = engine.left()
    if folder < 0:
        return
    try:
        if engine.take is not None and not is_empty(folder):
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(engine.take, folder)
    finally:
        os.close(folder)


def _report(
    job: Job, said: End | None, cut: Cut, wire: Wire, ended: Ended, engine: Engine, seconds: float
) -> Report:
    ending, fault = (cut, None) if cut else _ending(said, ended, engine)
    size = said.size if isinstance(said, Returned) else 0
    return Report(
        ending=ending,
        value=said.value if isinstance(said, Returned) and ending == "returned" else None,
        fault=None if fault is None else _in_our_words(fault, job),
        exit_code=ended.exit_code if ending == "no_result" else None,
        signal=ended.signal if ending == "signalled" else None,
        stdout=wire.stdout,
        stderr=wire.stderr,
        truncated=wire.truncated,
        usage=Usage(
            seconds=seconds,
            cpu_seconds=ended.cpu_seconds,
            memory_bytes=ended.memory_bytes,
            output_bytes=wire.logged_bytes + size,
        ),
        denials=_together(ended.denials, engine.audit.denials, wire.denials),
        violations=_together(ended.violations, wire.violations),
    )


def _ending(said: End | None, ended: Ended, engine: Engine) -> tuple[Ending, Fault | None]:
    match said:
        case None:
            return "no_result", None
        case Returned():
            return "returned", None
        case Raised(fault=fault):
            return "raised", fault
        case Broken(problem="forged_message" | "violation", detail=detail):
            return "stopped", Fault(name="Violation", message=detail)
        case Broken(problem="late", detail=detail):
            return "timed_out", Fault(name="TimedOut", message=detail)
        case Broken(problem="bad_result" | "too_large", detail=detail):
            return "bad_result", Fault(name="BadResult", message=detail)
        case Broken():
            return _own_end(ended, engine)


def _own_end(ended: Ended, engine: Engine) -> tuple[Ending, Fault | None]:
    gave_up = ended.signal in _ENGINE_GAVE_UP or ended.exit_code in {
        128 + number for number in _ENGINE_GAVE_UP
    }
    if ended.why == "out_of_memory" or (gave_up and engine.audit.out_of_memory):
        return "out_of_memory", None
    if ended.signal is not None:
        return "signalled", None
    detail = "it ended without returning anything: it left early, or waited for something that never comes"
    return "no_result", Fault(name="NoResult", message=detail)


def _in_our_words(fault: Fault, job: Job) -> Fault:
    """The engine names files as it sees them and flags that nobody here can set; people are shown neither."""
    message = _FLAG.sub("", _INLINE.sub("inline", fault.message.replace(deno_plan.GUEST, "{metier}")))
    if job.bundle:
        message = message.replace(job.bundle, "{baseDir}")
    # A refused import comes as another error than any other refusal.
    refused = fault.name == "TypeError" and _REFUSED.match(message)
    return Fault(name="NotCapable" if refused else fault.name, message=message)


def _together(*several: tuple[Event, ...]) -> tuple[Event, ...]:
    counts: dict[tuple[str, str], int] = {}
    for event in (event for events in several for event in events):
        what = (event.kind, event.detail)
        counts[what] = counts.get(what, 0) + event.count
    return tuple(Event(kind=kind, detail=detail, count=count) for (kind, detail), count in counts.items())
