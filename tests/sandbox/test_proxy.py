"""The way out for sandboxed programs. Its listener lies on loopback here, as it does inside a sandbox."""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import pytest
from anyio import to_thread

from loopback import PUBLIC, Authority, Listener, World, quick, reply
from metier.model.digest import Json
from metier.model.job import Event
from metier.sandbox.client_hello import Hello, NoHello, NotYet, read_hello
from metier.sandbox.egress import Egress
from metier.sandbox.given import Given
from metier.sandbox.proxy import Proxy
from metier.sandbox.proxy_ends import ProxyLimits

Listen = Callable[..., Listener]


class Served:
    """A proxy that serves in a loop of its own thread, and a program that talks to it."""

    def __init__(self, port: int, proxy: Proxy) -> None:
        self.port = port
        self.proxy = proxy

    def dial(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)

    def ask(self, data: bytes) -> tuple[int, bytes]:
        """Status and body of what comes back."""
        with self.dial() as connection:
            connection.sendall(data)
            return parted(everything(connection))

    def tunnel(self, place: str, line: str = "") -> tuple[socket.socket, int, bytes]:
        connection = self.dial()
        connection.sendall(f"CONNECT {place} HTTP/1.1\r\nHost: {line or place}\r\n\r\n".encode("latin-1"))
        head = b""
        while b"\r\n\r\n" not in head and (piece := connection.recv(1)):
            head += piece
        status = int(head.split(b" ")[1]) if head else 0
        return connection, status, b"" if status == 200 else everything(connection)


def everything(connection: socket.socket) -> bytes:
    data = b""
    try:
        while piece := connection.recv(65_536):
            data += piece
    except ConnectionResetError:
        pass
    return data


def parted(data: bytes) -> tuple[int, bytes]:
    head, _, body = data.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), body


@contextmanager
def serving(egress: Egress, given: Json = None, **limits: Any) -> Iterator[Served]:
    listener = socket.create_server(("127.0.0.1", 0))
    made: list[Proxy] = []
    ready, stop = threading.Event(), threading.Event()

    async def main() -> None:
        async with egress, anyio.create_task_group() as group:
            made.append(Proxy(listener, egress, given=Given(given), limits=ProxyLimits(**limits)))
            group.start_soon(made[0].serve)
            ready.set()
            await to_thread.run_sync(stop.wait)
            group.cancel_scope.cancel()

    thread = threading.Thread(target=anyio.run, args=(main,))
    thread.start()
    try:
        assert ready.wait(10)
        yield Served(listener.getsockname()[1], made[0])
    finally:
        stop.set()
        thread.join(10)
        listener.close()
        assert not thread.is_alive()


def get(url: str, *lines: str) -> bytes:
    return "\r\n".join([f"GET {url} HTTP/1.1", *lines, "", ""]).encode("latin-1")


# Plain http


def test_a_granted_host_is_asked_for_the_program(world: World, listen: Listen) -> None:
    home = listen(reply("404 Not Found", b"nothing here", X_Note="yes"))
    world.put("a.example", home)
    with serving(world.egress("http://a.example")) as served:
        data = get("http://a.example/x?y=1", "Host: a.example", "X-A: b", "Proxy-Connection: keep-alive")
        status, body = served.ask(data)
    assert (status, body) == (404, b"nothing here")
    (asked,) = home.asked
    assert asked.line == "GET /x?y=1 HTTP/1.1"
    assert asked.headers["x-a"] == "b"
    assert "proxy-connection" not in asked.headers
    assert (served.proxy.denials, served.proxy.violations) == ((), ())


def test_a_body_is_sent_on_also_in_chunks(world: World, listen: Listen) -> None:
    home = listen()
    world.put("a.example", home)
    with serving(world.egress("http://a.example")) as served:
        head = b"POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\n"
        plain = served.ask(head + b"Content-Length: 5\r\n\r\nhello")
        chunks = served.ask(head + b"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n")
    assert (plain, chunks) == ((200, b"hello"), (200, b"hello"))
    assert [each.body for each in home.asked] == [b"hello", b"hello"]


