"""A last record that was torn while it was written, at whatever byte: no earlier one is lost, and the log goes on."""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from metier.record.audit import AuditLog, Intent
from metier.record.chain import Act
from metier.record.database import Database
from metier.record.verify import verify

BEFORE = 5
"""Records that were whole before the last one was begun."""


@pytest.fixture
def torn(tmp_path: Path) -> Iterator[tuple[Path, int, bytes]]:
    """A copy of the state as a crash leaves it, how long its write-ahead file was before the last record, and that file."""
    state = tmp_path / "state"
    path = state / "metier.db"
    with Database.open(str(path)) as database:
        log = AuditLog(database)
        for number in range(BEFORE):
            written(log, number)
        before = (state / "metier.db-wal").stat().st_size
        written(log, BEFORE)
        left = tmp_path / "left"
        left.mkdir(mode=0o700)
        shutil.copy(path, left / "metier.db")
        ahead = (state / "metier.db-wal").read_bytes()
    yield left / "metier.db", before, ahead


def written(log: AuditLog, number: int) -> None:
    act = Act(principal="agent:cli", call_id=f"call_{number}", tool="send")
    intent = log.intent(act, payloads={"arguments": {"text": "x" * 200}})
    assert isinstance(intent, Intent)


def left_with(path: Path, ahead: bytes) -> None:
    for side in ("metier.db-shm", "metier.db-wal"):
        path.with_name(side).unlink(missing_ok=True)
    path.with_name("metier.db-wal").write_bytes(ahead)
    path.with_name("metier.db-wal").chmod(0o600)


def kept(path: Path) -> int:
    """How many records are there, and that they are the first ones."""
    # Only to read: else closing it would write the whole of it into the database, each time.
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as file:
        rows = file.execute("SELECT seq FROM audit ORDER BY seq").fetchall()
        open_ = file.execute("SELECT count(*) FROM open_intent").fetchone()[0]
    assert [seq for (seq,) in rows] == list(range(1, len(rows) + 1))
    assert open_ == len(rows), "a record and what belongs to it are there together or not at all"
    return len(rows)


@pytest.mark.slow
def test_rel_04_torn_at_any_byte_the_last_record_is_there_or_not_and_all_others_are(
    torn: tuple[Path, int, bytes],
) -> None:
    path, before, ahead = torn
    assert len(ahead) > before
    left_with(path, ahead)
    assert kept(path) == BEFORE + 1
    for cut in range(len(ahead) - 1, before - 1, -1):
        path.with_name("metier.db-shm").unlink(missing_ok=True)
        os.truncate(path.with_name("metier.db-wal"), cut)
        assert kept(path) == BEFORE, cut


def test_rel_04_bytes_that_never_reached_the_disk_are_not_taken_for_a_record(
    torn: tuple[Path, int, bytes],
) -> None:
    """The file has its length, and some of it is still what was there before: nothing, or something else."""
    path, before, ahead = torn
    for at in range(before, len(ahead), 61):
        for filler in (b"\x00", b"\xff"):
            left_with(path, ahead[:at] + filler * (len(ahead) - at))
            assert kept(path) in (BEFORE, BEFORE + 1)
    left_with(path, ahead[:before] + ahead[before:][::-1])
    assert kept(path) == BEFORE


def test_rel_04_metier_opens_what_was_torn_goes_on_and_tells_it_by_a_kept_head(
    torn: tuple[Path, int, bytes],
) -> None:
    path, before, ahead = torn
    database = path.read_bytes()
    left_with(path, ahead)
    whole = verify(str(path))
    assert whole.ok
    assert whole.records == BEFORE + 1
    for cut in (before, before + 1, before + 24, (before + len(ahead)) // 2, len(ahead) - 1):
        path.write_bytes(database)
        left_with(path, ahead[:cut])
        with Database.open(str(path)) as opened:
            found = verify(opened)
            assert found.ok, found.problem
            assert found.records == BEFORE
            lost = verify(opened, expected=(whole.records, whole.head))
            assert not lost.ok, "whoever kept the head knows that one is missing"
            written(AuditLog(opened), BEFORE + 7)
            assert verify(opened).records == BEFORE + 1
