"""MCP over HTTP: who is let in, as whom, and for how long."""

import json
from collections.abc import Awaitable, Callable
from itertools import product
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from mcp_desk import AGENT, MODES, Desk, text_of
from metier.catalog.here import owner
from metier.doors.mcp import http as module
from metier.model.role import EXECUTE, READ_AUDIT, Registered
from metier.record.principals import add_principal
from metier.record.tokens import revoke_token

PATH = "/mcp"
HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "c", "version": "1"},
    },
}


def asking(desk: Desk, act: Callable[[httpx2.AsyncClient], Awaitable[Any]]) -> Any:
    """Do something with plain requests to /mcp."""

    async def main() -> Any:
        async with (
            desk.served() as url,
            httpx2.AsyncClient(base_url=url.removesuffix(PATH), headers=HEADERS, timeout=20) as http,
        ):
            return await act(http)

    return anyio.run(main)


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


def post(http: httpx2.AsyncClient, message: Any, **headers: str) -> Any:
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return http.post(PATH, content=body, headers=headers)


def said(answer: Any) -> dict[str, Any]:
    text = answer.text
    if "data: " in text:
        text = next(line[6:] for line in text.splitlines() if line.startswith("data: {"))
    return json.loads(text)


def test_web_21_only_a_token_of_ours_lets_anybody_in(desk: Desk) -> None:
    jwt = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJodW1hbjp1aWQtMCIsImF1ZCI6Im90aGVyIn0."
    revoked = desk.token()
    with desk.database() as database:
        assert revoke_token(database, revoked.token.id, by=owner()) == ""
    shown: list[dict[str, str]] = [
        {},
        {"Authorization": "Bearer"},
        bearer(jwt),
        bearer("metier_0123456789ab_" + "0" * 64),
        bearer(revoked.text),
        {"Authorization": "Basic " + desk.token().text},
        {"X-Api-Key": desk.token().text},
        {"MCP-Session-Id": "abc"},
    ]

    async def act(http: httpx2.AsyncClient) -> None:
        for method, headers in product(("GET", "POST", "DELETE"), shown):
            content = json.dumps(HELLO).encode() if method == "POST" else None
            answer = await http.request(method, PATH, content=content, headers=headers)
            assert answer.status_code == 401, (headers, answer.text)
            assert answer.headers["www-authenticate"] == "Bearer"
            assert "mcp-session-id" not in answer.headers
        control = await post(http, HELLO, **bearer(desk.token().text))
        assert control.status_code == 200

    asking(desk, act)


def test_a_token_in_the_address_is_none(desk: Desk) -> None:
    token = desk.token()

    async def act(http: httpx2.AsyncClient) -> None:
        for name in ("token", "access_token", "api_key"):
            answer = await http.post(f"{PATH}?{name}={token.text}", content=json.dumps(HELLO).encode())
            assert answer.status_code == 401

    asking(desk, act)


def test_a_token_of_a_persons_speaks_for_no_program(desk: Desk) -> None:
    """As a person he would be bound by roles alone, and could confirm his own calls."""
    with desk.database() as database:
        ada = Registered(id="human:ada", kind="human", roles=frozenset({"operator"}))
        assert add_principal(database, ada, by=owner(), owner=owner()) == ""
    tokens = [desk.token("human:ada"), desk.token(owner())]

    async def act(http: httpx2.AsyncClient) -> None:
        for token in tokens:
            answer = await post(http, HELLO, **bearer(token.text))
            assert answer.status_code == 403 and "person" in answer.json()["detail"]

    asking(desk, act)


def test_a_token_without_the_scope_to_use_skills_sees_nothing(desk: Desk) -> None:
    with desk.database() as database:
        agent = Registered(
            id="agent:viewer", kind="agent", on_behalf_of=owner(), roles=frozenset({"agent", "viewer"})
        )
        assert add_principal(database, agent, by=owner(), owner=owner()) == ""
    bounded = desk.token("agent:viewer", frozenset({READ_AUDIT}))
    control = desk.token("agent:viewer", frozenset({READ_AUDIT, EXECUTE}))

    async def act(http: httpx2.AsyncClient) -> None:
        assert (await post(http, HELLO, **bearer(bounded.text))).status_code == 403
        assert (await post(http, HELLO, **bearer(control.text))).status_code == 200

    asking(desk, act)


