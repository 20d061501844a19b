"""The trust level and the stop button are what the record says they are."""

import sqlite3

import pytest

from metier.errors import RecordError
from metier.record.database import Database
from metier.record.level import set_level
from metier.record.stop import resume, stop
from metier.record.verify import verify


@pytest.fixture(autouse=True)
def changed(path: str, database: Database) -> None:
    set_level(database, "observe", by="human:x")
    stop(database, by="human:x")
    resume(database, by="human:x")
    set_level(database, "suggest", by="human:y")
    stop(database, by="human:y", why="something smells")
    assert verify(path).ok


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE setting SET value = 'adaptive_auto' WHERE name = 'trust_level'",
        "UPDATE setting SET value = 7 WHERE name = 'trust_level'",
        "UPDATE setting SET changed_by = 'human:x' WHERE name = 'trust_level'",
        "UPDATE setting SET changed_at = '2020' WHERE name = 'stopped'",
        "DELETE FROM setting WHERE name = 'trust_level'",
        "DELETE FROM setting WHERE name = 'stopped'",
        "INSERT INTO setting VALUES ('more', '', '', '')",
    ],
)
def test_an_edited_setting_is_found(path: str, intruder: sqlite3.Connection, edit: str) -> None:
    intruder.execute(edit)
    found = verify(path)
    assert (found.ok, found.first_bad) == (False, None)
    assert "setting" in found.problem


def test_a_person_can_settle_it(path: str, database: Database, intruder: sqlite3.Connection) -> None:
    intruder.execute("UPDATE setting SET value = 'adaptive_auto' WHERE name = 'trust_level'")
    assert "set the level again" in verify(path).problem
    set_level(database, "observe", by="human:x")
    assert verify(path).ok


def test_a_stop_that_could_not_be_recorded_shows_until_it_is_settled(
    path: str, database: Database, intruder: sqlite3.Connection
) -> None:
    resume(database, by="human:x")
    intruder.execute("UPDATE audit SET hash = 'x' WHERE seq = (SELECT max(seq) FROM audit)")
    with pytest.raises(RecordError, match="everything is stopped, but"):
        stop(database, by="human:x")
    assert not verify(path).ok
