"""What was erased is gone from every file, and the log still verifies."""

import random
import sqlite3
from collections.abc import Callable

import pytest

from metier.errors import RecordError
from metier.record.audit import AuditLog
from metier.record.chain import Act
from metier.record.database import Database
from metier.record.verify import verify


def mark(number: int) -> bytes:
    return f"<<erase me {number:04}>>".encode()


def test_an_erased_payload_is_in_no_file_and_the_chain_holds(
    path: str, log: AuditLog, act: Act, on_disk: Callable[[], bytes]
) -> None:
    log.refused(act, code="c", reasons=("r",), payloads={"arguments": {"text": "canary-text"}})
    before = log.head()
    assert b"canary-text" in on_disk()
    log.erase(1, by="owner")
    assert b"canary-text" not in on_disk()
    assert verify(path, expected=before).ok
    erased = log.tail(1)[0]
    assert (erased.event, erased.about, erased.principal) == ("payload_erased", 1, "owner")


def test_a_plain_delete_would_have_left_it_on_disk(
    log: AuditLog, act: Act, intruder: sqlite3.Connection, on_disk: Callable[[], bytes]
) -> None:
    log.refused(act, code="c", reasons=("r",), payloads={"arguments": {"text": "canary-text"}})
    intruder.execute("PRAGMA secure_delete=OFF")
    intruder.execute("DELETE FROM audit")
    intruder.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert b"canary-text" in on_disk()


def test_the_key_goes_too(
    log: AuditLog, act: Act, intruder: sqlite3.Connection, on_disk: Callable[[], bytes]
) -> None:
    log.refused(act, code="c", reasons=("r",), payloads={"arguments": {"pin": "4711"}})
    (key,) = intruder.execute("SELECT keys FROM audit").fetchone()
    assert key in on_disk()
    log.erase(1, by="owner")
    assert key not in on_disk()


@pytest.mark.parametrize("seed", range(3))
def test_no_copy_stays_behind_however_many_are_erased_in_whatever_order(
    path: str, log: AuditLog, act: Act, on_disk: Callable[[], bytes], seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311  not for secrets
    sizes = [1, 3, 20, 90, 300]
    for number in range(1, 151):
        text = mark(number).decode() * chance.choice(sizes)
        log.refused(act, code="c", reasons=("r",), payloads={"arguments": text})
    order = list(range(1, 151))
    chance.shuffle(order)
    gone, kept = order[:100], order[100:]
    for seq in gone:
        log.erase(seq, by="owner")
    data = on_disk()
    assert [seq for seq in gone if mark(seq) in data] == []
    assert [seq for seq in kept if mark(seq) not in data] == []
    assert verify(path).ok


def test_erasing_twice_is_recorded_once(path: str, log: AuditLog, act: Act) -> None:
    log.refused(act, code="c", reasons=("r",), payloads={"arguments": "text"})
    log.erase(1, by="owner")
    log.erase(1, by="owner")
    assert len(log.tail(10)) == 2
    assert verify(path).ok


def test_there_must_be_something_to_erase(log: AuditLog, act: Act) -> None:
    log.refused(act, code="c", reasons=("r",))
    for seq in (1, 2, -1):
        with pytest.raises(RecordError, match="no payload"):
            log.erase(seq, by="owner")
    assert len(log.tail(10)) == 1


def test_a_reader_in_the_way_is_reported_and_a_second_try_finishes(
    path: str, act: Act, on_disk: Callable[[], bytes]
) -> None:
    with Database.open(path, patience=0.05) as database:
        log = AuditLog(database)
        log.refused(act, code="c", reasons=("r",), payloads={"arguments": "canary-text"})
        reader = sqlite3.connect(path, isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM audit").fetchall()
        with pytest.raises(RecordError, match="still holds the old bytes"):
            log.erase(1, by="owner")
        assert b"canary-text" in on_disk()
        reader.close()
        log.erase(1, by="owner")
        assert b"canary-text" not in on_disk()


def test_an_erasure_nobody_recorded_is_found(
    path: str, log: AuditLog, act: Act, intruder: sqlite3.Connection
) -> None:
    log.refused(act, code="c", reasons=("r",), payloads={"arguments": "text"})
    intruder.execute("UPDATE audit SET keys = zeroblob(length(keys)), kept = zeroblob(length(kept))")
    assert verify(path).first_bad == 1
    intruder.execute("INSERT INTO erasure VALUES (1, 1)")
    assert verify(path).first_bad == 1
