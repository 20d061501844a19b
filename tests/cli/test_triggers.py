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
        (("--name", "x", "--message", "a", "--tool", "t", "--cooldown", "inf"), 2, "number of seconds"),
        (("--name", "x", "--message", "a", "--tool", "t", "--cooldown", "nan"), 2, "number of seconds"),
        (("--name", "x", "--message", "a", "--tool", "t", "--cooldown", "-1"), 2, "number of seconds"),
        (("--name", "x", "--event", "e", "--tool", "t", "--reply", "r"), 2, "sendTo"),
        (("--name", "x", "--message", "a", "--tool", "t", "--source", "s"), 2, "--event"),
        (("trigger.json", "--name", "x"), 2, "--name cannot be added"),
        (("trigger.json", "--cooldown", "0"), 2, "--cooldown cannot be added"),
    ],
)
def test_what_is_no_trigger_is_refused_with_the_reason(
    machine: Machine, given: tuple[str, ...], status: int, said: str
) -> None:
    assert said in machine.metier("triggers", "add", *given, check=status).stderr


def test_who_waits_for_calls_of_a_tool_that_is_not_there_is_told_so(machine: Machine) -> None:
    known = machine.metier("triggers", "add", "--name", "x", "--on-tool", "fs_read", "--tool", "search_index")
    assert known.stderr == ""
    odd = machine.metier("triggers", "add", "--name", "y", "--on-tool", "fs_raed", "--tool", "search_index")
    assert odd.stdout.startswith("✓ y is set up")
    assert odd.stderr == "Mind: there is no tool 'fs_raed' here now whose calls set off triggers.\n"
    tried = machine.metier("triggers", "test", "--on-tool", "fs_read/execute")
    assert " x " in tried.stdout
    assert tried.stderr == ""
    steering = machine.metier("triggers", "test", "--on-tool", "skills.disable").stderr
    assert steering.startswith("Mind: there is no tool 'skills.disable'")


def test_a_skill_that_declares_nothing_has_nothing_to_accept(machine: Machine) -> None:
    assert "declares no triggers" in machine.metier("triggers", "adopt", "fs_read", check=1).stderr
    assert "declares no schedules" in machine.metier("schedules", "adopt", "fs_read", check=1).stderr


def declaring(machine: Machine, *triggers: dict[str, object]) -> None:
    folder = machine.skills / "desk"
    folder.mkdir(parents=True)
    about = {
        "id": "desk",
        "description": "Keeps things.",
        "instructions": "Do it.",
        "actions": [{"id": "tidy", "type": "code", "language": "python", "code": "return 1"}],
        "triggers": triggers,
    }
    (folder / "skill.json").write_text(json.dumps(about), encoding="utf-8")
    machine.metier("skills", "trust", "desk", "--yes")


def test_what_a_skill_declares_is_shown_before_it_is_accepted_and_what_reaches_further_is_not(
    machine: Machine,
) -> None:
    message = {"type": "message", "patterns": ["tidy up"], "actionId": "tidy"}
    declaring(machine, message, {**message, "timing": "instead"})

    def names() -> list[str]:
        found = json.loads(machine.metier("triggers", "list", "--json").stdout)["triggers"]
        return [each["name"] for each in found]

    no = machine.metier("triggers", "adopt", "desk", stdin="n\n", check=130)
    assert '"tidy up"' in no.stdout
    assert "desk: trigger 2: left out, for it would stand in the place" in no.stdout
    assert names() == []
    assert "--yes" in machine.metier("triggers", "adopt", "desk", "--json", check=2).stderr
    yes = machine.metier("triggers", "adopt", "desk", stdin="y\n")
    assert "✓ desk: trigger 1 is set up (trg_" in yes.stdout
    assert "✗ desk: trigger 2 is not set up: it would stand in the place" in yes.stdout
    assert names() == ["desk: trigger 1"]
    machine.metier("triggers", "rm", "desk: trigger 1")
    answer = json.loads(machine.metier("triggers", "adopt", "desk", "--json", "--yes").stdout)
    assert [each["name"] for each in answer["adopted"]] == names() == ["desk: trigger 1"]


def test_where_nothing_can_be_accepted_nobody_is_asked(machine: Machine) -> None:
    declaring(machine, {"type": "tool_use", "toolNames": ["*"], "actionId": "tidy"})
    done = machine.metier("triggers", "adopt", "desk", check=1)
    assert "calls of others" in done.stdout
    assert "nothing of what 'desk' declares can be accepted as it is" in done.stderr
