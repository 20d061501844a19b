"""How a SQLite file is opened: with promises that were read back, our schema, and errors people can act on.

Nothing the driver raises gets out of here or of `Database`: `explain` says it in words, with a way out.
"""

import os
import sqlite3
from typing import Final

from metier.errors import StateError
from metier.record.held import Held
from metier.record.private import absolute
from metier.record.schema import APPLICATION_ID, ASTRAY, KNOWS_BESIDE, MIGRATIONS, NEWS, TOGETHER, VERSION
from metier.record.shape import compare
from metier.record.sound import damage


def connect(path: str, patience: float, *, new: bool = False) -> Held:
    """A connection for writing to the existing file at `path`, brought to our schema. Only a `new` one may be empty.

    Raises:
        StateError: when the file is damaged, locked, another program's, or cannot keep our promises.
    """
    try:
        connection = sqlite3.connect(
            _address(path, "mode=rw"),
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=patience,
            factory=Held,
        )
    except sqlite3.Error as error:
        raise explain(error, path) from error
    try:
        _harden(connection)
        if not new:
            _require_ours(connection, path)
        keep_promises(connection, path, patience)
        _migrate(connection, path)
        require_shape(connection, path)
    except BaseException as error:
        connection.close()
        if isinstance(error, DRIVER_ERRORS):
            raise explain(error, path) from error
        raise
    return connection


def look(path: str) -> Held:
    """A connection that can change nothing, also where nothing can be written at all.

    What it cannot do: read a write-ahead file that holds records where neither its index is there nor room
    to make one. Without them the database would look older than it is, so that is refused.

    Raises:
        StateError: when there is no such database, it is not ours, or it cannot be read.
    """
    path = absolute(path)
    if not os.path.isfile(path):
        raise StateError(f"there is no state database at {path}", remedy="Check the name")
    waiting = _size(f"{path}-wal") > 0
    # A WAL database needs side files even to be read, and only a connection that may write takes them away
    # again. Where they cannot be made and no record waits in one, the file may be taken as it lies.
    modes = ("mode=ro",) if waiting else ("mode=rw", "mode=ro&immutable=1")
    failure: Exception | None = None
    for mode in modes:
        try:
            return _looking(path, mode)
        except DRIVER_ERRORS as error:
            failure = error
    said = explain(failure or sqlite3.Error("no way to open it"), path)
    if waiting and getattr(failure, "sqlite_errorcode", 0) & 0xFF in (8, 10, 13, 14):
        said = StateError(
            f"{said.message}: records wait in {path}-wal, and reading them needs a place to write",
            remedy="Make the folder writable, or copy the database and its -wal file to a place that is",
        )
    raise said from failure


_LARGEST: Final = 16 << 20
"""No value that we write comes near. One that somebody else made larger is not taken into memory."""


