"""Somebody's yes that is there and unused when the same is asked again: it is found where a request would be written.

Whoever asked may not have been there any more when it was decided. What he asks again is the same act when everything is the
same that an approver is shown, and the fingerprint under which he said yes.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from metier.model.approval import Shown
from metier.model.call import Call, Cause
from metier.record.approval_clock import Moment
from metier.record.approval_row import FIELDS, Row, typed
from metier.record.approvals import claim_problem
from metier.record.glance import UNDECODABLE

if TYPE_CHECKING:
    import sqlite3

_NOBODY: Final = Cause()
_call: Final = msgspec.json.Decoder(Call)


class Word(NamedTuple):
    """A yes to exactly this act, which nobody used yet."""

    approval: str
    by: str
    """Who gave it."""
    call_id: str
    """The call it was asked for."""
    attempt: int


def word_for(
    connection: "sqlite3.Connection",
    call: Call,
    shown: Shown,
    fingerprint_of: Callable[[bytes, str, int], str],
    now: Moment,
) -> Word | None:
    """The oldest yes that `call` may run on, having been given for the same; None when there is none. One that came with a grant is not
    it: the grant answers, and where that was taken back nothing else of it does.

    Args:
        shown: what an approver would be shown of it now.
        fingerprint_of: the act's fingerprint under a key, as that of a call of that id and attempt.
        now: both clocks.
    """
    if (
        call.cause != _NOBODY
    ):  # each firing of a trigger or schedule is an occasion of its own, and asks for itself
        return None
    rows = connection.execute(
        f"SELECT {FIELDS} FROM approval WHERE state = 'approved' AND scope = 'once' AND principal = ? AND shown = ? "  # noqa: S608  constants
        "ORDER BY decided_at, id",
        (call.principal.id, msgspec.json.encode(shown)),
    )
    for row in [made for made in map(typed, rows) if made is not None]:
        asked = _stored(row)
        if asked is None or not _same_caller(asked, call) or _waited_for(row, now):
            continue
        if not claim_problem(
            connection,
            row.id,
            call.principal.id,
            lambda key, asked=asked: fingerprint_of(key, asked.id, asked.attempt),
            now,
            project=shown.project,
        ):
            return Word(row.id, row.decided_by, asked.id, asked.attempt)
    return None


def _stored(row: Row) -> Call | None:
    try:
        return None if row.call is None else _call.decode(row.call)
    except UNDECODABLE:
        return None


def _same_caller(asked: Call, call: Call) -> bool:
    """What approvers are not shown, and what still tells one caller from another."""
    one, other = asked.principal, call.principal
    return (
        (one.kind, one.on_behalf_of, one.token, one.scopes)
        == (other.kind, other.on_behalf_of, other.token, other.scopes)
        and asked.surroundings.caller_id == call.surroundings.caller_id
        and (asked.parent, asked.depth, asked.unattended) == (call.parent, call.depth, call.unattended)
        and asked.cause == _NOBODY
    )


def _waited_for(row: Row, now: Moment) -> bool:
    """Whoever waits for it runs it himself, and must not find it gone."""
    return row.boot == now.boot and now.running < row.waiting_until
