"""What is there for whoever walks a table and not for whoever asks for a row is found: kinds, indexes, order, lost tables."""

import os
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from approval_kit import approve, ask, given
from metier.errors import MetierError, RecordError, StateError
from metier.model.permission import PermissionSet
from metier.model.role import Registered
from metier.record.audit import AuditLog, Intent, IntentDenied
from metier.record.beside import apart
from metier.record.calls import calls_under_way, cancel, cancelled_in
from metier.record.chain import Act
from metier.record.database import Database
from metier.record.disabling import all_disabled, disable
from metier.record.erasure import erase
from metier.record.keys import Keys
from metier.record.level import set_level
from metier.record.principals import add_principal, registered_in, revoke_principal
from metier.record.schema import MIGRATIONS
from metier.record.signing import sign_head
from metier.record.standing import give
from metier.record.stop import stop, stopped_in
from metier.record.trust import TrustStore
from metier.record.verify import verify

BEGUN = Act(principal="agent:cli", call_id="call-7", tool="notes/write", evidence="policy")


@pytest.fixture
def settled(database: Database, log: AuditLog, keys: Keys) -> AuditLog:
    """A row in every table that decides about anything."""
    store = TrustStore(database)
    for name in ("tea", "milk"):
        store.grant(name, "d1", permissions=PermissionSet(), by="owner", how="operator", version="1")
    store.revoke("milk", by="owner")
    disable(database, "tea", why="it did", call_id="call-1", digest="sha256:1")
    ann = Registered(id="human:ann", kind="human", roles=frozenset({"viewer"}))
    assert add_principal(database, ann, by="human:owner", owner="human:owner") == ""
    assert revoke_principal(database, "agent:cli", by="human:owner", owner="human:owner") == ""
    set_level(database, "bounded_auto", by="human:owner")
    stop(database, by="human:owner", why="an incident")
    ask(database)
    approve(database, ask(database))
    give(database, given())
    assert isinstance(log.intent(BEGUN, payloads={"arguments": {"a": 1}}), Intent)
    log.refused(BEGUN, code="c", reasons=("r",), payloads={"arguments": {"b": 2}, "result": None})
    sign_head(database, keys, by="human:owner")
    assert verify(database).ok
    return log


COLUMNS = [
    ("setting", "name"),
    ("setting", "value"),
    ("disabled", "name"),
    ("disabled", "why"),
    ("disabled_bytes", "digest"),
    ("principal", "id"),
    ("principal", "revoked_at"),
    ("revoked", "name"),
    ("trust", "name"),
    ("trust", "digest"),
    ("begun", "call_id"),
    ("open_intent", "call_id"),
    ("approval", "id"),
    ("approval", "state"),
    ("approval", "decided_by"),
    ("standing", "id"),
    ("standing", "revoked_at"),
]


@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_aud_01_a_text_that_became_bytes_is_found(
    path: str, settled: AuditLog, intruder: sqlite3.Connection, table: str, column: str
) -> None:
    """Nobody who asks for the text finds it then, and every byte is as it was."""
    intruder.execute("PRAGMA ignore_check_constraints=ON")
    changed = intruder.execute(f"UPDATE {table} SET {column} = CAST({column} AS BLOB)").rowcount  # noqa: S608
    assert changed
    found = verify(path)
    assert not found.ok, (table, column)
    assert found.problem


@pytest.mark.parametrize(
    ("table", "column"),
    [("audit", "keys"), ("audit", "kept"), ("trust", "permissions"), ("approval", "call")],
)
def test_aud_01_bytes_that_became_a_text_are_found(
    path: str, settled: AuditLog, intruder: sqlite3.Connection, table: str, column: str
) -> None:
    intruder.execute(f"UPDATE {table} SET {column} = CAST({column} AS TEXT)")  # noqa: S608
    assert not verify(path).ok


