"""`metier explain` has a table of all layers for every call that could be made, whoever would make it."""

import json
from pathlib import Path
from typing import Any

import pytest

from machine import Machine, write_skill
from metier.catalog.here import owner
from metier.gate.explain import NAMES

TEA = '{"name": "tea"}'


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path)
    write_skill(made.skills / "tea")
    return made


def layers(machine: Machine, *args: str, check: int) -> dict[str, Any]:
    found = machine.json("explain", *args, "--json", check=check)
    assert [each["layer"] for each in found["layers"]] == list(NAMES.values()), found
    return {each["layer"]: each for each in found["layers"]}


def test_your_own_runs_are_explained_as_yours(machine: Machine) -> None:
    said = layers(machine, "operator.run", '{"word": "tea"}', check=0)
    assert said["roles"]["reasons"] == ["the owner does it himself"]
    shown = machine.metier("explain", "operator.run").stdout
    assert f"operator.run, asked by {owner()}" in shown
    assert "It would run." in shown
    file = machine.state / "policy.toml"
    file.write_text('[[rule]]\ndecision = "ask"\nbecause = "look first"\ntool = "operator.run"\n', "utf-8")
    file.chmod(0o600)
    assert "look first" in layers(machine, "operator.run", check=4)["rules"]["reasons"][0]


def test_an_agent_that_would_run_your_files_is_told_by_the_layer_that_denies_it(machine: Machine) -> None:
    said = layers(machine, "operator.run", "--as", "agent:cli", check=3)
    assert said["audience"]["decision"] == "deny"


def test_of_somebody_revoked_or_unknown_the_layers_say_so_as_in_a_call_of_his(machine: Machine) -> None:
    assert layers(machine, "read_skill", TEA, "--as", "agent:new", check=3)["roles"]["decision"] == "deny"
    machine.metier("principals", "revoke", "agent:cli")
    revoked = layers(machine, "read_skill", TEA, check=3)["roles"]
    assert revoked["decision"] == "deny"
    assert "was revoked" in revoked["reasons"][0]
    refused = machine.json("call", "read_skill", TEA, "--json", check=3)
    assert revoked["reasons"][0] in refused["reasons"]


def test_what_can_be_nobodys_id_has_no_call_to_be_explained(machine: Machine) -> None:
    done = machine.metier("explain", "read_skill", TEA, "--as", "nobody", check=3)
    assert "before any layer is asked (forbidden)" in done.stdout


def test_arguments_that_are_no_json_would_be_refused_and_nothing_is_recorded(machine: Machine) -> None:
    done = machine.metier("explain", "read_skill", "{", check=3)
    assert "before any layer is asked (invalid_arguments)" in done.stdout
    assert "strict JSON" in done.stdout
    lines = machine.metier("audit", "export").stdout.splitlines()
    assert all(json.loads(line)["event"] != "skill_execution_blocked" for line in lines)