def test_a_redirect_is_for_the_program_to_follow(world: World, listen: Listen) -> None:
    home = listen(reply("302 Found", b"", Location="http://b.example/"))
    world.put("a.example", home)
    with serving(world.egress("http://a.example")) as served, served.dial() as connection:
        connection.sendall(get("http://a.example/", "Host: a.example"))
        said = everything(connection)
        assert said.startswith(b"HTTP/1.1 302 ")
        assert b"location: http://b.example/\r\n" in said
        assert served.ask(get("http://b.example/", "Host: b.example"))[0] == 403


def test_a_head_request_gets_lines_and_no_body(world: World, listen: Listen) -> None:
    world.put("a.example", listen(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\nX-A: b\r\n\r\n"))
    with serving(world.egress("http://a.example")) as served, served.dial() as connection:
        connection.sendall(b"HEAD http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n")
        said = everything(connection)
    assert said.startswith(b"HTTP/1.1 200 ")
    assert b"x-a: b\r\n" in said
    assert said.endswith(b"\r\n\r\n")


def test_an_answer_too_large_is_not_handed_on_in_part(world: World, listen: Listen) -> None:
    world.put("a.example", listen(reply(body=b"x" * 5_000)))
    limits = quick(download_bytes=1_000)
    with serving(world.egress("http://a.example", limits=limits)) as served:
        assert served.ask(get("http://a.example/", "Host: a.example"))[0] == 502


# What is refused


@pytest.mark.parametrize("kind", ["forward", "tunnel"])
def test_an_unlisted_host_is_denied_and_counted(world: World, listen: Listen, kind: str) -> None:
    home = listen()
    world.put("other.example", home)
    with serving(world.egress("a.example")) as served:
        for _ in range(2):
            if kind == "forward":
                status, body = served.ask(get("http://other.example/", "Host: other.example"))
            else:
                connection, status, body = served.tunnel("other.example:443")
                connection.close()
            assert status == 403
            assert b"is not granted" in body
    assert [each.count for each in served.proxy.denials] == [2]
    assert served.proxy.violations == ()
    assert (world.lookups, home.connections) == ([], 0)


@pytest.mark.parametrize("place", ["10.0.0.1", "169.254.169.254", "[::1]", "metadata.google.internal"])
@pytest.mark.parametrize("kind", ["forward", "tunnel"])
def test_a_private_address_is_a_violation(world: World, place: str, kind: str) -> None:
    with serving(world.egress("a.example")) as served:
        if kind == "forward":
            status, _ = served.ask(get(f"http://{place}/", f"Host: {place}"))
        else:
            connection, status, _ = served.tunnel(f"{place}:443")
            connection.close()
        assert status == 403
        assert [each.kind for each in served.proxy.violations] == ["egress"]
        assert served.proxy.violated.is_set()
        assert served.proxy.denials == ()
    assert world.dialled == []


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ("http://10.0.0.1/", "10.0.0.1"),
        ({"host": "10.1", "port": 80}, "10.0.0.1"),
        (["http://LOCALHOST"], "localhost"),
        ("http://[0:0:0:0:0:0:0:1]/", "[::1]"),
        ("http://127.1/", "127.1"),
    ],
)
@pytest.mark.parametrize("kind", ["forward", "tunnel"])
def test_a_caller_cannot_make_a_violator_of_the_skill(
    world: World, given: Json, place: str, kind: str
) -> None:
    seen = []
    for said in (given, "another place: 192.168.77.1"):
        with serving(world.egress("a.example"), said) as served:
            if kind == "forward":
                status, _ = served.ask(get(f"http://{place}/", f"Host: {place}"))
            else:
                connection, status, _ = served.tunnel(f"{place}:443")
                connection.close()
            assert status == 403
            seen.append(
                (len(served.proxy.denials), len(served.proxy.violations), served.proxy.violated.is_set())
            )
    assert seen == [(1, 0, False), (0, 1, True)]
    assert world.dialled == []


