"""What the gate decided about each call, read back from the log one by one, however long the log is."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, TypeAlias, final

import msgspec

from metier.errors import RecordError
from metier.model.digest import Json
from metier.record.beside import recorded_one
from metier.record.glance import UNDECODABLE
from metier.record.when import at_terms

if TYPE_CHECKING:
    import sqlite3

    from metier.record.database import Database

BEGUN: Final = "skill_execution_started"
QUEUED: Final = "skill_approval_queued"
BLOCKED: Final = "skill_execution_blocked"
_CLOSING: Final = ("skill_rejected", "approval_expired", "call_cancelled")
_REQUEST: Final = "apr_"
"""How the ids of requests begin."""
_ENDED: Final = b'"event":"skill_executed"'
_EVENT_WITHIN: Final = 160
"""Bytes of a record in which its event stands: before it come only its number and its time."""

_NOW_AND_THEN: Final = 256
"""Of so many records that are passed over."""


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


def judgements(
    database: "Database",
    *,
    since: int | str = 0,
    until: str = "",
    before: int = 0,
    newest_first: bool = False,
    enough: Callable[[int], bool] | None = None,
) -> Iterator[tuple[Judgement, Beside]]:
    """Every judgement since a record's number or a time, oldest first. Reads on a connection of its own, of one moment.

    A call that waited was judged when it was asked and again when it was taken up; the second is left out where the
    first is among those given.

    Args:
        until: a time, or the beginning of one; a day is all of that day.
        before: only records with a smaller number; 0 for all.
        enough: asked before a record is looked at. Once it says so that one and the others are as if they were not there.

    Raises:
        RecordError: when a record cannot be read.
        StateError: when the log cannot be read.
    """
    from metier.record.connection import DRIVER_ERRORS, explain, look

    connection = look(database.path)
    try:
        connection.execute("BEGIN")
        found = _read(connection, since, until, before, newest_first=newest_first, enough=enough)
        for each in newest_once(found) if newest_first else oldest_once(found):
            yield each, _beside(connection, each)
    except DRIVER_ERRORS as error:
        raise explain(error, database.path) from error
    finally:
        connection.close()


def oldest_once(found: Iterable[Judgement]) -> Iterator[Judgement]:
    """The judgements among these records, which come oldest first. Of a call that waited the first one."""
    waiting: set[str] = set()  # of the requests that were given, those that are still open
    for each in found:
        event = each.event
        if event == QUEUED:
            waiting.add(each.approval)
        elif event == BEGUN:
            if each.evidence in waiting:
                waiting.remove(each.evidence)
                continue
        elif event != BLOCKED:
            if event in _CLOSING:
                waiting.discard(each.approval)
            continue
        yield each


def newest_once(found: Iterable[Judgement]) -> Iterator[Judgement]:
    """The same of records that come newest first. What was taken up is held back until it is known whether its request is among them."""
    held: dict[str, Judgement] = {}
    for each in found:
        event = each.event
        if event == QUEUED:
            held.pop(each.approval, None)
        elif event == BEGUN:
            if each.evidence.startswith(_REQUEST):
                # Only the first that began after a request is the one that was asked about.
                if (later := held.get(each.evidence)) is not None:
                    yield later
                held[each.evidence] = each
                continue
        elif event != BLOCKED:
            if event in _CLOSING and (later := held.pop(each.approval, None)) is not None:
                yield later
            continue
        yield each
    yield from held.values()


def _read(
    connection: "sqlite3.Connection",
    since: int | str,
    until: str,
    before: int,
    *,
    newest_first: bool,
    enough: Callable[[int], bool] | None,
) -> Iterator[Judgement]:
    """Records one by one. SQLite passes over other times, and that a call ended well, which is nearly half of all; but now and then one
    of those is asked about too, so that a walk through many of them can be ended."""
    terms, values = at_terms(since, until)
    fits = " AND ".join(("instr(substr(body, 1, ?), ?) = 0", *terms))
    given = (_EVENT_WITHIN, _ENDED, *values)
    rows = connection.execute(
        f"""SELECT seq, CASE WHEN seq % ? = 0 AND NOT ({fits}) THEN NULL ELSE body END FROM audit
            WHERE seq >= ? AND seq < ? AND (seq % ? = 0 OR ({fits})) ORDER BY seq {"DESC" if newest_first else "ASC"}""",  # noqa: S608  values are bound
        (
            *(_NOW_AND_THEN, *given),
            *(since if isinstance(since, int) else 0, before or 2**63 - 1),
            *(_NOW_AND_THEN, *given),
        ),
    )
    for seq, body in rows:
        if enough is not None and enough(seq):
            return
        if body is not None:
            yield _decoded(body)


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
        body = recorded_one(name, found.payloads, *row) if row is not None else None
        if body is None:
            return Gone(f"its {name} were erased, or are not as they were recorded")
        return msgspec.json.decode(body)

    return payload
