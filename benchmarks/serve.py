"""The HTTP server under load, beside a bare fastmcp server that answers the same tool that does nothing.

    python benchmarks/serve.py [--json] [--seconds 60] [--clients 200] [--peers PYTHON]

The servers are processes of their own, one at a time, and so is this one, which speaks to them over loopback: every client has one
connection and asks again as soon as it was answered. Metier's calls go through the whole gate and stand on the record before and after;
the other answers at once, without sessions and in plain JSON, which is the fastest it has. Then a thousand calls wait for an approval
and fifty a second are decided and taken up. What is lost or doubled is counted against the record, which is verified.

PYTHON is an interpreter with fastmcp (the extra `bench`); without one its figures are left out.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, NamedTuple

import anyio
from anyio.abc import SocketStream

AGENTS = 12
"""One may have a hundred requests waiting."""
PENDING = 1_000
A_SECOND = 50
WARM = 1.0
WAITED = 20
"""Calls that are waited for, for each way to decide."""
UNLIMITED = 1_000_000_000
BARE = """
import sys
from fastmcp import FastMCP
server = FastMCP("bare")
@server.tool
async def nothing(text: str, count: int = 0) -> dict:
    "Does nothing."
    return {"done": True}
server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), stateless_http=True, json_response=True,
           show_banner=False, log_level="error")
"""
ARGUMENTS = {"text": "what the tool is given", "count": 3}


class Load(NamedTuple):
    """What came of it."""

    answered: int
    failed: int
    a_second: float
    p50: float
    p95: float
    p99: float


# --- the server that is measured, in a process of its own


def serve(home: str, ready: int) -> None:
    """Metier's server, with two tools that do nothing: one at once, one after somebody was asked."""
    from msgspec import structs

    from metier.catalog.here import owner
    from metier.config.load import load
    from metier.doors.http.opening import open_door
    from metier.model.call import ApprovedCall
    from metier.model.entry import Operation
    from metier.model.outcome import Completed
    from metier.model.role import EXECUTE, ROLES, Registered
    from metier.model.skill import Tool
    from metier.record.principals import add_principal
    from metier.record.tokens import Made, add_token
    from metier.runtime import state
    from metier.runtime.engine import opened

    nothing = Tool(
        name="bench.nothing",
        description="Does nothing.",
        parameters={
            "type": "object",
            "properties": {"text": {"type": "string"}, "count": {"type": "integer"}},
            "required": ["text"],
            "additionalProperties": False,
        },
        effect="read",
        risk="low",
        minimum_trust="observe",
        entry=Operation(module="bench", operation="nothing"),
    )
    asked = structs.replace(
        nothing, name="bench.asked", effect="act", approval="always", minimum_trust="suggest"
    )
    state.OWN_TOOLS = {each.name: each for each in (nothing, asked)}  # type: ignore[misc]
    find = state.Operations.find

    async def done(approved: ApprovedCall) -> Completed:
        return Completed(call_id=approved.authorized.valid.call.id, value={"done": True})

    def found(self: Any, module: str, operation: str) -> Any:
        return done if module == "bench" else find(self, module, operation)

    state.Operations.find = found  # type: ignore[method-assign]

    def token(database: Any, principal: str, scopes: Any) -> str:
        made = add_token(
            database, principal=principal, name="bench", scopes=frozenset(scopes), expires_at=time.time() + 7_200,
            by=owner(), owner=owner(),
        )  # fmt: skip
        assert isinstance(made, Made), made
        return made.text

    async def main() -> None:
        async with opened(lambda: load(home=home, project=home), watch=False) as engine:
            database = engine.state.database
            agents = []
            for number in range(AGENTS):
                id = f"agent:bench-{number}"
                new = Registered(id=id, kind="agent", on_behalf_of=owner(), roles=frozenset({"agent"}))
                assert add_principal(database, new, by=owner(), owner=owner()) == ""
                agents.append(token(database, id, [EXECUTE]))
            async with open_door(engine, port=0, mcp=False) as door:
                told = {
                    "port": door.port,
                    "agents": agents,
                    "owner": token(database, owner(), ROLES["owner"]),
                }
                with os.fdopen(ready, "w") as line:
                    line.write(json.dumps(told))
                with anyio.open_signal_receiver(signal.SIGTERM) as signals:
                    async for _ in signals:
                        return

    anyio.run(main)


