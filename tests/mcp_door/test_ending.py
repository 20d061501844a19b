"""How things end: requests with the right to make them, streams with the server, and what a connection leaves behind with the connection."""

import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp.server.connection import Connection

from mcp_desk import AGENT, ENVELOPE, HELLO, MODES, Desk, asked
from metier.catalog.here import owner
from metier.doors.mcp import http as module
from metier.record.calls import calls_under_way
from metier.record.principals import revoke_principal
from metier.record.tokens import Made, revoke_token

HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
SLOW = {"name": "tea__slow", "arguments": {}}


def headers(token: Made, method: str = "", name: str = "", session: str = "") -> dict[str, str]:
    made = {**HEADERS, "Authorization": f"Bearer {token.text}"}
    if session:
        return {**made, "MCP-Session-Id": session}
    return {
        **made,
        **({"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method} if method else {}),
        **({"Mcp-Name": name} if name else {}),
    }


def request(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 5, "method": method, "params": params}


def said(text: str) -> list[dict[str, Any]]:
    whole = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith(("data: {", "{"))]
    return [json.loads(each) for each in whole]


async def until(true: Callable[[], bool], seconds: float = 15.0) -> None:
    with anyio.fail_after(seconds):
        while not true():
            await anyio.sleep(0.05)


def begun(desk: Desk) -> int:
    with desk.database() as database:
        return len(calls_under_way(database))


def end_token(desk: Desk, token: Made) -> None:
    with desk.database() as database:
        assert revoke_token(database, token.token.id, by=owner()) == ""


def end_agent(desk: Desk, token: Made) -> None:
    with desk.database() as database:
        assert revoke_principal(database, AGENT, by=owner(), owner=owner()) == ""


async def opened(http: httpx2.AsyncClient, url: str, token: Made) -> str:
    hello = await http.post(url, headers=headers(token), json=request("initialize", HELLO))
    session = hello.headers["mcp-session-id"]
    told = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    await http.post(url, headers=headers(token, session=session), json=told)
    return session


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("end", [end_token, end_agent])
def test_cap_12_a_call_ends_with_the_token_it_was_made_with_and_its_client_is_told(
    desk: Desk, mode: str, end: Callable[[Desk, Made], None]
) -> None:
    token = desk.token()
    answers: list[Any] = []

    async def main() -> None:
        async with desk.served() as url, httpx2.AsyncClient(timeout=30) as http:
            shown, given = headers(token, "tools/call", "tea__slow"), {**SLOW, **ENVELOPE}
            if mode == "legacy":
                shown, given = headers(token, session=await opened(http, url, token)), SLOW

            async def call() -> None:
                answers.append(await http.post(url, headers=shown, json=request("tools/call", given)))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call)
                await until(lambda: begun(desk) == 1)
                end(desk, token)
                await until(lambda: begun(desk) == 0, 5)
                await until(lambda: bool(answers), 5)

    anyio.run(main)
    [answer] = answers
    [error] = [each["error"] for each in said(answer.text)]
    assert "ended before it was done" in error["message"] and "revoked" in error["message"]
    [ended] = [each for each in desk.records() if each.event == "skill_execution_error"]
    assert (ended.tool, ended.code) == ("tea/slow", "interrupted")


def test_cap_12_a_call_whose_client_is_gone_ends_with_its_token_too(desk: Desk) -> None:
    """In the older generation a call outlives the request that made it, so nobody waits who could be asked."""
    token = desk.token()

    async def main() -> None:
        async with desk.served() as url, httpx2.AsyncClient(timeout=30) as http:
            shown = headers(token, session=await opened(http, url, token))
            async with anyio.create_task_group() as tasks:

                async def call() -> None:
                    await http.post(url, headers=shown, json=request("tools/call", SLOW))

                tasks.start_soon(call)
                await until(lambda: begun(desk) == 1)
                tasks.cancel_scope.cancel()
            await anyio.sleep(0.5)
            assert begun(desk) == 1, "control: going away alone does not end it"
            end_token(desk, token)
            await until(lambda: begun(desk) == 0, 5)

    anyio.run(main)


@pytest.mark.parametrize("mode", MODES)
def test_cap_12_a_call_over_lines_ends_when_its_agent_is_revoked(desk: Desk, mode: str) -> None:
    answers: list[dict[str, Any]] = []

    async def main() -> None:
        async with desk.lines() as (out, back):
            given = SLOW if mode == "legacy" else {**SLOW, **ENVELOPE}
            if mode == "legacy":
                await asked(out, back, "initialize", HELLO)

            async def call() -> None:
                answers.append(await asked(out, back, "tools/call", given))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call)
                await until(lambda: begun(desk) == 1)
                with desk.database() as database:
                    assert revoke_principal(database, AGENT, by=owner(), owner=owner()) == ""
                await until(lambda: bool(answers), 6)

    anyio.run(main)
    assert "revoked" in answers[0]["error"]["message"] and begun(desk) == 0


def test_a_client_that_listens_is_told_when_the_server_ends_and_holds_nobody_up(desk: Desk) -> None:
    token, heard = desk.token(), [""]
    given = {**ENVELOPE, "notifications": {"toolsListChanged": True}}
    took = 0.0

    async def main() -> None:
        nonlocal took
        async with httpx2.AsyncClient(timeout=30) as http, anyio.create_task_group() as tasks:
            async with desk.served() as url:

                async def listen() -> None:
                    shown = headers(token, "subscriptions/listen")
                    asks = request("subscriptions/listen", given)
                    async with http.stream("POST", url, headers=shown, json=asks) as stream:
                        async for text in stream.aiter_text():
                            heard[0] += text

                tasks.start_soon(listen)
                await until(lambda: "acknowledged" in heard[0])
                began = time.monotonic()
            took = time.monotonic() - began

    anyio.run(main)
    assert took < 5, took
    assert said(heard[0])[-1]["result"]["resultType"] == "complete"


