"""What people set up and kernel.db keeps as JSON (triggers, schedules): read again, or why it cannot be. Every function blocks."""

import sqlite3
from collections.abc import Callable
from typing import Literal, TypeVar

import msgspec

from metier.kernel.operation import OperationError
from metier.kernel.store_faults import is_broken
from metier.model.digest import Json

T = TypeVar("T")
_ANEW = "remove it and set it up again"


def understood(read: Callable[[Json], T], definition: str, *texts: str) -> tuple[T | None, str]:
    """What a row means, or None and what is wrong with it. `texts` are those of its row that must be whole."""
    if is_broken(*texts):
        return None, f"what is stored of it is damaged; {_ANEW}"
    try:
        value: Json = msgspec.json.decode(definition)
        return read(value), ""
    except (msgspec.DecodeError, RecursionError):
        return None, f"what is stored of it is no JSON; {_ANEW}"
    except OperationError as error:
        return None, f"{error.message}; {_ANEW}"


def readable(definition: str) -> dict[str, Json]:
    """What can be read of a definition that means nothing any more; nothing where it is no object."""
    try:
        value: Json = msgspec.json.decode(definition)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def remove(connection: sqlite3.Connection, table: Literal["trigger", "schedule"], id: str) -> None:
    """One row and what is known of its firings."""
    rows = connection.execute(f"SELECT rowid, id FROM {table}").fetchall()  # noqa: S608
    meant = [(row,) for row, shown in rows if shown == id]  # a damaged id is known by what is shown of it
    connection.executemany(f"DELETE FROM {table} WHERE rowid = ?", meant)  # noqa: S608
    connection.execute("DELETE FROM firing WHERE kind = ? AND what = ?", (table, id))
