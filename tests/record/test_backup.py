"""A copy made while everything runs is whole, and what comes back from it can be spent no second time."""

import os
import sqlite3
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from approval_kit import OWNER, approve, approved_once, ask, claim, seen, state, wanted
from metier.errors import StateError
from metier.model.approval import StandingGrant
from metier.record.approvals import find
from metier.record.audit import AuditLog
from metier.record.backup import back_up, restore
from metier.record.chain import Act
from metier.record.connection import look
from metier.record.database import Database
from metier.record.keys import Keys
from metier.record.schema import MIGRATIONS
from metier.record.signing import sign_head, trusted_keys
from metier.record.standing import give, grant_problem, proposed_grant, take_grant
from metier.record.stop import resume, stopped_in
from metier.record.verify import verify


@pytest.fixture
def elsewhere(tmp_path: Path) -> str:
    return str(tmp_path / "elsewhere" / "metier.db")


@pytest.fixture
def copy(tmp_path: Path) -> str:
    return str(tmp_path / "backup.db")


def fill(log: AuditLog, records: int) -> None:
    for _ in range(records):
        log.refused(Act(principal="agent:cli"), code="c", reasons=("r",), payloads={"arguments": "x"})


WRITER = """
import time
from metier.record.audit import AuditLog
from metier.record.chain import Act
from metier.record.database import Database

with Database.open(path) as database:
    log = AuditLog(database)
    while True:
        log.refused(Act(principal="agent:other"), code="c", reasons=("r",), payloads={"arguments": "x" * 500})
        print(log.head()[0], flush=True)
"""


def test_rel_15_a_backup_made_while_others_write_is_whole_and_verifies_elsewhere(
    path: str,
    database: Database,
    log: AuditLog,
    keys: Keys,
    copy: str,
    elsewhere: str,
    start: Callable[[str], subprocess.Popen[str]],
) -> None:
    fill(log, 50)
    kept = sign_head(database, keys, by="human:x")
    writer = start(WRITER)
    assert writer.stdout is not None
    before = int(writer.stdout.readline())
    made = back_up(path, copy)
    after = log.head()[0]  # what the writer printed lies behind by as much as the pipe holds
    assert made.ok
    assert before <= made.records <= after
    done = restore(copy, elsewhere, by="human:x", keys=Keys(os.path.dirname(elsewhere)))
    assert (done.records, done.head) == (made.records, made.head)
    found = verify(elsewhere, kept=kept, trusted=trusted_keys(keys))
    assert (found.ok, found.records) == (True, made.records + 1)
    with Database.open(elsewhere) as restored:
        newest = AuditLog(restored).tail(1)[0]
    assert (newest.event, newest.principal, newest.code) == (
        "state_restored",
        "human:x",
        f"{made.records}:{made.head}",
    )


def test_rel_15_a_plain_copy_of_the_file_would_have_lost_the_newest(
    path: str, log: AuditLog, tmp_path: Path
) -> None:
    fill(log, 20)
    plain = tmp_path / "plain.db"
    plain.write_bytes(Path(path).read_bytes())
    assert verify(str(plain)).records < 20


def test_rel_15_no_approval_of_a_backup_is_spent_a_second_time(
    path: str, database: Database, copy: str, elsewhere: str
) -> None:
    spent_since = approved_once(database, wanted(call_id="call-1"))
    waiting = ask(database, wanted(call_id="call-2"))
    assert back_up(path, copy).ok
    assert claim(database, spent_since, wanted(call_id="call-1")) == ""
    done = restore(copy, elsewhere, by="human:x", keys=Keys(os.path.dirname(elsewhere)))
    assert done.voided == 2
    with Database.open(elsewhere) as restored:
        for approval, call in ((spent_since, "call-1"), (waiting, "call-2")):
            assert state(restored, approval) == "void"
            assert claim(restored, approval, wanted(call_id=call)) != ""
            assert restored and find(restored, approval) is not None
        with restored.reading() as connection:
            left = connection.execute(
                "SELECT count(*) FROM approval WHERE call <> zeroblob(length(call)) OR key <> zeroblob(length(key))"
            ).fetchone()
        assert left == (0,)
    assert verify(elsewhere).ok


