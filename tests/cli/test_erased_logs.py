"""What a skill wrote into the log of its call goes with whatever else was kept of that call."""

import sqlite3
from contextlib import closing

import anyio
import pytest

from machine import Machine
from metier.host.call_log import CallLog
from metier.record.audit import AuditLog, Intent
from metier.record.chain import Act, now
from metier.record.database import Database

OLD = "2020-01-01T00:00:00.000000Z"


def ran(machine: Machine, call_id: str, at: str) -> None:
    """A call that ran at that time, whose skill said something."""
    with Database.open(str(machine.state / "state.db")) as database:
        log = AuditLog(database, clock=lambda: at)
        intent = log.intent(Act(principal="agent:cli", call_id=call_id), payloads={"arguments": "a"})
        assert isinstance(intent, Intent)
        log.outcome(intent, "skill_executed", payloads={"result": "r"})

    async def say() -> None:
        assert await CallLog(str(machine.state), call_id, "notes").append("canary") is None

    anyio.run(say)


def logs(machine: Machine) -> list[str]:
    return sorted(path.stem for path in (machine.state / "calls").iterdir())


@pytest.mark.parametrize(
    "words", [("erase", "1", "--yes"), ("erase", "2", "--yes"), ("erase", "--call", "call_1", "--yes")]
)
def test_aud_16_erasing_a_record_erases_the_log_of_its_call(machine: Machine, words: tuple[str, ...]) -> None:
    ran(machine, "call_1", OLD)
    ran(machine, "call_2", OLD)
    assert "✓ Erased" in machine.metier("audit", *words).stdout
    assert logs(machine) == ["call_2"]
    assert "nothing changed" in machine.metier("audit", "verify").stdout


def test_aud_16_what_is_older_than_it_is_kept_takes_its_log_with_it(machine: Machine) -> None:
    ran(machine, "call_1", OLD)
    ran(machine, "call_2", now())
    assert "of 2 records" in machine.metier("audit", "retain", "--days", "30", "--dry-run").stdout
    assert logs(machine) == ["call_1", "call_2"]
    assert "of 2 records" in machine.metier("audit", "retain", "--days", "30").stdout
    assert logs(machine) == ["call_2"]


def test_erasing_again_finishes_what_was_hindered(machine: Machine) -> None:
    ran(machine, "call_1", OLD)
    machine.metier("audit", "erase", "1", "--yes")
    ran_on = CallLog(str(machine.state), "call_1", "notes")
    anyio.run(ran_on.append, "canary")
    assert "✓ Erased" in machine.metier("audit", "erase", "1", "--yes").stdout
    assert logs(machine) == []


def test_a_wrong_number_among_them_erases_nothing_and_that_is_said(machine: Machine) -> None:
    ran(machine, "call_1", OLD)
    done = machine.metier("audit", "erase", "1", "9999", "--yes", check=5)
    assert "there is no record 9999 (the newest is 2); nothing was erased" in done.stderr
    assert logs(machine) == ["call_1"]
    assert '"a"' in machine.metier("audit", "show", "1").stdout
    assert "payload_erased" not in machine.metier("audit", "tail").stdout
    assert "✓ Erased" in machine.metier("audit", "erase", "1", "--yes").stdout


def test_a_mistyped_call_is_said(machine: Machine) -> None:
    ran(machine, "call_1", OLD)
    assert (
        "nothing was erased" in machine.metier("audit", "erase", "--call", "call_l", "--yes", check=5).stderr
    )
    assert logs(machine) == ["call_1"]


def test_a_timer_tells_of_a_record_whose_age_nobody_can_read(machine: Machine) -> None:
    ran(machine, "call_1", OLD)
    ran(machine, "call_2", OLD)
    with closing(sqlite3.connect(machine.state / "state.db", isolation_level=None)) as intruder:
        intruder.execute("UPDATE audit SET body = x'00' WHERE seq = 1")
    done = machine.metier("audit", "retain", "--days", "30", check=1)
    assert "of 3 records" in done.stdout
    assert "How old record 1 is cannot be read" in done.stderr
    assert "metier audit verify" in done.stderr
