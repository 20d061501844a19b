"""Keys over HTTP: who asks again learns how it ended, nothing runs twice, and nobody learns what he may not."""

import json
import os
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from machine import write_skill
from metier.catalog.here import owner
from metier.doors.http import idempotency
from metier.kernel.conversation_rows import New, take_in
from metier.kernel.store import Store
from metier.model.job import Job, Report
from metier.record.audit import AuditLog
from metier.record.principals import revoke_principal
from serve_kit import READ, WRITE, Premises

KEY = {"idempotency-key": '"one"'}
LOOK: dict[str, Any] = {"tool": "fs_read", "arguments": {"path": "memory/tea.md"}}
"""Something that runs in a sandbox without being asked about."""


@pytest.fixture
def premises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Premises:
    made = Premises(tmp_path, monkeypatch)
    made.box._report = Report(ending="returned", value={"success": True, "outputs": {}})
    return made


async def asked(client: Any, body: Any, **more: Any) -> Any:
    return await client.post("/api/v1/calls", json={**body, **more}, headers=KEY)


async def decide(client: Any, approval: str, word: str) -> None:
    shown = (await client.get(f"/api/v1/approvals/{approval}")).json()
    body = {"fingerprint": shown["fingerprint"]}
    assert (await client.post(f"/api/v1/approvals/{approval}/{word}", json=body)).status_code == 200


@pytest.mark.parametrize("lost", ["the answer", "the whole file"])
def test_a_call_that_ran_is_never_said_to_be_refused_because_it_was_asked_for_again(
    premises: Premises, lost: str
) -> None:
    agent = premises.agent()

    async def main() -> None:
        async with premises.serving() as house, house.client(agent) as client:
            first = (await asked(client, READ)).json()
            with house.door.doors.writing() as connection:
                connection.execute(
                    "UPDATE answer SET status = 0" if lost == "the answer" else "DELETE FROM answer"
                )
            assert (await asked(client, READ)).json()["code"] == "already_begun"
            state = (await client.get(f"/api/v1/calls/{first['call_id']}")).json()
            assert (state["state"], state["code"]) == ("completed", "")
            assert state["ended_at"]

    anyio.run(main)


def test_what_was_cut_off_stays_interrupted_however_often_it_is_asked_for(premises: Premises) -> None:
    agent = premises.agent()

    async def main() -> None:
        async with premises.serving() as house, house.client(agent) as client:
            first = (await asked(client, READ)).json()
            with house.door.doors.writing() as connection:
                connection.execute("UPDATE answer SET status = 0")
            with premises.opened() as database, database.transaction() as connection:
                # As a process leaves it that is killed meanwhile.
                [(seq,)] = connection.execute("SELECT max(seq) FROM begun").fetchall()
                connection.execute("DELETE FROM audit WHERE seq > ?", (seq,))
                connection.execute(
                    "INSERT INTO open_intent VALUES (?, ?, '1 2 3', '')", (seq, first["call_id"])
                )
            for _ in range(2):
                state = (await client.get(f"/api/v1/calls/{first['call_id']}")).json()
                assert state["state"] == "interrupted"
                assert (await asked(client, READ)).json()["code"] == "already_begun"

    anyio.run(main)


def test_cap_02_an_answer_is_not_given_to_a_token_that_may_not_make_the_call(premises: Premises) -> None:
    execute, other = premises.token(owner(), "skills:execute"), premises.token(owner(), "audit:read")
    third = premises.token(owner(), "skills:execute")

    async def main() -> None:
        async with (
            premises.serving() as house,
            house.client(execute) as client,
            house.client(other) as reader,
        ):
            first = await asked(client, READ)
            assert first.json()["outcome"] == "completed"
            for _ in range(2):
                refused = await asked(reader, READ)
                assert "idempotency-replayed" not in refused.headers
                assert (refused.json()["outcome"], refused.json()["code"]) == ("refused", "forbidden")
            async with house.client(third) as again:
                assert (await asked(again, READ)).content == first.content, "and the answer is still kept"

    anyio.run(main)


def test_cap_12_an_id_that_is_added_again_gets_no_answer_of_its_predecessors(premises: Premises) -> None:
    first = premises.agent()

    async def main() -> None:
        async with premises.serving() as house:
            async with house.client(first) as client:
                before = (await asked(client, READ)).json()
            with premises.opened() as database:
                assert revoke_principal(database, "agent:bot", by=owner(), owner=owner()) == ""
            second = premises.agent()
            async with house.client(second) as client:
                after = await asked(client, READ)
            assert "idempotency-replayed" not in after.headers
            assert after.json()["outcome"] == "completed"
            assert after.json()["call_id"] != before["call_id"]

    anyio.run(main)


