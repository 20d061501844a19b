"""The calls under way, whichever process runs them, and the wish that one be ended.

A process sees the wish within moments and ends the call; its outcome is then recorded like any other. An intent whose
process is gone has no outcome and never gets one by itself: it is reported, and nothing is run again.
"""

import os
from typing import TYPE_CHECKING, final

import msgspec

from metier.errors import RecordError, StateError
from metier.record.approval_clock import moment
from metier.record.glance import Glance, glance
from metier.record.schema import KNOWS_SETTING

if TYPE_CHECKING:
    import sqlite3

    from metier.record.database import Database


@final
class UnderWay(msgspec.Struct, frozen=True, kw_only=True):
    """A call that began and has no outcome yet."""

    seq: int
    call_id: str
    tool: str
    skill: str
    principal: str
    began_at: str
    on_behalf_of: str = ""
    process: int | None
    """The process that runs it; None when that is gone, and the call with it."""
    cancelled_by: str = ""


def this_process() -> str:
    """This process as the record knows it: a number alone is given to others after a while."""
    return process_as_recorded(os.getpid())


def process_as_recorded(pid: int) -> str:
    """The process of this number as the record would know it. One that is gone is like no recorded one."""
    return f"{pid} {_started(pid)} {moment().boot}"


def calls_under_way(database: "Database") -> list[UnderWay]:
    """Every call without an outcome, oldest first."""
    with database.reading() as connection:
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        # As bytes: what is no text must not keep the others from being seen.
        columns = ("call_id", "process", "cancelled_by") if version >= KNOWS_SETTING else ("''",) * 3
        who = ", ".join(f"CAST({column} AS BLOB)" for column in columns)
        rows = connection.execute(
            f"SELECT open_intent.seq, iif(typeof(body) = 'blob', body, NULL), {who} FROM open_intent JOIN audit USING (seq) ORDER BY open_intent.seq"  # noqa: S608
        ).fetchall()
    return [_under_way(seq, body, *map(_text, who)) for seq, body, *who in rows]


def cancelled_in(connection: "sqlite3.Connection", process: str) -> dict[str, str]:
    """The calls of `process` that somebody wants ended, each with who."""
    rows = connection.execute(
        """SELECT CAST(call_id AS BLOB), CAST(cancelled_by AS BLOB) FROM open_intent
           WHERE process = ? AND cancelled_by <> ''""",
        (process,),
    )
    return {_text(call_id): _text(by) for call_id, by in rows}


def cancel(database: "Database", call_id: str, *, by: str, token: str = "") -> bool:
    """Ask for the end of a call; False when no such call is under way.

    Args:
        token: id of the API token that he came with, or empty.

    Raises:
        RecordError: when it is asked for but could not be recorded. Ending something never waits.
        StateError: when it could not be asked for.
    """
    from metier.record.chain import Act, append, now

    if not call_id.isascii():  # our ids are, and a driver takes no broken text
        return False
    try:
        with database.transaction() as connection:
            if not _ask(connection, call_id, by):
                return False
            append(connection, "call_cancelled", Act(principal=by, call_id=call_id, token=token), at=now())
    except StateError as error:
        with database.transaction() as connection:
            if not _ask(connection, call_id, by):
                return False
        raise RecordError(
            f"{call_id} is being cancelled, but that could not be recorded: {error.message}",
            remedy=error.remedy,
        ) from error
    return True


def _ask(connection: "sqlite3.Connection", call_id: str, by: str) -> bool:
    return bool(
        connection.execute(
            "UPDATE open_intent SET cancelled_by = ? WHERE call_id = ?", (by, call_id)
        ).rowcount
    )


def _text(stored: object) -> str:
    return stored.decode("utf-8", "replace") if isinstance(stored, bytes) else ""


def _under_way(seq: int, body: object, call_id: str, process: str, cancelled_by: str) -> UnderWay:
    """One that somebody damaged is listed too: the others must be seen, and can be ended."""
    record = glance(body) if isinstance(body, bytes) else ""
    if not isinstance(record, Glance):
        record = Glance(seq=seq, event="", call_id=call_id, tool="? (its record cannot be read)")
    return UnderWay(
        seq=seq,
        call_id=record.call_id,
        tool=record.tool,
        skill=record.skill,
        principal=record.principal,
        on_behalf_of=record.on_behalf_of,
        began_at=record.at,
        process=alive(process),
        cancelled_by=cancelled_by,
    )


def alive(process: str) -> int | None:
    """The number of a process that was recorded; None when that is gone."""
    number, _, rest = process.partition(" ")
    if (
        not (number.isascii() and number.isdigit() and len(number) < 16)
        or rest != f"{_started(int(number))} {moment().boot}"
    ):
        return None
    return int(number)


def _started(process: int) -> str:
    """When a process started, as the kernel counts it; empty when there is none or it cannot be told."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return ""
