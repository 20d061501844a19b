"""Calls over HTTP: the gate's word is the answer, nothing runs twice for one key, and who goes away takes his call along."""

import json
import time
from pathlib import Path
from typing import Any

import anyio
import pytest

from metier.catalog.here import owner
from metier.model.job import Job, Report
from metier.record.audit import AuditLog
from metier.record.principals import revoke_principal
from metier.record.tokens import revoke_token
from serve_kit import READ, WRITE, Premises


@pytest.fixture
def premises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Premises:
    return Premises(tmp_path, monkeypatch)


def events(premises: Premises, call_id: str) -> list[str]:
    with premises.opened() as database:
        return [each.event for each in AuditLog(database).tail(100, call_id=call_id)]


def test_a_call_is_answered_with_how_it_ended_and_stands_on_the_record(premises: Premises) -> None:
    agent = premises.agent()

    async def main() -> None:
        async with premises.serving() as house, house.client(agent) as client:
            done = await client.post("/api/v1/calls", json=READ)
            assert (done.status_code, done.json()["outcome"]) == (200, "completed")
            call_id = done.json()["call_id"]
            state = (await client.get(f"/api/v1/calls/{call_id}")).json()
            assert (state["state"], state["principal"], state["tool"]) == (
                "completed",
                "agent:bot",
                "read_skill",
            )
            refused = (await client.post("/api/v1/calls", json={"tool": "no_such_tool"})).json()
            assert (refused["outcome"], refused["code"]) == ("refused", "unknown_tool")
            waits = await client.post("/api/v1/calls", json=WRITE)
            assert (waits.status_code, waits.json()["outcome"]) == (202, "pending")
            assert waits.headers["location"] == f"/api/v1/approvals/{waits.json()['approval_id']}"
            state = (await client.get(f"/api/v1/calls/{waits.json()['call_id']}")).json()
            assert (state["state"], state["approval"]) == ("pending", waits.json()["approval_id"])
            assert events(premises, call_id) == ["skill_execution_started", "skill_executed"]

    anyio.run(main)


def test_cap_01_what_a_client_says_about_itself_is_thrown_away_or_refused(premises: Premises) -> None:
    agent = premises.agent()
    said = {"principal": owner(), "roles": ["owner"], "_ctx": {"actor": owner(), "kernel_cap": "x"}}

    async def main() -> None:
        async with premises.serving() as house, house.client(agent) as client:
            for name, value in said.items():
                assert (await client.post("/api/v1/calls", json={**READ, name: value})).status_code == 422
                assert (await client.post(f"/api/v1/calls?{name}=x", json=READ)).status_code == 400
                headers = {
                    f"x-metier-{name.strip('_')}": str(value),
                    "x-principal": owner(),
                    "x-role": "owner",
                }
                done = (await client.post("/api/v1/calls", json=READ, headers=headers)).json()
                with premises.opened() as database:
                    records = AuditLog(database).tail(5, call_id=done["call_id"])
                assert {each.principal for each in records} == {"agent:bot"}
                inside = {
                    "tool": "settings.set_skill",
                    "arguments": {"skill_id": "calendar", "patch": {}, name: value},
                }
                done = (await client.post("/api/v1/calls", json=inside)).json()
                assert done["outcome"] == "refused"

    anyio.run(main)


def test_cap_02_a_token_has_at_most_its_scopes_and_nobody_widens_them(premises: Premises) -> None:
    narrow = premises.token(owner(), "audit:read")

    async def main() -> None:
        async with (
            premises.serving() as house,
            house.client(narrow, **{"x-scopes": "skills:execute"}) as client,
        ):
            assert (await client.get("/api/v1/audit")).status_code == 200
            done = (await client.post("/api/v1/calls", json={**READ})).json()
            assert (done["outcome"], done["code"]) == ("refused", "forbidden")
            for path in ("approvals/apr_0123456789abcdef/approve", "approvals/apr_0123456789abcdef/deny"):
                assert (await client.post(f"/api/v1/{path}", json={"fingerprint": "x"})).status_code == 403
            assert (await client.post("/api/v1/tokens", json={})).status_code == 403

    anyio.run(main)


