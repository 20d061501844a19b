"""A fresh state folder per test, a log in it, and the hands of somebody who edits the file behind our back."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from metier.record.audit import AuditLog
from metier.record.chain import Act
from metier.record.database import Database
from metier.record.keys import Keys

ACT = Act(principal="agent:cli", call_id="call-1", on_behalf_of="owner", tool="read_skill", skill="weather")


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "state" / "metier.db")


@pytest.fixture
def database(path: str) -> Iterator[Database]:
    with Database.open(path) as opened:
        yield opened


@pytest.fixture
def log(database: Database) -> AuditLog:
    return AuditLog(database)


@pytest.fixture
def keys(path: str) -> Keys:
    return Keys(os.path.dirname(path))


@pytest.fixture
def act() -> Act:
    return ACT


@pytest.fixture
def intruder(path: str, database: Database) -> Iterator[sqlite3.Connection]:
    """Writes to the file like any other program would: no checks, no records."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous=OFF")
    yield connection
    connection.close()


@pytest.fixture
def on_disk(path: str) -> Callable[[], bytes]:
    """Every byte in every file of the state folder."""
    folder = Path(path).parent
    return lambda: b"\n".join(file.read_bytes() for file in sorted(folder.iterdir()))


@pytest.fixture
def start(path: str) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Start a real process with `path` in it; it can be spoken to line by line."""
    began: list[subprocess.Popen[str]] = []

    def run(code: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", f"path = {path!r}\n{code}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        began.append(process)
        return process

    yield run
    for process in began:
        process.kill()
        process.communicate()
