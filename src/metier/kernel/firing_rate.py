"""How often things may fire, and how long a chain may get in which one firing sets off the next.

How often is looked up in kernel.db, in the step in which a firing begins: so it holds for all processes together and outlives
each of them, and what could not begin is not counted.
"""

import sqlite3
from typing import Final, final

from msgspec import Struct

from metier.model.digest import digest_bytes

DEEPEST: Final = 4
"""How many firings may lie one behind the other: event, trigger, call, event, and so on."""
MOST_ROUNDS: Final = 16
"""The same, where it can only be guessed that one set off the other (`firing_guess`). One that has much to tell does so anyway, so
the bound is wider."""
PER_SOURCE: Final = 120
"""Firings a minute that one chat, one skill or one caller may set off, over all triggers."""
_MINUTE: Final = 60.0


@final
class Often(Struct, frozen=True, kw_only=True):
    """How often one trigger may fire."""

    source: str
    """Who is counted for it: a chat, a skill, a caller."""
    cooldown: float = 0.0
    """Seconds that it rests after each firing."""
    per_minute: int = 6_000


def too_often(connection: sqlite3.Connection, trigger: str, often: Often, now: float) -> str:
    """Why it may not fire now; empty where it may. What lies in the future was written by a clock that was wrong, and counts for nothing."""
    if often.cooldown:
        row: tuple[float] | None = connection.execute(
            "SELECT last_fired FROM trigger WHERE id = ?", (trigger,)
        ).fetchone()
        if row is not None and now - often.cooldown < row[0] <= now:
            return f"it rests for {often.cooldown:g} s after each firing"
    mine, theirs = connection.execute(
        "SELECT count(*) FILTER (WHERE trigger = ?), count(*) FILTER (WHERE source = ?) FROM fired_lately WHERE at > ? AND at <= ?",
        (trigger, _kept(often.source), now - _MINUTE, now),
    ).fetchone()
    if mine >= often.per_minute:
        return f"it fired {often.per_minute} times in the last minute, which is the most"
    most = max(PER_SOURCE, often.per_minute)  # who lets one fire more often wants it to
    if theirs >= most:
        return f"{often.source} set off {most} firings in the last minute, which is the most"
    return ""


def count(connection: sqlite3.Connection, firing: int, trigger: str, often: Often, now: float) -> None:
    """It fires now. Called before that is written to the trigger itself."""
    connection.execute("DELETE FROM fired_lately WHERE at <= ? OR at > ?", (now - _MINUTE, now))
    connection.execute(
        "INSERT INTO fired_lately SELECT ?, id, ?, ?, last_fired FROM trigger WHERE id = ?",
        (firing, _kept(often.source), now, trigger),
    )


def count_not(connection: sqlite3.Connection, firing: int) -> None:
    """That firing came to nothing: its trigger may fire as if it had never begun."""
    row: tuple[str, float, float] | None = connection.execute(
        "DELETE FROM fired_lately WHERE firing = ? RETURNING trigger, at, before", (firing,)
    ).fetchone()
    if row is not None:
        trigger, at, before = row
        connection.execute(
            "UPDATE trigger SET fired = fired - 1, last_fired = iif(last_fired = ?, ?, last_fired) WHERE id = ?",
            (at, before, trigger),
        )


def _kept(source: str) -> str:
    """Not as it is: who erases a chat must not find it here."""
    return digest_bytes(source.encode("utf-8", "replace"))
