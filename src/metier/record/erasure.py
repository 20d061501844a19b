"""Payloads made unreadable for good: of some records, of a call, or of everything older than a day.

Keys and bodies are overwritten where they lie. Deleting the rows would not do: when SQLite rearranges a page after a deletion it
leaves copies of neighbouring rows behind, and `secure_delete` does not clear those when their turn comes. The chain stays as it
is, and each erasure is a record. What a backup or an export holds is not reached.
"""

import time
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Final, final

from msgspec import Struct

from metier.errors import RecordError
from metier.record.glance import erases, rows_since
from metier.record.inside import records_of, with_inner
from metier.record.late import forget_calls
from metier.record.litter import clear_restores
from metier.record.question_key import forget_all, forget_old
from metier.record.schema import KNOWS_SETTING

if TYPE_CHECKING:
    import sqlite3

    from metier.record.database import Database

_AT_ONCE: Final = 200
"""Others write between two groups."""


def erase(database: "Database", seqs: Iterable[int], *, by: str) -> int:
    """Erase the payloads of these records, and give of how many. One whose payloads are gone already is done again silently.

    Raises:
        RecordError: when a record cannot be found (the others are done), or the old bytes could not be driven out of the
            write-ahead file; doing it again will.
        StateError: when it cannot be written or recorded; groups that were done stay done.
    """
    from metier.record.chain import Act, append, now

    lost: list[int] = []
    clear_restores(database.path)
    with database.transaction(quiet=True) as connection:
        forget_old(connection, time.time())  # also where there is nothing else to be erased
    waiting, done = iter(seqs), 0
    while group := list(islice(waiting, _AT_ONCE)):
        with database.transaction(quiet=True) as connection:
            forget_all(connection)
            for seq in group:
                row = connection.execute(
                    "SELECT keys IS NOT NULL FROM audit WHERE seq = ?", (seq,)
                ).fetchone()
                if row is None:
                    lost.append(seq)
                    continue
                if not row[0]:
                    continue
                if not _is_erased(connection, seq):
                    record = append(connection, "payload_erased", Act(principal=by), at=now(), about=seq)
                    connection.execute("INSERT OR REPLACE INTO erasure VALUES (?, ?)", (seq, record))
                    done += 1
                connection.execute(
                    "UPDATE audit SET keys = zeroblob(length(keys)), kept = zeroblob(length(kept)) WHERE seq = ?",
                    (seq,),
                )
    if not database.flush():
        raise RecordError(
            "the payloads are erased, but the write-ahead file still holds the old bytes",
            remedy="Close the other programs that read the database, then erase again",
        )
    if lost:
        raise RecordError(
            f"record {', '.join(map(str, lost[:10]))} cannot be found, and its payloads are not erased; all others are",
            remedy="Run `metier audit verify` to see what is wrong with the log",
        )
    return done


def require_records(database: "Database", seqs: Iterable[int]) -> None:
    """Refuse numbers that no record has, before anything is done.

    Raises:
        RecordError: naming the first of them.
    """
    with database.reading() as connection:
        newest: int = connection.execute("SELECT coalesce(max(seq), 0) FROM audit").fetchone()[0]
        for seq in seqs:
            if seq > newest:
                there = f"the newest is {newest}" if newest else "there is none yet"
                raise RecordError(
                    f"there is no record {seq} ({there}); nothing was erased",
                    remedy="`metier audit tail` shows their numbers",
                )
            if connection.execute("SELECT 1 FROM audit WHERE seq = ?", (seq,)).fetchone() is None:
                raise RecordError(
                    f"record {seq} cannot be found; nothing was erased",
                    remedy="Run `metier audit verify` to see what is wrong with the log",
                )


def erase_call(database: "Database", call_id: str, *, by: str) -> int:
    """Erase everything that was kept of one call and of those made inside of it: the payloads of their records, and what
    approvals of them still hold.

    Raises:
        RecordError: when there is no such call, one of them still waits for a decision or for its turn, or as `erase`.
        StateError: as `erase`.
    """
    from metier.record.payload import bounded_text

    call_id = bounded_text(call_id)  # as it is stored
    with database.reading() as connection:
        calls = with_inner(connection, frozenset({call_id}))
        found, seqs = records_of(connection, calls)
        _require_none(_waiting(connection, calls), call_id)
    if call_id not in found:
        raise RecordError(
            "there is no record of such a call; nothing was erased",
            remedy="`metier audit tail` shows their names",
        )
    with database.transaction(quiet=True) as connection:
        _require_none(_waiting(connection, calls), call_id)
        _blank_approvals(connection, calls)
        forget_all(connection)
    return erase(database, seqs, by=by)


