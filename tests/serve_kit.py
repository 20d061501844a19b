"""A machine with a server on it, in the loop of the test, and clients that speak to it over a socket of their own."""

import json
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from anyio.abc import SocketStream

from boxes import Box
from machine import Machine
from metier.catalog.here import owner
from metier.doors.http.opening import Opened, open_door
from metier.model.role import ROLES, Registered
from metier.record.database import Database
from metier.record.principals import add_principal
from metier.record.tokens import Made, add_token
from metier.runtime import sandboxes
from metier.runtime.engine import Engine, opened

READ: dict[str, Any] = {"tool": "read_skill", "arguments": {"name": "writing-skills"}}
"""A call that runs at once."""
WRITE: dict[str, Any] = {"tool": "fs_write", "arguments": {"path": "memory/tea.md", "content": "tea"}}
"""A call that is asked about every time."""


class Premises:
    """The machine, and who may come."""

    def __init__(self, top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.machine = Machine(top)
        self.box = Box()
        monkeypatch.setenv("HOME", str(self.machine.home))
        monkeypatch.setenv("PATH", str(self.machine.bin))
        monkeypatch.delenv("METIER_HOME", raising=False)
        monkeypatch.chdir(self.machine.project)
        monkeypatch.setattr(
            sandboxes, "make_sandboxes", lambda settings, tasks=None, watch=None: ((self.box,), ())
        )
        self.path = self.machine.settings().database
        with self.opened():
            pass

    def opened(self) -> Database:
        return Database.open(self.path)

    def configured(self, text: str) -> None:
        (self.machine.state / "metier.toml").write_text(text, encoding="utf-8")

    def person(self, name: str, *roles: str) -> str:
        """A registered person, and a token with everything those roles give."""
        return self._registered(f"human:{name}", "human", roles, "")

    def agent(self, name: str = "bot") -> str:
        return self._registered(f"agent:{name}", "agent", ("agent",), owner())

    def _registered(self, id: str, kind: Any, roles: tuple[str, ...], behalf: str) -> str:
        with self.opened() as database:
            new = Registered(id=id, kind=kind, roles=frozenset(roles), on_behalf_of=behalf)
            assert add_principal(database, new, by=owner(), owner=owner()) == ""
        return self.token(id, *frozenset[str]().union(*(ROLES[role] for role in roles)))  # type: ignore[index]

    def token(self, principal: str, *scopes: str, seconds: float = 3_600) -> str:
        with self.opened() as database:
            made = add_token(
                database,
                principal=principal,
                name="test",
                scopes=frozenset(scopes),
                expires_at=time.time() + seconds,
                by=owner(),
                owner=owner(),
            )
        assert isinstance(made, Made), made
        return made.text

    def owner(self) -> str:
        return self.token(owner(), *ROLES["owner"])

    @asynccontextmanager
    async def serving(self, *, mcp: bool = False, watch: bool = False) -> AsyncGenerator["House"]:
        async with (
            opened(lambda: self.machine.settings(), watch=watch) as engine,
            open_door(engine, port=0, mcp=mcp) as door,
        ):
            yield House(self, engine, door)


class House:
    """A server that runs."""

    def __init__(self, premises: Premises, engine: Engine, door: Opened) -> None:
        self.premises = premises
        self.engine = engine
        self.door = door
        self.at = f"127.0.0.1:{door.port}"

    @asynccontextmanager
    async def client(self, token: str = "", **headers: str) -> AsyncGenerator[httpx2.AsyncClient]:
        given = {"authorization": f"Bearer {token}"} if token else {}
        async with httpx2.AsyncClient(
            base_url=self.door.url, headers={**given, **headers}, timeout=20, trust_env=False
        ) as client:
            yield client

    async def raw(self, data: bytes, *, seconds: float = 5.0) -> bytes:
        """What is answered to these very bytes, until the server closes or falls silent."""
        async with await self.connected() as stream:
            await stream.send(data)
            return await read_all(stream, seconds)

    async def connected(self) -> SocketStream:
        return await anyio.connect_tcp("127.0.0.1", self.door.port)


async def read_all(stream: SocketStream, seconds: float) -> bytes:
    got = bytearray()
    with anyio.move_on_after(seconds):
        try:
            while True:
                got += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            pass
    return bytes(got)


def request(
    method: str = "GET", path: str = "/healthz", *, host: str, body: bytes = b"", **headers: str
) -> bytes:
    """The bytes of a request."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    if body:
        lines += [f"Content-Length: {len(body)}"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0


def code(answer: bytes) -> str:
    return str(json.loads(answer.partition(b"\r\n\r\n")[2] or b"{}").get("code", ""))
