"""How an act ended that ran where it was approved, when who asked was not there any more: kept until he asks the same again.

What he asked is not kept for that, only a digest under a key, and for no longer than the yes could have been used. What he is given is
read from the record of the run, and only where that record says that it was he who asked, with these arguments.
"""

from collections.abc import Callable, Iterable
from hmac import compare_digest
from typing import TYPE_CHECKING, Final, NamedTuple, final

import msgspec

from metier.model.approval import Shown
from metier.model.call import AuthorizedCall, Call, Cause
from metier.model.outcome import Completed, Earlier, Failed, Refused
from metier.record.approval_clock import Moment, is_over
from metier.record.approval_row import FIELDS, Row, digest_of, row_of, shown_in, typed
from metier.record.chain import keyed_digest
from metier.record.late_end import began_by, ended_as, record_at
from metier.record.schema import KNOWS_LATE

if TYPE_CHECKING:
    import sqlite3

    from metier.record.database import Database

_NOBODY: Final = Cause()
_IN_APPROVAL: Final = ", ".join(f"approval.{name}" for name in FIELDS.split(", "))


@final
class Late(msgspec.Struct, frozen=True, kw_only=True):
    """An act that ran for who asks now, and of which he was told nothing yet."""

    earlier: Earlier
    intent: int
    """Number of the record of its beginning."""
    grant: str
    """Digest of the request, as the chain has it."""
    outcome: Completed | Failed | Refused | None
    """What he is told; None while it runs."""

    @property
    def code(self) -> str:
        """How it ended, as its record is to say it; empty for well."""
        return self.outcome.code if isinstance(self.outcome, Failed | Refused) else ""


class _Kept(NamedTuple):
    row: Row
    attempt: int
    key: bytes
    same: str
    ended: int


def owe(
    connection: "sqlite3.Connection", approval: str, call: Call, fingerprint_of: Callable[[bytes], str]
) -> None:
    """Keep by what it is known that the same is asked again. In the transaction in which its yes is used up, and before.

    Args:
        call: as it was asked.
        fingerprint_of: of what of the act lasts when it has run, under a key.
    """
    row = row_of(connection, approval)
    shown = shown_in(row) if row is not None else None
    if row is None or shown is None or row.key is None or row.scope != "once" or call.cause != _NOBODY:
        return  # a grant answers by itself, and a firing asks for itself
    same = _same(row.key, fingerprint_of(row.key), shown, call)
    connection.execute(
        "INSERT OR REPLACE INTO late VALUES (?, ?, ?, ?, ?, 0)",
        (approval, row.principal, call.attempt, row.key, same),
    )


def note_end(connection: "sqlite3.Connection", approval: str, intent: int, seq: int) -> None:
    """Remember which record says how it ended: that of an intent could else be found only by reading all that came after."""
    connection.execute(
        "UPDATE late SET ended = ? WHERE approval = (SELECT id FROM approval WHERE id = ? AND state = 'spent' AND record = ?)",
        (seq, approval, intent),
    )


def late_for(
    connection: "sqlite3.Connection",
    authorized: AuthorizedCall,
    shown: Shown,
    fingerprint_of: Callable[[bytes, str, int], str],
    now: Moment,
) -> Late | None:
    """The oldest act that is the same as this one and ran for who asks; None when there is none.

    Args:
        shown: what an approver would be shown of it now.
        fingerprint_of: of what of the act lasts when it has run, under a key, as that of a call of that id and attempt.
    """
    call = authorized.valid.call
    if call.cause != _NOBODY:
        return None
    for kept in _kept_for(connection, call.principal.id):
        row = kept.row
        if is_over(row.term, now):
            continue
        printed = fingerprint_of(kept.key, row.call_id, kept.attempt)
        if not compare_digest(_same(kept.key, printed, shown, call), kept.same):
            continue
        found = record_at(connection, row.record)
        if found is None or not began_by(
            authorized, found, row
        ):  # the chain does not answer for the table `late`
            continue
        began = found.record
        earlier = Earlier(call_id=row.call_id, at=began.at, approved_by=row.decided_by, approval_id=row.id)
        outcome = ended_as(connection, began, kept.ended, earlier, call.id)
        return Late(earlier=earlier, intent=began.seq, grant=digest_of(row, "approved"), outcome=outcome)
    return None


