"""Somebody's word on a request, and every other way in which one ends without running.

The first word counts; who comes later, or may not decide, is told so, and that he tried is recorded. A yes is in the
transaction of its record or it is none. A no never waits for the record.
"""

from typing import TYPE_CHECKING, ClassVar, Final, Literal, TypeAlias, final

import msgspec

from metier.errors import RecordError, StateError
from metier.model.approval import Approval, Scope, StandingGrant
from metier.model.call import Call
from metier.model.role import APPROVE, EXECUTE, TRUST, Kind, rights_of
from metier.record.approval_clock import Moment, is_over, moment, term
from metier.record.approval_ending import act_of, close, open_rows, unsettled
from metier.record.approval_row import (
    OPEN,
    Row,
    blank,
    digest_of,
    recorded_problem,
    row_of,
    shown_in,
    view,
    word_of,
)
from metier.record.glance import UNDECODABLE
from metier.record.payload import Payloads
from metier.record.standing import fits, give_in

if TYPE_CHECKING:
    import sqlite3

    from metier.record.database import Database
    from metier.record.events import Event

Decision: TypeAlias = Literal["approve", "deny"]
Why: TypeAlias = Literal[
    "unknown", "forbidden", "own_request", "not_open", "expired", "not_as_recorded", "bad_grant"
]
USE_WITHIN: Final = 900.0
"""Seconds in which a decision is to be used."""
WORD_CHARACTERS: Final = 2000


@final
class Decider(msgspec.Struct, frozen=True, kw_only=True):
    """Who decides, as his door authenticated him now."""

    id: str
    kind: Kind
    rights: frozenset[str]
    """Today's."""
    session: str = ""
    connection: str = ""
    """What he is spoken to over, where his door knows: an answer over the requester's own counts for nothing."""


@final
class Undecided(msgspec.Struct, frozen=True, kw_only=True):
    """It stays as it was."""

    code: Why
    reason: str
    state: str = ""
    """What it is, where it is no longer open."""


_UNKNOWN: Final = Undecided(code="unknown", reason="there is no such request for approval")


def decide(
    database: "Database",
    approval: str,
    *,
    by: Decider,
    decision: Decision,
    scope: Scope = "once",
    word: str = "",
    grant: StandingGrant | None = None,
    four_eyes: bool = False,
    now: float | Moment | None = None,
    use_within: float = USE_WITHIN,
    payloads: Payloads = "redacted",
) -> Approval | Undecided:
    """Approve or deny a request. `grant` is what `proposed_grant` made for it, for any scope but `once`. Of the `word` of a
    denial whoever asked is told what `payloads` lets be kept.

    Raises:
        RecordError: when it is denied, but that could not be recorded.
        StateError: when it could not be written or recorded; then it is as undecided as before.
    """
    at = moment(now)
    if decision == "deny":
        return _end(database, approval, _Denial(by), word=_valid(word), payloads=payloads, now=at)
    with database.transaction() as connection:
        row = row_of(connection, approval)
        refused = _may_not(connection, by) or _own(row, by, four_eyes=four_eyes) or _not_pending(row, at)
        if refused is None and row is not None:
            refused = _cannot(connection, row, by, scope, grant)
        if row is None or refused is not None:
            return _refuse(connection, row, by.id, refused or _UNKNOWN, at)
        return _approve(connection, row, by, scope, grant, at, use_within)


def revoke_approval(
    database: "Database", approval: str, *, by: Decider, now: float | Moment | None = None
) -> Approval | Undecided:
    """Take back a decision that was not used yet.

    Raises:
        RecordError: when it is taken back, but that could not be recorded.
        StateError: when it could not be taken back.
    """
    return _end(database, approval, _Revocation(by), now=moment(now))


def withdraw(
    database: "Database", approval: str, *, principal: str, now: float | Moment | None = None
) -> Approval | Undecided:
    """Who asked no longer wants it: it will not run, whatever anybody says.

    Raises:
        RecordError: when it is withdrawn, but that could not be recorded.
        StateError: when it could not be withdrawn.
    """
    return _end(database, approval, _Withdrawal(principal), now=moment(now))


def expire_due(database: "Database", now: float | Moment | None = None, *, most: int = 1000) -> int:
    """Write down of up to `most` requests and decisions that their time is over. Gives how many there were.

    Raises:
        StateError: when it cannot be written or recorded; over they are all the same.
    """
    at = moment(now)
    ended = 0
    with database.reading() as connection:
        due = [row for row in open_rows(connection) if is_over(row.term, at)][:most]
    if not due:
        return 0
    with database.transaction() as connection:
        for seen in due:
            row = row_of(connection, seen.id)
            # What somebody changed behind our back stays as it lies, for whoever verifies.
            if row is not None and is_over(row.term, at) and not recorded_problem(connection, row):
                close(connection, row, "approval_expired", "expired", by="metier", at=at.text)
                ended += 1
    return ended


