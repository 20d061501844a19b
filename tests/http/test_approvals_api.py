"""Decisions over HTTP: by people who may, about exactly what they were shown, once."""

from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from msgspec.structs import replace

from browser import browser, sign_in
from core_desk import DECIDER
from metier.catalog.here import owner
from metier.model.approval import Approval
from metier.model.job import Report
from metier.record.approvals import find
from metier.record.audit import AuditLog
from metier.record.decider import Undecided
from metier.record.deciding import decide
from metier.record.verify import verify
from metier.runtime import waiting as waiting_here
from serve_kit import WRITE, House, Premises


@pytest.fixture
def premises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Premises:
    made = Premises(tmp_path, monkeypatch)
    made.box._report = Report(ending="returned", value={"success": True, "outputs": {}})
    return made


async def asked(house: House, agent: str) -> str:
    async with house.client(agent) as client:
        made = (await client.post("/api/v1/calls", json=WRITE)).json()
    assert made["outcome"] == "pending", made
    return str(made["approval_id"])


async def approve(client: Any, approval: str, **more: Any) -> Any:
    shown = (await client.get(f"/api/v1/approvals/{approval}")).json()
    return await client.post(
        f"/api/v1/approvals/{approval}/approve", json={"fingerprint": shown["fingerprint"], **more}
    )


def test_what_a_person_approves_runs_once_for_who_asked(premises: Premises) -> None:
    agent, ann = premises.agent(), premises.person("ann", "approver")

    async def main() -> None:
        async with premises.serving() as house, house.client(agent) as client, house.client(ann) as person:
            approval = await asked(house, agent)
            assert (await approve(person, approval)).json()["state"] == "approved"
            done = (await client.post(f"/api/v1/approvals/{approval}/take-up", json={})).json()
            assert done["outcome"] == "completed", done
            again = (await client.post(f"/api/v1/approvals/{approval}/take-up", json={})).json()
            assert again["outcome"] == "refused"
            assert len(premises.box.jobs) == 1

    anyio.run(main)


def test_who_waits_and_goes_away_leaves_what_was_approved_to_be_taken_up(premises: Premises) -> None:
    agent, ann = premises.agent(), premises.person("ann", "approver")

    async def main() -> None:
        async with premises.serving() as house, house.client(agent) as client, house.client(ann) as person:
            approval = await asked(house, agent)
            path = f"/api/v1/approvals/{approval}"
            async with house.client(agent) as waiting, anyio.create_task_group() as tasks:

                async def wait() -> None:
                    await waiting.post(f"{path}/take-up", json={"wait": 60})

                tasks.start_soon(wait)
                with anyio.fail_after(10):
                    while not (await person.get(path)).json()["waited_for"]:
                        await anyio.sleep(0.05)
                tasks.cancel_scope.cancel()
            with anyio.fail_after(10):  # who decides is not told that somebody waits
                while (await person.get(path)).json()["waited_for"]:
                    await anyio.sleep(0.1)
            assert (await approve(person, approval)).status_code == 200
            done = (await client.post(f"{path}/take-up", json={})).json()
            assert done["outcome"] == "completed", done
            assert len(premises.box.jobs) == 1

    anyio.run(main)


def test_cap_02_a_token_takes_up_only_what_it_could_call(premises: Premises) -> None:
    rule = '[[rule]]\ndecision = "ask"\nbecause = "it writes"\ntool = ["fs_write/execute"]\n'
    (premises.machine.state / "policy.toml").write_text(rule, encoding="utf-8")
    execute, keep = premises.token(owner(), "skills:execute"), premises.token(owner(), "audit:keep")
    ann = premises.person("ann", "approver")

    async def main() -> None:
        async with premises.serving() as house, house.client(keep) as other, house.client(ann) as person:
            approval = await asked(house, execute)
            for state in ("pending", "approved"):
                refused = await other.post(f"/api/v1/approvals/{approval}/take-up", json={"wait": 1})
                assert (refused.status_code, refused.json()["code"]) == (403, "forbidden"), state
                if state == "pending":
                    assert (await approve(person, approval)).status_code == 200
            assert not premises.box.jobs
            async with house.client(execute) as client:
                done = (await client.post(f"/api/v1/approvals/{approval}/take-up", json={})).json()
                assert done["outcome"] == "completed", done

    anyio.run(main)


