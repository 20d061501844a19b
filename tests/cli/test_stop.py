"""The stop button at the command line, and that it is not forgotten."""

import os

import pytest

from machine import Machine, write_skill

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
