"""What a violation disabled is shown as disabled with the reason, and only a person lifts it."""

import json

import pytest

from machine import Machine, write_skill
from metier.record.audit import AuditLog
from metier.record.database import Database
from metier.record.disabling import disable
from metier.record.verify import verify


@pytest.fixture
def disabled(machine: Machine) -> Machine:
    write_skill(machine.skills / "tea")
    machine.metier("call", "read_skill", '{"name": "tea"}')
    violated(machine, "tea")
    return machine


def violated(machine: Machine, name: str) -> None:
    with Database.open(str(machine.state / "state.db")) as database:
        disable(database, name, call_id="call_7", why="it tried what no skill may ever do: syscall")


def status(machine: Machine, name: str = "tea") -> tuple[str, str]:
    listed = {each["name"]: each for each in machine.json("skills", "list", "--json")}
    return listed[name]["status"], listed[name]["why"]


def read(machine: Machine, name: str = "tea", check: int = 0) -> str:
    return machine.metier("call", "read_skill", json.dumps({"name": name}), check=check).stderr


def test_a_disabled_skill_is_shown_with_the_reason_and_cannot_be_used(disabled: Machine) -> None:
    shown, why = status(disabled)
    assert shown == "disabled"
    assert "syscall" in why
    assert "call_7" in why
    said = read(disabled, check=3)
    assert said.startswith("Refused (skill_disabled)")
    assert "metier skills enable" in said
    assert "tea" not in disabled.metier("prompt").stdout


def test_enable_lifts_it_and_is_recorded(disabled: Machine) -> None:
    assert "enabled again" in disabled.metier("skills", "enable", "tea").stdout
    assert status(disabled) == ("usable", "")
    read(disabled)
    with Database.open(str(disabled.state / "state.db")) as database:
        events = [each.event for each in AuditLog(database).tail(100)]
        assert verify(database).ok
    assert events[-3:] == ["skill_enabled", "skill_execution_started", "skill_executed"]


def test_who_looks_at_it_and_trusts_it_again_enables_it_too(disabled: Machine) -> None:
    said = disabled.metier("skills", "trust", "tea", "--yes").stdout
    assert "it tried what no skill may" in said or "disabled: " in said, "what it did is shown before"
    assert status(disabled) == ("usable", "")


def test_trusting_all_does_not_enable_what_was_disabled(disabled: Machine) -> None:
    disabled.metier("skills", "trust", "--all", "--yes")
    assert status(disabled)[0] == "disabled"


def test_a_skill_that_came_with_metier_is_disabled_and_enabled_like_any_other(machine: Machine) -> None:
    read(machine, "writing-skills")
    violated(machine, "writing-skills")
    assert status(machine, "writing-skills")[0] == "disabled"
    assert "skill_disabled" in read(machine, "writing-skills", check=3)
    machine.metier("skills", "enable", "writing-skills")
    read(machine, "writing-skills")


def test_what_is_not_disabled_or_not_there_is_said_so(disabled: Machine) -> None:
    write_skill(disabled.skills / "coffee")
    assert "nobody disabled it" in disabled.metier("skills", "enable", "coffee", check=1).stderr
    disabled.metier("skills", "enable", "tea", "teas", check=2)
    assert status(disabled)[0] == "disabled", "a misspelled name leaves all as it was"
    assert disabled.json("skills", "enable", "tea", "--json") == [{"name": "tea", "problem": ""}]


def test_what_the_configuration_disables_stays_disabled(disabled: Machine) -> None:
    (disabled.state / "metier.toml").write_text('[skills]\ndisabled = ["tea"]\n', encoding="utf-8")
    disabled.metier("skills", "enable", "tea")
    assert status(disabled) == ("disabled", "named in skills.disabled")


def test_a_skill_that_is_not_in_this_folder_is_disabled_all_the_same(machine: Machine) -> None:
    write_skill(machine.project / "skills/theirs")
    machine.metier("skills", "trust", "theirs", "--yes")
    read(machine, "theirs")
    elsewhere = Machine(machine.top)
    (machine.project / "skills").rename(machine.top / "away")
    done = elsewhere.metier("skills", "disable", "theirs")
    assert "✓ theirs is disabled" in done.stdout
    assert "There is no skill 'theirs'" in done.stderr
    (machine.top / "away").rename(machine.project / "skills")
    assert "skill_disabled" in read(machine, "theirs", check=3)
    machine.metier("skills", "enable", "theirs")
    read(machine, "theirs")


def test_what_is_no_name_of_a_skill_is_not_disabled(machine: Machine) -> None:
    for name in ("../theirs", "", "a\tb", "x" * 300):
        assert "There is no skill" in machine.metier("skills", "disable", name, check=2).stderr
    assert not (machine.state / "state.db").exists()


def test_a_refusal_of_what_is_disabled_says_it_once_and_how_to_lift_it(machine: Machine) -> None:
    write_skill(machine.skills / "tea")
    read(machine)
    machine.metier("skills", "disable", "tea", "--why", "it is bitter")
    said = read(machine, check=3)
    assert said.count("it is bitter") == 1
    assert "→ `metier skills enable NAME` lifts it" in said
