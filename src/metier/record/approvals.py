"""Requests for somebody's word: asked, looked at, and claimed once by the very act they were about.

A row stays when it is over, without what was asked, so that no id ever comes back. Nothing here waits: a request that
nobody has answered yet is a row in a table and nothing else.
"""

from collections.abc import Callable, Iterable
from hmac import compare_digest
from typing import TYPE_CHECKING, Final, final

import msgspec

from metier.model.approval import Approval, Shown
from metier.model.call import Call, Principal
from metier.model.text import one_line
from metier.record.approval_clock import Moment, Term, is_over, moment, term
from metier.record.approval_ledger import ApprovalLedger as ApprovalLedger
from metier.record.approval_row import (
    FIELDS,
    OPEN,
    OPEN_ONLY,
    Row,
    blank,
    digest_of,
    known,
    recorded_problem,
    row_of,
    seal_of,
    shown_in,
    typed,
    view,
    word_of,
)
from metier.record.glance import UNDECODABLE
from metier.record.registered import may_approve

if TYPE_CHECKING:
    import sqlite3

    from metier.record.database import Database

ABOUT_TO_WAIT: Final = 10.0
"""Seconds that who asked, and is about to wait, may take to begin with that."""
PENDING_PER_PRINCIPAL: Final = 100
SECONDS: Final = 900.0
"""How long a request waits, and how long a decision may be used."""
UNKNOWN: Final = "there is no such approval for this call"
"""Also said of one that is somebody else's: nobody learns by asking which ids there are."""
_call: Final = msgspec.json.Decoder(Call)


@final
class NewApproval(msgspec.Struct, frozen=True, kw_only=True):
    """A request to let `call` run, ready to be stored with its record."""

    id: str
    """`apr_` and what nobody can guess."""
    call: Call
    shown: Shown
    """What its approver sees."""
    key: bytes
    fingerprint: str
    """Under that key."""
    now: float | Moment
    seconds: float = SECONDS
    """How long it waits."""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "now", moment(self.now))  # one moment, however often it is asked

    @property
    def row(self) -> Row:
        """As it is stored."""
        waits = term(moment(self.now), self.seconds)
        asker = self.call.principal
        # Who it was is known by id; what he may do is for the day on which it runs to say. What bounds him
        # goes along: a call that was made with a token is taken up with what that token gives.
        bare = Principal(
            id=asker.id,
            kind=asker.kind,
            on_behalf_of=asker.on_behalf_of,
            scopes=asker.scopes,
            token=asker.token,
        )
        call = msgspec.json.encode(
            msgspec.structs.replace(self.call, principal=bare, approval=None, waits=False)
        )
        shown = msgspec.json.encode(self.shown)
        return Row(
            id=self.id,
            call_id=self.call.id,
            principal=asker.id,
            on_behalf_of=asker.on_behalf_of or "",
            session=self.call.surroundings.session or "",
            fingerprint=self.fingerprint,
            seal=seal_of(self.key, call, shown),
            asked_at=waits.began,
            expires_at=waits.expires_at,
            boot=waits.boot,
            deadline=waits.deadline,
            decided_at="",
            decided_by="",
            scope="",
            state="pending",
            record=0,
            key=self.key,
            call=call,
            shown=shown,
            # Until he says so himself: somebody may decide before, and another who asks for the same would take it.
            waiting_until=moment(self.now).running + ABOUT_TO_WAIT if self.call.waits else 0.0,
        )

    @property
    def record_digest(self) -> str:
        """What the record of the request must carry as its `grant`."""
        return digest_of(self.row, "pending")


def queue_problem(
    connection: "sqlite3.Connection",
    principal: str,
    cap: int = PENDING_PER_PRINCIPAL,
    now: float | Moment | None = None,
) -> str:
    """Why this principal may not ask for more now; empty when he may. How much others ask does not matter."""
    at = moment(now)
    rows = connection.execute(
        "SELECT asked_at, expires_at, boot, deadline FROM approval WHERE state = 'pending' AND principal = ?",
        (principal,),
    )
    waiting = 0
    for began, expires_at, boot, deadline in rows:
        waiting += not is_over(Term(began=began, expires_at=expires_at, boot=boot, deadline=deadline), at)
    if waiting < cap:
        return ""
    return f"{principal!r} has {waiting} requests waiting for a decision, and {cap} are the most"


def take_queue(connection: "sqlite3.Connection", asked: NewApproval, seq: int) -> None:
    """Store the request that record `seq` is about."""
    row = asked.row._replace(record=seq)
    holes = ", ".join("?" * len(row))
    connection.execute(f"INSERT INTO approval ({FIELDS}) VALUES ({holes})", row)  # noqa: S608  constants


