"""Which rules of the operator were in force, and since when: a file can be changed by anybody who may write it, but not unseen."""

from typing import TYPE_CHECKING, Final

from metier.record.schema import KNOWS_SETTING

if TYPE_CHECKING:
    import sqlite3

    from metier.record.database import Database

_NAME: Final = "policy"
NONE: Final = "none"
"""There is no file."""
UNREADABLE: Final = "unreadable"
"""There is one that nobody can read."""


def note_policy(database: "Database", digest: str, *, by: str) -> bool:
    """Record that other rules are in force than the last time somebody looked; False when they are the same.

    Raises:
        StateError: when it cannot be written or recorded; then they count all the same, and it is tried again.
    """
    from metier.record.chain import Act, append, now

    found = digest or NONE
    with database.reading() as connection:
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        if version < KNOWS_SETTING or _last(connection) == found:
            return False
    with database.transaction() as connection:
        last = _last(connection)
        if last == found:
            return False
        at = now()
        connection.execute("INSERT OR REPLACE INTO setting VALUES (?, ?, ?, ?)", (_NAME, found, at, by))
        words = (f"from {last} to {found}",)
        append(connection, "policy_changed", Act(principal=by), at=at, code=found, reasons=words)
    return True


def last_policy(database: "Database") -> str:
    """Digest of the rules that were seen last; `none` when there were none, or nobody looked yet."""
    with database.reading() as connection:
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        return _last(connection) if version >= KNOWS_SETTING else NONE


def was_there(path: str) -> bool:
    """Whether the rules that the state at `path` saw last were in a file. Where that is gone, everything is denied."""
    from metier.record.database import open_if_there

    database = open_if_there(path)
    if database is None:
        return False
    with database:
        return last_policy(database) != NONE


def _last(connection: "sqlite3.Connection") -> str:
    row = connection.execute("SELECT value FROM setting WHERE name = ?", (_NAME,)).fetchone()
    return NONE if row is None else str(row[0])
