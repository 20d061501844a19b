"""Finding records again: by what they say, by whose they are, by when. Reads from the newest back, and stops early."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, final

import msgspec

from metier.errors import RecordError
from metier.record.chain import Record
from metier.record.glance import UNDECODABLE
from metier.record.payload import bounded_text
from metier.record.when import at_terms

if TYPE_CHECKING:
    import sqlite3

    from metier.record.database import Database

_LIKE: Final = 10_000
"""Shorter text is looked for by LIKE, which takes half the time and no longer patterns."""
_decoder: Final = msgspec.json.Decoder(Record)

_IN_VAIN: Final = ("skill_execution_error", "skill_execution_blocked")


@final
class Query(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked for. Left empty, a field asks for nothing; all that are given must hold."""

    text: str = ""
    """Anywhere in the record or in what was kept beside it; letters A to Z of either case."""
    tool: str = ""
    skill: str = ""
    principal: str = ""
    """Who did it, or on whose behalf."""
    event: str = ""
    call_id: str = ""
    since: int | str = 0
    """A record's number, or a time as records have it, or the beginning of one."""
    until: int | str = ""
    part: bool = False
    """Tool, skill and principal need only have in them what is asked for, in letters of either case: as people type names."""
    looks: bool = True
    """With what people only looked at: that an operation of Metier's own was read for one of them, as every page does."""


def search(database: "Database", query: Query, limit: int) -> list[Record]:
    """The newest `limit` records that fit, newest last.

    Raises:
        RecordError: when a record cannot be read.
        StateError: when the log cannot be read.
    """
    found: list[Record] = []
    with database.reading() as connection:
        for record in _newest_first(connection, query):
            if _fits(record, query):
                found.append(record)
                if len(found) >= limit:
                    break
    return found[::-1]


def of_call(connection: "sqlite3.Connection", call_id: str) -> list[Record]:
    """Every record of one call, oldest first."""
    query = Query(call_id=call_id)
    found = [record for record in _newest_first(connection, query) if _fits(record, query)]
    return found[::-1]


def story_of(connection: "sqlite3.Connection", call_id: str) -> tuple[list[Record], list[Record]]:
    """Every record of one call, and of the calls that were made inside of it; oldest first. Both by one walk."""
    named = bounded_text(call_id)
    rows = connection.execute(
        # Faster than instr, and than with the quote before it, which is everywhere. What only ends so is sorted out below.
        "SELECT body FROM audit WHERE CAST(body AS TEXT) LIKE ? ESCAPE '!' ORDER BY seq",
        (_like(msgspec.json.encode(named)[1:].decode()),),
    )
    found = [decoded(body) for (body,) in rows]
    return [each for each in found if each.call_id == named], [each for each in found if each.parent == named]


def record_at(connection: "sqlite3.Connection", seq: int) -> Record | None:
    """Record `seq`."""
    row = connection.execute("SELECT body FROM audit WHERE seq = ?", (seq,)).fetchone()
    return None if row is None else decoded(row[0])


def decoded(body: bytes) -> Record:
    """The record in these bytes.

    Raises:
        RecordError: when there is none.
    """
    try:
        return _decoder.decode(body)
    except UNDECODABLE as error:
        raise RecordError(
            "a record of the audit log cannot be read", remedy="Run `metier audit verify` to see which one"
        ) from error


def _newest_first(connection: "sqlite3.Connection", query: Query) -> Iterator[Record]:
    """SQLite passes over most of what cannot fit. The needles are the bytes of a field as they would be stored."""
    exact = [("event", query.event), ("call_id", query.call_id)]
    exact += [] if query.part else [("tool", query.tool), ("skill", query.skill)]
    needles = [
        f'"{name}":'.encode() + msgspec.json.encode(bounded_text(value)) for name, value in exact if value
    ]
    where = ["seq BETWEEN ? AND ?", *["instr(body, ?) > 0"] * len(needles)]
    most = query.until if isinstance(query.until, int) else 2**63 - 1
    given: list[object] = [query.since if isinstance(query.since, int) else 0, most, *needles]
    times = at_terms(query.since, query.until)
    where += times[0]
    given += times[1]
    for value in filter(None, (query.tool, query.skill, query.principal) if query.part else ()):
        where.append("CAST(body AS TEXT) LIKE ? ESCAPE '!'")
        given.append(_like(_as_stored(value)))
    if query.text:
        # Text is stored as JSON has it, so it is looked for as JSON has it.
        text = _as_stored(query.text)
        if len(text) < _LIKE:
            where.append("(CAST(body AS TEXT) LIKE ? ESCAPE '!' OR CAST(kept AS TEXT) LIKE ? ESCAPE '!')")
            text = _like(text)
        else:
            where.append(
                "(instr(lower(CAST(body AS TEXT)), lower(?)) > 0 OR instr(lower(CAST(kept AS TEXT)), lower(?)) > 0)"
            )
        given += [text, text]
    if not query.looks:  # asked last: it costs as much as all the others, and few records come as far
        where.append(
            "NOT (instr(body, ?) > 0 AND instr(body, ?) > 0 AND instr(body, ?) = 0 AND (instr(body, ?) > 0 OR instr(body, ?) > 0))"
        )
        given += [b'"effect":"read"', b'"principal":"human:', b'"skill":"']
        given += [b'"event":"skill_executed"', b'"event":"skill_execution_started"']
    rows = connection.execute(
        f"SELECT body FROM audit WHERE {' AND '.join(where)} ORDER BY seq DESC",  # noqa: S608  values are bound
        given,
    )
    return (decoded(body) for (body,) in rows)


def _as_stored(text: str) -> str:
    typed = text.encode("utf-8", "backslashreplace").decode()  # as what is no text is stored
    return msgspec.json.encode(typed)[1:-1].decode()


def _like(text: str) -> str:
    """A pattern that has `text` anywhere, with nothing in it that LIKE reads as another thing."""
    return "%" + re.sub(r"[%_!]", r"!\g<0>", text) + "%"


def _fits(record: Record, query: Query) -> bool:
    return (
        _names((record.tool,), query.tool, part=query.part)
        and _names((record.skill,), query.skill, part=query.part)
        and _names((record.principal, record.on_behalf_of), query.principal, part=query.part)
        and (query.looks or not is_look(record))
        and (not query.event or record.event == query.event)
        and (not query.call_id or record.call_id == bounded_text(query.call_id))
        and within(record, query.since, query.until)
    )


def _names(found: tuple[str, ...], wanted: str, *, part: bool) -> bool:
    if not wanted:
        return True
    return any(wanted.lower() in each.lower() for each in found) if part else wanted in found


def is_look(record: Record, *, in_vain: bool = False) -> bool:
    """Whether a person only had something read for him: it is on the record, and no news. `in_vain`: also where nothing came of it."""
    events = ("skill_execution_started", "skill_executed", *(_IN_VAIN if in_vain else ()))
    own = record.effect == "read" and not record.skill and record.principal.startswith("human:")
    return own and record.event in events


def within(record: Record, since: int | str, until: int | str) -> bool:
    """Whether a record lies between two numbers or times, both included; a day is all of that day."""
    after = record.seq >= since if isinstance(since, int) else record.at >= since
    before = record.seq <= until if isinstance(until, int) else not until or record.at[: len(until)] <= until
    return after and before
