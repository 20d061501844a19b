"""What "for the session" means to a client over HTTP, and what the approver is told that it means."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from mcp_desk import Desk, text_of
from metier.catalog.here import owner
from metier.doors.mcp import session_of
from metier.gate.in_words import grant_lines, lines
from metier.model.role import ROLES
from metier.model.session import in_words, of_token
from metier.record.approvals import find
from metier.record.deciding import Decider, Undecided, decide
from metier.record.standing import proposed_grant

POURED = "poured green"


@asynccontextmanager
async def connected(url: str, token: str, mode: str) -> AsyncGenerator[Client]:
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode, cache=None) as client:  # type: ignore[arg-type]
            yield client


async def poured(client: Client) -> str:
    return text_of(await client.call_tool("tea__pour", {"text": "green"}))


def grant_for_the_session(desk: Desk) -> list[str]:
    """The operator's yes for the session to what waits; gives what he was shown of it, and of the grant."""
    waiting = next(each for each in desk.waiting() if each.state == "pending")
    by = Decider(id=owner(), kind="human", rights=ROLES["owner"])
    with desk.database() as database:
        asked = find(database, waiting.id)
        assert asked is not None and asked.shown is not None
        grant = proposed_grant(asked.shown, "session", approval=asked.id, by=owner())
        assert not isinstance(grant, str)
        made = decide(database, asked.id, by=by, decision="approve", scope="session", grant=grant)
    assert not isinstance(made, Undecided), made
    return [*lines(asked, 0.0), *grant_lines(grant)]


def run_twice(desk: Desk, first: str, second: str) -> tuple[str, str, list[str]]:
    """A grant for the session of one client; how its next call ends, and that of another client of the same token."""

    async def main() -> tuple[str, str, list[str]]:
        token = desk.token().text
        async with desk.served() as url:
            async with connected(url, token, first) as client:
                assert POURED not in await poured(client)
                told = await anyio.to_thread.run_sync(grant_for_the_session, desk)
                await poured(client)  # takes the approval itself
                again = await poured(client)
            async with connected(url, token, second) as client:
                return again, await poured(client), told

    return anyio.run(main)


def test_apr_34_a_grant_for_the_session_ends_with_the_session_of_the_client(desk: Desk) -> None:
    again, another, told = run_twice(desk, "legacy", "legacy")
    assert POURED in again
    assert POURED not in another
    assert "A person decides this" in another
    assert sum("one session of an MCP client" in line for line in told) == 2


def test_apr_34_a_client_without_sessions_does_not_inherit_that_of_another(desk: Desk) -> None:
    again, another, _ = run_twice(desk, "legacy", "2026-07-28")
    assert POURED in again
    assert POURED not in another


def test_where_the_protocol_has_no_session_the_token_is_it_and_the_approver_is_told_so(desk: Desk) -> None:
    again, another, told = run_twice(desk, "2026-07-28", "2026-07-28")
    assert POURED in again
    assert POURED in another
    assert sum("no session that ends: every call with this token" in line for line in told) == 2


def test_apr_34_a_client_of_the_newer_protocol_cannot_name_a_session_that_it_was_given_none_of() -> None:
    def session(**headers: str) -> str:
        return session_of.session_in(
            [(name.replace("_", "-").encode(), of.encode()) for name, of in headers.items()]
        )

    assert session(mcp_session_id="one") == "one"
    assert session(mcp_session_id="one", mcp_protocol_version="2025-11-25") == "one"
    assert session(mcp_session_id="one", mcp_protocol_version="2026-07-28") == ""
    assert session(mcp_session_id="one", mcp_protocol_version="whatever") == ""


def test_the_id_of_a_session_is_not_written_down(desk: Desk) -> None:
    made = session_of.connection_of("abc", "5f3e9c")
    assert "5f3e9c" not in made
    assert made != session_of.connection_of("abc", "5f3e9d") != session_of.connection_of("abd", "5f3e9d")
    assert session_of.connection_of("abc", "") == of_token("abc")


@pytest.mark.parametrize("session", ["", "telegram:17", "what/ever", "token:a/b"])
def test_a_session_of_another_kind_is_told_by_its_name(session: str) -> None:
    assert in_words(session) == session
