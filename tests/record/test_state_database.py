"""The state database keeps what it was given, is nobody else's, and fails in words."""

import os
import signal
import sqlite3
import stat
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from metier.errors import RecordError, StateError
from metier.record.audit import AuditLog, Intent
from metier.record.chain import Act
from metier.record.connection import keep_promises
from metier.record.database import Database, open_if_there
from metier.record.verify import verify

Start = Callable[[str], "subprocess.Popen[str]"]
NOBODY = 65534


@pytest.fixture
def umask() -> Iterator[Callable[[int], None]]:
    before = os.umask(0o022)
    yield lambda mask: (os.umask(mask), None)[1]
    os.umask(before)


def modes(path: str) -> dict[str, str]:
    folder = Path(path).parent
    return {entry.name: f"{stat.S_IMODE(entry.stat().st_mode):04o}" for entry in [folder, *folder.iterdir()]}


def refuse(path: str) -> str:
    """Both ways in refuse; the message, which always has a way out."""
    with pytest.raises(StateError) as looking:
        open_if_there(path)
    with pytest.raises(StateError) as caught:
        Database.open(path)
    assert looking.value.remedy
    assert caught.value.remedy
    return caught.value.message


def killed_while_writing(start: Start, records: int = 5) -> None:
    """A process that is killed with its last records still in the write-ahead file."""
    process = start(f"""
import os, signal
from metier.record.audit import AuditLog
from metier.record.chain import Act
from metier.record.database import Database
log = AuditLog(Database.open(path))
for _ in range({records}):
    log.refused(Act(principal="p"), code="c", reasons=("r",))
os.kill(os.getpid(), signal.SIGKILL)
""")
    assert process.wait() == -signal.SIGKILL


def test_looking_makes_nothing(tmp_path: Path) -> None:
    assert open_if_there(str(tmp_path / "state" / "metier.db")) is None
    with pytest.raises(StateError, match="no state database"):
        Database.open(str(tmp_path / "metier.db"), create=False)
    assert list(tmp_path.iterdir()) == []


def test_what_was_made_is_there_to_be_opened(path: str) -> None:
    Database.open(path).close()
    opened = open_if_there(path)
    assert opened is not None
    opened.close()
    left = sorted(entry.name for entry in Path(path).parent.iterdir())
    assert left == ["metier.db", "metier.db.made"], "no draft stays behind"


def test_a_path_may_hold_any_character(tmp_path: Path) -> None:
    path = str(tmp_path / "50% off?#& ü\udcff" / "a b.db")
    with Database.open(path) as database:
        AuditLog(database).refused(Act(principal="p"), code="c", reasons=("r",))
        assert verify(path).records == 1
    with pytest.raises(StateError, match="NUL"):
        Database.open("a\0b")


def test_rel_06_what_is_committed_is_synced_to_the_disk(database: Database) -> None:
    with database.reading() as connection:
        for pragma, expected in {
            "journal_mode": "wal",
            "synchronous": 2,
            "busy_timeout": 5000,
            "foreign_keys": 1,
            "secure_delete": 1,
            "temp_store": 2,
            "trusted_schema": 0,
        }.items():
            assert connection.execute(f"PRAGMA {pragma}").fetchone() == (expected,), pragma


def test_rel_06_a_database_left_in_another_mode_is_brought_back(path: str) -> None:
    Database.open(path).close()
    with sqlite3.connect(path) as other:
        assert other.execute("PRAGMA journal_mode=DELETE").fetchone() == ("delete",)
    other.close()
    with Database.open(path) as database, database.reading() as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_rel_06_a_mode_that_cannot_be_had_is_refused(path: str) -> None:
    Database.open(path).close()
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA journal_mode=DELETE")
        other.execute("CREATE TABLE held (x)")
        other.commit()
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StateError) as caught:
            Database.open(path, patience=0.05)
        assert caught.value.remedy
        other.rollback()
    other.close()


def test_rel_06_a_promise_the_file_system_cannot_keep_is_refused() -> None:
    in_memory = sqlite3.connect(":memory:")  # like a network disk, it takes the pragma and does not do it
    with pytest.raises(StateError, match="journal_mode=memory"):
        keep_promises(in_memory, "here", 5.0)
    in_memory.close()


