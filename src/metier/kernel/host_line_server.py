"""The host's end of the line.

Whoever can read the state may speak, and nobody else. But the key alone makes nothing happen: what is done is the operation of a
call that the process at the other end announced on the record, with the arguments recorded there, after this host began, once.
Nobody's word counts for who asks: the record says it.
"""

import logging
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeAlias, cast, final

import anyio
from anyio import TASK_STATUS_IGNORED, to_thread
from anyio.abc import SocketListener, TaskGroup, TaskStatus, UNIXSocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from metier.errors import MetierError
from metier.kernel.events import Events, Happened
from metier.kernel.host_line_announced import Announced, asked_by_record
from metier.kernel.host_line_socket import Key, Peer, listener_of, listening, peer_of
from metier.kernel.host_line_words import (
    BAD_KEY,
    BAD_LINE,
    BUSY,
    FAULT,
    FORBIDDEN,
    KEY_LINE_BYTES,
    MOST_BYTES,
    NOT_JSON,
    TOO_LARGE,
    Answer,
    Begun,
    Do,
    Done,
    End,
    HostStatus,
    Listen,
    Look,
    Told,
    Wanted,
    Wrong,
    line_of,
    read_wanted,
)
from metier.kernel.host_role import HostRole
from metier.kernel.operation import Asked, OperationError
from metier.model.digest import Json
from metier.record.database import Database
from metier.record.open_intent import newest

MOST_CLIENTS: Final = 64
"""At a time, and so also requests."""
MOST_STRANGERS: Final = 32
"""Who have not shown the key yet."""
MOST_LISTENERS: Final = 16
"""Of the clients, so that who only listens keeps nobody from asking."""
HELLO_SECONDS: Final = 5.0
"""So long one may take to say what he wants."""
SEND_SECONDS: Final = 10.0
"""So long one may take to hear his answer."""
_EVENTS_WAITING: Final = 256
_GONE: Final = (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError)
_JUST_DONE: Final = (
    line_of(Wrong(code=NOT_JSON, message="it was done, and what came of it cannot be said in JSON")) or b""
)
_log: Final = logging.getLogger("metier.host")

DoIt: TypeAlias = Callable[[Asked], Awaitable[Json]]


async def serve(
    role: HostRole,
    *,
    do: DoIt,
    database: Database,
    events: Events,
    status: Callable[[], HostStatus],
    end: Callable[[int], None],
    task_status: TaskStatus[None] = TASK_STATUS_IGNORED,
) -> None:
    """Answer until cancelled.

    Args:
        do: does an operation. The principal it is given has an id, a kind and whom it acts for, as recorded; no roles and no capabilities.
        end: what to do when the host is asked to give its role back, and which process asks. Must not wait.

    Raises:
        StateError: when the line cannot be opened, or the record cannot be read.
    """
    since = await to_thread.run_sync(newest, database)
    with listening(role.home) as (opened, key):
        async with await listener_of(opened) as listener, anyio.create_task_group() as tasks:
            server = _Server(do, Announced(database, since), events, status, end, key)
            task_status.started()
            await _accepting(listener, server, tasks)


async def _accepting(listener: SocketListener, server: "_Server", tasks: TaskGroup) -> None:
    while True:
        try:
            stream = await listener.accept()
        except OSError as error:  # no descriptor is free, say: those who are here go on, and let go of theirs
            _log.warning("nobody else can be heard for a moment: %s", error.strerror)
            await anyio.sleep(1.0)
            continue
        tasks.start_soon(server.heard, cast("UNIXSocketStream", stream))