def test_cap_01_02_what_a_client_says_of_itself_is_thrown_away(desk: Desk) -> None:
    token = desk.token()
    me = {
        "_ctx": {"actor": owner(), "kernel_cap": "x"},
        "principal": owner(),
        "roles": ["owner"],
        "scopes": ["*"],
    }
    hello = json.loads(json.dumps(HELLO))
    hello["params"]["clientInfo"] = {"name": owner(), "version": "1", **me}
    hello["params"]["capabilities"]["experimental"] = me
    hello["params"]["_meta"] = me
    shown = {
        **bearer(token.text),
        "X-Forwarded-User": owner(),
        "X-Metier-Principal": owner(),
        "X-Forwarded-For": "127.0.0.1",
    }

    async def act(http: httpx2.AsyncClient) -> None:
        opened = await post(http, hello, **shown)
        session = {**shown, "MCP-Session-Id": opened.headers["mcp-session-id"]}
        await post(http, {"jsonrpc": "2.0", "method": "notifications/initialized"}, **session)
        call = {"name": "tea__count", "arguments": {"text": "one"}, "_meta": me, **me}
        done = said(
            await post(http, {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}, **session)
        )
        assert done["result"]["structuredContent"] == {"words": 1}
        operate = {"name": "settings.set", "arguments": {"_ctx": me["_ctx"]}, "_meta": me}
        for name in ("settings.set", "settings__set", "skills.enable", "approvals.approve"):
            tried = await post(
                http,
                {"jsonrpc": "2.0", "id": name, "method": "tools/call", "params": {**operate, "name": name}},
                **session,
            )
            assert said(tried)["result"]["isError"] is True, name

    asking(desk, act)
    calls = [each for each in desk.records() if each.call_id]
    assert {each.principal for each in calls} == {AGENT}
    assert [each.tool for each in calls if each.event == "skill_executed"] == ["tea/count"]


def test_web_20_an_act_waits_at_this_door_as_at_every_other(desk: Desk) -> None:
    async def main(mode: str) -> None:
        async with desk.client("http", mode) as client:
            assert '"error":"pending_approval"' in text_of(await client.call_tool("tea__pour", {}))

    for mode in MODES:
        anyio.run(main, mode)
    assert [each.state for each in desk.waiting()] == ["pending", "pending"]


def test_a_session_belongs_to_the_token_that_opened_it(desk: Desk) -> None:
    mine, his = desk.token(), desk.token()

    async def act(http: httpx2.AsyncClient) -> None:
        opened = await post(http, HELLO, **bearer(mine.text))
        session = {"MCP-Session-Id": opened.headers["mcp-session-id"]}
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        assert (await post(http, ping, **session, **bearer(his.text))).status_code == 404
        assert (await http.delete(PATH, headers={**session, **bearer(his.text)})).status_code == 404
        assert said(await post(http, ping, **session, **bearer(mine.text)))["result"] == {}
        assert (await http.delete(PATH, headers={**session, **bearer(mine.text)})).status_code == 200

    asking(desk, act)


def test_web_10_a_stream_ends_when_its_token_does(desk: Desk) -> None:
    token = desk.token()

    async def act(http: httpx2.AsyncClient) -> None:
        opened = await post(http, HELLO, **bearer(token.text))
        session = {**bearer(token.text), "MCP-Session-Id": opened.headers["mcp-session-id"]}
        async with http.stream("GET", PATH, headers=session, timeout=20) as stream:
            assert stream.status_code == 200
            with desk.database() as database:
                assert revoke_token(database, token.token.id, by=owner()) == ""
            with anyio.fail_after(10), pytest.raises(httpx2.HTTPError):
                async for _ in stream.aiter_bytes():
                    pass
        assert (await post(http, HELLO, **session)).status_code == 401

    asking(desk, act)


@pytest.mark.parametrize("last", ["x", "x" * 5_000])
def test_web_18_who_comes_back_gets_a_new_stream(desk: Desk, last: str) -> None:
    """Nothing is kept to be told again."""
    token = desk.token()

    async def act(http: httpx2.AsyncClient) -> None:
        opened = await post(http, HELLO, **bearer(token.text))
        session = {**bearer(token.text), "MCP-Session-Id": opened.headers["mcp-session-id"]}
        async with http.stream("GET", PATH, headers={**session, "Last-Event-ID": last}) as stream:
            assert stream.status_code == 200
            assert stream.headers["content-type"].startswith("text/event-stream")

    asking(desk, act)


BAD = (
    (b"garbage", -32700),
    (b'{"jsonrpc":"2.0","id":1,"id":1,"method":"ping"}', -32700),
    (b"[" * 50_000, -32700),
    (json.dumps([HELLO] * 100).encode(), -32600),
    (json.dumps({**HELLO, "id": True}).encode(), -32600),
    (json.dumps({**HELLO, "id": None}).encode(), -32600),
)


