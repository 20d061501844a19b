"""What modules keep: settings, states of skills, channels, conversations, triggers and schedules, in one file beside the record.

It is not the record: it may be changed, and erased from. Every function that reads or writes blocks; call it in a thread. One
writer at a time, over all processes; a reader never waits for a writer, also not for one of its own process that waits for another's.
"""

import os
import sqlite3
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final, final

from metier.errors import StateError
from metier.kernel.store_faults import text_of, unusable
from metier.record.private import absolute, make_private_folder, require_one_name, require_private

FILE: Final = "kernel.db"
_PATIENCE: Final = 20.0
_TABLES: Final = (
    """
    CREATE TABLE skill_life (
      skill TEXT PRIMARY KEY, enabled INTEGER NOT NULL, status TEXT NOT NULL, error TEXT NOT NULL, digest TEXT NOT NULL,
      changed_at REAL NOT NULL, changed_by TEXT NOT NULL
    ) STRICT;
    CREATE TABLE skill_state (
      skill TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, changed_at REAL NOT NULL, PRIMARY KEY (skill, key)
    ) STRICT;
    CREATE TABLE module (name TEXT PRIMARY KEY, skill TEXT NOT NULL, operations TEXT NOT NULL) STRICT;
    CREATE TABLE settings (
      skill TEXT PRIMARY KEY, value TEXT NOT NULL, changed_at REAL NOT NULL, changed_by TEXT NOT NULL
    ) STRICT;
    CREATE TABLE channel (
      name TEXT PRIMARY KEY, look TEXT NOT NULL UNIQUE, skill TEXT NOT NULL, connector TEXT NOT NULL, config TEXT NOT NULL,
      changed_at REAL NOT NULL
    ) STRICT;
    CREATE TABLE thread (
      id INTEGER PRIMARY KEY AUTOINCREMENT, channel TEXT NOT NULL, owner TEXT NOT NULL, chat TEXT NOT NULL,
      created_at REAL NOT NULL, last INTEGER NOT NULL, size INTEGER NOT NULL, UNIQUE (channel, owner, chat)
    ) STRICT;
    CREATE INDEX thread_last ON thread (last);
    CREATE INDEX thread_size ON thread (owner, size);
    CREATE TABLE written (skill TEXT PRIMARY KEY, size INTEGER NOT NULL) STRICT;
    CREATE TABLE message (
      id INTEGER PRIMARY KEY AUTOINCREMENT, thread INTEGER NOT NULL REFERENCES thread (id), direction TEXT NOT NULL,
      channel_message TEXT, key TEXT, reply_to TEXT, author TEXT NOT NULL, text TEXT NOT NULL, data TEXT NOT NULL, at REAL NOT NULL,
      state TEXT NOT NULL, attempts INTEGER NOT NULL, doubtful INTEGER NOT NULL, next_try REAL NOT NULL, give_up REAL NOT NULL,
      done_at REAL NOT NULL, error TEXT NOT NULL, call_id TEXT NOT NULL, erased INTEGER NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX message_once ON message (thread, channel_message) WHERE direction = 'in';
    CREATE UNIQUE INDEX message_key ON message (thread, key) WHERE direction = 'out';
    CREATE INDEX message_order ON message (thread, id);
    CREATE INDEX message_call ON message (call_id);
    CREATE INDEX message_to_send ON message (thread, id) WHERE direction = 'out' AND state IN ('waiting', 'sending');
    CREATE INDEX message_to_handle ON message (thread, id) WHERE direction = 'in' AND state = 'received';
    CREATE INDEX message_failed ON message (id) WHERE direction = 'out' AND state = 'failed';
    CREATE TABLE cursor (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
    CREATE TABLE trigger (
      id TEXT PRIMARY KEY, owner TEXT NOT NULL, skill TEXT NOT NULL, enabled INTEGER NOT NULL, definition TEXT NOT NULL,
      created_at REAL NOT NULL, last_fired REAL NOT NULL, fired INTEGER NOT NULL, last_outcome TEXT NOT NULL
    ) STRICT;
    CREATE TABLE schedule (
      id TEXT PRIMARY KEY, owner TEXT NOT NULL, skill TEXT NOT NULL, enabled INTEGER NOT NULL, definition TEXT NOT NULL,
      created_at REAL NOT NULL, next_due REAL, last_due REAL, last_outcome TEXT NOT NULL, missed INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE firing (
      id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, what TEXT NOT NULL, due REAL NOT NULL, attempt INTEGER NOT NULL,
      call_id TEXT NOT NULL, began_at REAL NOT NULL, ended_at REAL, outcome TEXT NOT NULL, UNIQUE (kind, what, due, attempt)
    ) STRICT;
    CREATE TABLE announced (
      approval TEXT NOT NULL, way TEXT NOT NULL, recipient TEXT NOT NULL, reference TEXT NOT NULL, at REAL NOT NULL,
      reminded INTEGER NOT NULL, done INTEGER NOT NULL, PRIMARY KEY (approval, way, recipient)
    ) STRICT;
    CREATE TABLE telegram_button (
      digest TEXT PRIMARY KEY, approval TEXT NOT NULL, fingerprint TEXT NOT NULL, recipient TEXT NOT NULL, title TEXT NOT NULL,
      message TEXT NOT NULL, expires_at REAL NOT NULL, used INTEGER NOT NULL
    ) STRICT;
    """,
    "CREATE TABLE replaced (message INTEGER PRIMARY KEY, trigger TEXT NOT NULL) STRICT;",
    """
    ALTER TABLE announced ADD COLUMN reminder TEXT NOT NULL DEFAULT '';
    ALTER TABLE telegram_button ADD COLUMN bot TEXT NOT NULL DEFAULT '';
    ALTER TABLE telegram_button ADD COLUMN offered TEXT NOT NULL DEFAULT '';
    ALTER TABLE telegram_button ADD COLUMN yes_by TEXT NOT NULL DEFAULT '';
    """,
    """
    CREATE TABLE module_kept (name TEXT PRIMARY KEY, skill TEXT NOT NULL) STRICT;
    ALTER TABLE skill_life ADD COLUMN since TEXT NOT NULL DEFAULT '';
    ALTER TABLE trigger ADD COLUMN since TEXT NOT NULL DEFAULT '';
    ALTER TABLE schedule ADD COLUMN since TEXT NOT NULL DEFAULT '';
    """,
    """
    CREATE TABLE fired_lately (
      firing INTEGER PRIMARY KEY, trigger TEXT NOT NULL, source TEXT NOT NULL, at REAL NOT NULL, before REAL NOT NULL
    ) STRICT;
    CREATE INDEX fired_lately_at ON fired_lately (at, trigger, source);
    """,
    """
    ALTER TABLE schedule ADD COLUMN accounted REAL NOT NULL DEFAULT 0;
    UPDATE schedule SET accounted = max(created_at, coalesce(last_due, 0));
    CREATE TABLE schedule_missed (
      id INTEGER PRIMARY KEY AUTOINCREMENT, schedule TEXT NOT NULL, first REAL NOT NULL, last REAL NOT NULL, count INTEGER NOT NULL,
      said_at REAL NOT NULL, why TEXT NOT NULL
    ) STRICT;
    CREATE INDEX schedule_missed_of ON schedule_missed (schedule, said_at);
    INSERT INTO schedule_missed (schedule, first, last, count, said_at, why)
      SELECT what, due, due, 1, began_at, 'nobody looked' FROM firing WHERE kind = 'schedule' AND attempt = 0 ORDER BY id;
    DELETE FROM firing WHERE kind = 'schedule' AND attempt = 0;
    """,
)
"""One text for each version there has been. A change is a further text, never another one."""
_NEWER: Final = "kernel.db was written by a newer Metier"