@pytest.mark.parametrize("kind", ["forward", "tunnel"])
def test_a_server_cannot_make_a_violator_of_the_skill(world: World, listen: Listen, kind: str) -> None:
    """A program follows redirects by itself, so what it asks for next may be what the server wrote there."""
    home = listen(lambda _asked: reply("302 Found", b"", Location="http://169.254.169.254/"))
    world.put("a.example", home)
    with serving(world.egress("http://a.example")) as served:
        status, _ = served.ask(get("http://a.example/", "Host: a.example"))
        assert status == 302
        if kind == "forward":
            status, _ = served.ask(get("http://169.254.169.254/", "Host: 169.254.169.254"))
        else:
            connection, status, _ = served.tunnel("169.254.169.254:443")
            connection.close()
        assert status == 403
        assert (served.proxy.violations, served.proxy.violated.is_set()) == ((), False)
        assert [each.kind for each in served.proxy.denials] == ["egress"]
    assert "169.254" not in str(world.dialled)


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::1]", "0.0.0.0", "127.1", "2130706433"])  # noqa: S104
def test_net_30_a_port_of_the_host_cannot_be_reached_through_the_proxy(
    world: World, listen: Listen, name: str
) -> None:
    home = listen()
    with serving(world.egress("a.example")) as served:
        status, _ = served.ask(get(f"http://{name}:{home.port}/", f"Host: {name}:{home.port}"))
        connection, tunnelled, _ = served.tunnel(f"{name}:{home.port}")
        connection.close()
        assert (status, tunnelled) == (403, 403)
        assert sum(each.count for each in served.proxy.violations) == 2
    assert home.connections == 0


def test_net_30_control_the_port_answers_who_asks_it_directly(listen: Listen) -> None:
    home = listen()
    with socket.create_connection(("127.0.0.1", home.port), timeout=5) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 200")


def test_a_granted_name_that_leads_inside_is_refused_but_no_violation(world: World) -> None:
    world.names["a.example"] = [["10.0.0.1"]]
    with serving(world.egress("a.example")) as served:
        connection, status, _ = served.tunnel("a.example:443")
        connection.close()
    assert status == 403
    assert (len(served.proxy.denials), served.proxy.violations, world.dialled) == (1, (), [])


@pytest.mark.parametrize(
    "place",
    [
        *(
            "evil.example\0.a.example:443",
            "a.example\0.evil.example:443",
            "a.example\0:443",
            "\0a.example:443",
        ),
        *("a.example:443\0", "a.example:\x00443", "evil.example%00.a.example:443", "a.example%00:443"),
    ],
    ids=ascii,
)
def test_net_17_a_nul_in_the_name_of_a_tunnel_is_refused(world: World, listen: Listen, place: str) -> None:
    world.put("a.example", listen())
    world.put("evil.example", listen())
    plain = place.replace("\0", "").replace("%00", "")
    with serving(world.egress("a.example")) as served:
        for line in (place, plain):  # the Host line with it, and without
            connection, status, why = served.tunnel(place, line)
            connection.close()
            assert (status, world.dialled) == (400, []), why
        connection, status, why = served.tunnel(plain)
        connection.close()
    # Without it the same is a proper request, which is granted or not.
    assert status == (200 if plain == "a.example:443" else 403), why
    assert len(world.dialled) == (status == 200)


