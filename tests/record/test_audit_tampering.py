"""Whatever is changed behind the log's back is found, and the first bad record is named."""

import sqlite3
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from metier.errors import StateError
from metier.record.audit import AuditLog, Intent
from metier.record.chain import Act, append, link
from metier.record.database import Database
from metier.record.verify import verify


def fill(log: AuditLog, act: Act, records: int) -> None:
    for number in range(records // 2):
        this = msgspec.structs.replace(act, call_id=f"{act.call_id}-{log.head()[0]}")
        intent = log.intent(this, payloads={"arguments": {"n": number}} if number == 3 else {})
        assert isinstance(intent, Intent)
        log.outcome(intent, "skill_executed")


def rows(intruder: sqlite3.Connection) -> list[tuple[int, bytes, bytes]]:
    return intruder.execute("SELECT seq, body, hash FROM audit ORDER BY seq").fetchall()


def test_an_untouched_log_verifies(path: str, log: AuditLog, act: Act) -> None:
    fill(log, act, 40)
    found = verify(path)
    assert (found.ok, found.records, found.first_bad, found.open_intents) == (True, 40, None, ())
    assert (found.records, found.head) == log.head()


def test_an_empty_log_verifies(path: str, log: AuditLog) -> None:
    assert verify(path).ok
    assert log.head() == (0, "00" * 32)


def test_aud_01_every_flipped_byte_of_every_record_is_found(
    path: str, log: AuditLog, act: Act, intruder: sqlite3.Connection
) -> None:
    fill(log, Act(principal="p"), 40)
    flips = 0
    for column in ("body", "hash"):
        for seq, body, stored in rows(intruder):
            good = body if column == "body" else stored
            for offset in range(len(good)):
                bad = bytearray(good)
                bad[offset] ^= 1
                intruder.execute(f"UPDATE audit SET {column} = ? WHERE seq = ?", (bytes(bad), seq))  # noqa: S608
                found = verify(path)
                assert (found.ok, found.first_bad) == (False, seq), (column, offset)
                flips += 1
            intruder.execute(f"UPDATE audit SET {column} = ? WHERE seq = ?", (good, seq))  # noqa: S608
    assert flips > 5000
    assert verify(path).ok


def test_aud_01_a_changed_record_looks_fine_to_whoever_only_reads_it(
    path: str, log: AuditLog, act: Act, intruder: sqlite3.Connection
) -> None:
    fill(log, act, 4)
    intruder.execute("UPDATE audit SET body = replace(body, 'weather', 'finance') WHERE seq = 2")
    assert log.tail(10)[1].skill == "finance"
    found = verify(path)
    assert (found.ok, found.first_bad, found.records) == (False, 2, 1)


def delete(intruder: sqlite3.Connection) -> int:
    intruder.execute("DELETE FROM audit WHERE seq = 7")
    return 7


def delete_and_close_the_gap(intruder: sqlite3.Connection) -> int:
    intruder.execute("DELETE FROM audit WHERE seq = 7")
    for seq in range(8, 21):
        intruder.execute("UPDATE audit SET seq = ? WHERE seq = ?", (seq - 1, seq))
    return 7


def delete_the_first(intruder: sqlite3.Connection) -> int:
    intruder.execute("DELETE FROM audit WHERE seq = 1")
    return 1


def duplicate(intruder: sqlite3.Connection) -> int:
    for seq in range(20, 7, -1):
        intruder.execute("UPDATE audit SET seq = ? WHERE seq = ?", (seq + 1, seq))
    intruder.execute("INSERT INTO audit SELECT 8, body, hash, keys, kept FROM audit WHERE seq = 7")
    return 8


def append_a_copy(intruder: sqlite3.Connection) -> int:
    intruder.execute("INSERT INTO audit SELECT 21, body, hash, keys, kept FROM audit WHERE seq = 20")
    return 21


def swap(intruder: sqlite3.Connection) -> int:
    for old, new in ((7, 99), (8, 7), (99, 8)):
        intruder.execute("UPDATE audit SET seq = ? WHERE seq = ?", (new, old))
    return 7


def insert_before_the_first(intruder: sqlite3.Connection) -> int:
    intruder.execute("INSERT INTO audit SELECT 0, body, hash, keys, kept FROM audit WHERE seq = 1")
    return 0


def insert_after_a_gap(intruder: sqlite3.Connection) -> int:
    intruder.execute("INSERT INTO audit SELECT 25, body, hash, keys, kept FROM audit WHERE seq = 20")
    return 21


def rewrite_with_its_hash(intruder: sqlite3.Connection) -> int:
    previous, (_, body, _) = rows(intruder)[5][2], rows(intruder)[6]
    forged = body.replace(b"weather", b"finance")
    intruder.execute("UPDATE audit SET body = ?, hash = ? WHERE seq = 7", (forged, link(previous, 7, forged)))
    return 8


def append_with_a_false_number(intruder: sqlite3.Connection) -> int:
    _, body, last = rows(intruder)[-1]
    intruder.execute("INSERT INTO audit VALUES (21, ?, ?, NULL, NULL)", (body, link(last, 21, body)))
    return 21


def append_what_is_no_record(intruder: sqlite3.Connection) -> int:
    intruder.execute(
        "INSERT INTO audit VALUES (21, x'ff', ?, NULL, NULL)", (link(rows(intruder)[-1][2], 21, b"\xff"),)
    )
    return 21


def replace_hash_by_a_number(intruder: sqlite3.Connection) -> int:
    intruder.execute("UPDATE audit SET hash = 12 WHERE seq = 9")
    return 9


def replace_body_by_a_number(intruder: sqlite3.Connection) -> int:
    intruder.execute("UPDATE audit SET body = 12 WHERE seq = 9")
    return 9


@pytest.mark.parametrize(
    "change",
    [
        delete,
        delete_and_close_the_gap,
        delete_the_first,
        duplicate,
        append_a_copy,
        swap,
        insert_before_the_first,
        insert_after_a_gap,
        rewrite_with_its_hash,
        append_with_a_false_number,
        append_what_is_no_record,
        replace_hash_by_a_number,
        replace_body_by_a_number,
    ],
)
def test_aud_02_removed_doubled_moved_and_added_records_are_found(
    path: str,
    log: AuditLog,
    act: Act,
    intruder: sqlite3.Connection,
    change: Callable[[sqlite3.Connection], int],
) -> None:
    fill(log, act, 20)
    first_bad = change(intruder)
    found = verify(path)
    assert (found.ok, found.first_bad) == (False, first_bad), found.problem
    assert str(first_bad) in found.problem


def test_aud_02_an_outcome_is_believed_only_once(
    path: str, log: AuditLog, act: Act, intruder: sqlite3.Connection
) -> None:
    fill(log, act, 2)
    body = rows(intruder)[1][1].replace(b'"seq":2', b'"seq":3')
    intruder.execute(
        "INSERT INTO audit VALUES (3, ?, ?, NULL, NULL)", (body, link(rows(intruder)[1][2], 3, body))
    )
    assert verify(path).first_bad == 3


@pytest.mark.parametrize("lost", [1, 2, 19, 20])
def test_aud_03_a_cut_tail_is_found_against_a_head_kept_elsewhere(
    path: str, log: AuditLog, act: Act, intruder: sqlite3.Connection, lost: int
) -> None:
    for _ in range(20):
        log.refused(act, code="c", reasons=("r",))
    kept_elsewhere = log.head()
    intruder.execute("DELETE FROM audit WHERE seq > ?", (20 - lost,))
    assert verify(path).ok, "the chain alone cannot know it"
    found = verify(path, expected=kept_elsewhere)
    assert (found.ok, found.first_bad) == (False, 20 - lost + 1)
    assert "cut" in found.problem


def test_aud_03_half_a_record_is_found(
    path: str, log: AuditLog, act: Act, intruder: sqlite3.Connection
) -> None:
    fill(log, act, 20)
    intruder.execute("UPDATE audit SET body = substr(body, 1, length(body) / 2) WHERE seq = 20")
    assert verify(path).first_bad == 20


def test_aud_04_another_valid_log_in_its_place_is_found_against_a_kept_head(
    path: str, tmp_path: Path, log: AuditLog, act: Act
) -> None:
    fill(log, act, 20)
    kept_elsewhere = log.head()
    with Database.open(str(tmp_path / "other" / "metier.db")) as other:
        fill(AuditLog(other), act, 30)
        assert verify(other).ok
        found = verify(other, expected=kept_elsewhere)
        assert (found.ok, found.first_bad) == (False, 20)
    assert verify(path, expected=kept_elsewhere).ok
    fill(log, act, 10)
    assert verify(path, expected=kept_elsewhere).ok, "a log that merely grew is the same log"


def test_a_walk_can_stop_early(path: str, log: AuditLog, act: Act, intruder: sqlite3.Connection) -> None:
    fill(log, act, 20)
    intruder.execute("DELETE FROM audit WHERE seq = 15")
    assert verify(path, until=14).records == 14
    assert verify(path, until=14).ok
    assert not verify(path, until=16).ok


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE audit SET kept = CAST(replace(kept, '3', '4') AS BLOB) WHERE seq = 7",
        "UPDATE audit SET keys = zeroblob(32) WHERE seq = 7",
        "UPDATE audit SET keys = NULL WHERE seq = 7",
        "UPDATE audit SET keys = CAST(keys || keys AS BLOB) WHERE seq = 7",
        "UPDATE audit SET keys = CAST(keys || zeroblob(1) AS BLOB) WHERE seq = 7",
        "UPDATE audit SET keys = CAST(keys || zeroblob(32) AS BLOB) WHERE seq = 7",
        "UPDATE audit SET kept = CAST(replace(kept, 'arguments', 'result') AS BLOB) WHERE seq = 7",
        "UPDATE audit SET kept = NULL WHERE seq = 7",
        "UPDATE audit SET kept = NULL, keys = NULL WHERE seq = 7",
        "UPDATE audit SET keys = (SELECT keys FROM audit WHERE seq = 7) WHERE seq = 5",
        "UPDATE audit SET kept = (SELECT kept FROM audit WHERE seq = 7) WHERE seq = 5",
        "UPDATE audit SET (keys, kept) = (SELECT keys, kept FROM audit WHERE seq = 7) WHERE seq = 5",
        "UPDATE audit SET kept = CAST(replace(kept, '}}', '},\"more\":1}') AS BLOB) WHERE seq = 7",
        "UPDATE audit SET kept = CAST(replace(kept, '}}', '},\"arguments\":{\"n\":3}}') AS BLOB) WHERE seq = 7",
        "UPDATE audit SET kept = CAST(replace(kept, '{\"n', ' {\"n') AS BLOB) WHERE seq = 7",
        "UPDATE audit SET kept = CAST(kept || ' ' AS BLOB) WHERE seq = 7",
        "UPDATE audit SET keys = zeroblob(32), kept = zeroblob(3) WHERE seq = 7; INSERT INTO erasure VALUES (7, 2)",
    ],
)
def test_a_payload_that_is_not_the_recorded_one_is_found(
    path: str, log: AuditLog, act: Act, intruder: sqlite3.Connection, change: str
) -> None:
    fill(log, act, 20)
    found = intruder.execute("SELECT seq, kept FROM audit WHERE keys IS NOT NULL").fetchall()
    assert found == [(7, b'{"arguments":{"n":3}}')]
    assert verify(path).ok
    before = intruder.execute("SELECT keys, kept FROM audit").fetchall()
    intruder.executescript(change)
    assert intruder.execute("SELECT keys, kept FROM audit").fetchall() != before
    assert not verify(path).ok


def test_a_damaged_file_gives_a_finding_and_no_exception(path: str, act: Act) -> None:
    with Database.open(path) as database:
        fill(AuditLog(database), act, 400)
    with open(path, "r+b") as file:
        file.seek(4096 * 14)
        file.write(b"\xff" * 4096 * 4)
    found = verify(path)
    assert not found.ok
    assert found.first_bad in (None, found.records + 1), "no record that there is not is named"
    assert "damaged" in found.problem


def test_a_missing_log_cannot_be_verified(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="no state database"):
        verify(str(tmp_path / "nothing.db"))
    assert list(tmp_path.iterdir()) == []


def test_memory_does_not_grow_with_the_log(path: str, database: Database, act: Act) -> None:
    def peak_after(records: int) -> int:
        with database.transaction() as connection:
            for _ in range(records):
                append(connection, "skill_execution_blocked", act, at="2026-01-01T00:00:00.000000Z")
        tracemalloc.start()
        try:
            assert verify(path).ok
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    small = peak_after(1_000)
    assert peak_after(20_000) < small + 100_000
