"""What the HTTP door keeps for a while: sessions, sign-in links, attempts to sign in, and answers to calls that may be asked for again.

It is in no backup: whoever brings a state back signs in anew. Nothing in it lets anybody in, since of whatever does only the SHA-256
is here. Every function that reads or writes blocks; call it in a thread. One writer at a time, over all processes.
"""

import os
import sqlite3
import threading
from collections.abc import Collection, Generator
from contextlib import contextmanager, suppress
from typing import Final, final

from metier.errors import StateError
from metier.record.private import absolute, make_private_folder, require_one_name, require_private

FILE: Final = "doors.db"
GONE: Final = 410
"""The status of an answer that is no longer kept. It has the length of other statuses, so that a row is overwritten where it lies."""
_PATIENCE: Final = 10.0
_TABLES: Final = (
    """
    CREATE TABLE session (
      id TEXT PRIMARY KEY, hash BLOB NOT NULL, principal TEXT NOT NULL, since TEXT NOT NULL, proof TEXT NOT NULL,
      made_at REAL NOT NULL, seen_at REAL NOT NULL, expires_at REAL NOT NULL
    ) STRICT;
    CREATE INDEX session_of ON session (principal);
    CREATE TABLE link (hash BLOB PRIMARY KEY, principal TEXT NOT NULL, expires_at REAL NOT NULL) STRICT;
    CREATE TABLE oidc_flow (
      hash BLOB PRIMARY KEY, state TEXT NOT NULL, nonce TEXT NOT NULL, verifier TEXT NOT NULL, back TEXT NOT NULL,
      expires_at REAL NOT NULL
    ) STRICT;
    CREATE TABLE attempt (who TEXT NOT NULL, at REAL NOT NULL) STRICT;
    CREATE INDEX attempt_of ON attempt (who, at);
    CREATE TABLE answer (
      key TEXT PRIMARY KEY, digest BLOB NOT NULL, call_id TEXT NOT NULL, status INTEGER NOT NULL, body BLOB NOT NULL, at REAL NOT NULL
    ) STRICT;
    CREATE INDEX answer_at ON answer (at);
    """,
)
"""One text for each version there has been. A change is a further text, never another one."""
_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


@final
class DoorsDb:
    """The file, opened. Safe to be used by several threads."""

    def __init__(self, home: str) -> None:
        """Raises StateError when it cannot be opened, is not this user's alone, or is of a newer version."""
        self.path = os.path.join(absolute(home), FILE)
        self._turn = threading.Lock()
        make_private_folder(os.path.dirname(self.path))
        try:
            with suppress(FileExistsError):
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            require_private(self.path, folder=False)
            require_one_name(self.path)
            self._connection = sqlite3.connect(
                self.path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
            )
            self._prepare()
        except (sqlite3.Error, OSError) as error:
            raise _unusable(error) from error

    def _prepare(self) -> None:
        connection = self._connection
        connection.execute("PRAGMA journal_mode = WAL")
        # A session that a power cut takes away is signed in again, and a link that one brings back is over within minutes.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA secure_delete = ON")
        if self._version() == len(_TABLES):
            return
        with self.writing():
            version = self._version()
            if version > len(_TABLES):
                raise StateError(
                    "doors.db was written by a newer Metier",
                    remedy="Use the version that wrote it, or a newer one",
                )
            for text in _TABLES[version:]:
                for statement in filter(str.strip, text.split(";")):
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {len(_TABLES)}")

    def _version(self) -> int:
        return int(self._connection.execute("PRAGMA user_version").fetchone()[0])

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection]:
        """Everything read inside is of one moment.

        Raises:
            StateError: when it cannot be read.
        """
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def writing(self) -> Generator[sqlite3.Connection]:
        """Everything written inside is written together, or not at all.

        Raises:
            StateError: when it cannot be written.
        """
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection

    @contextmanager
    def _transaction(self, begin: str) -> Generator[sqlite3.Connection]:
        with self._turn:
            try:
                self._connection.execute(begin)
                yield self._connection
                self._connection.execute("COMMIT")
            except sqlite3.Error as error:
                raise _unusable(error) from error
            finally:
                if self._connection.in_transaction:
                    with suppress(sqlite3.Error):
                        self._connection.execute("ROLLBACK")

    def erase_answers(self, calls: Collection[str]) -> int:
        """Overwrite what was answered to these calls, and give to how many.

        Raises:
            StateError: when it cannot be written, or the old bytes could not be driven out of the write-ahead file.
        """
        with self.writing() as connection:
            done = sum(
                connection.execute(
                    "UPDATE answer SET status = ?, body = zeroblob(length(body)) WHERE call_id = ? AND length(body) > 0 AND status <> ?",
                    (GONE, call_id, GONE),
                ).rowcount
                for call_id in calls
            )
        with self._turn:
            try:
                [busy, *_] = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            except sqlite3.Error as error:
                raise _unusable(error) from error
        if busy:
            raise StateError(
                "the answers are erased, but the write-ahead file of doors.db still holds the old bytes",
                remedy="End `metier serve`, then erase again",
            )
        return done

    def close(self) -> None:
        """Let go of the file."""
        with self._turn:
            self._connection.close()


def _unusable(error: Exception) -> StateError:
    """Why the file cannot be used. SQLite's own name for it: its text may quote what was read or written."""
    if isinstance(error, OSError):
        what = error.strerror or type(error).__name__
    else:
        what = getattr(error, "sqlite_errorname", "") or type(error).__name__
    if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED:
        return StateError(
            f"what the HTTP door keeps (doors.db) is damaged ({what})",
            remedy="End `metier serve`, move doors.db and the files beside it (-wal, -shm) away, and start it again: all sign in anew",
        )
    return StateError(
        f"what the HTTP door keeps (doors.db) cannot be used: {what}",
        remedy="Look at the state folder: is there room on the disk, and may you read and write there?",
    )


def erase_answers(home: str, calls: Collection[str]) -> int:
    """What was answered to these calls over HTTP and kept for who asks again, erased where there is such a file. Gives how many there
    were. Blocking.

    Raises:
        StateError: as `DoorsDb` and its `erase_answers`.
    """
    if not calls or not os.path.exists(os.path.join(home, FILE)):
        return 0
    doors = DoorsDb(home)
    try:
        return doors.erase_answers(calls)
    finally:
        doors.close()
