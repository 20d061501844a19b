"""Whatever becomes of the bytes of the file: it is named or refused, and Metier never destroys records by writing on."""

import os
import random
import shutil
import sqlite3
import struct
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from approval_kit import ask, wanted
from metier.errors import RecordError, StateError
from metier.record import sound
from metier.record.audit import AuditLog, Intent
from metier.record.backup import back_up, restore
from metier.record.chain import Act
from metier.record.database import Database
from metier.record.export import exported
from metier.record.judgements import judgements
from metier.record.keys import Keys
from metier.record.signing import sign_head
from metier.record.verify import Verification, verify
from older_state import as_of_the_third_step

HEADER = 100
"""Bytes of the file header."""
LARGEST_ROOT = 52
"""Where it says which root page is the largest; it is 0 where pages are never moved."""


def fill(database: Database, calls: int) -> None:
    log = AuditLog(database)
    for _ in range(calls):
        act = Act(principal="agent:cli", call_id=f"call-{log.head()[0]}", evidence="policy")
        intent = log.intent(act, payloads={"arguments": {"a": "x" * 300}})
        assert isinstance(intent, Intent)
        log.outcome(intent, "skill_executed", payloads={"result": "y" * 300})


def roots(path: str) -> tuple[dict[str, int], int]:
    """The root page of each table and index, and how large a page is. All is in the one file after that."""
    with closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        pages = dict(file.execute("SELECT name, rootpage FROM sqlite_schema"))
        return pages, file.execute("PRAGMA page_size").fetchone()[0]


def leaves(data: bytes | bytearray, root: int, size: int) -> list[int]:
    """The pages below the root page of a table."""
    at = (root - 1) * size
    assert data[at] == 0x05, "an inner page of a table"
    (cells,) = struct.unpack_from(">H", data, at + 3)
    places = [struct.unpack_from(">H", data, at + 12 + 2 * cell)[0] for cell in range(cells)]
    return [struct.unpack_from(">I", data, at + place)[0] for place in places]


def free_some(path: str) -> None:
    """Leave free pages in the file, as every upgrade does."""
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("CREATE TABLE scratch (x)")
        file.execute("INSERT INTO scratch VALUES (zeroblob(80000))")
        file.execute("DROP TABLE scratch")


def call_pages_of_the_log_free(path: str) -> None:
    pages, size = roots(path)
    data = bytearray(Path(path).read_bytes())
    (trunk,) = struct.unpack_from(">I", data, 32)
    at = (trunk - 1) * size
    (entries,) = struct.unpack_from(">I", data, at + 4)
    used = leaves(data, pages["audit"], size)
    for entry in range(entries):
        struct.pack_into(">I", data, at + 8 + 4 * entry, used[entry % len(used)])
    assert entries
    Path(path).write_bytes(data)


def written_on(path: str, calls: int = 12) -> str:
    """Write some more; why that was refused, or nothing."""
    try:
        with Database.open(path) as database:
            fill(database, calls)
    except (StateError, RecordError, AssertionError) as error:
        return str(error) or "refused"
    return ""


@pytest.fixture
def whole(path: str) -> Verification:
    with Database.open(path) as database:
        fill(database, 40)
    free_some(path)
    found = verify(path)
    assert found.ok, found.problem
    return found


def test_a_file_with_free_pages_goes_on_as_any_other(path: str, whole: Verification) -> None:
    assert written_on(path) == ""
    assert verify(path, expected=(whole.records, whole.head)).ok


def test_aud_01_a_free_page_that_is_in_use_is_found_before_anything_is_written_over_it(
    path: str, whole: Verification, keys: Keys, tmp_path: Path
) -> None:
    call_pages_of_the_log_free(path)
    found = verify(path)
    assert (found.ok, found.records, found.first_bad) == (False, whole.records, None)
    assert "damaged" in found.problem
    assert not back_up(path, str(tmp_path / "copy")).ok
    with Database.open(path) as database, pytest.raises(RecordError, match="does not verify"):
        sign_head(database, keys, by="human:x")


def test_aud_01_writing_on_would_have_destroyed_the_oldest_records(path: str, whole: Verification) -> None:
    call_pages_of_the_log_free(path)
    written_on(path)
    found = verify(path)
    assert not found.ok
    assert found.records < whole.records


