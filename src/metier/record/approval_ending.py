"""How a request ends without having run: the row and its record in one transaction, and nothing left of what was asked."""

from typing import TYPE_CHECKING, Literal, NamedTuple

from metier.record.approval_row import (
    FIELDS,
    OPEN,
    Row,
    blank,
    digest_of,
    known,
    recorded_problem,
    shown_in,
    typed,
)
from metier.record.chain import Act, append
from metier.record.glance import Glance, glance
from metier.record.late import forget_all, forget_of
from metier.record.payload import Payloads, payload_bytes

if TYPE_CHECKING:
    import sqlite3

    from metier.record.events import Event


class By(NamedTuple):
    """Who did something with a request, and what he came with. It is not what it was asked with."""

    id: str
    session: str = ""
    token: str = ""
    """Id of an API token."""
    own_client: bool = False
    """Whether he spoke over the client that asked, which the operator declared to be himself."""

    @property
    def reasons(self) -> tuple[str, ...]:
        """What is to be said of how he spoke."""
        said = "said over the client that asked, which the operator declared to be himself"
        return (said,) if self.own_client else ()


def close(
    connection: "sqlite3.Connection",
    row: Row,
    event: "Event",
    state: Literal["denied", "expired", "void"],
    *,
    by: By,
    at: str,
    word: str = "",
    payloads: Payloads = "redacted",
) -> int:
    """End a request, and give the number of the record that says so. Of `word` is kept what `payloads` says."""
    made = row._replace(state=state, decided_at=at, decided_by=by.id)
    odd = recorded_problem(connection, row) if row.state in OPEN else ""
    seq = append(
        connection,
        event,
        act_of(row, by),
        at=at,
        code=state,
        reasons=(*((odd,) if odd else ()), *by.reasons),
        about=row.record,
        grant=digest_of(made, state),
        approval=row.id,
        payloads={"word": payload_bytes(word, payloads)} if word else {},
        keep_payloads=payloads != "hashes",
    )
    connection.execute(
        "UPDATE approval SET state = ?, decided_at = ?, decided_by = ?, record = ? WHERE id = ?",
        (state, at, by.id, seq, row.id),
    )
    blank(connection, row.id)
    return seq


def void_all(connection: "sqlite3.Connection", *, at: str, by: str) -> int:
    """Let nothing that is open run any more, in the transaction of a restore: what was decided in the state that is
    restored may have run since. Gives how many there were."""
    rows = open_rows(connection)
    for row in rows:
        close(connection, row, "skill_rejected", "void", by=By(by), at=at)
    forget_all(connection)
    return len(rows)


def void_of(connection: "sqlite3.Connection", id: str, *, at: str, by: str) -> int:
    """End what was asked by or for somebody, and what he approved and nobody used yet, in the transaction of what ends his
    part in it. Gives how many there were."""
    rows = [row for row in open_rows(connection) if id in (row.principal, row.on_behalf_of, row.decided_by)]
    for row in rows:
        close(connection, row, "skill_rejected", "void", by=By(by), at=at)
    forget_of(connection, id)
    return len(rows)


def open_rows(connection: "sqlite3.Connection") -> list[Row]:
    """Every request that may still come to run, oldest first."""
    if not known(connection):
        return []
    found = connection.execute(
        f"SELECT {FIELDS} FROM approval WHERE state IN ('pending', 'approved') ORDER BY asked_at, id"  # noqa: S608
    )
    return [row for row in map(typed, found) if row is not None]


def unsettled(connection: "sqlite3.Connection", row: Row) -> bool:
    """Whether it ended without a record, which can then be made up for."""
    if row.state not in ("denied", "void"):
        return False
    found = connection.execute("SELECT body FROM audit WHERE seq = ?", (row.record,)).fetchone()
    record = glance(found[0]) if found is not None and isinstance(found[0], bytes) else ""
    return isinstance(record, Glance) and record.event in ("skill_approval_queued", "skill_approved")


def act_of(row: Row, by: By) -> Act:
    """What the records of a request say about it."""
    shown = shown_in(row)
    return Act(
        principal=by.id,
        call_id=row.call_id,
        tool=shown.tool if shown else "",
        skill=shown.skill if shown else "",
        skill_digest=shown.skill_digest if shown else "",
        session=by.session,
        token=by.token,
    )
