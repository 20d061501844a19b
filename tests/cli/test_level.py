"""`metier trust`."""

import json

from machine import Machine


def test_looking_at_the_level_makes_no_state(machine: Machine) -> None:
    said = machine.metier("trust", "show").stdout
    assert "→ supervised_auto" in said
    assert not (machine.state / "state.db").exists()


def test_the_level_is_changed_recorded_and_shown(machine: Machine) -> None:
    assert "it was supervised_auto" in machine.metier("trust", "set", "observe").stdout
    assert json.loads(machine.metier("trust", "show", "--json").stdout)["level"] == "observe"
    assert "already" in machine.metier("trust", "set", "observe").stdout
    assert machine.metier("audit", "tail").stdout.count("trust_level_changed") == 1


def test_what_is_no_level_is_refused_with_those_there_are(machine: Machine) -> None:
    said = machine.metier("trust", "set", "yolo", check=2).stderr
    assert "bounded_auto" in said
    assert "→ supervised_auto" in machine.metier("trust", "show").stdout
