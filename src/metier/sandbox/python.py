"""Runs Python code: handlers of a skill and code written in a manifest. A copy of a waiting interpreter per run."""

import secrets
import socket
import time
from typing import final

from metier.model.digest import Json
from metier.model.entry import InlineCode, PythonHandler
from metier.model.guarantee import Guarantee
from metier.model.job import Job, Report, Usage
from metier.sandbox.admission import Admission, not_started
from metier.sandbox.artifacts import Artifacts
from metier.sandbox.bounds import Bounds
from metier.sandbox.bridged import report_of
from metier.sandbox.capture import Capture
from metier.sandbox.follow import follow
from metier.sandbox.life import bounds_of, in_words, kept_bytes, lasts, without_places
from metier.sandbox.missed import only_what_is_there
from metier.sandbox.own_file import not_in_bundle
from metier.sandbox.policy import policy_of
from metier.sandbox.protocol import Missing
from metier.sandbox.wall import Code, Ended, Wall
from metier.sandbox.way_out import EgressFor, WayOut, egress_for
from metier.sandbox.wire import Broken, End, Wire
from metier.sandbox.wire_message import MOST_BYTES


@final
class PythonSandbox:
    """`PythonHandler` entries, and `InlineCode` in Python."""

    def __init__(self, wall: Wall, egress: EgressFor = egress_for) -> None:
        self._wall = wall
        self._egress = egress
        self._admission = Admission()

    @property
    def name(self) -> str:
        return f"python ({self._wall.name})"

    def takes(self, job: Job) -> bool:
        match job.entry:
            case PythonHandler():
                return True
            case InlineCode(language="python"):
                return True
            case _:
                return False

    def guarantees(self) -> frozenset[Guarantee]:
        return self._wall.guarantees()

    def missing(self) -> tuple[Missing, ...]:
        return self._wall.missing()

    async def aclose(self) -> None:
        """The wall is closed by who made it."""

    async def run(self, job: Job) -> Report:
        return await self._admission.run(job, self._run)

    async def _run(self, job: Job) -> Report:
        if isinstance(job.entry, PythonHandler) and (why := not_in_bundle(job.entry.path, job.bundle)):
            return not_started(why, name="NotFound")
        policy = policy_of(job)
        artifacts = Artifacts(job)
        began = time.monotonic()
        lives = job.life is not None
        kept = kept_bytes(job)
        ours, theirs = socket.socketpair()
        with ours, theirs, Capture(kept, endless=lives) as out, Capture(kept, endless=lives) as err:
            code = Code(
                packages=tuple(path for path in (*job.packages, job.bundle) if path),
                cwd=job.cwd,
                stdout=out.theirs,
                stderr=err.theirs,
                bridge=theirs.fileno(),
                take=artifacts.take,
            )
            running = await self._wall.fork(policy, code)
            for each in (out, err):
                each.close_theirs()
            theirs.close()
            wire = Wire(
                ours.fileno(),
                ours.fileno(),
                key=secrets.token_hex(16),
                host=job.host,
                alarm=job.alarm,
                output_bytes=job.limits.output_bytes,
                lives=in_words(job.life, without_places(job)),
                enable_seconds=job.life_bounds.enable_seconds,
            )
            end: End = Broken(problem="closed", detail="it was stopped")

            async def until() -> Ended:
                nonlocal end
                end = await wire.run(_told(job))
                if isinstance(end, Broken) and end.problem != "closed":
                    return await running.kill()
                ours.shutdown(socket.SHUT_RDWR)
                return await running.wait()

            way = WayOut(running.proxy, job, self._egress)
            bounds = Bounds(policy, running, life=bounds_of(job))
            ended, cut = await follow(
                running,
                until,
                seconds=lasts(job),
                bounds=bounds,
                stop=way.stop,
                alarm=job.alarm,
                at_once=running.proxy is not None,
                beside=(out.run, err.run, way.serve),
            )
            out.finish()
            err.finish()
        usage = Usage(
            seconds=time.monotonic() - began,
            cpu_seconds=ended.cpu_seconds,
            memory_bytes=ended.memory_bytes,
            output_bytes=out.total + err.total + wire.logged_bytes,
        )
        why = bounds.why
        report = await only_what_is_there(report_of(end, ended, cut, wire, (out, err), way, usage, why))
        return artifacts.told(report)


def _told(job: Job) -> dict[str, Json]:
    told: dict[str, Json] = {
        "arguments": job.arguments,
        "context": job.context,
        "environment": dict(job.environment),
        "places": [[place.path, place.writable] for place in job.places],
        "most_message": MOST_BYTES,
        "most_result": job.limits.output_bytes,
    }
    match job.entry:
        case PythonHandler(path=path, life=True, module=module):
            return {**told, "kind": "life", "path": f"{job.bundle}/{path}", "module": module}
        case PythonHandler(path=path, function=function):
            return {**told, "kind": "handler", "path": f"{job.bundle}/{path}", "function": function}
        case InlineCode(source=source):
            return {**told, "kind": "inline", "source": source}
        case _:
            raise AssertionError("a kind of entry this backend does not take")
