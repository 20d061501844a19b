"""Which moments of a schedule are accounted for, and which are open: claims what is due. Every function blocks.

A moment that was done is done, by whatever clock. Everything else is what a clock believed: until when all is accounted for, and
what was missed. Where the clock of now is behind that (it was set back, or is not set yet), the moments that lie ahead of it are open
again unless they were done; and where it then goes on to where it was before, what was known there counts again.
"""

import sqlite3
from typing import Final

from metier.kernel.firing_store import KEPT
from metier.kernel.schedule import AnySchedule
from metier.kernel.schedule_clock import GRACE, TICK, next_due, overdue
from metier.kernel.schedule_missed import add, not_believed, said_again, taken_out
from metier.kernel.schedule_store import KeptSchedule
from metier.kernel.store import Store
from metier.record.backup_beside import RESTORED

NO_HOST: Final = "no host was running"
JUMPED: Final = "the machine slept, its clock was set, or nobody could look"
BROUGHT_BACK: Final = "the state was restored from a backup, so it may have been done already"
STILL_TO_COME: Final = "nothing yet: the clock was set back, and what counted as missed is still to come"
_NOT_SET: Final = 1_577_836_800.0
"""2020. A clock that shows an earlier time was never set."""
_BEGUN: Final = (
    "INSERT INTO firing (kind, what, due, attempt, call_id, began_at, ended_at, outcome) "
    "VALUES ('schedule', ?, ?, 1, '', ?, NULL, '') ON CONFLICT DO NOTHING"
)
_SWEPT: Final = (  # numbers are counted over everything that fires, so it is the rows of this one that are counted
    "DELETE FROM firing WHERE kind = 'schedule' AND what = ? AND ended_at IS NOT NULL AND id <= "
    "(SELECT id FROM firing WHERE kind = 'schedule' AND what = ? ORDER BY id DESC LIMIT 1 OFFSET ?)"
)


def take(
    store: Store, kept: KeptSchedule, schedule: AnySchedule, now: float, *, was_here: bool = False
) -> float | None:
    """In one step: what is due is taken, what was missed is written down, and the next moment is set. The moment that is to be done
    now; None where there is none, or somebody else took it.

    Args:
        was_here: this host looked before, so it is not for want of one that something was missed.
    """
    with store.reading() as connection:
        since = _open_from(connection, kept, now)
        done = _done(connection, kept.id, since)
        restored = _restored_at(connection, now)
    due, missed = overdue(schedule, since, now, kept.created_at, done=done, done_until=restored)
    following = next_due(schedule, now, kept.created_at, done)
    why = JUMPED if was_here else NO_HOST
    if missed and missed[-1].last <= restored:
        why = BROUGHT_BACK
    with store.writing() as connection:
        cursor = connection.execute(
            "UPDATE schedule SET next_due = ?, last_due = coalesce(?, last_due), accounted = max(accounted, ?) "
            "WHERE id = ? AND enabled = 1 AND next_due IS ?",
            (following, due, now, kept.id, kept.next_due),
        )
        if cursor.rowcount == 0:
            return None
        if due is not None and connection.execute(_BEGUN, (kept.id, due, now)).rowcount == 0:
            due = None
        count = sum(each.count for each in missed)
        less = taken_out(connection, kept.id, schedule, kept.created_at, since, now)
        connection.execute(
            "UPDATE schedule SET missed = max(missed + ?, 0) WHERE id = ?", (count - less, kept.id)
        )
        for each in missed:
            add(connection, kept.id, each, now, why)
        if missed and due is None:
            said = f"missed {count}: {why}"
            connection.execute("UPDATE schedule SET last_outcome = ? WHERE id = ?", (said, kept.id))
        connection.execute(_SWEPT, (kept.id, kept.id, KEPT))
    return due


def set_right(store: Store, kept: KeptSchedule, schedule: AnySchedule, now: float) -> bool:
    """Whether it is due before what is kept says, which is then set right: the clock was set back, perhaps while nobody looked."""
    if now >= kept.accounted:
        return False
    with store.writing() as connection:
        said_again(connection, kept.id, schedule, kept.created_at, now)
        if not_believed(connection, now).get(kept.id):
            connection.execute(
                "UPDATE schedule SET last_outcome = ? WHERE id = ? AND last_outcome LIKE 'missed %'",
                (STILL_TO_COME, kept.id),
            )
        due = next_due(schedule, now, kept.created_at, _done(connection, kept.id, now))
        if due is None or (kept.next_due is not None and due >= kept.next_due):
            return False
        cursor = connection.execute(
            "UPDATE schedule SET next_due = ? WHERE id = ? AND enabled = 1 AND next_due IS ?",
            (due, kept.id, kept.next_due),
        )
        return cursor.rowcount == 1


def _open_from(connection: sqlite3.Connection, kept: KeptSchedule, now: float) -> float:
    """From when on something may be due that is not accounted for. What is due next may lie long before that, where it was set by a
    clock that was behind."""
    since = kept.next_due if kept.next_due is not None else now
    if now >= kept.accounted:
        since = max(since, kept.accounted + TICK)
    else:
        (done,) = connection.execute(
            "SELECT max(due) FROM firing WHERE kind = 'schedule' AND what = ? AND due <= ?", (kept.id, now)
        ).fetchone()
        (missed,) = connection.execute(
            "SELECT max(last) FROM schedule_missed WHERE schedule = ? AND said_at <= ?", (kept.id, now)
        ).fetchone()
        known = [at + TICK for at in (done, missed, kept.created_at) if at is not None and at <= now]
        since = max(since, *known, 0.0)
    return (
        since if since >= _NOT_SET else now - GRACE
    )  # what was written in 1970 says nothing of the years since


def _done(connection: sqlite3.Connection, id: str, since: float) -> set[float]:
    """What was done, or begun, of what is due from `since` on."""
    rows: list[tuple[float]] = connection.execute(
        "SELECT DISTINCT due FROM firing WHERE kind = 'schedule' AND what = ? AND due >= ?", (id, since)
    ).fetchall()
    return {due for (due,) in rows}


def _restored_at(connection: sqlite3.Connection, now: float) -> float:
    """When all of this came back from a backup; 0 where it never did, or the clock was set back since."""
    row = connection.execute("SELECT value FROM cursor WHERE name = ?", (RESTORED,)).fetchone()
    try:
        at = float(row[0]) if row is not None else 0.0
    except ValueError:  # it did, and nobody can read when
        return now
    return at if at <= now else 0.0
