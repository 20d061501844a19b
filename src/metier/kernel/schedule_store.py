"""Schedules as kernel.db keeps them. Every function blocks. A row that cannot be understood any more is listed as broken."""

import time
from collections.abc import Mapping
from typing import Final, TypeAlias, final

from msgspec import Struct
from msgspec.structs import replace

from metier.kernel.behalf import Behalf
from metier.kernel.definition_kept import remove, understood
from metier.kernel.operation import OperationError
from metier.kernel.schedule import LATEST, AnySchedule, read, written
from metier.kernel.schedule_clock import next_due
from metier.kernel.schedule_missed import not_believed
from metier.kernel.store import Store
from metier.model.text import one_line

FULL: Final = "E_SCHEDULES_FULL"
UNKNOWN: Final = "E_SCHEDULES_UNKNOWN"
MOST_ENABLED: Final = 20
MOST_SCHEDULES: Final = 200
_DAMAGED: Final = "what is stored of when it is due is damaged; remove it and set it up again"
_COLUMNS: Final = "id, owner, skill, enabled, definition, created_at, next_due, last_due, last_outcome, missed, since, accounted"
_Row: TypeAlias = tuple[str, str, str, int, str, float, float | None, float | None, str, int, str, float]


@final
class KeptSchedule(Struct, frozen=True, kw_only=True):
    """One of them."""

    id: str
    owner: str
    since: str = ""
    """When he was registered (`behalf`)."""
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
    """By the clock of now (`schedule_missed`)."""
    accounted: float = 0.0
    """Until when, by any clock there was, it is known of every moment whether it was done, missed, or not wanted."""

    @property
    def behalf(self) -> Behalf:
        return Behalf(self.owner, self.since)

    @property
    def name(self) -> str:
        return self.schedule.name if self.schedule is not None else ""


def stored(
    store: Store, new: Mapping[str, AnySchedule], *, owner: str, skill: str, since: str = ""
) -> dict[str, float]:
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
                "INSERT INTO schedule VALUES (?, ?, ?, ?, ?, ?, ?, NULL, '', 0, ?, ?)",
                (id, owner, skill, int(schedule.enabled), written(schedule), now, dues[id], since, now),
            )
    return dues


def all_schedules(store: Store) -> list[KeptSchedule]:
    """In the order they were made."""
    with store.reading() as connection:
        found = _rows(
            connection.execute(f"SELECT {_COLUMNS} FROM schedule ORDER BY created_at, id").fetchall()  # noqa: S608
        )
        ahead = not_believed(connection, time.time())
    return [replace(each, missed=max(each.missed - ahead.get(each.id, 0), 0)) for each in found]


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


def enable(store: Store, kept: KeptSchedule, schedule: AnySchedule, since: str | None = None) -> float:
    """Let it be due again, from now on: what lay between is neither done nor missed. Where it is its owner who lets it, `since` is
    when he was registered.

    Raises:
        OperationError: where too many are enabled, or it would never be due.
    """
    now = time.time()
    due = _due(schedule, now, kept.created_at)
    with store.writing() as connection:
        rows = _rows(connection.execute(f"SELECT {_COLUMNS} FROM schedule").fetchall())  # noqa: S608
        _require_room([each for each in rows if each.id != kept.id], 1)
        connection.execute(
            "UPDATE schedule SET enabled = 1, next_due = ?, since = coalesce(?, since), accounted = max(accounted, ?) "
            "WHERE id = ?",
            (due, since, now, kept.id),
        )
    return due


def disable(store: Store, id: str) -> None:
    """It is not due until it is enabled."""
    with store.writing() as connection:
        connection.execute("UPDATE schedule SET enabled = 0 WHERE id = ?", (id,))


def removed(store: Store, id: str) -> None:
    """It and what is known of its firings."""
    with store.writing() as connection:
        remove(connection, "schedule", id)
        connection.execute("DELETE FROM schedule_missed WHERE schedule = ?", (id,))


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
    id, owner, skill, enabled, definition, created, due, last_due, last_outcome, missed, since, accounted = (
        row
    )
    schedule, problem = understood(read, definition, id, owner, skill)
    if not all(0 <= at <= LATEST for at in (created, due or 0.0, last_due or 0.0, accounted)):
        schedule, problem, created, due, last_due, accounted = None, problem or _DAMAGED, 0.0, None, None, 0.0
    return KeptSchedule(
        id=id,
        owner=owner,
        since=since,
        skill=skill,
        enabled=bool(enabled),
        schedule=schedule,
        problem=problem,
        created_at=created,
        next_due=due,
        last_due=last_due,
        last_outcome=last_outcome,
        missed=missed,
        accounted=accounted,
    )