def give(connection: "sqlite3.Connection", late: Late, seq: int) -> None:
    """It is given, as record `seq` says, and never again: the request names that record now, and its key is gone."""
    id = late.earlier.approval_id
    connection.execute("UPDATE approval SET record = ? WHERE id = ?", (seq, id))
    _forget(connection, (id,))


def is_owed(database: "Database", approval: str, principal: str) -> bool:
    """Whether it ran, and how it ended was not given yet to this principal, who asked. Blocking."""
    if not approval.isascii():  # our ids are, and a driver takes no broken text
        return False
    with database.reading() as connection:
        asked = "SELECT 1 FROM late WHERE approval = ? AND principal = ?"
        return _known(connection) and connection.execute(asked, (approval, principal)).fetchone() is not None


def is_kept_too_long(connection: "sqlite3.Connection", now: Moment) -> bool:
    """Whether something is kept whose time is over."""
    return bool(_over(connection, now))


def forget_over(connection: "sqlite3.Connection", now: Moment) -> None:
    """Forget what nobody asked again in time."""
    _forget(connection, _over(connection, now))


def forget_of(connection: "sqlite3.Connection", id: str) -> None:
    """Forget what was asked by or for somebody: an id that comes back may be somebody else."""
    _forget_where(connection, "principal = ?1 OR on_behalf_of = ?1", (id,))


def forget_calls(connection: "sqlite3.Connection", calls: Iterable[str]) -> None:
    """Forget these calls."""
    for call in calls:
        _forget_where(connection, "call_id = ?1", (call,))


def forget_all(connection: "sqlite3.Connection") -> None:
    """Forget everything."""
    _forget_where(connection, "1", ())


def _known(connection: "sqlite3.Connection") -> bool:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version >= KNOWS_LATE


def _forget_where(connection: "sqlite3.Connection", which: str, values: tuple[str, ...]) -> None:
    if _known(connection):
        found = connection.execute(
            f"SELECT id FROM approval WHERE id IN (SELECT approval FROM late) AND ({which})",  # noqa: S608  constants
            values,
        )
        _forget(connection, [id for (id,) in found])


def _forget(connection: "sqlite3.Connection", approvals: Iterable[str]) -> None:
    """Overwritten first: a row that is only deleted may leave its bytes behind."""
    for id in approvals:
        connection.execute("UPDATE late SET key = zeroblob(length(key)) WHERE approval = ?", (id,))
        connection.execute("DELETE FROM late WHERE approval = ?", (id,))


def _over(connection: "sqlite3.Connection", now: Moment) -> list[str]:
    if not _known(connection):
        return []
    every = connection.execute("SELECT approval FROM late").fetchall()
    rows = {id: row_of(connection, id) for (id,) in every if isinstance(id, str)}
    return [id for id, row in rows.items() if row is None or row.state != "spent" or is_over(row.term, now)]


def _kept_for(connection: "sqlite3.Connection", principal: str) -> list[_Kept]:
    found = connection.execute(
        f"SELECT late.attempt, late.key, late.same, late.ended, {_IN_APPROVAL} FROM late "  # noqa: S608  constants
        "JOIN approval ON approval.id = late.approval "
        "WHERE late.principal = ?1 AND approval.principal = ?1 AND approval.state = 'spent' AND approval.scope = 'once' "
        "ORDER BY approval.decided_at, approval.id",
        (principal,),
    ).fetchall()
    kept: list[_Kept] = []
    for attempt, key, same, ended, *fields in found:
        row = typed(tuple(fields))
        whole = isinstance(key, bytes) and any(key) and isinstance(same, str) and same.isascii()
        if row is not None and whole and isinstance(attempt, int) and isinstance(ended, int):
            kept.append(_Kept(row, attempt, key, same, ended))
    return kept


def _same(key: bytes, printed: str, shown: Shown, call: Call) -> str:
    """All by which one act of one caller is told from another. What it replaced is not: it may be what it wrote itself."""
    who = call.principal
    all_of_it = (
        printed,
        msgspec.structs.replace(shown, replaces=""),
        (who.id, who.kind, who.on_behalf_of, who.token, None if who.scopes is None else sorted(who.scopes)),
        call.surroundings.caller_id,
        (call.parent, call.depth, call.unattended),
    )
    return keyed_digest(key, msgspec.json.encode(all_of_it, order="deterministic"))
