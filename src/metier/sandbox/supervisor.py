"""The host's side of a supervisor: a small process inside a wall that starts runs there, one at a time.

It is trusted and was there before any code of a skill. What it says is checked all the same: it lives next to
hostile neighbours, and a reply that makes no sense ends it.
"""

import errno
import json
import os
import select
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, final

import anyio
import msgspec
from msgspec import Struct

from metier.model.job import Event
from metier.sandbox.guest.syscall_filter import DENIED
from metier.sandbox.process import Process
from metier.sandbox.wall import Ended, NoRoomError, WallError

READY_SECONDS: Final = 20.0
LAST_WORD_SECONDS: Final = 0.5
"""After an order to kill; then the whole wall comes down without it."""
RUNS_MOST: Final = 1_000
"""A supervisor is replaced after this many runs: nothing of ours should have to last for ever."""
BY_SUPERVISOR: Final = frozenset({"RLIMIT_DATA", "RLIMIT_NOFILE", "RLIMIT_CPU"})
"""Limits that it sets itself: less of them would hinder it, and it puts each run below them."""
_FRAME_MOST: Final = 1 << 20


@final
class Setup(Struct, frozen=True, kw_only=True):
    """What a supervisor restricts its runs to."""

    read: list[str]
    execute: list[str]
    write: list[str]
    lent: list[bool] = []
    """For each descriptor that comes along: whether what it stands for may be written."""
    temporary: list[str]
    """Emptied after every run."""
    limits: dict[str, int]
    """Names of `resource` limits, hard and soft."""
    sockets: str = "none"
    landlock: bool = False
    """Whether to give up where there is no Landlock; inside namespaces it is the second wall, not the first."""
    no_metadata: bool = False
    sweep_by_tree: bool = False
    drop_capabilities: bool = False
    python: bool = False


class _Reply(Struct):
    ready: bool = False
    port: int = 0
    error: str = ""
    no_room: bool = False
    killed: bool = False
    cpu: float = 0.0
    memory: int = 0
    written: int = 0
    left: bool = False
    refused: list[tuple[str, int, int]] = []
    signal: int | None = None
    exit: int | None = None


def _encoded(message: object) -> bytes:
    """The standard library's way: a name that is not text (PEP 383) crosses as it is."""
    return json.dumps(message, separators=(",", ":")).encode("ascii")


_decode: Final = msgspec.json.Decoder(_Reply).decode


