"""The attempts of a scheduled call, as kernel.db keeps them. Every function blocks.

An attempt is known by its schedule, its moment and its number, so that writing the same thing again changes nothing. The next one is
written down, as not ended, together with the end of the one before: whoever finds it after the host was killed knows that somebody was
still to be told.
"""

import time
from typing import Final, final

from msgspec import Struct

from metier.kernel.store import Store
from metier.model.text import one_line

CUT_OFF: Final = "cut off: the host ended before this was known to be over; it is not done again"
REMOVED: Final = "it was removed meanwhile"
_LONGEST: Final = 300
_PUT: Final = (
    "INSERT INTO firing (kind, what, due, attempt, call_id, began_at, ended_at, outcome) "
    "SELECT 'schedule', id, ?, ?, ?, ?, ?, ? FROM schedule WHERE id = ? "
    "ON CONFLICT (kind, what, due, attempt) DO UPDATE SET "
    "call_id = excluded.call_id, ended_at = excluded.ended_at, outcome = excluded.outcome"
)
_NEXT: Final = (
    "INSERT INTO firing (kind, what, due, attempt, call_id, began_at, ended_at, outcome) "
    "SELECT 'schedule', id, ?, ?, ?, ?, NULL, ? FROM schedule WHERE id = ? ON CONFLICT DO NOTHING"
)


@final
class Attempt(Struct, frozen=True, kw_only=True):
    """How one ended."""

    schedule: str
    due: float
    number: int
    said: str
    call_id: str
    again: bool = False
    """There is to be another."""


def begun(store: Store, id: str, due: float, number: int, *, asked_for: bool = False) -> str:
    """An attempt begins. Why it must not; empty where it may.

    Args:
        asked_for: a person wants it now, also where it is switched off.
    """
    with store.writing() as connection:
        row: tuple[int] | None = connection.execute(
            "SELECT enabled FROM schedule WHERE id = ?", (id,)
        ).fetchone()
        if row is None:
            return REMOVED
        if not row[0] and not asked_for:
            return "it was switched off meanwhile"
        connection.execute(_PUT, (due, number, "", time.time(), None, "", id))
    return ""


def ended(store: Store, done: Attempt) -> None:
    """It came to its end, and this is how."""
    said = one_line(f"{done.said}; it is tried again" if done.again else done.said, _LONGEST)
    now = time.time()
    with store.writing() as connection:
        connection.execute(_PUT, (done.due, done.number, done.call_id, now, now, said, done.schedule))
        if done.again:
            waits = one_line(f"to be tried again after: {done.said}", _LONGEST)
            connection.execute(_NEXT, (done.due, done.number + 1, done.call_id, now, waits, done.schedule))
        connection.execute("UPDATE schedule SET last_outcome = ? WHERE id = ?", (said, done.schedule))


def cut_off(store: Store) -> list[Attempt]:
    """At the start of a host: what an earlier one began and never ended is not done again, and that is said. All of it."""
    now = time.time()
    with store.writing() as connection:
        rows: list[tuple[int, str, float, int, str, str]] = connection.execute(
            "SELECT id, what, due, attempt, call_id, outcome FROM firing "
            "WHERE kind = 'schedule' AND ended_at IS NULL ORDER BY id"
        ).fetchall()
        found: list[Attempt] = []
        for row, id, due, number, call_id, waits in rows:
            said = one_line(f"{CUT_OFF} ({waits})" if waits else CUT_OFF, _LONGEST)
            connection.execute("UPDATE firing SET ended_at = ?, outcome = ? WHERE id = ?", (now, said, row))
            connection.execute("UPDATE schedule SET last_outcome = ? WHERE id = ?", (said, id))
            found.append(Attempt(schedule=id, due=due, number=number, said=said, call_id=call_id))
    return found