def test_rel_15_an_approval_in_a_mere_copy_would_be_spent_again(
    path: str, database: Database, copy: str
) -> None:
    approval = approved_once(database, wanted(call_id="call-1"))
    back_up(path, copy)
    assert claim(database, approval, wanted(call_id="call-1")) == ""
    os.chmod(os.path.dirname(copy), 0o700)
    with Database.open(copy) as other:
        assert claim(other, approval, wanted(call_id="call-1")) == ""


def test_rel_15_counted_uses_of_a_grant_are_not_had_twice(
    path: str, database: Database, copy: str, elsewhere: str
) -> None:
    grant = proposed_grant(seen(wanted()), "always", approval="", by="human:owner", uses=1)
    assert isinstance(grant, StandingGrant)
    give(database, grant)
    back_up(path, copy)
    with database.transaction() as connection:
        assert grant_problem(connection, grant.id) == ""
        take_grant(connection, grant.id)
        assert "used up" in grant_problem(connection, grant.id)
    done = restore(copy, elsewhere, by="human:x", keys=Keys(os.path.dirname(elsewhere)))
    assert done.revoked == 1
    with Database.open(elsewhere) as restored, restored.reading() as connection:
        assert "revoked" in grant_problem(connection, grant.id)
    assert verify(elsewhere).ok


def test_what_was_restored_runs_nothing_until_a_person_looked(
    path: str, log: AuditLog, copy: str, elsewhere: str
) -> None:
    fill(log, 1)
    back_up(path, copy)
    restore(copy, elsewhere, by="human:x", keys=Keys(os.path.dirname(elsewhere)))
    with Database.open(elsewhere) as restored:
        with restored.reading() as connection:
            assert "restored from a backup" in stopped_in(connection)
        assert verify(elsewhere).ok
        assert resume(restored, by="human:x")
        with restored.reading() as connection:
            assert stopped_in(connection) == ""
    assert verify(elsewhere).ok


def test_a_state_that_is_there_is_not_overwritten(path: str, log: AuditLog, copy: str, keys: Keys) -> None:
    fill(log, 2)
    back_up(path, copy)
    fill(log, 1)
    with pytest.raises(StateError, match="is not overwritten") as caught:
        restore(copy, path, by="human:x", keys=keys)
    assert "move it" in (caught.value.remedy or "")
    assert log.head()[0] == 3


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE audit SET body = CAST(replace(body, 'cli', 'bob') AS BLOB) WHERE seq = 2",
        "DELETE FROM audit WHERE seq = 2",
        "UPDATE audit SET kept = x'31' WHERE seq = 2",
        "CREATE TRIGGER t AFTER INSERT ON audit BEGIN SELECT 1; END",
        "INSERT INTO setting VALUES ('trust_level', 'adaptive_auto', '', '')",
    ],
)
def test_a_backup_that_was_changed_is_not_restored(
    path: str, log: AuditLog, copy: str, elsewhere: str, change: str
) -> None:
    fill(log, 3)
    back_up(path, copy)
    file = sqlite3.connect(copy)
    file.execute(change)
    file.commit()
    file.close()
    with pytest.raises(StateError, match="not whole"):
        restore(copy, elsewhere, by="human:x", keys=Keys(os.path.dirname(elsewhere)))
    assert os.listdir(os.path.dirname(elsewhere)) == []