def test_rel_07_a_lock_held_by_another_process_is_an_answer_and_not_a_hang(
    path: str, act: Act, start: Start
) -> None:
    with Database.open(path, patience=0.1) as database:
        log = AuditLog(database)
        holder = start("""
import sqlite3
connection = sqlite3.connect(path, isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
input()
connection.execute("ROLLBACK")
connection.close()
print("released", flush=True)
""")
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(RecordError, match="locked by another process") as caught:
            log.intent(act)
        assert caught.value.remedy
        assert log.tail(1) == [], "reading does not wait for a writer"
        holder.stdin.write("\n")
        holder.stdin.flush()
        assert holder.stdout.readline() == "released\n"
        assert isinstance(log.intent(act), Intent)


@pytest.mark.parametrize(
    "content", [b"this is no database at all, " * 300, b"\0" * 8192, b"SQLite format 3\0garbage"]
)
def test_rel_07_a_file_that_is_no_database_is_refused_and_kept(path: str, content: bytes) -> None:
    Database.open(path).close()
    Path(path).write_bytes(content)
    assert refuse(path)
    assert Path(path).read_bytes() == content


@pytest.mark.parametrize("inner", ["transaction", "reading", "glance"])
def test_a_turn_inside_a_transaction_is_refused_and_undoes_nothing(path: str, inner: str) -> None:
    with Database.open(path) as database:
        with database.transaction() as connection:
            connection.execute("INSERT INTO revoked VALUES ('a', '', '')")
            with pytest.raises(RuntimeError, match="inside of a transaction"), getattr(database, inner)():
                raise AssertionError("nobody gets here")
            connection.execute("INSERT INTO revoked VALUES ('z', '', '')")
        with database.reading() as connection:
            assert connection.execute("SELECT name FROM revoked").fetchall() == [("a",), ("z",)]


def test_rel_07_a_damaged_page_is_refused_in_words(path: str, act: Act) -> None:
    with Database.open(path) as database:
        for _ in range(200):
            AuditLog(database).refused(act, code="c", reasons=("r",))
        with database.reading() as connection:
            question = "SELECT rootpage FROM sqlite_schema WHERE name = 'audit'"
            (page,) = connection.execute(question).fetchone()
    with open(path, "r+b") as file:
        file.seek(4096 * (page - 1))
        file.write(b"\xff" * 4096)
    with Database.open(path) as database, pytest.raises(RecordError, match="damaged") as caught:
        AuditLog(database).intent(act)
    assert "evidence" in caught.value.remedy


def as_plain_user(folder: Path, work: Callable[[], str]) -> str:
    """What `work` answers for a user whom file modes bind; root is not, so a child gives that up first."""
    if os.geteuid() != 0:
        return work()
    for entry in [folder, *folder.rglob("*")]:
        os.chown(entry, NOBODY, NOBODY)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        answer = "the work did not end"
        try:
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            answer = work()
        finally:
            os.write(writing, answer.encode())
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answers:
        answer = answers.read()
    os.waitpid(child, 0)
    return answer


@pytest.fixture
def open_to_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that a plain user can reach: pytest's own are closed to everybody but the one who runs it."""
    import shutil
    import tempfile

    folder = Path(tempfile.mkdtemp())
    yield folder
    for entry in [folder, *folder.rglob("*")]:
        if entry.is_dir():
            entry.chmod(0o700)
    shutil.rmtree(folder)


def test_rel_07_a_read_only_database_refuses_acts_and_can_still_be_read(open_to_all: Path) -> None:
    path = str(open_to_all / "metier.db")
    with Database.open(path) as database:
        AuditLog(database).refused(Act(principal="p"), code="c", reasons=("r",))
    os.chmod(path, 0o400)

    def work() -> str:
        with Database.open(path) as database:
            log = AuditLog(database)
            count = len(log.tail(10))
            try:
                log.intent(Act(principal="p"))
            except RecordError as error:
                return f"{count} {error.message} {error.remedy}"
        return "it was written"

    answer = as_plain_user(open_to_all, work)
    assert answer.startswith("1 "), answer
    assert "cannot be written" in answer
    assert "mode" in answer


