"""Who sees what: his own, which is also what is done on his behalf; and a person with the right to it everything. One rule for calls,
requests and the stream."""

from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from metier.catalog.here import owner
from metier.model.role import EXECUTE, READ_AUDIT, ROLES, STEER, Registered, Role
from metier.record.principals import add_principal
from serve_kit import READ, WRITE, Premises


@pytest.fixture
def premises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Premises:
    return Premises(tmp_path, monkeypatch)


def agent_of(premises: Premises, name: str, person: str, *more: Role) -> str:
    roles = frozenset[Role]({"agent", *more})
    new = Registered(id=f"agent:{name}", kind="agent", roles=roles, on_behalf_of=person)
    with premises.opened() as database:
        assert add_principal(database, new, by=owner(), owner=owner()) == ""
    return premises.token(new.id, *frozenset[str]().union(*(ROLES[each] for each in roles)))


def test_what_is_done_on_somebodys_behalf_is_his_to_see_and_nobody_elses(premises: Premises) -> None:
    premises.person("ann", "operator")
    premises.person("bob", "operator")
    works = agent_of(premises, "anns", "human:ann")
    # Without a right that shows everything: what is left is what is his own.
    names = {
        "ann": premises.token("human:ann", EXECUTE),
        "bob": premises.token("human:bob", EXECUTE),
        "another": agent_of(premises, "another", "human:ann"),
        "reader": agent_of(premises, "reader", "human:bob", "viewer"),
        "works": works,
    }

    async def main() -> None:
        async with premises.serving() as house, house.client(works) as client:
            done = (await client.post("/api/v1/calls", json=READ)).json()
            waits = (await client.post("/api/v1/calls", json=WRITE)).json()
            assert (done["outcome"], waits["outcome"]) == ("completed", "pending"), (done, waits)
            seen: dict[str, Any] = {}
            for name, token in names.items():
                async with house.client(token) as who:
                    seen[name] = await _seen(who, done["call_id"], waits["approval_id"])
            assert seen["works"] == seen["ann"] == (200, 200, [waits["approval_id"]])
            assert seen["bob"] == seen["another"] == seen["reader"] == (404, 404, [])
            async with house.client(names["ann"]) as ann:
                shown = (await ann.get(f"/api/v1/approvals/{waits['approval_id']}")).json()
                assert (shown["state"], shown["fingerprint"], shown["shown"]) == ("pending", "", None)
                taken = await ann.post(f"/api/v1/approvals/{waits['approval_id']}/take-up", json={})
                assert taken.status_code == 404, "nobody runs it in another's name"

    anyio.run(main)


async def _seen(who: httpx2.AsyncClient, call: str, approval: str) -> tuple[int, int, list[str]]:
    return (
        (await who.get(f"/api/v1/calls/{call}")).status_code,
        (await who.get(f"/api/v1/approvals/{approval}")).status_code,
        [each["id"] for each in (await who.get("/api/v1/approvals")).json()["approvals"]],
    )


def test_who_acts_for_somebody_is_told_with_the_call(premises: Premises) -> None:
    agent, reader = premises.agent(), premises.token(owner(), READ_AUDIT, STEER, EXECUTE)

    async def main() -> None:
        async with premises.serving() as house, house.client(agent) as client, house.client(reader) as person:
            done = (await client.post("/api/v1/calls", json=READ)).json()
            state = (await person.get(f"/api/v1/calls/{done['call_id']}")).json()
            assert (state["principal"], state["on_behalf_of"]) == ("agent:bot", owner())

    anyio.run(main)
