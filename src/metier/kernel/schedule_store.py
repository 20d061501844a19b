"""Schedules as kernel.db keeps them. Every function blocks. A row that cannot be understood any more is listed as broken."""

import time
from collections.abc import Mapping
from typing import Final, TypeAlias, final

from msgspec import Struct

from metier.kernel.definition_kept import remove, understood
from metier.kernel.firing_store import KEPT
from metier.kernel.operation import OperationError
from metier.kernel.schedule import AnySchedule, read, written
from metier.kernel.schedule_clock import next_due
from metier.kernel.store import Store
from metier.model.text import one_line
from metier.record.backup_beside import RESTORED

FULL: Final = "E_SCHEDULES_FULL"
UNKNOWN: Final = "E_SCHEDULES_UNKNOWN"
MOST_ENABLED: Final = 20
MOST_SCHEDULES: Final = 200
NO_HOST: Final = "no host was running"
BROUGHT_BACK: Final = "the state was restored from a backup, so it may have been done already"
_LOOKED_AT: Final = 100
_TICK: Final = 0.001
"""Moments are known to the millisecond."""
_COLUMNS: Final = (
    "id, owner, skill, enabled, definition, created_at, next_due, last_due, last_outcome, missed"
)
_Row: TypeAlias = tuple[str, str, str, int, str, float, float | None, float | None, str, int]
_MISSED: Final = (
    "INSERT INTO firing (kind, what, due, attempt, call_id, began_at, ended_at, outcome) "
    "VALUES ('schedule', ?, ?, 0, '', ?, ?, 'missed') ON CONFLICT DO NOTHING"
)
_BEGUN: Final = (
    "INSERT INTO firing (kind, what, due, attempt, call_id, began_at, ended_at, outcome) "
    "VALUES ('schedule', ?, ?, ?, '', ?, NULL, '') ON CONFLICT DO NOTHING"
)


@final
class KeptSchedule(Struct, frozen=True, kw_only=True):
    """One of them."""

    id: str
    owner: str
    skill: str
    enabled: bool
    schedule: AnySchedule | None
    """None where it is broken."""
    problem: str = ""
    created_at: float
    next_due: float | None
    last_due: float | None
    last_outcome: str
    missed: int

    @property
    def name(self) -> str:
        return self.schedule.name if self.schedule is not None else ""


def stored(store: Store, new: Mapping[str, AnySchedule], *, owner: str, skill: str) -> dict[str, float]:
    """Put them there by their ids, all or none. When each is due.

    Raises:
        OperationError: where there are too many, one of such a name is there, or one would never be due.
    """
    now = time.time()
    dues: dict[str, float] = {}
    with store.writing() as connection:
        rows = _rows(connection.execute(f"SELECT {_COLUMNS} FROM schedule").fetchall())  # noqa: S608
        if len(rows) + len(new) > MOST_SCHEDULES:
            raise OperationError(
                FULL, f"there are {len(rows)} schedules, and {MOST_SCHEDULES} are the most; remove some first"
            )
        _require_room(rows, sum(each.enabled for each in new.values()))
        taken = {each.name for each in rows}
        for id, schedule in new.items():
            dues[id] = _due(schedule, now, now)
            if schedule.name in taken:
                shown = one_line(schedule.name, 60)
                raise OperationError(
                    FULL, f"there is a schedule {shown!r} already; remove it, or take another name"
                )
            taken.add(schedule.name)
            connection.execute(
                "INSERT INTO schedule VALUES (?, ?, ?, ?, ?, ?, ?, NULL, '', 0)",
                (id, owner, skill, int(schedule.enabled), written(schedule), now, dues[id]),
            )
    return dues


def all_schedules(store: Store) -> list[KeptSchedule]:
    """In the order they were made."""
    with store.reading() as connection:
        return _rows(
            connection.execute(f"SELECT {_COLUMNS} FROM schedule ORDER BY created_at, id").fetchall()  # noqa: S608
        )


def one_schedule(store: Store, id: str) -> KeptSchedule:
    """By its id or its name.

    Raises:
        OperationError: where there is none.
    """
    for each in all_schedules(store):
        if id in (each.id, each.name):
            return each
    raise OperationError(
        UNKNOWN, f"there is no schedule {one_line(id, 60)!r}; `metier schedules list` shows them"
    )


def enable(store: Store, kept: KeptSchedule, schedule: AnySchedule) -> float:
    """Let it be due again, from now on: what lay between is neither done nor missed.

    Raises:
        OperationError: where too many are enabled, or it would never be due.
    """
    due = _due(schedule, time.time(), kept.created_at)
    with store.writing() as connection:
        rows = _rows(connection.execute(f"SELECT {_COLUMNS} FROM schedule").fetchall())  # noqa: S608
        _require_room([each for each in rows if each.id != kept.id], 1)
        connection.execute("UPDATE schedule SET enabled = 1, next_due = ? WHERE id = ?", (due, kept.id))
    return due


def disable(store: Store, id: str) -> None:
    """It is not due until it is enabled."""
    with store.writing() as connection:
        connection.execute("UPDATE schedule SET enabled = 0 WHERE id = ?", (id,))


def removed(store: Store, id: str) -> None:
    """It and what is known of its firings."""
    with store.writing() as connection:
        remove(connection, "schedule", id)


