"""What was fired, when, and how it ended. Every function blocks.

A firing is claimed before it begins, in one transaction with what makes it due no more: so two processes, or one that was killed
and started again, do not both fire.
"""

import time
from typing import Final, Literal, TypeAlias, final

from msgspec import Struct

from metier.kernel.firing_rate import Often, count, count_not, too_often
from metier.kernel.store import Store
from metier.model.text import one_line

Kind: TypeAlias = Literal["trigger", "schedule"]
KEPT: Final = 1_000
"""Of one trigger or schedule, however often others fire."""
_SWEEP: Final = 100
"""After so many firings of a trigger its oldest are let go of."""
_SWEPT: Final = """DELETE FROM firing WHERE kind = 'trigger' AND what = ? AND ended_at IS NOT NULL AND id <= (
  SELECT id FROM firing WHERE kind = 'trigger' AND what = ? ORDER BY id DESC LIMIT 1 OFFSET ?)"""
_DECIDED: Final = "INSERT INTO replaced (message, trigger) VALUES (?, ?) ON CONFLICT DO NOTHING"
_LONGEST: Final = 300


@final
class Fired(Struct, frozen=True, kw_only=True):
    """One firing."""

    due: float
    attempt: int
    """0 for one that was missed."""
    call_id: str
    began_at: float
    ended_at: float | None
    outcome: str


def earlier(store: Store, what: str, due: float) -> tuple[int, bool]:
    """How often this very firing of a trigger was begun, and whether it came to its end."""
    with store.reading() as connection:
        row: tuple[int, float | None] | None = connection.execute(
            "SELECT attempt, ended_at FROM firing WHERE kind = 'trigger' AND what = ? AND due = ? "
            "ORDER BY attempt DESC LIMIT 1",
            (what, due),
        ).fetchone()
    return (0, False) if row is None else (row[0], row[1] is not None)


def begun(
    store: Store, what: str, due: float, attempt: int, often: Often, *, instead_of: int = 0
) -> tuple[int, str]:
    """A trigger begins to fire. The firing's number; or 0, and why it may not fire so often. 0 and nothing where somebody else began
    it, or it was just disabled or removed.

    Args:
        attempt: only the first one is counted.
        instead_of: the message in place of whose other triggers it fires. That is kept in the same step: whoever handles the message
            again after a crash must not fire what was kept from firing.
    """
    if attempt == 1:
        with store.reading() as connection:  # a flood must not keep others from writing
            if why := too_often(connection, what, often, time.time()):
                return 0, why
    with store.writing() as connection:
        now = time.time()
        if attempt == 1 and (why := too_often(connection, what, often, now)):
            return 0, why
        cursor = connection.execute(
            "INSERT INTO firing (kind, what, due, attempt, call_id, began_at, ended_at, outcome) "
            "SELECT 'trigger', id, ?, ?, '', ?, NULL, '' FROM trigger WHERE id = ? AND enabled = 1 ON CONFLICT DO NOTHING",
            (due, attempt, now, what),
        )
        if cursor.rowcount == 0:
            return 0, ""
        number = cursor.lastrowid or 0
        if instead_of:
            connection.execute(_DECIDED, (instead_of, what))
        if attempt == 1:
            count(connection, number, what, often, now)
        (fired,) = connection.execute(
            "UPDATE trigger SET last_fired = ?, fired = fired + 1 WHERE id = ? RETURNING fired", (now, what)
        ).fetchone()
        if fired % _SWEEP == 0:
            connection.execute(_SWEPT, (what, what, KEPT))
    return number, ""


def not_begun(store: Store, number: int) -> None:
    """A firing that began came to nothing and will be tried anew: nothing was done, and nothing is counted. Who stands in the place of
    others stays written down."""
    with store.writing() as connection:
        connection.execute("DELETE FROM firing WHERE id = ?", (number,))
        count_not(connection, number)


def stands_in(store: Store, message: int) -> str | None:
    """The trigger that fires in place of all others that a message sets off; empty where it was decided that none does, None where
    nothing is decided yet."""
    with store.reading() as connection:
        row: tuple[str] | None = connection.execute(
            "SELECT trigger FROM replaced WHERE message = ?", (message,)
        ).fetchone()
    return row[0] if row is not None else None


def none_stands_in(store: Store, message: int) -> None:
    """None fires in place of the others, and they are about to."""
    with store.writing() as connection:
        connection.execute(_DECIDED, (message, ""))


def settled(store: Store, message: int) -> None:
    """The message is done with."""
    with store.writing() as connection:
        connection.execute("DELETE FROM replaced WHERE message = ?", (message,))


def ended(store: Store, kind: Kind, what: str, number: int, outcome: str, call_id: str) -> None:
    """It came to its end, and this is how."""
    told = one_line(outcome, _LONGEST)
    with store.writing() as connection:
        connection.execute(
            "UPDATE firing SET ended_at = ?, outcome = ?, call_id = ? WHERE id = ?",
            (time.time(), told, call_id, number),
        )
        connection.execute(
            f"UPDATE {'trigger' if kind == 'trigger' else 'schedule'} SET last_outcome = ? WHERE id = ?",  # noqa: S608
            (told, what),
        )


def firings(store: Store, kind: Kind, what: str, most: int) -> list[Fired]:
    """The last ones, latest first."""
    with store.reading() as connection:
        rows: list[tuple[float, int, str, float, float | None, str]] = connection.execute(
            "SELECT due, attempt, call_id, began_at, ended_at, outcome FROM firing "
            "WHERE kind = ? AND what = ? ORDER BY id DESC LIMIT ?",
            (kind, what, most),
        ).fetchall()
    return [
        Fired(due=due, attempt=attempt, call_id=call, began_at=began, ended_at=end, outcome=outcome)
        for due, attempt, call, began, end, outcome in rows
    ]
