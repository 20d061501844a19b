"""Standing grants and people: listed, taken back, registered, by operations behind the gate."""

from pathlib import Path

import pytest
from msgspec import structs

from approval_kit import given
from metier.model.call import Principal
from metier.model.role import PRINCIPALS
from metier.record.standing import give
from office import AGENT, APPROVER, NARROW, OPERATOR, OWNER, SKILL, VIEWER, Office

ONLY_PRINCIPALS = Principal(id=OWNER.id, kind="human", scopes=frozenset({PRINCIPALS, "skills:execute"}))


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Office:
    return Office(tmp_path, monkeypatch)


def test_everybody_is_listed_with_his_roles(office: Office) -> None:
    async def act(office: Office) -> None:
        told = await office.ask("principals.list", VIEWER)
        by_id = {each["id"]: each for each in told["principals"]}
        assert told["owner"] == OWNER.id
        assert by_id[OWNER.id]["owner"] is True
        assert by_id[OPERATOR.id]["roles"] == ["operator"]
        assert by_id["agent:cli"]["on_behalf_of"] == OWNER.id
        assert "skills:trust" in told["roles"]["operator"]

    office.run(act)


def test_the_owner_registers_people_and_agents_and_revokes_them(office: Office) -> None:
    ann = Principal(id="human:ann", kind="human")

    async def act(office: Office) -> None:
        made = await office.ask("principals.add", id="human:ann", roles=["viewer"])
        assert (made["roles"], made["known_before"], made["on_behalf_of"]) == (["viewer"], False, "")
        assert (await office.ask("runtime.status", ann))["stopped"] is None
        bot = await office.ask("principals.add", id="agent:bot")
        assert (bot["roles"], bot["on_behalf_of"]) == (["agent"], OWNER.id)
        gone = await office.ask("principals.revoke", id="human:ann")
        assert gone == {"id": "human:ann", "revoked": True, "unrecorded": ""}
        assert (await office.no("runtime.status", ann))[0] == "forbidden"
        again = await office.ask("principals.add", id="human:ann", roles=["viewer"])
        assert again["known_before"] is True

    office.run(act)
    told = [each.code for each in office.records() if each.event == "principal_added"]
    assert told[-3:] == ["human:ann", "agent:bot", "human:ann"]


def test_the_owner_cannot_be_taken_away(office: Office) -> None:
    async def act(office: Office) -> None:
        code, why = await office.no("principals.revoke", id=OWNER.id)
        assert (code, "owns this state" in why) == ("E_PRINCIPALS_NOT_REVOKED", True)
        assert (await office.no("principals.revoke", id="human:none"))[0] == "E_PRINCIPALS_NOT_REVOKED"

    office.run(act)


def test_nobody_is_made_who_has_more_than_who_makes_him_came_with(office: Office) -> None:
    async def act(office: Office) -> None:
        code, why = await office.no("principals.add", ONLY_PRINCIPALS, id="human:mal", roles=["owner"])
        assert (code, "skills:trust" in why) == ("E_FORBIDDEN", True)
        assert (await office.ask("principals.add", ONLY_PRINCIPALS, id="agent:bot"))["roles"] == ["agent"]

    office.run(act)
    assert "human:mal" not in [each.code for each in office.records() if each.event == "principal_added"]


@pytest.mark.parametrize("id", ["skill:x", "trigger:x", "nobody", "human:", "human:a b", "agent:cli"])
def test_what_is_no_id_is_not_registered(office: Office, id: str) -> None:
    async def act(office: Office) -> None:
        assert (await office.no("principals.add", id=id, roles=["agent"]))[0] == "E_PRINCIPALS_NOT_ADDED"

    office.run(act)


@pytest.mark.parametrize(
    "by", [AGENT, SKILL, VIEWER, APPROVER, OPERATOR, NARROW], ids=lambda each: f"{each.id}{each.scopes or ''}"
)
def test_nobody_registers_or_revokes_who_does_not_manage_people(office: Office, by: Principal) -> None:
    async def act(office: Office) -> None:
        assert (await office.no("principals.add", by, id="human:mal", roles=["viewer"]))[0] == "forbidden"
        assert (await office.no("principals.revoke", by, id="human:vera"))[0] == "forbidden"

    office.run(act)


def test_grants_are_listed_without_their_key_and_taken_back(office: Office) -> None:
    with office.database() as database:
        grant = structs.replace(given(), given_by=OWNER.id)
        give(database, grant)

    async def act(office: Office) -> None:
        (shown,) = (await office.ask("grants.list", VIEWER))["grants"]
        assert (shown["id"], shown["given_by"], shown["over"], shown["giver_may"]) == (
            grant.id,
            OWNER.id,
            False,
            True,
        )
        assert "key" not in shown
        assert any(grant.tool in line for line in shown["words"])
        for by in (AGENT, SKILL, VIEWER, NARROW):
            assert (await office.no("grants.revoke", by, id=grant.id))[0] == "forbidden"
        for by in (AGENT, SKILL, NARROW):
            assert (await office.no("grants.list", by))[0] == "forbidden"
        gone = await office.ask("grants.revoke", APPROVER, id=grant.id)
        assert gone == {"id": grant.id, "revoked": True, "unrecorded": ""}
        assert (await office.ask("grants.list"))["grants"] == []
        assert (await office.no("grants.revoke", APPROVER, id=grant.id))[0] == "E_UNKNOWN"

    office.run(act)
    told = [each.principal for each in office.records() if each.event == "grant_revoked"]
    assert told == [APPROVER.id]