def test_web_16_one_decision_however_often_the_button_is_pressed(premises: Premises) -> None:
    agent, ann, bob = premises.agent(), premises.person("ann", "approver"), premises.person("bob", "approver")

    async def main() -> None:
        async with premises.serving() as house, house.client(ann) as one, house.client(bob) as two:
            approval = await asked(house, agent)
            statuses: list[int] = []

            async def press(client: Any) -> None:
                statuses.append((await approve(client, approval)).status_code)

            async with anyio.create_task_group() as tasks:
                for client in (one, two) * 5:
                    tasks.start_soon(press, client)
            assert sorted(statuses) == [200] + [409] * 9
            late = await two.post(f"/api/v1/approvals/{approval}/deny", json={})
            assert late.status_code == 409
            with premises.opened() as database:
                found = [each for each in AuditLog(database).tail(100) if each.event == "skill_approved"]
            assert len(found) == 1

    anyio.run(main)


def test_web_16_a_stale_page_decides_nothing(premises: Premises) -> None:
    agent, ann = premises.agent(), premises.person("ann", "approver")

    async def main() -> None:
        async with premises.serving() as house, house.client(ann) as person:
            first, second = await asked(house, agent), await asked(house, agent)
            other = (await person.get(f"/api/v1/approvals/{first}")).json()["fingerprint"]
            for act in ("approve", "deny"):
                stale = await person.post(f"/api/v1/approvals/{second}/{act}", json={"fingerprint": other})
                assert (stale.status_code, stale.json()["code"]) == (409, "not_what_was_shown")
            assert (await person.get(f"/api/v1/approvals/{second}")).json()["state"] == "pending"
            missing = await person.post(f"/api/v1/approvals/{second}/approve", json={})
            assert missing.status_code == 422

    anyio.run(main)


def test_who_asked_and_who_may_not_decide_nothing(premises: Premises) -> None:
    agent, viewer = premises.agent(), premises.person("vic", "viewer")

    async def main() -> None:
        async with premises.serving() as house, house.client(agent) as client, house.client(viewer) as person:
            approval = await asked(house, agent)
            for act, body in (("approve", {"fingerprint": "x"}), ("deny", {}), ("revoke", {})):
                assert (
                    await client.post(f"/api/v1/approvals/{approval}/{act}", json=body)
                ).status_code == 403
                assert (
                    await person.post(f"/api/v1/approvals/{approval}/{act}", json=body)
                ).status_code == 403

    anyio.run(main)


def test_four_eyes_hold_here_too(premises: Premises) -> None:
    premises.configured("[approvals]\nfour_eyes = true\n")
    agent, me, ann = premises.agent(), premises.owner(), premises.person("ann", "approver")

    async def main() -> None:
        async with premises.serving() as house, house.client(me) as owner, house.client(ann) as other:
            approval = await asked(house, agent)  # which acts for the owner
            refused = await approve(owner, approval)
            assert (refused.status_code, refused.json()["code"]) == (403, "own_request")
            assert (await approve(other, approval)).status_code == 200

    anyio.run(main)


def test_a_denial_reaches_who_waits_and_its_word_too(premises: Premises) -> None:
    agent, ann = premises.agent(), premises.person("ann", "approver")

    async def main() -> None:
        async with (
            premises.serving() as house,
            house.client(ann) as person,
            anyio.create_task_group() as tasks,
        ):
            ended: list[Any] = []

            async def call() -> None:
                async with house.client(agent) as client:
                    ended.append((await client.post("/api/v1/calls", json={**WRITE, "wait": 20})).json())

            tasks.start_soon(call)
            approval = await waiting(person)
            assert (
                await person.post(f"/api/v1/approvals/{approval}/deny", json={"word": "not today"})
            ).status_code == 200
            with anyio.fail_after(5):
                while not ended:
                    await anyio.sleep(0.01)
            assert (ended[0]["outcome"], ended[0]["code"]) == ("refused", "approval_denied")
            assert "not today" in ended[0]["reasons"][0]

    anyio.run(main)


async def waiting(person: Any) -> str:
    with anyio.fail_after(10):
        while True:
            found = (await person.get("/api/v1/approvals")).json()["approvals"]
            if found and found[0]["waited_for"]:
                return str(found[0]["id"])
            await anyio.sleep(0.02)


