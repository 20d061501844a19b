"""Whether somebody ever trusted a skill, asked for something that took a person's word, and got it. Read from small tables, never from
the whole record."""

from typing import TYPE_CHECKING, final

from msgspec import Struct

from metier.record.approval_row import known

if TYPE_CHECKING:
    import sqlite3


@final
class Firsts(Struct, frozen=True, kw_only=True):
    """What was done at least once in this state, and is still known."""

    trusted: bool = False
    asked: bool = False
    approved: bool = False


def firsts_in(connection: "sqlite3.Connection") -> Firsts:
    """As of the moment that `connection` is at."""

    def ever(question: str, *given: str) -> bool:
        asked = f"SELECT EXISTS ({question})"
        return connection.execute(asked, given).fetchone()[0] == 1

    if not known(connection):
        return Firsts()
    return Firsts(
        trusted=ever("SELECT 1 FROM trust WHERE how = ?", "operator"),
        asked=ever("SELECT 1 FROM approval"),
        approved=ever("SELECT 1 FROM approval WHERE decided_by <> '' AND state IN ('approved', 'spent')"),
    )
