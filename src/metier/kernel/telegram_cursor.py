"""How far what happened in Telegram was taken in, so that a restart begins there. Everything blocks; call it in a thread."""

import json
import time
from typing import Final, final

from metier.kernel.store import Store

FORGOTTEN: Final = 5 * 86_400.0
"""Seconds. After a week in which nothing happened the next number may be any, also a smaller one, and whoever asks from the old number
on has it thrown away. So an older number says nothing."""


@final
class Cursor:
    """The number of the next update that was not taken in, for one bot at one Bot API server: each server counts for itself."""

    def __init__(self, store: Store, bot: int, place: str) -> None:
        """`place` is the server's address."""
        self._store = store
        self._name = f"telegram.offset.{bot}@{place.rstrip('/').lower()}"

    def read(self) -> tuple[int, float]:
        """The number, and when the last one before it came; zeros where nothing is known."""
        with self._store.reading() as connection:
            row = connection.execute("SELECT value FROM cursor WHERE name = ?", (self._name,)).fetchone()
        try:
            offset, at = json.loads(row[0]) if row is not None else (0, 0.0)
            return int(offset), float(at)
        except (ValueError, TypeError, OverflowError):
            return 0, 0.0  # what cannot be read is asked for anew; nothing is stored twice

    def write(self, offset: int, at: float | None = None) -> None:
        """Keep it."""
        value = json.dumps([offset, time.time() if at is None else at])
        with self._store.writing() as connection:
            connection.execute("INSERT OR REPLACE INTO cursor VALUES (?, ?)", (self._name, value))


def in_time(at: float, now: float) -> bool:
    """Whether a number says anything that is of `at`. A clock that was set back says that nobody knows."""
    return 0 <= now - at < FORGOTTEN
