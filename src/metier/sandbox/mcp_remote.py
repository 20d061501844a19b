"""The backend for tools of MCP servers at an address: each message is one request through egress, to the granted host.

Nothing of such a server runs here. What it answers is read whole, within the limits of a call, as one message or as a stream of
events that ends; a stream that does not end is out of time. Its tools are asked for again every while, and held against what was
looked at before one is used.
"""

import time
from typing import Final, final

import anyio
import msgspec
from anyio import to_thread
from msgspec.structs import replace

from metier.errors import ConfigError
from metier.model.digest import Json
from metier.model.entry import HttpRequest, McpServer, RemoteTool
from metier.model.guarantee import Guarantee
from metier.model.job import Event, Fault, Job, Report, Usage
from metier.sandbox.admission import Admission, busy, not_started
from metier.sandbox.egress import Egress, MakeEgress
from metier.sandbox.http_template import Unfilled, fill
from metier.sandbox.mcp import Reveal, Watch
from metier.sandbox.mcp_content import report_of
from metier.sandbox.mcp_http import HttpPeer
from metier.sandbox.mcp_peer import Said, Trouble
from metier.sandbox.mcp_resident import changed
from metier.sandbox.mcp_session import Session
from metier.sandbox.protocol import Missing

_GUARANTEES: Final = frozenset({Guarantee.NETWORK_BY_GRANT, Guarantee.CPU_BOUNDED, Guarantee.OUTPUT_BOUNDED})
_AGAIN_SECONDS: Final = 60.0
"""How long what a server told of its tools is believed."""
_PARTING_SECONDS: Final = 1.0
_MOST_KEPT: Final = 64


@final
class _Known:
    """A server that was greeted."""

    def __init__(self, key: bytes, session: Session, peer: HttpPeer) -> None:
        self.key = key
        self.session = session
        self.peer = peer
        self.listing: dict[str, Json] = {}
        self.asked_at = 0.0


@final
class McpRemote:
    """`RemoteTool` entries of servers at an address. Belongs to one loop."""

    def __init__(self, reveal: Reveal, watch: Watch | None = None, make: MakeEgress = Egress) -> None:
        self._reveal = reveal
        self._watch = watch
        self._make = make
        self._admission = Admission(64)
        self._known: dict[str, _Known] = {}
        self._greeting: dict[str, anyio.Lock] = {}
        """One for each skill: a server that is slow is waited for by those alone who want something of it."""

    @property
    def name(self) -> str:
        return "mcp (http)"

    def takes(self, job: Job) -> bool:
        return (
            isinstance(job.entry, RemoteTool)
            and job.entry.reached is not None
            and bool(job.entry.reached.url)
        )

    def guarantees(self) -> frozenset[Guarantee]:
        """The same on every machine: nothing of the server runs here."""
        return _GUARANTEES

    def missing(self) -> tuple[Missing, ...]:
        return ()

    def stop(self, skill: str) -> None:
        """Forget a server; all of them where none is named. It is not even told: it may be that nobody may reach it any more."""
        for name in tuple(self._known):
            if skill in ("", name):
                del self._known[name]

    async def aclose(self) -> None:
        """Every conversation is ended at its server too, as far as it listens."""
        known, self._known = self._known, {}
        with anyio.move_on_after(_PARTING_SECONDS, shield=True):
            async with anyio.create_task_group() as tasks:
                for each in known.values():
                    tasks.start_soon(each.peer.part)

    async def run(self, job: Job) -> Report:
        began = time.monotonic()
        report = await self._admission.run(job, self._run)
        return replace(report, usage=replace(report.usage, seconds=time.monotonic() - began))

    async def _run(self, job: Job) -> Report:
        entry = job.entry
        if not isinstance(entry, RemoteTool) or entry.reached is None:
            return not_started("This backend asks MCP servers and runs nothing else")
        said: Said = Trouble(kind="late", message="")
        with anyio.move_on_after(job.limits.timeout):
            try:
                said = await self._answered(job, entry, entry.reached)
            except (ConfigError, Unfilled) as problem:
                return not_started(str(problem))
        if isinstance(said, Trouble):
            return _troubled(said)
        if not entry.tool:
            return Report(ending="returned", value=said)
        report = await to_thread.run_sync(report_of, said, job)
        return replace(report, usage=Usage(output_bytes=len(msgspec.json.encode(report.value))))

    async def _answered(self, job: Job, entry: RemoteTool, reached: McpServer) -> Said:
        why = ""
        for _ in range(2):  # a server may have forgotten who we are
            known = await self._greeted(job, reached)
            if isinstance(known, Trouble):
                return known
            if not entry.tool:
                return known.listing
            if problem := changed(known.listing, entry.tool, entry.pin, job.skill):
                return Trouble(kind="denied", message=problem)
            known.peer.give(job)
            said = await known.session.use(entry.tool, job.arguments, job.limits.timeout)
            if not isinstance(said, Trouble) or said.kind != "gone":
                return said
            why = said.message
            if self._known.get(job.skill) is known:  # or it was greeted anew for another call meanwhile
                del self._known[job.skill]
        return Trouble(kind="bad", message=f"the server forgets who it talks to: {why}")

    async def _greeted(self, job: Job, reached: McpServer) -> _Known | Trouble:
        key = msgspec.json.encode((reached, job.permissions.plain(), job.bundle))
        async with self._greeting.setdefault(job.skill, anyio.Lock()):
            known = self._known.get(job.skill)
            if known is not None and known.key == key:
                if not self._is_old(known):
                    return known
                known.peer.give(job)
                listing = await known.session.tools(job.limits.timeout)
                if not isinstance(listing, Trouble):
                    return await self._heard(job, known, listing)
            filled = fill(HttpRequest(method="POST", url=reached.url, headers=reached.headers), {})
            peer = HttpPeer(filled, self._reveal, self._make)
            peer.give(job)
            session = Session(peer)
            listing = await session.greet(job.limits.timeout) or await session.tools(job.limits.timeout)
            if isinstance(listing, Trouble):
                return listing
            if len(self._known) >= _MOST_KEPT:
                del self._known[next(iter(self._known))]
            known = self._known[job.skill] = _Known(key, session, peer)
            return await self._heard(job, known, listing)

    async def _heard(self, job: Job, known: _Known, listing: dict[str, Json]) -> _Known:
        """A server told its tools."""
        known.listing, known.asked_at = listing, time.monotonic()
        if self._watch is not None and isinstance(job.entry, RemoteTool) and job.entry.tool:
            await to_thread.run_sync(self._watch.listed, job, listing)
        return known

    def _is_old(self, known: _Known) -> bool:
        return time.monotonic() - known.asked_at > _AGAIN_SECONDS


def _troubled(trouble: Trouble) -> Report:
    fault = Fault(name="ServerError", message=trouble.message)
    match trouble.kind:
        case "late":
            return Report(ending="timed_out")
        case "busy":
            return busy(trouble.message)
        case "denied" if trouble.event is None:
            return not_started(trouble.message, name="ToolHeldBack")
        case "denied":
            denied = Event(kind="egress", detail=trouble.message)
            return Report(ending="raised", fault=replace(fault, name="PermissionDenied"), denials=(denied,))
        case "violation":
            return Report(ending="stopped", fault=fault, violations=(trouble.event,) if trouble.event else ())
        case "error":
            return Report(ending="raised", fault=fault)
        case _:
            return Report(ending="no_result", fault=fault)
