"""A token gives at most its scopes, whatever its principal may do: for the call, for what skills do inside it, and for what is taken
up later. Once it is over, nothing it began begins any more."""

import json
import time
from typing import Any

import anyio
import pytest
from anyio import to_thread
from msgspec.structs import replace

from browser import browser, sign_in
from metier.catalog.here import owner
from metier.gate import principals as standings
from metier.gate import situation as situations
from metier.gate.principals import by_token, standing, token_problem
from metier.kernel.host_line_announced import asked_by_record
from metier.kernel.host_line_words import Do
from metier.model.call import Principal
from metier.model.outcome import Pending, Refused
from metier.model.role import EXECUTE, READ_AUDIT, ROLES, TRUST
from metier.record.approvals import stored_call
from metier.record.audit import AuditLog
from metier.record.decider import Decider
from metier.record.deciding import decide
from metier.record.open_intent import OpenIntent
from metier.record.principals import revoke_principal
from metier.record.steering import steering
from metier.record.still import steering_problem
from metier.record.tokens import revoke_token, token_id
from metier.runtime import Runtime
from metier.runtime.inner import by_agent, by_skill
from serve_kit import READ, WRITE, House, Premises

OWNER = owner()


def test_cap_02_a_token_gives_what_its_scopes_and_its_principal_both_give() -> None:
    for scopes in (frozenset({EXECUTE}), frozenset({READ_AUDIT, TRUST}), ROLES["owner"]):
        human = Principal(id=OWNER, kind="human", scopes=scopes)
        assert standing(human, {}, OWNER).rights == scopes
        agent = Principal(id="agent:cli", kind="agent", on_behalf_of=OWNER, scopes=scopes)
        assert standing(agent, {}, OWNER).rights == scopes & {EXECUTE}
    for none in (frozenset[str](), frozenset({"*"}), frozenset({"skills:execute "})):
        nobody = standing(Principal(id=OWNER, kind="human", scopes=none), {}, OWNER)
        assert nobody.problem
        assert not nobody.rights
    assert standing(Principal(id=OWNER, kind="human"), {}, OWNER).rights == ROLES["owner"]


def test_cap_07_what_works_for_a_call_is_bound_by_what_binds_the_call() -> None:
    outer = Principal(id=OWNER, kind="human", scopes=frozenset({READ_AUDIT}), token="0123456789ab")
    for inner in (
        by_skill("calendar", outer),
        by_agent("helper", outer),
        by_skill("b", by_skill("a", outer)),
    ):
        assert (inner.scopes, inner.token) == (outer.scopes, outer.token)
        assert EXECUTE not in standing(inner, {}, OWNER).rights
        assert EXECUTE in standing(replace(inner, scopes=None, token=""), {}, OWNER).rights


def test_cap_02_nobody_says_more_of_himself_than_his_token(premises: Premises) -> None:
    text = premises.token(OWNER, EXECUTE)
    with premises.opened() as database:
        now = steering(database)
    found = by_token(text, now.tokens, now.principals, OWNER)
    assert found is not None
    assert found.scopes == {EXECUTE}
    assert token_problem(found, now.tokens) == ""
    for more in (None, ROLES["owner"], frozenset({EXECUTE, TRUST})):
        assert token_problem(replace(found, scopes=more), now.tokens)
    assert token_problem(replace(found, token="ffffffffffff"), now.tokens)


async def called(house: House, token: str, what: dict[str, Any]) -> Any:
    async with house.client(token) as client:
        return await client.post("/api/v1/calls", json=what)


def test_cap_02_a_call_without_the_scope_for_it_is_refused_at_the_gate(premises: Premises) -> None:
    able, unable = premises.token(OWNER, EXECUTE), premises.token(OWNER, *(ROLES["owner"] - {EXECUTE}))

    async def main() -> None:
        async with premises.serving() as house:
            assert (await called(house, able, READ)).json()["outcome"] == "completed"
            answer = await called(house, unable, READ)
            assert (answer.json()["outcome"], answer.json()["code"]) == ("refused", "forbidden")
            assert "lacks the scope 'skills:execute'" in answer.text
            # Nothing that a client sends gives it more.
            for more in ({"x-scopes": "skills:execute"}, {"x-metier-principal": OWNER}, {"x-roles": "owner"}):
                async with house.client(unable, **more) as client:
                    assert (await client.post("/api/v1/calls", json=READ)).json()["outcome"] == "refused"
            record = AuditLog(house.engine.state.database).tail(1)[0]
            assert record.token == token_id(unable)

    anyio.run(main)