@final
class Supervisor:
    """One of them. After a kill, a broken reply or `RUNS_MOST` runs it is not `usable` any more."""

    def __init__(self, process: Process, control: socket.socket) -> None:
        self.process: Final = process
        self._control = control
        self._control.setblocking(False)
        self._data = b""
        self._handed: list[int] = []
        self._runs = 0
        self._clearing = False
        self.usable = True
        self.temporary: list[int] = []
        """Descriptors of its temporary folders, for whoever watches how full they get."""
        self.proxy: socket.socket | None = None
        """Listens inside; served by the host."""
        self.port = 0

    async def prepare(self, setup: Setup, lent: Sequence[int] = ()) -> None:
        """Raises WallError when it cannot restrict as asked. `lent` are descriptors of what `setup.lent` names."""
        try:
            with anyio.fail_after(READY_SECONDS):
                await self._send(_encoded(msgspec.to_builtins(setup)), lent)
                reply = await self._receive()
        except (TimeoutError, OSError) as error:
            raise WallError(f"the sandbox did not start: {error or 'it did not answer in time'}") from None
        if reply is None or not reply.ready:
            raise WallError(f"the sandbox did not start: {reply.error if reply else 'it ended at once'}")
        folders = len(setup.temporary)
        self.temporary = self._handed[:folders]
        if reply.port and len(self._handed) > folders:
            self.port = reply.port
            self.proxy = socket.socket(fileno=self._handed[folders])
            self.proxy.setblocking(False)
        self._handed = []

    async def is_free(self) -> bool:
        """Whether it has cleared up after its last run, and lives."""
        if self._clearing:
            self._clearing = False
            reply = None
            with anyio.move_on_after(READY_SECONDS):
                reply = await self.reply()
            if reply is None or not reply.ready:
                return False
        looking = select.poll()
        looking.register(self._control, select.POLLIN)
        # It has nothing more to say now, unless it is gone.
        return not looking.poll(0) and not self.process.has_ended()

    def forget_connections(self) -> None:
        """Between two runs: what the last one left at our proxy's door is not the next one's."""
        while self.proxy is not None:
            try:
                self.proxy.accept()[0].close()
            except OSError:
                return

    async def run(self, request: dict[str, object], descriptors: Sequence[int]) -> "Under":
        """Begin one run. The descriptors stay the caller's."""
        self._runs += 1
        if self._runs >= RUNS_MOST:
            self.usable = False
        try:
            await self._send(_encoded(request), descriptors)
        except OSError as error:
            self.usable = False
            raise WallError(f"the sandbox is gone: {error.strerror}") from None
        return Under(self)

    async def reply(self) -> _Reply | None:
        """What it says when a run has ended; None when it is gone."""
        try:
            reply = await self._receive()
        except (OSError, anyio.ClosedResourceError):
            reply = None
        if reply is None or reply.no_room:  # another may have more room: limits are counted anew for it
            self.usable = False
        if reply is not None and not reply.ready:
            self._clearing = True
        return reply

    async def go_on(self) -> None:
        """What its run left was taken, or nobody wants it: it may clear up."""
        with suppress(OSError, anyio.ClosedResourceError):  # it is gone, and the next to ask learns that
            await self._send(b'{"taken":true}', ())

    async def order_kill(self) -> None:
        self.usable = False
        with suppress(OSError, anyio.ClosedResourceError):
            await self._send(b'{"kill":true}', ())

    def close(self) -> None:
        """Let go of it. The caller ends the process."""
        self.usable = False
        if self._control.fileno() >= 0:
            anyio.notify_closing(self._control)  # whoever waits for its word learns that none comes
            self._control.close()
        for descriptor in (*self.temporary, *self._handed):
            os.close(descriptor)
        self.temporary = []
        self._handed = []
        if self.proxy is not None:
            self.proxy.close()
            self.proxy = None

    async def _send(self, body: bytes, descriptors: Sequence[int]) -> None:
        frame = memoryview(len(body).to_bytes(4, "big") + body)
        waiting = list(descriptors)
        while frame:
            try:
                if waiting:
                    sent = socket.send_fds(self._control, [frame], waiting)
                    waiting = []
                else:
                    sent = self._control.send(frame)
                frame = frame[sent:]
            except BlockingIOError:
                await anyio.wait_writable(self._control)

    async def _receive(self) -> _Reply | None:
        size = await self._exactly(4)
        if size is None:
            return None
        length = int.from_bytes(size, "big")
        body = await self._exactly(length) if length <= _FRAME_MOST else None
        if body is None:
            return None
        try:
            return _decode(body)
        except msgspec.DecodeError:
            return None

    async def _exactly(self, size: int) -> bytes | None:
        while len(self._data) < size:
            try:
                data, handed, _, _ = socket.recv_fds(self._control, 65_536, 8)
            except BlockingIOError:
                await anyio.wait_readable(self._control)
                continue
            for descriptor in handed:
                os.set_inheritable(descriptor, False)
            self._handed += handed
            if not data:
                return None
            self._data += data
        taken, self._data = self._data[:size], self._data[size:]
        return taken


@final
class Under:
    """A run under way in a supervisor."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._ended: Ended | None = None
        self._waited_for = False

    async def wait(self) -> Ended:
        """Raises WallError or NoRoomError when it never began."""
        if self._ended is None:
            self._waited_for = True
            try:
                self._ended = _read(await self._supervisor.reply())
            finally:
                self._waited_for = False
        return self._ended

    async def kill(self) -> Ended:
        if self._ended is None:
            await self._supervisor.order_kill()
            with anyio.move_on_after(LAST_WORD_SECONDS):
                while self._waited_for:  # noqa: ASYNC110  another hears its last word
                    await anyio.sleep(0.001)
                await self.wait()
        if self._ended is None:
            self._ended = Ended(signal=9, why="killed")
        return self._ended


def _read(reply: _Reply | None) -> Ended:
    if reply is None:
        return Ended(signal=9, why="lost")  # it went down with its run, and with what it knew of it
    if reply.no_room:
        raise NoRoomError(errno.EAGAIN, f"the program could not be started: {reply.error}")
    if reply.error:
        raise WallError(reply.error)
    denials = tuple(
        Event(kind="socket", detail=_family(argument), count=count)
        if name == "socket"
        else Event(kind="system_call", detail=name, count=count)
        for name, argument, count in reply.refused
        if name in DENIED
    )
    violations = tuple(
        Event(kind="system_call", detail=name, count=count)
        for name, _, count in reply.refused
        if name not in DENIED
    )
    return Ended(
        exit_code=reply.exit,
        signal=reply.signal,
        why="killed" if reply.killed else "exited",
        cpu_seconds=reply.cpu,
        memory_bytes=reply.memory,
        written=reply.written,
        left=reply.left,
        denials=denials,
        violations=violations,
    )


def _family(number: int) -> str:
    try:
        return socket.AddressFamily(number).name
    except ValueError:
        return f"address family {number}"