def claim_problem(
    connection: "sqlite3.Connection",
    approval: str,
    principal: str,
    fingerprint_of: Callable[[bytes], str],
    now: float | Moment | None = None,
    *,
    project: str = "",
) -> str:
    """Why this act of this principal may not run on that decision; empty when it may, once. `project` is the real path of the
    folder by whose configuration it was judged now."""
    row = row_of(connection, approval)
    if row is None or row.principal != principal:
        return UNKNOWN
    if row.state not in OPEN:
        return _OVER.get(row.state, "its state cannot be understood")
    if is_over(row.term, moment(now)):
        return _OVER["expired"]
    if row.state == "pending":
        return "nobody has decided yet"
    if problem := recorded_problem(connection, row):
        return problem
    if not may_approve(connection, row.decided_by):
        return "whoever approved it may approve nothing any more"
    if (asked := shown_in(row)) is None or asked.project != project:
        where = one_line(asked.project, 200) if asked is not None else ""
        return f"it was asked in the project {where or '(none)'}, and can be taken up only there"
    if row.key is None or not compare_digest(fingerprint_of(row.key), row.fingerprint):
        return "it is not the act that was approved: something about it changed since"
    return ""


_OVER: Final = {
    "denied": "it was denied",
    "expired": "it has expired",
    "spent": "it was used already",
    "void": "it was taken back",
}


def take_claim(connection: "sqlite3.Connection", approval: str, seq: int) -> None:
    """Use the decision up for the intent that is record `seq`."""
    connection.execute(
        "UPDATE approval SET state = 'spent', record = ? WHERE id = ? AND state = 'approved'", (seq, approval)
    )
    blank(connection, approval)


def approvals_in(
    connection: "sqlite3.Connection", now: float | Moment | None = None, *, over: bool = False
) -> list[Approval]:
    """The requests that wait for a decision or to be used, oldest first; with `over` all there ever were."""
    if not known(connection):
        return []
    at = moment(now)
    which = "" if over else "WHERE state IN ('pending', 'approved')"
    rows = map(
        typed,
        connection.execute(f"SELECT {OPEN_ONLY} FROM approval {which} ORDER BY asked_at, id"),  # noqa: S608
    )
    found = [view(row, at, word_of(connection, row)) for row in rows if row is not None]
    return found if over else [each for each in found if each.state in OPEN]


def approval_in(
    connection: "sqlite3.Connection", approval: str, now: float | Moment | None = None
) -> Approval | None:
    """One request as it stands."""
    row = row_of(connection, approval)
    return None if row is None else view(row, moment(now), word_of(connection, row))


def find(database: "Database", approval: str, now: float | Moment | None = None) -> Approval | None:
    """As `approval_in`, for who has no connection at hand."""
    with database.reading() as connection:
        return approval_in(connection, approval, now)


def askers(database: "Database", approvals: Iterable[str]) -> dict[str, tuple[str, str]]:
    """By id of a request: who asked, and on whose behalf. Also of one that is over; what is none is left out."""
    found: dict[str, tuple[str, str]] = {}
    with database.reading() as connection:
        for each in approvals if known(connection) else ():
            row = connection.execute(
                "SELECT principal, on_behalf_of FROM approval WHERE id = ?", (each,)
            ).fetchone()
            if row is not None and isinstance(row[0], str) and isinstance(row[1], str):
                found[each] = (row[0], row[1])
    return found


def stored_call(database: "Database", approval: str) -> Call | None:
    """The call that was approved, to be taken up again; None when there is none that may run.

    Its principal is an id and no more: who takes it up looks up what that principal may do today.
    """
    with database.reading() as connection:
        row = row_of(connection, approval)
        if row is None or row.state != "approved" or row.call is None or recorded_problem(connection, row):
            return None
    try:
        return msgspec.structs.replace(_call.decode(row.call), approval=approval)
    except UNDECODABLE:
        return None


def decider_of(connection: "sqlite3.Connection", approval: str) -> str:
    """Who approved it; empty when nobody did. Whether that still counts is asked when the call begins."""
    row = row_of(connection, approval)
    return row.decided_by if row is not None and row.state == "approved" else ""


def keep_waiting(database: "Database", approval: str, until: float) -> None:
    """Somebody waits for this decision, and will run it himself, up to `until` (as `Moment.running` counts)."""
    with database.transaction(quiet=True) as connection:
        connection.execute(
            "UPDATE approval SET waiting_until = ? WHERE id = ? AND state IN ('pending', 'approved')",
            (float(until), approval),
        )