def test_rel_07_a_log_on_a_read_only_medium_can_be_verified(open_to_all: Path) -> None:
    path = str(open_to_all / "metier.db")
    with Database.open(path) as database:
        AuditLog(database).refused(Act(principal="p"), code="c", reasons=("r",))
    os.chmod(path, 0o400)
    os.chmod(open_to_all, 0o500)
    assert as_plain_user(open_to_all, lambda: str(verify(path).ok)) == "True"
    assert sorted(os.listdir(open_to_all)) == ["metier.db", "metier.db.made"]


def test_rel_07_a_stale_index_of_the_write_ahead_file_is_made_anew(path: str, start: Start) -> None:
    killed_while_writing(start)
    Path(f"{path}-shm").write_bytes(b"\xff" * 32768)
    with Database.open(path) as database:
        assert len(AuditLog(database).tail(10)) == 5
        assert verify(path).ok


def test_rel_07_a_lost_write_ahead_file_shows_against_a_kept_head(path: str, act: Act, start: Start) -> None:
    with Database.open(path) as database:
        AuditLog(database).refused(act, code="c", reasons=("r",))
    killed_while_writing(start)
    kept_elsewhere = (verify(path).records, verify(path).head)
    assert kept_elsewhere[0] == 6
    os.unlink(f"{path}-wal")
    os.unlink(f"{path}-shm")
    found = verify(path, expected=kept_elsewhere)
    assert (found.ok, found.first_bad) == (False, 2)


def test_what_a_killed_process_had_written_is_there(path: str, start: Start) -> None:
    killed_while_writing(start, records=20)
    with Database.open(path) as database:
        assert AuditLog(database).head()[0] == 20
        assert verify(path).ok


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077, 0o777])
def test_sec_08_state_is_private_whatever_the_umask(
    path: str, act: Act, umask: Callable[[int], None], mask: int
) -> None:
    umask(mask)
    with Database.open(path) as database:
        AuditLog(database).refused(act, code="c", reasons=("r",), payloads={"arguments": "x"})
        AuditLog(database).erase(1, by="owner")
        umask(0o022)
        assert modes(path) == {
            "state": "0700",
            "metier.db": "0600",
            "metier.db-wal": "0600",
            "metier.db-shm": "0600",
            "metier.db.made": "0600",
        }


def test_sec_08_a_database_made_without_care_can_be_read_by_others(
    tmp_path: Path, umask: Callable[[int], None]
) -> None:
    umask(0o022)
    path = str(tmp_path / "careless.db")
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (x)")
    connection.close()
    assert os.stat(path).st_mode & 0o044


def test_sec_08_state_stays_private_after_a_crash(
    path: str, start: Start, umask: Callable[[int], None]
) -> None:
    umask(0)
    killed_while_writing(start)
    with Database.open(path):
        assert set(modes(path).values()) == {"0700", "0600"}


def test_sec_08_what_others_can_read_is_narrowed(path: str) -> None:
    Database.open(path).close()
    os.chmod(path, 0o644)
    os.chmod(os.path.dirname(path), 0o755)  # noqa: S103  that is the point
    Database.open(path, create=False).close()
    assert modes(path) == {"state": "0700", "metier.db": "0600", "metier.db.made": "0600"}


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_sec_08_what_others_could_have_written_is_refused(path: str, mode: int) -> None:
    Database.open(path).close()
    os.chmod(os.path.dirname(path), mode)
    assert "others can write" in refuse(path)
    os.chmod(os.path.dirname(path), 0o700)
    os.chmod(path, mode & 0o666)
    assert "others can write" in refuse(path)


def test_sec_08_links_are_refused(path: str, tmp_path: Path) -> None:
    Database.open(path).close()
    folder_link = tmp_path / "link"
    folder_link.symlink_to(os.path.dirname(path))
    assert "symbolic link" in refuse(str(folder_link / "metier.db"))
    file_link = Path(path).with_name("other.db")
    file_link.symlink_to(path)
    assert "symbolic link" in refuse(str(file_link))
    file_link.unlink()
    file_link.symlink_to(tmp_path / "nowhere")
    assert "symbolic link" in refuse(str(file_link))
    assert not (tmp_path / "nowhere").exists()