def test_cap_12_who_is_revoked_is_out_at_the_next_request(premises: Premises) -> None:
    agent, other = premises.agent(), premises.agent("other")

    async def main() -> None:
        async with premises.serving() as house, house.client(agent) as client, house.client(other) as second:
            assert (await client.post("/api/v1/calls", json=READ)).status_code == 200
            with premises.opened() as database:
                assert revoke_principal(database, "agent:bot", by=owner(), owner=owner()) == ""
                assert revoke_token(database, other.split("_")[1], by=owner()) == ""
            assert (await client.post("/api/v1/calls", json=READ)).status_code == 401
            assert (await second.post("/api/v1/calls", json=READ)).status_code == 401

    anyio.run(main)


def test_cap_13_what_is_somebody_elses_is_not_there(premises: Premises) -> None:
    one, two, me = premises.agent("one"), premises.agent("two"), premises.owner()

    async def main() -> None:
        async with premises.serving() as house, house.client(one) as first, house.client(two) as second:
            made = (await first.post("/api/v1/calls", json=WRITE)).json()
            call, approval = made["call_id"], made["approval_id"]
            paths = (f"calls/{call}", f"approvals/{approval}")
            unknown = await second.get("/api/v1/approvals/apr_0123456789abcdef01234567")
            for path in paths:
                assert (await first.get(f"/api/v1/{path}")).status_code == 200
                hidden = await second.get(f"/api/v1/{path}")
                assert (hidden.status_code, hidden.text) == (404, unknown.text)
            assert (await second.post(f"/api/v1/approvals/{approval}/take-up", json={})).status_code == 404
            assert (await second.post(f"/api/v1/calls/{call}/cancel")).status_code == 404
            assert (await second.get("/api/v1/approvals")).json() == {"approvals": []}
            mine = (await first.get("/api/v1/approvals")).json()["approvals"]
            assert [each["id"] for each in mine] == [approval]
            assert mine[0]["shown"] is None and mine[0]["fingerprint"] == ""
            async with house.client(me) as person:
                assert (await person.get(f"/api/v1/approvals/{approval}")).json()["shown"][
                    "tool"
                ] == "fs_write/execute"

    anyio.run(main)


def test_the_record_settings_and_others_tokens_are_not_for_agents(premises: Premises) -> None:
    agent = premises.agent()

    async def main() -> None:
        async with premises.serving() as house, house.client(agent) as client:
            for path in ("audit", "audit/verify", "audit/records/1", "tokens"):
                assert (await client.get(f"/api/v1/{path}")).status_code == 403, path
            done = (await client.patch("/api/v1/settings/calendar", json={"patch": {"a": 1}})).json()
            assert (done["outcome"], done["code"]) == ("refused", "forbidden")
            assert (await client.get("/api/v1/settings/calendar")).json()["outcome"] != "completed"

    anyio.run(main)


# --- once for each key


def test_the_same_key_gets_the_same_answer_and_nothing_runs_twice(premises: Premises) -> None:
    agent, other = premises.agent(), premises.agent("other")
    key = {"idempotency-key": '"one"'}

    async def main() -> None:
        async with premises.serving() as house, house.client(agent) as client, house.client(other) as second:
            first = await client.post("/api/v1/calls", json=READ, headers=key)
            again = await client.post("/api/v1/calls", json=READ, headers=key)
            assert again.headers["idempotency-replayed"] == "true"
            assert (again.status_code, again.content) == (first.status_code, first.content)
            assert events(premises, first.json()["call_id"]) == ["skill_execution_started", "skill_executed"]
            # Another request under it, and another's key of the same name.
            assert (await client.post("/api/v1/calls", json=WRITE, headers=key)).status_code == 422
            theirs = await second.post("/api/v1/calls", json=READ, headers=key)
            assert theirs.json()["call_id"] != first.json()["call_id"]
            bare = await client.post("/api/v1/calls", json=READ, headers={"idempotency-key": "one"})
            assert bare.content == first.content
            for bad in ('""', '"a"b"', '"x', "'x'", "a b", f'"{"y" * 256}"'):
                answer = await client.post("/api/v1/calls", json=READ, headers={"idempotency-key": bad})
                assert (answer.status_code, answer.json()["code"]) == (400, "bad_idempotency_key"), bad

    anyio.run(main)


