"""Payloads go when they are old, or when somebody wants them gone; the records stay and still verify."""

import sqlite3
from collections.abc import Callable

import pytest

from approval_kit import OWNER, approved_once, ask, claim, wanted
from metier.errors import RecordError
from metier.record.audit import AuditLog, Intent
from metier.record.chain import Act
from metier.record.database import Database
from metier.record.deciding import decide
from metier.record.erasure import calls_of, erase, erase_call, older_than, require_records
from metier.record.verify import verify


def at(database: Database, times: list[str]) -> None:
    for time in times:
        AuditLog(database, clock=lambda time=time: time).refused(
            Act(principal="p"), code="c", reasons=("r",), payloads={"arguments": f"asked at {time}"}
        )


def day(number: int, year: int = 2026) -> str:
    return f"{year}-01-{number:02}T00:00:00.000000Z"


def test_only_payloads_older_than_that_are_erased(
    path: str, database: Database, log: AuditLog, on_disk: Callable[[], bytes]
) -> None:
    at(database, [day(1), day(2), day(3), day(4)])
    assert older_than(database, day(3)).seqs == [1, 2]
    assert erase(database, older_than(database, day(3)).seqs, by="human:x") == 2
    data = on_disk()
    assert [day(number).encode() in data.replace(b'"at":"', b"") and f"asked at {day(number)}".encode() in data for number in (1, 2, 3, 4)] == [False, False, True, True]  # fmt: skip
    assert verify(path).ok
    assert older_than(database, day(3)).seqs == [], "what is gone is not erased again"
    assert [record.event for record in log.tail(2)] == ["payload_erased"] * 2
    assert [record.about for record in log.tail(2)] == [1, 2]


def test_a_clock_that_was_set_back_erases_nothing_too_early(database: Database) -> None:
    at(database, [day(5), day(1), day(6)])
    assert older_than(database, day(3)).seqs == []
    assert older_than(database, day(6)).seqs == [1, 2]


def test_a_clock_that_was_far_ahead_keeps_nothing_for_ever(database: Database) -> None:
    at(database, [day(1), day(1, year=2990), day(2), day(4)])
    assert older_than(database, day(3)).seqs == [1, 2, 3]


def test_aud_11_a_clock_that_was_ahead_and_was_put_right_erases_nothing_too_early(database: Database) -> None:
    """What was written just now is as young as what comes next, and not as old as what came before."""
    ahead = [day(1, year=2990), day(2, year=2990)]
    at(database, [day(1), *ahead])
    assert older_than(database, day(3)).seqs == [1], "nothing follows: it may be of this minute"
    at(database, [day(4)])
    assert older_than(database, day(3)).seqs == [1], "what follows is young"
    assert older_than(database, day(5)).seqs == [1, 2, 3, 4], "and when that is old, so are they"


@pytest.mark.parametrize("damage", ["x'00'", "'no bytes'", "CAST(x'ff' AS TEXT)", "7"])
def test_a_record_that_cannot_be_read_keeps_no_other_from_being_erased_and_is_named(
    database: Database, intruder: sqlite3.Connection, on_disk: Callable[[], bytes], damage: str
) -> None:
    at(database, [day(1), day(2), day(2), day(4)])
    intruder.execute(f"UPDATE audit SET body = {damage} WHERE seq = 1")  # noqa: S608
    old = older_than(database, day(3))
    assert (old.seqs, old.unreadable) == ([2, 3], [1])
    assert calls_of(database, [1, 2]) == frozenset()
    assert erase(database, old.seqs, by="human:x") == 2
    data = on_disk()
    assert f"asked at {day(2)}".encode() not in data
    assert f"asked at {day(4)}".encode() in data


