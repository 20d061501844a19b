"""The record of a call has the fields of MetaHuman's audit trail, whatever became of the call."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gatehouse import OWNER
from machine import Machine
from metier.catalog.here import owner
from metier.model.outcome import Completed, Failed, Pending, Refused
from parlour import AGENT, Parlour, tool

GIVEN = {"to": "ada", "text": "tea?"}


@pytest.fixture
def parlour(tmp_path: Path) -> Iterator[Parlour]:
    made = Parlour(tmp_path, tool(), tool("write", risk="high", approval="always"))
    yield made
    made.database.close()


def test_a_call_that_ran_is_recorded_with_what_went_in_and_what_came_out(parlour: Parlour) -> None:
    outcome = parlour.call()
    assert isinstance(outcome, Completed)
    started, ended = parlour.lines(outcome.call_id)
    assert started["event"] == "skill_execution_started"
    assert {key: ended[key] for key in ("event", "level", "category", "actor")} == {
        "event": "skill_executed", "level": "info", "category": "action", "actor": AGENT,
    }  # fmt: skip
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", ended["timestamp"])
    details = ended["details"]
    assert details["inputs"] == GIVEN
    assert details["outputs"] == {"sent": True}
    assert details["success"] is True
    assert details["durationMs"] >= 0
    assert details["approvalRequired"] is False
    assert not details["approvedBy"]
    assert details["trustLevel"] == "supervised_auto"
    assert {"skillId", "inputs", "outputs", "success", "durationMs"} <= set(details)
    assert {"approvalRequired", "approvedBy", "trustLevel"} <= set(details)


def test_an_approved_call_says_that_it_was_asked_for_and_who_said_yes(parlour: Parlour) -> None:
    pending = parlour.call("write")
    assert isinstance(pending, Pending)
    parlour.decided(pending)
    assert isinstance(parlour.resume(pending), Completed)
    details = parlour.lines(pending.call_id)[-1]["details"]
    assert details["approvalRequired"] is True
    assert details["approvedBy"] == OWNER
    assert details["success"] is True


def test_a_failure_and_a_refusal_are_recorded_as_what_they_are(parlour: Parlour) -> None:
    parlour.returns = Failed(call_id="call_1", code="not_found", message="nobody of that name")
    failed = parlour.call()
    assert isinstance(failed, Failed)
    line = parlour.lines(failed.call_id)[-1]
    assert (line["event"], line["level"], line["code"]) == ("skill_execution_error", "error", "not_found")
    assert (line["details"]["success"], line["details"]["inputs"]) == (False, GIVEN)
    refused = parlour.call(arguments={"to": 7})
    assert isinstance(refused, Refused)
    (line,) = parlour.lines(refused.call_id)
    assert (line["event"], line["details"]["success"]) == ("skill_execution_blocked", False)
    assert line["details"]["inputs"] == {"to": 7}


def test_every_execution_has_a_hash_of_what_went_in_and_of_what_came_out(parlour: Parlour) -> None:
    outcome = parlour.call()
    ended = parlour.lines(outcome.call_id)[-1]
    other = parlour.lines(parlour.call(arguments={**GIVEN, "text": "x"}).call_id)[-1]
    for line in (ended, other):
        assert len(bytes.fromhex(line["inputHash"])) == len(bytes.fromhex(line["outputHash"])) == 32
    assert ended["inputHash"] != other["inputHash"]


def test_through_the_real_doors_the_record_says_who_said_yes(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.state.mkdir(mode=0o700)
    rules = machine.state / "policy.toml"
    rules.write_text('[[rule]]\ndecision = "ask"\nbecause = "to be sure"\ntool = "read_skill"\n')
    rules.chmod(0o600)
    machine.metier("call", "read_skill", '{"name": "writing-skills"}', check=None)
    (waiting,) = machine.json("approvals", "list", "--json")
    machine.metier("approvals", "approve", waiting["id"])
    exported = [json.loads(line) for line in machine.metier("audit", "export").stdout.splitlines()]
    (ended,) = (line for line in exported if line["event"] == "skill_executed")
    assert ended["details"]["approvalRequired"] is True
    assert ended["details"]["approvedBy"] == owner()
    assert ended["details"]["inputs"] == {"name": "writing-skills"}