def test_a_key_whose_answer_was_lost_still_runs_nothing_twice(premises: Premises) -> None:
    agent = premises.agent()
    key = {"idempotency-key": '"one"'}

    async def main() -> None:
        async with premises.serving() as house, house.client(agent) as client:
            first = (await client.post("/api/v1/calls", json=READ, headers=key)).json()
            with house.door.doors.writing() as connection:
                connection.execute("UPDATE answer SET status = 0, body = x''")
            again = (await client.post("/api/v1/calls", json=READ, headers=key)).json()
            assert (again["outcome"], again["code"]) == ("refused", "already_begun")
            assert again["call_id"] == first["call_id"]

    anyio.run(main)


def slow(premises: Premises) -> anyio.Event:
    """From now on what runs in a sandbox takes until it is ended. Gives what is set once it began."""
    began = anyio.Event()

    async def report(job: Job) -> Report:
        began.set()
        await anyio.sleep(30)
        return Report(ending="returned", value={"success": True})

    premises.box._report = report
    return began


SHELL: dict[str, Any] = {"tool": "fs_read", "arguments": {"path": "memory/tea.md"}}
"""Something that runs in a sandbox without being asked about."""


def test_two_at_once_under_one_key_make_one_call(premises: Premises) -> None:
    agent = premises.agent()
    key = {"idempotency-key": '"one"'}

    async def main() -> None:
        began = slow(premises)
        async with (
            premises.serving() as house,
            house.client(agent) as client,
            anyio.create_task_group() as tasks,
        ):

            async def first() -> None:
                await client.post("/api/v1/calls", json=SHELL, headers=key)

            tasks.start_soon(first)
            with anyio.fail_after(5):
                await began.wait()
            second = await client.post("/api/v1/calls", json=SHELL, headers=key)
            assert (second.status_code, second.json()["code"]) == (409, "still_running")
            tasks.cancel_scope.cancel()

    anyio.run(main)


# --- ended from outside


def test_a_running_call_can_be_cancelled(premises: Premises) -> None:
    agent, other, me = premises.agent(), premises.agent("other"), premises.owner()

    async def main() -> None:
        began = slow(premises)
        async with (
            premises.serving() as house,
            house.client(agent) as client,
            house.client(other) as second,
            house.client(me) as person,
            anyio.create_task_group() as tasks,
        ):
            ended: list[Any] = []

            async def call() -> None:
                ended.append((await client.post("/api/v1/calls", json=SHELL)).json())

            tasks.start_soon(call)
            with anyio.fail_after(10):
                await began.wait()
                [running] = (await client.get("/api/v1/calls")).json()["calls"]
                assert (await second.get("/api/v1/calls")).json()["calls"] == []
                assert (await second.post(f"/api/v1/calls/{running['call_id']}/cancel")).status_code == 404
                assert (await person.post(f"/api/v1/calls/{running['call_id']}/cancel")).json()["cancelled"]
                while not ended:
                    await anyio.sleep(0.05)
            assert (ended[0]["outcome"], ended[0]["code"]) == ("failed", "interrupted")

    anyio.run(main)


async def running(client: Any, began: anyio.Event, tasks: Any, body: Any = None) -> str:
    """A call that runs, and its id."""

    async def call() -> None:
        await client.post("/api/v1/calls", json=body or SHELL)

    tasks.start_soon(call)
    with anyio.fail_after(10):
        await began.wait()
    [found] = (await client.get("/api/v1/calls")).json()["calls"]
    return str(found["call_id"])


