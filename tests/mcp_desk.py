"""A machine with a skill of several tools, and clients of the official SDK that reach it over lines or over HTTP."""

import json
import os
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread
import httpx2
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import ElicitRequestParams, ElicitResult, jsonrpc_message_adapter

from machine import Machine
from metier.catalog.bundle import BundleStore
from metier.catalog.here import owner
from metier.catalog.hold import bind, declared_by, hold
from metier.doors.http.opening import open_door
from metier.doors.mcp.stdio import serve
from metier.doors.mcp.stdio_principal import principal_of
from metier.model.approval import Approval
from metier.model.role import EXECUTE, ROLES, Registered
from metier.record.approvals import approvals_in
from metier.record.audit import AuditLog
from metier.record.chain import Record
from metier.record.database import Database
from metier.record.deciding import Decider, decide
from metier.record.level import set_level
from metier.record.principals import add_principal
from metier.record.tokens import Made, add_token
from metier.record.trust import TrustStore
from metier.runtime.engine import Engine, opened

WAYS: Final = ("lines", "http")
MODES: Final = ("legacy", "2026-07-28")
"""The two generations of the protocol."""
EVERY: Final = [(way, mode) for way in WAYS for mode in MODES]
AGENT: Final = "agent:helper"

_TOOL = """      - name: {name}
        description: {about}
        parameters:
          type: object
          properties: {{text: {{type: string, maxLength: 2000}}}}
          additionalProperties: false
        effect: {effect}
        risk: {risk}
        limits: {{timeout: 60}}
        entry: {{kind: python, path: {name}.py}}
{more}"""
_RETURNS = """        returns:
          type: object
          properties: {words: {type: integer}}
          required: [words]
"""
FILES: Final = {
    "count.py": "def main(params, context):\n    return {'words': len(params.get('text', '').split())}\n",
    "pour.py": "def main(params, context):\n    return 'poured ' + params.get('text', '')\n",
    "brew.py": "def main(params, context):\n    return 'brewed ' + params.get('text', '')\n",
    "slow.py": "import time\ndef main(params, context):\n    time.sleep(50)\n    return 'slept'\n",
    "leave.py": "def main(params, context):\n    with open(context.out + '/tea.csv', 'w') as file:\n        file.write('a,b')\n"
    "    return 'left'\n",
    "references/more.md": "More about tea.\n",
}


def skill_text(*extra: str) -> str:
    tools = (
        _TOOL.format(name="count", about="Counts words.", effect="read", risk="low", more=_RETURNS),
        _TOOL.format(
            name="pour", about="Pours tea.", effect="act", risk="low", more="        approval: always\n"
        ),
        _TOOL.format(
            name="brew",
            about="Brews tea.",
            effect="act",
            risk="low",
            more="        confirmation: Brew it now?\n",
        ),
        _TOOL.format(name="slow", about="Takes long.", effect="read", risk="low", more=""),
        _TOOL.format(name="leave", about="Leaves a file.", effect="read", risk="low", more=""),
        *extra,
    )
    return (
        "---\nname: tea\nversion: 1.0.0\ndescription: Makes tea.\nmetadata:\n  metier:\n    tools:\n"
        + "".join(tools)
        + "---\n\n# Tea\n\nBoil, then pour.\n"
    )