def test_net_17_no_socks_is_spoken_so_no_name_with_a_nul_is_read_from_it(world: World) -> None:
    name = b"evil.example\0.a.example"
    hello, asked = b"\x05\x01\x00", b"\x05\x01\x00\x03" + bytes([len(name)]) + name + b"\x01\xbb"
    with serving(world.egress("a.example")) as served:
        status, _ = served.ask(hello + asked + b"\r\n\r\n")
    assert (status, world.dialled) == (400, [])


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", 400),
        (b"GET ftp://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", 400),
        (b"GET http://u@a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", 400),
        (b"CONNECT a.example HTTP/1.1\r\nHost: a.example\r\n\r\n", 400),
        (b"CONNECT a.example:443/x:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n", 400),
        (b"CONNECT a.example:0 HTTP/1.1\r\nHost: a.example:0\r\n\r\n", 400),
        (b"CONNECT a.example:22 HTTP/1.1\r\nHost: a.example:22\r\n\r\n", 403),
        (b"CONNECT a.example\x00.b.example:443 HTTP/1.1\r\n\r\n", 400),
        (b"TRACE http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", 400),
        (b"\x16\x03\x01\x00\x05hello\r\n\r\n", 400),
        (b"\x05\x01\x00\r\n\r\n", 400),
        (b"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nX: " + b"a" * 20_000 + b"\r\n\r\n", 400),
        (b"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nHost: b.example\r\n\r\n", 400),
        (
            b"POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
            400,
        ),
    ],
)
def test_what_is_no_proper_request_gets_a_plain_answer(world: World, data: bytes, status: int) -> None:
    with serving(world.egress("a.example", "http://a.example")) as served:
        said, body = served.ask(data)
    assert said == status
    assert b"Traceback" not in body
    assert body.endswith(b"\n")
    assert world.dialled == []


@pytest.mark.parametrize(
    "data",
    [
        get("http://a.example/", "Host: b.example"),
        b"CONNECT a.example:443 HTTP/1.1\r\nHost: b.example:443\r\n\r\n",
        b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:8443\r\n\r\n",
    ],
)
def test_net_27_the_host_line_names_what_the_request_names(world: World, data: bytes) -> None:
    with serving(world.egress("a.example", "http://a.example")) as served:
        assert served.ask(data)[0] == 400
    assert (world.lookups, world.dialled) == ([], [])


# Tunnels


def client(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=authority.roots)


def test_a_tunnel_carries_tls_to_the_granted_host(world: World, listen: Listen, authority: Authority) -> None:
    home = listen(reply(body=b"x" * 300_000), tls=authority.server("a.example"))
    world.put("a.example", home)
    with serving(world.egress("a.example")) as served:
        connection, status, _ = served.tunnel("a.example:443")
        assert status == 200
        with client(authority).wrap_socket(connection, server_hostname="a.example") as tls:
            tls.sendall(b"GET /inside HTTP/1.1\r\nHost: a.example\r\n\r\n")
            data = b""
            while len(data) < 300_000:
                data += tls.recv(65_536)
    assert data.endswith(b"x" * 300_000)
    assert home.asked[0].line == "GET /inside HTTP/1.1"
    assert (world.lookups, world.dialled) == (["a.example"], [(PUBLIC, 443)])
    assert (served.proxy.denials, served.proxy.violations) == ((), ())


def test_a_port_of_its_own_is_reached_where_it_was_granted(
    world: World, listen: Listen, authority: Authority
) -> None:
    world.put("a.example", listen(tls=authority.server("a.example")))
    with serving(world.egress("a.example:8443")) as served:
        connection, status, _ = served.tunnel("a.example:8443", line="a.example")
        with client(authority).wrap_socket(connection, server_hostname="a.example") as tls:
            tls.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert tls.recv(100).startswith(b"HTTP/1.1 200")
        other, refused, _ = served.tunnel("a.example:443")
        other.close()
    assert (status, refused) == (200, 403)


def test_net_27_a_tunnel_asks_for_the_name_it_was_opened_for(
    world: World, listen: Listen, authority: Authority
) -> None:
    home = listen(tls=authority.server("a.example", "b.example"))
    world.put("a.example", home)
    with serving(world.egress("a.example")) as served:
        connection, status, _ = served.tunnel("a.example:443")
        assert status == 200
        with pytest.raises((ssl.SSLError, OSError)):
            client(authority).wrap_socket(connection, server_hostname="b.example")
        connection.close()
    assert served.proxy.denials == (
        Event(kind="egress", detail="a tunnel to a.example was used for 'b.example'"),
    )
    assert home.names == []


