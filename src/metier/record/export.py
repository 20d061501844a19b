"""The log for others: one flat object a record, oldest first, however long the log is.

An outcome carries what its intent said, so that one line tells of one call. With `stored` each line has the record to the byte,
from which anybody can compute chain and tree again.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, final

import msgspec

from metier.errors import RecordError
from metier.model.digest import Json
from metier.model.text import one_line
from metier.record.beside import recorded
from metier.record.chain import GENESIS, Record
from metier.record.search import decoded, within

if TYPE_CHECKING:
    import sqlite3

    from metier.record.database import Database

_ENDINGS: Final = {"skill_executed": True, "skill_execution_error": False, "skill_execution_blocked": False}
"""Events that say whether a call did what it was asked for."""


@final
class Details(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a call was, and what became of it. Null where it does not apply or was not kept."""

    skill_id: str
    tool: str
    inputs: Json
    outputs: Json
    success: bool | None
    duration_ms: float | None
    approval_required: bool | None
    approved_by: str | None
    trust_level: str | None


@final
class Line(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One record, with its fields always in this order."""

    timestamp: str
    level: str
    category: str
    event: str
    details: Details
    actor: str
    on_behalf_of: str
    call_id: str
    code: str
    reasons: tuple[str, ...]
    input_hash: str | None
    """HMAC-SHA256 of the arguments under a key that is erased with them."""
    output_hash: str | None
    skill_digest: str
    sandbox: str
    guarantees: tuple[str, ...]
    seq: int
    hash: str
    previous: str
    record: str | msgspec.UnsetType = msgspec.UNSET
    """The record as it is stored."""


def exported(
    database: "Database", *, since: int | str = 0, until: int | str = "", stored: bool = False
) -> Iterator[Line]:
    """Every record from `since` to `until`, in order. Reads on a connection of its own, of one moment.

    Raises:
        RecordError: when a record cannot be read.
        StateError: when the log cannot be read.
    """
    from metier.record.connection import DRIVER_ERRORS, explain, look

    connection = look(database.path)
    try:
        connection.execute("BEGIN")
        first = since if isinstance(since, int) else 0
        rows = connection.execute(
            "SELECT seq, body, hash FROM audit WHERE seq >= ? ORDER BY seq", (first - 1,)
        )
        previous = GENESIS
        for seq, body, digest in rows:
            if type(digest) is not bytes:
                raise RecordError(
                    f"the hash of record {seq} cannot be read",
                    remedy="Run `metier audit verify` to see what is wrong with it",
                )
            if seq >= first:
                record = decoded(body)
                if within(record, since, until):
                    yield _line(connection, record, body if stored else None, digest, previous)
            previous = digest
    except DRIVER_ERRORS as error:
        raise explain(error, database.path) from error
    finally:
        connection.close()


def json_line(line: Line) -> str:
    """One line of JSON, without a line end. What is beyond ASCII is escaped: nothing in it can move a cursor."""
    import json

    return json.dumps(msgspec.to_builtins(line), separators=(",", ":"))


COLUMNS: Final = (
    *(
        "seq",
        "timestamp",
        "level",
        "category",
        "event",
        "code",
        "actor",
        "onBehalfOf",
        "callId",
        "skillId",
        "tool",
    ),
    *(
        "inputs",
        "outputs",
        "success",
        "durationMs",
        "approvalRequired",
        "approvedBy",
        "trustLevel",
        "reasons",
    ),
    *("inputHash", "outputHash", "skillDigest", "sandbox", "guarantees", "hash", "previous"),
)


def csv_cells(line: Line) -> list[str]:
    """The cells of one line in the order of `COLUMNS`, none of which a spreadsheet takes for a formula."""
    import json

    flat: dict[str, Any] = msgspec.to_builtins(line)
    flat |= flat.pop("details")
    for name in ("inputs", "outputs"):
        flat[name] = None if flat[name] is None else json.dumps(flat[name])
    for name in ("reasons", "guarantees"):
        flat[name] = "; ".join(flat[name])
    return [_cell(flat[name]) for name in COLUMNS]


_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠", "|", "%")


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = one_line(str(value))
    # The mark is shown as text by spreadsheets, and keeps what follows from being computed.
    return f"'{text}" if text.startswith(_FORMULA) else text


def _line(
    connection: "sqlite3.Connection", record: Record, body: bytes | None, digest: bytes, previous: bytes
) -> Line:
    intent = record
    if record.about is not None and record.event in ("skill_executed", "skill_execution_error"):
        row = connection.execute("SELECT body FROM audit WHERE seq = ?", (record.about,)).fetchone()
        intent = record if row is None else decoded(row[0])
    return Line(
        timestamp=record.at,
        level=record.level,
        category=record.category,
        event=record.event,
        details=_details(connection, record, intent),
        actor=record.principal,
        on_behalf_of=record.on_behalf_of,
        call_id=record.call_id,
        code=record.code,
        reasons=record.reasons or intent.reasons,
        input_hash=intent.payloads.get("arguments"),
        output_hash=record.payloads.get("result"),
        skill_digest=record.skill_digest,
        sandbox=record.sandbox,
        guarantees=record.guarantees,
        seq=record.seq,
        hash=digest.hex(),
        previous=previous.hex(),
        record=msgspec.UNSET if body is None else body.decode("utf-8", "surrogateescape"),
    )


def _details(connection: "sqlite3.Connection", record: Record, intent: Record) -> Details:
    return Details(
        skill_id=record.skill or record.tool,
        tool=record.tool,
        inputs=_kept(connection, intent, "arguments"),
        outputs=_kept(connection, record, "result"),
        success=_ENDINGS.get(record.event),
        duration_ms=record.duration_ms,
        approval_required=intent.decision == "ask" if intent.decision else None,
        approved_by=intent.approved_by or None,
        trust_level=intent.trust_level or None,
    )


def _kept(connection: "sqlite3.Connection", record: Record, name: str) -> Json:
    """The payload if it is still there and is the recorded one."""
    if name not in record.payloads:
        return None
    row = connection.execute("SELECT keys, kept FROM audit WHERE seq = ?", (record.seq,)).fetchone()
    body = recorded(record.payloads, *row).get(name) if row is not None else None
    return msgspec.json.decode(body) if body is not None else None
