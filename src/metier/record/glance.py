"""What a walk through the log reads of each record, and how it ends early."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    import sqlite3


class Glance(msgspec.Struct, gc=False):
    """The few fields of a record that the walk needs; whatever a newer Metier added does not matter."""

    seq: int
    event: str
    at: str = ""
    principal: str = ""
    on_behalf_of: str = ""
    call_id: str = ""
    parent: str = ""
    attempt: int = 1
    tool: str = ""
    skill: str = ""
    skill_digest: str = ""
    session: str = ""
    evidence: str = ""
    approved_by: str = ""
    approval: str = ""
    code: str = ""
    about: int | None = None
    payloads: dict[str, str] = {}
    unkept: dict[str, str] = {}
    grant: str = ""


class Bad(Exception):
    """The walk ends here. Without a `seq` the problem is not in a record but beside them."""

    def __init__(self, seq: int | None, problem: str) -> None:
        super().__init__(problem)
        self.seq = seq
        self.problem = problem


decode: Final = msgspec.json.Decoder(Glance).decode
UNDECODABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, TypeError, RecursionError)
"""What `decode` raises for bytes that are no record."""


def glance(body: bytes) -> Glance | str:
    """The record in `body`, or why there is none."""
    try:
        return decode(body)
    except UNDECODABLE as error:
        return str(error)


def rows_since(version: int, connection: "sqlite3.Connection", query: str) -> Iterable[tuple[Any, ...]]:
    """The rows of a table that databases have since `version`. An older one has no such table, which is as good as an empty
    one: whatever the records put into it is missing then."""
    found: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return connection.execute(query) if found >= version else ()


def erases(body: object, seq: int) -> bool:
    """Whether `body` is of a record which says that the payloads of record `seq` were erased."""
    record = glance(body) if isinstance(body, bytes) else ""
    return isinstance(record, Glance) and record.event == "payload_erased" and record.about == seq
