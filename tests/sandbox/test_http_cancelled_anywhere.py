"""A request that is cancelled at any moment leaves no connection open: it is tried at every moment there is.

A moment is a step of a task of the request: there it is suspended, and may be cancelled while it sleeps or just as it
wakes, by a scope of anyio or by the loop underneath. The answers come from other threads, so nothing else has steps.
"""

import asyncio
import os
import socket
import ssl
import stat
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

import anyio
import pytest
from anyio import to_thread

from loopback import PUBLIC, Authority, reply
from metier.model.entry import HttpRequest
from metier.model.guarantee import needed
from metier.model.job import Job
from metier.model.permission import PermissionSet
from metier.model.skill import Limits
from metier.sandbox.egress import Egress
from metier.sandbox.egress_limits import EgressLimits
from metier.sandbox.http import HttpSandbox
from metier.sandbox.pinned import Raw
from metier.sandbox.reply import Answer, Failed
from stepwise import cancelled_at

Work = Callable[[], Awaitable[bool]]
ENDS = (b"\r\n\r\n", b'{"a":1}')
"""How a request ends, without a body and with ours."""
MOST_STEPS = 60


class Server:
    """Answers one request on each connection, then waits for the client to close it; a silent one never answers."""

    def __init__(self, answer: bytes = reply(), tls: ssl.SSLContext | None = None) -> None:
        self._answer = answer
        self._tls = tls
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                self._threads.append(threading.Thread(target=self._serve, args=(connection,)))
                self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(5)
        try:
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
            asked, answered = b"", not self._answer
            while piece := connection.recv(65_536):
                asked += piece
                if not answered and asked.endswith(ENDS[asked.startswith(b"POST")]):
                    answered = True
                    connection.sendall(self._answer)
        except OSError:
            pass  # the client went away
        finally:
            connection.close()


class Place:
    """Names that lead to servers, and the connections that we have to them."""

    def __init__(self, roots: str) -> None:
        self._roots = roots
        self._servers: dict[str, Server] = {}

    def put(self, name: str, server: Server) -> None:
        self._servers[name] = server

    def close(self) -> None:
        for server in self._servers.values():
            server.close()

    def egress(self, **given: Any) -> Egress:
        given = {"hosts": frozenset(f"http://{name}" for name in self._servers) | {*self._servers}, **given}
        return Egress(**given, resolver=self._resolve, connect=self._connect, extra_roots=self._roots)

    async def _resolve(self, host: str) -> list[str]:
        number = list(self._servers).index(host)
        address = f"{PUBLIC.rpartition('.')[0]}.{number + 1}"
        return await to_thread.run_sync(lambda: [address], abandon_on_cancel=True)

    def _connect(self, address: str, port: int) -> tuple[str, int]:
        return "127.0.0.1", list(self._servers.values())[int(address.rpartition(".")[2]) - 1].port

    def connections(self) -> int:
        """How many sockets of this process are neither a server's nor one that a server accepted."""
        theirs = {server.port for server in self._servers.values()}
        found = 0
        for name in os.listdir("/proc/self/fd"):
            try:
                copy = os.dup(int(name))
            except OSError:
                continue  # the one this listing was read with, or closed meanwhile
            if not stat.S_ISSOCK(os.fstat(copy).st_mode):
                os.close(copy)
                continue
            with socket.socket(fileno=copy) as each:
                found += each.family == socket.AF_INET and each.getsockname()[1] not in theirs
        return found

    async def settled(self) -> int:
        """The same, once there are none or after a while: the loop closes a socket in its next round."""
        give_up = time.monotonic() + 0.5
        while (found := self.connections()) and time.monotonic() < give_up:
            await asyncio.sleep(0.001)
        return found


@pytest.fixture
def place(authority: Authority) -> Iterator[Place]:
    made = Place(authority.roots)
    made.put("plain.example", Server())
    made.put("other.example", Server())
    made.put("tls.example", Server(tls=authority.server("tls.example")))
    made.put("moved.example", Server(reply("302 Found", Location="http://plain.example/")))
    made.put("silent.example", Server(b""))
    yield made
    made.close()


async def cancelled_everywhere(work: Work, place: Place, *, natively: bool) -> None:
    for waking in (False, True):
        left: dict[int, int] = {}
        most_open = 0
        for step in range(1, MOST_STEPS):
            taken, there = await cancelled_at(step, work, place.connections, natively=natively, waking=waking)
            most_open = max(most_open, there)
            if found := await place.settled():
                left[step] = found
            if taken < step:
                break  # it came to its end
        else:
            pytest.fail("a request takes more steps than were tried")
        assert most_open, "no connection was open at any step: nothing was tried"
        assert left == {}, f"connections left by step, {waking=}"


cancels = pytest.mark.parametrize("natively", [False, True])


@cancels
@pytest.mark.parametrize("url", ["http://plain.example/", "https://tls.example/"])
def test_a_run_cancelled_at_any_step_leaves_no_connection(place: Place, url: str, natively: bool) -> None:
    sandbox = HttpSandbox({}.get, place.egress)
    entry = HttpRequest(method="POST", url=url, body={"a": 1})
    job = Job(
        call_id="call_1",
        entry=entry,
        arguments={},
        permissions=PermissionSet(hosts=frozenset({url.removesuffix("/")})),
        limits=Limits(timeout=5.0),
        needs=needed(entry, network=True),
    )

    async def work() -> bool:
        return (await sandbox.run(job)).ending == "returned"

    anyio.run(lambda: cancelled_everywhere(work, place, natively=natively))


@cancels
@pytest.mark.parametrize("first", ["http://moved.example/", "http://other.example/"])
def test_requests_to_two_places_cancelled_at_any_step_leave_no_connection(
    place: Place, first: str, natively: bool
) -> None:
    """By a redirect, and one after the other, so that two connections are kept and closed together."""

    async def work() -> bool:
        async with place.egress() as egress:
            one = await egress.request("GET", first)
            two = one if "moved" in first else await egress.request("GET", "http://plain.example/")
        return isinstance(one, Answer) and isinstance(two, Answer) and (one.status, two.status) == (200, 200)

    anyio.run(lambda: cancelled_everywhere(work, place, natively=natively))


@cancels
def test_a_tunnel_cancelled_at_any_step_leaves_no_connection(place: Place, natively: bool) -> None:
    async def work() -> bool:
        async with place.egress() as egress:
            raw = await egress.connect("plain.example:443")
            assert isinstance(raw, Raw)
            try:
                return await raw.write(b"x", seconds=2)
            finally:
                await raw.close()

    anyio.run(lambda: cancelled_everywhere(work, place, natively=natively))


def test_a_server_that_never_ends_the_handshake_costs_no_connection_once_time_is_up(place: Place) -> None:
    async def work() -> None:
        async with place.egress(limits=EgressLimits(total_seconds=0.1)) as egress:
            reply = await egress.request("GET", "https://silent.example/")
            assert isinstance(reply, Failed)
            assert reply.code == "timed_out"
            assert await place.settled() == 0  # already now, and not only when all is closed

    anyio.run(work)
