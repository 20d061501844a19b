"""The trust level: one for the whole state, changed by people, on the record."""

from pathlib import Path

import pytest

from metier.errors import StateError
from metier.model.trust_level import DEFAULT
from metier.record import connection as connections
from metier.record.audit import AuditLog
from metier.record.database import Database
from metier.record.level import level, set_level
from metier.record.schema import KNOWS_SETTING, MIGRATIONS


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "state" / "state.db")


def test_a_fresh_state_has_the_default_and_a_change_is_seen_by_other_processes(path: str) -> None:
    with Database.open(path) as one, Database.open(path) as other:
        assert level(one) == DEFAULT == "supervised_auto"
        assert set_level(one, "observe", by="human:a") == "supervised_auto"
        assert level(other) == "observe"


def test_each_change_is_recorded_with_who_made_it_and_the_same_again_is_none(path: str) -> None:
    with Database.open(path) as database:
        set_level(database, "bounded_auto", by="human:a")
        assert set_level(database, "bounded_auto", by="human:b") == "bounded_auto"
        set_level(database, "suggest", by="human:b")
        records = AuditLog(database).tail(10)
    assert [(each.event, each.code, each.principal, each.reasons) for each in records] == [
        ("trust_level_changed", "bounded_auto", "human:a", ("from supervised_auto to bounded_auto",)),
        ("trust_level_changed", "suggest", "human:b", ("from bounded_auto to suggest",)),
    ]


def test_apr_38_a_stored_level_that_cannot_be_understood_means_the_least(path: str) -> None:
    with Database.open(path) as database:
        set_level(database, "bounded_auto", by="human:a")
        with database.transaction() as connection:
            connection.execute("UPDATE setting SET value = 'BOUNDED_AUTO'")
        assert level(database) == "observe"


def test_a_change_that_cannot_be_recorded_is_not_made(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Database.open(path) as database:
        with monkeypatch.context() as patch:
            patch.setattr("metier.record.chain.append", _no_room)
            with pytest.raises(StateError):
                set_level(database, "bounded_auto", by="human:a")
        assert level(database) == DEFAULT


def test_a_state_of_an_older_metier_has_the_default_and_is_looked_at_as_it_lies(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        before.setattr(connections, "VERSION", KNOWS_SETTING - 1)
        before.setattr(connections, "MIGRATIONS", MIGRATIONS[: KNOWS_SETTING - 1])
        Database.open(path).close()
        with Database.look(path) as database:
            assert level(database) == DEFAULT
    with Database.open(path) as database:
        assert set_level(database, "observe", by="human:a") == DEFAULT


def _no_room(*_: object, **__: object) -> int:
    raise StateError("no room", remedy="Free space")
