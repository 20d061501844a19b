"""A yes that came late, at the terminal and in a program: each command is a process of its own."""

from pathlib import Path
from typing import Any

import pytest

from machine import Machine, write_skill
from metier import Completed, Pending
from metier.blocking import SyncRuntime
from metier.record.audit import AuditLog
from metier.record.database import Database
from metier.record.verify import verify

ASK = '[[rule]]\ndecision = "ask"\nbecause = "to be sure"\ntool = "read_skill"\n'
CALL = ("call", "read_skill", '{"name": "tea"}', "--json")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Reading a skill has to be asked first."""
    made = Machine(tmp_path)
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.delenv("METIER_HOME", raising=False)
    write_skill(made.skills / "tea", body="Boil, then pour.")
    file = made.state / "policy.toml"
    file.write_text(ASK, encoding="utf-8")
    file.chmod(0o600)
    return made


def said(machine: Machine, *args: str) -> Any:
    return machine.json(*args, check=None)


def events(machine: Machine) -> list[str]:
    with Database.open(str(machine.state / "state.db")) as database:
        assert verify(database).ok
        return [each.event for each in AuditLog(database).tail(100)]


def test_a_command_that_is_given_again_prints_what_ran_when_it_was_approved(machine: Machine) -> None:
    first = said(machine, *CALL)
    assert first["outcome"] == "pending"
    done = said(machine, "approvals", "approve", first["approval_id"], "--json")
    assert done["outcome"] == "completed" and "earlier" not in done
    given = said(machine, *CALL)
    assert given["outcome"] == "completed"
    assert given["value"] == done["value"]
    assert given["earlier"]["call_id"] == first["call_id"]
    assert given["earlier"]["approval_id"] == first["approval_id"]
    assert said(machine, *CALL)["outcome"] == "pending"
    assert events(machine).count("skill_execution_started") == 1


def test_who_sits_there_is_told_that_it_did_not_run_now(machine: Machine) -> None:
    first = said(machine, *CALL)
    machine.metier("approvals", "approve", first["approval_id"])
    shown = machine.metier("call", "read_skill", '{"name": "tea"}')
    assert "Boil, then pour." in shown.stdout
    assert "This did not run now" in shown.stderr and first["call_id"] in shown.stderr
    assert "This did not run now" not in shown.stdout


def test_a_program_is_given_what_was_approved_and_run_at_the_terminal(machine: Machine) -> None:
    with SyncRuntime.open(home=str(machine.state), project=str(machine.project)) as runtime:
        first = runtime.call("read_skill", {"name": "tea"})
        assert isinstance(first, Pending), first
        assert said(machine, "approvals", "approve", first.approval_id, "--json")["outcome"] == "completed"
        given = runtime.call("read_skill", {"name": "tea"})
        assert isinstance(given, Completed), given
        assert given.earlier is not None and given.earlier.call_id == first.call_id
        assert isinstance(runtime.call("read_skill", {"name": "tea"}), Pending)
    # The terminal is another agent of the same person, and is not given what that one asked.
    assert events(machine).count("outcome_given") == 1


def test_the_command_line_is_not_given_what_a_program_asked(machine: Machine) -> None:
    with SyncRuntime.open(home=str(machine.state), project=str(machine.project)) as runtime:
        first = runtime.call("read_skill", {"name": "tea"})
        assert isinstance(first, Pending), first
        said(machine, "approvals", "approve", first.approval_id, "--json")
        assert said(machine, *CALL)["outcome"] == "pending"
        assert isinstance(runtime.call("read_skill", {"name": "tea"}), Completed)
