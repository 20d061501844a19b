"""One MCP server in its sandbox, from its start to its end: a program that lives between calls, with what its skill was granted.

It is greeted once, tells its tools, and answers. It has no time limit but a share of the processor, and memory, disk and processes
as any run; a violation ends it. It is ended when it was idle for long, when it does not keep to the protocol, and with Metier.
"""

import math
import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Final, final

import anyio
from msgspec.structs import replace

from metier.model.digest import Json
from metier.model.job import Event, Fault, Job, LifeBounds
from metier.model.mcp_listing import named, pin_of
from metier.model.text import one_line
from metier.sandbox.bounds import Bounds
from metier.sandbox.capture import Capture
from metier.sandbox.ending import Violations
from metier.sandbox.follow import follow
from metier.sandbox.given import Given
from metier.sandbox.given_secrets import masked
from metier.sandbox.mcp_peer import Said, Trouble
from metier.sandbox.mcp_pipe import PipePeer
from metier.sandbox.mcp_session import Session
from metier.sandbox.native_line import line_of
from metier.sandbox.policy import LIFE_CPU_SECONDS, policy_of
from metier.sandbox.process import two_pipes
from metier.sandbox.secret import Mask
from metier.sandbox.wall import Ended, NoRoomError, Program, Wall, WallError
from metier.sandbox.way_out import EgressFor, WayOut

START_SECONDS: Final = 60.0
"""For a server to be greeted and to tell its tools."""
IDLE_SECONDS: Final = 300.0
_GRACE_SECONDS: Final = 2.0
"""For a server whose input was closed to end by itself."""
_KEPT_BYTES: Final = 65_536
_TAIL: Final = 1_000


@final
class Resident:
    """Belongs to one loop. `run` is its whole life; everything else is said to it meanwhile."""

    def __init__(self, job: Job, wall: Wall, egress: EgressFor, secrets: dict[str, str]) -> None:
        """`job` is that of the program, `secrets` the variables that only it sees."""
        self._job = replace(job, alarm=self._alarm)
        self._wall = wall
        self._egress = egress
        self._secrets = secrets
        self.mask = Mask()
        for value in secrets.values():
            self.mask.add(value)
        self.began = anyio.Event()
        """It told its tools, or never will (`over`)."""
        self.ended = anyio.Event()
        self.listing: dict[str, Json] = {}
        self.why = ""
        """Why it is over, or was of no use."""
        self.stderr = ""
        self._told = Violations()
        self._alarms: set[Callable[[Event], None]] = set()
        self._given = Given(job.arguments, job.context, *job.environment.values())
        self._peer: PipePeer | None = None
        self._session: Session | None = None
        self._way: WayOut | None = None
        self._closing = anyio.Event()
        self._changes = 1
        self._listed = 0
        """Which of its changes `listing` was asked for after: while there was a later one, it is not believed."""
        self._listing = anyio.Lock()
        self._busy = 0
        self._used = time.monotonic()
        self._grace = _GRACE_SECONDS
        self.lived = 0.0
        self.blamed = False
        """Whether a call was under way when it violated something, and tells of it."""
        self.wanted = False
        """Whether it ended because somebody wanted that, and through no fault of its own."""

    @property
    def over(self) -> bool:
        return self.ended.is_set() or self._closing.is_set()

    @property
    def violations(self) -> tuple[Event, ...]:
        return self._told.seen

    @property
    def denials(self) -> dict[tuple[str, str], int]:
        """What it asked for over the network and was not given, and how often so far."""
        found = self._way.denials if self._way is not None else ()
        return {(each.kind, each.detail): each.count for each in found}

    def close(self, why: str, *, wanted: bool = True, at_once: bool = False) -> None:
        """Have it end: its input is closed, and a moment later, or `at_once`, it is killed."""
        if at_once:
            self._grace = 0.0
        self.wanted = self.wanted or (wanted and not self._closing.is_set())
        self.why = self.why or why
        self._closing.set()

    async def run(self) -> None:
        """All of its life. Never raises but for cancellation."""
        began = time.monotonic()
        try:
            await self._lived()
        except (WallError, NoRoomError, OSError) as error:
            self.why = self.why or f"it could not be started: {error}"
        finally:
            self.lived = time.monotonic() - began
            if self._peer is not None:
                self._peer.end()
            self.ended.set()
            self.began.set()

    async def use(self, tool: str, pin: str, arguments: dict[str, Json], seconds: float) -> Said:
        """Have one tool used, if it is still the one that was looked at."""
        session, peer = self._session, self._peer
        if session is None or peer is None:
            return Trouble(kind="gone", message=self.why or "it has not begun")
        said = await self._used_within(session, tool, pin, arguments, seconds)
        if isinstance(said, Trouble) and said.kind == "late" and await peer.hangs():
            self.close("it does not answer any more, so it was ended", wanted=False)
        return said

    async def _used_within(
        self, session: Session, tool: str, pin: str, arguments: dict[str, Json], seconds: float
    ) -> Said:
        """Whatever has to be asked of it before is part of the call, and of its time."""
        until = time.monotonic() + seconds
        if self._listed != self._changes and (trouble := await self._list(session, seconds)) is not None:
            return trouble
        if problem := changed(self.listing, tool, pin, self._job.skill):
            return Trouble(kind="denied", message=problem)
        left = until - time.monotonic()
        if left <= 0:  # nothing is begun that is given up at once
            return Trouble(kind="late", message="the server took all of the time to tell its tools")
        self._given.hear(arguments)
        return await session.use(tool, arguments, left)

    @contextmanager
    def under_way(self, alarm: Callable[[Event], None]) -> Generator[None]:
        """While a call is: it is not idle, and `alarm` is told what it violates."""
        self._busy += 1
        self._alarms.add(alarm)
        try:
            yield
        finally:
            self._busy -= 1
            self._alarms.discard(alarm)
            self._used = time.monotonic()

    async def _lived(self) -> None:
        job = self._job
        line = line_of(job)
        if isinstance(line, Fault):
            self.why = line.message
            return
        policy = policy_of(job, line.places, programs=line.programs, bare_heap=line.bare_heap)
        policy = replace(policy, cpu_seconds=LIFE_CPU_SECONDS)
        with Capture(_KEPT_BYTES, endless=True) as err, _Pipes() as pipes:
            program = Program(
                argv=line.argv,
                called=line.called,
                environment={**job.environment, **line.environment, **self._secrets},
                cwd=job.cwd,
                stdin=pipes.their_input,
                stdout=pipes.their_output,
                stderr=err.theirs,
                supervised=True,
                named=line.named,
            )
            running = await self._wall.start(policy, program)
            err.close_theirs()
            pipes.close_theirs()
            peer = self._peer = PipePeer(pipes.reads, pipes.take_writes(), self._has_changed)
            way = self._way = WayOut(running.proxy, job, self._egress, self._given)

            async def until() -> Ended:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._greet, peer)
                    tasks.start_soon(self._until_closed, peer)
                    await peer.run()
                    tasks.cancel_scope.cancel()
                peer.finish()
                if not peer.why:
                    with anyio.move_on_after(_GRACE_SECONDS):
                        return await running.wait()
                return await running.kill()

            bounds = Bounds(policy, running, life=LifeBounds())
            ended, cut = await follow(
                running,
                until,
                seconds=math.inf,
                bounds=bounds,
                stop=way.stop,
                alarm=self._alarm,
                at_once=True,
                beside=(err.run, way.serve, self._while_idle),
            )
            err.finish()
            self.stderr = self.mask.data(err.data, truncated=err.truncated).decode(errors="replace")
        self.why = self.why or peer.why or _how(ended, cut, bounds.why, self.stderr)

    async def _greet(self, peer: PipePeer) -> None:
        session = Session(peer)
        trouble = await session.greet(START_SECONDS)
        if trouble is None:
            trouble = await self._list(session, START_SECONDS)
        if trouble is not None and trouble.kind == "gone":
            return  # how it ended is known in a moment
        if trouble is not None:
            self.close(f"it was of no use: {one_line(self.mask.text(trouble.message), 300)}", wanted=False)
            return
        self._session = session
        self.began.set()

    async def _list(self, session: Session, seconds: float) -> Trouble | None:
        """Have it tell its tools, where nobody else did meanwhile. What it told before is believed no more until it has."""
        with anyio.move_on_after(seconds):
            async with self._listing:
                if self._listed == self._changes:
                    return None
                change = self._changes  # another one while it tells them is not in what it tells
                listing = await session.tools(seconds)
                if isinstance(listing, Trouble):
                    return listing
                # Masked at once: what is looked at, kept and held against later is one and the same.
                told = masked(listing, self.mask) if self.mask else listing
                self.listing, self._listed = told if isinstance(told, dict) else {}, change
                return None
        return Trouble(kind="late", message=f"the server did not tell its tools within {seconds:g} s")

    async def _until_closed(self, peer: PipePeer) -> None:
        await self._closing.wait()
        peer.finish()
        await anyio.sleep(self._grace)
        peer.stop(self.why)

    async def _while_idle(self) -> None:
        """Ends it when nobody used it for long."""
        while True:
            await anyio.sleep(max(0.05, self._used + IDLE_SECONDS - time.monotonic()))
            if not self._busy and time.monotonic() - self._used >= IDLE_SECONDS:
                self.close("nobody used it for a while")
                return

    def _has_changed(self) -> None:
        self._changes += 1

    def _alarm(self, event: Event) -> None:
        self._told.add(event)
        self.blamed = self.blamed or bool(self._alarms)
        for alarm in tuple(self._alarms):
            alarm(event)


