"""How many calls began in the present stretch of time, counted once for all processes that share the state.

Stretches of so many seconds follow one another from the moment the machine was started, whatever its clock on the wall
is set to: set back it opens nothing again, set ahead and back it locks nobody out. A stretch never gives way to an earlier
one, also where a call was judged a while before it begins. Starting the machine anew starts the counting anew, after a few
minutes at most.
"""

import sqlite3
import time
from collections.abc import Sequence
from typing import Final, NewType, final

from msgspec import Struct

from metier.model.text import one_line
from metier.record.held import Held
from metier.record.schema import KNOWS_SETTING

Moment = NewType("Moment", float)
"""Seconds since the machine was started. Not the time of day, which can be set."""

MOST_SCOPES: Final = 4
SWEEP_EVERY: Final = 256
LATE_SECONDS: Final = 300
"""How long before it begins a call may have been judged. What lies further ahead was counted before the machine was
started the last time."""
MOST_KNOWN: Final = 4096
"""How many counts are remembered."""
KEEP_SECONDS: Final = 2 * 86_400
"""Longer than any stretch can be."""


@final
class Scope(Struct, frozen=True, kw_only=True):
    """Something that calls are counted for, and how many of them may begin in one stretch."""

    key: str
    """What kind: the key in `[budgets]`."""
    name: str
    """Whose."""
    calls: int
    seconds: int

    @property
    def id(self) -> str:
        return f"{self.key}:{self.name}"

    def began(self, now: Moment) -> int:
        """When the present stretch began."""
        return int(now) - int(now) % self.seconds


def moment() -> Moment:
    """Now, the same for every process of this machine; it also counts while the machine sleeps."""
    clock: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return Moment(time.clock_gettime(clock))


def exhausted_in(connection: sqlite3.Connection, scopes: Sequence[Scope], now: Moment) -> tuple[str, ...]:
    """Each budget that is used up, in words."""
    try:
        spent = _spent(connection, scopes, now)
    except sqlite3.OperationalError:
        # Asked only now: this is on the way of every call, and old state is rare.
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        if version >= KNOWS_SETTING:
            raise
        spent = [scope for scope in scopes if not scope.calls]
    return tuple(_words(scope, now) for scope in spent)


def budget_problem(connection: sqlite3.Connection, scopes: Sequence[Scope], now: Moment) -> str:
    """Why a call counted in `scopes` may not begin now; empty when it may."""
    spent = _spent(connection, scopes, now)
    return _words(spent[0], now) if spent else ""


def take_budget(connection: sqlite3.Connection, scopes: Sequence[Scope], now: Moment) -> None:
    """Count one call that begins."""
    known = connection.counts if isinstance(connection, Held) else {}
    rows: list[tuple[str, int, int]] = []
    for scope in scopes:
        id, (began, count) = scope.id, _counted(connection, scope, now)
        rows.append((id, began, count + 1))
        known[id] = began, count + 1
    connection.executemany(_WRITE, rows)
    if int(now) % SWEEP_EVERY == 0:
        latest = now + LATE_SECONDS
        connection.execute("DELETE FROM budget WHERE began NOT BETWEEN ? AND ?", (now - KEEP_SECONDS, latest))


_READ: Final = "SELECT began, count FROM budget WHERE scope = ?"
_WRITE: Final = """
INSERT INTO budget VALUES (?, ?, ?) ON CONFLICT (scope) DO UPDATE SET began = excluded.began, count = excluded.count
"""
_NEVER: Final = (-1, 0)


def _spent(connection: sqlite3.Connection, scopes: Sequence[Scope], now: Moment) -> list[Scope]:
    """Those used up in the present stretch, or in one that others began meanwhile."""
    return [scope for scope in scopes if _counted(connection, scope, now)[1] >= scope.calls]


def _counted(connection: sqlite3.Connection, scope: Scope, now: Moment) -> tuple[int, int]:
    """When the stretch began that counts now, and how many calls began in it."""
    known = connection.counts if isinstance(connection, Held) else {}
    found = known.get(scope.id)
    if found is None:
        found = connection.execute(_READ, (scope.id,)).fetchone() or _NEVER
        if not (isinstance(found[0], int) and isinstance(found[1], int)):
            found = _NEVER
        if len(known) >= MOST_KNOWN:
            known.clear()
        known[scope.id] = found
    began = scope.began(now)
    return found if began <= found[0] <= now + LATE_SECONDS else (began, 0)


def _words(scope: Scope, now: Moment) -> str:
    whose = f"{scope.key} {one_line(scope.name, 80)!r}"
    if not scope.calls:
        return (
            f"the budget of {whose} allows no calls at all; it is set in [budgets.{scope.key}] of metier.toml"
        )
    left = max(1, scope.began(now) + scope.seconds - int(now))
    return (
        f"the budget of {whose} is used up: {scope.calls:,} calls in {scope.seconds:,} seconds; the next may begin in "
        f"{left:,} seconds, and [budgets.{scope.key}] in metier.toml changes it"
    )
