"""What sandboxed programs reach of the network: nothing, or what was granted through our proxy."""

import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from jobs import ending, place, python, shell
from loopback import Authority, Listener, World, reply
from metier.host.exec import Exec
from metier.model.job import Report
from metier.model.permission import PermissionSet
from metier.model.ports import Answered, NotAnswered
from metier.sandbox.bubblewrap import Bubblewrap
from metier.sandbox.egress import Egress
from metier.sandbox.landlock import Landlock
from metier.sandbox.native import NativeSandbox
from metier.sandbox.python import PythonSandbox
from metier.sandbox.way_out import EgressFor, egress_for

GRANTED = PermissionSet(hosts=frozenset({"api.example.org"}))
Run = Callable[..., Awaitable[Report]]


@asynccontextmanager
async def walled(kind: str = "bubblewrap", egress: EgressFor = egress_for) -> AsyncIterator[Run]:
    wall = Bubblewrap() if kind == "bubblewrap" else Landlock()
    native, code = NativeSandbox(wall, egress), PythonSandbox(wall, egress)

    async def run(job: Any) -> Report:
        return await (native if native.takes(job) else code).run(job)

    try:
        yield run
    finally:
        await wall.aclose()


def run(job: Any, kind: str = "bubblewrap", egress: EgressFor = egress_for) -> Report:
    async def go() -> Report:
        async with walled(kind, egress) as each:
            return await each(job)

    return anyio.run(go)


KNOCK = """
import socket
import subprocess
import sys
result = []
for family, kind, where in [
    (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", PORT)),
    (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", PORT)),
    (socket.AF_INET6, socket.SOCK_STREAM, ("::1", PORT)),
    (socket.AF_INET, socket.SOCK_RAW, ("127.0.0.1", 0)),
    (socket.AF_NETLINK, socket.SOCK_RAW, (0, 0)),
    (socket.AF_VSOCK, socket.SOCK_STREAM, (2, 1)),
    (socket.AF_PACKET, socket.SOCK_RAW, ("lo", 0)),
]:
    try:
        with socket.socket(family, kind) as each:
            each.settimeout(2)
            each.connect(where)
            if kind == socket.SOCK_DGRAM:
                each.send(b"hello")
        result.append("reached")
    except OSError as error:
        result.append(error.strerror)
"""


@pytest.mark.parametrize("kind", ["bubblewrap", "landlock"])
def test_net_25_a_raw_socket_of_any_family_reaches_nothing(
    kind: str, listen: Callable[..., Listener]
) -> None:
    port = listen().port
    with socket.create_connection(("127.0.0.1", port), 2):
        pass  # out here the same port answers
    report = run(python(KNOCK.replace("PORT", str(port))), kind)
    assert report.ending == "returned", ending(report)
    assert isinstance(report.value, list) and "reached" not in report.value


def test_net_25_code_that_ignores_the_proxy_reaches_nothing_although_it_may_use_the_network(
    listen: Callable[..., Listener],
) -> None:
    port = listen().port
    report = run(python(KNOCK.replace("PORT", str(port)), permissions=GRANTED))
    assert report.ending == "returned", ending(report)
    assert isinstance(report.value, list) and "reached" not in report.value


QUERY = """
import socket
import subprocess
import sys
try:
    asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    asking.sendto(b"\\x12\\x34\\x01\\0\\0\\x01\\0\\0\\0\\0\\0\\0\\x06stolen\\x07example\\0\\0\\x01\\0\\x01", ("127.0.0.1", PORT))
except OSError:
    pass
try:
    socket.getaddrinfo("stolen.example.org", 53)
except OSError:
    result = "no"
"""


