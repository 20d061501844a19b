"""Who may decide a request, and whether it is still there to be decided."""

from typing import TYPE_CHECKING, Final, Literal, TypeAlias, final

import msgspec

from metier.model.call import Call
from metier.model.role import APPROVE, Kind, rights_of
from metier.record.approval_clock import Moment, is_over
from metier.record.approval_ending import By
from metier.record.approval_row import OPEN, Row, shown_in
from metier.record.glance import UNDECODABLE

if TYPE_CHECKING:
    import sqlite3

Why: TypeAlias = Literal[
    "unknown",
    "forbidden",
    "own_request",
    "not_open",
    "expired",
    "not_as_recorded",
    "bad_grant",
    "only_there",
]


@final
class Decider(msgspec.Struct, frozen=True, kw_only=True):
    """Who decides, as his door authenticated him now."""

    id: str
    kind: Kind
    rights: frozenset[str]
    """Today's."""
    session: str = ""
    """What he is signed in by, where his door knows: on the record of what he decides."""
    token: str = ""
    """Id of the API token he came with, or empty. Likewise."""
    connection: str = ""
    """What he is spoken to over, where his door knows: an answer over the requester's own counts for nothing."""
    over: str = ""
    """The requester's own connection, where the operator declared that to be himself. It is recorded, and not held against him."""
    chats: frozenset[str] = frozenset()
    """Every chat that is known to be his, as `channel/chat`: what a message from there set off is his own doing."""

    @property
    def recorded(self) -> By:
        """As records name him."""
        return By(self.id, self.session or self.over, self.token, own_client=bool(self.over))


@final
class Undecided(msgspec.Struct, frozen=True, kw_only=True):
    """It stays as it was."""

    code: Why
    reason: str
    state: str = ""
    """What it is, where it is no longer open."""


UNKNOWN: Final = Undecided(code="unknown", reason="there is no such request for approval")


def may_not(connection: "sqlite3.Connection", by: Decider) -> Undecided | None:
    """Why `by` decides nothing at all. Said before anything is said about a request."""
    if by.kind != "human":
        return Undecided(code="forbidden", reason=f"only people decide, and {by.id!r} is not one")
    if APPROVE not in rights_now(connection, by):
        return Undecided(code="forbidden", reason=f"{by.id!r} does not have the right {APPROVE!r}")
    return None


def rights_now(connection: "sqlite3.Connection", by: Decider) -> frozenset[str]:
    """What he may do at this moment: he may have been revoked since his door looked."""
    from metier.record.principals import registered_in

    found = registered_in(connection).get(by.id)
    if found is None:
        return by.rights
    usable = not found.revoked and found.kind == "human"
    return by.rights & rights_of(found.roles) if usable else frozenset()


def own_request(row: Row | None, by: Decider, *, four_eyes: bool) -> Undecided | None:
    """Whether it is the requester who says yes, or something that speaks over his connection. `four_eyes` is today's; what it was
    when it was asked counts too."""
    if row is None:
        return UNKNOWN
    seen = shown_in(row)
    behind = seen.behind if seen is not None else ()
    then = seen is not None and seen.four_eyes
    if four_eyes or then:
        when = "is on" if four_eyes else "was on when it was asked"
        reason = f"a second person has to decide: four_eyes {when}"
        if by.id in (row.principal, row.on_behalf_of, *behind):
            return Undecided(code="own_request", reason=reason)
        if seen is not None and seen.cause in by.chats:
            return Undecided(code="own_request", reason=f"{reason}, and a message of his own set it off")
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


def not_pending(row: Row | None, now: Moment) -> Undecided | None:
    if row is None:
        return UNKNOWN
    if row.state not in OPEN:
        return closed(row.state)
    if is_over(row.term, now):
        return closed("expired")
    return closed("approved") if row.state == "approved" else None


def closed(state: str) -> Undecided:
    if state == "expired":
        return Undecided(code="expired", reason="it has expired", state=state)
    return Undecided(code="not_open", reason=_STATES.get(state, f"it is {state!r}"), state=state)


_STATES: Final = {
    "pending": "nobody has decided yet",
    "approved": "it was approved already",
    "denied": "it was denied already",
    "spent": "it was approved and begun already",
    "void": "it was taken back",
}
