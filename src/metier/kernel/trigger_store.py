"""Triggers as kernel.db keeps them. Every function blocks.

A row that cannot be understood any more is listed as broken, with the reason, and fires nothing; the others do not notice.
"""

import time
from typing import Final, TypeAlias, final

from msgspec import Struct

from metier.kernel.behalf import Behalf
from metier.kernel.definition_kept import readable, remove, understood
from metier.kernel.operation import OperationError
from metier.kernel.store import Store
from metier.kernel.trigger import AnyTrigger, read, written
from metier.model.text import one_line

FULL: Final = "E_TRIGGERS_FULL"
UNKNOWN: Final = "E_TRIGGERS_UNKNOWN"
MOST_TRIGGERS: Final = 200
LONGEST_SAID: Final = 300
_COLUMNS: Final = "id, owner, skill, enabled, definition, created_at, last_fired, fired, last_outcome, since"
_Row: TypeAlias = tuple[str, str, str, int, str, float, float, int, str, str]


@final
class KeptTrigger(Struct, frozen=True, kw_only=True):
    """One of them."""

    id: str
    owner: str
    """Who set it up, and on whose behalf it acts."""
    since: str = ""
    """When he was registered (`behalf`)."""
    skill: str
    """Whose file it was taken from; empty where a person wrote it."""
    enabled: bool
    trigger: AnyTrigger | None
    """None where it is broken."""
    problem: str = ""
    may_replace: tuple[str, ...] = ()
    """Of one that is broken: the tools in place of whose calls it may have stood, as far as can be read."""
    created_at: float
    last_fired: float
    fired: int
    last_outcome: str

    @property
    def behalf(self) -> Behalf:
        return Behalf(self.owner, self.since)

    @property
    def name(self) -> str:
        return self.trigger.name if self.trigger is not None else ""


def stored(store: Store, new: dict[str, AnyTrigger], *, owner: str, skill: str, since: str = "") -> None:
    """Put them there by their ids, all or none.

    Raises:
        OperationError: where there are too many, or one of such a name is there.
        StateError: when it cannot be written.
    """
    with store.writing() as connection:
        rows: list[_Row] = connection.execute(f"SELECT {_COLUMNS} FROM trigger").fetchall()  # noqa: S608
        taken = {_kept(row).name for row in rows}
        if len(rows) + len(new) > MOST_TRIGGERS:
            raise OperationError(
                FULL, f"there are {len(rows)} triggers, and {MOST_TRIGGERS} are the most; remove some first"
            )
        for id, trigger in new.items():
            if trigger.name in taken:
                shown = one_line(trigger.name, 60)
                raise OperationError(
                    FULL, f"there is a trigger {shown!r} already; remove it, or take another name"
                )
            taken.add(trigger.name)
            connection.execute(
                "INSERT INTO trigger VALUES (?, ?, ?, ?, ?, ?, 0, 0, '', ?)",
                (id, owner, skill, int(trigger.enabled), written(trigger), time.time(), since),
            )


def all_triggers(store: Store) -> list[KeptTrigger]:
    """In the order they were made."""
    with store.reading() as connection:
        rows: list[_Row] = connection.execute(
            f"SELECT {_COLUMNS} FROM trigger ORDER BY created_at, id"  # noqa: S608
        ).fetchall()
    return [_kept(row) for row in rows]


def one_trigger(store: Store, id: str) -> KeptTrigger:
    """By its id or its name.

    Raises:
        OperationError: where there is none.
    """
    for each in all_triggers(store):
        if id in (each.id, each.name):
            return each
    raise OperationError(
        UNKNOWN, f"there is no trigger {one_line(id, 60)!r}; `metier triggers list` shows them"
    )


def switched(store: Store, id: str, *, enabled: bool, since: str | None = None) -> None:
    """Let it fire, or not. Where it is its owner who lets it, `since` is when he was registered."""
    with store.writing() as connection:
        connection.execute(
            "UPDATE trigger SET enabled = ?, since = coalesce(?, since) WHERE id = ?",
            (int(enabled), since, id),
        )


def removed(store: Store, id: str) -> None:
    """It and what is known of its firings."""
    with store.writing() as connection:
        remove(connection, "trigger", id)


def said(store: Store, id: str, outcome: str) -> None:
    """Why it did not fire, or how that ended, for who asks for it."""
    with store.writing() as connection:
        connection.execute(
            "UPDATE trigger SET last_outcome = ? WHERE id = ?", (one_line(outcome, LONGEST_SAID), id)
        )


def _may_replace(definition: str) -> tuple[str, ...]:
    """Whatever cannot be read of it may have said that it stands in place of calls."""
    found = readable(definition)
    timing, names = found.get("timing"), found.get("toolNames")
    if found.get("type") in ("message", "event", "condition") or timing in ("before", "after"):
        return ()
    if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
        return ("*",)
    return tuple(map(str, names))


def _kept(row: _Row) -> KeptTrigger:
    id, owner, skill, enabled, definition, created_at, last_fired, fired, last_outcome, since = row
    trigger, problem = understood(read, definition, id, owner, skill)
    return KeptTrigger(
        id=id,
        owner=owner,
        since=since,
        skill=skill,
        enabled=bool(enabled),
        trigger=trigger,
        problem=problem,
        may_replace=_may_replace(definition) if trigger is None else (),
        created_at=created_at,
        last_fired=last_fired,
        fired=fired,
        last_outcome=last_outcome,
    )