def test_cap_02_a_token_cancels_what_its_scopes_let_it(premises: Premises) -> None:
    execute, keep = premises.token(owner(), "skills:execute"), premises.token(owner(), "audit:keep")
    agent, steer = premises.agent(), premises.token(owner(), "runtime:steer")

    async def main() -> None:
        async with (
            premises.serving() as house,
            house.client(execute) as client,
            house.client(keep) as keeper,
            house.client(steer) as brake,
            house.client(agent) as other,
        ):
            for caller in (client, other):
                async with anyio.create_task_group() as tasks:
                    call = await running(caller, slow(premises), tasks)
                    refused = await keeper.post(f"/api/v1/calls/{call}/cancel")
                    assert refused.status_code == 403, "both are his: one made it himself, one acts for him"
                    assert [
                        each["call_id"] for each in (await brake.get("/api/v1/calls")).json()["calls"]
                    ] == [call]
                    assert (await brake.post(f"/api/v1/calls/{call}/cancel")).json()["cancelled"]
            assert (await keeper.get("/api/v1/calls")).status_code == 403

    anyio.run(main)
    with premises.opened() as database:
        by = [each for each in AuditLog(database).tail(100) if each.event == "call_cancelled"]
    assert len(by) == 2
    assert all(each.token and each.token in steer for each in by), "the record says which token it was"


def test_a_client_that_goes_away_takes_its_call_with_it_unless_it_has_a_key(premises: Premises) -> None:
    agent = premises.agent()

    async def main() -> None:
        async with premises.serving() as house:
            for headers, ends in (({}, True), ({"idempotency-key": '"stays"'}, False)):
                began = slow(premises)
                async with house.client(agent) as client, anyio.create_task_group() as tasks:

                    async def call(client: Any = client, headers: Any = headers) -> None:
                        await client.post("/api/v1/calls", json=SHELL, headers=headers)

                    tasks.start_soon(call)
                    with anyio.fail_after(5):
                        await began.wait()
                    tasks.cancel_scope.cancel()
                async with house.client(agent) as client:
                    await anyio.sleep(0.5)
                    assert (len((await client.get("/api/v1/calls")).json()["calls"]) == 0) is ends

    anyio.run(main)


def test_a_client_that_goes_away_takes_a_providers_calls_with_it(premises: Premises) -> None:
    agent = premises.agent()
    asked = {
        "id": "t1",
        "type": "function",
        "function": {"name": "fs_read", "arguments": '{"path": "memory/tea.md"}'},
    }

    async def main() -> None:
        began = slow(premises)
        async with premises.serving() as house, house.client(agent) as looking:
            async with house.client(agent) as client, anyio.create_task_group() as tasks:

                async def handle() -> None:
                    await client.post("/api/v1/handle", json={"tool_calls": [asked]})

                tasks.start_soon(handle)
                with anyio.fail_after(10):
                    await began.wait()
                tasks.cancel_scope.cancel()
            with anyio.fail_after(10):
                while (await looking.get("/api/v1/calls")).json()["calls"]:
                    await anyio.sleep(0.05)

    anyio.run(main)


def test_a_module_says_which_right_the_gate_will_ask_for(premises: Premises) -> None:
    me = premises.owner()

    async def main() -> None:
        async with premises.serving() as house, house.client(me) as client:
            found = (await client.get("/api/v1/modules")).json()["operations"]
        rights = {each["name"]: each["permission"] for each in found}
        assert rights["schedules.create"] == rights["triggers.create"] == "skills:trust"
        assert rights["settings.set_skill"] == "settings:write"

    anyio.run(main)