def test_what_is_no_backup_is_not_restored(tmp_path: Path, path: str, log: AuditLog, elsewhere: str) -> None:
    keys = Keys(os.path.dirname(elsewhere))
    text = tmp_path / "text"
    text.write_text("something else", encoding="utf-8")
    with pytest.raises(StateError):
        restore(str(text), elsewhere, by="human:x", keys=keys)
    with pytest.raises(StateError, match="No such file"):
        restore(str(tmp_path / "nothing"), elsewhere, by="human:x", keys=keys)
    fill(log, 1)
    with pytest.raises(StateError, match="in use and no backup"):
        restore(path, elsewhere, by="human:x", keys=keys)


def test_a_backup_is_one_private_file_and_takes_nobodys_place(path: str, log: AuditLog, copy: str) -> None:
    fill(log, 3)
    back_up(path, copy)
    assert stat.S_IMODE(os.stat(copy).st_mode) == 0o600
    assert sorted(os.listdir(os.path.dirname(copy))) == ["backup.db", "state"]
    with pytest.raises(StateError, match="something at"):
        back_up(path, copy)
    assert sorted(os.listdir(os.path.dirname(copy))) == ["backup.db", "state"]


def test_a_state_that_does_not_verify_is_copied_as_evidence(
    path: str, log: AuditLog, copy: str, intruder: sqlite3.Connection
) -> None:
    fill(log, 3)
    intruder.execute("UPDATE audit SET kept = x'31' WHERE seq = 2")
    assert not back_up(path, copy).ok
    assert verify(copy).first_bad == 2


def test_keys_go_with_a_backup_only_when_asked_and_sign_on_elsewhere(
    path: str, database: Database, log: AuditLog, keys: Keys, tmp_path: Path, copy: str, elsewhere: str
) -> None:
    fill(log, 3)
    sign_head(database, keys, by="human:x")
    back_up(path, str(tmp_path / "without.db"))
    back_up(path, copy, keys=keys)
    assert not os.path.exists(f"{tmp_path / 'without.db'}.keys")
    assert stat.S_IMODE(os.stat(f"{copy}.keys").st_mode) == 0o600
    away = Keys(os.path.dirname(elsewhere))
    restore(copy, elsewhere, by="human:x", keys=away)
    with Database.open(elsewhere) as restored:
        kept = sign_head(restored, away, by="human:x")
    assert verify(elsewhere, kept=kept, trusted=trusted_keys(keys)).ok
    lone = str(tmp_path / "lone" / "metier.db")
    restore(str(tmp_path / "without.db"), lone, by="human:x", keys=Keys(os.path.dirname(lone)))
    with Database.open(lone) as restored, pytest.raises(StateError, match="is not there"):
        sign_head(restored, Keys(os.path.dirname(lone)), by="human:x")


def test_rel_14_a_backup_of_an_older_version_is_restored_and_brought_up_to_date(
    tmp_path: Path, elsewhere: str
) -> None:
    old = str(tmp_path / "old.db")
    file = sqlite3.connect(old, isolation_level=None)
    for statements in MIGRATIONS[:2]:
        for statement in statements:
            file.execute(statement)
    file.execute("PRAGMA application_id=0x4D455449")
    file.execute("PRAGMA user_version=2")
    file.close()
    restore(old, elsewhere, by="human:x", keys=Keys(os.path.dirname(elsewhere)))
    connection = look(elsewhere)
    assert connection.execute("PRAGMA user_version").fetchone()[0] == len(MIGRATIONS)
    connection.close()
    assert verify(elsewhere).ok


def test_approving_goes_on_in_what_was_restored(
    path: str, database: Database, copy: str, elsewhere: str
) -> None:
    ask(database, wanted(call_id="call-1"))
    back_up(path, copy)
    restore(copy, elsewhere, by="human:x", keys=Keys(os.path.dirname(elsewhere)))
    with Database.open(elsewhere) as restored:
        again = ask(restored, wanted(call_id="call-3"))
        approve(restored, again, by=OWNER)
        assert claim(restored, again, wanted(call_id="call-3")) == ""
    assert verify(elsewhere).ok
