"""Does the database hold the tables Metier makes and nothing else?

A trigger can undo what was just written and a view can pose as a table, so whatever Metier did not make
is refused by its name, and so is a table that is missing or was changed.
"""

import sqlite3
from functools import cache
from typing import TypeAlias

Steps: TypeAlias = tuple[tuple[str, ...], ...]
_Object: TypeAlias = tuple[object, object, object, object]


def compare(connection: sqlite3.Connection, steps: Steps) -> str:
    """What is wrong with the objects in a database that has taken `steps`; empty when nothing is."""
    rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema").fetchall()
    found, wanted = frozenset[_Object](rows), _wanted(steps)
    if found == wanted and len(rows) == len(wanted):
        return ""
    if found == wanted:
        return "something in it is listed twice"
    names = {(one[0], one[1]) for one in wanted}
    for kind, name, *_ in sorted(found - wanted, key=repr):
        if (kind, name) not in names:
            return f"it holds a {kind} {str(name)!r} that Metier did not make"
    kind, name, *_ = min(wanted - found, key=repr)
    changed = any(one[:2] == (kind, name) for one in found)
    return f"its {kind} {str(name)!r} {'was changed' if changed else 'is missing'}"


def model_of(steps: Steps) -> sqlite3.Connection:
    """An empty database made by taking the steps, so that there is no second description which could differ."""
    model = sqlite3.connect(":memory:", isolation_level=None)
    for statements in steps:
        for statement in statements:
            model.execute(statement)
    return model


@cache
def _wanted(steps: Steps) -> frozenset[_Object]:
    model = model_of(steps)
    try:
        rows = model.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema").fetchall()
    finally:
        model.close()
    return frozenset[_Object](rows)