def test_however_many_sessions_are_opened_at_once_one_token_has_so_many(desk: Desk) -> None:
    desk.patch.setattr(module, "MOST_SESSIONS_OF_ONE", 4)
    token, other = desk.token(), desk.token("agent:mcp")
    codes: list[int] = []

    async def main() -> None:
        limits = httpx2.Limits(max_connections=50)
        async with desk.served() as url, httpx2.AsyncClient(timeout=30, limits=limits) as http:

            async def hello() -> None:
                made = await http.post(url, headers=headers(token), json=request("initialize", HELLO))
                codes.append(made.status_code)

            async with anyio.create_task_group() as tasks:
                for _ in range(16):
                    tasks.start_soon(hello)
            await hello()
            made = await http.post(url, headers=headers(other), json=request("initialize", HELLO))
            assert made.status_code == 200, "another token has its own"

    anyio.run(main)
    assert sorted(codes) == [200] * 4 + [429] * 13


def test_who_says_again_and_again_that_he_is_there_is_there_once(desk: Desk) -> None:
    again = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'

    async def main() -> None:
        async with desk.lines() as (out, back):
            await asked(out, back, "initialize", HELLO)
            await anyio.to_thread.run_sync(out.write, again * 300)
            await asked(out, back, "ping", {})
            await anyio.sleep(0.2)
            kept = [
                len(each.exit_stack._exit_callbacks)
                for each in gc.get_objects()
                if isinstance(each, Connection) and each.initialized.is_set()
            ]
            assert max(kept) == 1, kept

    anyio.run(main)


def test_a_question_whose_client_is_gone_holds_no_place(desk: Desk) -> None:
    """In the older generation nobody can be told the answer then, so there is nobody to wait for."""
    desk.patch.setattr("metier.doors.mcp.calls._MOST_AT_ONCE", 2)
    token = desk.token()
    hello = {**HELLO, "capabilities": {"elicitation": {}}}

    async def main() -> None:
        async with desk.served() as url, httpx2.AsyncClient(timeout=30) as http:
            made = await http.post(url, headers=headers(token), json=request("initialize", hello))
            shown = headers(token, session=made.headers["mcp-session-id"])
            await http.post(
                url, headers=shown, json={"jsonrpc": "2.0", "method": "notifications/initialized"}
            )

            async def ask(id: int) -> None:
                brew = {**request("tools/call", {"name": "tea__brew", "arguments": {}}), "id": id}
                async with http.stream("POST", url, headers=shown, json=brew) as stream:
                    async for text in stream.aiter_text():
                        if "elicitation/create" in text:
                            return

            for id in range(3):
                await ask(id)
            await anyio.sleep(0.5)
            count = {**request("tools/call", {"name": "tea__count", "arguments": {}}), "id": 99}
            [answer] = said((await http.post(url, headers=shown, json=count)).text)
            assert answer["result"]["structuredContent"] == {"words": 0}

    anyio.run(main)


def started(desk: Desk) -> "subprocess.Popen[bytes]":
    """`metier mcp`, as a client starts it, once it answers."""
    process = subprocess.Popen(
        [str(Path(sys.executable).with_name("metier")), "mcp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=desk.machine.project,
        env={**desk.machine.environ, "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
        bufsize=0,
    )
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(json.dumps(request("initialize", HELLO)).encode() + b"\n")
    assert b"serverInfo" in process.stdout.readline()
    return process


@pytest.mark.parametrize(
    ("told", "code"),
    [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)],
    ids=["terminated", "hung up", "interrupted"],
)
def test_told_to_go_it_goes_though_its_client_stays(desk: Desk, told: signal.Signals, code: int) -> None:
    """The client keeps its end open, so that a line may still come."""
    with started(desk) as process:
        assert process.stdin is not None and process.stderr is not None
        call = request("tools/call", SLOW)
        process.stdin.write(json.dumps(call).encode() + b"\n")
        anyio.run(until, lambda: begun(desk) == 1)
        process.send_signal(told)
        try:
            assert process.wait(8) == code
        finally:
            process.kill()
        assert b"Traceback" not in (said := process.stderr.read()), said
    assert begun(desk) == 0


def test_told_to_go_it_goes_though_nobody_reads_what_it_says(desk: Desk) -> None:
    with started(desk) as process:
        assert process.stdin is not None and process.stderr is not None
        lists = (json.dumps({**request("tools/list", {}), "id": each}).encode() + b"\n" for each in range(60))
        process.stdin.write(b"".join(lists))  # more in answer than a pipe holds
        time.sleep(2)
        process.send_signal(signal.SIGTERM)
        try:
            assert process.wait(12) == 143
        finally:
            process.kill()
        assert b"Traceback" not in (said := process.stderr.read()) and b"Fatal" not in said, said


def test_it_goes_when_nobody_hears_it_any_more_though_its_input_stays_open(desk: Desk) -> None:
    with started(desk) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdout.close()
        process.stdin.write(json.dumps({**request("ping", {}), "id": 7}).encode() + b"\n")
        try:
            assert process.wait(8) == 0
        finally:
            process.kill()
