"""Every way in which a request ends without running: somebody says no, takes his yes back, changes his mind, or nobody says
anything in time. A no never waits for the record.
"""

from typing import TYPE_CHECKING, ClassVar, Final, Literal, final

import msgspec

from metier.errors import RecordError, StateError
from metier.model.approval import Approval
from metier.record.approval_clock import Moment, is_over, moment
from metier.record.approval_ending import By, act_of, close, open_rows, unsettled
from metier.record.approval_row import OPEN, Row, blank, recorded_problem, row_of, view, word_of
from metier.record.decider import UNKNOWN, Decider, Undecided, closed, may_not, not_pending
from metier.record.late import forget_over, is_kept_too_long
from metier.record.payload import Payloads

if TYPE_CHECKING:
    import sqlite3

    from metier.record.database import Database
    from metier.record.events import Event

WORD_CHARACTERS: Final = 2000


def revoke_approval(
    database: "Database", approval: str, *, by: Decider, now: float | Moment | None = None
) -> Approval | Undecided:
    """Take back a decision that was not used yet.

    Raises:
        RecordError: when it is taken back, but that could not be recorded.
        StateError: when it could not be taken back.
    """
    return end(database, approval, _Revocation(by), now=moment(now))


def withdraw(
    database: "Database", approval: str, *, principal: str, now: float | Moment | None = None
) -> Approval | Undecided:
    """Who asked no longer wants it: it will not run, whatever anybody says.

    Raises:
        RecordError: when it is withdrawn, but that could not be recorded.
        StateError: when it could not be withdrawn.
    """
    return end(database, approval, _Withdrawal(principal), now=moment(now))


def expire_due(database: "Database", now: float | Moment | None = None, *, most: int = 1000) -> int:
    """Write down of up to `most` requests and decisions that their time is over. Gives how many there were.

    Raises:
        StateError: when it cannot be written or recorded; over they are all the same.
    """
    at = moment(now)
    ended = 0
    with database.reading() as connection:
        due = [row for row in open_rows(connection) if is_over(row.term, at)][:most]
        kept = is_kept_too_long(connection, at)
    if not due and not kept:
        return 0
    with database.transaction() as connection:
        forget_over(connection, at)
        for seen in due:
            row = row_of(connection, seen.id)
            # What somebody changed behind our back stays as it lies, for whoever verifies.
            if row is not None and is_over(row.term, at) and not recorded_problem(connection, row):
                close(connection, row, "approval_expired", "expired", by=By("metier"), at=at.text)
                ended += 1
    return ended


def valid_word(word: str) -> str:
    """What somebody typed may be long, and need not be text."""
    return word[:WORD_CHARACTERS].encode("utf-8", "backslashreplace").decode()


@final
class Denial(msgspec.Struct, frozen=True):
    """A person says no."""

    by: Decider
    state: ClassVar[Literal["denied"]] = "denied"
    event: ClassVar["Event"] = "skill_rejected"

    @property
    def recorded(self) -> By:
        return self.by.recorded

    def problem(self, connection: "sqlite3.Connection", row: Row | None, now: Moment) -> Undecided | None:
        refused = may_not(connection, self.by)
        if refused is not None or (row is not None and unsettled(connection, row)):
            return refused
        return not_pending(row, now)


@final
class _Revocation(msgspec.Struct, frozen=True):
    """A person takes a yes back."""

    by: Decider
    state: ClassVar[Literal["void"]] = "void"
    event: ClassVar["Event"] = "skill_rejected"

    @property
    def recorded(self) -> By:
        return self.by.recorded

    def problem(self, connection: "sqlite3.Connection", row: Row | None, now: Moment) -> Undecided | None:
        refused = may_not(connection, self.by)
        if refused is not None or row is None:
            return refused or UNKNOWN
        return None if row.state == "approved" or unsettled(connection, row) else closed(row.state)


@final
class _Withdrawal(msgspec.Struct, frozen=True):
    """Who asked changes his mind."""

    who: str
    state: ClassVar[Literal["void"]] = "void"
    event: ClassVar["Event"] = "call_cancelled"

    @property
    def recorded(self) -> By:
        return By(self.who)

    def problem(self, connection: "sqlite3.Connection", row: Row | None, now: Moment) -> Undecided | None:
        if row is None or row.principal != self.who:
            return UNKNOWN
        return None if row.state in OPEN else closed(row.state)


def refuse(
    connection: "sqlite3.Connection", row: Row | None, by: By, why: Undecided, now: Moment
) -> Undecided:
    """Tell who tried, and record it. An id that is none is not worth a record."""
    from metier.record.chain import append

    if row is None:
        return why
    about = row.record
    if why.code == "expired" and row.state in OPEN:
        about = close(connection, row, "approval_expired", "expired", by=By("metier"), at=now.text)
    append(
        connection,
        "decision_refused",
        act_of(row, by),
        at=now.text,
        code=why.code,
        reasons=(why.reason,),
        about=about,
        approval=row.id,
    )
    return why


def end(
    database: "Database",
    approval: str,
    said: Denial | _Revocation | _Withdrawal,
    *,
    word: str = "",
    payloads: Payloads = "redacted",
    now: Moment,
) -> Approval | Undecided:
    """End a request. When that cannot be recorded it is ended all the same, and what was said with it is lost: it would lie
    where nothing masks or erases it."""
    state, by = said.state, said.recorded
    try:
        with database.transaction() as connection:
            row = row_of(connection, approval)
            refused = said.problem(connection, row, now)
            if row is None or refused is not None:
                return refuse(connection, row, by, refused or UNKNOWN, now)
            close(connection, row, said.event, state, by=by, word=word, payloads=payloads, at=now.text)
            # Looked at here: once it is committed, nothing that goes wrong may say that it is not.
            ended = row_of(connection, approval)
            made = UNKNOWN if ended is None else view(ended, now, word_of(connection, ended))
    except StateError as error:
        with database.transaction() as connection:
            row = row_of(connection, approval)
            refused = said.problem(connection, row, now)
            if refused is not None:
                return refused
            connection.execute(
                "UPDATE approval SET state = ?, decided_at = ?, decided_by = ? WHERE id = ?",
                (state, now.text, by.id, approval),
            )
            blank(connection, approval)
        raise RecordError(
            f"it is {_ENDED[state]}, but that could not be recorded: {error.message}", remedy=error.remedy
        ) from error
    return made


_ENDED: Final = {"denied": "denied", "void": "taken back"}