def test_the_end_of_the_server_hands_back_what_runs_and_what_waits(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    from metier.doors.http import server

    monkeypatch.setattr(server, "GRACE_SECONDS", 1)
    agent = premises.agent()
    answers: dict[str, Any] = {}

    async def main() -> None:
        began = slow(premises)

        async def call(house: Any, name: str, body: Any) -> None:
            try:
                async with house.client(agent) as client:
                    answers[name] = (await client.post("/api/v1/calls", json=body)).json()
            except Exception as error:  # noqa: BLE001  the connection may end
                answers[name] = error

        async with anyio.create_task_group() as tasks:
            async with premises.serving() as house:
                tasks.start_soon(call, house, "waits", {**WRITE, "wait": 100})
                tasks.start_soon(call, house, "runs", SHELL)
                with anyio.fail_after(10):
                    await began.wait()
                    async with house.client(agent) as client:
                        while not (await client.get("/api/v1/approvals")).json()["approvals"]:
                            await anyio.sleep(0.05)
                left = time.monotonic()
            assert time.monotonic() - left < 15
        assert answers["waits"]["outcome"] == "pending"
        assert (answers["runs"]["status"], answers["runs"]["code"]) == (503, "ending"), answers["runs"]
        assert "interrupted" in answers["runs"]["remedy"]
        with premises.opened() as database:
            assert AuditLog(database).open_intents() == []
            last = AuditLog(database).tail(1)[0]
            assert (last.event, last.call_id) == ("skill_execution_error", answers["runs"]["call_id"])

    anyio.run(main)


def test_a_providers_tool_calls_are_answered_in_its_own_shape(premises: Premises) -> None:
    agent = premises.agent()
    asked = {
        "id": "t1",
        "type": "function",
        "function": {"name": "read_skill", "arguments": '{"name": "writing-skills"}'},
    }

    async def main() -> None:
        async with premises.serving() as house, house.client(agent) as client:
            tools = (await client.get("/api/v1/tools", params={"shape": "openai"})).json()["tools"]
            assert "read_skill" in [each["function"]["name"] for each in tools]
            for body in (
                {"tool_calls": [asked]},
                {"tool_calls": {"role": "assistant", "tool_calls": [asked]}},
            ):
                [answer] = (await client.post("/api/v1/handle", json=body)).json()["messages"]
                assert (answer["role"], answer["tool_call_id"]) == ("tool", "t1")
                assert "Writing skills" in answer["content"]
            assert (await client.post("/api/v1/handle", json={})).status_code == 422

    anyio.run(main)


def test_a_providers_tool_calls_wait_for_a_word_as_long_as_they_are_told_to(premises: Premises) -> None:
    premises.box._report = Report(ending="returned", value={"success": True, "outputs": {}})
    agent, ann = premises.agent(), premises.person("ann", "approver")
    function = {"name": "fs_write", "arguments": json.dumps(WRITE["arguments"])}
    asked = [{"id": "t1", "type": "function", "function": function}]

    async def main() -> None:
        async with premises.serving() as house, house.client(agent) as client, house.client(ann) as person:
            [waits] = (await client.post("/api/v1/handle", json={"tool_calls": asked})).json()["messages"]
            assert "pending_approval" in waits["content"], "the control: without it nobody waits"
            answers: list[Any] = []

            async def handle() -> None:
                body = {"tool_calls": asked, "wait": 60}
                answers.append((await client.post("/api/v1/handle", json=body)).json()["messages"])

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(handle)
                with anyio.fail_after(20):
                    while True:
                        found = (await person.get("/api/v1/approvals")).json()["approvals"]
                        if here := [each for each in found if each["waited_for"]]:
                            break
                        await anyio.sleep(0.05)
                path = f"/api/v1/approvals/{here[0]['id']}/approve"
                said = await person.post(path, json={"fingerprint": here[0]["fingerprint"]})
                assert said.json()["state"] == "approved", said.json()
            [[done]] = answers
            assert "pending_approval" not in done["content"] and len(premises.box.jobs) == 1, done

    anyio.run(main)
