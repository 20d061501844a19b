"""How far what happened in Telegram was taken in, so that a restart begins there. Everything blocks; call it in a thread."""

import json
import time
from typing import Final, final

from metier.kernel.store import Store

FORGOTTEN: Final = 5 * 86_400.0
"""Seconds. After a week of silence Telegram counts from anywhere, so an older number says nothing."""


@final
class Cursor:
    """The number of the next update that was not taken in, for one bot."""

    def __init__(self, store: Store, bot: str) -> None:
        self._store = store
        self._name = f"telegram.offset.{bot}"

    def read(self) -> int:
        """0 where nothing is known, or it is too old to be true."""
        with self._store.reading() as connection:
            row = connection.execute("SELECT value FROM cursor WHERE name = ?", (self._name,)).fetchone()
        try:
            offset, at = json.loads(row[0]) if row is not None else (0, 0.0)
            return int(offset) if 0 <= time.time() - float(at) < FORGOTTEN else 0
        except (ValueError, TypeError):
            return 0  # what cannot be read is asked for anew; nothing is stored twice

    def write(self, offset: int) -> None:
        """Keep it."""
        value = json.dumps([offset, time.time()])
        with self._store.writing() as connection:
            connection.execute("INSERT OR REPLACE INTO cursor VALUES (?, ?)", (self._name, value))
