"""An `own_clients` that can never count is told to the operator: where he serves, and by `metier doctor`."""

import json
import logging

import anyio
import pytest

from mcp_desk import AGENT, Desk
from metier.catalog.here import owner
from metier.doors.mcp.own_clients import problems
from metier.model.role import Registered
from metier.record.principals import add_principal, revoke_principal

NOBODY = "agent:nobody"
BOBS = "agent:bobs"


@pytest.fixture
def bobs(desk: Desk) -> Desk:
    with desk.database() as database:
        bob = Registered(id="human:bob", kind="human", roles=frozenset({"operator"}))
        agent = Registered(id=BOBS, kind="agent", on_behalf_of="human:bob", roles=frozenset({"agent"}))
        for each in (bob, agent):
            assert add_principal(database, each, by=owner(), owner=owner()) == ""
    desk.configured(f'[mcp]\nwait_seconds = 0\nown_clients = ["{AGENT}", "{BOBS}", "{NOBODY}"]\n')
    return desk


def test_a_wrong_own_client_is_told_with_why_and_what_to_do() -> None:
    me = owner()
    known = {
        AGENT: Registered(id=AGENT, kind="agent", on_behalf_of=me, roles=frozenset({"agent"})),
        BOBS: Registered(id=BOBS, kind="agent", on_behalf_of="human:bob", roles=frozenset({"agent"})),
        "human:bob": Registered(id="human:bob", kind="human", roles=frozenset({"operator"})),
    }
    assert problems(frozenset({AGENT, "agent:mcp"}), known, me) == []
    his, nobodys = problems(frozenset({AGENT, BOBS, NOBODY}), known, me)
    assert BOBS in his and "acts for human:bob" in his and "take it out" in his
    assert NOBODY in nobodys and f"metier principals add {NOBODY}" in nobodys


@pytest.mark.parametrize("way", ["lines", "http"])
def test_who_begins_to_serve_is_told_of_a_wrong_own_client(
    bobs: Desk, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with bobs.client(way, "legacy") as client:
            await client.list_tools()

    with caplog.at_level(logging.WARNING, "metier.mcp"):
        anyio.run(main)
    told = [each.getMessage() for each in caplog.records if "own_clients" in each.getMessage()]
    assert len(told) == 2 and BOBS in told[0] and NOBODY in told[1]


def test_the_doctor_tells_of_a_wrong_own_client(bobs: Desk) -> None:
    said = " ".join(bobs.machine.metier("doctor", check=None).stdout.split())
    assert f"own_clients names {BOBS}" in said and f"own_clients names {NOBODY}" in said
    report = json.loads(bobs.machine.metier("doctor", "--json", check=None).stdout)
    assert len(report["own_clients"]) == 2
    with bobs.database() as database:
        assert revoke_principal(database, AGENT, by=owner(), owner=owner()) == ""
    report = json.loads(bobs.machine.metier("doctor", "--json", check=None).stdout)
    assert len(report["own_clients"]) == 3


def test_the_doctor_has_nothing_to_say_of_clients_that_are_the_operators_own(desk: Desk) -> None:
    desk.configured(f'[mcp]\nown_clients = ["{AGENT}", "agent:mcp"]\n')
    report = json.loads(desk.machine.metier("doctor", "--json", check=None).stdout)
    assert report["own_clients"] == []