def erase_calls(database: "Database", calls: frozenset[str], *, by: str) -> frozenset[str]:
    """The same for several, for who erases what they were about: one that still waits does not keep the others. Gives all whose
    payloads are gone, with those made inside of them.

    Raises:
        RecordError: when some still wait and are left, or as `erase`.
        StateError: as `erase`.
    """
    with database.reading() as connection:
        everyone = with_inner(connection, calls)
        waiting = _waiting(connection, everyone)
        found, seqs = records_of(connection, everyone - waiting.keys())
    with database.transaction(quiet=True) as connection:
        _blank_approvals(connection, everyone - waiting.keys() - _waiting(connection, everyone).keys())
    erase(database, seqs, by=by)
    _require_none(waiting)
    return found


def calls_of(database: "Database", seqs: Iterable[int]) -> frozenset[str]:
    """The calls that these records are about."""
    from metier.record.glance import Glance, glance

    found: set[str] = set()
    with database.reading() as connection:
        for seq in seqs:
            row = connection.execute(
                "SELECT body FROM audit WHERE seq = ? AND typeof(body) = 'blob'", (seq,)
            ).fetchone()
            record = glance(row[0]) if row is not None else ""
            if isinstance(record, Glance) and record.call_id:
                found.add(record.call_id)
    return frozenset(found)


@final
class Old(Struct, frozen=True, kw_only=True):
    """What is older than a day."""

    seqs: list[int]
    """Records that still have payloads, oldest first."""
    unreadable: list[int]
    """Records of which nobody can say how old they are."""


def older_than(database: "Database", at: str) -> Old:
    """The records from before the time `at`.

    A clock may have been wrong for a while: a record is as old as the youngest before it, so that nothing is erased too early
    for a clock that was set back. What is from the future is as old as the next record that is not, so that nothing is erased
    too early for a clock that was ahead, and nothing is kept for ever.
    """
    from metier.record.chain import now
    from metier.record.glance import Glance, glance

    found: list[int] = []
    unsure: list[int] = []
    unreadable: list[int] = []
    reached, present = "", now()
    with database.reading() as connection:
        for seq, body, kept in connection.execute(
            "SELECT seq, iif(typeof(body) = 'blob', body, x''), keys IS NOT NULL FROM audit ORDER BY seq"
        ):
            record = glance(body)
            if not isinstance(record, Glance):
                unreadable.append(seq)
                continue
            ahead = record.at > present
            if reached < record.at and not ahead:
                reached = record.at
            if reached >= at:
                break
            waiting = kept and not _is_erased(connection, seq)
            if ahead:
                unsure += [seq] if waiting else []
                continue
            found += [*unsure, seq] if waiting else unsure
            unsure.clear()
    return Old(seqs=found, unreadable=unreadable)


def _is_erased(connection: "sqlite3.Connection", seq: int) -> bool:
    """Whether a record says so. A row in the table that no record stands for says nothing."""
    row = connection.execute(
        """SELECT body FROM audit WHERE seq = (SELECT record FROM erasure WHERE erasure.seq = ?)
               AND typeof(body) = 'blob'""",
        (seq,),
    ).fetchone()
    return row is not None and erases(row[0], seq)


def _waiting(connection: "sqlite3.Connection", calls: frozenset[str]) -> dict[str, str]:
    """Those that may still run, and the approval of each."""
    rows = rows_since(
        KNOWS_SETTING,
        connection,
        "SELECT call_id, id FROM approval WHERE state IN ('pending', 'approved')",
    )
    return {call: approval for call, approval in rows if call in calls}


def _require_none(waiting: dict[str, str], call_id: str = "") -> None:
    if not waiting:
        return
    which = call_id if call_id in waiting else min(waiting)
    what = "the call has" if which == call_id else f"a call that came of it ({which}) has"
    raise RecordError(
        f"{what} not run yet, and what is erased now could not be shown or run any more",
        remedy=f"First deny it or take the decision back: metier approvals deny {waiting[which]}",
    )


def _blank_approvals(connection: "sqlite3.Connection", calls: frozenset[str]) -> None:
    """As long as before, so that every byte is overwritten where it lies."""
    asked = {call for (call,) in connection.execute("SELECT DISTINCT call_id FROM approval")} & calls
    connection.executemany(
        """UPDATE approval SET key = zeroblob(length(key)), call = zeroblob(length(call)),
               shown = zeroblob(length(shown))
           WHERE call_id = ?""",
        [(call,) for call in asked],
    )
    forget_calls(connection, asked)
