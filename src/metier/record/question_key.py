"""The key under which questions to callers are kept. Once it is overwritten nobody can guess what had been asked.

It is one row that is never deleted, so it is overwritten where it lies; a deleted row may leave copies of its neighbours behind.
"""

import os
from typing import TYPE_CHECKING, Final

from metier.record.chain import keyed_digest

if TYPE_CHECKING:
    import sqlite3

MOST_SECONDS: Final = 900.0
"""How long a question stands. Older ones are forgotten, and with them what they were about."""


def make_key(connection: "sqlite3.Connection") -> None:
    """Make the key, where there is none yet."""
    connection.execute("INSERT OR IGNORE INTO question_key VALUES (1, ?)", (os.urandom(32),))


def under_key(connection: "sqlite3.Connection", act: str) -> str:
    """What stands for `act` in the table; empty while nobody was asked about anything yet."""
    row = connection.execute("SELECT key FROM question_key").fetchone()
    return "" if row is None else keyed_digest(row[0], act.encode())


def forget_old(connection: "sqlite3.Connection", now: float) -> None:
    """Forget the questions that no longer stand."""
    connection.execute(
        "DELETE FROM confirmation WHERE asked_at < ? OR asked_at > ?", (now - MOST_SECONDS, now + 1)
    )
    renew_unused(connection)


def renew_unused(connection: "sqlite3.Connection") -> None:
    """Overwrite the key where no question stands under it."""
    connection.execute(
        "UPDATE question_key SET key = randomblob(length(key)) WHERE NOT EXISTS (SELECT 1 FROM confirmation)"
    )


def forget_all(connection: "sqlite3.Connection") -> None:
    """Forget every question; whoever was asked is asked again."""
    connection.execute("DELETE FROM confirmation")
    renew_unused(connection)
