"""The trust level: how far agents act by themselves. One for the whole state, changed by people, on the record."""

from typing import TYPE_CHECKING, Final, final

from msgspec import Struct

from metier.model.trust_level import DEFAULT, TrustLevel, level_of
from metier.record.schema import KNOWS_SETTING

if TYPE_CHECKING:
    import sqlite3

    from metier.record.database import Database

_NAME: Final = "trust_level"


def level_in(connection: "sqlite3.Connection") -> TrustLevel:
    """The level there is now. What nobody ever set is the default; what cannot be understood is the least."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version < KNOWS_SETTING:
        return DEFAULT
    row = connection.execute("SELECT value FROM setting WHERE name = ?", (_NAME,)).fetchone()
    return DEFAULT if row is None else level_of(row[0])


@final
class Changed(Struct, frozen=True, kw_only=True):
    """The level, and who set it."""

    level: TrustLevel
    at: str = ""
    """Empty where nobody ever set it."""
    by: str = ""


def last_change(database: "Database") -> Changed:
    """The level there is now, and who set it when."""
    with database.reading() as connection:
        now = level_in(connection)
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        if version < KNOWS_SETTING:
            return Changed(level=now)
        row = connection.execute(
            "SELECT changed_at, changed_by FROM setting WHERE name = ?", (_NAME,)
        ).fetchone()
    return Changed(level=now) if row is None else Changed(level=now, at=str(row[0]), by=str(row[1]))


def level(database: "Database") -> TrustLevel:
    """As `level_in`, for who has no connection at hand."""
    with database.reading() as connection:
        return level_in(connection)


def set_level(database: "Database", new: TrustLevel, *, by: str) -> TrustLevel:
    """Change it, and say what it was. The same again changes nothing and is not recorded.

    Raises:
        StateError: when it cannot be written or recorded; then nothing changed.
    """
    from metier.record.chain import Act, append, now

    with database.transaction() as connection:
        old, at = level_in(connection), now()
        if new != old:
            row = (_NAME, new, at, by)
            connection.execute("INSERT OR REPLACE INTO setting VALUES (?, ?, ?, ?)", row)
            words = (f"from {old} to {new}",)
            append(connection, "trust_level_changed", Act(principal=by), at=at, code=new, reasons=words)
    return old