def test_a_tunnel_is_for_tls_only(world: World, listen: Listen) -> None:
    home = listen()
    world.put("a.example", home)
    with serving(world.egress("a.example")) as served:
        connection, status, _ = served.tunnel("a.example:443")
        assert status == 200
        connection.sendall(b"GET / HTTP/1.1\r\nHost: internal.example\r\n\r\n")
        assert everything(connection) == b""
        connection.close()
    assert home.asked == []
    assert [each.count for each in served.proxy.denials] == [1]


def test_a_tunnel_is_pinned_to_the_address_that_was_checked_first(
    world: World, listen: Listen, authority: Authority
) -> None:
    home = listen(tls=authority.server("a.example"))
    world.put("a.example", home)
    world.names["a.example"] = [[PUBLIC], ["10.0.0.1"]]
    with serving(world.egress("a.example")) as served:
        for _ in range(2):
            connection, status, _ = served.tunnel("a.example:443")
            assert status == 200
            client(authority).wrap_socket(connection, server_hostname="a.example").close()
    assert (world.lookups, {address for address, _ in world.dialled}) == (["a.example"], {PUBLIC})


def test_a_host_nobody_answers_for_is_a_bad_gateway(world: World) -> None:
    world.names["a.example"] = [[PUBLIC]]
    with serving(world.egress("a.example", "gone.example")) as served:
        for place in ("a.example:443", "gone.example:443"):
            connection, status, body = served.tunnel(place)
            connection.close()
            assert (status, bool(body)) == (502, True)


# Bounds


def test_bytes_through_a_tunnel_are_bounded(world: World, listen: Listen, authority: Authority) -> None:
    world.put("a.example", listen(reply(body=b"x" * 500_000), tls=authority.server("a.example")))
    with serving(world.egress("a.example"), tunnel_bytes=100_000) as served:
        connection, _, _ = served.tunnel("a.example:443")
        with client(authority).wrap_socket(connection, server_hostname="a.example") as tls:
            tls.sendall(b"GET / HTTP/1.1\r\n\r\n")
            got = 0
            with pytest.raises((ssl.SSLError, OSError)):
                while piece := tls.recv(65_536):
                    got += len(piece)
                raise ssl.SSLEOFError("ended")
    assert got <= 100_000


def test_a_silent_client_is_sent_away(world: World) -> None:
    with serving(world.egress("a.example"), head_seconds=0.2) as served:
        began = time.monotonic()
        assert served.ask(b"GET http://a.exa")[0] in (400, 408)
    assert time.monotonic() - began < 5


def test_a_tunnel_in_which_only_one_side_speaks_is_not_silent(
    world: World, listen: Listen, authority: Authority
) -> None:
    def slowly(_asked: Any) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\n\r\n"
        for _ in range(12):
            time.sleep(0.05)
            yield b"x"

    world.put("a.example", listen(slowly, tls=authority.server("a.example")))
    with serving(world.egress("a.example"), idle_seconds=0.3) as served:
        connection, _, _ = served.tunnel("a.example:443")
        with client(authority).wrap_socket(connection, server_hostname="a.example") as tls:
            tls.sendall(b"GET / HTTP/1.1\r\n\r\n")
            data = b""
            while not data.endswith(b"x" * 12):
                piece = tls.recv(100)
                assert piece
                data += piece


def test_a_silent_tunnel_ends(world: World, listen: Listen, authority: Authority) -> None:
    world.put("a.example", listen(tls=authority.server("a.example")))
    with serving(world.egress("a.example"), idle_seconds=0.2) as served:
        connection, _, _ = served.tunnel("a.example:443")
        with client(authority).wrap_socket(connection, server_hostname="a.example") as tls:
            began = time.monotonic()
            with pytest.raises((ssl.SSLError, OSError)):
                if not tls.recv(1):
                    raise ssl.SSLEOFError("ended")
    assert time.monotonic() - began < 5