def test_what_became_bytes_would_have_undone_every_no(
    database: Database, settled: AuditLog, intruder: sqlite3.Connection
) -> None:
    with database.reading() as connection:
        assert stopped_in(connection)
        assert "tea" in all_disabled(connection)
    assert isinstance(settled.intent(BEGUN), IntentDenied)
    for table, column in (("setting", "name"), ("disabled", "name"), ("begun", "call_id")):
        intruder.execute(f"UPDATE {table} SET {column} = CAST({column} AS BLOB)")  # noqa: S608
    with database.reading() as connection:
        assert not stopped_in(connection)
        assert "tea" not in all_disabled(connection)
    assert isinstance(settled.intent(BEGUN), Intent)


def past_the_index(path: str, table: str, index: str, insert: Callable[[sqlite3.Connection], object]) -> None:
    """Put a row into a table that its index does not get to know: meanwhile the index is one of another table."""

    def root(name: str, page: int) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("PRAGMA writable_schema=ON")
            other.execute("UPDATE sqlite_schema SET rootpage = ? WHERE name = ?", (page, name))
            version = other.execute("PRAGMA schema_version").fetchone()[0]
            other.execute(f"PRAGMA schema_version={version + 1}")

    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        key = "id TEXT PRIMARY KEY" if table == "principal" else "a, b, PRIMARY KEY (a, b)"
        other.execute(f"CREATE TABLE scratch ({key})")
        pages = dict(other.execute("SELECT name, rootpage FROM sqlite_schema"))
    root(index, pages["sqlite_autoindex_scratch_1"])
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        insert(other)
    root(index, pages[index])
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("DROP TABLE scratch")


def test_aud_02_a_row_that_only_the_table_has_and_not_its_index_is_found(
    path: str, keys: Keys, act: Act
) -> None:
    with Database.open(path) as database:
        AuditLog(database).refused(act, code="c", reasons=("r",))
        sign_head(database, keys, by="human:owner")
    past_the_index(
        path,
        "principal",
        "sqlite_autoindex_principal_1",
        lambda other: other.execute(
            "INSERT INTO principal VALUES ('human:mallory', 'human', '', ?, '2026', 'human:owner', '', '')",
            (b'["approver","owner"]',),
        ),
    )
    with Database.look(path) as database, database.reading() as connection:
        assert "owner" in registered_in(connection)["human:mallory"].roles, "he would count"
    found = verify(path)
    assert (found.ok, found.first_bad) == (False, None)
    assert "sqlite_autoindex_principal_1" in found.problem


def misled(path: str) -> None:
    """Lower a key in the root page of the records: whoever walks meets all of them, whoever searches passes some by."""
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        size = other.execute("PRAGMA page_size").fetchone()[0]
        page = other.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'audit'").fetchone()[0]
    with open(path, "r+b") as file:
        file.seek((page - 1) * size)
        root = bytearray(file.read(size))
        assert root[0] == 0x05, "an inner page of a table"
        first, second = struct.unpack(">HH", root[12:16])
        assert root[second + 4] > root[first + 4] + 1
        root[second + 4] = root[first + 4] + 1
        file.seek((page - 1) * size)
        file.write(root)


def test_aud_01_records_that_cannot_be_found_by_their_number_are_found_and_not_passed_over_by_erasing(
    path: str, act: Act, on_disk: Callable[[], bytes]
) -> None:
    with Database.open(path) as database:
        for _ in range(60):
            AuditLog(database).refused(act, code="c", reasons=("r",), payloads={"arguments": "canary" * 50})
    misled(path)
    with closing(sqlite3.connect(path)) as other:
        numbers = [seq for (seq,) in other.execute("SELECT seq FROM audit ORDER BY seq")]
        found = [
            bool(other.execute("SELECT 1 FROM audit WHERE seq = ?", (seq,)).fetchone()) for seq in numbers
        ]
    assert numbers == list(range(1, 61))
    assert not all(found), "some are hidden from who asks for them"
    assert "cannot be found by their number" in verify(path).problem
    with Database.open(path) as database, pytest.raises(RecordError, match="not erased"):
        erase(database, numbers, by="human:owner")
    assert b"canary" in on_disk(), "and nobody is told that it is gone"


def tail_of(path: str) -> object:
    with Database.look(path) as database:
        return AuditLog(database).tail(1)