@pytest.mark.parametrize(
    ("one", "other"),
    [("budget", "begun"), ("seen", "trust"), ("confirmation", "budget"), ("signed_head", "question_key")],
)
def test_aud_01_two_tables_that_share_a_root_page_are_found(
    path: str, whole: Verification, one: str, other: str
) -> None:
    pages, _ = roots(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("PRAGMA writable_schema=ON")
        file.execute("UPDATE sqlite_schema SET rootpage = ? WHERE name = ?", (pages[other], one))
        file.execute("PRAGMA schema_version=77")
    assert not verify(path).ok


@pytest.mark.parametrize("bit", range(0, 32, 5))
def test_aud_01_a_file_that_says_it_moves_its_pages_is_found_and_not_written_to(
    path: str, whole: Verification, bit: int
) -> None:
    roots(path)
    flip(path, LARGEST_ROOT + bit // 8, bit % 8)
    before = Path(path).read_bytes()
    assert not verify(path).ok
    with pytest.raises(StateError, match="damaged") as caught:
        Database.open(path)
    assert caught.value.remedy
    assert Path(path).read_bytes() == before


def flip(path: str, offset: int, bit: int) -> None:
    with open(path, "r+b") as file:
        file.seek(offset)
        [byte] = file.read(1)
        file.seek(offset)
        file.write(bytes([byte ^ 1 << bit]))


def unseen_and_lost(
    path: str, whole: Verification, tmp_path: Path, flips: Iterable[tuple[int, int]]
) -> Iterator[tuple[int, int, str]]:
    """The flipped bits after which verify is silent and writing on loses a record without a word."""
    kept = (whole.records, whole.head)
    for number, (offset, bit) in enumerate(flips):
        folder = tmp_path / f"flip-{number}"
        folder.mkdir(mode=0o700)
        changed = str(folder / "metier.db")
        shutil.copy(path, changed)
        flip(changed, offset, bit)
        try:
            found = verify(changed, expected=kept)
        except StateError:
            found = None
        if found is not None and found.ok:
            refused = written_on(changed)
            after = verify(changed, expected=kept)
            if not after.ok and not refused:
                yield offset, bit, after.problem
            elif refused and (after.records, after.head) < kept:
                yield offset, bit, f"{refused}; {after.problem}"
        shutil.rmtree(folder)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_aud_01_no_flipped_bit_of_the_file_header_loses_records_unseen(
    path: str, whole: Verification, tmp_path: Path
) -> None:
    roots(path)
    flips = [(offset, bit) for offset in range(HEADER) for bit in range(8)]
    assert list(unseen_and_lost(path, whole, tmp_path, flips)) == []


@pytest.mark.slow
@pytest.mark.timeout(300)  # 840 files are verified, on a machine that does other things too
def test_aud_01_no_flipped_bit_anywhere_in_the_file_loses_records_unseen(
    path: str, whole: Verification, tmp_path: Path
) -> None:
    pages, size = roots(path)
    data = Path(path).read_bytes()
    drawn = random.Random(1)  # noqa: S311
    flips = [(drawn.randrange(len(data)), drawn.randrange(8)) for _ in range(600)]
    (trunk,) = struct.unpack_from(">I", data, 32)
    near = [
        (trunk - 1) * size,
        (pages["audit"] - 1) * size,
        0,
    ]  # what decides most stands at the beginning of a page
    flips += [(start + drawn.randrange(120), drawn.randrange(8)) for start in near for _ in range(80)]
    assert list(unseen_and_lost(path, whole, tmp_path, flips)) == []


def hidden_from_its_index(path: str) -> None:
    """A payload of an older version that its index names another record for."""
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("INSERT INTO payload VALUES (6, 'zzz', randomblob(32), CAST('\"canary\"' AS BLOB))")
    pages, size = roots(path)
    data = bytearray(Path(path).read_bytes())
    at = (pages["sqlite_autoindex_payload_1"] - 1) * size
    data[data.index(b"\x06zzz", at, at + size)] = 0x46
    Path(path).write_bytes(data)


def misled(path: str) -> None:
    """An inner page of the old log leads past some records."""
    pages, size = roots(path)
    data = bytearray(Path(path).read_bytes())
    at = (pages["audit"] - 1) * size
    assert data[at] == 0x05
    first, second = struct.unpack_from(">HH", data, at + 12)
    assert data[at + second + 4] > data[at + first + 4] + 1
    data[at + second + 4] = data[at + first + 4] + 1
    Path(path).write_bytes(data)


@pytest.mark.parametrize(
    ("calls", "damage"), [(3, hidden_from_its_index), (60, misled), (60, call_pages_of_the_log_free)]
)
def test_rel_14_what_is_wrong_with_older_state_is_refused_and_not_healed_by_the_upgrade(
    path: str, calls: int, damage: object
) -> None:
    with Database.open(path) as database:
        fill(database, calls)
    as_of_the_third_step(path)
    free_some(path)
    assert verify(path).ok
    assert callable(damage)
    damage(path)
    before = Path(path).read_bytes()
    assert not verify(path).ok
    with pytest.raises(StateError, match=r"not as Metier made it|is damaged") as caught:
        Database.open(path)
    assert "evidence" in (caught.value.remedy or "")
    assert not verify(path).ok, "it is still named"
    assert Path(path).read_bytes()[HEADER:] == before[HEADER:]


def test_rel_14_the_same_older_state_undamaged_is_brought_up_to_date(path: str) -> None:
    with Database.open(path) as database:
        fill(database, 60)
    as_of_the_third_step(path)
    free_some(path)
    Database.open(path).close()
    assert verify(path).ok


def no_damage(_: sqlite3.Connection) -> str:
    return ""


def test_rel_15_what_restoring_itself_destroys_is_not_put_in_place(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever looks before sees nothing here: then whoever looks after does."""
    with Database.open(path) as database:
        fill(database, 40)
        for number in range(30):
            ask(database, wanted(call_id=f"asked-{number}"))
    free_some(path)
    copy, elsewhere = str(tmp_path / "copy"), str(tmp_path / "elsewhere" / "metier.db")
    assert back_up(path, copy).ok
    call_pages_of_the_log_free(copy)
    with pytest.raises(StateError, match="is not whole"):
        restore(copy, elsewhere, by="human:x", keys=Keys(os.path.dirname(elsewhere)))
    monkeypatch.setattr(sound, "damage", no_damage)
    assert verify(copy).ok
    with pytest.raises(StateError, match="is not whole"):
        restore(copy, elsewhere, by="human:x", keys=Keys(os.path.dirname(elsewhere)))
    assert os.listdir(os.path.dirname(elsewhere)) == []


@pytest.mark.parametrize("value", ["7", "'abc'", "CAST(x'ff' AS TEXT)"])
def test_a_hash_that_is_no_bytes_is_said_by_the_export(
    database: Database, intruder: sqlite3.Connection, value: str
) -> None:
    fill(database, 1)
    intruder.execute("PRAGMA ignore_check_constraints=ON")
    intruder.execute(f"UPDATE audit SET hash = {value} WHERE seq = 1")  # noqa: S608
    with pytest.raises((RecordError, StateError), match=r"cannot be read|is damaged") as caught:
        list(exported(database))
    assert caught.value.remedy


def test_a_schema_that_is_no_text_is_told_as_damage_by_whoever_reads_it(path: str, tmp_path: Path) -> None:
    with Database.open(path) as database:
        fill(database, 1)
    roots(path)
    data = bytearray(Path(path).read_bytes())
    data[data.index(b"TABLE revoked")] ^= 0x80  # SQLite quotes the word that it does not understand
    database = Database.look(path)
    with database:
        Path(path).write_bytes(data)
        for read in (exported, judgements):
            with pytest.raises(StateError, match="is damaged"):
                list(read(database))
    copy = str(tmp_path / "copy")
    with pytest.raises(StateError, match="is damaged") as caught:
        back_up(path, copy)
    assert f"the state database {path} is damaged" in caught.value.message
    assert ".draft" not in caught.value.message


def test_a_backup_that_finds_no_room_does_not_blame_the_state(path: str, tmp_path: Path) -> None:
    import resource
    import signal

    with Database.open(path) as database:
        fill(database, 100)
    copy = str(tmp_path / "copy")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
        with pytest.raises(StateError) as caught:
            back_up(path, copy)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert f"{path} " not in caught.value.message
    assert copy in caught.value.message
    assert verify(path).ok
