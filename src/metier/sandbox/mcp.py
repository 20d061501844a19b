"""The backend for tools of MCP servers that run here: one sandbox for each server, which lives between calls.

A server is started when it is first needed, with what its skill was granted and nothing else, and every further call of that skill is
asked of it. Whatever it was granted changes, it is started anew. One that dies is not started again at once, and less soon each time.
What it tells of its tools is held against what was looked at before any of them is used.
"""

import time
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias, final

import anyio
import msgspec
from anyio import to_thread
from anyio.abc import TaskGroup
from msgspec import Struct
from msgspec.structs import replace

from metier.model.digest import Json
from metier.model.entry import McpServer, RemoteTool
from metier.model.guarantee import Guarantee
from metier.model.job import Event, Fault, Job, Report, Usage
from metier.sandbox.admission import Admission, busy, not_started
from metier.sandbox.given_secrets import without_secrets
from metier.sandbox.job_environment import granted_variables
from metier.sandbox.job_operator_programs import started
from metier.sandbox.mcp_content import report_of
from metier.sandbox.mcp_peer import Trouble
from metier.sandbox.mcp_resident import START_SECONDS, Resident
from metier.sandbox.protocol import Missing
from metier.sandbox.wall import Wall
from metier.sandbox.way_out import EgressFor, egress_for

Reveal: TypeAlias = Callable[[str], str | None]
_FIRST_SECONDS: Final = 1.0
_LONGEST_SECONDS: Final = 60.0
_WELL_SECONDS: Final = 60.0
"""One that lived so long did not fail to start."""
_CLOSE_SECONDS: Final = 5.0


class Watch(Protocol):
    """Who is told of servers. Must not raise."""

    def listed(self, job: Job, listing: dict[str, Json]) -> None:
        """A server told its tools. Called in a thread."""
        ...

    def lives(self, skill: str, *, now: bool) -> None:
        """A server of this skill lives from now on, or no more."""
        ...

    def violated(self, job: Job, events: tuple[Event, ...]) -> None:
        """A server did between calls what no skill may ever do."""
        ...


@final
class _Down(Struct, frozen=True):
    """A server that ended before its time."""

    times: int
    until: float
    why: str