def test_aud_01_a_schema_that_is_no_text_any_more_is_damage_and_no_fault_of_ours(path: str, act: Act) -> None:
    with Database.open(path) as database:
        AuditLog(database).refused(act, code="c", reasons=("r",))
    data = bytearray(Path(path).read_bytes())
    data[data.index(b"CREATE TABLE revoked") + 3] ^= 0x80
    Path(path).write_bytes(data)
    for use in (Database.open, tail_of, verify):
        try:
            answer = use(path)
        except MetierError as error:
            answer = error
        assert "is damaged" in str(getattr(answer, "problem", answer)), use


def test_aud_01_rows_out_of_order_in_their_page_are_found(
    path: str, settled: AuditLog, database: Database
) -> None:
    """Whoever walks the page meets every row; whoever searches it goes the wrong way."""
    database.close()
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        size = other.execute("PRAGMA page_size").fetchone()[0]
        page = other.execute(
            "SELECT rootpage FROM sqlite_schema WHERE name = 'sqlite_autoindex_setting_1'"
        ).fetchone()[0]
    with open(path, "r+b") as file:
        file.seek((page - 1) * size)
        leaf = bytearray(file.read(size))
        cells = struct.unpack(">H", leaf[3:5])[0]
        assert (leaf[0], cells) == (0x0A, 2), "a leaf of an index, with the level and the stop"
        leaf[8:10], leaf[10:12] = leaf[10:12], leaf[8:10]
        file.seek((page - 1) * size)
        file.write(leaf)
    with Database.look(path) as looking, looking.reading() as connection:
        assert not stopped_in(connection), "without being found it would undo the stop"
    found = verify(path)
    assert not found.ok
    assert "sqlite_autoindex_setting_1" in found.problem


@pytest.mark.slow
def test_aud_01_no_flipped_byte_of_a_small_table_or_its_index_undoes_a_stop_unseen(
    path: str, settled: AuditLog, database: Database
) -> None:
    database.close()
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        size = other.execute("PRAGMA page_size").fetchone()[0]
        pages = [
            page for (page,) in other.execute("SELECT rootpage FROM sqlite_schema WHERE tbl_name = 'setting'")
        ]
    whole = Path(path).read_bytes()
    tried = 0
    for page in pages:
        start = (page - 1) * size
        for place in [each for each in range(start, start + size) if whole[each] or each < start + 16]:
            with open(path, "r+b") as file:
                file.seek(place)
                file.write(bytes([whole[place] ^ 0x04]))
            tried += 1
            try:
                with Database.look(path) as looking, looking.reading() as connection:
                    same = bool(stopped_in(connection))  # why is his word, and compared with nothing
            except StateError:
                same = True  # a reader who is told stops too
            assert same or not verify(path).ok, place - start
            with open(path, "r+b") as file:
                file.seek(place)
                file.write(whole[place : place + 1])
    assert tried > 100
    assert verify(path).ok


