"""What a principal may do today: by its id, from what is registered now."""

from pathlib import Path
from typing import get_args

import pytest

from metier.gate.principals import approver_problem, rebuilt, standing
from metier.model.call import Principal
from metier.model.role import (
    APPROVE,
    CREATE,
    EXECUTE,
    READ_AUDIT,
    ROLES,
    SETTINGS,
    Kind,
    Registered,
    Standing,
)
from metier.record.database import Database
from metier.record.principals import add_principal, registered_in, revoke_principal

OWNER = "human:uid-1000"
EVERYTHING = frozenset[str]().union(*ROLES.values())


def entry(id: str, *roles: str, behalf: str = "", revoked: bool = False) -> dict[str, Registered]:
    kind: Kind = next(kind for kind in get_args(Kind) if id.startswith(f"{kind}:"))
    return {id: Registered(id=id, kind=kind, roles=frozenset(roles), on_behalf_of=behalf, revoked=revoked)}


def of(
    id: str,
    table: dict[str, Registered] | None = None,
    *,
    kind: Kind | None = None,
    behalf: str | None = None,
    **carried: frozenset[str],
) -> Standing:
    came: Kind = kind or next((kind for kind in get_args(Kind) if id.startswith(f"{kind}:")), "human")
    return standing(Principal(id=id, kind=came, on_behalf_of=behalf, **carried), table or {}, OWNER)


def test_who_needs_no_entry_has_what_is_his() -> None:
    assert of(OWNER).rights == ROLES["owner"] == EVERYTHING
    for agent in ("agent:cli", "agent:library"):
        assert of(agent).rights == {EXECUTE}
        assert of(agent, behalf=OWNER).rights == {EXECUTE}


@pytest.mark.parametrize("role", ROLES)
def test_a_registered_human_has_the_rights_of_his_roles(role: str) -> None:
    found = of("human:ada", entry("human:ada", role))
    assert found.rights == dict(ROLES.items())[role]  # pyright: ignore[reportArgumentType]
    assert found.problem == ""


def test_roles_add_up_and_what_is_no_role_gives_nothing() -> None:
    both = of("human:ada", entry("human:ada", "agent", "viewer", "root", "*"))
    assert both.rights == {EXECUTE, READ_AUDIT}
    assert "no role" in of("human:ada", entry("human:ada", "root")).problem
    assert "no role" in of("human:ada", entry("human:ada")).problem


CLAIMS = {"roles": frozenset({"owner", "operator"}), "capabilities": frozenset({APPROVE, "kernel", "*"})}


@pytest.mark.parametrize("id", ["agent:cli", "agent:mail", "human:ada"])
def test_cap_02_roles_and_capabilities_that_a_call_carries_are_not_looked_at(id: str) -> None:
    table = entry("agent:mail", "agent") | entry("human:ada", "viewer")
    assert of(id, table, **CLAIMS) == of(id, table)
    assert APPROVE not in of(id, table, **CLAIMS).rights
    assert APPROVE in of("human:bob", entry("human:bob", "approver")).rights


def test_cap_02_whoever_is_not_registered_has_nothing_whatever_he_claims() -> None:
    for id in ("human:eve", "agent:eve"):
        found = of(id, entry("human:ada", "owner"), **CLAIMS)
        assert found.rights == frozenset()
        assert "not registered" in found.problem


@pytest.mark.parametrize("kind", ["human", "skill", "trigger"])
def test_cap_02_another_kind_than_the_registered_one_is_refused(kind: Kind) -> None:
    table = entry("agent:mail", "agent")
    assert of("agent:mail", table).rights == {EXECUTE}
    assert "came as a" in of("agent:mail", table, kind=kind).problem
    assert "came as a" in of("agent:cli", kind=kind).problem
    assert "came as a" in of(OWNER, kind="agent").problem


@pytest.mark.parametrize(
    "id",
    [
        "",
        "*",
        "human:",
        "human:*",
        "human",
        "agent:*",
        "group:staff",
        "skill:*",
        "skill:",
        "metier",
        "everyone",
    ],
)
def test_cap_11_an_id_that_means_several_or_anybody_is_nobody(id: str) -> None:
    table = entry("human:ada", "owner") | entry("agent:mail", "agent")
    for kind in get_args(Kind):
        found = of(id, table, kind=kind, behalf=OWNER)
        assert found.rights == frozenset()
        assert found.problem
    assert of("human:ada", table).rights


def test_whoever_acts_for_another_has_at_most_what_that_one_has() -> None:
    viewer = entry("human:ada", "viewer")
    both = entry("agent:mail", "agent", "viewer", behalf="human:ada")
    assert of("agent:mail", viewer | both).rights == {READ_AUDIT}
    operator = entry("human:ada", "operator")
    assert of("agent:mail", operator | both).rights == {EXECUTE, READ_AUDIT}
    assert "acts on behalf" in of("agent:mail", both).problem


def test_roles_for_people_give_an_agent_nothing() -> None:
    for role in ("owner", "operator", "approver"):
        assert of("agent:mail", entry("agent:mail", role)).rights == frozenset()
    assert of("agent:mail", entry("agent:mail", "agent", "owner")).rights == {EXECUTE}


def test_cap_12_who_is_revoked_takes_his_agents_and_skills_with_him() -> None:
    agent = entry("agent:mail", "agent", behalf="human:ada")
    before, after = entry("human:ada", "owner") | agent, entry("human:ada", "owner", revoked=True) | agent
    for id, behalf in (
        ("agent:mail", None),
        ("human:ada", None),
        ("skill:tea", "human:ada"),
        ("skill:tea", "agent:mail"),
    ):
        assert EXECUTE in of(id, before, behalf=behalf).rights
        assert of(id, after, behalf=behalf).rights == frozenset()
        assert "revoked" in of(id, after, behalf=behalf).problem


