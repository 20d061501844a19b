"""The file the index lies in: this user's alone, made anew when it is damaged or of another format, without a trace of what left.

A rollback journal and not a write-ahead file: what a transaction overwrote is gone when it ends, and there is nothing to
checkpoint while others read. FTS5 keeps the words of removed texts in older parts of itself until they are merged, so `finish`
merges all of it.
"""

import contextlib
import os
import sqlite3
from typing import Final

from metier.errors import StateError
from metier.record.private import absolute, make_private_folder, require_one_name, require_private

FORMAT: Final = 2
"""Of the tables and of the vectors in them: another table of words needs another number."""
WORDS: Final = ("words", "private_words")
"""The words of what everybody may find, and of what is private. Apart, because a ranking says how rare a word is among all it ranks:
one over both would tell whether a word stands in a private memory."""
_PATIENCE: Final = 20.0
_TRIES: Final = 4
_TABLES: Final = """
CREATE TABLE memories (
  id INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT NOT NULL UNIQUE, signature TEXT NOT NULL, young INTEGER NOT NULL,
  digest BLOB NOT NULL, problem TEXT NOT NULL, name TEXT NOT NULL, title TEXT NOT NULL, timestamp TEXT NOT NULL,
  tags TEXT NOT NULL
) STRICT;
CREATE TABLE passages (
  id INTEGER PRIMARY KEY AUTOINCREMENT, memory INTEGER NOT NULL, private INTEGER NOT NULL, text TEXT NOT NULL,
  beside TEXT NOT NULL, pieces BLOB NOT NULL, vector BLOB NOT NULL
) STRICT;
CREATE INDEX passages_of ON passages (memory);
CREATE INDEX passages_seen ON passages (private);
CREATE VIRTUAL TABLE words USING fts5 (
  text, beside, content='passages', content_rowid='id', tokenize='porter unicode61 remove_diacritics 2'
);
CREATE VIRTUAL TABLE private_words USING fts5 (
  text, beside, content='passages', content_rowid='id', tokenize='porter unicode61 remove_diacritics 2'
);
CREATE TABLE state (generation INTEGER NOT NULL, litter INTEGER NOT NULL, filled INTEGER NOT NULL) STRICT;
INSERT INTO state VALUES (0, 0, 0);
"""


def connected(path: str) -> tuple[sqlite3.Connection, int]:
    """The index at `path` and its inode, made where there is none, made anew where it is not one of ours or cannot be read.

    Raises:
        StateError: when the folder or the file is not this user's alone, or cannot be made.
    """
    path = absolute(path)
    make_private_folder(os.path.dirname(path))
    for _ in range(_TRIES):
        try:
            inode = _made_ours(path)
        except FileNotFoundError:
            continue
        try:
            connection = _opened(path)
        except sqlite3.DatabaseError as error:
            if inode_of(path) != inode:
                continue
            if not is_damage(error):
                raise _unusable(error) from error
            throw_away(path)
            continue
        if inode_of(path) == inode:
            return connection, inode
        connection.close()  # somebody else made it anew meanwhile
    raise StateError(
        "the memory index cannot be made",
        remedy="Look at the state folder: is there room on the disk, and may you write there?",
    )


def throw_away(path: str) -> None:
    """Remove the index. It holds nothing that the memories themselves do not."""
    for name in (path + "-journal", path):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def is_damage(error: sqlite3.DatabaseError) -> bool:
    """Whether the file is at fault, and not somebody who holds it or a disk that is full."""
    said = str(error)
    lost = "no such" in said or "malformed" in said or "has no column" in said or "vtable" in said
    return lost or not isinstance(error, sqlite3.OperationalError)


def finish(connection: sqlite3.Connection) -> None:
    """Note that the index was filled, and leave no word of what was removed in the file, also when whoever removed it did not come
    that far."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute("UPDATE state SET filled = 1 WHERE filled = 0")
        if connection.execute("SELECT litter FROM state").fetchone()[0]:
            for name in WORDS:
                connection.execute(f"INSERT INTO {name} ({name}) VALUES ('optimize')")  # noqa: S608  a word of ours
            connection.execute("UPDATE state SET litter = 0")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _made_ours(path: str) -> int:
    """The inode of the file, made where there is none, and this user's alone."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        pass
    except OSError as error:
        raise StateError(
            f"the memory index cannot be made: {error.strerror}",
            remedy="Check that you may write into the state folder",
        ) from error
    try:
        require_private(path, folder=False)
        require_one_name(path)
    except StateError:
        os.lstat(path)  # gone again: nothing is wrong with it
        raise
    return os.lstat(path).st_ino


def inode_of(path: str) -> int:
    """Which file lies there; 0 for none."""
    try:
        return os.lstat(path).st_ino
    except OSError:
        return 0


def _opened(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA temp_store = MEMORY")  # no text in files that are not ours to remove
        connection.execute("PRAGMA cache_size = -16000")
        connection.execute("PRAGMA trusted_schema = OFF")
        _made(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _made(connection: sqlite3.Connection) -> None:
    """Have today's tables there. Whoever comes first makes them."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version == 0 and not connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone():
            for statement in _TABLES.split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {FORMAT}")
        elif version != FORMAT:
            raise sqlite3.DatabaseError("another format")
        else:
            connection.execute("SELECT generation, litter, filled FROM state").fetchone()[0]
        connection.execute("COMMIT")
    except BaseException as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if isinstance(error, TypeError):  # no row of state
            raise sqlite3.DatabaseError("no state") from error
        raise


def _unusable(error: sqlite3.Error) -> StateError:
    return StateError(
        f"the memory index cannot be used: {error}",
        remedy="Wait for whoever holds it; or remove it, it is made anew from the memories",
    )