def _approve(
    connection: "sqlite3.Connection",
    row: Row,
    by: Decider,
    scope: Scope,
    grant: StandingGrant | None,
    now: Moment,
    use_within: float,
) -> Approval:
    from metier.record.chain import append

    usable = term(now, use_within)
    made = row._replace(
        state="approved",
        decided_at=now.text,
        decided_by=by.id,
        scope=scope,
        expires_at=usable.expires_at,
        boot=usable.boot,
        deadline=usable.deadline,
    )
    own = (f"{by.id} confirms his own call",) if row.principal == by.id else ()
    seq = append(
        connection,
        "skill_approved",
        act_of(row, by.id),
        at=now.text,
        code=scope,
        reasons=own,
        about=row.record,
        grant=digest_of(made, "approved"),
        approval=row.id,
    )
    connection.execute(
        """UPDATE approval SET state = 'approved', decided_at = ?, decided_by = ?, scope = ?, expires_at = ?, boot = ?,
           deadline = ?, record = ? WHERE id = ?""",
        (made.decided_at, by.id, scope, made.expires_at, made.boot, made.deadline, seq, row.id),
    )
    if grant is not None:
        give_in(connection, grant, at=now.text, about=seq)
    return view(made._replace(record=seq), now)


def _valid(word: str) -> str:
    """What somebody typed may be long, and need not be text."""
    return word[:WORD_CHARACTERS].encode("utf-8", "backslashreplace").decode()


@final
class _Denial(msgspec.Struct, frozen=True):
    """A person says no."""

    by: Decider
    state: ClassVar[Literal["denied"]] = "denied"
    event: ClassVar["Event"] = "skill_rejected"

    @property
    def who(self) -> str:
        return self.by.id

    def problem(self, connection: "sqlite3.Connection", row: Row | None, now: Moment) -> Undecided | None:
        refused = _may_not(connection, self.by)
        if refused is not None or (row is not None and unsettled(connection, row)):
            return refused
        return _not_pending(row, now)


@final
class _Revocation(msgspec.Struct, frozen=True):
    """A person takes a yes back."""

    by: Decider
    state: ClassVar[Literal["void"]] = "void"
    event: ClassVar["Event"] = "skill_rejected"

    @property
    def who(self) -> str:
        return self.by.id

    def problem(self, connection: "sqlite3.Connection", row: Row | None, now: Moment) -> Undecided | None:
        refused = _may_not(connection, self.by)
        if refused is not None or row is None:
            return refused or _UNKNOWN
        return None if row.state == "approved" or unsettled(connection, row) else _closed(row.state)


@final
class _Withdrawal(msgspec.Struct, frozen=True):
    """Who asked changes his mind."""

    who: str
    state: ClassVar[Literal["void"]] = "void"
    event: ClassVar["Event"] = "call_cancelled"

    def problem(self, connection: "sqlite3.Connection", row: Row | None, now: Moment) -> Undecided | None:
        if row is None or row.principal != self.who:
            return _UNKNOWN
        return None if row.state in OPEN else _closed(row.state)


def _may_not(connection: "sqlite3.Connection", by: Decider) -> Undecided | None:
    """Why `by` decides nothing at all. Said before anything is said about a request."""
    if by.kind != "human":
        return Undecided(code="forbidden", reason=f"only people decide, and {by.id!r} is not one")
    if APPROVE not in _rights(connection, by):
        return Undecided(code="forbidden", reason=f"{by.id!r} does not have the right {APPROVE!r}")
    return None


def _rights(connection: "sqlite3.Connection", by: Decider) -> frozenset[str]:
    """What he may do at this moment: he may have been revoked since his door looked."""
    from metier.record.principals import registered_in

    found = registered_in(connection).get(by.id)
    if found is None:
        return by.rights
    usable = not found.revoked and found.kind == "human"
    return by.rights & rights_of(found.roles) if usable else frozenset()


