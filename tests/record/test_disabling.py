"""A skill is disabled at once and on the record, and only a person's word, on the record too, enables it again."""

import sqlite3
from contextlib import closing

import pytest

from metier.errors import RecordError, StateError
from metier.record import connection as connections
from metier.record.audit import AuditLog
from metier.record.database import Database, open_if_there
from metier.record.disabling import disable, enable
from metier.record.schema import MIGRATIONS
from metier.record.trust import TrustStore
from metier.record.verify import verify


def test_disabling_and_enabling_are_recorded_and_read_back(
    path: str, database: Database, log: AuditLog
) -> None:
    disable(database, "tea", call_id="call_7", why="it tried: syscall")
    [why] = TrustStore(database).all().disabled.values()
    assert "it tried: syscall" in why
    assert "call_7" in why
    (record,) = log.tail(10)
    assert (record.event, record.level, record.category) == ("skill_disabled", "error", "security")
    assert (record.skill, record.call_id, record.principal) == ("tea", "call_7", "metier")
    assert verify(path).ok
    assert enable(database, "tea", by="human:x")
    assert TrustStore(database).all().disabled == {}
    assert (log.tail(1)[0].event, log.tail(1)[0].principal) == ("skill_enabled", "human:x")
    assert verify(path).ok


def test_enabling_what_is_not_disabled_changes_nothing(database: Database, log: AuditLog) -> None:
    assert not enable(database, "tea", by="human:x")
    assert log.tail(10) == []


def test_trust_alone_does_not_enable(database: Database) -> None:
    from metier.model.permission import PermissionSet

    disable(database, "tea", call_id="call_7", why="x")
    store = TrustStore(database)
    assert store.grant("tea", "d1", permissions=PermissionSet(), by="human:x", how="operator")
    assert "tea" in store.all().disabled


def test_disabling_that_cannot_be_recorded_is_done_all_the_same(
    database: Database, intruder: sqlite3.Connection
) -> None:
    disable(database, "coffee", call_id="call_1", why="x")
    intruder.execute("UPDATE audit SET hash = 'no hash'")
    with pytest.raises(RecordError, match="is disabled, but"):
        disable(database, "tea", call_id="call_7", why="x")
    assert set(TrustStore(database).all().disabled) == {"tea", "coffee"}


def test_enabling_that_cannot_be_recorded_is_not_done(
    database: Database, intruder: sqlite3.Connection
) -> None:
    disable(database, "tea", call_id="call_7", why="x")
    intruder.execute("UPDATE audit SET hash = 'no hash'")
    with pytest.raises(StateError):
        enable(database, "tea", by="human:x")
    assert "tea" in TrustStore(database).all().disabled


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("DELETE FROM disabled", "the table forgot it"),
        ("UPDATE disabled SET call_id = 'another'", "not as a record says"),
        ("INSERT INTO disabled VALUES ('milk', 'then', 'call_9', 'x')", "'milk' is disabled"),
    ],
)
def test_who_edits_the_table_behind_our_back_is_found(
    path: str, database: Database, intruder: sqlite3.Connection, change: str, said: str
) -> None:
    disable(database, "tea", call_id="call_7", why="x")
    assert verify(path).ok
    intruder.execute(change)
    found = verify(path)
    assert not found.ok
    assert said in found.problem


def test_state_of_the_version_before_is_looked_at_as_it_lies_and_brought_up_to_date(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        before.setattr(connections, "MIGRATIONS", MIGRATIONS[:1])
        before.setattr(connections, "VERSION", 1)
        Database.open(path).close()
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (1,)
    looked = open_if_there(path)
    assert looked is not None
    with looked:
        assert TrustStore(looked).all().disabled == {}
    assert verify(path).ok
    with Database.open(path) as database:
        disable(database, "tea", call_id="call_7", why="x")
        assert "tea" in TrustStore(database).all().disabled
    assert verify(path).ok
