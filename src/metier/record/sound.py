"""Is every cell of the kind its column was made for, does every index agree with its table, and is every page used once?

SQLite keeps whatever it is given in any column, and a blob is never equal to a text of the same bytes: a name that became a
blob is there for whoever lists the table, and for nobody who asks for it. A row that an index does not know is hidden in the same
way. So both are looked at before a table is compared with the records. The cells of the chain are not looked at here: walking it
shows them. A page that is used twice, or is free and in use, shows nowhere until something is written to it; so the file is
looked at as a whole.
"""

import sqlite3
from functools import cache
from typing import Final

from metier.model.text import one_line
from metier.record.schema import MIGRATIONS
from metier.record.shape import Steps, model_of

_KINDS: Final = {"TEXT": "text", "BLOB": "blob", "INTEGER": "integer", "REAL": "real"}
_WALKED: Final = frozenset({"audit"})


def unsound(connection: sqlite3.Connection) -> str:
    """What is wrong with the cells or an index of a database that has our tables; empty when nothing is."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    for table, odd in _questions(MIGRATIONS[:version]):
        if connection.execute(odd).fetchone() is not None:
            return f"the table {table!r} holds a value of another kind than Metier writes; {_REMEDY}"
    return damage(connection)


def damage(connection: sqlite3.Connection) -> str:
    """What SQLite itself finds wrong with the whole file; empty when nothing is."""
    said = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    if text == "ok":
        return ""
    return f"the file is damaged, or its tables and indexes do not agree ({one_line(text, 120)}); {_REMEDY}"


_REMEDY: Final = "keep the file as evidence"


@cache
def _questions(steps: Steps) -> tuple[tuple[str, str], ...]:
    """Each table with the query that finds a cell which is not as its column."""
    model = model_of(steps)
    try:
        tables: list[str] = [
            name for (name,) in model.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        ]
        made: list[tuple[str, str]] = []
        for table in sorted(set(tables) - _WALKED):
            odd: list[str] = []
            for _, column, kind, never_null, _, in_key in model.execute(f"PRAGMA table_info({table})"):
                kinds = f"'{_KINDS[kind]}'" if never_null or in_key else f"'{_KINDS[kind]}', 'null'"
                odd.append(f"typeof({column}) NOT IN ({kinds})")
            made.append((table, f"SELECT 1 FROM {table} NOT INDEXED WHERE {' OR '.join(odd)} LIMIT 1"))  # noqa: S608
    finally:
        model.close()
    return tuple(made)
