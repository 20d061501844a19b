"""State outlives the version that wrote it. Today's schema plays the older version, and one more step the newer one."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from metier.errors import StateError
from metier.model.permission import PermissionSet
from metier.record import connection
from metier.record.audit import AuditLog, Intent
from metier.record.chain import GENESIS, Act, link
from metier.record.database import Database
from metier.record.payload import PAYLOAD_BYTES
from metier.record.schema import APPLICATION_ID, MIGRATIONS, VERSION
from metier.record.trust import Trusts, TrustStore
from metier.record.verify import verify
from older_state import as_of_the_third_step

NEXT = ("CREATE TABLE later (x)", "INSERT INTO later VALUES ('made by the upgrade')")
GRANTED = PermissionSet(binaries=frozenset({"jq"}))


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """From here on Metier is one version newer; leaving the context makes it the older one again."""
    with monkeypatch.context() as patch:
        patch.setattr(connection, "MIGRATIONS", (*MIGRATIONS, NEXT))
        patch.setattr(connection, "VERSION", VERSION + 1)
        yield patch


@pytest.fixture
def older(path: str, act: Act) -> Trusts:
    """State as the older version left it: records, payloads, an open intent, trust."""
    with Database.open(path) as database:
        log, store = AuditLog(database), TrustStore(database)
        intent = log.intent(act, payloads={"arguments": {"a": 1}})
        assert isinstance(intent, Intent)
        log.outcome(intent, "skill_executed")
        log.intent(msgspec.structs.replace(act, attempt=2))
        store.grant("tea", "sha256:1", permissions=GRANTED, by="human:x", how="operator", path="/skills/tea")
        store.revoke("coffee", by="human:x")
        return store.all()


def version(path: str) -> int:
    with closing(sqlite3.connect(path)) as file:
        return file.execute("PRAGMA user_version").fetchone()[0]


def test_rel_14_state_of_an_older_version_is_brought_up_to_date_and_keeps_everything(
    path: str, act: Act, older: Trusts, newer: pytest.MonkeyPatch
) -> None:
    assert version(path) == VERSION
    with Database.open(path) as database:
        assert version(path) == VERSION + 1
        assert verify(database).ok
        log, store = AuditLog(database), TrustStore(database)
        assert [record.event for record in log.tail(10)] == [
            "skill_execution_started",
            "skill_executed",
            "skill_execution_started",
            "skill_trusted",
            "skill_untrusted",
        ]
        assert len(log.open_intents()) == 1
        assert store.all() == older
        with database.reading() as inside:
            assert inside.execute("SELECT x FROM later").fetchall() == [("made by the upgrade",)]
        log.refused(act, code="c", reasons=("r",))
        assert verify(database).ok
    Database.open(path).close()
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("SELECT count(*) FROM later").fetchone() == (1,), "no step is taken twice"


def test_rel_14_an_upgrade_that_fails_leaves_the_old_state_as_it_was(
    path: str, older: Trusts, newer: pytest.MonkeyPatch
) -> None:
    newer.setattr(connection, "MIGRATIONS", (*MIGRATIONS, (*NEXT, "DROP TABLE trust", "no SQL at all")))
    with pytest.raises(StateError) as caught:
        Database.open(path)
    assert caught.value.remedy
    newer.undo()
    assert version(path) == VERSION
    with Database.open(path) as database:
        assert TrustStore(database).all() == older
        assert verify(database).ok


def test_rel_14_what_was_upgraded_is_refused_by_the_older_version(
    path: str, older: Trusts, newer: pytest.MonkeyPatch
) -> None:
    Database.open(path).close()
    newer.undo()
    with pytest.raises(StateError, match=f"newer Metier .schema {VERSION + 1}") as caught:
        Database.open(path)
    assert f"schema {VERSION + 1}" in caught.value.remedy
    assert version(path) == VERSION + 1


@pytest.fixture
def third(path: str, act: Act) -> str:
    """State of the third step, with payloads of every kind: one, two, only a digest, large, erased, none."""
    with Database.open(path) as database:
        log = AuditLog(database)
        for payloads in (
            {"arguments": {"n": 1}},
            {"result": ["zwei", "é"], "arguments": {}},
            {},
            {"a": "gone"},
        ):
            log.refused(act, code="c", reasons=("r",), payloads=payloads)
        AuditLog(database, payloads="hashes").refused(
            act, code="c", reasons=("r",), payloads={"b": 1, "a": 2}
        )
        log.refused(act, code="c", reasons=("r",), payloads={"large": "x" * PAYLOAD_BYTES, "small": "canary"})
        log.intent(act)
        log.erase(4, by="owner")
    as_of_the_third_step(path)
    return path


def test_rel_14_payloads_of_a_table_of_their_own_are_seen_as_they_lie_and_move_to_their_records(
    third: str, on_disk: Callable[[], bytes]
) -> None:
    before = Path(third).read_bytes()
    looked = verify(third)
    assert (looked.ok, looked.records, looked.open_intents) == (True, 8, (7,)), looked.problem
    with Database.look(third) as database:
        shown = [AuditLog(database).kept(record) for record in AuditLog(database).tail(10)]
    assert Path(third).read_bytes() == before, "looking changes nothing"
    kept = [
        {"arguments": {"n": 1}},
        {"result": ["zwei", "é"], "arguments": {}},
        {},
        {},
        {},
        {"small": "canary"},
        {},
        {},
    ]
    assert shown == kept
    with Database.open(third) as database:
        log = AuditLog(database)
        assert [log.kept(record) for record in log.tail(10)] == kept
        found = verify(third, expected=(looked.records, looked.head))
        assert found.ok, found.problem
        log.erase(6, by="owner")
        assert b"canary" not in on_disk(), "no copy stays where it lay before"
        assert verify(third).ok


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE payload SET body = CAST('{}' AS BLOB) WHERE seq = 1",
        "UPDATE payload SET key = zeroblob(32) WHERE seq = 5 AND name = 'a'",
        "UPDATE payload SET name = 'other' WHERE seq = 1",
        "UPDATE payload SET body = x'31' WHERE seq = 5 AND name = 'b'",
        "DELETE FROM payload WHERE seq = 2 AND name = 'result'",
        "INSERT INTO payload VALUES (3, 'more', zeroblob(32), x'31')",
        "INSERT INTO erasure VALUES (1, 8)",
        "DELETE FROM erasure",
        "UPDATE payload SET body = CAST('\"back again\"' AS BLOB) WHERE seq = 4",
        "UPDATE payload SET key = randomblob(32) WHERE seq = 4",
    ],
)
def test_rel_14_what_was_tampered_with_before_an_upgrade_is_found_before_and_after_it(
    third: str, change: str
) -> None:
    with closing(sqlite3.connect(third, isolation_level=None)) as file:
        assert file.execute(change).rowcount
    assert not verify(third).ok
    Database.open(third).close()
    assert not verify(third).ok


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE payload SET body = 'text' WHERE seq = 6",
        "UPDATE payload SET key = 'text' WHERE seq = 1",
        "UPDATE payload SET name = x'61' WHERE seq = 1",
        "INSERT INTO payload VALUES (999, 'arguments', zeroblob(32), x'31')",
        "INSERT INTO payload VALUES (0, 'arguments', zeroblob(32), x'31')",
        "CREATE TRIGGER forget AFTER INSERT ON audit BEGIN DELETE FROM open_intent; END",
        "CREATE INDEX quick ON payload (name)",
        "ALTER TABLE audit ADD COLUMN more TEXT",
        "CREATE TABLE notes (x)",
    ],
)
def test_rel_14_an_upgrade_makes_nothing_good_and_leaves_what_is_wrong_as_it_lies(
    third: str, change: str
) -> None:
    with closing(sqlite3.connect(third, isolation_level=None)) as file:
        file.execute(change)
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = Path(third).read_bytes()
    assert not verify(third).ok
    with pytest.raises(StateError, match="not as Metier made it") as caught:
        Database.open(third)
    assert "evidence" in caught.value.remedy
    assert Path(third).read_bytes() == before
    assert version(third) == 3


def test_rel_14_a_log_from_before_the_tables_of_today_goes_on(path: str, act: Act) -> None:
    """Version 2 as it was: intents without a row in any table of begun calls."""
    os.makedirs(os.path.dirname(path), mode=0o700)
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        for statements in MIGRATIONS[:2]:
            for statement in statements:
                file.execute(statement)
        file.execute(f"PRAGMA application_id={APPLICATION_ID}")
        file.execute("PRAGMA user_version=2")
        hash, at = GENESIS, "2025-01-01T00:00:00.000000Z"
        for seq, event in enumerate(
            ("skill_execution_started", "skill_executed", "skill_execution_started"), start=1
        ):
            record = {
                "seq": seq,
                "at": at,
                "event": event,
                "level": "info",
                "category": "action",
                "call_id": "old",
            }
            body = msgspec.json.encode(record | ({"about": 1} if seq == 2 else {}))
            hash = link(hash, seq, body)
            file.execute("INSERT INTO audit VALUES (?, ?, ?)", (seq, body, hash))
        file.execute("INSERT INTO open_intent VALUES (3)")
    os.chmod(path, 0o600)
    looked = verify(path)
    assert (looked.ok, looked.records, looked.open_intents) == (True, 3, (3,))
    with Database.open(path) as database:
        log = AuditLog(database)
        assert isinstance(log.intent(msgspec.structs.replace(act, evidence="policy")), Intent)
        assert verify(path, expected=(3, hash.hex())).ok
        with database.transaction() as connection:
            connection.execute("DELETE FROM begun")
    assert "table of begun calls" in verify(path).problem