def rolled_back(path: str, version: int) -> None:
    """Take away the tables of the later steps, as if they had never been."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA foreign_keys=OFF")
        model = sqlite3.connect(":memory:", isolation_level=None)
        for statement in (each for step in MIGRATIONS[:version] for each in step):
            model.execute(statement)
        wanted = dict(model.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table'"))
        model.close()
        for (name,) in other.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
            if name not in wanted:
                other.execute(f"DROP TABLE {name}")
        other.execute("CREATE TEMP TABLE records AS SELECT seq, body, hash FROM audit")
        beside = [
            (seq, name, keys, body)  # the tests here give a record one payload at most
            for seq, keys, kept in other.execute(
                "SELECT seq, keys, kept FROM audit WHERE keys IS NOT NULL"
            ).fetchall()
            for name, body in (apart(kept) or {}).items()
        ]
        other.execute("DROP TABLE audit")
        other.execute(wanted["audit"])
        other.execute(wanted["payload"])
        other.execute("INSERT INTO audit SELECT * FROM records")
        other.executemany("INSERT INTO payload VALUES (?, ?, ?, ?)", beside)
        other.execute("CREATE TEMP TABLE kept AS SELECT seq FROM open_intent")
        other.execute("DROP TABLE open_intent")
        other.execute(wanted["open_intent"])
        other.execute("INSERT INTO open_intent SELECT seq FROM kept")
        other.execute(f"PRAGMA user_version={version}")


NEWS: dict[str, Callable[[Database, AuditLog], object]] = {
    "stopped": lambda database, log: stop(database, by="human:owner"),
    "level": lambda database, log: set_level(database, "bounded_auto", by="human:owner"),
    "revoked": lambda database, log: revoke_principal(
        database, "agent:cli", by="human:owner", owner="human:owner"
    ),
    "asked": lambda database, log: ask(database),
    "granted": lambda database, log: give(database, given()),
    "begun": lambda database, log: log.intent(BEGUN),
}


@pytest.mark.parametrize("change", NEWS.values(), ids=NEWS.keys())
def test_aud_04_state_whose_tables_were_taken_back_to_an_older_schema_is_found(
    path: str, act: Act, change: Callable[[Database, AuditLog], object]
) -> None:
    with Database.open(path) as database:
        change(database, AuditLog(database))
        head = AuditLog(database).head()
    rolled_back(path, 2)
    found = verify(path, expected=head)
    assert (found.ok, found.first_bad) == (False, None), found.problem


def test_aud_04_tables_that_records_speak_of_are_not_made_anew_and_empty(path: str) -> None:
    with Database.open(path) as database:
        stop(database, by="human:owner")
    rolled_back(path, 2)
    with pytest.raises(StateError, match="tables were removed") as caught:
        Database.open(path)
    assert caught.value.remedy
    with Database.look(path) as database:
        assert database.path == path, "it can still be looked at"


def test_state_that_really_is_of_an_older_schema_is_brought_up_to_date(path: str, act: Act) -> None:
    with Database.open(path) as database:
        AuditLog(database).intent(act)
        TrustStore(database).grant("tea", "d1", permissions=PermissionSet(), by="owner", how="operator")
    rolled_back(path, 2)
    assert verify(path).ok
    Database.open(path).close()
    assert verify(path).ok


@pytest.mark.parametrize(
    "edit",
    [
        "INSERT INTO erasure VALUES (1, 2)",
        "INSERT INTO erasure VALUES (1, 99)",
        "INSERT INTO erasure VALUES (77, 2)",
        "DELETE FROM erasure",
        "UPDATE erasure SET seq = 1",
        "UPDATE erasure SET record = 2",
    ],
)
def test_aud_02_the_table_of_erasures_follows_from_the_records(
    path: str, log: AuditLog, act: Act, intruder: sqlite3.Connection, edit: str
) -> None:
    for number in range(3):
        log.refused(act, code="c", reasons=("r",), payloads={"arguments": number})
    log.erase(3, by="human:owner")
    assert verify(path).ok
    intruder.execute("PRAGMA foreign_keys=OFF")
    intruder.execute(edit)
    assert not verify(path).ok


def test_a_planted_erasure_keeps_no_payload_from_being_erased(
    path: str, database: Database, log: AuditLog, act: Act, intruder: sqlite3.Connection
) -> None:
    from metier.record.erasure import erase, older_than

    for number in range(2):
        log.refused(act, code="c", reasons=("r",), payloads={"arguments": number})
    intruder.execute("INSERT INTO erasure VALUES (1, 2)")
    due = older_than(database, "9999").seqs
    assert due == [1, 2]
    assert erase(database, due, by="human:owner") == 2
    assert [record.about for record in log.tail(2)] == [1, 2]
    assert verify(path).ok, "and that settles it"


def test_aud_08_a_record_without_end_in_depth_is_a_finding_and_no_crash(
    path: str, log: AuditLog, act: Act, intruder: sqlite3.Connection
) -> None:
    from metier.errors import RecordError
    from metier.record.chain import link
    from metier.record.search import Query, search

    log.refused(act, code="c", reasons=("r",))
    [(body,)] = intruder.execute("SELECT body FROM audit").fetchall()
    body = body[:-1] + b',"x":' + b"[" * 200_000 + b"]" * 200_000 + b"}"
    intruder.execute("UPDATE audit SET body = ?, hash = ?", (body, link(bytes(32), 1, body)))
    found = verify(path)
    assert (found.ok, found.first_bad) == (False, 1)
    with pytest.raises(RecordError, match="cannot be read"):
        log.tail(1)
    with Database.open(path) as database, pytest.raises(RecordError, match="cannot be read"):
        search(database, Query(), 1)


LARGE = [
    "UPDATE audit SET body = zeroblob(50000000)",
    "UPDATE audit SET keys = zeroblob(50000000)",
    "UPDATE audit SET kept = zeroblob(50000000)",
    "UPDATE audit SET kept = CAST(zeroblob(50000000) AS TEXT)",
    "INSERT INTO setting VALUES ('x', CAST(zeroblob(50000000) AS TEXT), '', '')",
]


@pytest.mark.parametrize("change", LARGE)
def test_aud_13_what_somebody_made_large_is_found_without_taking_it_in(
    path: str, log: AuditLog, act: Act, intruder: sqlite3.Connection, change: str
) -> None:
    import tracemalloc

    log.refused(act, code="c", reasons=("r",), payloads={"arguments": 1})
    intruder.execute(change)
    tracemalloc.start()
    try:
        assert not verify(path).ok
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_the_call_of_an_open_intent_is_the_recorded_one(
    path: str, settled: AuditLog, intruder: sqlite3.Connection
) -> None:
    for call in ("call-other", ""):
        intruder.execute("UPDATE open_intent SET call_id = ?", (call,))
        assert "open intents" in verify(path).problem


def test_whoever_cancelled_a_call_is_on_the_record(
    path: str, settled: AuditLog, database: Database, intruder: sqlite3.Connection
) -> None:
    assert cancel(database, BEGUN.call_id, by="human:owner")
    assert verify(path).ok
    intruder.execute("UPDATE open_intent SET cancelled_by = 'human:mallory'")
    assert "no record says by whom" in verify(path).problem


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE audit SET body = x'00'",
        "UPDATE open_intent SET process = '²'",
        "UPDATE open_intent SET process = 7",
        "UPDATE open_intent SET process = CAST(x'ff' AS TEXT)",
        "UPDATE open_intent SET cancelled_by = CAST(x'ff' AS TEXT), process = ''",
        "UPDATE audit SET body = CAST(x'ff' AS TEXT)",
    ],
)
def test_a_damaged_call_hides_no_other_and_can_be_ended(
    settled: AuditLog, database: Database, intruder: sqlite3.Connection, damage: str
) -> None:
    intruder.execute(damage)
    [found] = calls_under_way(database)
    assert (found.call_id, found.process) == (BEGUN.call_id, None)
    assert cancel(database, found.call_id, by="human:owner")


def test_a_call_whose_name_is_no_text_keeps_no_other_from_being_ended(
    settled: AuditLog, database: Database, intruder: sqlite3.Connection
) -> None:
    other = msgspec.structs.replace(BEGUN, call_id="call-8")
    assert isinstance(settled.intent(other), Intent)
    intruder.execute(
        "UPDATE open_intent SET call_id = CAST(x'ff' AS TEXT) WHERE call_id = ?", (BEGUN.call_id,)
    )
    intruder.execute("UPDATE open_intent SET cancelled_by = CAST(x'ff' AS TEXT) WHERE call_id <> 'call-8'")
    assert [each.call_id for each in calls_under_way(database)] == [BEGUN.call_id, "call-8"]
    assert cancel(database, "call-8", by="human:owner")
    intruder.execute("UPDATE open_intent SET process = 'one'")
    with database.reading() as connection:
        assert cancelled_in(connection, "one")["call-8"] == "human:owner"


def test_a_cancelling_that_could_not_be_recorded_is_settled_by_cancelling_again(
    path: str, settled: AuditLog, database: Database, intruder: sqlite3.Connection
) -> None:
    intruder.execute("UPDATE open_intent SET cancelled_by = 'human:owner'")
    assert verify(path).problem.endswith("cancel it again to settle it")
    assert cancel(database, BEGUN.call_id, by="human:owner")
    assert verify(path).ok


def test_who_cancelled_one_call_did_not_cancel_another(
    path: str, settled: AuditLog, database: Database, intruder: sqlite3.Connection
) -> None:
    assert isinstance(settled.intent(msgspec.structs.replace(BEGUN, call_id="call-8")), Intent)
    assert cancel(database, "call-8", by="human:owner")
    assert verify(path).ok
    intruder.execute("UPDATE open_intent SET cancelled_by = 'human:owner'")
    assert "no record says by whom" in verify(path).problem


def test_who_cancelled_the_first_attempt_did_not_cancel_the_second(
    path: str, database: Database, log: AuditLog, intruder: sqlite3.Connection
) -> None:
    first = log.intent(BEGUN)
    assert isinstance(first, Intent)
    assert cancel(database, BEGUN.call_id, by="human:owner")
    log.outcome(first, "skill_execution_error")
    assert isinstance(log.intent(msgspec.structs.replace(BEGUN, attempt=2)), Intent)
    assert verify(path).ok
    intruder.execute("UPDATE open_intent SET cancelled_by = 'human:owner'")
    assert "no record says by whom" in verify(path).problem


def test_the_end_of_one_attempt_leaves_it_on_the_record_who_cancelled_the_other(
    path: str, database: Database, log: AuditLog
) -> None:
    assert isinstance(log.intent(BEGUN), Intent)
    second = log.intent(msgspec.structs.replace(BEGUN, attempt=2))
    assert isinstance(second, Intent)
    assert cancel(database, BEGUN.call_id, by="human:owner")
    log.outcome(second, "skill_execution_error")
    assert [each.cancelled_by for each in calls_under_way(database)] == ["human:owner"]
    assert verify(path).ok, verify(path).problem


def test_what_is_kept_of_cancelled_calls_does_not_grow_with_the_log(
    database: Database, log: AuditLog
) -> None:
    from metier.record.follow import Ledger
    from metier.record.glance import decode
    from metier.record.signed_head import HeadLedger

    for number in range(20):
        intent = log.intent(msgspec.structs.replace(BEGUN, call_id=f"call-{number}"))
        assert isinstance(intent, Intent)
        assert cancel(database, f"call-{number}", by="human:owner")
        log.outcome(intent, "skill_execution_error")
    with database.reading() as connection:
        ledger = Ledger(connection, HeadLedger(connection, None))
        before = len(msgspec.json.encode(_kept_in(ledger)))
        for (body,) in connection.execute("SELECT body FROM audit ORDER BY seq"):
            assert ledger.take(decode(body)) == ""
    assert len(msgspec.json.encode(_kept_in(ledger))) == before


def _kept_in(ledger: object) -> list[object]:
    return [list(value) for value in vars(ledger).values() if isinstance(value, dict | set)]


def test_a_draft_that_a_killed_process_left_is_swept_after_an_hour(path: str) -> None:
    Database.open(path).close()
    folder, name = os.path.split(path)
    left = [f"{name}.{'0a' * 8}.{end}" for end in ("new", "new-wal", "new-shm", "draft")]
    kept = [f"{name}.{'0a' * 8}.old", f"{name}.notes.new", f"{name}.{'0g' * 8}.new", "other.db.new"]
    fresh = f"{name}.{'0b' * 8}.new"
    for each in (*left, *kept, fresh):
        with open(os.path.join(folder, each), "wb") as file:
            file.write(b"x")
        if each != fresh:
            os.utime(os.path.join(folder, each), (1, 1))
    Database.look(path).close()
    assert set(left) < set(os.listdir(folder)), "looking leaves no trace"
    Database.open(path).close()
    assert set(os.listdir(folder)) == {name, f"{name}.made", *kept, fresh}


def test_a_record_of_an_erasure_is_about_its_own_record() -> None:
    from metier.record.glance import erases

    body = msgspec.json.encode({"seq": 4, "event": "payload_erased", "about": 2})
    assert erases(body, 2)
    assert not erases(body, 3)
    assert not erases(None, 2)
    assert not erases(body.replace(b"payload_erased", b"skill_executed"), 2)
