"""What schedules missed, in stretches, as kernel.db keeps it. Every function blocks.

That something was missed is what the clock said at the time. So with each stretch it is kept when that was said, and what was said
later than now was said by a clock that was ahead: as long as that lies ahead it is not believed. What of it then comes is done, or
missed by the clock of now, and taken out of that stretch.
"""

import sqlite3
from typing import Final, TypeAlias, final

from msgspec import Struct

from metier.kernel.schedule import AnySchedule
from metier.kernel.schedule_clock import TICK, Stretch, counted, latest, next_due
from metier.kernel.store import Store

_KEPT: Final = 100
"""Stretches of one schedule. How many moments were missed in all is kept with the schedule itself."""
_Row: TypeAlias = tuple[int, float, float, int, float, str]
_COLUMNS: Final = "id, first, last, count, said_at, why"


@final
class Missed(Struct, frozen=True, kw_only=True):
    """One stretch."""

    id: int
    stretch: Stretch
    said_at: float
    why: str


def believed(store: Store, schedule: str, now: float) -> list[Missed]:
    """What it missed, as far as is known now, latest first."""
    with store.reading() as connection:
        return [each for each in _all(connection, schedule) if each.said_at <= now][::-1]


def not_believed(connection: sqlite3.Connection, now: float) -> dict[str, int]:
    """How many moments of each schedule count as missed only by a clock that was ahead."""
    return dict(
        connection.execute(
            "SELECT schedule, sum(count) FROM schedule_missed WHERE said_at > ? GROUP BY schedule", (now,)
        ).fetchall()
    )


def moments(each: Missed, schedule: AnySchedule, created_at: float, most: int) -> list[float]:
    """The last of them, latest first."""
    found = latest(schedule, each.stretch.first, each.stretch.last, created_at, most)
    return found[::-1][: each.stretch.count]


def add(connection: sqlite3.Connection, schedule: str, found: Stretch, said_at: float, why: str) -> None:
    """These were missed."""
    connection.execute(
        "INSERT INTO schedule_missed (schedule, first, last, count, said_at, why) VALUES (?, ?, ?, ?, ?, ?)",
        (schedule, found.first, found.last, found.count, said_at, why),
    )
    connection.execute(
        "DELETE FROM schedule_missed WHERE schedule = ? AND id <= "
        "(SELECT id FROM schedule_missed WHERE schedule = ? ORDER BY id DESC LIMIT 1 OFFSET ?)",
        (schedule, schedule, _KEPT),
    )


def taken_out(
    connection: sqlite3.Connection,
    id: str,
    schedule: AnySchedule,
    created_at: float,
    since: float,
    now: float,
) -> int:
    """What lies between `since` and `now` is accounted for anew, by the clock of now: it is taken out of what counted as missed by
    another. How many moments."""
    number = 0
    for each in _all(connection, id):
        if each.stretch.first <= now and each.stretch.last >= since:
            before, rest = _cut(connection, id, each, schedule, created_at, since, now)
            if before:
                kept = Stretch(first=each.stretch.first, last=since - TICK, count=before)
                add(connection, id, kept, min(each.said_at, now), each.why)  # behind us by this clock too
            number += each.stretch.count - before - rest
    return number


def said_again(
    connection: sqlite3.Connection, id: str, schedule: AnySchedule, created_at: float, now: float
) -> None:
    """Of what a clock that was ahead counted as missed, what lies behind us by the clock of now too was missed indeed."""
    for each in _all(connection, id):
        if each.stretch.first <= now < each.said_at:
            _, rest = _cut(connection, id, each, schedule, created_at, each.stretch.first, now)
            count = each.stretch.count - rest
            past = Stretch(first=each.stretch.first, last=min(each.stretch.last, now), count=count)
            add(connection, id, past, now, each.why)


def _cut(
    connection: sqlite3.Connection,
    id: str,
    each: Missed,
    schedule: AnySchedule,
    created_at: float,
    since: float,
    now: float,
) -> tuple[int, int]:
    """Leave only what is still to come of a stretch. How many of its moments lie before `since`, and how many are left."""
    was = each.stretch
    before = min(counted(schedule, was.first, since - TICK, created_at), was.count)
    first = next_due(schedule, now, created_at)
    left = was.count - before - counted(schedule, max(was.first, since), now, created_at)
    connection.execute("DELETE FROM schedule_missed WHERE id = ?", (each.id,))
    if first is None or first > was.last or left <= 0:
        return before, 0
    add(connection, id, Stretch(first=first, last=was.last, count=left), each.said_at, each.why)
    return before, left


def _all(connection: sqlite3.Connection, schedule: str) -> list[Missed]:
    rows: list[_Row] = connection.execute(
        f"SELECT {_COLUMNS} FROM schedule_missed WHERE schedule = ? ORDER BY said_at, id",  # noqa: S608
        (schedule,),
    ).fetchall()
    return [
        Missed(id=id, stretch=Stretch(first=first, last=last, count=count), said_at=said_at, why=why)
        for id, first, last, count, said_at, why in rows
    ]
