"""What lies beside the chain in the same file is checked too: objects, payloads, trust and open intents."""

import hmac
import os
import sqlite3

import msgspec
import pytest

from metier.errors import RecordError, StateError
from metier.model.permission import PermissionSet
from metier.record.audit import AuditLog, Intent
from metier.record.chain import Act, keyed_digest
from metier.record.database import Database, open_if_there
from metier.record.payload import PAYLOAD_BYTES
from metier.record.trust import TrustStore
from metier.record.verify import verify

CURL = PermissionSet(binaries=frozenset({"curl"}))

PLANTED = {
    "trigger": "CREATE TRIGGER forget AFTER INSERT ON audit BEGIN DELETE FROM open_intent; END",
    "view": "CREATE VIEW helper AS SELECT * FROM trust",
    "table": "CREATE TABLE notes (x)",
    "index": "CREATE INDEX quick ON trust (how)",
    "view in a table's place": "DROP TABLE trust; CREATE VIEW trust AS SELECT 'x' AS name",
    "table with more columns": "ALTER TABLE trust ADD COLUMN more TEXT",
    "missing table": "DROP TABLE erasure",
}


@pytest.mark.parametrize("script", PLANTED.values(), ids=PLANTED.keys())
def test_what_metier_did_not_make_is_refused_on_opening(path: str, script: str) -> None:
    Database.open(path).close()
    other = sqlite3.connect(path)
    other.executescript(script)
    other.close()
    for way_in in (lambda: Database.open(path), lambda: _trusts(path)):
        with pytest.raises(StateError, match=r"not as Metier made it: .*'\w+'") as caught:
            way_in()
        assert caught.value.remedy
    found = verify(path)
    assert (found.ok, found.first_bad) == (False, None)
    assert "Metier did not make" in found.problem or "missing" in found.problem or "changed" in found.problem


def another(act: Act) -> Act:
    return msgspec.structs.replace(act, call_id="call-2")


def _trusts(path: str) -> object:
    database = open_if_there(path)
    assert database is not None
    with database:
        return TrustStore(database).all()


def test_a_trigger_that_is_planted_later_does_not_fire(
    database: Database, log: AuditLog, act: Act, intruder: sqlite3.Connection
) -> None:
    log.intent(act)
    intruder.execute(PLANTED["trigger"])
    with pytest.raises(RecordError, match="trigger 'forget'"):
        log.intent(another(act))
    assert intruder.execute("SELECT seq FROM open_intent").fetchall() == [(1,)]
    intruder.execute("DROP TRIGGER forget")
    assert log.intent(another(act)) == Intent(seq=2, act=another(act))


def test_a_trigger_would_have_fired(log: AuditLog, act: Act, intruder: sqlite3.Connection) -> None:
    log.intent(act)
    intruder.execute(PLANTED["trigger"])
    intruder.execute("INSERT INTO audit VALUES (2, x'', x'', NULL, NULL)")
    assert intruder.execute("SELECT seq FROM open_intent").fetchall() == []


def test_ordinary_care_of_the_file_is_no_change(
    path: str, log: AuditLog, act: Act, intruder: sqlite3.Connection
) -> None:
    log.intent(act)
    intruder.execute("VACUUM")
    intruder.execute("REINDEX")
    log.intent(another(act))
    assert verify(path).ok


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE audit SET kept = NULL",
        "UPDATE audit SET kept = NULL, keys = zeroblob(32)",
        "UPDATE audit SET keys = x'00' WHERE seq = 2",
        "UPDATE audit SET keys = zeroblob(32) WHERE seq = 2",
        "UPDATE audit SET kept = x'31' WHERE seq = 2",
        "UPDATE audit SET kept = (SELECT kept FROM audit WHERE seq = 1) WHERE seq = 2",
        "UPDATE audit SET kept = x'31' WHERE seq = 3",
        "UPDATE audit SET keys = x'31' WHERE seq = 3",
        "UPDATE audit SET keys = NULL, kept = NULL WHERE seq = 3",
        "UPDATE audit SET keys = zeroblob(31) WHERE seq = 3",
        "UPDATE audit SET keys = 12 WHERE seq = 1",
        "UPDATE audit SET keys = 'text' WHERE seq = 1",
        "UPDATE audit SET kept = 12 WHERE seq = 1",
        "UPDATE audit SET kept = CAST(kept AS TEXT) WHERE seq = 1",
        "UPDATE audit SET kept = CAST(replace(kept, 'arguments', CAST(x'617267756d656e7473ff' AS TEXT)) AS BLOB) WHERE seq = 1",
        "UPDATE audit SET keys = zeroblob(32), kept = x'00' WHERE seq = 4",
    ],
)
def test_a_payload_is_there_as_recorded_or_gone_on_the_record(
    path: str, database: Database, act: Act, intruder: sqlite3.Connection, change: str
) -> None:
    for policy, seq in (("redacted", 1), ("hashes", 2), ("redacted", 3)):
        log = AuditLog(database, payloads=policy)
        assert log.refused(act, code="c", reasons=("r",), payloads={"arguments": {"n": seq}}) == seq
    AuditLog(database).erase(3, by="owner")
    assert verify(path).ok
    intruder.execute("PRAGMA foreign_keys=OFF")
    intruder.execute(change)
    assert not verify(path).ok


