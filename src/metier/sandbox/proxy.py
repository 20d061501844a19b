"""The way out for sandboxed programs: an HTTP/1.1 proxy on the loopback that only they can see.

The listening socket was made inside the sandbox's own network namespace and handed to us, so whoever connects to it is
the program, and there is nothing else in there to connect to: no name server, no route. `CONNECT host:port` becomes a
tunnel, `GET http://…` a request of ours; both are judged by the `Egress` of the call exactly as its own requests are.
A tunnel carries TLS to the host it was opened for: one in which another name is asked for is closed.
"""

import errno
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias, final

import anyio
import h11
from anyio.abc import TaskGroup

from metier.model.job import Event
from metier.model.text import one_line
from metier.sandbox.client_hello import MOST_BYTES, Hello, NotYet, read_hello
from metier.sandbox.egress import Egress
from metier.sandbox.given import Given
from metier.sandbox.proxy_ends import Inner, ProxyLimits
from metier.sandbox.proxy_request import Problem, forwarded, outgoing, same_place
from metier.sandbox.reply import Answer, Denied, Failed, Violation
from metier.sandbox.url import BadUrl, read_url
from metier.sandbox.wire_text import Events

if TYPE_CHECKING:
    from metier.sandbox.pinned import Raw

_PIECE: Final = 65_536
_CLOSING_SECONDS: Final = 5.0
_WRITE_SECONDS: Final = 15.0
_STATUS: Final = {
    "invalid_url": 400,
    "invalid_request": 400,
    "too_large": 413,
    "timed_out": 504,
}
_REASONS: Final = {
    400: b"Bad Request",
    403: b"Forbidden",
    408: b"Request Timeout",
    413: b"Content Too Large",
    501: b"Not Implemented",
    502: b"Bad Gateway",
    503: b"Service Unavailable",
    504: b"Gateway Timeout",
}
_GONE: Final = frozenset({errno.EBADF, errno.EINVAL, errno.ENOTSOCK})
_PAUSE: Final = 0.05

Refusal: TypeAlias = Denied | Violation | Failed
Happened: TypeAlias = h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED] | Problem


