"""`metier triggers`: set up, looked at, tried out and taken back by the owner, on the record."""

import json
from pathlib import Path

import pytest

from machine import Machine


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


ADD = ("triggers", "add", "--name", "note", "--message", "/note", "--match", "startsWith")
CALL = ("--tool", "fs_read/execute", "--arguments", '{"path": "memory/{{message.text}}"}')


@pytest.mark.slow
def test_a_trigger_is_set_up_listed_tried_switched_and_removed(machine: Machine) -> None:
    assert "no triggers" in machine.metier("triggers", "list").stderr
    done = machine.metier(*ADD, *CALL, "--reply", "{{result.content}}")
    assert done.stdout.startswith("✓ note is set up (trg_")
    listed = machine.metier("triggers", "list").stdout
    assert "note" in listed
    assert "calls fs_read/execute" in listed
    tried = machine.metier("triggers", "test", "--text", "/note x").stdout
    assert '{"path":"memory//note x"}' in tried
    assert machine.metier("triggers", "test", "--text", "another").stdout == "Nothing would fire.\n"
    assert "does not fire any more" in machine.metier("triggers", "disable", "note").stdout
    assert "fires again" in machine.metier("triggers", "enable", "note").stdout
    shown = json.loads(machine.metier("triggers", "show", "note", "--json").stdout)
    assert shown["definition"]["matchMode"] == "startsWith"
    assert '"matchMode": "startsWith"' in machine.metier("triggers", "show", shown["id"]).stdout
    assert "is removed" in machine.metier("triggers", "rm", "note").stdout
    assert "E_TRIGGERS_UNKNOWN" in machine.metier("triggers", "show", "note", check=1).stderr
    assert "triggers.remove" in machine.metier("audit", "tail").stdout


def test_a_trigger_is_read_from_a_file_or_standard_input(machine: Machine) -> None:
    trigger = {"name": "beat", "type": "event", "events": ["heartbeat_check"], "tool": "a/b", "cooldownMs": 5}
    file = machine.project / "beat.json"
    file.write_text(json.dumps(trigger), encoding="utf-8")
    machine.metier("triggers", "add", str(file))
    machine.metier("triggers", "add", "-", stdin=json.dumps({**trigger, "name": "other"}))
    found = json.loads(machine.metier("triggers", "list", "--json").stdout)["triggers"]
    assert [each["name"] for each in found] == ["beat", "other"]


@pytest.mark.parametrize(
    ("given", "status", "said"),
    [
        (("--name", "x"), 2, "what sets it off"),
        (("--message", "a", "--event", "b", "--name", "x"), 2, "what sets it off"),
        (("--message", "a", "--tool", "t"), 2, "--name"),
        (("--name", "x", "--message", "a", "--tool", "t", "--arguments", "["), 2, "no JSON"),
        (("no-such-file.json",), 2, "cannot be read"),
        (("--name", "x", "--message", "(", "--match", "regex", "--tool", "t"), 1, "missing )"),
        (("--name", "x", "--message", "a"), 1, "it does nothing"),
    ],
)
def test_what_is_no_trigger_is_refused_with_the_reason(
    machine: Machine, given: tuple[str, ...], status: int, said: str
) -> None:
    assert said in machine.metier("triggers", "add", *given, check=status).stderr


def test_a_skill_that_declares_nothing_has_nothing_to_accept(machine: Machine) -> None:
    assert "declares no triggers" in machine.metier("triggers", "adopt", "fs_read", check=1).stderr
    assert "declares no schedules" in machine.metier("schedules", "adopt", "fs_read", check=1).stderr
