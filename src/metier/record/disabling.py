"""A skill that did what no skill may ever do is disabled: at once, everywhere, until a person enables it again.

It is the name that is disabled, so neither other bytes nor another place under that name can run meanwhile. Both ways are
recorded in the transaction that takes them.
"""

from typing import TYPE_CHECKING, Final

from metier.errors import RecordError, StateError
from metier.record.schema import KNOWS_DISABLED

if TYPE_CHECKING:
    import sqlite3

    from metier.record.database import Database

BY: Final = "metier"
"""Nobody asked for it: the runtime itself does it."""


def disable(database: "Database", name: str, *, call_id: str, why: str) -> None:
    """Disable the skill `name` for what call `call_id` did. `why` is kept for good, so it is in our words only.

    Raises:
        RecordError: when it is disabled but could not be recorded. Disabling never waits.
        StateError: when it could not be disabled.
    """
    from metier.record.chain import Act, append, now

    at = now()
    row = (name, at, call_id, why)
    try:
        with database.transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO disabled VALUES (?, ?, ?, ?)", row)
            act = Act(principal=BY, call_id=call_id, skill=name)
            append(connection, "skill_disabled", act, at=at, code="violation", reasons=(why,))
    except StateError as error:
        with database.transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO disabled VALUES (?, ?, ?, ?)", row)
        raise RecordError(
            f"{name} is disabled, but that could not be recorded: {error.message}", remedy=error.remedy
        ) from error


def enable(database: "Database", name: str, *, by: str) -> bool:
    """Let the skill `name` be used again; False when it was not disabled.

    Raises:
        StateError: when it cannot be written or recorded; then nothing changed.
    """
    from metier.record.chain import Act, append, now

    with database.transaction() as connection:
        if not connection.execute("DELETE FROM disabled WHERE name = ?", (name,)).rowcount:
            return False
        append(connection, "skill_enabled", Act(principal=by, skill=name), at=now())
    return True


def all_disabled(connection: "sqlite3.Connection") -> dict[str, str]:
    """Every disabled name, and why; none where the state is of a version that knew no such thing."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version < KNOWS_DISABLED:
        return {}
    rows = connection.execute("SELECT name, disabled_at, call_id, why FROM disabled")
    return {
        name: f"{why} (call {call_id}, {at[:16].replace('T', ' ')} UTC)" for name, at, call_id, why in rows
    }
