"""Runs programs of the machine: argv only, a resolved file, nothing from our environment, behind a wall."""

import os
import time
from typing import final

from metier.model.digest import Json
from metier.model.entry import Command
from metier.model.guarantee import Guarantee
from metier.model.job import Ending, Fault, Job, Place, Report, Usage
from metier.sandbox.admission import Admission
from metier.sandbox.bounds import Bounds
from metier.sandbox.capture import Capture
from metier.sandbox.follow import follow
from metier.sandbox.mounts import is_system
from metier.sandbox.policy import policy_of
from metier.sandbox.protocol import Missing
from metier.sandbox.wall import Cut, Ended, Program, Wall
from metier.sandbox.way_out import EgressFor, WayOut, egress_for


@final
class NativeSandbox:
    """`Command` entries."""

    def __init__(self, wall: Wall, egress: EgressFor = egress_for) -> None:
        self._wall = wall
        self._egress = egress
        self._admission = Admission()

    @property
    def name(self) -> str:
        return f"native ({self._wall.name})"

    def takes(self, job: Job) -> bool:
        return isinstance(job.entry, Command)

    def guarantees(self) -> frozenset[Guarantee]:
        return self._wall.guarantees()

    def missing(self) -> tuple[Missing, ...]:
        return self._wall.missing()

    async def aclose(self) -> None:
        """The wall is closed by who made it."""

    async def run(self, job: Job) -> Report:
        return await self._admission.run(job, self._run)

    async def _run(self, job: Job) -> Report:
        file = _resolve(job)
        if isinstance(file, Fault):
            return Report(ending="not_started", fault=file)
        policy = policy_of(job, () if is_system(file) else (Place(path=file),))
        began = time.monotonic()
        with Capture(job.limits.output_bytes) as out, Capture(job.limits.output_bytes) as err:
            program = Program(
                argv=(file, *_arguments(job)),
                environment=job.environment,
                cwd=job.cwd,
                stdout=out.theirs,
                stderr=err.theirs,
                alone=file.startswith("/usr/bin/"),
                again=True,
                supervised=Guarantee.VIOLATIONS_SEEN in job.needs,
                exact_memory=Guarantee.MEMORY_EXACT in job.needs,
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
                at_once=running.proxy is not None,
                resumable=running.proxy is None,
                beside=(out.run, err.run, way.serve),
            )
            out.finish()
            err.finish()
        usage = Usage(
            seconds=time.monotonic() - began,
            cpu_seconds=ended.cpu_seconds,
            memory_bytes=ended.memory_bytes,
            output_bytes=out.total + err.total,
        )
        return _report(ended, cut, out, err, way, usage)


def _arguments(job: Job) -> tuple[str, ...]:
    return job.entry.argv[1:] if isinstance(job.entry, Command) else ()


def _resolve(job: Job) -> str | Fault:
    """The one real file meant by the name the command begins with."""
    name = job.entry.argv[0] if isinstance(job.entry, Command) and job.entry.argv else ""
    file = job.binaries.get(name) or (name if name in job.binaries.values() else None)
    if file is None:
        return Fault(name="NotDeclared", message=f"the program {name!r} was not declared, so it is not run")
    if not os.path.isabs(file) or os.path.realpath(file) != file or not os.path.isfile(file):
        return Fault(name="NotFound", message=f"the program {name!r} is not where it was found before")
    return file


def _report(ended: Ended, cut: Cut, out: Capture, err: Capture, way: WayOut, usage: Usage) -> Report:
    ending = _ending(ended, cut)
    stdout, stderr = out.data.decode(errors="replace"), err.data.decode(errors="replace")
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