@final
class McpSandbox:
    """`RemoteTool` entries of servers that are programs. Belongs to one loop."""

    def __init__(
        self,
        wall: Wall,
        reveal: Reveal,
        tasks: TaskGroup | None = None,
        watch: Watch | None = None,
        egress: EgressFor = egress_for,
    ) -> None:
        """Without `tasks` to live in, a server lasts for one call."""
        self._wall = wall
        self._reveal = reveal
        self._tasks = tasks
        self._watch = watch
        self._egress = egress
        self._admission = Admission(64)
        self._living: dict[str, tuple[bytes, Resident]] = {}
        self._down: dict[str, _Down] = {}
        self._starting: dict[str, anyio.Lock] = {}

    @property
    def name(self) -> str:
        return f"mcp ({self._wall.name})"

    def takes(self, job: Job) -> bool:
        return (
            isinstance(job.entry, RemoteTool) and job.entry.reached is not None and not job.entry.reached.url
        )

    def guarantees(self) -> frozenset[Guarantee]:
        return self._wall.guarantees() - {Guarantee.FRESH_STATE}

    def missing(self) -> tuple[Missing, ...]:
        return self._wall.missing()

    @property
    def living(self) -> frozenset[str]:
        """Skills whose servers live now."""
        return frozenset(self._living)

    def stop(self, skill: str) -> None:
        """End what lives of a skill; of all of them where none is named."""
        for name, (_, resident) in tuple(self._living.items()):
            if skill in ("", name):
                resident.close("its skill was stopped", at_once=True)

    async def aclose(self) -> None:
        """End every server."""
        self.stop("")
        with anyio.move_on_after(_CLOSE_SECONDS):
            for _, resident in tuple(self._living.values()):
                await resident.ended.wait()

    async def run(self, job: Job) -> Report:
        began = time.monotonic()
        report = await self._admission.run(job, self._run)
        return replace(report, usage=replace(report.usage, seconds=time.monotonic() - began))

    async def _run(self, job: Job) -> Report:
        entry = job.entry
        if not isinstance(entry, RemoteTool) or entry.reached is None:
            return not_started("This backend asks MCP servers and runs nothing else")
        server = _server_job(job, entry.reached)
        if isinstance(server, str):
            return not_started(server, name="NotGranted")
        if lacking := server.needs - {Guarantee.FRESH_STATE} - self.guarantees():
            return not_started(
                f"its program needs what cannot be promised here: {', '.join(sorted(lacking))}"
            )
        secrets = await to_thread.run_sync(self._secrets, entry.reached, job)
        if isinstance(secrets, str):
            return not_started(secrets, name="NoSecret")
        if self._tasks is not None:
            found = await self._resident(job, server, secrets, self._tasks)
            return found if isinstance(found, Report) else await self._asked(job, entry, found)
        resident = Resident(server, self._wall, self._egress, secrets)
        report = not_started("the server never began")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(resident.run)
            report = await self._asked(job, entry, resident)
            tasks.cancel_scope.cancel()
        return report

    def _secrets(self, reached: McpServer, job: Job) -> dict[str, str] | str:
        """The variables that hold secrets. Blocking."""
        found: dict[str, str] = {}
        for variable, name in reached.secret_environment.items():
            value = self._reveal(name) if name in job.permissions.secrets else None
            if value is None:
                return f"the secret {name!r} is not there or not granted; set it with `metier secrets set {name}`"
            found[variable] = value
        return found

    async def _resident(
        self, job: Job, server: Job, secrets: dict[str, str], tasks: TaskGroup
    ) -> Resident | Report:
        """The server of the job's skill, started where it does not live as it should."""
        key = _key(server, secrets)
        async with self._starting.setdefault(job.skill, anyio.Lock()):
            before = self._living.get(job.skill)
            if before is not None and before[0] == key and not before[1].over:
                return before[1]
            if before is not None:
                before[1].close("it was started anew with other grants")
                await before[1].ended.wait()
            down = self._down.get(job.skill)
            if down is not None and (rest := down.until - time.monotonic()) > 0:
                return busy(
                    f"the server ended {down.times} times in a row ({down.why}); it is tried again in {rest:.0f} s"
                )
            resident = Resident(server, self._wall, self._egress, secrets)
            self._living[job.skill] = (key, resident)
            tasks.start_soon(self._live, job, resident)
            return resident

    async def _live(self, job: Job, resident: Resident) -> None:
        if self._watch is not None:
            self._watch.lives(job.skill, now=True)
        try:
            await resident.run()
        finally:
            if self._living.get(job.skill, (b"", None))[1] is resident:
                del self._living[job.skill]
            if self._watch is not None:
                self._watch.lives(job.skill, now=bool(job.skill in self._living))
            self._fared(job, resident)

    def _fared(self, job: Job, resident: Resident) -> None:
        if resident.violations and not resident.blamed and self._watch is not None:
            self._watch.violated(job, resident.violations)
        if resident.wanted or resident.lived >= _WELL_SECONDS:
            self._down.pop(job.skill, None)
            return
        times = self._down.get(job.skill, _Down(0, 0.0, "")).times + 1
        wait = min(_FIRST_SECONDS * 2.0 ** (times - 1), _LONGEST_SECONDS)
        self._down[job.skill] = _Down(times, time.monotonic() + wait, resident.why)

    async def _asked(self, job: Job, entry: RemoteTool, resident: Resident) -> Report:
        before = resident.denials
        with resident.under_way(job.alarm):
            report = await self._answered(job, entry, resident)
        counts = ((what, count - before.get(what, 0)) for what, count in resident.denials.items())
        denied = tuple(Event(kind=kind, detail=text, count=n) for (kind, text), n in counts if n > 0)
        report = replace(report, denials=(*report.denials, *denied))
        if resident.violations:
            report = replace(report, ending="stopped", violations=resident.violations)
        return without_secrets(report, resident.mask)

    async def _answered(self, job: Job, entry: RemoteTool, resident: Resident) -> Report:
        new = not resident.began.is_set()
        with anyio.move_on_after(START_SECONDS):
            await resident.began.wait()
        if not resident.began.is_set() or not resident.listing:
            why = resident.why or f"the server did not tell its tools within {START_SECONDS:g} s"
            resident.close(why, wanted=False)
            return replace(not_started(why, name="ServerFailed"), stderr=resident.stderr)
        if not entry.tool:
            return Report(ending="returned", value=dict(resident.listing))
        if new and self._watch is not None:
            await to_thread.run_sync(self._watch.listed, job, resident.listing)
        listed = resident.listing
        said = await resident.use(entry.tool, entry.pin, job.arguments, job.limits.timeout)
        if resident.listing is not listed and self._watch is not None:
            await to_thread.run_sync(self._watch.listed, job, resident.listing)
        if isinstance(said, Trouble):
            if said.kind == "gone":  # how it ended is known in a moment, and what it did belongs to this call
                with anyio.move_on_after(_CLOSE_SECONDS):
                    await resident.ended.wait()
            return _troubled(said, resident)
        report = await to_thread.run_sync(report_of, said, job)
        size = len(msgspec.json.encode(report.value))
        return replace(report, usage=Usage(output_bytes=size))


def _troubled(trouble: Trouble, resident: Resident) -> Report:
    match trouble.kind:
        case "late":
            return Report(ending="timed_out")
        case "busy":
            return busy(trouble.message)
        case "denied":
            return not_started(trouble.message, name="ToolHeldBack")
        case "error":
            return Report(ending="raised", fault=Fault(name="ServerError", message=trouble.message))
        case "bad":
            return Report(ending="no_result", fault=Fault(name="ServerError", message=trouble.message))
        case _:
            why = resident.why or trouble.message
            return Report(
                ending="no_result", fault=Fault(name="ServerEnded", message=why), stderr=resident.stderr
            )


def _server_job(job: Job, reached: McpServer) -> Job | str:
    """The job of the program itself, or why there is none."""
    fixed = granted_variables(reached.environment, reached.environment)
    if isinstance(fixed, str):
        return fixed
    name, *words = reached.argv
    if name not in job.programs and name not in job.binaries:
        return f"the program {name!r} is not granted"
    server = started(job, name, words)
    return replace(server, arguments={}, context={}, environment={**server.environment, **fixed}, keep="")


def _key(server: Job, secrets: dict[str, str]) -> bytes:
    """Everything that a server is started with: with anything else of it, it is another one."""
    plain = (
        server.entry,
        server.bundle,
        server.cwd,
        sorted(server.binaries.items()),
        sorted((place.path, place.writable, place.device, place.inode) for place in server.places),
        sorted({**server.environment, **secrets}.items()),
        server.permissions.plain(),
        server.own_origin,
        replace(server.limits, timeout=30.0, output_bytes=0),
    )
    return msgspec.json.encode(plain)
