"""`metier audit verify` speaks to scripts as it does to people."""

import json
import sqlite3
from pathlib import Path

import pytest

from machine import Machine
from metier.record.audit import AuditLog
from metier.record.chain import Act
from metier.record.database import Database


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def write(machine: Machine, records: int) -> str:
    """Record something; the head to keep elsewhere."""
    with Database.open(machine.settings().database) as database:
        log = AuditLog(database)
        for _ in range(records):
            log.refused(Act(principal="p"), code="c", reasons=("r",))
        return log.head()[1]


def test_where_nothing_was_recorded_there_is_json_all_the_same(machine: Machine) -> None:
    found = json.loads(machine.metier("audit", "verify", "--json").stdout)
    assert (found["ok"], found["records"], found["head"]) == (True, 0, "00" * 32)
    machine.metier("audit", "verify", "--expect", f"0:{'00' * 32}")
    said = machine.metier("audit", "verify", "--json", "--expect", f"3:{'ab' * 32}", check=1)
    assert json.loads(said.stdout)["ok"] is False
    assert "3 entries" in machine.metier("audit", "verify", "--expect", f"3:{'ab' * 32}", check=1).stderr


def test_a_hash_is_the_same_in_letters_of_either_case(machine: Machine) -> None:
    head = write(machine, 2)
    assert head != head.upper()
    for spelled in (head, head.upper()):
        machine.metier("audit", "verify", "--expect", f"2:{spelled}")
    machine.metier("audit", "verify", "--expect", f"2:{head[::-1]}", check=1)


@pytest.mark.parametrize(
    "expect",
    [
        f"²:{'ab' * 32}",
        f"٢:{'ab' * 32}",
        f"2:{'zz' * 32}",
        f"2:{'é' * 64}",
        "2:",
        "2",
        f"{'9' * 5000}:{'ab' * 32}",
    ],
)
def test_what_is_no_head_is_a_mistake_and_no_alarm(machine: Machine, expect: str) -> None:
    assert "COUNT:HASH" in machine.metier("audit", "verify", "--expect", expect, check=2).stderr


def test_a_planted_trigger_is_a_finding(machine: Machine) -> None:
    write(machine, 1)
    with sqlite3.connect(machine.settings().database) as file:
        file.execute("CREATE TRIGGER quiet BEFORE INSERT ON audit BEGIN SELECT raise(IGNORE); END")
    file.close()
    assert "trigger 'quiet'" in machine.metier("audit", "verify", check=1).stderr
