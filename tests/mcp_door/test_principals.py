"""Who speaks over standard input and output: an agent, always, and never more than the operator made it."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_desk import AGENT, Desk
from metier.catalog.here import owner
from metier.doors.mcp.stdio_principal import principal_of
from metier.errors import ConfigError
from metier.model.role import EXECUTE, READ_AUDIT, Registered
from metier.record.principals import add_principal, revoke_principal
from metier.record.tokens import revoke_token


def who(desk: Desk, id: str = "agent:mcp", token: str = "") -> Any:
    with desk.database() as database:
        return principal_of(database, id, token)


def test_without_a_name_it_is_the_built_in_agent_on_the_owners_behalf(desk: Desk) -> None:
    found = who(desk)
    assert (found.id, found.kind, found.on_behalf_of, found.scopes) == ("agent:mcp", "agent", owner(), None)


def test_a_registered_agent_can_be_named_and_nobody_else(desk: Desk) -> None:
    assert who(desk, AGENT).id == AGENT
    with desk.database() as database:
        ada = Registered(id="human:ada", kind="human", roles=frozenset({"operator"}))
        assert add_principal(database, ada, by=owner(), owner=owner()) == ""
    for id in (
        "human:ada",
        owner(),
        "agent:nobody",
        "skill:tea",
        "agent:brain/x",
        "agent:trigger/t",
        "*",
        "",
    ):
        with pytest.raises(ConfigError):
            who(desk, id)


def test_who_was_revoked_is_not_let_in(desk: Desk) -> None:
    for id in ("agent:mcp", AGENT):
        with desk.database() as database:
            assert revoke_principal(database, id, by=owner(), owner=owner()) == ""
        with pytest.raises(ConfigError, match="revoked"):
            who(desk, id)


def test_a_token_bounds_it_by_its_scopes_and_by_nothing_that_is_over(desk: Desk) -> None:
    token = desk.token(AGENT, frozenset({EXECUTE}))
    found = who(desk, "", token.text)
    assert (found.id, found.scopes, found.token) == (AGENT, {EXECUTE}, token.token.id)
    for text in (
        desk.token(owner()).text,
        desk.token(AGENT, frozenset({READ_AUDIT})).text,
        token.text + "0",
        "x",
    ):
        with pytest.raises(ConfigError):
            who(desk, "", text)
    with desk.database() as database:
        assert revoke_token(database, token.token.id, by=owner()) == ""
    with pytest.raises(ConfigError):
        who(desk, "", token.text)


def run(desk: Desk, *args: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    """`metier mcp` with an input that ends at once."""
    return subprocess.run(
        [str(Path(sys.executable).with_name("metier")), "mcp", *args],
        input="",
        capture_output=True,
        text=True,
        timeout=50,
        cwd=desk.machine.project,
        env={**desk.machine.environ, **environ},
    )


def test_the_command_says_why_it_does_not_serve_and_prints_nothing_that_is_no_message(desk: Desk) -> None:
    token = desk.token()
    for done, code in (
        (run(desk, "--as", owner()), 5),
        (run(desk, "--as", "agent:nobody"), 5),
        (run(desk, METIER_TOKEN="metier_0"), 5),
        (run(desk, "--as", AGENT, METIER_TOKEN=token.text), 2),
        (run(desk), 0),
    ):
        assert done.returncode == code, (done.returncode, done.stderr)
        assert done.stdout == "" and "Traceback" not in done.stderr and token.text not in done.stderr
        assert bool(done.stderr) == bool(code), done.stderr


@pytest.mark.slow
def test_a_token_in_the_environment_is_who_the_client_is_and_reaches_no_skill(desk: Desk) -> None:
    from mcp import Client

    token = desk.token()
    desk.write(
        "count.py",
        "import os\ndef main(params, context):\n    return {'words': len(os.environ.get('METIER_TOKEN', ''))}\n",
    )
    desk.trust()

    async def main() -> None:
        async with Client(desk.process(METIER_TOKEN=token.text), mode="legacy", cache=None) as client:
            done = await client.call_tool("tea__count", {})
            assert done.structured_content == {"words": 0}

    anyio.run(main)
    [ran] = [each for each in desk.records() if each.event == "skill_executed"]
    assert ran.principal == AGENT


def test_a_token_that_ends_while_its_client_is_connected_ends_all_it_sees_and_does(desk: Desk) -> None:
    token = desk.token()
    with desk.database() as database:
        bound = principal_of(database, "", token.text)
    desk.patch.setattr("mcp_desk.principal_of", lambda *given: bound)

    async def main() -> None:
        async with desk.client("lines", "legacy") as client:
            assert (await client.list_tools()).tools
            with desk.database() as database:
                assert revoke_token(database, token.token.id, by=owner()) == ""
            assert (await client.list_tools()).tools == []
            assert (await client.list_prompts()).prompts == []
            assert (await client.list_resources()).resources == []
            done = await client.call_tool("tea__count", {})
            assert done.is_error and "revoked" in done.content[0].text

    anyio.run(main)
