"""Tokens over HTTP and on the command line: made by people who may, shown once, and seen nowhere after that."""

import json
import logging
from typing import Any

import anyio
import pytest
from click.testing import CliRunner

from browser import browser, link_of, sign_in
from metier.catalog.here import owner
from metier.doors.cli import metier
from metier.doors.http import passwords
from metier.doors.http.whereabouts import FILE
from metier.model.role import APPROVE, EXECUTE, PRINCIPALS, READ_AUDIT, ROLES, SETTINGS, Registered
from metier.record.credentials import set_credential
from metier.record.principals import add_principal
from metier.record.verify import verify
from serve_kit import READ, WRITE, Premises

OWNER = owner()
PASSWORD = "correct horse battery"
WANTED: dict[str, Any] = {"principal": OWNER, "name": "ci", "scopes": [EXECUTE]}


def test_web_07_a_token_is_shown_once_and_lets_its_program_in(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, browser(house) as it:
            await sign_in(house, it)
            answer = await it.post("/api/v1/tokens", {**WANTED, "days": 7})
            assert answer.status_code == 201
            assert "no-store" in answer.headers["cache-control"]
            made = answer.json()
            async with house.client(made["text"]) as program:
                assert (await program.get("/api/v1/me")).json()["rights"] == [EXECUTE]
                assert (await program.post("/api/v1/calls", json=READ)).json()["outcome"] == "completed"
                listed = await it.get("/api/v1/tokens")
                assert made["text"] not in listed.text
                assert [each["state"] for each in listed.json()["tokens"]] == ["usable"]
                gone = await it.client.delete(f"/api/v1/tokens/{made['token']['id']}", headers=it.page)
                assert gone.status_code == 204
                assert (await program.get("/api/v1/me")).status_code == 401
            assert (await it.client.delete("/api/v1/tokens/ffffffffffff", headers=it.page)).status_code == 404

    anyio.run(main)
    assert verify(premises.path).ok


@pytest.mark.parametrize(
    "odd",
    [
        {"principal": "agent:nobody"},
        {"principal": "agent:host"},
        {"scopes": ["*"]},
        {"scopes": []},
        {"days": 0},
        {"days": 10_000},
        {"days": 1.5},
        {"name": ""},
        {"id": "abcdefabcdef"},
        {"expires_at": 9e15},
    ],
)
def test_cap_02_a_token_that_cannot_be_is_not_made(premises: Premises, odd: dict[str, Any]) -> None:
    async def main() -> None:
        async with premises.serving() as house, browser(house) as it:
            await sign_in(house, it)
            answer = await it.post("/api/v1/tokens", {**WANTED, **odd})
            assert answer.status_code in (403, 409, 422)
            assert (await it.get("/api/v1/tokens")).json() == {"tokens": []}
            assert (await it.post("/api/v1/tokens", WANTED)).status_code == 201

    anyio.run(main)


def test_cap_02_no_token_makes_another_and_nobody_without_the_right_sees_them(premises: Premises) -> None:
    """Who got hold of one cannot make himself a second that outlives it."""
    everything, few, agent = premises.owner(), premises.token(OWNER, EXECUTE), premises.agent()
    operator = premises.person("ada", "operator")

    async def main() -> None:
        async with premises.serving() as house:
            for token, status in ((everything, 403), (few, 403), (agent, 403), (operator, 403)):
                async with house.client(token) as client:
                    answer = await client.post("/api/v1/tokens", json=WANTED)
                    assert answer.status_code == status
                    listed = await client.get("/api/v1/tokens")
                    assert listed.status_code == (200 if token == everything else 403)
            async with house.client(everything) as client:
                assert (await client.post("/api/v1/tokens", json=WANTED)).json()["code"] == "needs_session"
                assert (await client.post("/api/v1/sign-out", json={})).status_code == 409
            async with browser(house) as it:
                await sign_in(house, it)
                assert (await it.post("/api/v1/tokens", WANTED)).status_code == 201

    anyio.run(main)


def test_sec_12_no_token_is_in_a_log_an_answer_or_a_file(
    premises: Premises, caplog: pytest.LogCaptureFixture
) -> None:
    token = premises.token(OWNER, *ROLES["owner"])
    caplog.set_level(logging.DEBUG, logger="metier")
    caplog.set_level(logging.DEBUG, logger="uvicorn")

    async def main() -> None:
        async with premises.serving() as house, house.client(token) as client:
            paths = ("me", "tokens", "tools", "calls", f"calls/{token}", "audit", "approvals", "nowhere")
            seen = [(await client.get(f"/api/v1/{path}")).text for path in paths]
            said = {"tool": "read_skill", "arguments": {"name": "writing-skills", "path": token}}
            seen.append((await client.post("/api/v1/calls", json=said)).text)
            seen.append((await client.post("/api/v1/calls", json={"tool": token, "arguments": {}})).text)
            # What was asked for may be repeated to who asked; what is kept of it is masked.
            assert token not in "".join(seen[:-2])

    anyio.run(main)
    assert token not in caplog.text
    for file in premises.machine.state.rglob("*"):
        assert not file.is_file() or token.encode() not in file.read_bytes(), file


def test_the_command_line_makes_lists_and_revokes(premises: Premises) -> None:
    run = CliRunner()
    premises.agent()
    made = run.invoke(metier, ["tokens", "add", "agent:bot", "--scope", EXECUTE, "--days", "7", "--json"])
    assert made.exit_code == 0, made.output
    token = json.loads(made.output)
    assert token["scopes"] == [EXECUTE]
    listed = run.invoke(metier, ["tokens", "list"])
    assert token["id"] in listed.output
    assert token["text"] not in listed.output

    async def main() -> None:
        async with premises.serving() as house, house.client(token["text"]) as client:
            assert (await client.get("/api/v1/me")).json()["principal"] == "agent:bot"
            gone = run.invoke(metier, ["tokens", "revoke", token["id"]])
            assert gone.exit_code == 0, gone.output
            assert (await client.get("/api/v1/me")).status_code == 401

    anyio.run(main)
    assert token["id"] not in run.invoke(metier, ["tokens", "list"]).output
    assert "revoked" in run.invoke(metier, ["tokens", "list", "--all"]).output
    assert run.invoke(metier, ["tokens", "revoke", "ffffffffffff"]).exit_code == 1
    for odd in (
        ["agent:bot"],
        ["agent:bot", "--scope", "everything"],
        ["agent:bot", "--scope", EXECUTE, "--days", "0"],
    ):
        assert run.invoke(metier, ["tokens", "add", *odd]).exit_code == 2
    assert run.invoke(metier, ["tokens", "add", "agent:host", "--scope", EXECUTE]).exit_code == 1
    assert run.invoke(metier, ["audit", "verify"]).exit_code == 0


def test_the_command_line_makes_another_link(premises: Premises) -> None:
    run = CliRunner()

    async def main() -> None:
        async with premises.serving() as house, browser(house) as it:
            made = run.invoke(metier, ["sign-in", "--at", house.door.url])
            assert made.exit_code == 0, made.output
            token = made.output.strip().partition("#token=")[2]
            assert (await it.post("/api/v1/sign-in/link", {"token": token})).status_code == 200
            assert await it.me() == 200
            assert await link_of(house) != token

    anyio.run(main)
    plain = run.invoke(metier, ["sign-in"])
    assert "No server of this state runs here" in plain.stderr
    assert plain.output.startswith("http://127.0.0.1:8765/#token=")
    assert run.invoke(metier, ["sign-in", "--at", "javascript:alert(1)"]).exit_code == 2


def test_cap_13_what_one_may_do_is_said_to_oneself_alone(premises: Premises) -> None:
    token = premises.token(OWNER, READ_AUDIT, PRINCIPALS)

    async def main() -> None:
        async with premises.serving() as house:
            async with house.client(token) as client:
                me = (await client.get("/api/v1/me")).json()
                assert me["rights"] == [READ_AUDIT, PRINCIPALS]
            async with house.client() as client:
                answer = await client.get("/api/v1/me")
                assert answer.status_code == 401
                assert OWNER not in answer.text

    anyio.run(main)


def test_apr_18_nobody_makes_himself_a_second_person_with_a_token(premises: Premises) -> None:
    """With four eyes, who asks and who approves are two. Whoever could make a token of another would be both."""
    premises.configured("[approvals]\nfour_eyes = true\n")
    premises.person("bea", "owner")
    premises.person("ada", "approver")
    premises.agent()  # the owner's
    with premises.opened() as database:
        id, body = "human:bea", passwords.hashed(PASSWORD)
        own = Registered(id="agent:hers", kind="agent", roles=frozenset({"agent"}), on_behalf_of=id)
        assert add_principal(database, own, by=OWNER, owner=OWNER) == ""
        assert set_credential(database, "password", name=id, principal=id, body=body, by=OWNER, owner=OWNER) == ""  # fmt: skip

    async def main() -> None:
        async with premises.serving() as house, browser(house) as bea, browser(house) as it:
            said = {"id": "human:bea", "password": PASSWORD}
            assert (await bea.post("/api/v1/sign-in/password", said)).status_code == 200
            for other in ("human:ada", OWNER, "agent:bot", "agent:cli"):
                wanted = {"principal": other, "name": "x", "scopes": [APPROVE, EXECUTE]}
                answer = await bea.post("/api/v1/tokens", wanted)
                assert (answer.status_code, answer.json()["code"]) == (403, "not_yours"), other
            made = {}
            for own in ("human:bea", "agent:hers"):
                answer = await bea.post("/api/v1/tokens", {**WANTED, "principal": own})
                assert answer.status_code == 201, answer.text
                made[own] = answer.json()["text"]
            async with house.client(made["agent:hers"]) as agent:
                asked = (await agent.post("/api/v1/calls", json=WRITE)).json()
            at = f"/api/v1/approvals/{asked['approval_id']}"
            yes = {"fingerprint": (await bea.get(at)).json()["fingerprint"]}
            assert (await bea.post(f"{at}/approve", yes)).json()["code"] == "own_request"
            await sign_in(house, it)
            assert (await it.post("/api/v1/tokens", {**WANTED, "principal": "human:ada"})).status_code == 403
            assert (await it.post("/api/v1/tokens", {**WANTED, "principal": "agent:bot"})).status_code == 201

    anyio.run(main)


def test_a_token_that_would_let_nobody_in_is_not_made(premises: Premises) -> None:
    premises.agent()
    run = CliRunner()
    made = run.invoke(metier, ["tokens", "add", "agent:bot", "--scope", SETTINGS])
    assert made.exit_code == 1
    assert "agent:bot has skills:execute" in made.output
    assert run.invoke(metier, ["tokens", "add", "agent:bot", "--scope", SETTINGS, "--scope", EXECUTE]).exit_code == 0  # fmt: skip

    async def main() -> None:
        async with premises.serving() as house, browser(house) as it:
            await sign_in(house, it)
            wanted = {"principal": "agent:bot", "name": "x", "scopes": [SETTINGS]}
            answer = await it.post("/api/v1/tokens", wanted)
            assert (answer.status_code, answer.json()["code"]) == (409, "no_token_made")

    anyio.run(main)


def test_web_07_a_link_is_to_the_server_that_runs_and_to_no_other_port(premises: Premises) -> None:
    """At the port of the file somebody else's program may be listening by now."""
    run = CliRunner()

    async def main() -> None:
        async with premises.serving() as house, browser(house) as it:
            made = run.invoke(metier, ["sign-in"])
            assert made.output.startswith(f"{house.door.url}/#token="), made.output
            assert made.stderr == ""
            token = made.output.strip().partition("#token=")[2]
            assert (await it.post("/api/v1/sign-in/link", {"token": token})).status_code == 200
            async with premises.serving():  # a second one takes nothing from the first
                assert run.invoke(metier, ["sign-in"]).output.startswith(f"{house.door.url}/#")
            assert run.invoke(metier, ["sign-in"]).output.startswith(f"{house.door.url}/#")

    anyio.run(main)
    (premises.machine.state / FILE).write_text("http://127.0.0.1:1")  # left by one that was killed
    for text in ("", "[serve]\nport = 9\n"):
        premises.configured(text)
        said = json.loads(run.invoke(metier, ["sign-in", "--json"]).stdout)
        assert said["link"].startswith("http://127.0.0.1:9/#" if text else "http://127.0.0.1:8765/#")
        assert said["running"] is False
    premises.configured("[serve]\nport = 0\n")
    assert run.invoke(metier, ["sign-in"]).exit_code == 2