def _looking(path: str, mode: str) -> Held:
    connection = sqlite3.connect(
        _address(path, mode), uri=True, isolation_level=None, check_same_thread=False, factory=Held
    )
    try:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST)
        _harden(connection)
        _require_ours(connection, path)
        _see_as_now(connection, _schema_version(connection, path))
        connection.execute("PRAGMA query_only=ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _see_as_now(connection: sqlite3.Connection, version: int) -> None:
    """Let older state be read like today's, as far as its records go, without changing it."""
    if 0 < version < KNOWS_BESIDE:
        connection.execute("PRAGMA temp_store=MEMORY")
        connection.execute(f"CREATE TEMP VIEW audit AS {TOGETHER}")


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def shape_problem(connection: sqlite3.Connection) -> str:
    """What the database holds that Metier did not make, or lacks; empty when it is as it must be."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return compare(connection, MIGRATIONS[:version])


def require_shape(connection: sqlite3.Connection, path: str) -> None:
    """Refuse a database that is not made as Metier makes it.

    Raises:
        StateError: naming the first object that should not be there, or should be.
    """
    if problem := shape_problem(connection):
        raise _not_as_made(path, problem)


def _not_as_made(path: str, problem: str) -> StateError:
    return StateError(
        f"the state database {path} is not as Metier made it: {problem}",
        remedy="Keep the file as evidence, restore a backup, or move it away to begin a new one",
    )


def astray(connection: sqlite3.Connection) -> str:
    """What lies in the payloads of an older version that belongs to no record, or is none; empty when nothing does."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version >= KNOWS_BESIDE or connection.execute(ASTRAY).fetchone() is None:
        return ""
    return "there is a payload that Metier cannot have stored"


DRIVER_ERRORS: Final = (sqlite3.Error, UnicodeDecodeError)
"""What the driver raises. The second when what SQLite has to say quotes a damaged schema that is no text."""


def explain(error: Exception, path: str) -> StateError:
    """What a person should be told when the driver says `error`."""
    if isinstance(error, UnicodeDecodeError):
        return StateError(
            f"the state database {path} {_DAMAGED[0]} (its schema is no text)", remedy=_DAMAGED[1]
        )
    if "Could not decode" in str(error):  # the driver's own word, without a code
        return StateError(f"the state database {path} {_DAMAGED[0]} ({error})", remedy=_DAMAGED[1])
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    said, remedy = _EXPLANATIONS.get(
        code, ("refused the statement", "Look for a newer Metier, or report this")
    )
    return StateError(f"the state database {path} {said} ({error})", remedy=remedy)


_DAMAGED: Final = (
    "is damaged",
    "Keep the file as evidence, restore a backup, or move it away to begin a new one",
)
_EXPLANATIONS: Final = {  # by SQLite's primary result code
    5: ("is locked by another process", "Wait for that process or stop it, then try again"),
    6: ("is locked by this process", "Wait for the running call to end, then try again"),
    8: (
        "cannot be written",
        "Check the mode of the file and its folder, and whether the disk is mounted read-only",
    ),
    10: ("could not be read or written", "Check the disk and its quota; nothing was done"),
    11: _DAMAGED,
    13: ("has no room to grow", "Free space on the disk, then try again; nothing was done"),
    14: ("cannot be opened", "Check the mode of the file and its folder"),
    18: ("holds a value larger than any that Metier writes", "Keep the file as evidence; restore a backup"),
    26: (
        "is not a database",
        "Keep the file as evidence, restore a backup, or move it away to begin a new one",
    ),
}


def _address(path: str, mode: str) -> str:
    """`path` as a URI, which alone can tell SQLite not to make a file."""
    plain = b"/-._~abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    quoted = "".join(chr(byte) if byte in plain else f"%{byte:02X}" for byte in os.fsencode(path))
    return f"file:{quoted}?{mode}"


def _harden(connection: sqlite3.Connection) -> None:
    """Settings for a file that somebody may have prepared: its schema runs nothing, its cells are checked."""
    connection.execute("PRAGMA trusted_schema=OFF")
    connection.execute("PRAGMA cell_size_check=ON")


def keep_promises(connection: sqlite3.Connection, path: str, patience: float) -> None:
    """SQLite takes a pragma it does not like without a word, so each is read back."""
    wanted = {
        "journal_mode": ("WAL", "wal"),
        "synchronous": ("FULL", 2),
        "foreign_keys": ("ON", 1),
        "secure_delete": ("ON", 1),
        "temp_store": ("MEMORY", 2),  # no copies of payloads in temporary files
        "busy_timeout": (str(int(patience * 1000)), int(patience * 1000)),
    }
    for name, (setting, expected) in wanted.items():
        connection.execute(f"PRAGMA {name}={setting}")
        found = connection.execute(f"PRAGMA {name}").fetchone()[0]
        if found != expected:
            raise StateError(
                f"the state database {path} works with {name}={found} and must not ({setting} is needed)",
                remedy="Put the state folder on a local disk; network file systems cannot keep these promises",
            )
    if connection.execute("PRAGMA auto_vacuum").fetchone()[0]:  # pages would be moved that nobody wrote down
        raise StateError(
            f"the state database {path} {_DAMAGED[0]} (it says that it moves its pages)", remedy=_DAMAGED[1]
        )


def _require_ours(connection: sqlite3.Connection, path: str) -> None:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    if application == APPLICATION_ID:
        return
    if application or connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
        raise StateError(f"{path} is the database of another program", remedy="Choose another state folder")
    raise StateError(
        f"the state database {path} is empty, and Metier never leaves it so",
        remedy="Find out who emptied it, then restore a backup, or move it away to begin a new one",
    )


def _migrate(connection: sqlite3.Connection, path: str) -> None:
    if _schema_version(connection, path) == VERSION:
        return
    connection.execute("PRAGMA foreign_keys=OFF")  # tables that others point to are made anew
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Asked again: another process may have brought it up to date while this one waited.
        version = _schema_version(connection, path)
        _require_of_its_version(connection, version, path)
        # What is wrong with it must not be made good on the way, and must not be changed either.
        if version and (problem := shape_problem(connection) or astray(connection) or damage(connection)):
            raise _not_as_made(path, problem)
        for statements in MIGRATIONS[version:]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    finally:
        connection.execute("PRAGMA foreign_keys=ON")


def _require_of_its_version(connection: sqlite3.Connection, version: int, path: str) -> None:
    """Refuse to make a table anew, and empty, of which records say that it was there."""
    newer = [each for news in NEWS[version:] for each in news] if version else []
    if not newer:
        return
    found = " OR ".join(["instr(body, ?)"] * len(newer))
    if connection.execute(f"SELECT 1 FROM audit WHERE {found} LIMIT 1", newer).fetchone() is not None:  # noqa: S608
        raise StateError(
            f"the state database {path} says it is of schema {version}, and its records are of a newer one: tables were removed",
            remedy="Keep the file as evidence, restore a backup, or move it away to begin a new one",
        )


def _schema_version(connection: sqlite3.Connection, path: str) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > VERSION:
        raise StateError(
            f"the state database {path} was written by a newer Metier (schema {version}, this one knows {VERSION})",
            remedy=f"Install a Metier that knows schema {version}: pip install --upgrade metier",
        )
    return version
