"""How many calls wait for somebody's word."""

from typing import TYPE_CHECKING

from metier.record.approval_clock import Moment, Term, is_over, moment
from metier.record.approval_row import known

if TYPE_CHECKING:
    import sqlite3


def pending_in(connection: "sqlite3.Connection", now: float | Moment | None = None) -> int:
    """So many requests nobody has decided yet, and are not over."""
    if not known(connection):
        return 0
    at = moment(now)
    rows = connection.execute(
        "SELECT asked_at, expires_at, boot, deadline FROM approval WHERE state = 'pending'"
    )
    terms = (
        Term(began=began, expires_at=expires_at, boot=boot, deadline=deadline)
        for began, expires_at, boot, deadline in rows
    )
    return sum(not is_over(term, at) for term in terms)
