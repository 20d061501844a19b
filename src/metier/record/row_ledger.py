"""What a table must hold in which every row is on the record: by its key, the digest of the row as it was recorded last."""

from typing import TYPE_CHECKING, Any, Final, final

from metier.record.chain import grant_digest
from metier.record.glance import Glance, rows_since
from metier.record.schema import KNOWS_TOKEN

if TYPE_CHECKING:
    import sqlite3


def row_digest(row: tuple[Any, ...]) -> str:
    """Of a row as it is stored, also where the connection gives text as bytes."""
    return grant_digest(*map(_bytes, row))


@final
class RowLedger:
    """Follows the records of one table. A record's `code` is the key of the row it is about."""

    def __init__(self, what: str, events: tuple[str, ...], query: str, *, keys: int) -> None:
        """`query` gives whole rows; the first `keys` columns, joined by a space, are the key."""
        self._what: Final = what
        self._events: Final = events
        self._query: Final = query
        self._keys: Final = keys
        self._entries: dict[str, str] = {}

    def take(self, record: Glance) -> None:
        """Follow one more record."""
        if record.event in self._events:
            self._entries[record.code] = record.grant

    def problem(self, connection: "sqlite3.Connection") -> str:
        """Where the table says something else than the records. The connection gives text as bytes."""
        missing = set(self._entries)
        for row in rows_since(KNOWS_TOKEN, connection, self._query):
            key = " ".join(_bytes(each).decode("utf-8", "replace") for each in row[: self._keys])
            recorded = self._entries.get(key)
            if recorded is None:
                return f"there is a {self._what} {key!r}, and no record says so; {_REMEDY}"
            if row_digest(row) != recorded:
                return f"the {self._what} {key!r} is not the one that was recorded; {_REMEDY}"
            missing.discard(key)
        if missing:
            return f"the {self._what} {min(missing)!r} is on the record, and the table forgot it; {_REMEDY}"
        return ""


_REMEDY: Final = "revoke it to settle it"


def _bytes(part: object) -> bytes:
    return part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogatepass")
