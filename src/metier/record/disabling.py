"""A skill that did what no skill may ever do, or that a person does not want, is disabled: at once, everywhere, until a
person enables it again.

It is the name that is disabled, so neither other bytes nor another place under that name can run meanwhile; after a
violation the bytes are too, so they cannot return under another name. Both ways are recorded in the transaction that
takes them.
"""

from typing import TYPE_CHECKING, Final

from metier.errors import RecordError, StateError
from metier.record.schema import KNOWS_DISABLED, KNOWS_SETTING

if TYPE_CHECKING:
    import sqlite3

    from metier.record.database import Database

BY: Final = "metier"
"""Nobody asked for it: the runtime itself does it."""


def disable(
    database: "Database", name: str, *, why: str, call_id: str = "", digest: str = "", by: str = BY
) -> None:
    """Disable the skill `name`, for what call `call_id` did or because a person wants it.

    Args:
        why: kept for good, so what a skill said does not belong there.
        digest: of the bytes that did it; none of these run under any name.

    Raises:
        RecordError: when it is disabled but could not be recorded. Disabling never waits.
        StateError: when it could not be disabled.
    """
    from metier.record.chain import Act, append, now
    from metier.record.payload import bounded_text
    from metier.record.secret_text import mask_text

    at, why = now(), mask_text(bounded_text(why))  # what is no text must not keep it from being disabled
    row = (name, at, call_id, why)
    try:
        with database.transaction() as connection:
            _disable(connection, row, digest)
            act = Act(principal=by, call_id=call_id, skill=name, skill_digest=digest)
            code = "violation" if call_id else "operator"
            append(connection, "skill_disabled", act, at=at, code=code, reasons=(why,))
    except StateError as error:
        with database.transaction() as connection:
            _disable(connection, row, digest)
        raise RecordError(
            f"{name} is disabled, but that could not be recorded: {error.message}", remedy=error.remedy
        ) from error


def enable(database: "Database", name: str, *, by: str) -> bool:
    """Let the skill `name` be used again, and the bytes that were disabled with it; False when it was not disabled.

    Raises:
        StateError: when it cannot be written or recorded; then nothing changed.
    """
    from metier.record.chain import Act, append, now

    with database.transaction() as connection:
        if not connection.execute("DELETE FROM disabled WHERE name = ?", (name,)).rowcount:
            return False
        connection.execute("DELETE FROM disabled_bytes WHERE name = ?", (name,))
        append(connection, "skill_enabled", Act(principal=by, skill=name), at=now())
    return True


def all_disabled(connection: "sqlite3.Connection") -> dict[str, str]:
    """Every disabled name, and why; none where the state is of a version that knew no such thing."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version < KNOWS_DISABLED:
        return {}
    rows = connection.execute("SELECT name, disabled_at, call_id, why FROM disabled")
    return {
        name: f"{why} ({f'call {call_id}, ' if call_id else ''}{at[:16].replace('T', ' ')} UTC)"
        for name, at, call_id, why in rows
    }


def bytes_disabled(connection: "sqlite3.Connection") -> dict[str, str]:
    """The digest of everything that was disabled for what it did, and the name it had."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version < KNOWS_SETTING:
        return {}
    rows = connection.execute("SELECT digest, name FROM disabled_bytes ORDER BY digest, name DESC")
    return dict(rows.fetchall())


def _disable(connection: "sqlite3.Connection", row: tuple[str, str, str, str], digest: str) -> None:
    connection.execute("INSERT OR REPLACE INTO disabled VALUES (?, ?, ?, ?)", row)
    if digest:
        connection.execute("INSERT OR IGNORE INTO disabled_bytes VALUES (?, ?)", (row[0], digest))