def test_net_26_no_name_is_looked_up_inside() -> None:
    """Neither by the resolver of the machine nor by a question of one's own to a name server."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(0.2)
        source = QUERY.replace("PORT", str(server.getsockname()[1]))
        for permissions in (PermissionSet(), GRANTED):
            report = run(python(source, permissions=permissions))
            assert report.value == "no", ending(report)
            with pytest.raises(TimeoutError):
                server.recv(512)
        subprocess.run([sys.executable, "-c", source], check=True)
        assert b"stolen" in server.recv(512), "the same question gets there from outside"


@pytest.mark.parametrize("kind", ["bubblewrap", "landlock"])
def test_net_24_no_unix_socket_of_the_host_can_be_reached(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "agent.sock"
    with socket.socket(socket.AF_UNIX) as by_path, socket.socket(socket.AF_UNIX) as by_name:
        by_path.bind(str(path))
        by_name.bind("\0metier-test-agent")
        for each in (by_path, by_name):
            each.listen()
        for where in (str(path), "\0metier-test-agent"):
            with socket.socket(socket.AF_UNIX) as out_here:
                out_here.connect(where)
        source = (
            "import socket\nresult = []\n"
            f"for where in ({str(path)!r}, '\\0metier-test-agent'):\n"
            "    try:\n        socket.socket(socket.AF_UNIX).connect(where)\n        result.append('reached')\n"
            "    except OSError as error:\n        result.append(error.strerror)\n"
        )
        report = run(python(source, places=(place(tmp_path, writable=True),)), kind)
    assert report.value == ["Permission denied"] * 2, ending(report)


def test_net_29_what_listens_inside_cannot_be_reached_from_outside() -> None:
    source = (
        "import socket\ns = None\ntry:\n    s = socket.create_server(('127.0.0.1', 0))\n"
        "    result = s.getsockname()[1]\nexcept OSError:\n    result = 0"
    )
    with socket.create_server(("127.0.0.1", 0)) as out_here:  # where it is allowed, it works
        socket.create_connection(out_here.getsockname(), 1).close()
    assert run(python(source, permissions=GRANTED)).value == 0
    assert run(python(source)).value == 0


def test_net_30_the_hosts_own_loopback_cannot_be_reached_through_the_proxy(
    listen: Callable[..., Listener],
) -> None:
    listener = listen()
    script = f"curl -sS -m 5 http://127.0.0.1:{listener.port}/"
    with socket.create_connection(("127.0.0.1", listener.port), 2):
        pass  # out here it answers
    report = run(shell(script, permissions=GRANTED))
    assert report.ending == "stopped"
    assert [event.kind for event in report.violations] == ["egress"]
    assert not listener.asked


FETCH = (
    "import urllib.request\ntry:\n    result = urllib.request.urlopen(params['url']).status\n"
    "except OSError as error:\n    result = str(error)"
)
OWN = "import urllib.request\nurllib.request.urlopen('http://127.0.0.1/')"


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1/", "http://127.1:8080/", "http://LOCALHOST/", "http://[::1]/"]
)
def test_a_closed_address_that_the_caller_named_is_denied_to_code(url: str) -> None:
    report = run(python(FETCH, arguments={"url": url}, permissions=GRANTED))
    assert (report.ending, report.violations) == ("returned", ()), ending(report)
    assert "403" in str(report.value)
    assert [event.kind for event in report.denials] == ["egress"]


def test_a_closed_address_in_a_granted_variable_is_denied_to_code() -> None:
    source = FETCH.replace("params['url']", "__import__('os').environ['BASE_URL']")
    given = {"environment": {"BASE_URL": "http://localhost:8080"}}
    report = run(python(source, permissions=GRANTED, **given))
    assert (report.ending, report.violations) == ("returned", ()), ending(report)
    assert [event.kind for event in report.denials] == ["egress"]


def test_control_a_closed_address_of_the_codes_own_is_a_violation() -> None:
    report = run(python(OWN, arguments={"url": "http://10.0.0.1/"}, permissions=GRANTED))
    assert report.ending == "stopped", ending(report)
    assert [event.kind for event in report.violations] == ["egress"]


@pytest.mark.parametrize(("given", "kind"), [("http://127.1/", "denied"), ("http://a.example/", "violation")])
def test_a_closed_address_in_the_line_of_a_command_is_denied_where_the_caller_named_it(
    given: str, kind: str
) -> None:
    script = "curl -sS -m 5 http://127.0.0.1/"
    report = run(shell(script, arguments={"url": given}, permissions=GRANTED))
    denied = [event for event in report.denials if event.kind == "egress"]
    assert [len(denied), len(report.violations)] == ([1, 0] if kind == "denied" else [0, 1])


@pytest.mark.parametrize(("given", "kind"), [("http://127.1/", "denied"), ("http://a.example/", "violation")])
def test_a_program_that_code_runs_is_not_blamed_for_what_the_caller_named(given: str, kind: str) -> None:
    outer = shell("", arguments={"url": given}, permissions=replace(GRANTED, binaries=frozenset({"bash"})))

    async def go() -> Answered | NotAnswered:
        async with walled() as each:
            return await Exec(outer, each).answer(
                {"argv": ["bash", "-c", "curl -fsS -m 5 http://127.0.0.1/"]}
            )

    answer = anyio.run(go)
    assert isinstance(answer, NotAnswered)
    assert answer.kind == kind, answer


def test_a_granted_host_is_reached_through_the_proxy_and_another_is_denied(
    listen: Callable[..., Listener], world: World, authority: Authority
) -> None:
    listener = listen(reply(body=b"granted"), tls=authority.server("api.example.org"))
    world.put("api.example.org", listener)

    def egress(hosts: frozenset[str]) -> Egress:
        return world.egress(*hosts, extra_roots=authority.roots)

    script = "curl -sS -k -m 5 https://api.example.org/; curl -sS -m 5 https://other.example.org/; true"
    report = run(shell(script, permissions=GRANTED), egress=egress)
    assert "granted" in report.stdout, ending(report)
    assert any("other.example.org" in event.detail for event in report.denials)
    assert not report.violations


def test_without_namespaces_a_run_with_network_is_not_started() -> None:
    report = run(shell("true", permissions=GRANTED), "landlock")
    assert report.ending == "not_started"
    assert report.fault and "network" in report.fault.message


LEAVE = """
import os
import socket
import time
import urllib.parse
proxy = urllib.parse.urlsplit(os.environ["http_proxy"])
left = []
for _ in range(60):
    each = socket.socket()
    each.setblocking(False)
    try:
        each.connect((proxy.hostname, proxy.port))
    except BlockingIOError:
        pass
    left.append(each)
