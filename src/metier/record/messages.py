"""Messages that callers left and that the operator has got some other way: his word for it, on the record."""

from typing import TYPE_CHECKING, Final

from metier.record.search import Query, search

if TYPE_CHECKING:
    from metier.record.database import Database

_MOST: Final = 1_000_000


def message_done(database: "Database", call_id: str, *, by: str) -> None:
    """Record that what the call `call_id` took down is with the operator.

    Raises:
        StateError: when it cannot be recorded; then it counts as undelivered still.
    """
    from metier.record.chain import Act, append, now

    with database.transaction() as connection:
        append(connection, "message_done", Act(principal=by, call_id=call_id), at=now())


def calls_done(database: "Database") -> frozenset[str]:
    """The calls of whose messages somebody said so.

    Raises:
        RecordError: when a record cannot be read.
        StateError: when the log cannot be read.
    """
    return frozenset(record.call_id for record in search(database, Query(event="message_done"), _MOST))