@contextmanager
def metier() -> Generator[tuple[int, dict[str, Any], str]]:
    """Its process, what it says about itself, and its state."""
    home = tempfile.mkdtemp(prefix="metier-serve-")
    state = os.path.join(home, ".metier")
    os.mkdir(state, 0o700)
    budgets = "".join(f"[budgets.{each}]\ncalls = {UNLIMITED}\n" for each in ("principal", "tool"))
    with open(os.path.join(state, "metier.toml"), "w", encoding="utf-8") as file:
        file.write(budgets)
    reading, writing = os.pipe()
    server = subprocess.Popen(
        [sys.executable, os.path.abspath(__file__), "--serve", state, "--ready", str(writing)],
        pass_fds=(writing,),
        env={**os.environ, "HOME": home},
    )
    os.close(writing)
    try:
        with os.fdopen(reading) as line:
            told = json.loads(line.read())
        yield server.pid, told, os.path.join(state, "state.db")
    finally:
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            server.kill()
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def bare(python: str) -> Generator[int]:
    """A bare fastmcp server; its port."""
    port = 20_000 + os.getpid() % 20_000
    server = subprocess.Popen([python, "-c", BARE, str(port)], stdout=subprocess.DEVNULL)
    try:
        yield port
    finally:
        server.terminate()
        server.wait(20)


# --- the clients


def request(path: str, body: Any, *, port: int, token: str = "") -> bytes:
    data = json.dumps(body).encode()
    more = f"Authorization: Bearer {token}\r\n" if token else ""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        f"Accept: application/json, text/event-stream\r\n{more}Content-Length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data


async def exchange(stream: SocketStream, data: bytes) -> tuple[int, bytes]:
    """One request and its answer, on a connection that stays."""
    await stream.send(data)
    got = b""
    while (end := got.find(b"\r\n\r\n")) < 0:
        got += await stream.receive(65_536)
    head = got[:end].lower()
    at = head.find(b"content-length:")
    length = int(head[at + 15 : head.find(b"\r\n", at) if head.find(b"\r\n", at) > 0 else None])
    body = got[end + 4 :]
    while len(body) < length:
        body += await stream.receive(65_536)
    return int(got[9:12]), body