def test_cap_12_a_token_that_is_over_is_out_at_the_next_request(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    revoked, expired, his = (
        premises.token(OWNER, EXECUTE),
        premises.token(OWNER, EXECUTE, seconds=600),
        premises.agent(),
    )

    async def main() -> None:
        async with premises.serving() as house:
            keeper, database = house.door.serving.gatekeeper, house.engine.state.database

            async def status(token: str) -> int:
                async with house.client(token) as client:
                    return (await client.get("/api/v1/me")).status_code

            async def known(token: str) -> Any:
                return await keeper.who([(b"authorization", f"Bearer {token}".encode())])

            found = [await known(each) for each in (revoked, expired, his)]
            assert [await to_thread.run_sync(keeper.still, each) for each in found] == [True] * 3
            assert await to_thread.run_sync(lambda: revoke_token(database, token_id(revoked), by=OWNER)) == ""
            assert (
                await to_thread.run_sync(
                    lambda: revoke_principal(database, "agent:bot", by=OWNER, owner=OWNER)
                )
                == ""
            )
            assert [await status(each) for each in (revoked, expired, his)] == [401, 200, 401]
            began = time.time
            monkeypatch.setattr(time, "time", lambda: began() + 601)
            assert await status(expired) == 401
            assert [await to_thread.run_sync(keeper.still, each) for each in found] == [False] * 3
            assert await keeper.rights(found[0]) == frozenset()

    anyio.run(main)


@pytest.mark.parametrize(
    "shown",
    [
        "",
        "Bearer",
        "Basic {}",
        "bearer  {}",
        "Bearer {}, Bearer {}",
        "Token {}",
        "{}",
        "Bearer {}x",
    ],
)
def test_web_12_what_is_no_token_lets_nobody_in(premises: Premises, shown: str) -> None:
    token = premises.token(OWNER, EXECUTE)

    async def main() -> None:
        async with premises.serving() as house:
            async with house.client(Authorization=shown.replace("{}", token)) as client:
                answer = await client.get("/api/v1/me")
                assert answer.status_code == (
                    200 if shown == "Bearer {} " else 401
                )  # a line may end in a space
                assert token not in answer.text
                assert answer.headers["www-authenticate"] == "Bearer"
            async with house.client() as client:
                lines = [("Authorization", f"Bearer {token}"), ("Authorization", f"Bearer {token}")]
                assert (await client.get("/api/v1/me", headers=lines)).status_code == 401
                assert (await client.get(f"/api/v1/me?access_token={token}")).status_code in (400, 401)

    anyio.run(main)


def test_where_a_token_is_shown_no_cookie_counts(premises: Premises) -> None:
    """A wrong token is not made good by a session, nor a session's rights by a token of few scopes."""
    token = premises.token(OWNER, READ_AUDIT)

    async def main() -> None:
        async with premises.serving() as house, browser(house) as it:
            await sign_in(house, it)
            me = (await it.get("/api/v1/me", authorization=f"Bearer {token}")).json()
            assert (me["by"], me["rights"]) == ("token", [READ_AUDIT])
            assert (await it.get("/api/v1/me", authorization="Bearer metier_x")).status_code == 401

    anyio.run(main)


async def pending(house: House, token: str) -> tuple[Runtime, Pending]:
    keeper = house.door.serving.gatekeeper
    identity = await keeper.who([(b"authorization", f"Bearer {token}".encode())])
    runtime = house.door.serving.runtime(identity)
    outcome = await runtime.call(WRITE["tool"], WRITE["arguments"])
    assert isinstance(outcome, Pending), outcome
    return runtime, outcome


def approve(house: House, approval: str) -> None:
    by = Decider(id=OWNER, kind="human", rights=ROLES["owner"])
    decided = decide(house.engine.state.database, approval, by=by, decision="approve")
    assert getattr(decided, "state", "") == "approved", decided


def revoke_it(house: House, token: str) -> str:
    return revoke_token(house.engine.state.database, token_id(token), by=OWNER)


@pytest.mark.parametrize("what", ["nothing", "revoked", "expired"])
def test_a_call_that_waits_is_taken_up_with_what_its_token_gives_then(
    premises: Premises, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    token = premises.agent()

    async def main() -> None:
        async with premises.serving() as house:
            _, waiting = await pending(house, token)
            await to_thread.run_sync(approve, house, waiting.approval_id)
            stored = await to_thread.run_sync(stored_call, house.engine.state.database, waiting.approval_id)
            assert stored is not None
            assert (stored.principal.token, stored.principal.scopes) == (
                token_id(token),
                frozenset({EXECUTE}),
            )
            if what == "revoked":
                assert await to_thread.run_sync(revoke_it, house, token) == ""
            if what == "expired":
                monkeypatch.setattr(standings, "time", _Later(3_700))
            outcome = await house.engine.resume(waiting.approval_id, of=None)
            if what == "nothing":
                assert not isinstance(outcome, Refused), outcome  # it ran
            else:
                assert isinstance(outcome, Refused)
                assert outcome.code == "forbidden"
                assert what in " ".join(outcome.reasons)

    anyio.run(main)


class _Later:
    """The clock that the gate reads, later; approvals keep to theirs."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def time(self) -> float:
        return time.time() + self._seconds


def test_without_the_token_in_the_stored_call_it_would_run_though_the_token_is_revoked(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the case above would be, if what was stored were an id alone."""
    token = premises.agent()
    monkeypatch.setattr(situations, "token_problem", lambda *_: "")

    async def main() -> None:
        async with premises.serving() as house:
            _, waiting = await pending(house, token)
            await to_thread.run_sync(approve, house, waiting.approval_id)
            assert await to_thread.run_sync(revoke_it, house, token) == ""
            # The intent's own transaction is the second to ask.
            outcome = await house.engine.resume(waiting.approval_id, of=None)
            assert not isinstance(outcome, Refused), outcome  # it ran

    anyio.run(main)


def test_a_token_that_is_revoked_between_judging_and_beginning_begins_nothing(premises: Premises) -> None:
    token = token_id(premises.token(OWNER, EXECUTE))
    with premises.opened() as database:
        judged = steering(database)
        with database.transaction() as connection:
            assert steering_problem(connection, judged, (OWNER,), token) is None
        assert revoke_token(database, token, by=OWNER) == ""
        with database.transaction() as connection:
            denied = steering_problem(connection, judged, (OWNER,), token)
            assert denied is not None
            assert denied.code == "forbidden"
            assert steering_problem(connection, judged, (OWNER,)) is None  # nobody else is held up by it


@pytest.mark.parametrize("token", ["", "0123456789ab"])
def test_cap_07_the_host_does_a_part_of_a_call_with_what_bound_the_call(token: str) -> None:
    found = OpenIntent(
        seq=1, call_id="call_1", tool="settings.get_skill", skill="", principal=OWNER, on_behalf_of="", token=token,
        scopes=frozenset({READ_AUDIT}) if token else None, session="", channel="", process="", digest="", key=b"",
    )  # fmt: skip
    asked = asked_by_record(found, Do(call_id="call_1", arguments={}))
    assert isinstance(asked, object)
    principal = asked.principal  # type: ignore[union-attr]
    assert (principal.token, principal.scopes) == (token, found.scopes)


def test_cap_02_a_models_tool_calls_are_never_a_persons(premises: Premises) -> None:
    """Nobody is asked about what a person does himself, so a model that had his token would be asked about nothing."""
    me, agent = premises.token(owner(), EXECUTE), premises.agent()
    function = {"name": "fs_write", "arguments": json.dumps(WRITE["arguments"])}
    body = {"tool_calls": [{"id": "t1", "type": "function", "function": function}]}

    async def main() -> None:
        async with premises.serving() as house, browser(house) as it:
            await sign_in(house, it)
            async with house.client(me) as person, house.client(agent) as model:
                for answer in (
                    await person.post("/api/v1/handle", json=body),
                    await it.post("/api/v1/handle", body),
                ):
                    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
                    assert "metier principals add" in answer.json()["remedy"]
                assert not premises.box.jobs
                [message] = (await model.post("/api/v1/handle", json=body)).json()["messages"]
                assert "apr_" in message["content"] and not premises.box.jobs

    anyio.run(main)