@final
class _Line:
    """One connection, and whose turn it is."""

    def __init__(self, path: str) -> None:
        self.turn = threading.Lock()
        self.connection = sqlite3.connect(
            path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
        )
        self.connection.text_factory = text_of
        self.connection.execute("PRAGMA synchronous = FULL")
        self.connection.execute("PRAGMA foreign_keys = ON")
        self.connection.execute("PRAGMA secure_delete = ON")


@final
class Store:
    """The file, opened. Safe to be used by several threads.

    Readers and writers have a connection each: who writes may wait long for another process, and holds his own meanwhile.
    """

    def __init__(self, home: str) -> None:
        """Raises StateError when it cannot be opened, is not this user's alone, or is of a newer version."""
        self.path = os.path.join(absolute(home), FILE)
        self._opening = threading.Lock()
        self._writer: _Line | None = None
        """Opened once it is needed: most who look only read."""
        self._changes = 0
        self._closed = False
        make_private_folder(os.path.dirname(self.path))
        try:
            # One that is there is not opened here: to close it would let go of every lock that this process has on it, and
            # whoever closes it elsewhere would then take its log away under us.
            with suppress(FileExistsError):
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            require_private(self.path, folder=False)
            require_one_name(self.path)
            self._reader = _Line(self.path)
            self._prepare()
        except (sqlite3.Error, OSError) as error:
            raise unusable(error, self.path) from error

    def _prepare(self) -> None:
        reader = self._reader.connection
        reader.execute("PRAGMA journal_mode = WAL")
        if _version(reader) != len(
            _TABLES
        ):  # else nothing is to be written, so nobody who writes is waited for
            with self.writing() as connection:
                version = _version(connection)
                if version > len(_TABLES):
                    raise StateError(_NEWER, remedy="Use the version that wrote it, or a newer one")
                for text in _TABLES[version:]:
                    for statement in filter(str.strip, text.split(";")):
                        connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {len(_TABLES)}")
        reader.execute("PRAGMA query_only = ON")

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection]:
        """Everything read inside is of one moment.

        Raises:
            StateError: when it cannot be read.
        """
        with self._transaction(self._reader, "BEGIN") as connection:
            yield connection

    @contextmanager
    def writing(self) -> Generator[sqlite3.Connection]:
        """Everything written inside is written together, or not at all.

        Raises:
            StateError: when it cannot be written.
        """
        with self._transaction(self._writing(), "BEGIN IMMEDIATE") as connection:
            yield connection

    @contextmanager
    def _transaction(self, line: _Line, begin: str) -> Generator[sqlite3.Connection]:
        connection = line.connection
        with line.turn:
            try:
                connection.execute(begin)
                yield connection
                connection.execute("COMMIT")
            except sqlite3.Error as error:
                raise unusable(error, self.path) from error
            finally:
                with suppress(sqlite3.Error):
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")

    def _writing(self) -> _Line:
        with self._opening:
            try:
                if self._closed:
                    raise sqlite3.ProgrammingError("closed")
                self._writer = self._writer or _Line(self.path)
            except sqlite3.Error as error:
                raise unusable(error, self.path) from error
            return self._writer

    def changes(self) -> int:
        """A number that is another once somebody else wrote. While something is being written here it is the last one that was told:
        who asks does so again and again, and waits for nobody."""
        line = self._writing()  # to the connection of those who read, what is written here would be news
        if line.turn.acquire(blocking=False):
            try:
                (number,) = line.connection.execute("PRAGMA data_version").fetchone()
                self._changes = int(number)
            except sqlite3.Error as error:
                raise unusable(error, self.path) from error
            finally:
                line.turn.release()
        return self._changes

    def close(self) -> None:
        """Let go of the file."""
        with self._opening:
            self._closed = True
            for line in filter(None, (self._reader, self._writer)):
                with line.turn:
                    line.connection.close()


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])