def claim(
    store: Store,
    kept: KeptSchedule,
    due: float | None,
    missed: list[float],
    count: int,
    following: float | None,
    why: str = NO_HOST,
) -> int:
    """In one step: what is due is taken, what was missed is written down, and the next moment is set. The number of the firing; 0
    where there is nothing to do, somebody else took it, or it was done before (the clock was set back)."""
    now = time.time()
    with store.writing() as connection:
        done = connection.execute(
            "SELECT 1 FROM firing WHERE kind = 'schedule' AND what = ? AND due = ?", (kept.id, due)
        ).fetchone()
        taken = due if done is None else None
        cursor = connection.execute(
            "UPDATE schedule SET next_due = ?, missed = missed + ?, last_due = coalesce(?, last_due) "
            "WHERE id = ? AND enabled = 1 AND next_due IS ?",
            (following, count, taken, kept.id, kept.next_due),
        )
        if cursor.rowcount == 0:
            return 0
        connection.executemany(_MISSED, [(kept.id, each, now, now) for each in missed])
        if missed and due is None:
            connection.execute(
                "UPDATE schedule SET last_outcome = ? WHERE id = ?",
                (f"missed {count}: {why}", kept.id),
            )
        begun = connection.execute(_BEGUN, (kept.id, taken, 1, now)).lastrowid if taken is not None else 0
        # Numbers are counted over everything that fires, so it is the rows of this one that are counted.
        connection.execute(
            "DELETE FROM firing WHERE kind = 'schedule' AND what = ? AND ended_at IS NOT NULL AND id <= "
            "(SELECT id FROM firing WHERE kind = 'schedule' AND what = ? ORDER BY id DESC LIMIT 1 OFFSET ?)",
            (kept.id, kept.id, KEPT),
        )
        return begun or 0


def accounted_until(store: Store, kept: KeptSchedule, schedule: AnySchedule, now: float) -> float:
    """From when on something may be due that is neither done nor written down as missed. Where the clock was wrong for a while, what
    is kept as the next moment may lie long before that."""
    with store.reading() as connection:
        rows: list[tuple[float]] = connection.execute(
            "SELECT DISTINCT due FROM firing WHERE kind = 'schedule' AND what = ? AND due <= ? "
            "ORDER BY due DESC LIMIT ?",
            (kept.id, now, _LOOKED_AT),
        ).fetchall()
    # What a person had done in between is no moment at which it was due.
    last = next((at for (at,) in rows if next_due(schedule, at - _TICK, kept.created_at) == at), None)
    since = kept.next_due if kept.next_due is not None else now
    if kept.created_at <= now:
        since = max(since, kept.created_at)
    return since if last is None else max(since, last + 2 * _TICK)


def restored_at(store: Store) -> float:
    """When all of this came back from a backup; 0 where it never did, or the clock was set back since."""
    with store.reading() as connection:
        row = connection.execute("SELECT value FROM cursor WHERE name = ?", (RESTORED,)).fetchone()
    now = time.time()
    try:
        at = float(row[0]) if row is not None else 0.0
    except ValueError:  # it did, and nobody can read when
        return now
    return at if at <= now else 0.0


def tried_again(store: Store, id: str, due: float, attempt: int) -> int:
    """A further attempt begins. Its number; 0 where somebody else makes it, or the schedule was switched off or removed meanwhile."""
    with store.writing() as connection:
        if (
            connection.execute("SELECT 1 FROM schedule WHERE id = ? AND enabled = 1", (id,)).fetchone()
            is None
        ):
            return 0
        cursor = connection.execute(_BEGUN, (id, due, attempt, time.time()))
        return (cursor.lastrowid or 0) if cursor.rowcount else 0


def moved(store: Store, kept: KeptSchedule, due: float) -> None:
    """The clock was set back, so the next moment is another."""
    with store.writing() as connection:
        connection.execute(
            "UPDATE schedule SET next_due = ? WHERE id = ? AND next_due IS ?", (due, kept.id, kept.next_due)
        )


def cut_off(store: Store) -> int:
    """At the start of a host: what an earlier one began and never ended is not done again, and that is said. How many."""
    told = "cut off: the host ended meanwhile; it is not done again"
    with store.writing() as connection:
        connection.execute(
            "UPDATE schedule SET last_outcome = ? WHERE id IN "
            "(SELECT what FROM firing WHERE kind = 'schedule' AND ended_at IS NULL)",
            (told,),
        )
        return connection.execute(
            "UPDATE firing SET ended_at = ?, outcome = ? WHERE kind = 'schedule' AND ended_at IS NULL",
            (time.time(), told),
        ).rowcount


def _due(schedule: AnySchedule, now: float, created_at: float) -> float:
    due = next_due(schedule, now, created_at)
    if due is None:
        raise OperationError(FULL, f"{one_line(schedule.name, 60)!r} lies in the past and would never be due")
    return due


def _require_room(rows: list[KeptSchedule], more: int) -> None:
    enabled = sum(each.enabled and each.next_due is not None for each in rows)
    if more and enabled + more > MOST_ENABLED:
        raise OperationError(
            FULL, f"{enabled} schedules are enabled, and {MOST_ENABLED} are the most; disable some first"
        )


def _rows(rows: list[_Row]) -> list[KeptSchedule]:
    return [_kept(row) for row in rows]


def _kept(row: _Row) -> KeptSchedule:
    id, owner, skill, enabled, definition, created_at, due, last_due, last_outcome, missed = row
    schedule, problem = understood(read, definition, id, owner, skill)
    return KeptSchedule(
        id=id,
        owner=owner,
        skill=skill,
        enabled=bool(enabled),
        schedule=schedule,
        problem=problem,
        created_at=created_at,
        next_due=due,
        last_due=last_due,
        last_outcome=last_outcome,
        missed=missed,
    )
