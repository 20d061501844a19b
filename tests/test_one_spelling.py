"""A file of a skill has one name at the gate: rules, record, approver and run all see the same."""

import json
from pathlib import Path
from typing import Any

import pytest

from machine import Machine, write_skill
from metier.blocking import SyncRuntime
from metier.model.outcome import Completed, Failed, Outcome, Pending, Refused
from metier.record.approvals import find
from metier.record.database import Database

RULE = """
[[rule]]
decision = "{decision}"
because = "not that file"
tool = "read_skill"
when = 'has(args.path) && args.path == "references/secret.md"'
match = [{{tool = "read_skill", args = {{path = "references/secret.md"}}}}]
"""
SPELLINGS = [
    "references/secret.md",
    "./references/secret.md",
    "././references/secret.md",
    "references/./secret.md",
    "skill://notes/references/secret.md",
    "skill://notes/./references/secret.md",
]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.delenv("METIER_HOME", raising=False)
    folder = write_skill(made.skills / "notes", body="Read {baseDir}/references/secret.md")
    (folder / "references").mkdir()
    (folder / "references" / "secret.md").write_text("TOPSECRET", encoding="utf-8")
    (folder / "references" / "open.md").write_text("open", encoding="utf-8")
    return made


def ruled(machine: Machine, decision: str) -> None:
    file = machine.state / "policy.toml"
    file.write_text(RULE.format(decision=decision), encoding="utf-8")
    file.chmod(0o600)


def read(machine: Machine, path: str) -> Outcome:
    with SyncRuntime.open(project=str(machine.project), watch=False) as runtime:
        return runtime.call("read_skill", {"name": "notes", "path": path})


def recorded(machine: Machine, call_id: str) -> list[Any]:
    """The arguments in every record of a call that has some."""
    lines = machine.metier("audit", "export").stdout.splitlines()
    records = [json.loads(line) for line in lines]
    return [
        each["details"]["inputs"]
        for each in records
        if each.get("callId") == call_id and each["details"].get("inputs") is not None
    ]


@pytest.mark.parametrize("path", SPELLINGS)
def test_a_rule_about_a_file_cannot_be_got_around_by_another_spelling_of_it(
    machine: Machine, path: str
) -> None:
    free = read(machine, path)
    assert isinstance(free, Completed)
    assert "TOPSECRET" in str(free.value)  # without the rule every spelling leads there
    ruled(machine, "deny")
    denied = read(machine, path)
    assert isinstance(denied, Refused)
    assert denied.code == "forbidden"
    assert "not that file" in denied.reasons[0]
    assert isinstance(read(machine, path.replace("secret", "open")), Completed)
    for outcome in (free, denied):
        assert {each["path"] for each in recorded(machine, outcome.call_id)} == {"references/secret.md"}


@pytest.mark.parametrize("path", ["./references/secret.md", "skill://notes/references/secret.md"])
def test_an_approver_is_shown_the_name_under_which_it_is_read(machine: Machine, path: str) -> None:
    ruled(machine, "ask")
    pending = read(machine, path)
    assert isinstance(pending, Pending)
    with Database.open(machine.settings().database) as database:
        request = find(database, pending.approval_id)
    assert request is not None
    assert request.shown is not None
    assert request.shown.arguments == {"name": "notes", "path": "references/secret.md"}
    machine.metier("approvals", "approve", pending.approval_id)
    assert recorded(machine, pending.call_id)[-1] == {"name": "notes", "path": "references/secret.md"}


def test_a_path_that_is_no_name_in_a_bundle_finds_nothing(machine: Machine) -> None:
    for path in ("references/../references/secret.md", "references//secret.md", "skill://other/SKILL.md"):
        outcome = read(machine, path)
        assert isinstance(outcome, Failed), path
        assert outcome.code == "not_found"
