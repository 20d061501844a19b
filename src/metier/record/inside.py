"""The calls that were made inside of others: by the code of a skill, by hooks that were told of them, by triggers that they set off.

What such a call was given is often a copy of what the other was given, so whoever erases the one means the other too.
"""

from typing import TYPE_CHECKING, Final

from metier.record.glance import Glance, glance

if TYPE_CHECKING:
    import sqlite3

_ROUNDS: Final = 64
"""A call is mostly recorded before those inside of it, and one round finds all of these. What is asked before a call begins is
recorded before it, and takes one more; calls lie nowhere near as deep."""
_HAS_PARENT: Final = b'"parent":"'


def with_inner(connection: "sqlite3.Connection", calls: frozenset[str]) -> frozenset[str]:
    """These calls, and all that were made inside of them, however deep. Each round is a walk over the log."""
    found = set(calls)
    for _ in range(_ROUNDS if found else 0):
        before = len(found)
        rows = connection.execute(
            "SELECT body FROM audit WHERE typeof(body) = 'blob' AND instr(body, ?) > 0 ORDER BY seq",
            (_HAS_PARENT,),
        )
        for (body,) in rows:
            record = glance(body)
            if isinstance(record, Glance) and record.parent in found and record.call_id:
                found.add(record.call_id)
        if len(found) == before:
            break
    return frozenset(found)


def records_of(
    connection: "sqlite3.Connection", calls: frozenset[str]
) -> tuple[frozenset[str], tuple[int, ...]]:
    """Which of these calls are on record, and the records of theirs that have payloads. One walk, however many calls."""
    found: set[str] = set()
    seqs: list[int] = []
    rows = connection.execute(
        "SELECT seq, body, keys IS NOT NULL FROM audit WHERE typeof(body) = 'blob' ORDER BY seq"
    )
    for seq, body, kept in rows:
        record = glance(body)
        if isinstance(record, Glance) and record.call_id in calls:
            found.add(record.call_id)
            seqs += [seq] if kept else []
    return frozenset(found), tuple(seqs)