@final
class Proxy:
    """Serves the connections of one run until it is cancelled."""

    def __init__(
        self,
        listener: socket.socket,
        egress: Egress,
        *,
        given: Given | None = None,
        alarm: Callable[[Event], None] = lambda _event: None,
        limits: ProxyLimits | None = None,
    ) -> None:
        """`listener` and `egress` stay the caller's; `egress` is open for as long as this serves. `given` is what the
        program was told from outside: a closed place that stands there was not its own idea."""
        listener.setblocking(False)
        self._listener = listener
        self._egress = egress
        self._given = given or Given()
        self._alarm = alarm
        self._limits = limits or ProxyLimits()
        self._at_once = 0
        self._denials = Events()
        self._violations = Events()
        self.violated = anyio.Event()
        """Set with the first violation: the run is to be stopped."""

    @property
    def denials(self) -> tuple[Event, ...]:
        """Places that were asked for and not granted."""
        return self._denials.seen

    @property
    def violations(self) -> tuple[Event, ...]:
        """Places that no skill may ever reach."""
        return self._violations.seen

    async def serve(self) -> None:
        """Take connections until cancelled, or until the listener is closed. Nothing is open afterwards."""
        async with anyio.create_task_group() as group:
            while True:
                try:
                    await anyio.wait_readable(self._listener)
                    connection, _ = self._listener.accept()
                except (BlockingIOError, ConnectionAbortedError):
                    continue
                except anyio.ClosedResourceError:
                    break
                except OSError as problem:
                    if problem.errno in _GONE:
                        break
                    await anyio.sleep(_PAUSE)  # no descriptor is free now; soon one will be
                    continue
                self._start(connection, group)
            group.cancel_scope.cancel()

    def _start(self, connection: socket.socket, group: TaskGroup) -> None:
        most = self._limits.connections
        if self._at_once >= 2 * most:
            connection.close()  # it did not listen to those it was told to come back later
            return
        self._at_once += 1
        group.start_soon(self._serve, Inner(connection), self._at_once > most)

    async def _serve(self, inner: Inner, busy: bool) -> None:
        try:
            with anyio.move_on_after(self._limits.total_seconds):
                if busy:
                    most = self._limits.connections
                    await _refuse(inner, 503, f"More than {most} connections at once; try again later")
                else:
                    await self._one(inner)
        finally:
            inner.close()
            self._at_once -= 1

    async def _one(self, inner: Inner) -> None:
        """One request of one connection, then it is closed."""
        parser = h11.Connection(h11.SERVER, max_incomplete_event_size=self._limits.head_bytes)
        asked: h11.Request | Problem = Problem(status=408, why="The request did not come in time")
        with anyio.move_on_after(self._limits.head_seconds):
            asked = await self._head(inner, parser)
        if isinstance(asked, Problem):
            await _refuse(inner, asked.status, asked.why)
        elif asked.method == b"CONNECT":
            await self._tunnel(inner, parser, asked)
        else:
            await self._forward(inner, parser, asked)

    async def _head(self, inner: Inner, parser: h11.Connection) -> h11.Request | Problem:
        event = await self._event(inner, parser)
        if isinstance(event, h11.Request | Problem):
            return event
        return Problem(status=400, why="That is no request to a proxy")

    async def _event(self, inner: Inner, parser: h11.Connection) -> Happened:
        try:
            while (event := parser.next_event()) is h11.NEED_DATA:
                if parser.they_are_waiting_for_100_continue:
                    go_on = parser.send(h11.InformationalResponse(status_code=100, headers=[]))
                    await inner.write(go_on or b"", seconds=_WRITE_SECONDS)
                parser.receive_data(await inner.read(_PIECE, seconds=self._limits.head_seconds) or b"")
        except h11.RemoteProtocolError as problem:
            return Problem(status=400, why=f"That is not HTTP/1.1 as a proxy takes it: {problem}")
        return event

    # A request of ours

    async def _forward(self, inner: Inner, parser: h11.Connection, asked: h11.Request) -> None:
        request = forwarded(asked)
        if isinstance(request, Problem):
            await _refuse(inner, request.status, request.why)
            return
        body = await self._body(inner, parser)
        if isinstance(body, Problem):
            await _refuse(inner, body.status, body.why)
            return
        reply = await self._egress.request(
            request.method, request.url, headers=request.headers, body=body, follow=False
        )
        if not isinstance(reply, Answer):
            await self._not_sent(inner, reply)
        elif reply.truncated:
            await _refuse(inner, 502, f"The answer of {reply.url} is larger than the proxy hands on")
        else:
            await inner.write(outgoing(reply, request.method), seconds=self._limits.idle_seconds)
            await inner.finish()

    async def _body(self, inner: Inner, parser: h11.Connection) -> bytes | Problem:
        body = b""
        with anyio.move_on_after(self._limits.head_seconds):
            while True:
                event = await self._event(inner, parser)
                match event:
                    case h11.Data():
                        body += bytes(event.data)
                    case h11.EndOfMessage():
                        return body
                    case Problem():
                        return event
                    case _:
                        return Problem(status=400, why="The request ended before its body did")
                if len(body) > self._egress.limits.upload_bytes:
                    return Problem(status=413, why="The body is larger than the proxy sends on")
        return Problem(status=408, why="The body did not come in time")

    # A tunnel

    async def _tunnel(self, inner: Inner, parser: h11.Connection, asked: h11.Request) -> None:
        place = asked.target.decode("latin-1")
        if not isinstance(await self._event(inner, parser), h11.EndOfMessage):
            await _refuse(inner, 400, "CONNECT has no body")
            return
        if not same_place(asked, place):
            await _refuse(inner, 400, "The Host line names another place than the request")
            return
        outer = await self._egress.connect(place)
        if isinstance(outer, Denied | Violation | Failed):
            await self._not_sent(inner, outer)
            return
        try:
            established = b"HTTP/1.1 200 Connection established\r\n\r\n"
            if not await inner.write(established, seconds=_WRITE_SECONDS):
                return
            hello = await self._hello(inner, parser.trailing_data[0], place)
            if hello is not None and await outer.write(hello, seconds=_WRITE_SECONDS):
                await self._join(inner, outer, len(hello))
        finally:
            await outer.close()

    async def _hello(self, inner: Inner, data: bytes, place: str) -> bytes | None:
        """The first bytes of the client, once it is known that they ask for the host the tunnel was opened for."""
        while isinstance(seen := read_hello(data), NotYet):
            more = await inner.read(MOST_BYTES - len(data), seconds=self._limits.head_seconds)
            if not more:
                return None
            data += more
        url = read_url(f"https://{place}/")
        host = "" if isinstance(url, BadUrl) else url.host
        wanted = "" if isinstance(url, BadUrl) or url.address else host
        if isinstance(seen, Hello) and seen.name == wanted:
            return data
        what = repr(seen.name or "no name") if isinstance(seen, Hello) else "something other than TLS"
        self._denials.add("egress", f"a tunnel to {host} was used for {what}")
        return None

    async def _join(self, inner: Inner, outer: "Raw", passed: int) -> None:
        """Carry bytes both ways until the far end closes, all is silent, or a limit is reached."""
        left = self._limits.tunnel_bytes - passed
        idle = self._limits.idle_seconds
        moved = anyio.current_time()

        async def carry(source: "Inner | Raw", target: "Inner | Raw") -> None:
            nonlocal left, moved
            while left > 0 and (data := await source.read(min(_PIECE, left), seconds=idle)) != b"":
                if data is None and anyio.current_time() - moved >= idle:
                    return  # silent in both directions
                if data:
                    data = data[:left]
                    left -= len(data)
                    if not await target.write(data, seconds=idle):
                        return
                    moved = anyio.current_time()

        async def outward() -> None:
            await carry(inner, outer)
            group.cancel_scope.deadline = anyio.current_time() + _CLOSING_SECONDS

        async with anyio.create_task_group() as group:
            group.start_soon(outward)
            await carry(outer, inner)
            group.cancel_scope.cancel()
        await inner.finish()

    # Refusals

    async def _not_sent(self, inner: Inner, reply: Refusal) -> None:
        status = 403
        match reply:
            case Violation(cause="request") if not await self._given.named(reply.host, reply.address):
                self._violations.add("egress", reply.message)
                self._alarm(Event(kind="egress", detail=reply.message))
                self.violated.set()
            case Denied() | Violation():
                self._denials.add("egress", reply.message)
            case Failed():
                status = _STATUS.get(reply.code, 502)
        await _refuse(inner, status, reply.message)


async def _refuse(inner: Inner, status: int, why: str) -> None:
    body = f"{why}\n".encode(errors="replace")
    # Many clients show the first line and nothing else, so it says why too.
    short = one_line(why, 160).encode("ascii", errors="replace")
    head = b"HTTP/1.1 %d %s: %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n" % (
        status,
        _REASONS[status],
        short,
        len(body),
    )
    await inner.write(head + b"Connection: close\r\n\r\n" + body, seconds=_WRITE_SECONDS)
    await inner.finish()
