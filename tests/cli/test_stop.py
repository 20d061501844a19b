"""The stop button at the command line, and that it is not forgotten."""

import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from machine import Machine, write_skill
from metier.record.audit import AuditLog, Intent
from metier.record.chain import Act
from metier.record.database import Database

READ = ("call", "read_skill", '{"name": "tea"}')


@pytest.fixture
def stopped(machine: Machine) -> Machine:
    write_skill(machine.skills / "tea")
    machine.metier(*READ)
    machine.metier("stop", "--why", "a fire drill")
    return machine


def test_who_stops_again_without_a_reason_leaves_the_first_one(stopped: Machine) -> None:
    stopped.metier("stop")
    assert "a fire drill" in stopped.metier(*READ, check=3).stderr
    assert "✓" in stopped.metier("audit", "verify").stdout


def test_who_stops_again_with_a_reason_gives_another_one(stopped: Machine) -> None:
    stopped.metier("stop", "--why", "a real one")
    said = stopped.metier(*READ, check=3).stderr
    assert "a real one" in said
    assert "drill" not in said


def test_a_stop_without_a_reason_has_one(machine: Machine) -> None:
    assert "0 running calls are being ended" in machine.metier("stop").stdout
    write_skill(machine.skills / "tea")
    assert "an operator stopped everything" in machine.metier(*READ, check=3).stderr


def test_a_stop_is_not_forgotten_with_the_state(stopped: Machine) -> None:
    stopped.metier("backup", str(stopped.top / "copy"))
    state = stopped.state / "state.db"
    for side in ("", "-wal", "-shm"):
        if os.path.lexists(f"{state}{side}"):
            os.unlink(f"{state}{side}")
    for line in (
        READ,
        ("stop",),
        ("resume",),
        ("skills", "trust", "tea", "--yes"),
        ("skills", "list"),
        ("audit", "verify"),
    ):
        done = stopped.metier(*line, check=5)
        assert "is gone, and with it every stop" in done.stderr
        assert "metier restore FILE" in done.stderr
        assert not state.exists()
    stopped.metier("restore", str(stopped.top / "copy"))
    assert "Refused (stopped)" in stopped.metier(*READ, check=3).stderr


def test_who_moves_what_is_left_away_begins_anew(stopped: Machine) -> None:
    for name in os.listdir(stopped.state):
        if name.startswith("state.db"):
            os.unlink(stopped.state / name)
    os.rename(stopped.state / "bundles", stopped.top / "bundles")
    assert "<skill_content" in stopped.metier(*READ).stdout
    assert (stopped.state / "state.db").exists()


def test_who_looks_at_a_skill_first_and_does_not_trust_it_can_go_on(machine: Machine) -> None:
    write_skill(machine.project / "skills/theirs")
    assert "not trusted" in machine.metier("skills", "trust", "theirs", stdin="n\n", check=1).stderr
    write_skill(machine.skills / "tea")
    machine.metier(*READ)


def test_a_rule_is_not_got_around_by_a_second_name_in_a_folder_that_was_granted(machine: Machine) -> None:
    """What is written there would be the rules."""
    write_skill(machine.skills / "tea")
    (machine.state / "policy.toml").write_text(
        '[[rule]]\ndecision = "deny"\ntool = "read_skill"\nbecause = "never"\n', encoding="utf-8"
    )
    data = machine.top / "data"
    data.mkdir()
    own = machine.project / "own.py"
    own.write_text("open(params['file'], 'w').write('')\nresult = 'written'\n", encoding="utf-8")
    (data / "notes.txt").write_text("", encoding="utf-8")
    args = f'{{"file": "{data}/notes.txt"}}'
    assert "written" in machine.metier("run", "own.py", "--allow", f"write={data}", "--args", args).stdout
    (data / "notes.txt").unlink()
    os.link(machine.state / "policy.toml", data / "notes.txt")
    said = machine.metier("run", "own.py", "--allow", f"write={data}", "--args", args, check=3).stderr
    assert "second name" in said
    assert "never" in (machine.state / "policy.toml").read_text(encoding="utf-8")
    machine.metier(*READ, check=3)


