"""What was recorded lately, for who follows the record from a number on."""

from typing import TYPE_CHECKING

from metier.record.chain import Record
from metier.record.search import decoded

if TYPE_CHECKING:
    from metier.record.database import Database


def newest(database: "Database") -> int:
    """The number of the last record; 0 where there is none."""
    with database.reading() as connection:
        found = connection.execute("SELECT max(seq) FROM audit").fetchone()[0]
    return found if isinstance(found, int) else 0


def after(database: "Database", seq: int, most: int) -> list[Record]:
    """The first records after number `seq`, oldest first.

    Raises:
        RecordError: when one cannot be read.
        StateError: when the log cannot be read.
    """
    with database.reading() as connection:
        rows = connection.execute(
            "SELECT body FROM audit WHERE seq > ? ORDER BY seq LIMIT ?", (seq, most)
        ).fetchall()
    return [decoded(body) for (body,) in rows]