def test_a_record_says_of_which_payloads_no_body_was_kept(database: Database, act: Act) -> None:
    log = AuditLog(database)
    log.refused(act, code="c", reasons=("r",), payloads={"large": "x" * PAYLOAD_BYTES, "small": "x"})
    AuditLog(database, payloads="hashes").refused(act, code="c", reasons=("r",), payloads={"small": "x"})
    assert [set(record.unkept) for record in log.tail(2)] == [{"large"}, {"small"}]
    assert verify(database).ok


EDITS = [
    'UPDATE trust SET permissions = \'{"binaries":["sh"]}\'',
    "UPDATE trust SET version = '9'",
    "UPDATE trust SET how = 'release'",
    "UPDATE trust SET granted_by = 'somebody'",
    "UPDATE trust SET granted_at = '2020'",
    "UPDATE trust SET digest = 'd9'",
    "UPDATE trust SET name = 'other'",
    "UPDATE trust SET version = x'ff'",
    "DELETE FROM trust",
    "INSERT INTO trust SELECT name, 'd9', version, permissions, granted_at, granted_by, how FROM trust",
    "INSERT INTO trust SELECT 'evil', digest, version, permissions, granted_at, granted_by, how FROM trust",
    "DELETE FROM revoked",
    "UPDATE revoked SET name = 'other' WHERE name = 'milk'",
    "UPDATE revoked SET revoked_by = 'somebody'",
    "UPDATE revoked SET revoked_at = 7",
    "INSERT INTO revoked VALUES ('tea', '', '')",
    "DELETE FROM open_intent",
    "INSERT INTO open_intent (seq) VALUES (1)",
    "DELETE FROM begun",
    "INSERT INTO begun VALUES ('call-1', 2, 9)",
    "INSERT INTO begun VALUES ('call-1', 2, 11)",
    "UPDATE begun SET attempt = 2",
    "UPDATE begun SET call_id = 'call-2'",
    "UPDATE begun SET seq = 'ten'",
    "UPDATE begun SET seq = 9",
]


@pytest.mark.parametrize("edit", EDITS)
def test_trust_revocations_and_open_intents_follow_from_the_records(
    path: str, database: Database, log: AuditLog, act: Act, intruder: sqlite3.Connection, edit: str
) -> None:
    store = TrustStore(database)
    for name in ("tea", "coffee", "milk"):
        store.grant(name, "d1", permissions=CURL, by="owner", how="operator", version="1")
    store.revoke("milk", by="owner")
    store.grant("milk", "d2", permissions=CURL, by="owner", how="operator")
    store.revoke("milk", by="owner")
    store.revoke("coffee", by="owner")
    store.grant("coffee", "d1", permissions=CURL, by="owner", how="operator")
    store.revoke("coffee", by="owner")
    log.intent(msgspec.structs.replace(act, evidence="policy"))
    assert verify(path).ok
    intruder.execute("PRAGMA foreign_keys=OFF")
    intruder.execute(edit)
    found = verify(path)
    assert (found.ok, found.first_bad, found.records) == (False, None, 10), edit
    assert found.problem


def test_a_person_can_settle_what_was_edited(
    path: str, database: Database, intruder: sqlite3.Connection
) -> None:
    store = TrustStore(database)
    store.grant("tea", "d1", permissions=CURL, by="owner", how="operator")
    intruder.execute(EDITS[0])
    intruder.execute("DELETE FROM revoked")
    assert "take the trust back again" in verify(path).problem
    store.revoke("tea", by="owner")
    assert verify(path).ok


def test_a_cut_tail_shows_in_what_it_leaves_behind(
    path: str, database: Database, intruder: sqlite3.Connection
) -> None:
    TrustStore(database).grant("tea", "d1", permissions=CURL, by="owner", how="operator")
    intruder.execute("DELETE FROM audit")
    assert "no record says so" in verify(path).problem


@pytest.mark.parametrize("key", [0, 1, 31, 32, 33, 64, 65])
def test_the_quick_digest_of_a_payload_is_the_one_that_is_recorded(key: int) -> None:
    for size in (0, 1, 31, 32, 55, 56, 63, 64, 65, 1000, 70_000):
        secret, body = os.urandom(key), os.urandom(size)
        assert keyed_digest(secret, body) == hmac.digest(secret, body, "sha256").hex()