@final
class _Server:
    def __init__(
        self,
        do: DoIt,
        announced: Announced,
        events: Events,
        status: Callable[[], HostStatus],
        end: Callable[[int], None],
        key: Key,
    ) -> None:
        self._do = do
        self._announced = announced
        self._events = events
        self._status = status
        self._end = end
        self._key = key
        self._strangers: list[anyio.CancelScope] = []
        self._clients = 0
        self._listeners = 0

    async def heard(self, stream: UNIXSocketStream) -> None:
        """One connection. Nothing that goes wrong with it is anybody else's matter."""
        try:
            async with stream:
                peer = peer_of(stream)
                if peer.uid != os.geteuid():
                    _log.warning("user %d spoke to the host, and was not heard", peer.uid)
                    return
                said = BufferedByteReceiveStream(stream)
                wanted = await self._introduced(stream, said)
                if wanted is None:
                    return
                await self._counted(stream, said, wanted, peer)
        except _GONE:
            return
        except Exception:  # noqa: BLE001  a door: one connection that breaks must not end the host
            _log.exception("a connection to the host broke")

    async def _counted(
        self, stream: UNIXSocketStream, said: BufferedByteReceiveStream, wanted: Wanted, peer: Peer
    ) -> None:
        listens = isinstance(wanted, Listen)
        if self._clients >= MOST_CLIENTS or (listens and self._listeners >= MOST_LISTENERS):
            many = "the host has as many clients as it can serve; nothing was done, try again in a moment"
            await _send(stream, Wrong(code=BUSY, message=many))
            return
        self._clients += 1
        self._listeners += listens
        try:
            await self._served(stream, said, wanted, peer)
        finally:
            self._clients -= 1
            self._listeners -= listens

    async def _introduced(self, stream: UNIXSocketStream, said: BufferedByteReceiveStream) -> Wanted | None:
        """What one wants who has the key."""
        if len(self._strangers) >= MOST_STRANGERS:
            # Who has the key shows it at once, so the one who has been silent longest has to go.
            self._strangers.pop(0).cancel()
        scope = anyio.move_on_after(HELLO_SECONDS)
        self._strangers.append(scope)
        try:
            with scope:
                if not self._key.is_shown_by(await said.receive_until(b"\n", KEY_LINE_BYTES)):
                    await _send(stream, Wrong(code=BAD_KEY, message="that is not the key of this start"))
                    return None
                return read_wanted(await said.receive_until(b"\n", MOST_BYTES))
        except (anyio.DelimiterNotFound, *BAD_LINE):
            await _send(
                stream, Wrong(code=FORBIDDEN, message="that is too long, or no request of this version")
            )
        finally:
            if scope in self._strangers:
                self._strangers.remove(scope)
        return None

    async def _served(
        self, stream: UNIXSocketStream, said: BufferedByteReceiveStream, wanted: Wanted, peer: Peer
    ) -> None:
        match wanted:
            case Look():
                await _send(stream, self._status())
            case End():
                await _send(stream, Done())
                self._end(peer.pid)
            case Do():
                answer = await _unless_gone(said, lambda: self._done(stream, wanted, peer))
                if answer is not None:
                    await _send(stream, answer)
            case Listen():
                await _unless_gone(said, lambda: self._tell(stream))

    async def _done(self, stream: UNIXSocketStream, wanted: Do, peer: Peer) -> Answer | None:
        try:
            found = await self._announced.taken(wanted, peer)
            asked = found if isinstance(found, Wrong) else asked_by_record(found, wanted)
            if isinstance(asked, Wrong):
                _log.warning("process %d asked the host for what it does not do: %s", peer.pid, asked.message)
                return asked
            try:
                await _send(stream, Begun())
            except _GONE:
                return None
            return Done(value=await self._do(asked))
        except OperationError as error:
            return Wrong(code=error.code, message=error.message)
        except MetierError as error:
            return Wrong(code=error.code, message=str(error))
        except Exception:  # noqa: BLE001  a fault of ours does not show its insides at the other end
            _log.exception("an operation broke Metier")
            return Wrong(code=FAULT, message="a fault of Metier; the host's log has the details")

    async def _tell(self, stream: UNIXSocketStream) -> None:
        """What happens, until the other goes away or cannot follow."""
        put, take = anyio.create_memory_object_stream[Happened](_EVENTS_WAITING)
        lost = anyio.CancelScope()

        def listener(happened: Happened) -> None:
            try:
                put.send_nowait(happened)
            except anyio.WouldBlock:
                lost.cancel()

        with suppress(*_GONE):
            with put, take, lost, self._events.listening(listener):
                await _send(stream, Begun())
                async for happened in take:
                    told = Told(happened=happened)
                    line = line_of(told)
                    if line is not None and len(line) <= MOST_BYTES:  # what a skill emits may be anything
                        await _send(stream, told, line)
            await _send(
                stream, Wrong(code=BUSY, message="more happened than you took, so you missed some of it")
            )


async def _unless_gone(
    said: BufferedByteReceiveStream, work: "Callable[[], Awaitable[Answer | None]]"
) -> Answer | None:
    """What `work` gives; None where the other went away, or said more than one thing. Then the work is ended."""
    answer: Answer | None = None

    async def watch() -> None:
        with suppress(*_GONE):
            await said.receive(1)
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        answer = await work()
        tasks.cancel_scope.cancel()
    return answer


async def _send(stream: UNIXSocketStream, answer: Answer, line: bytes | None = None) -> None:
    """Who does not take it in time has gone. `line` is the answer as it is sent, where that was made before."""
    line = line or line_of(answer)
    if line is None:
        line = _JUST_DONE
    elif len(line) > MOST_BYTES:
        message = (
            f"it was done, and what came of it is too large: {len(line):,} bytes of at most {MOST_BYTES:,}"
        )
        line = line_of(Wrong(code=TOO_LARGE, message=message)) or _JUST_DONE
    with anyio.move_on_after(SEND_SECONDS) as patience:
        await stream.send(line)
    if patience.cancelled_caught:
        raise anyio.BrokenResourceError
