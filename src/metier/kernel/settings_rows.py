"""The plain settings of skills as they lie in kernel.db: one row for each, JSON, bounded."""

import sqlite3
import time
from typing import Final, TypeAlias

import msgspec

from metier.kernel.operation import OperationError
from metier.model.digest import Json
from metier.model.text import one_line

BAD_PARAMS: Final = "E_SETTINGS_BAD_PARAMS"
UNREADABLE: Final = "E_SETTINGS_UNREADABLE"
BUSY: Final = "E_SETTINGS_BUSY"
MOST_STORED: Final = 262_144
"""Bytes of all settings of one skill."""
MOST_SENT: Final = 4 * MOST_STORED
"""Bytes of one patch: secrets are longer while they are sealed."""
Row: TypeAlias = tuple[str, float, str]


def row_of(connection: sqlite3.Connection, name: str) -> Row | None:
    """What is stored for a skill, as it lies, and when and by whom it was written; None where nothing is."""
    return connection.execute(
        "SELECT value, changed_at, changed_by FROM settings WHERE skill = ?", (name,)
    ).fetchone()


def all_names(connection: sqlite3.Connection) -> list[str]:
    """The skills for which something is stored."""
    return [name for (name,) in connection.execute("SELECT skill FROM settings ORDER BY skill")]


def stored(row: Row | None, name: str) -> dict[str, Json] | None:
    """The settings of a skill that such a row holds; None where there is none.

    Raises:
        OperationError: when that is no settings.
    """
    if row is None:
        return None
    try:
        return msgspec.json.decode(row[0], type=dict[str, Json])
    except (msgspec.MsgspecError, RecursionError):
        raise OperationError(
            UNREADABLE,
            f"what is stored for {one_line(name, 80)!r} is no settings; `metier settings reset` puts the defaults there",
        ) from None


def keep(connection: sqlite3.Connection, name: str, plain: dict[str, Json], by: str) -> float:
    """Store these and no others. The moment that stands there from now on.

    Raises:
        OperationError: when they are too many.
    """
    text, at = fitting(plain, MOST_STORED), time.time()
    connection.execute(
        "INSERT INTO settings (skill, value, changed_at, changed_by) VALUES (?, ?, ?, ?) ON CONFLICT (skill) DO UPDATE SET "
        "value = excluded.value, changed_at = excluded.changed_at, changed_by = excluded.changed_by",
        (name, text, at, by),
    )
    return at


def fitting(values: Json, most: int) -> str:
    """Their text.

    Raises:
        OperationError: when it is longer than `most`.
    """
    text = msgspec.json.encode(values)
    if len(text) > most:
        raise OperationError(
            BAD_PARAMS, f"the settings of a skill have at most {most:,} bytes, and these have {len(text):,}"
        )
    return text.decode()
