"""The stop button: nothing runs from now on, in any process and after any restart, until a person ends it."""

from typing import TYPE_CHECKING, Final, final

from msgspec import Struct

from metier.errors import RecordError, StateError
from metier.record.schema import KNOWS_SETTING

if TYPE_CHECKING:
    import sqlite3

    from metier.record.database import Database

_NAME: Final = "stopped"
DEFAULT_WHY: Final = "an operator stopped everything"
_PRESS: Final = """
    INSERT INTO setting VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET
        value = CASE WHEN ? THEN excluded.value ELSE value END,
        changed_at = excluded.changed_at, changed_by = excluded.changed_by
"""


@final
class Stopped(Struct, frozen=True, kw_only=True):
    """That nothing may run."""

    why: str
    by: str
    at: str


def stopping_in(connection: "sqlite3.Connection") -> Stopped | None:
    """Who stopped everything, when and why; None when things may run. A stop that cannot be read is a stop."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version < KNOWS_SETTING:
        return None
    row = connection.execute(
        "SELECT value, changed_at, changed_by FROM setting WHERE name = ?", (_NAME,)
    ).fetchone()
    if row is None:
        return None
    why, at, by = (str(part) for part in row)
    return Stopped(why=why or DEFAULT_WHY, by=by, at=at)


def stopped_in(connection: "sqlite3.Connection") -> str:
    """The same in words; empty when things may run."""
    found = stopping_in(connection)
    return "" if found is None else f"{found.why} ({found.by}, {found.at[:16].replace('T', ' ')} UTC)"


def stop(database: "Database", *, by: str, why: str = "") -> None:
    """Let nothing run any more. Who says no reason leaves the one there is.

    Raises:
        RecordError: when it is stopped but that could not be recorded. Stopping never waits.
        StateError: when it could not be stopped for other processes.
    """
    from metier.record.chain import Act, append, now
    from metier.record.payload import bounded_text
    from metier.record.secret_text import mask_text

    at = now()
    said = mask_text(bounded_text(why))  # what is no text must not keep it from stopping
    row = (_NAME, said or DEFAULT_WHY, at, by, bool(said))
    try:
        with database.transaction() as connection:
            connection.execute(_PRESS, row)
            append(connection, "stopped", Act(principal=by), at=at, payloads={})
    except StateError as error:
        with database.transaction() as connection:
            connection.execute(_PRESS, row)
        raise RecordError(
            f"everything is stopped, but that could not be recorded: {error.message}", remedy=error.remedy
        ) from error


def resume(database: "Database", *, by: str) -> bool:
    """Let things run again; False when nothing was stopped.

    Raises:
        StateError: when it cannot be written or recorded; then everything stays stopped.
    """
    from metier.record.chain import Act, append, now

    with database.transaction() as connection:
        if not connection.execute("DELETE FROM setting WHERE name = ?", (_NAME,)).rowcount:
            return False
        append(connection, "resumed", Act(principal=by), at=now())
    return True