async def loaded(port: int, clients: int, seconds: float, ask: Callable[[int], bytes], good: bytes) -> Load:
    """So many clients for so long."""
    took: list[float] = []
    failed = 0
    begin = time.perf_counter() + WARM
    end = begin + seconds

    async def client(number: int) -> None:
        nonlocal failed
        data = ask(number)
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            while (now := time.perf_counter()) < end:
                try:
                    status, body = await exchange(stream, data)
                except (anyio.EndOfStream, anyio.BrokenResourceError):
                    failed += 1
                    return
                if status != 200 or good not in body:
                    failed += 1
                if now >= begin:
                    took.append(time.perf_counter() - now)

    async with anyio.create_task_group() as tasks:
        for number in range(clients):
            tasks.start_soon(client, number)
    took.sort()
    return Load(
        answered=len(took),
        failed=failed,
        a_second=len(took) / seconds,
        p50=took[len(took) // 2],
        p95=took[int(len(took) * 0.95)],
        p99=took[int(len(took) * 0.99)],
    )


async def until_there(port: int, data: bytes) -> None:
    with anyio.fail_after(60):
        while True:
            try:
                async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                    if (await exchange(stream, data))[0] == 200:
                        return
            except (OSError, anyio.EndOfStream, anyio.BrokenResourceError):
                await anyio.sleep(0.1)


class Person:
    """Somebody with one connection at a time, and a new one where the old one was idle for too long."""

    def __init__(self, port: int, token: str) -> None:
        self._port, self._token = port, token
        self._stream: SocketStream | None = None
        self._turn = anyio.Lock()

    async def post(self, path: str, body: Any) -> Any:
        return await self._asked(request(path, body, port=self._port, token=self._token))

    async def get(self, path: str) -> Any:
        head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nAuthorization: Bearer {self._token}\r\n\r\n"
        return await self._asked(head.encode())

    async def _asked(self, data: bytes) -> Any:
        async with self._turn:
            if self._stream is None:
                self._stream = await anyio.connect_tcp("127.0.0.1", self._port)
            return json.loads((await exchange(self._stream, data))[1])

    async def aclose(self) -> None:
        if self._stream is not None:
            await self._stream.aclose()


async def approvals(told: dict[str, Any], seconds: float, path: str) -> dict[str, float]:
    """A thousand wait, fifty a second are decided and taken up; and how soon a call goes on that somebody waits for."""
    port, asked = told["port"], {"tool": "bench.asked", "arguments": ARGUMENTS}
    people = [Person(port, told["owner"]) for _ in range(8)]
    owner = people[0]
    agents = [Person(port, each) for each in told["agents"]]
    waiting: list[tuple[str, Person]] = []

    async def ask(agent: Person, many: int) -> None:
        for _ in range(many):
            made = await agent.post("/api/v1/calls", asked)
            assert made["outcome"] == "pending", made
            waiting.append((made["approval_id"], agent))

    async with anyio.create_task_group() as tasks:
        for agent in agents:
            tasks.start_soon(ask, agent, PENDING // len(agents) + 1)
    shown = {each["id"]: each["fingerprint"] for each in (await owner.get("/api/v1/approvals"))["approvals"]}
    ran, late, began = 0, 0.0, time.perf_counter()

    async def decide(number: int, approval: str, agent: Person) -> None:
        nonlocal ran, late
        due = began + number / A_SECOND
        await anyio.sleep(max(due - time.perf_counter(), 0))
        path = f"/api/v1/approvals/{approval}"
        body = {"fingerprint": shown[approval]}
        person = people[number % len(people)]
        yes, again = await person.post(f"{path}/approve", body), await owner.post(f"{path}/approve", body)
        assert yes.get("state") == "approved" and again.get("status") == 409, (yes, again)
        late = max(late, time.perf_counter() - due)
        done = [await agent.post(f"{path}/take-up", {}) for _ in range(2)]
        ran += sum(each.get("outcome") == "completed" for each in done)

    many = min(len(waiting), int(seconds * A_SECOND))
    async with anyio.create_task_group() as tasks:
        for number, (approval, agent) in enumerate(waiting[:many]):
            tasks.start_soon(decide, number, approval, agent)
    took = time.perf_counter() - began
    soon = [await waited(owner, agents[number % AGENTS], asked) for number in range(WAITED)]
    other = [await waited(owner, agents[number % AGENTS], asked, path) for number in range(WAITED)]
    for each in (*people, *agents):
        await each.aclose()
    return {
        "decided": many,
        "approved_runs": ran,
        "decided_a_second": many / took,
        "approval_latency_ms": statistics.median(soon) * 1_000,
        "approval_latency_worst_ms": max(soon) * 1_000,
        "approval_latency_elsewhere_ms": statistics.median(other) * 1_000,
        "approval_latency_elsewhere_worst_ms": max(other) * 1_000,
        "pending": len(waiting),
    }


async def waited(owner: Person, agent: Person, asked: dict[str, Any], path: str = "") -> float:
    """From the yes to the end of the call that waited for it. With `path`, this process says it to the state there."""
    ended: list[float] = []

    async def call() -> None:
        done = await agent.post("/api/v1/calls", {**asked, "wait": 30})
        assert done["outcome"] == "completed", done
        ended.append(time.perf_counter())

    known = {each["id"] for each in (await owner.get("/api/v1/approvals"))["approvals"]}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        new: list[Any] = []
        while not new or not new[0]["waited_for"]:
            await anyio.sleep(0.02)
            found = (await owner.get("/api/v1/approvals"))["approvals"]
            new = [each for each in found if each["id"] not in known]
        if path:
            await anyio.to_thread.run_sync(say_yes, path, new[0]["id"])
        else:
            body = {"fingerprint": new[0]["fingerprint"]}
            await owner.post(f"/api/v1/approvals/{new[0]['id']}/approve", body)
        said = time.perf_counter()
    return max(ended[0] - said, 0.0)


def say_yes(path: str, approval: str) -> None:
    from metier.catalog.here import owner
    from metier.model.role import ROLES
    from metier.record.database import Database
    from metier.record.deciding import Decider, decide

    with Database.open(path) as database:
        decide(
            database,
            approval,
            by=Decider(id=owner(), kind="human", rights=ROLES["owner"]),
            decision="approve",
        )


def memory(pid: int) -> float:
    """Of a process, in MB."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1_024


def recorded(path: str) -> dict[str, int]:
    """What the record says, which is verified first."""
    from metier.record.database import Database
    from metier.record.verify import verify

    found = verify(path)
    assert found.ok, found
    counts: dict[str, int] = {}
    with Database.look(path) as database, database.reading() as connection:
        for (body,) in connection.execute("SELECT body FROM audit"):
            record = json.loads(body)
            counts[f"{record['event']} {record.get('tool', '')}"] = (
                counts.get(f"{record['event']} {record.get('tool', '')}", 0) + 1
            )
    return counts


def measured(clients: int, seconds: float, python: str | None) -> dict[str, float]:
    made: dict[str, float] = {}
    with metier() as (pid, told, path):
        port = told["port"]

        def ask(number: int) -> bytes:
            call = {"tool": "bench.nothing", "arguments": ARGUMENTS}
            return request("/api/v1/calls", call, port=port, token=told["agents"][number % AGENTS])

        anyio.run(loaded, port, clients, 2.0, ask, b'"completed"')
        before, already = memory(pid), recorded(path).get("skill_executed bench.nothing", 0)
        load = anyio.run(loaded, port, clients, seconds, ask, b'"completed"')
        after = memory(pid)
        counts = recorded(path)
        made |= {
            "calls_a_second": load.a_second, "p50_ms": load.p50 * 1_000, "p95_ms": load.p95 * 1_000, "p99_ms": load.p99 * 1_000,
            "p95_over_p50": load.p95 / load.p50, "memory_mb": after, "memory_growth": after / before - 1,
        }  # fmt: skip
        ran = counts["skill_executed bench.nothing"] - already
        # Those of the first second are on the record too, and not among the measured.
        lost = load.failed + max(load.answered - ran, 0)
        lost += abs(counts["skill_execution_started bench.nothing"] - counts["skill_executed bench.nothing"])
        made |= anyio.run(approvals, told, min(seconds, PENDING / A_SECOND), path)
        counts = recorded(path)
        waited_for = 2 * WAITED
        lost += abs(counts["skill_executed bench.asked"] - int(made["approved_runs"]) - waited_for)
        lost += abs(int(made["decided"]) - int(made["approved_runs"]))
        made["lost"] = lost
        made["memory_growth_with_approvals"] = memory(pid) / before - 1
    if python:
        with bare(python) as port:
            call = {
                "jsonrpc": "2.0", "id": 1, "method": "tools/call",
                "params": {"name": "nothing", "arguments": ARGUMENTS},
            }  # fmt: skip
            data = request("/mcp", call, port=port)
            anyio.run(until_there, port, data)
            anyio.run(loaded, port, clients, 2.0, lambda number: data, b"done")
            other = anyio.run(loaded, port, clients, seconds, lambda number: data, b"done")
        assert not other.failed, other
        made |= {
            "fastmcp_a_second": other.a_second,
            "throughput_over_fastmcp": made["calls_a_second"] / other.a_second,
        }
    return made


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--peers", default="", help="an interpreter with fastmcp")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--ready", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve, given.ready)
        return
    python = given.peers or (sys.executable if _has_fastmcp() else "")
    made = measured(given.clients, given.seconds, python)
    if given.json:
        print(json.dumps(made))
        return
    for name, value in made.items():
        print(f"{name:32} {value:12.2f}")
    if not python:
        print("fastmcp is not installed here, so there is nothing beside it: --peers PYTHON")


def _has_fastmcp() -> bool:
    from importlib.util import find_spec

    return find_spec("fastmcp") is not None


if __name__ == "__main__":
    main()