class Desk:
    """Everything below one temporary folder."""

    def __init__(self, top: Path, patch: pytest.MonkeyPatch) -> None:
        self.machine = Machine(Path(os.path.realpath(top)))
        self.patch = patch
        patch.setenv("HOME", str(self.machine.home))
        patch.setenv("PATH", "/usr/bin:/bin")
        for name in ("METIER_HOME", "METIER_TOKEN"):
            patch.delenv(name, raising=False)
        patch.chdir(self.machine.project)
        self.engine: Engine | None = None
        with self.database() as database:
            set_level(database, "bounded_auto", by=owner())
            agent = Registered(id=AGENT, kind="agent", on_behalf_of=owner(), roles=frozenset({"agent"}))
            assert add_principal(database, agent, by=owner(), owner=owner()) == ""
        self.write("SKILL.md", skill_text())
        for name, text in FILES.items():
            self.write(name, text)
        self.trust()
        self.configured("[mcp]\nwait_seconds = 0\n")

    # --- what the operator does

    def database(self) -> Database:
        return Database.open(self.machine.settings().database)

    def write(self, file: str, text: str, skill: str = "tea") -> None:
        path = self.machine.skills / skill / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def trust(self, name: str = "tea") -> None:
        settings = self.machine.settings()
        with self.database() as database:
            trust, bundles = TrustStore(database), BundleStore(settings.bundles)
            listed = self.machine.catalog().get(name)
            assert listed is not None and listed.skill is not None, listed
            bundles.take(listed.folder, now_ns=time.time_ns())
            held = hold(listed, trust=trust, bundles=bundles, now_ns=time.time_ns())
            assert held.bytes is not None
            snapshot = bundles.open(held.bytes.digest)
            assert snapshot is not None
            declared = declared_by(snapshot, listed.manifest, folder=listed.folder)
            assert declared is not None
            assert bind(listed, declared, held.bytes, trust=trust, how="operator", by=owner())

    def configured(self, text: str) -> None:
        self.machine.state.mkdir(exist_ok=True)
        (self.machine.state / "metier.toml").write_text(text, encoding="utf-8")

    def token(self, principal: str = AGENT, scopes: frozenset[str] = frozenset({EXECUTE})) -> Made:
        with self.database() as database:
            made = add_token(
                database,
                principal=principal,
                name="test",
                scopes=scopes,
                expires_at=time.time() + 3_600,
                by=owner(),
                owner=owner(),
            )
        assert isinstance(made, Made), made
        return made

    def waiting(self) -> list[Approval]:
        with self.database() as database, database.reading() as connection:
            return approvals_in(connection, over=True)

    def decide(self, approval: str, decision: Any = "approve", word: str = "") -> object:
        by = Decider(id=owner(), kind="human", rights=ROLES["owner"])
        with self.database() as database:
            return decide(database, approval, by=by, decision=decision, word=word)

    def records(self) -> list[Record]:
        with self.database() as database:
            return AuditLog(database).tail(1_000)

    # --- what clients do

    @asynccontextmanager
    async def served(self) -> AsyncGenerator[str]:
        """The server, and the address of its MCP."""
        async with (
            opened(self.machine.settings, watch=True) as engine,
            open_door(engine, port=0) as door,
        ):
            self.engine = engine
            yield f"{door.url}/mcp"

    @asynccontextmanager
    async def lines(self, principal: str = AGENT) -> AsyncGenerator[tuple[Any, Any]]:
        """The server over two pipes; gives what is written to and read from."""
        to_server, from_client = os.pipe()
        to_client, from_server = os.pipe()
        source, sink = os.fdopen(to_server, "rb", 0), os.fdopen(from_server, "wb")
        with self.database() as database:
            who = principal_of(database, principal, "")

        async def run() -> None:
            try:
                await serve(self.machine.settings, who, source, sink)
            finally:
                sink.close()
                source.close()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            out, back = os.fdopen(from_client, "wb", 0), os.fdopen(to_client, "rb")
            try:
                yield out, back
            finally:
                out.close()
        back.close()

    @asynccontextmanager
    async def client(
        self, way: str, mode: str, *, token: Made | None = None, principal: str = AGENT, **given: Any
    ) -> AsyncIterator[Client]:
        """A client of the official SDK."""
        if way == "http":
            headers = {"Authorization": f"Bearer {(token or self.token(principal)).text}"}
            async with self.served() as url, httpx2.AsyncClient(headers=headers, timeout=30) as http:
                transport = streamable_http_client(url, http_client=http)
                async with Client(transport, mode=mode, cache=None, **given) as client:  # type: ignore[arg-type]
                    yield client
        elif way == "lines":
            async with (
                self.lines(principal) as (out, back),
                Client(over(out, back), mode=mode, cache=None, **given) as client,  # type: ignore[arg-type]
            ):
                yield client
        else:
            async with Client(self.process(), mode=mode, cache=None, **given) as client:  # type: ignore[arg-type]
                yield client

    def process(self, *args: str, **environ: str) -> StdioServerParameters:
        """`metier mcp`, as a client's configuration starts it."""
        return StdioServerParameters(
            command=str(Path(sys.executable).with_name("metier")),
            args=["mcp", *args],
            env={**self.machine.environ, "PATH": "/usr/bin:/bin", **environ},
            cwd=str(self.machine.project),
        )


@asynccontextmanager
async def over(out: Any, back: Any) -> AsyncGenerator[Any]:
    """The client's end of two pipes."""
    to_client, incoming = anyio.create_memory_object_stream[Any](0)
    outgoing, from_client = anyio.create_memory_object_stream[Any](0)

    async def take_in() -> None:
        async with to_client:
            while line := await anyio.to_thread.run_sync(back.readline):
                with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    await to_client.send(SessionMessage(jsonrpc_message_adapter.validate_json(line)))

    async def give_out() -> None:
        async for message in from_client:
            out.write(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take_in)
        tasks.start_soon(give_out)
        yield incoming, outgoing
        out.close()  # the server ends with its input
        for stream in (incoming, outgoing):
            await stream.aclose()
    await from_client.aclose()


def text_of(result: Any) -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")


class Person:
    """Who sits at a client, and what he says when he is asked."""

    def __init__(self, action: str = "accept", go_ahead: Any = True) -> None:
        self.answer = ElicitResult(
            action=action,  # type: ignore[arg-type]
            content={"go_ahead": go_ahead} if action == "accept" else None,
        )
        self.asked: list[str] = []
        self.before: Callable[[], None] = lambda: None

    async def __call__(self, ctx: Any, params: ElicitRequestParams) -> ElicitResult:
        self.asked.append(params.message)
        self.before()
        return self.answer


HELLO: Final = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "c", "version": "1"},
}
"""What the older generation says first."""
ENVELOPE: Final = {
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
}
"""What the newer one says with every request."""


async def asked(out: Any, back: Any, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """One request over lines, and its answer."""
    id = f"{method}-{time.monotonic_ns()}"
    out.write(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode() + b"\n")
    while (answer := await until_answered(back)).get("id") != id:
        pass
    return answer


async def until_answered(back: Any) -> dict[str, Any]:
    """The next line that the server writes."""
    with anyio.fail_after(15):
        line = await anyio.to_thread.run_sync(back.readline)
    assert line, "the server hung up"
    return json.loads(line)
