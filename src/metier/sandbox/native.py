"""Runs programs of the machine and scripts of skills: argv only, nothing from our environment, behind a wall."""

import time
from collections.abc import Callable
from functools import partial
from typing import Final, final

import anyio
from msgspec import Struct

from metier.model.digest import Json
from metier.model.entry import Command, Program
from metier.model.guarantee import Guarantee
from metier.model.job import Ending, Fault, Job, Report, Usage
from metier.model.permission import BASE_DIR
from metier.sandbox.admission import Admission
from metier.sandbox.artifacts import Artifacts
from metier.sandbox.bounds import Bounds
from metier.sandbox.capture import Capture
from metier.sandbox.follow import follow
from metier.sandbox.native_line import line_of
from metier.sandbox.policy import policy_of
from metier.sandbox.protocol import Missing
from metier.sandbox.wall import Cut, Ended, Running, Wall
from metier.sandbox.wall import Program as Started
from metier.sandbox.way_out import EgressFor, WayOut, egress_for

_LOOK_SECONDS: Final = 0.005


@final
class _Text(Struct, frozen=True):
    """One stream of output, as it is told."""

    text: str
    truncated: bool


@final
class NativeSandbox:
    """`Command` and `Program` entries."""

    def __init__(self, wall: Wall, egress: EgressFor = egress_for) -> None:
        self._wall = wall
        self._egress = egress
        self._admission = Admission()

    @property
    def name(self) -> str:
        return f"native ({self._wall.name})"

    def takes(self, job: Job) -> bool:
        return isinstance(job.entry, Command | Program)

    def guarantees(self) -> frozenset[Guarantee]:
        return self._wall.guarantees()

    def missing(self) -> tuple[Missing, ...]:
        return self._wall.missing()

    async def aclose(self) -> None:
        """The wall is closed by who made it."""

    async def run(self, job: Job) -> Report:
        return await self._admission.run(job, self._run)

    async def _run(self, job: Job) -> Report:
        line = line_of(job)
        if isinstance(line, Fault):
            return Report(ending="not_started", fault=line)
        policy = policy_of(job, line.places, programs=line.programs, bare_heap=line.bare_heap)
        artifacts = Artifacts(job)
        leaves = bool(job.files) or (bool(job.keep) and line.leaves)
        began = time.monotonic()
        with Capture(job.limits.output_bytes) as out, Capture(job.limits.output_bytes) as err:
            program = Started(
                argv=line.argv,
                called=line.called,
                environment={**job.environment, **line.environment},
                cwd=job.cwd,
                stdout=out.theirs,
                stderr=err.theirs,
                alone=line.argv[0].startswith("/usr/bin/"),
                again=True,
                supervised=Guarantee.VIOLATIONS_SEEN in job.needs or leaves or bool(line.called),
                exact_memory=Guarantee.MEMORY_EXACT in job.needs,
                files=job.files,
                named=line.named,
                take=artifacts.take,
            )
            running = await self._wall.start(policy, program)
            out.close_theirs()
            err.close_theirs()
            way = WayOut(running.proxy, job, self._egress)
            ended, cut = await follow(
                running,
                running.wait,
                seconds=job.limits.timeout,
                bounds=Bounds(policy, running),
                stop=way.stop,
                alarm=job.alarm,
                at_once=running.proxy is not None or job.begun is not None,
                resumable=running.proxy is None and job.begun is None,
                beside=(out.run, err.run, way.serve, partial(_tell, running, job.begun)),
            )
            out.finish()
            err.finish()
        usage = Usage(
            seconds=time.monotonic() - began,
            cpu_seconds=ended.cpu_seconds,
            memory_bytes=ended.memory_bytes,
            output_bytes=out.total + err.total,
        )
        # Interpreters say in every error where a script lies; where we keep copies of skills is nobody's business.
        hidden = job.bundle if isinstance(job.entry, Program) else ""
        return artifacts.told(_report(ended, cut, _text(out, hidden), _text(err, hidden), way, usage))


async def _tell(running: Running, begun: Callable[[int], None] | None) -> None:
    """Say which process it is, as soon as there is one."""
    while begun is not None:
        if processes := running.look().processes:
            begun(processes[0])
            return
        await anyio.sleep(_LOOK_SECONDS)


def _text(captured: Capture, hidden: str) -> _Text:
    text = captured.data.decode(errors="replace")
    return _Text(text.replace(hidden, BASE_DIR) if hidden else text, captured.truncated)


def _report(ended: Ended, cut: Cut, out: _Text, err: _Text, way: WayOut, usage: Usage) -> Report:
    ending = _ending(ended, cut)
    stdout, stderr = out.text, err.text
    value: Json = {"stdout": stdout, "stderr": stderr, "exit_code": 0} if ending == "returned" else None
    return Report(
        ending=ending,
        value=value,
        exit_code=ended.exit_code,
        signal=ended.signal,
        stdout=stdout,
        stderr=stderr,
        truncated=out.truncated or err.truncated,
        usage=usage,
        denials=(*ended.denials, *way.denials),
        violations=(*ended.violations, *way.violations),
    )


def _ending(ended: Ended, cut: Cut) -> Ending:
    if cut:
        return cut
    if ended.why == "out_of_memory":
        return "out_of_memory"
    if ended.exit_code == 0:
        return "returned"
    return "exited" if ended.exit_code is not None else "signalled"