@final
class _Pipes:
    """Both pipes of a server; what is not handed on is closed at the end."""

    def __init__(self) -> None:
        self.reads, self.their_output, self.their_input, self._writes = two_pipes()

    def __enter__(self) -> "_Pipes":
        return self

    def __exit__(self, *_: object) -> None:
        self.close_theirs()
        os.close(self.reads)
        if self._writes >= 0:
            os.close(self._writes)

    def close_theirs(self) -> None:
        for each in (self.their_output, self.their_input):
            if each >= 0:
                with suppress(OSError):
                    os.close(each)
        self.their_output = self.their_input = -1

    def take_writes(self) -> int:
        """From now on it is the taker's to close."""
        writes, self._writes = self._writes, -1
        return writes


def changed(listing: dict[str, Json], tool: str, pin: str, skill: str) -> str:
    """Why a tool is not the one that was looked at, and what to do; empty when it is."""
    found = named(listing).get(tool)
    look = f"`metier skills trust {one_line(skill, 80)}` shows what changed"
    if found is None:
        return f"the server has no tool {one_line(tool, 64)} any more; {look}"
    if pin_of(found) != pin:
        return (
            f"the server describes its tool {one_line(tool, 64)} otherwise than when it was looked at, so it is held back; "
            f"{look}"
        )
    return ""


def _how(ended: Ended, cut: str, why: Fault | None, stderr: str) -> str:
    said = f": {one_line(stderr[-_TAIL:], 500)}" if stderr.strip() else ""
    if why is not None:
        return why.message
    if cut and cut != "stopped":
        return f"it was ended ({cut.replace('_', ' ')})"
    if cut:
        return "it was stopped"
    if ended.exit_code is not None:
        return f"it ended with exit code {ended.exit_code}{said}"
    return f"it crashed (signal {ended.signal}){said}"
