"""What requests were about, once what they asked is gone: the record that each was last changed by names the tool."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from metier.record.approval_row import known
from metier.record.search import record_at

if TYPE_CHECKING:
    import sqlite3


def tools_of(connection: "sqlite3.Connection", approvals: Iterable[str]) -> dict[str, str]:
    """By id of a request: which tool it was about. What has no record is left out."""
    found: dict[str, str] = {}
    for each in approvals if known(connection) else ():
        row = connection.execute("SELECT record FROM approval WHERE id = ?", (each,)).fetchone()
        record = record_at(connection, row[0]) if row is not None and isinstance(row[0], int) else None
        if record is None or not record.tool:
            continue
        # Of a request that was used, its run is the last record, which names it as its evidence.
        if each in (record.approval, record.evidence):
            found[each] = record.tool
    return found
