"""What was said is erased: the words go, and that there was a message stays. Blocking.

The ids by which a channel knows its messages stay too: without them a message that is delivered a second time would come back.
Words are overwritten where they lie, by as many blanks. Then the file is written anew: SQLite leaves copies of rows behind when it
rearranges a page.
"""

import sqlite3
from collections.abc import Iterable
from typing import Final

from metier.errors import StateError
from metier.kernel.conversation_rows import WRITTEN
from metier.kernel.store import Store

_PATIENCE: Final = 10.0

_ERASE: Final = """UPDATE message SET text = printf('%*s', length(CAST(text AS BLOB)), ''),
    author = printf('%*s', length(CAST(author AS BLOB)), ''), data = printf('%*s', length(CAST(data AS BLOB)), ''),
    erased = 1, error = iif(state IN ('waiting', 'sending'), 'erased before it was sent', ''),
    state = CASE state WHEN 'received' THEN 'handled' WHEN 'waiting' THEN 'failed' WHEN 'sending' THEN 'failed' ELSE state END
    WHERE erased = 0 AND """


_FREE: Final = "UPDATE message SET text = '', author = '', data = 'null' WHERE erased = 1 AND "
"""The blanks go too, so that their room is free again."""


def erase_thread(store: Store, thread: int) -> tuple[int, list[str]]:
    """Erase every message of a thread. Gives how many, and the calls by which they came and went. `drive_out` comes after it."""
    with store.writing() as connection:
        calls = [
            row[0]
            for row in connection.execute(
                "SELECT DISTINCT call_id FROM message WHERE thread = ? AND call_id <> ''", (thread,)
            )
        ]
        _give_back(connection, "thread", thread)
        many = connection.execute(f"{_ERASE} thread = ?", (thread,)).rowcount
    with store.writing() as connection:
        connection.execute(f"{_FREE} thread = ?", (thread,))
        connection.execute("UPDATE thread SET size = 0 WHERE id = ?", (thread,))
    return many, calls


def erase_of_calls(store: Store, calls: Iterable[str]) -> int:
    """Erase what these calls took in or sent, for who erases everything that was kept of them. Gives how many messages.

    Raises:
        StateError: as `drive_out`.
    """
    named = list(calls)
    with store.writing() as connection:
        for each in named:
            _give_back(connection, "call_id", each)
        many = sum(connection.execute(f"{_ERASE} call_id = ?", (each,)).rowcount for each in named)
    with store.writing() as connection:
        for each in named:
            connection.execute(f"{_FREE} call_id = ?", (each,))
    if many:
        drive_out(store)
    return many


def _give_back(connection: sqlite3.Connection, column: str, value: int | str) -> None:
    """What skills wrote there is not held against them any more."""
    found = connection.execute(f"{WRITTEN} AND message.{column} = ? GROUP BY author", (value,)).fetchall()
    connection.executemany(
        "UPDATE written SET size = max(0, size - ?) WHERE skill = ?",
        [(int(size), author.removeprefix("skill:")) for author, size in found],
    )


def drive_out(store: Store) -> None:
    """Write the file anew without what is gone, and empty the write-ahead file.

    Raises:
        StateError: when somebody is in the way, and the old bytes are still there; doing it again will.
    """
    try:
        connection = sqlite3.connect(store.path, timeout=_PATIENCE)
        try:
            connection.execute("VACUUM")
            busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        finally:
            connection.close()
    except sqlite3.Error:
        busy = 1
    if busy:
        raise StateError(
            "the words are erased, but the files still hold the old bytes, because another program reads them",
            remedy="Erase again; if that does not help, end `metier host` first",
        )
