"""Is every cell of the kind its column was made for, and does every index agree with its table?

SQLite keeps whatever it is given in any column, and a blob is never equal to a text of the same bytes: a name that became a
blob is there for whoever lists the table, and for nobody who asks for it. A row that an index does not know is hidden in the same
way. So both are looked at before a table is compared with the records. The chain and what lies beside it are not looked
at here: walking it shows it.
"""

import sqlite3
from functools import cache
from typing import Final

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
        if connection.execute(f"PRAGMA integrity_check({table})").fetchone()[0] not in ("ok", b"ok"):
            return f"the table {table!r} and its index do not agree, or one of them is damaged; {_REMEDY}"
    return ""


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
