"""The client part is our own, so the official SDK is its judge: servers made with it, both ways and in both generations."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("mcp")

from loopback import PUBLIC, World
from metier.model.digest import Json
from metier.model.entry import McpServer, RemoteTool
from metier.model.guarantee import needed
from metier.model.job import Job
from metier.model.mcp_listing import named, pin_of
from metier.model.permission import PermissionSet
from metier.model.skill import Limits
from metier.sandbox.mcp_peer import Said, Trouble
from metier.sandbox.mcp_pipe import PipePeer
from metier.sandbox.mcp_remote import McpRemote
from metier.sandbox.mcp_session import Session

pytestmark = pytest.mark.timeout(60)
SERVER = Path(__file__).with_name("sdk_server.py")


class NoHandshake:
    """A peer that refuses the handshake, so that the later generation is spoken."""

    def __init__(self, peer: Any) -> None:
        self._peer = peer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._peer, name)

    async def ask(self, method: str, params: dict[str, Json], seconds: float) -> Said:
        if method == "initialize":
            return Trouble(kind="error", message="no handshake", code=-32022)
        return await self._peer.ask(method, params, seconds)


@pytest.mark.parametrize("stateless", [False, True], ids=["2025", "2026"])
def test_a_server_of_the_sdk_on_a_pipe_is_greeted_listed_and_used(stateless: bool) -> None:
    program = Path(sys.prefix) / "bin" / "mcp-server-time"
    if not program.exists():
        pytest.skip("mcp-server-time is not installed here; it is in the extra dev")

    child = subprocess.Popen(
        [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )

    async def main() -> None:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            peer = PipePeer(child.stdout.fileno(), os.dup(child.stdin.fileno()), lambda: None)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(peer.run)
                session = Session(NoHandshake(peer) if stateless else peer)
                assert await session.greet(20.0) is None
                listing = await session.tools(10.0)
                assert isinstance(listing, dict), listing
                assert set(named(listing)) == {"get_current_time", "convert_time"}
                said = await session.use("get_current_time", {"timezone": "Asia/Tokyo"}, 10.0)
                assert isinstance(said, dict), said
                assert said["structuredContent"]["timezone"] == "Asia/Tokyo"  # type: ignore[index,call-overload]
                bad = await session.use("no_such_tool", {}, 10.0)
                assert isinstance(bad, Trouble)
                assert bad.kind == "error"
                peer.finish()
                tasks.cancel_scope.cancel()
        finally:
            child.kill()
            child.wait()
            child.stdin.close()
            child.stdout.close()

    anyio.run(main)


@pytest.fixture(params=["json", "stream"])
def port(request: pytest.FixtureRequest) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        number = free.getsockname()[1]
    child = subprocess.Popen(
        [sys.executable, SERVER, str(number), str(request.param)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(300):
            with socket.socket() as tried:
                if tried.connect_ex(("127.0.0.1", number)) == 0:
                    break
            assert child.poll() is None
            a_moment()
        yield number
    finally:
        child.kill()
        child.wait()


def a_moment() -> None:
    threading.Event().wait(0.05)


@pytest.mark.parametrize("stateless", [False, True], ids=["2025", "2026"])
def test_a_server_of_the_sdk_at_an_address_is_greeted_listed_and_used(
    stateless: bool, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if stateless:
        monkeypatch.setattr("metier.sandbox.mcp_remote.Session", lambda peer: Session(NoHandshake(peer)))
    world = World(names={"mcp.example.com": [[PUBLIC]]}, places={PUBLIC: port})

    def make(
        *, hosts: frozenset[str], limits: Any, reveal: Any, secrets: frozenset[str] = frozenset()
    ) -> Any:
        return world.egress(*hosts, limits=limits, reveal=reveal, secrets=secrets)

    sandbox = McpRemote(lambda _name: None, None, make)

    def job(tool: str, pin: str = "", **arguments: Any) -> Job:
        reached = McpServer(url="http://mcp.example.com/mcp")
        entry = RemoteTool(server="sdk", tool=tool, reached=reached, pin=pin)
        return Job(
            call_id="call_test",
            skill="sdk",
            entry=entry,
            arguments=arguments,
            permissions=PermissionSet(hosts=frozenset({"http://mcp.example.com"})),
            limits=Limits(timeout=10.0),
            needs=needed(entry, network=True),
        )

    async def main() -> None:
        report = await sandbox.run(job(""))
        assert isinstance(report.value, dict), report
        tools = named(report.value)
        added = await sandbox.run(job("add", pin_of(tools["add"]), a=2, b=3))
        assert added.value == {"total": 5}, added
        failed = await sandbox.run(job("fail", pin_of(tools["fail"])))
        assert failed.ending == "raised"

    anyio.run(main)
