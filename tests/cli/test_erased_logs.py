"""What a skill wrote into the log of its call goes with whatever else was kept of that call."""

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