def test_sec_08_a_linked_side_file_is_refused(path: str, tmp_path: Path) -> None:
    Database.open(path).close()
    victim = tmp_path / "victim"
    victim.write_text("mine")
    Path(f"{path}-wal").symlink_to(victim)
    assert "symbolic link" in refuse(path)
    assert victim.read_text() == "mine"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_sec_08_state_of_another_user_is_refused(path: str) -> None:
    Database.open(path).close()
    os.chown(path, NOBODY, NOBODY)
    assert "belongs to user" in refuse(path)
    os.chown(path, 0, 0)
    os.chown(os.path.dirname(path), NOBODY, NOBODY)
    assert "belongs to user" in refuse(path)


def test_a_folder_in_the_files_place_is_refused(path: str) -> None:
    os.makedirs(path, mode=0o700)
    os.chmod(os.path.dirname(path), 0o700)
    assert "is not a file" in refuse(path)


def test_a_file_in_the_folders_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    with pytest.raises(StateError) as caught:
        Database.open(str(tmp_path / "state" / "metier.db"))
    assert caught.value.remedy


def test_rel_14_a_newer_schema_is_refused_and_says_what_is_needed(path: str) -> None:
    Database.open(path).close()
    with sqlite3.connect(path) as newer:
        newer.execute("PRAGMA user_version=7")
    newer.close()
    assert "newer Metier (schema 7" in refuse(path)


def test_the_database_of_another_program_is_left_alone(path: str) -> None:
    os.makedirs(os.path.dirname(path), mode=0o700)
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE recipes (x)")
    other.close()
    os.chmod(path, 0o600)
    assert "another program" in refuse(path)
    with sqlite3.connect(path) as other:
        assert other.execute("SELECT name FROM sqlite_schema").fetchall() == [("recipes",)]
    other.close()


def test_many_processes_may_make_it_at_once(path: str, start: Start) -> None:
    code = """
from metier.record.audit import AuditLog
from metier.record.chain import Act
from metier.record.database import Database
import metier.record.connection
print("ready", flush=True)
input()
AuditLog(Database.open(path)).refused(Act(principal="p"), code="c", reasons=("r",))
"""
    processes = [start(code) for _ in range(6)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    assert [process.wait() for process in processes] == [0] * 6
    found = verify(path)
    assert (found.ok, found.records) == (True, 6)


def test_a_failed_transaction_leaves_nothing(database: Database) -> None:
    with pytest.raises(KeyboardInterrupt), database.transaction() as connection:
        connection.execute("INSERT INTO revoked VALUES ('x', '', '')")
        raise KeyboardInterrupt
    with pytest.raises(StateError) as caught, database.transaction() as connection:
        connection.execute("INSERT INTO revoked VALUES ('x', '', '')")
        connection.execute("INSERT INTO revoked VALUES ('x', '', '')")
    assert caught.value.remedy
    with database.reading() as connection:
        assert connection.execute("SELECT count(*) FROM revoked").fetchone() == (0,)


def test_a_closed_database_answers_in_words(path: str) -> None:
    database = Database.open(path)
    database.close()
    database.close()
    with pytest.raises(StateError):
        database.data_version()


def test_data_version_moves_when_a_view_may_be_stale(path: str, database: Database, act: Act) -> None:
    seen = {database.data_version()}
    AuditLog(database).refused(act, code="c", reasons=("r",))
    assert database.data_version() in seen, "an audit record makes nothing stale"
    with database.transaction() as connection:
        connection.execute("INSERT INTO revoked VALUES ('x', '', '')")
    assert database.data_version() not in seen
    seen.add(database.data_version())
    with Database.open(path) as other, other.transaction() as connection:
        connection.execute("DELETE FROM revoked")
    assert database.data_version() not in seen


def test_a_database_can_be_used_from_any_thread(database: Database, act: Act) -> None:
    found: list[int] = []
    thread = threading.Thread(
        target=lambda: found.append(AuditLog(database).refused(act, code="c", reasons=("r",)))
    )
    thread.start()
    thread.join()
    assert found == [1]


def test_looking_where_nothing_is_does_not_load_the_driver(start: Start) -> None:
    process = start("""
import sys
from metier.record.database import open_if_there
from metier.record.trust import NO_TRUSTS
assert open_if_there(path) is None
print(sorted({"sqlite3", "hmac", "threading", "pathlib", "logging"} & set(sys.modules)))
""")
    assert process.communicate()[0] == "[]\n"