@pytest.mark.parametrize("id", ["agent:cli", "agent:library", OWNER])
def test_a_revoked_entry_wins_over_what_is_built_in(id: str) -> None:
    assert of(id).rights
    table = entry(id, "owner", revoked=True)
    assert "revoked" in of(id, table).problem
    assert of(id, table).rights == frozenset()


def test_cap_12_a_role_that_is_taken_away_is_gone_at_the_next_call(tmp_path: Path) -> None:
    ada = entry("human:ada", "operator")["human:ada"]
    less = entry("human:ada", "viewer")["human:ada"]
    principal = Principal(id="human:ada", kind="human", roles=frozenset({"operator"}))

    def rights() -> frozenset[str]:
        with database.reading() as connection:
            return standing(principal, registered_in(connection), OWNER).rights

    with Database.open(str(tmp_path / "state" / "state.db")) as database:
        assert rights() == frozenset()
        add_principal(database, ada, by=OWNER, owner=OWNER)
        assert {APPROVE, EXECUTE} <= rights()
        revoke_principal(database, "human:ada", by=OWNER, owner=OWNER)
        assert rights() == frozenset()
        add_principal(database, less, by=OWNER, owner=OWNER)
        assert rights() == {READ_AUDIT}


@pytest.mark.parametrize("kind", ["skill", "trigger"])
def test_a_skill_and_a_trigger_may_run_skills_for_somebody_who_may(kind: Kind) -> None:
    table = entry("human:ada", "operator") | entry("human:bob", "viewer")
    assert of(f"{kind}:tea", table, behalf="human:ada").rights == {EXECUTE}
    assert of(f"{kind}:tea", table, behalf="agent:cli").rights == {EXECUTE}
    assert of(f"{kind}:tea", table, behalf="human:bob").rights == frozenset()
    for behalf in (None, "", "human:eve", f"{kind}:tea", f"{kind}:other"):
        assert of(f"{kind}:tea", table, behalf=behalf).problem


def test_an_entry_for_a_skill_gives_it_nothing_more() -> None:
    table = entry("skill:tea", "owner", "viewer", behalf=OWNER)
    assert of("skill:tea", table, behalf="agent:cli").rights == {EXECUTE}
    assert of("skill:tea", table).problem


def test_nobody_says_for_himself_on_whose_behalf_he_acts() -> None:
    table = entry("human:ada", "viewer") | entry("agent:mail", "agent", "viewer", behalf="human:ada")
    table |= entry("agent:alone", "agent")
    assert "on behalf of" in of("agent:mail", table, behalf=OWNER).problem
    assert "on behalf of" in of("agent:alone", table, behalf=OWNER).problem
    assert "on behalf of" in of("agent:cli", table, behalf="human:ada").problem
    assert of("agent:mail", table, behalf="human:ada").rights == {READ_AUDIT}


def test_who_act_on_each_others_behalf_in_a_circle_may_do_nothing() -> None:
    circle = entry("agent:a", "agent", behalf="agent:b") | entry("agent:b", "agent", behalf="agent:a")
    assert "too many" in of("agent:a", circle).problem
    assert "too many" in of("agent:c", entry("agent:c", "agent", behalf="agent:c")).problem


def test_a_stored_principal_is_rebuilt_as_it_is_today() -> None:
    table = entry("human:ada", "operator") | entry("agent:mail", "agent", behalf="human:ada")
    assert rebuilt("agent:mail", "human:ada", table, OWNER) == Principal(
        id="agent:mail", kind="agent", on_behalf_of="human:ada", roles=frozenset({"agent"})
    )
    assert rebuilt("agent:mail", "", table, OWNER) == rebuilt("agent:mail", "human:ada", table, OWNER)
    skill = rebuilt("skill:tea", "agent:mail", table, OWNER)
    assert isinstance(skill, Principal)
    assert (skill.kind, skill.on_behalf_of) == ("skill", "agent:mail")
    assert "on behalf of" in str(rebuilt("agent:mail", OWNER, table, OWNER))
    gone = table | entry("human:ada", "operator", revoked=True)
    assert "revoked" in str(rebuilt("agent:mail", "human:ada", gone, OWNER))
    assert "not registered" in str(rebuilt("human:eve", "", table, OWNER))


@pytest.mark.parametrize("role", ROLES)
def test_apr_19_only_a_human_with_the_right_to_approve_decides(role: str) -> None:
    decider = of("human:ada", entry("human:ada", role))
    may = role in ("owner", "operator", "approver")
    assert (approver_problem("human", decider, EXECUTE) == "") is may
    for kind in ("agent", "skill", "trigger"):
        assert "only a human" in approver_problem(kind, Standing(rights=EVERYTHING), EXECUTE)
    assert approver_problem("human", Standing(problem="revoked"), EXECUTE) == "revoked"


def test_apr_20_nobody_approves_what_takes_a_right_that_he_does_not_hold() -> None:
    approver = of("human:ada", entry("human:ada", "approver"))
    assert approver_problem("human", approver, EXECUTE) == ""
    for right in (SETTINGS, CREATE, "channels:send", ""):
        assert "nobody approves" in approver_problem("human", approver, right)
    assert approver_problem("human", of("human:bob", entry("human:bob", "operator")), SETTINGS) == ""
