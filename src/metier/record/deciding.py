"""Somebody's word on a request.

The first word counts; who comes later, or may not decide, is told so, and that he tried is recorded. A yes is in the
transaction of its record or it is none. A no never waits for the record.
"""

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from metier.model.approval import Approval, Scope, StandingGrant
from metier.model.role import EXECUTE, TRUST
from metier.record.approval_clock import Moment, moment, term
from metier.record.approval_ending import act_of
from metier.record.approval_no import Denial, end, refuse, valid_word
from metier.record.approval_no import expire_due as expire_due
from metier.record.approval_no import revoke_approval as revoke_approval
from metier.record.approval_no import withdraw as withdraw
from metier.record.approval_row import Row, digest_of, recorded_problem, row_of, shown_in, view
from metier.record.decider import UNKNOWN, Decider, Undecided, may_not, not_pending, own_request, rights_now
from metier.record.payload import Payloads
from metier.record.standing import fits, give_in

if TYPE_CHECKING:
    import sqlite3

    from metier.record.database import Database

Decision: TypeAlias = Literal["approve", "deny"]
USE_WITHIN: Final = 900.0
"""Seconds in which a decision is to be used."""


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
    in_its_process: bool = False,
    now: float | Moment | None = None,
    use_within: float = USE_WITHIN,
    payloads: Payloads = "redacted",
) -> Approval | Undecided:
    """Approve or deny a request. `grant` is what `proposed_grant` made for it, for any scope but `once`. Of the `word` of a
    denial whoever asked is told what `payloads` lets be kept. `four_eyes` is today's; what it was when it was asked counts too.
    `in_its_process`: the process that asked is the one that puts the question, and runs it.

    Raises:
        RecordError: when it is denied, but that could not be recorded.
        StateError: when it could not be written or recorded; then it is as undecided as before.
    """
    at = moment(now)
    if decision == "deny":
        return end(database, approval, Denial(by), word=valid_word(word), payloads=payloads, now=at)
    with database.transaction() as connection:
        row = row_of(connection, approval)
        refused = may_not(connection, by) or own_request(row, by, four_eyes=four_eyes) or not_pending(row, at)
        if refused is None and row is not None:
            refused = _cannot(connection, row, by, scope, grant) or _elsewhere(row, here=in_its_process)
        if row is None or refused is not None:
            return refuse(connection, row, by.recorded, refused or UNKNOWN, at)
        return _approve(connection, row, by, scope, grant, at, use_within)


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
        act_of(row, by.recorded),
        at=now.text,
        code=scope,
        reasons=(*own, *by.recorded.reasons),
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


def _elsewhere(row: Row, *, here: bool) -> Undecided | None:
    """Whether a yes from here would lead to nothing, because nobody but who asked could take it up."""
    shown = shown_in(row)
    if here or shown is None or not shown.file:
        return None
    reason = "only the process that asked has the file, so it is decided there; if that is gone, run it again"
    return Undecided(code="only_there", reason=reason)


def _cannot(
    connection: "sqlite3.Connection", row: Row, by: Decider, scope: Scope, grant: StandingGrant | None
) -> Undecided | None:
    """Why this cannot be approved so, by whoever may."""
    shown = shown_in(row)
    problem = recorded_problem(connection, row)
    if shown is None or problem:
        return Undecided(code="not_as_recorded", reason=problem or "what it asks cannot be read")
    needed = {shown.right} - {EXECUTE} | ({TRUST} if grant is not None and not grant.session else set[str]())
    if beyond := needed - rights_now(connection, by):
        named = ", ".join(sorted(beyond))
        return Undecided(
            code="forbidden", reason=f"nobody grants more than he holds, and {by.id!r} lacks {named}"
        )
    if (scope == "once") != (grant is None):
        return Undecided(code="bad_grant", reason=f"scope {scope!r} and the standing grant do not fit")
    if grant is not None and (problem := fits(grant, shown, scope, approval=row.id, by=by.id)):
        return Undecided(code="bad_grant", reason=problem)
    return None