NO: dict[str, tuple[str, ...]] = {
    "stop": ("stop",),
    "disable": ("skills", "disable", "tea"),
    "revoke": ("principals", "revoke", "agent:other"),
}


@pytest.mark.parametrize("no", NO)
def test_a_state_with_a_second_name_is_good_for_no_yes_and_for_every_no(machine: Machine, no: str) -> None:
    write_skill(machine.skills / "tea")
    machine.metier(*READ)
    machine.metier("principals", "add", "agent:other", "--role", "agent")
    os.link(machine.state / "state.db", machine.top / "linked-by-a-backup")
    assert "second name" in machine.metier(*READ, check=5).stderr
    assert "second name" in machine.metier("resume", check=5).stderr
    assert "second name" in machine.metier(*NO[no]).stderr
    os.unlink(machine.top / "linked-by-a-backup")
    if no == "revoke":
        listed = machine.metier("principals", "list").stdout
        assert "revoked" in next(line for line in listed.splitlines() if "agent:other" in line)
    else:
        assert machine.metier(*READ, check=3).stderr.startswith("Refused")


def test_the_stop_button_needs_no_configuration(machine: Machine) -> None:
    write_skill(machine.skills / "tea")
    (machine.state / "metier.toml").write_text("nonsense = ")
    assert "stopped" in machine.metier("stop").stdout
    (machine.state / "metier.toml").unlink()
    assert "Refused (stopped)" in machine.metier(*READ, check=3).stderr


def test_what_runs_is_ended_when_nobody_can_tell_any_more_whether_it_may(machine: Machine) -> None:
    here = machine.top / "here"
    here.mkdir()
    code = machine.project / "long.py"
    code.write_text(f"import time\nopen({str(here / 'began')!r}, 'w').close()\ntime.sleep(60)\n")
    line = ("run", "--lang", "python", "--timeout", "60", "--allow", f"write={here}", str(code))
    program = str(Path(sys.executable).with_name("metier"))
    began = time.monotonic()
    running = subprocess.Popen([program, *line], cwd=machine.project, env=machine.environ)
    try:
        while not (here / "began").exists():
            assert time.monotonic() - began < 30
            time.sleep(0.05)
        os.link(machine.state / "state.db", machine.top / "linked-by-a-backup")
        linked = time.monotonic()
        assert running.wait(40) != 0
        assert time.monotonic() - linked < 30
    finally:
        running.kill()
        running.wait()


def begin(machine: Machine, *calls: str) -> str:
    """Calls without an outcome; gives where the state is."""
    path = str(machine.state / "state.db")
    with Database.open(path) as database:
        for call in calls:
            act = Act(principal="agent:cli", call_id=call, tool="notes/write", evidence="policy")
            assert isinstance(AuditLog(database).intent(act), Intent)
    return path


@pytest.mark.parametrize("column", ["process", "cancelled_by", "call_id"])
def test_a_cell_that_is_no_text_takes_nobody_the_list_the_end_of_a_call_or_the_stop(
    machine: Machine, column: str
) -> None:
    with closing(sqlite3.connect(begin(machine, "call-1", "call-2"), isolation_level=None)) as intruder:
        intruder.execute(f"UPDATE open_intent SET {column} = CAST(x'ff' AS TEXT) WHERE seq = 1")  # noqa: S608
    listed = machine.metier("calls", "list").stdout
    assert "call-1" in listed
    assert "call-2" in listed
    machine.metier("calls", "cancel", "call-2")
    assert "running calls are being ended" in machine.metier("stop").stdout


def test_a_stop_whose_calls_cannot_be_listed_is_still_told_as_one(machine: Machine) -> None:
    path = begin(machine, "call-1")
    with closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        size = file.execute("PRAGMA page_size").fetchone()[0]
        [page] = file.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'open_intent'").fetchone()
    with open(path, "r+b") as state:
        state.seek((page - 1) * size)
        state.write(b"\xff" * size)
    done = machine.metier("stop")
    assert "running calls are being ended" in done.stdout
    assert "cannot be listed" in done.stderr
    write_skill(machine.skills / "tea")
    assert "an operator stopped everything" in machine.metier(*READ, check=3).stderr
