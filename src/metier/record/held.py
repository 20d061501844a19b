"""The connection that a database is held by. It remembers what it would else ask the file for again and again.

Everything it remembers was read or written over itself, and nobody else committed anything since: `Database` looks at the
beginning of every transaction and glance, and lets it forget when somebody did, or when something was undone.
"""

import sqlite3
from typing import Any, final


@final
class Held(sqlite3.Connection):
    """What it remembers is true only inside a transaction, a reading or a glance of `Database`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.version = -1
        """SQLite's `data_version`: another one after others committed anything."""
        self.changes = 0
        """How often something other than the record of calls was changed over it."""
        self.head: tuple[int, bytes] | None = None
        """Number and hash of the newest record."""
        self.counts: dict[str, tuple[int, int]] = {}
        """When the present stretch of a budget began, and how many calls were counted in it."""

    def forget(self) -> None:
        """Know nothing any more."""
        self.head = None
        self.counts.clear()
