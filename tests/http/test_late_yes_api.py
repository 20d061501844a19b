"""A yes that came late, over HTTP: what ran where it was approved is given to who asked, once, with its key and without."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from metier.model.job import Report
from metier.model.role import ROLES
from metier.runtime.resume import resume
from serve_kit import WRITE, Premises

KEY = {"idempotency-key": '"one"'}


@pytest.fixture
def premises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Premises:
    made = Premises(tmp_path, monkeypatch)
    made.box._report = Report(ending="returned", value={"success": True, "outputs": {"bytes": 3}})
    return made


async def asked(client: Any, **headers: str) -> Any:
    return await client.post("/api/v1/calls", json=WRITE, headers=headers)


async def approve(client: Any, approval: str) -> None:
    shown = (await client.get(f"/api/v1/approvals/{approval}")).json()
    body = {"fingerprint": shown["fingerprint"]}
    assert (await client.post(f"/api/v1/approvals/{approval}/approve", json=body)).status_code == 200


def test_who_asked_is_given_what_ran_on_the_page_where_it_was_approved(premises: Premises) -> None:
    agent, ann = premises.agent(), premises.person("ann", "approver")

    async def main() -> None:
        async with premises.serving() as house, house.client(agent) as client, house.client(ann) as person:
            waits = (await asked(client)).json()
            approval = waits["approval_id"]
            await approve(person, approval)
            done = (await person.post(f"/api/v1/approvals/{approval}/take-up", json={})).json()
            assert (done["outcome"], done["call_id"]) == ("completed", waits["call_id"])
            given = await asked(client)
            body = given.json()
            assert (given.status_code, body["outcome"]) == (200, "completed")
            assert body["value"] == done["value"]
            assert body["earlier"]["call_id"] == waits["call_id"]
            assert body["earlier"]["approved_by"] == "human:ann"
            assert "earlier" not in done, "who ran it is told nothing of it"
            state = (await client.get(f"/api/v1/calls/{body['call_id']}")).json()
            assert (state["state"], state["approval"]) == ("completed", approval)
            assert (await asked(client)).status_code == 202, "and then it is a new act"
            assert len(premises.box.jobs) == 1

    anyio.run(main)


def test_the_key_under_which_it_was_asked_gives_what_ran_in_another_process(premises: Premises) -> None:
    agent, ann = premises.agent(), premises.person("ann", "approver")

    async def main() -> None:
        async with premises.serving() as house, house.client(agent) as client, house.client(ann) as person:
            waits = (await asked(client, **KEY)).json()
            await approve(person, waits["approval_id"])
            await resume(premises.machine.settings(), waits["approval_id"])
            given = await asked(client, **KEY)
            body = given.json()
            assert (given.status_code, body["outcome"]) == (200, "completed")
            assert body["call_id"] == body["earlier"]["call_id"] == waits["call_id"]
            replayed = await asked(client, **KEY)
            assert replayed.headers["idempotency-replayed"] == "true"
            assert replayed.content == given.content
            assert (await asked(client)).status_code == 202
            assert len(premises.box.jobs) == 1

    anyio.run(main)


def test_another_agent_of_the_same_person_is_asked_for_itself(premises: Premises) -> None:
    agent, other = premises.agent(), premises.agent("other")
    ann = premises.person("ann", "approver")

    async def main() -> None:
        async with premises.serving() as house, house.client(agent) as client, house.client(ann) as person:
            waits = (await asked(client)).json()
            await approve(person, waits["approval_id"])
            await resume(premises.machine.settings(), waits["approval_id"])
            async with house.client(other) as stranger:
                assert (await asked(stranger)).status_code == 202
                path = f"/api/v1/approvals/{waits['approval_id']}/take-up"
                assert (await stranger.post(path, json={})).status_code == 404
            assert (await asked(client)).json()["earlier"]["call_id"] == waits["call_id"]

    anyio.run(main)


def test_another_token_of_the_same_agent_does_not_take_up_what_was_asked_with_the_first(
    premises: Premises,
) -> None:
    agent, ann = premises.agent(), premises.person("ann", "approver")
    second = premises.token("agent:bot", *ROLES["agent"])

    async def main() -> None:
        async with (
            premises.serving() as house,
            house.client(agent) as client,
            house.client(second) as other,
            house.client(ann) as person,
        ):
            waits = (await asked(client, **KEY)).json()
            one = f"/api/v1/approvals/{waits['approval_id']}"
            for state in ("pending", "approved"):
                if state == "approved":
                    await approve(person, waits["approval_id"])
                for refused in (
                    await other.post(f"{one}/take-up", json={}),
                    await other.post(f"{one}/take-up", json={"wait": 1}),
                    await asked(other, **KEY),
                    await other.post("/api/v1/calls", json={**WRITE, "wait": 1}, headers=KEY),
                ):
                    assert (refused.status_code, refused.json()["code"]) == (409, "asked_elsewhere"), state
                    assert "token" in refused.json()["remedy"]
            assert premises.box.jobs == []
            assert (await asked(client, **KEY)).json()["outcome"] == "completed"
            assert len(premises.box.jobs) == 1, "for who asked, and once"

    anyio.run(main)


def test_a_key_whose_call_ran_and_was_given_without_it_is_never_answered_as_if_nothing_ran(
    premises: Premises,
) -> None:
    agent, ann = premises.agent(), premises.person("ann", "approver")

    async def main() -> None:
        async with premises.serving() as house, house.client(agent) as client, house.client(ann) as person:
            waits = (await asked(client, **KEY)).json()
            await approve(person, waits["approval_id"])
            await resume(premises.machine.settings(), waits["approval_id"])
            assert (await asked(client)).json()["earlier"]["call_id"] == waits["call_id"]
            for _ in range(2):
                told = await asked(client, **KEY)
                body = told.json()
                assert (body["outcome"], body["code"], body["call_id"]) == (
                    "refused",
                    "already_begun",
                    waits["call_id"],
                )
                assert "idempotency-replayed" not in told.headers, (
                    "it is looked at anew, and not kept as a no"
                )
            state = (await client.get(f"/api/v1/calls/{waits['call_id']}")).json()
            assert state["state"] == "completed", "as the answer says to look up"
            assert len(premises.box.jobs) == 1

    anyio.run(main)
