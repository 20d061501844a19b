"""Questions put to callers: in which turn of which conversation was which act asked about? Each answer counts once.

What an act was lies here only as a digest under a key of this state. The key is overwritten whenever anything is erased, and
when no question stands any more, so that nobody can guess from what is left what was asked.
"""

from typing import TYPE_CHECKING

from metier.record.audit import IntentDenied
from metier.record.question_key import MOST_SECONDS, forget_old, make_key, renew_unused, under_key

if TYPE_CHECKING:
    import sqlite3


def asked_in(connection: "sqlite3.Connection", conversation: str, act: str, now: float) -> int | None:
    """The turn in which this act was asked about, if that question still stands."""
    row = connection.execute(
        "SELECT turn, asked_at FROM confirmation WHERE conversation = ? AND fingerprint = ?",
        (conversation, under_key(connection, act)),
    ).fetchone()
    # A clock that was set back does not make an old question young again.
    return row[0] if row is not None and 0 <= now - row[1] < MOST_SECONDS else None


def ask(connection: "sqlite3.Connection", conversation: str, act: str, turn: int, now: float) -> None:
    """Note that the caller is asked. Asking once more in another turn begins anew."""
    make_key(connection)
    forget_old(connection, now)
    connection.execute(
        """INSERT INTO confirmation VALUES (?, ?, ?, ?)
           ON CONFLICT (conversation, fingerprint) DO UPDATE SET turn = excluded.turn, asked_at = excluded.asked_at""",
        (conversation, under_key(connection, act), turn, now),
    )


def answer_problem(connection: "sqlite3.Connection", conversation: str, act: str) -> IntentDenied | None:
    """Whether the caller's word was used already."""
    row = connection.execute(
        "SELECT 1 FROM confirmation WHERE conversation = ? AND fingerprint = ?",
        (conversation, under_key(connection, act)),
    ).fetchone()
    if row is None:
        return IntentDenied("the caller's word was used already", "confirmation_required")
    return None


def take_answer(connection: "sqlite3.Connection", conversation: str, act: str) -> None:
    """Use the caller's word."""
    connection.execute(
        "DELETE FROM confirmation WHERE conversation = ? AND fingerprint = ?",
        (conversation, under_key(connection, act)),
    )
    renew_unused(connection)