def test_too_many_connections_are_told_to_come_back_later(world: World) -> None:
    with serving(world.egress("a.example"), connections=3) as served:
        held = [served.dial() for _ in range(3)]
        for each in held:
            each.sendall(b"GET ")
        deadline = time.monotonic() + 5
        while served.proxy._at_once < 3 and time.monotonic() < deadline:
            time.sleep(0.005)
        assert served.ask(get("http://a.example/"))[0] == 503
        for each in held:
            each.close()
        while served.proxy._at_once and time.monotonic() < deadline:
            time.sleep(0.005)
        assert served.ask(get("http://a.example/", "Host: a.example"))[0] == 403


def test_a_body_over_the_limit_is_refused(world: World, listen: Listen) -> None:
    home = listen()
    world.put("a.example", home)
    with serving(world.egress("http://a.example", limits=quick(upload_bytes=1_000))) as served:
        head = b"POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5000\r\n\r\n"
        assert served.ask(head + b"x" * 5_000)[0] == 413
    assert home.asked == []


def test_ending_the_service_closes_every_tunnel(world: World, listen: Listen, authority: Authority) -> None:
    world.put("a.example", listen(tls=authority.server("a.example")))
    with serving(world.egress("a.example")) as served:
        connection, _, _ = served.tunnel("a.example:443")
        tls = client(authority).wrap_socket(connection, server_hostname="a.example")
    with tls, pytest.raises((ssl.SSLError, OSError)):
        if not tls.recv(1):
            raise ssl.SSLEOFError("ended")


# The first bytes of TLS


def hello(name: str | None) -> bytes:
    """What this machine's TLS library sends first."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname=name).do_handshake()
    return outgoing.read()


def test_the_name_a_client_asks_for_is_read_from_whole_or_split_records() -> None:
    whole = hello("A.Example")
    assert read_hello(whole) == Hello(name="a.example")
    assert read_hello(hello(None)) == Hello(name="")
    message = whole[5:]
    split = b"".join(
        b"\x16\x03\x01" + len(part).to_bytes(2, "big") + part
        for part in (message[:7], message[7:60], message[60:])
    )
    assert read_hello(split + b"more") == Hello(name="a.example")
    assert all(isinstance(read_hello(whole[:size]), NotYet) for size in range(len(whole)))


@pytest.mark.parametrize(
    "data",
    [b"GET / HTTP/1.1", b"\x16\x02\x00\x00\x01\x01", b"\x16\x03\x01\x00\x00", b"\x16\x03\x01\x00\x01\x02"],
)
def test_what_is_no_hello_is_seen_at_once(data: bytes) -> None:
    assert isinstance(read_hello(data), NoHello)


def made_hello(*names: bytes) -> bytes:
    """A hello that asks for several servers."""

    def block(size: int, data: bytes) -> bytes:
        return len(data).to_bytes(size, "big") + data

    entries = b"".join(b"\0" + block(2, name) for name in names)
    extensions = block(2, b"\0\0" + block(2, block(2, entries)))
    body = b"\3\3" + bytes(32) + block(1, b"") + block(2, b"\x13\x01") + block(1, b"\0") + extensions
    return b"\x16\3\1" + block(2, b"\1" + block(3, body))


def test_a_hello_that_asks_for_two_servers_is_not_believed() -> None:
    assert read_hello(made_hello(b"a.example")) == Hello(name="a.example")
    assert isinstance(read_hello(made_hello(b"a.example", b"b.example")), NoHello)


def test_a_damaged_hello_is_an_answer_and_no_exception() -> None:
    whole = hello("a.example")
    kinds = {
        type(read_hello(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :]))
        for place in range(len(whole))
    }
    assert kinds == {Hello, NotYet, NoHello}