@pytest.mark.parametrize("version", [{}, {"MCP-Protocol-Version": "2026-07-28"}])
def test_web_19_what_is_no_message_opens_no_session(desk: Desk, version: dict[str, str]) -> None:
    token = desk.token()

    async def act(http: httpx2.AsyncClient) -> None:
        for body, code in BAD:
            answer = await post(http, body, **bearer(token.text), **version)
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, code)
            assert "mcp-session-id" not in answer.headers
        try:
            long = await post(http, b" " * (module.MOST_BYTES + 1), **bearer(token.text), **version)
        except httpx2.HTTPError:
            return  # it was hung up on while it still sent
        assert long.status_code == 413

    asking(desk, act)


def test_one_token_cannot_take_every_session_or_connection(desk: Desk) -> None:
    desk.patch.setattr(module, "MOST_SESSIONS_OF_ONE", 3)
    desk.patch.setattr(module, "MOST_REQUESTS", 2)
    greedy, other = desk.token(), desk.token("agent:mcp")

    async def act(http: httpx2.AsyncClient) -> None:
        opened = [await post(http, HELLO, **bearer(greedy.text)) for _ in range(4)]
        assert [each.status_code for each in opened] == [200, 200, 200, 429]
        assert opened[3].headers["retry-after"] == "1"
        ids = [each.headers["mcp-session-id"] for each in opened[:3]]
        async with anyio.create_task_group() as tasks:
            for id in ids[:2]:
                await tasks.start(_hold, http, {**bearer(greedy.text), "MCP-Session-Id": id})
            busy = await post(http, HELLO, **bearer(greedy.text))
            assert busy.status_code == 429 and busy.headers["retry-after"] == "1"
            assert (await post(http, HELLO, **bearer(other.text))).status_code == 200
            tasks.cancel_scope.cancel()

    asking(desk, act)


async def _hold(http: httpx2.AsyncClient, headers: dict[str, str], *, task_status: Any) -> None:
    async with http.stream("GET", PATH, headers=headers) as stream:
        assert stream.status_code == 200
        task_status.started()
        await anyio.sleep_forever()


def test_within_a_session_an_id_that_is_under_way_is_not_taken_again(desk: Desk) -> None:
    token = desk.token()

    async def act(http: httpx2.AsyncClient) -> None:
        opened = await post(http, HELLO, **bearer(token.text))
        session = {**bearer(token.text), "MCP-Session-Id": opened.headers["mcp-session-id"]}
        await post(http, {"jsonrpc": "2.0", "method": "notifications/initialized"}, **session)
        call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "tea__slow"}}
        async with anyio.create_task_group() as tasks:

            async def slow() -> None:
                await post(http, call, **session)

            tasks.start_soon(slow)
            with anyio.fail_after(20):
                while not [each for each in desk.records() if each.event == "skill_execution_started"]:
                    await anyio.sleep(0.05)
            again = await post(http, {**call, "id": "7"}, **session)
            assert again.status_code == 400 and "under way" in again.json()["error"]["message"]
            stop = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
            await post(http, stop, **session)

    asking(desk, act)


def test_other_methods_are_not_taken(desk: Desk) -> None:
    token = desk.token()

    async def act(http: httpx2.AsyncClient) -> None:
        for method in ("PUT", "PATCH", "OPTIONS", "HEAD"):
            answer = await http.request(method, PATH, headers=bearer(token.text))
            assert answer.status_code == 405 and answer.headers["allow"] == "GET, POST, DELETE"

    asking(desk, act)


def test_web_03_a_page_of_somebody_elses_is_refused_with_the_best_token(desk: Desk) -> None:
    token = desk.token()
    foreign = ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Host": "evil.example"})

    async def act(http: httpx2.AsyncClient) -> None:
        for shown, version in product(foreign, ({}, {"MCP-Protocol-Version": "2026-07-28"})):
            answer = await post(http, HELLO, **bearer(token.text), **version, **shown)
            assert answer.status_code in (403, 421), shown

    asking(desk, act)


def test_a_client_of_the_older_generation_is_told_that_its_token_is_over(desk: Desk) -> None:
    token = desk.token()

    async def main() -> None:
        async with (
            desk.served() as url,
            httpx2.AsyncClient(headers=bearer(token.text)) as http,
            Client(streamable_http_client(url, http_client=http), mode="legacy", cache=None) as client,
        ):
            assert (await client.list_tools()).tools
            with desk.database() as database:
                assert revoke_token(database, token.token.id, by=owner()) == ""
            with pytest.raises(MCPError):
                await client.list_tools()

    anyio.run(main)