def test_who_waits_is_woken_by_a_decision_in_this_process_and_finds_one_of_another(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody looks for half a minute here, so whoever goes on before was woken. How soon: benchmarks/serve.py."""
    agent, ann = premises.agent(), premises.person("ann", "approver")

    async def one(house: House, person: Any, *, here: bool) -> None:
        ended: list[Any] = []

        async def call() -> None:
            async with house.client(agent) as client:
                ended.append((await client.post("/api/v1/calls", json={**WRITE, "wait": 25})).json())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            approval = await waiting(person)
            if here:
                assert (await approve(person, approval)).status_code == 200
            else:
                with premises.opened() as database:  # as another process has it
                    assert isinstance(decide(database, approval, by=DECIDER, decision="approve"), Approval)
            with anyio.fail_after(10):
                while not ended:
                    await anyio.sleep(0.01)
        assert ended[0]["outcome"] == "completed", ended

    async def main() -> None:
        async with premises.serving() as house, house.client(ann) as person:
            assert waiting_here.POLL_SECONDS <= 0.5
            await one(house, person, here=False)
            monkeypatch.setattr(waiting_here, "POLL_SECONDS", 30.0)
            await one(house, person, here=True)

    anyio.run(main)


def test_the_record_of_a_decision_names_what_its_decider_came_with_and_not_what_it_was_asked_with(
    premises: Premises,
) -> None:
    """A person's token, a session in a browser, and the terminal, where there is neither."""
    agent, ann = premises.agent(), premises.person("ann", "approver")
    token = ann.split("_")[1]

    async def main() -> None:
        async with premises.serving() as house, house.client(ann) as person, browser(house) as it:
            await sign_in(house, it)
            session = f"session:{it.cookie.partition('.')[0]}"
            by_token, by_session, by_both, at_terminal = [await asked(house, agent) for _ in range(4)]
            assert (await approve(person, by_token)).status_code == 200
            assert (await it.post(f"/api/v1/approvals/{by_session}/deny")).status_code == 200
            assert (await person.post(f"/api/v1/approvals/{by_session}/deny", json={})).status_code == 409
            assert (await approve(person, by_both)).status_code == 200
            assert (await it.post(f"/api/v1/approvals/{by_both}/revoke")).status_code == 200
            with premises.opened() as database:
                assert isinstance(decide(database, at_terminal, by=DECIDER, decision="approve"), Approval)
                found = [each for each in AuditLog(database).tail(100) if each.approval and each.about]
            said = [(each.event, each.approval, each.session, each.token) for each in found]
            assert said == [
                ("skill_approved", by_token, f"token:{token}", token),
                ("skill_rejected", by_session, session, ""),
                ("decision_refused", by_session, f"token:{token}", token),
                ("skill_approved", by_both, f"token:{token}", token),
                ("skill_rejected", by_both, session, ""),
                ("skill_approved", at_terminal, "", ""),
            ]

    anyio.run(main)
    assert verify(premises.path).ok


@pytest.mark.parametrize("decision", ["approve", "deny"])
def test_a_word_over_the_client_that_asked_is_recorded_as_such(
    premises: Premises, decision: Literal["approve", "deny"]
) -> None:
    """Which only counts where the operator declared that client to be himself: else it would be the requester's own."""
    agent = premises.agent()

    async def main() -> None:
        async with premises.serving() as house:
            approval = await asked(house, agent)
            with premises.opened() as database:
                row = find(database, approval)
                assert row is not None and row.session
                if decision == "approve":
                    own = decide(
                        database, approval, by=replace(DECIDER, session=row.session), decision=decision
                    )
                    assert isinstance(own, Undecided) and own.code == "own_request"
                by = replace(DECIDER, over=row.session)
                assert isinstance(decide(database, approval, by=by, decision=decision), Approval)
                said = AuditLog(database).tail(1)[0]
            assert said.session == row.session and "declared to be himself" in said.reasons[-1]

    anyio.run(main)
    assert verify(premises.path).ok


def test_a_standing_grant_is_given_as_it_was_asked_for(premises: Premises) -> None:
    agent, me, ann = premises.agent(), premises.owner(), premises.person("ann", "approver")

    async def main() -> None:
        async with premises.serving() as house, house.client(me) as owner, house.client(ann) as approver:
            approval = await asked(house, agent)
            beyond = await approve(approver, approval, scope="always")
            assert beyond.status_code == 403  # nobody grants more than he holds
            odd = await approve(owner, approval, uses=3)
            assert (odd.status_code, odd.json()["code"]) == (422, "bad_grant")
            given = await approve(owner, approval, scope="always", uses=3, days=1)
            assert (given.status_code, given.json()["scope"]) == (200, "always"), given.text

    anyio.run(main)
