"""Which approvals were announced to whom, as it is kept: a restart announces nothing twice. Blocking."""

from collections.abc import Iterable, Mapping
from typing import Final, final

from msgspec import Struct

from metier.kernel.store import Store

KEPT_SECONDS: Final = 604_800.0
"""How long it is remembered what is over."""


@final
class Told(Struct, frozen=True, kw_only=True):
    """One approval of which one recipient was told, and not yet how it ended."""

    approval: str
    recipient: str
    references: tuple[str, ...]
    """What it takes to find the announcement again, and the reminder, where there is one."""
    reminded: bool


def open_announcements(store: Store, way: str) -> list[Told]:
    """What was told by this way and is not known to be over."""
    with store.reading() as connection:
        rows = connection.execute(
            "SELECT approval, recipient, reference, reminder, reminded FROM announced WHERE way = ? AND done = 0",
            (way,),
        ).fetchall()
    return [
        Told(approval=a, recipient=r, references=tuple(filter(None, found)), reminded=bool(m))
        for a, r, *found, m in rows
    ]


def over_for(store: Store, way: str, recipient: str, approvals: Iterable[str]) -> frozenset[str]:
    """Those of the approvals of which this recipient was told that they are over, or is not to be told at all."""
    with store.reading() as connection:
        return frozenset(
            each
            for each in approvals
            if connection.execute(
                "SELECT 1 FROM announced WHERE approval = ? AND way = ? AND recipient = ? AND done = 1",
                (each, way, recipient),
            ).fetchone()
        )


def announced(
    store: Store, way: str, recipient: str, references: Mapping[str, str], now: float, *, done: bool = False
) -> None:
    """He was told of these; with `done` it was in vain, and he is not told again."""
    with store.writing() as connection:
        connection.executemany(
            "INSERT OR REPLACE INTO announced (approval, way, recipient, reference, at, reminded, done) VALUES (?, ?, ?, ?, ?, 0, ?)",
            [(each, way, recipient, reference, now, int(done)) for each, reference in references.items()],
        )


def reminded(store: Store, way: str, recipient: str, references: Mapping[str, str]) -> None:
    """He was reminded of these."""
    with store.writing() as connection:
        connection.executemany(
            "UPDATE announced SET reminded = 1, reminder = ? WHERE approval = ? AND way = ? AND recipient = ?",
            [(reference, each, way, recipient) for each, reference in references.items()],
        )


def closed(store: Store, way: str, recipient: str, approval: str) -> None:
    """He knows what became of it."""
    with store.writing() as connection:
        connection.execute(
            "UPDATE announced SET done = 1 WHERE approval = ? AND way = ? AND recipient = ?",
            (approval, way, recipient),
        )


def forget_old(store: Store, now: float) -> None:
    """Forget what is long over."""
    with store.writing() as connection:
        connection.execute("DELETE FROM announced WHERE done = 1 AND at < ?", (now - KEPT_SECONDS,))
