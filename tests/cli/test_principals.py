"""`metier principals`."""

import json

import pytest

from machine import Machine
from metier.catalog.here import owner


def test_looking_makes_no_state_and_shows_who_needs_no_entry(machine: Machine) -> None:
    listed = {each["id"]: each for each in machine.json("principals", "list", "--json")}
    assert not (machine.state / "state.db").exists()
    assert listed[owner()]["roles"] == ["owner"]
    assert listed["agent:cli"]["on_behalf_of"] == owner()
    assert "agent:library" in machine.metier("principals", "list").stdout


def test_somebody_is_added_listed_revoked_and_all_of_it_recorded(machine: Machine) -> None:
    said = machine.metier("principals", "add", "human:ada", "--role", "approver", "--role", "viewer").stdout
    assert said == "✓ human:ada is registered: approver, viewer.\n"
    machine.metier("principals", "add", "agent:mail", "--for", "human:ada")
    listed = {each["id"]: each for each in machine.json("principals", "list", "--json")}
    assert listed["agent:mail"] == {
        "id": "agent:mail",
        "kind": "agent",
        "roles": ["agent"],
        "on_behalf_of": "human:ada",
        "revoked": False,
    }
    assert machine.json("principals", "revoke", "human:ada", "--json") == {"id": "human:ada", "problem": ""}
    assert "human:ada                    revoked" in machine.metier("principals", "list").stdout
    told = machine.metier("audit", "tail").stdout
    assert told.count("principal_added") == 2
    assert told.count("principal_revoked") == 1


def test_an_agent_acts_for_the_one_at_the_terminal_unless_it_is_said(machine: Machine) -> None:
    machine.metier("principals", "add", "agent:mail")
    listed = {each["id"]: each for each in machine.json("principals", "list", "--json")}
    assert listed["agent:mail"]["on_behalf_of"] == owner()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["human:ada"], "roles"),
        (["human:*", "--role", "viewer"], "is no id"),
        (["ada", "--role", "viewer"], "is no id"),
        (["agent:cli"], "Metier's own"),
        (["agent:mail", "--role", "owner"], "roles"),
        (["agent:mail", "--for", "human:nobody"], "no such human"),
        (["human:\x1b[31mada", "--role", "viewer"], "\\x1b"),
    ],
)
def test_what_cannot_be_registered_is_a_problem_with_a_reason(
    machine: Machine, given: list[str], said: str
) -> None:
    done = machine.metier("principals", "add", *given, check=1)
    assert said in done.stderr
    assert "\x1b" not in done.stderr
    answer = json.loads(machine.metier("principals", "add", *given, "--json", check=1).stdout)
    assert answer["problem"]
    assert "principal_added" not in machine.metier("audit", "tail").stdout


def test_a_role_that_is_none_is_refused_with_those_there_are(machine: Machine) -> None:
    assert "viewer" in machine.metier("principals", "add", "human:ada", "--role", "root", check=2).stderr


def test_revoking_whom_nobody_knows_or_the_owner_is_a_problem(machine: Machine) -> None:
    assert "not registered" in machine.metier("principals", "revoke", "human:nobody", check=1).stderr
    assert "owns this state" in machine.metier("principals", "revoke", owner(), check=1).stderr


def test_the_built_in_agent_can_be_revoked_and_let_in_again(machine: Machine) -> None:
    machine.metier("principals", "revoke", "agent:cli")
    assert "agent:cli                    revoked" in machine.metier("principals", "list").stdout
    machine.metier("principals", "add", "agent:cli")
    assert "revoked" not in machine.metier("principals", "list").stdout