def _own(row: Row | None, by: Decider, *, four_eyes: bool) -> Undecided | None:
    """Whether it is the requester who says yes, or something that speaks over his connection."""
    if row is None:
        return _UNKNOWN
    seen = shown_in(row)
    behind = seen.behind if seen is not None else ()
    if four_eyes and by.id in (row.principal, row.on_behalf_of, *behind):
        return Undecided(code="own_request", reason="a second person has to decide: four_eyes is on")
    if row.principal != by.id and ({by.session, by.connection} - {""}) & _ways(row):
        reason = "who asked cannot answer: this word came over the requester's own connection"
        return Undecided(code="own_request", reason=reason)
    return None


def _ways(row: Row) -> frozenset[str]:
    """Everything the requester is spoken to over."""
    try:
        around = msgspec.json.decode(row.call or b"", type=Call).surroundings
    except UNDECODABLE:
        return frozenset({row.session})
    return frozenset(each for each in (row.session, around.session, around.caller_id, around.call_id) if each)


def _not_pending(row: Row | None, now: Moment) -> Undecided | None:
    if row is None:
        return _UNKNOWN
    if row.state not in OPEN:
        return _closed(row.state)
    if is_over(row.term, now):
        return _closed("expired")
    return _closed("approved") if row.state == "approved" else None


def _closed(state: str) -> Undecided:
    if state == "expired":
        return Undecided(code="expired", reason="it has expired", state=state)
    return Undecided(code="not_open", reason=_STATES.get(state, f"it is {state!r}"), state=state)


_STATES: Final = {
    "pending": "nobody has decided yet",
    "approved": "it was approved already",
    "denied": "it was denied already",
    "spent": "it was approved and has run already",
    "void": "it was taken back",
}


def _cannot(
    connection: "sqlite3.Connection", row: Row, by: Decider, scope: Scope, grant: StandingGrant | None
) -> Undecided | None:
    """Why this cannot be approved so, by whoever may."""
    shown = shown_in(row)
    problem = recorded_problem(connection, row)
    if shown is None or problem:
        return Undecided(code="not_as_recorded", reason=problem or "what it asks cannot be read")
    needed = {shown.right} - {EXECUTE} | ({TRUST} if grant is not None and not grant.session else set[str]())
    if beyond := needed - _rights(connection, by):
        named = ", ".join(sorted(beyond))
        return Undecided(
            code="forbidden", reason=f"nobody grants more than he holds, and {by.id!r} lacks {named}"
        )
    if (scope == "once") != (grant is None):
        return Undecided(code="bad_grant", reason=f"scope {scope!r} and the standing grant do not fit")
    if grant is not None and (problem := fits(grant, shown, scope, approval=row.id, by=by.id)):
        return Undecided(code="bad_grant", reason=problem)
    return None


def _refuse(
    connection: "sqlite3.Connection", row: Row | None, who: str, why: Undecided, now: Moment
) -> Undecided:
    """Tell who tried, and record it. An id that is none is not worth a record."""
    from metier.record.chain import append

    if row is None:
        return why
    about = row.record
    if why.code == "expired" and row.state in OPEN:
        about = close(connection, row, "approval_expired", "expired", by="metier", at=now.text)
    append(
        connection,
        "decision_refused",
        act_of(row, who),
        at=now.text,
        code=why.code,
        reasons=(why.reason,),
        about=about,
        approval=row.id,
    )
    return why


def _end(
    database: "Database",
    approval: str,
    said: _Denial | _Revocation | _Withdrawal,
    *,
    word: str = "",
    payloads: Payloads = "redacted",
    now: Moment,
) -> Approval | Undecided:
    """End a request. When that cannot be recorded it is ended all the same, and what was said with it is lost: it would lie
    where nothing masks or erases it."""
    state, who = said.state, said.who
    try:
        with database.transaction() as connection:
            row = row_of(connection, approval)
            refused = said.problem(connection, row, now)
            if row is None or refused is not None:
                return _refuse(connection, row, who, refused or _UNKNOWN, now)
            close(connection, row, said.event, state, by=who, word=word, payloads=payloads, at=now.text)
            # Looked at here: once it is committed, nothing that goes wrong may say that it is not.
            ended = row_of(connection, approval)
            made = _UNKNOWN if ended is None else view(ended, now, word_of(connection, ended))
    except StateError as error:
        with database.transaction() as connection:
            row = row_of(connection, approval)
            refused = said.problem(connection, row, now)
            if refused is not None:
                return refused
            connection.execute(
                "UPDATE approval SET state = ?, decided_at = ?, decided_by = ? WHERE id = ?",
                (state, now.text, who, approval),
            )
            blank(connection, approval)
        raise RecordError(
            f"it is {_ENDED[state]}, but that could not be recorded: {error.message}", remedy=error.remedy
        ) from error
    return made


_ENDED: Final = {"denied": "denied", "void": "taken back"}
