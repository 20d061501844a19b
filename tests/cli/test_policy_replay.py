"""`metier policy replay`: other rules over what was recorded, from the command line."""

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from machine import Machine, write_skill
from metier.gate.replay import Replay
from metier.gate.rules import Rules
from metier.record.audit import AuditLog
from metier.record.chain import Act
from metier.record.database import Database
from metier.record.judgements import judgements

DENY_DIARY = """\
[[rule]]
name = "mine"
decision = "deny"
because = "the notes are mine"
tool = "read_skill"
when = "args.name == 'diary'"
match = [{ tool = "read_skill", args = { name = "diary" } }]
"""
ASK = '[[rule]]\ndecision = "ask"\nbecause = "to be sure"\ntool = "read_skill"\n'


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o600)
    return file


def read(machine: Machine, name: str, check: int = 0) -> None:
    machine.metier("call", "read_skill", json.dumps({"name": name}), check=check)


def replay(machine: Machine, *args: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    lines = [
        json.loads(line) for line in machine.metier("policy", "replay", "--json", *args).stdout.splitlines()
    ]
    return lines[:-1], lines[-1]["summary"]


@pytest.fixture
def diary(machine: Machine) -> Machine:
    for name in ("diary", "recipes"):
        write_skill(machine.skills / name)
    return machine


def test_where_nothing_was_recorded_it_says_so_and_makes_nothing(machine: Machine) -> None:
    assert "No call was recorded" in machine.metier("policy", "replay").stderr
    assert not (machine.state / "state.db").exists()


def test_what_new_rules_would_have_denied_is_named_with_the_rule(diary: Machine) -> None:
    read(diary, "diary")
    read(diary, "recipes")
    read(diary, "nowhere", check=3)
    new = write(diary.project / "new.toml", DENY_DIARY)
    found, summary = replay(diary, "--policy", str(new))
    assert [(each["skill"], each["state"], each["was"], each["wouldBe"]) for each in found] == [
        ("diary", "otherwise", "allow", ["deny"])
    ]
    assert found[0]["rules"] == ["rule 'mine': the notes are mine"]
    assert (summary["judged"], summary["same"], summary["otherwise"], summary["unasked"]) == (2, 1, 1, 1)
    said = diary.metier("policy", "replay", "--policy", str(new)).stdout
    assert "read_skill diary by agent:cli: allowed → denied (rule 'mine': the notes are mine)" in said
    assert "1 would have ended otherwise (1 allowed → denied), 1 the same, 0 cannot be told" in said
    assert "Only the rules were asked again" in said
    # It was a question: the next call is judged by the rules there are.
    read(diary, "diary")


def test_rules_that_are_taken_away_leave_open_what_the_others_would_have_said(diary: Machine) -> None:
    policy = write(diary.state / "policy.toml", DENY_DIARY)
    read(diary, "diary", check=3)
    assert replay(diary)[1]["same"] == 1
    policy.unlink()
    diary.metier("policy", "forget")
    found, _ = replay(diary)
    assert found[0]["state"] == "undecidable"
    assert found[0]["wouldBe"] == ["allow", "ask", "deny"]
    assert "other layers" in found[0]["unknown"][0]
    write(policy, ASK)
    found, _ = replay(diary)
    assert (found[0]["state"], found[0]["was"], found[0]["wouldBe"]) == ("otherwise", "deny", ["ask"])


def test_a_file_that_is_gone_is_not_taken_for_no_rules(diary: Machine) -> None:
    policy = write(diary.state / "policy.toml", ASK)
    diary.metier("call", "read_skill", '{"name": "diary"}', check=4)
    policy.unlink()
    done = diary.metier("policy", "replay", check=1)
    assert "was there and is gone" in done.stderr
    assert "metier policy forget" in done.stderr
    assert done.stdout == ""
    diary.metier("policy", "forget")
    done = diary.metier("policy", "replay")
    assert "Without any rules" in done.stdout
    assert " over 1 call:" in done.stdout


def test_a_call_that_was_asked_and_then_ran_is_one_call(diary: Machine) -> None:
    policy = write(diary.state / "policy.toml", ASK)
    asked = diary.metier("call", "read_skill", '{"name": "diary"}', "--json", check=4)
    approval = json.loads(asked.stdout)["approval_id"]
    diary.metier("approvals", "approve", approval, "--yes")
    events = [json.loads(line) for line in diary.metier("audit", "tail", "--json").stdout.splitlines()]
    begun = next(each for each in events if each["event"] == "skill_execution_started")
    write(policy, DENY_DIARY)
    found, summary = replay(diary)
    assert [(each["was"], each["wouldBe"]) for each in found] == [("ask", ["deny"])]
    assert summary["judged"] == 1
    # Where its asking lies before the beginning, its taking up tells of it.
    found, summary = replay(diary, "--since", str(begun["seq"]))
    assert [(each["seq"], each["was"]) for each in found] == [(begun["seq"], "ask")]


def test_since_leaves_out_what_was_before(diary: Machine) -> None:
    read(diary, "diary")
    last = json.loads(diary.metier("audit", "tail", "-n", "1", "--json").stdout)
    new = str(write(diary.project / "new.toml", DENY_DIARY))
    assert replay(diary, "--policy", new, "--since", str(last["seq"]))[1]["judged"] == 0
    assert replay(diary, "--policy", new, "--since", "2020-01-01")[1]["otherwise"] == 1
    assert replay(diary, "--policy", new, "--since", "2999-01-01")[1]["judged"] == 0
    assert "a time in UTC" in diary.metier("policy", "replay", "--since", "soon", check=2).stderr


@pytest.mark.parametrize("gone", ["erased", "hashes"])
def test_arguments_that_are_gone_are_not_guessed(diary: Machine, gone: str) -> None:
    if gone == "hashes":
        write(diary.state / "metier.toml", '[audit]\npayloads = "hashes"\n')
    read(diary, "recipes")
    new = str(write(diary.project / "new.toml", DENY_DIARY))
    if gone == "erased":
        assert replay(diary, "--policy", new)[1]["same"] == 1
        database = Database.open(str(diary.state / "state.db"))
        with database:
            log = AuditLog(database)
            intent = next(each for each in log.tail(10) if each.event == "skill_execution_started")
            log.erase(intent.seq, by="human:test")
    found, summary = replay(diary, "--policy", new)
    assert (summary["undecidable"], found[0]["wouldBe"]) == (1, ["allow", "deny"])
    assert ("erased" if gone == "erased" else "only a digest") in found[0]["unknown"][0]
    said = diary.metier("policy", "replay", "--policy", new).stdout
    assert "allowed → allowed or denied? (rule 'mine': " in said
    assert "1 cannot be told" in said


def test_rules_that_cannot_be_used_are_not_tried(diary: Machine) -> None:
    read(diary, "diary")
    bad = write(diary.project / "bad.toml", DENY_DIARY.replace("'diary'", "'dairy'"))
    done = diary.metier("policy", "replay", "--policy", str(bad), check=1)
    assert "rule 1" in done.stderr and "nothing to compare" in done.stderr
    assert done.stdout == ""
    assert "no file" in diary.metier("policy", "replay", "--policy", "old.toml", check=2).stderr


def test_hostile_names_in_the_record_move_no_cursor(diary: Machine) -> None:
    read(diary, "diary")
    database = Database.open(str(diary.state / "state.db"))
    with database:
        act = Act(principal="agent:\x1b[2J", tool="t\u202e", effect="act", decision="deny")
        AuditLog(database).refused(act, code="forbidden", reasons=("no layer allowed it",))
    new = write(diary.project / "new.toml", ASK.replace('"read_skill"', '["read_skill", "t\\u202e"]'))
    said = diary.metier("policy", "replay", "--policy", str(new)).stdout
    assert "2 would have ended otherwise" in said
    assert "\x1b" not in said and "\u202e" not in said


def test_a_long_log_takes_no_more_memory_than_a_short_one(tmp_path: Path) -> None:
    database = Database.open(str(tmp_path / "s" / "state.db"))
    act = Act(principal="agent:a", tool="t", effect="act", decision="deny")
    peaks: list[int] = []
    with database:
        log = AuditLog(database)
        for many in (200, 2_000):
            with database.transaction() as connection:
                for _ in range(many):
                    log.noting(
                        "skill_execution_blocked", act, code="forbidden", reasons=("no layer allowed it",)
                    )(connection)
            tracemalloc.start()
            replay = Replay(Rules(digest="x"), {})
            assert all(replay.one(*each) is not None for each in judgements(database))
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert peaks[1] < peaks[0] + 200_000
