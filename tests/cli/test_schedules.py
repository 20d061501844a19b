"""`metier schedules`: set up, looked at, done now and taken back by the owner."""

import json
from pathlib import Path

import pytest

from machine import Machine


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path)
    memory = made.state / "workspace" / "memory"
    memory.mkdir(parents=True)
    made.state.chmod(0o700)
    (memory / "note.md").write_text("kept", encoding="utf-8")
    return made


READ = ("--tool", "fs_read/execute", "--arguments", '{"path": "memory/note.md"}')


@pytest.mark.slow
def test_a_schedule_is_set_up_listed_done_now_switched_and_removed(machine: Machine) -> None:
    assert "no schedules" in machine.metier("schedules", "list").stderr
    added = machine.metier(
        "schedules", "add", "--name", "brief", "--cron", "0 7 * * 1-5", "--zone", "Europe/Berlin", *READ
    ).stdout
    assert added.startswith("✓ brief is set up (sch_")
    assert "first due" in added
    listed = machine.metier("schedules", "list").stdout
    assert "cron 0 7 * * 1-5 (Europe/Berlin): calls fs_read/execute; due" in listed
    done = machine.metier("schedules", "run", "brief").stdout
    assert "✓ brief: completed" in done
    assert '"content": "kept"' in done
    assert "completed" in machine.metier("schedules", "show", "brief").stdout
    assert machine.metier("schedules", "missed").stdout == "Nothing was missed.\n"
    assert "is not due any more" in machine.metier("schedules", "disable", "brief").stdout
    row = json.loads(machine.metier("schedules", "list", "--json").stdout)["schedules"][0]
    assert (row["status"], row["next_due"]) == ("disabled", None)
    assert "is due again" in machine.metier("schedules", "enable", "brief").stdout
    assert "is removed" in machine.metier("schedules", "rm", "brief").stdout


def test_every_so_often_and_once_can_be_said_too(machine: Machine) -> None:
    machine.metier("schedules", "add", "--name", "often", "--every", "15m", *READ)
    machine.metier("schedules", "add", "--name", "once", "--at", "2090-01-31T08:00:00+01:00", *READ)
    listed = machine.metier("schedules", "list").stdout
    assert "every 900 s" in listed
    assert "due 2090-01-31" in listed


@pytest.mark.parametrize(
    ("given", "status", "said"),
    [
        (("--name", "x", *READ), 2, "Say when"),
        (("--name", "x", "--every", "1m", "--at", "x", *READ), 2, "Say when"),
        (("--every", "1m", *READ), 2, "--name"),
        (("--name", "x", "--every", "soon", *READ), 2, "30s"),
        (("--name", "x", "--every", "1s", *READ), 1, "intervalMs"),
        (("--name", "x", "--cron", "* *", *READ), 1, "five fields"),
        (("--name", "x", "--at", "2001-01-01T00:00:00Z", *READ), 1, "in the past"),
    ],
)
def test_what_is_no_schedule_is_refused_with_the_reason(
    machine: Machine, given: tuple[str, ...], status: int, said: str
) -> None:
    assert said in machine.metier("schedules", "add", *given, check=status).stderr


def test_what_cannot_be_done_now_is_said_and_is_a_problem(machine: Machine) -> None:
    machine.metier("schedules", "add", "--name", "x", "--every", "1h", "--tool", "no/such")
    assert "refused (unknown_tool)" in machine.metier("schedules", "run", "x", check=1).stderr


def test_what_a_skill_declares_is_shown_before_it_is_accepted(machine: Machine) -> None:
    folder = machine.skills / "desk"
    folder.mkdir(parents=True)
    about = {
        "id": "desk",
        "description": "Keeps things.",
        "instructions": "Do it.",
        "actions": [{"id": "tidy", "type": "code", "language": "python", "code": "return 1"}],
        "schedules": [{"type": "interval", "intervalMs": 900_000, "actionId": "tidy"}],
    }
    (folder / "skill.json").write_text(json.dumps(about), encoding="utf-8")
    machine.metier("skills", "trust", "desk", "--yes")
    no = machine.metier("schedules", "adopt", "desk", stdin="n\n", check=130)
    assert '"intervalMs": 900000' in no.stdout
    assert "no schedules" in machine.metier("schedules", "list").stderr
    assert "--yes" in machine.metier("schedules", "adopt", "desk", "--json", check=2).stderr
    yes = machine.metier("schedules", "adopt", "desk", stdin="y\n")
    assert "✓ desk: schedule 1 is set up (sch_" in yes.stdout
