"""What the gate decided about each call, read back from the log one by one, however long the log is."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, TypeAlias, final

import msgspec

from metier.errors import RecordError
from metier.model.digest import Json
from metier.record.beside import recorded
from metier.record.glance import UNDECODABLE

if TYPE_CHECKING:
    import sqlite3

    from metier.record.database import Database

BEGUN: Final = "skill_execution_started"
QUEUED: Final = "skill_approval_queued"
BLOCKED: Final = "skill_execution_blocked"
_CLOSING: Final = ("skill_rejected", "approval_expired", "call_cancelled")


@final
class Judgement(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The part of a record that says how a call was judged."""

    seq: int
    at: str
    event: str
    call_id: str = ""
    principal: str = ""
    tool: str = ""
    skill: str = ""
    channel: str = ""
    effect: str = ""
    risk: str = ""
    decision: str = ""
    evidence: str = ""
    trust_level: str = ""
    policy: str = ""
    approval: str = ""
    code: str = ""
    reasons: tuple[str, ...] = ()
    payloads: dict[str, str] = {}
    unkept: dict[str, str] = {}


@final
class Gone(msgspec.Struct, frozen=True):
    """A payload that is no longer there, and why."""

    why: str


Beside: TypeAlias = Callable[[str], Json | Gone]
"""A payload of one record by its name. Read only when somebody asks."""

_decoder: Final = msgspec.json.Decoder(Judgement)


def judgements(database: "Database", *, since: int | str = 0) -> Iterator[tuple[Judgement, Beside]]:
    """Every judgement since a record's number or a time, oldest first. Reads on a connection of its own, of one moment.

    A call that waited was judged when it was asked and again when it was taken up; the second is left out where the
    first is among those given.

    Raises:
        RecordError: when a record cannot be read.
        StateError: when the log cannot be read.
    """
    from metier.record.connection import DRIVER_ERRORS, explain, look

    connection = look(database.path)
    waiting: set[str] = set()  # of the requests that were given, those that are still open
    try:
        connection.execute("BEGIN")
        first = since if isinstance(since, int) else 0
        for (body,) in connection.execute("SELECT body FROM audit WHERE seq >= ? ORDER BY seq", (first,)):
            found = _decoded(body)
            if isinstance(since, str) and found.at < since:
                continue
            if found.event == QUEUED:
                waiting.add(found.approval)
            elif found.event in _CLOSING:
                waiting.discard(found.approval)
            elif found.event == BEGUN and found.evidence in waiting:
                waiting.remove(found.evidence)
                continue
            if found.event in (BEGUN, QUEUED, BLOCKED):
                yield found, _beside(connection, found)
    except DRIVER_ERRORS as error:
        raise explain(error, database.path) from error
    finally:
        connection.close()


def _decoded(body: bytes) -> Judgement:
    try:
        return _decoder.decode(body)
    except UNDECODABLE as error:
        raise RecordError(
            "a record of the audit log cannot be read", remedy="Run `metier audit verify` to see which one"
        ) from error


def _beside(connection: "sqlite3.Connection", found: Judgement) -> Beside:
    def payload(name: str) -> Json | Gone:
        if name not in found.payloads:
            return Gone(f"no {name} were recorded")
        if name in found.unkept:
            return Gone(f"of its {name} only a digest was kept")
        row = connection.execute("SELECT keys, kept FROM audit WHERE seq = ?", (found.seq,)).fetchone()
        body = recorded(found.payloads, *row).get(name) if row is not None else None
        if body is None:
            return Gone(f"its {name} were erased, or are not as they were recorded")
        return msgspec.json.decode(body)

    return payload