@pytest.mark.parametrize("wait", [0, 30])
def test_the_key_of_a_call_that_waited_tells_how_it_ended(premises: Premises, wait: int) -> None:
    agent, ann = premises.agent(), premises.person("ann", "approver")

    async def main() -> None:
        async with premises.serving() as house, house.client(agent) as client, house.client(ann) as person:
            waits = await asked(client, WRITE)
            again = await asked(client, WRITE)
            assert (waits.status_code, again.status_code) == (202, 202)
            assert again.json()["approval_id"] == waits.json()["approval_id"], "nobody is asked twice"
            await decide(person, waits.json()["approval_id"], "approve")
            done = await asked(client, WRITE, wait=wait)
            assert (done.status_code, done.json()["outcome"]) == (200, "completed")
            replayed = await asked(client, WRITE)
            assert replayed.headers["idempotency-replayed"] == "true"
            assert replayed.content == done.content
            assert len(premises.box.jobs) == 1

    anyio.run(main)


def test_the_key_of_a_call_that_was_denied_says_so_and_asks_nobody_again(premises: Premises) -> None:
    agent, ann = premises.agent(), premises.person("ann", "approver")

    async def main() -> None:
        async with premises.serving() as house, house.client(agent) as client, house.client(ann) as person:
            waits = (await asked(client, WRITE)).json()
            await decide(person, waits["approval_id"], "deny")
            for _ in range(2):
                assert (await asked(client, WRITE)).json()["code"] == "approval_denied"
            assert (await person.get("/api/v1/approvals")).json() == {"approvals": []}

    anyio.run(main)


def test_what_is_taken_up_is_kept_under_the_key_it_was_asked_for_with(premises: Premises) -> None:
    agent, ann = premises.agent(), premises.person("ann", "approver")

    async def main() -> None:
        async with premises.serving() as house, house.client(agent) as client, house.client(ann) as person:
            waits = (await asked(client, WRITE)).json()
            await decide(person, waits["approval_id"], "approve")
            path = f"/api/v1/approvals/{waits['approval_id']}/take-up"
            done = await client.post(path, json={})
            assert done.json()["outcome"] == "completed"
            assert (await client.post(path, json={})).json()["code"] == "approval_void"
            assert (await asked(client, WRITE)).content == done.content

    anyio.run(main)


def test_two_servers_of_one_state_lose_no_answer(premises: Premises) -> None:
    agent = premises.agent()
    began, go_on = anyio.Event(), anyio.Event()

    async def report(job: Job) -> Report:
        began.set()
        await go_on.wait()
        return Report(ending="returned", value={"success": True})

    async def main() -> None:
        premises.box._report = report
        async with (
            premises.serving() as one,
            premises.serving() as two,
            one.client(agent) as client,
            two.client(agent) as other,
        ):
            ended: list[Any] = []

            async def call() -> None:
                ended.append(await asked(client, LOOK))

            with anyio.fail_after(20):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(call)
                    await began.wait()
                    meanwhile = await asked(other, LOOK)
                    assert (meanwhile.status_code, meanwhile.json()["code"]) == (409, "still_running")
                    go_on.set()
            assert ended[0].json()["outcome"] == "completed"
            assert (await asked(other, LOOK)).content == ended[0].content
            assert (await asked(other, READ)).status_code == 422, "the key still stands for what was asked"

    anyio.run(main)


def test_an_answer_too_long_to_keep_leaves_the_key_in_use(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "MOST_BYTES", 10)
    agent = premises.agent()

    async def main() -> None:
        async with premises.serving() as house, house.client(agent) as client:
            assert (await asked(client, READ)).json()["outcome"] == "completed"
            for _ in range(2):
                assert (await asked(client, READ)).json()["code"] == "already_begun"
                assert (await asked(client, LOOK)).json()["code"] == "key_reused"

    anyio.run(main)


def test_the_oldest_answers_go_and_the_newest_stay(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "MOST_BYTES_EACH", 3_000)
    monkeypatch.setattr(idempotency, "_SMALL", 10)
    agent = premises.agent()
    codes: list[str] = []

    async def main() -> None:
        async with premises.serving() as house, house.client(agent) as client:

            async def call(number: int) -> Any:
                headers = {"idempotency-key": f"k{number}"}
                return (await client.post("/api/v1/calls", json=READ, headers=headers)).json()

            long = len(json.dumps(await call(0)))
            monkeypatch.setattr(idempotency, "MOST_BYTES_EACH", 2 * long + 100)
            for number in (1, 2, 3):
                assert (await call(number))["outcome"] == "completed"
            codes.extend([(await call(number)).get("code", "") for number in range(4)])

    anyio.run(main)
    assert codes == ["already_begun", "already_begun", "", ""]