def test_a_record_that_is_lost_keeps_no_other_from_being_erased_and_is_named(
    database: Database, log: AuditLog, intruder: sqlite3.Connection
) -> None:
    at(database, [day(1), day(1), day(1)])
    intruder.execute("PRAGMA foreign_keys=OFF")
    intruder.execute("DELETE FROM audit WHERE seq = 2")
    with pytest.raises(RecordError, match=r"record 2 cannot be found.*all others are"):
        erase(database, [1, 2, 3], by="human:x")
    assert [record.about for record in log.tail(2)] == [1, 3]


def test_numbers_that_no_record_has_are_told_apart_from_a_damaged_log(
    database: Database, intruder: sqlite3.Connection
) -> None:
    with pytest.raises(RecordError, match="there is none yet"):
        require_records(database, [1])
    at(database, [day(1), day(1), day(1)])
    require_records(database, [1, 2, 3])
    with pytest.raises(
        RecordError, match=r"no record 9999 \(the newest is 3\); nothing was erased"
    ) as caught:
        require_records(database, [1, 9999])
    assert "verify" not in (caught.value.remedy or "")
    intruder.execute("PRAGMA foreign_keys=OFF")
    intruder.execute("DELETE FROM audit WHERE seq = 2")
    with pytest.raises(RecordError, match="record 2 cannot be found; nothing was erased") as caught:
        require_records(database, [1, 2])
    assert "verify" in (caught.value.remedy or "")


def test_a_call_that_never_was_is_not_told_as_erased(database: Database, log: AuditLog) -> None:
    log.refused(Act(principal="p", call_id="call-1"), code="c", reasons=("r",))
    assert erase_call(database, "call-1", by="human:x") == 0, "it is there, and nothing was kept of it"
    with pytest.raises(RecordError, match="no record of such a call; nothing was erased"):
        erase_call(database, "call-2", by="human:x")


def test_many_are_erased_in_one_go(path: str, database: Database, on_disk: Callable[[], bytes]) -> None:
    with database.transaction() as connection:
        log = AuditLog(database)
        for number in range(450):
            log.noting(
                "skill_execution_blocked", Act(principal="p"), payloads={"arguments": f"<<{number}>>"}
            )(connection)
    assert erase(database, range(1, 451), by="human:x") == 450
    data = on_disk()
    assert not [number for number in range(450) if f"<<{number}>>".encode() in data]
    assert verify(path).ok


def test_everything_of_a_call_is_erased(
    path: str, database: Database, log: AuditLog, on_disk: Callable[[], bytes]
) -> None:
    for call, text in (("call-1", "canary-one"), ("call-2", "canary-two")):
        intent = log.intent(Act(principal="p", call_id=call), payloads={"arguments": text})
        assert isinstance(intent, Intent)
        log.outcome(intent, "skill_executed", payloads={"result": f"{text}-result"})
    assert erase_call(database, "call-1", by="human:x") == 2
    data = on_disk()
    assert b"canary-one" not in data
    assert b"canary-two-result" in data
    assert verify(path).ok


def test_what_an_approver_said_is_erased_with_the_call(
    path: str, database: Database, on_disk: Callable[[], bytes]
) -> None:
    approval = ask(database, wanted({"text": "canary-asked"}, call_id="call-9"))
    decide(database, approval, by=OWNER, decision="deny", word="canary-wörd")
    assert "canary-wörd".encode() in on_disk()
    assert erase_call(database, "call-9", by="human:x") == 1, "the record of the decision kept it too"
    data = on_disk()
    assert b"canary" not in data
    assert verify(path).ok


def test_a_call_that_may_still_run_is_not_emptied(database: Database, intruder: sqlite3.Connection) -> None:
    approval = approved_once(database, wanted(call_id="call-9"))
    with pytest.raises(RecordError, match="has not run yet") as caught:
        erase_call(database, "call-9", by="human:x")
    assert approval in (caught.value.remedy or "")
    assert intruder.execute(
        "SELECT count(*) FROM approval WHERE call <> zeroblob(length(call))"
    ).fetchone() == (1,)
    assert claim(database, approval, wanted(call_id="call-9")) == ""
    erase_call(database, "call-9", by="human:x")
    assert verify(database).ok
