"""Looking changes nothing, and works where nothing can be written."""

import os
import resource
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from metier.errors import RecordError, StateError
from metier.record.audit import AuditLog
from metier.record.chain import Act
from metier.record.database import Database, open_if_there
from metier.record.trust import TrustStore
from metier.record.verify import verify

Start = Callable[[str], "subprocess.Popen[str]"]
NOBODY = 65534

LOOK = """
from metier.errors import StateError
from metier.record.audit import AuditLog
from metier.record.database import open_if_there
from metier.record.trust import TrustStore
from metier.record.verify import verify
try:
    with open_if_there(path) as database:
        TrustStore(database).all()
        print(len(AuditLog(database).tail(10)), verify(path).ok)
except StateError as error:
    print(error)
"""
# Everything that is imported later too: the plain user may not be able to read where Python lies.
PLAIN_USER = f"""
import datetime, hmac, os, sqlite3, threading
import metier.record.audit, metier.record.connection, metier.record.trust, metier.record.verify
if os.geteuid() == 0:
    os.setresgid({NOBODY}, {NOBODY}, {NOBODY})
    os.setresuid({NOBODY}, {NOBODY}, {NOBODY})
"""
FULL_DISK = f"""
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, {resource.RLIM_INFINITY}))
"""


@pytest.fixture
def path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """In a folder that a plain user can reach: pytest's own are closed to everybody but the one who runs it."""
    import shutil
    import tempfile

    folder = tempfile.mkdtemp()
    yield f"{folder}/metier.db"
    os.chmod(folder, 0o700)
    shutil.rmtree(folder)


def give_to_plain_user(path: str) -> None:
    folder = Path(path).parent
    if os.geteuid() == 0:
        for entry in [folder, *folder.iterdir()]:
            os.chown(entry, NOBODY, NOBODY)


def write_protect(path: str) -> None:
    folder = Path(path).parent
    for entry in folder.iterdir():
        entry.chmod(0o400)
    folder.chmod(0o500)
    give_to_plain_user(path)


def one_record(path: str) -> None:
    with Database.open(path) as database:
        AuditLog(database).refused(Act(principal="p"), code="c", reasons=("r",))


def leave_a_record_in_the_write_ahead_file(start: Start) -> None:
    start("""
import os
from metier.record.audit import AuditLog
from metier.record.chain import Act
from metier.record.database import Database
AuditLog(Database.open(path)).refused(Act(principal="p"), code="c", reasons=("r",))
os._exit(0)
""").wait()


def test_looking_works_on_a_read_only_medium(path: str, start: Start) -> None:
    one_record(path)
    write_protect(path)
    assert start(PLAIN_USER + LOOK).communicate()[0] == "1 True\n"
    assert sorted(os.listdir(os.path.dirname(path))) == ["metier.db", "metier.db.made"]


def test_looking_works_on_a_full_disk(path: str, start: Start) -> None:
    one_record(path)
    before = Path(path).read_bytes()
    for _ in range(2):  # the first one may have left empty side files
        assert start(FULL_DISK + LOOK).communicate()[0] == "1 True\n"
    assert Path(path).read_bytes() == before
    with Database.open(path) as database:
        assert verify(database).ok


def test_a_writer_cannot_be_opened_on_a_full_disk(path: str, start: Start) -> None:
    one_record(path)
    process = start(f"""{FULL_DISK}
from metier.errors import StateError
from metier.record.database import Database
try:
    Database.open(path, create=False)
except StateError as error:
    print(bool(error.remedy))
""")
    assert process.communicate()[0] == "True\n"


def test_records_that_wait_in_the_write_ahead_file_are_seen_there_too(path: str, start: Start) -> None:
    leave_a_record_in_the_write_ahead_file(start)
    assert os.path.getsize(f"{path}-wal") > 0
    write_protect(path)
    assert start(PLAIN_USER + LOOK).communicate()[0] == "1 True\n"


def test_records_that_cannot_be_seen_there_are_not_passed_over(path: str, start: Start) -> None:
    one_record(path)
    leave_a_record_in_the_write_ahead_file(start)
    os.unlink(f"{path}-shm")
    write_protect(path)
    naive = sqlite3.connect(f"file:{path}?immutable=1", uri=True)
    assert naive.execute("SELECT count(*) FROM audit").fetchone() == (1,), "taken as it lies, one is missing"
    naive.close()
    said = start(PLAIN_USER + LOOK).communicate()[0]
    assert "records wait in" in said
    assert "Make the folder writable" in said


def test_looking_leaves_no_trace_and_moves_nothing(path: str, start: Start) -> None:
    one_record(path)
    before = (os.listdir(os.path.dirname(path)), os.stat(path).st_mtime_ns)
    assert start(LOOK).communicate()[0] == "1 True\n"
    assert (os.listdir(os.path.dirname(path)), os.stat(path).st_mtime_ns) == before
    leave_a_record_in_the_write_ahead_file(start)
    waiting = Path(f"{path}-wal").read_bytes()
    assert start(LOOK).communicate()[0] == "2 True\n"
    assert Path(f"{path}-wal").read_bytes() == waiting


def test_who_looks_cannot_write(path: str) -> None:
    one_record(path)
    database = open_if_there(path)
    assert database is not None
    with database:
        with pytest.raises(RecordError, match="cannot be written") as caught:
            AuditLog(database).intent(Act(principal="p"))
        assert caught.value.remedy
        with pytest.raises(StateError):
            TrustStore(database).revoke("x", by="me")
    assert verify(path).records == 1


def test_aud_06_a_read_only_log_refuses_and_can_still_be_read(path: str, start: Start) -> None:
    one_record(path)
    os.chmod(path, 0o400)
    give_to_plain_user(path)
    process = start(f"""{PLAIN_USER}
from metier.errors import RecordError
from metier.record.audit import AuditLog
from metier.record.chain import Act
from metier.record.database import Database
with Database.open(path) as database:
    log = AuditLog(database)
    try:
        log.intent(Act(principal="p"))
    except RecordError as error:
        print(len(log.tail(10)), "cannot be written" in error.message, bool(error.remedy))
""")
    assert process.communicate()[0] == "1 True True\n"