# --- settings


def gift(premises: Premises) -> None:
    settings = {
        "type": "object",
        "properties": {
            "tok": {"type": "string", "title": "t", "x-secret": True},
            "plain": {"type": "string"},
        },
    }
    write_skill(premises.machine.skills / "gift", metadata=json.dumps({"metier": {"settings": settings}}))


def test_a_secret_can_be_set_again_with_the_same_key(premises: Premises) -> None:
    gift(premises)
    me = premises.owner()

    async def main() -> None:
        async with premises.serving() as house, house.client(me) as client:

            async def patch(value: str) -> Any:
                return await client.patch(
                    "/api/v1/settings/gift", json={"patch": {"tok": value}}, headers=KEY
                )

            first = await patch("a-secret-of-mine")
            assert first.json()["outcome"] == "completed", first.text
            again = await patch("a-secret-of-mine")
            assert (again.status_code, again.content) == (200, first.content)
            assert again.headers["idempotency-replayed"] == "true"
            assert (await patch("another-secret")).json()["code"] == "key_reused"

    anyio.run(main)
    for each in premises.machine.state.glob("doors.db*"):
        assert b"secret-of-mine" not in each.read_bytes()


def test_who_may_not_write_settings_has_nothing_sealed(premises: Premises) -> None:
    gift(premises)
    agent = premises.agent()

    async def main() -> None:
        async with premises.serving() as house, house.client(agent) as client:
            done = (await client.patch("/api/v1/settings/gift", json={"patch": {"tok": "mine-alone"}})).json()
            assert (done["outcome"], done["code"]) == ("refused", "forbidden")
            with premises.opened() as database:
                log = AuditLog(database)
                assert "mine-alone" not in str([log.kept(each) for each in log.tail(9)])

    anyio.run(main)
    keys = premises.machine.state / "keys"
    assert "secrets.age" not in (os.listdir(keys) if keys.exists() else [])


# --- erased


def test_aud_16_erasing_a_call_reaches_the_answer_that_was_kept(premises: Premises) -> None:
    agent = premises.agent()

    def holding(words: str) -> bool:
        return any(words.encode() in each.read_bytes() for each in premises.machine.state.glob("doors.db*"))

    async def main() -> None:
        async with premises.serving() as house, house.client(agent) as client:

            async def call(key: str, words: str) -> Any:
                premises.box._report = Report(ending="returned", value={"success": True, "text": words})
                return (
                    await client.post("/api/v1/calls", json=LOOK, headers={"idempotency-key": key})
                ).json()

            erased, _ = await call("one", "remarkable-words"), await call("two", "words-of-another")
            ended = await to_thread.run_sync(
                lambda: premises.machine.metier("audit", "erase", "--call", erased["call_id"], "--yes")
            )
            assert ended.stderr == ""
            assert (await call("one", ""))["code"] == "already_begun"
            assert (await call("two", ""))["outcome"] == "completed"

    anyio.run(main)
    # Not before: who closes a file lets go of the locks that his process has on it.
    assert holding("words-of-another"), "others are left alone"
    assert not holding("remarkable-words")


def test_aud_16_erasing_a_conversation_reaches_the_answers_that_told_of_it(premises: Premises) -> None:
    me, words = premises.owner(), "remarkable-words"
    store = Store(str(premises.machine.state))
    new = New(
        channel="echo", owner="", chat="c", author="human:ann", text=words, call_id="call_of_a_connector"
    )
    with store.writing() as connection:
        thread = take_in(connection, new, time.time()).thread
    store.close()

    async def main() -> None:
        async with premises.serving() as house, house.client(me) as client:

            async def operate(name: str, key: str) -> Any:
                asked = client.post(
                    f"/api/v1/modules/conv/{name}",
                    json={"thread_id": thread},
                    headers={"idempotency-key": key},
                )
                return (await asked).json()

            read = await operate("get_thread", "one")
            assert words in str(read), read
            assert await operate("get_thread", "one") == read, "the control: it is told again"
            erased = await operate("erase", "two")
            assert erased["outcome"] == "completed", erased
            assert (await operate("get_thread", "one"))["code"] == "already_begun"

    anyio.run(main)
    for each in premises.machine.state.glob("doors.db*"):
        assert words.encode() not in each.read_bytes(), each