for each in left:
    try:
        each.send(b"GET http://api.example.org/left HTTP/1.1\\r\\nHost: api.example.org\\r\\n\\r\\n")
    except OSError:
        pass
time.sleep(STAY)
result = len(left)
"""


def test_what_a_run_leaves_at_the_proxys_door_is_not_sent_in_the_next_run(
    listen: Callable[..., Listener], world: World
) -> None:
    heard: list[bytes] = []

    def answer(asked: bytes) -> bytes:
        heard.append(asked)
        return reply()

    world.put("api.example.org", listen(answer))
    plain = PermissionSet(hosts=frozenset({"http://api.example.org"}))

    async def go() -> tuple[int, int]:
        async with walled(egress=lambda hosts: world.egress(*hosts)) as each:
            leave = LEAVE.replace("STAY", "0.5")
            assert (await each(python(leave, permissions=plain))).value == 60
            while_it_stayed = len(heard)
            assert (await each(python(LEAVE.replace("STAY", "0"), permissions=plain))).value == 60
            await anyio.sleep(0.2)  # what is under way is heard by then
            heard.clear()
            idle = "import time\ntime.sleep(0.6)\nresult = 1"
            assert (await each(python(idle, permissions=plain))).value == 1
            return while_it_stayed, len(heard)

    while_it_stayed, later = anyio.run(go)
    assert while_it_stayed, "nothing was sent for the one that left it: nothing was tried"
    assert later == 0
