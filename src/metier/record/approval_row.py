"""A row of the table `approval`: how it is read, what of it the chain answers for, and how it is shown.

The record that made a row what it is carries a digest of it, and the row the number of that record. So a row that somebody
wrote past us is none: it is found when it is used, and by `metier audit verify`.
"""

from hmac import compare_digest
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import msgspec

from metier.model.approval import Approval, Shown, State
from metier.model.instant import written
from metier.record.approval_clock import Moment, Term, is_over
from metier.record.beside import recorded
from metier.record.chain import grant_digest, keyed_digest
from metier.record.glance import UNDECODABLE, Glance, glance
from metier.record.schema import KNOWS_SETTING

if TYPE_CHECKING:
    import sqlite3

OPEN: Final = ("pending", "approved")
"""States in which the act may still come to run."""
FIELDS: Final = (
    "id, call_id, principal, on_behalf_of, session, fingerprint, seal, asked_at, expires_at, boot, deadline, "
    "decided_at, decided_by, scope, state, record, key, call, shown, waiting_until"
)
OPEN_ONLY: Final = FIELDS.replace(
    "key, call, shown",
    ", ".join(f"iif(state IN ('pending', 'approved'), {name}, NULL)" for name in ("key", "call", "shown")),
)
"""The same, without fetching what is blank in a row that is over."""
_shown: Final = msgspec.json.Decoder(Shown)


class Row(NamedTuple):
    """One row, as it lies there."""

    id: str
    call_id: str
    principal: str
    on_behalf_of: str
    session: str
    fingerprint: str
    seal: str
    asked_at: str
    expires_at: float
    boot: str
    deadline: float
    decided_at: str
    decided_by: str
    scope: str
    state: str
    record: int
    key: bytes | None
    call: bytes | None
    shown: bytes | None
    waiting_until: float

    @property
    def term(self) -> Term:
        """A decision has its own time to be used."""
        began = self.decided_at or self.asked_at
        return Term(began=began, expires_at=self.expires_at, boot=self.boot, deadline=self.deadline)


def known(connection: "sqlite3.Connection") -> bool:
    """Whether there is such a table; older state is looked at as it lies."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version >= KNOWS_SETTING


def row_of(connection: "sqlite3.Connection", approval: str) -> Row | None:
    """The row with this id, if there is one and we can have written it."""
    if not approval.isascii() or not known(connection):  # our ids are, and a driver takes no broken text
        return None
    found = connection.execute(f"SELECT {FIELDS} FROM approval WHERE id = ?", (approval,)).fetchone()  # noqa: S608
    return None if found is None else typed(found)


def typed(found: tuple[object, ...]) -> Row | None:
    """SQLite keeps whatever it is given in any column; None when that is nothing of ours."""
    texts = (*found[:8], found[9], *found[11:15])
    numbers = (found[8], found[10], found[19])
    blobs = found[16:19]
    if (
        all(isinstance(each, str) for each in texts)
        and all(isinstance(each, float) for each in numbers)
        and isinstance(found[15], int)
        and all(each is None or isinstance(each, bytes) for each in blobs)
    ):
        return Row(*cast("tuple[str, ...]", found))  # pyright: ignore[reportArgumentType]  just looked at
    return None


def digest_of(row: Row, state: str) -> str:
    """What the chain answers for: all that lasts, in `state`. What was said and asked is sealed, and can be erased."""
    parts = (*row[: Row._fields.index("state")], state)
    return grant_digest(*(str(part).encode("utf-8", "surrogatepass") for part in parts))


def seal_of(key: bytes, call: bytes, shown: bytes) -> str:
    """Binds what will run and what is shown to a row, without giving either away once the key is gone."""
    return keyed_digest(key, len(call).to_bytes(8, "big") + call + shown)


def recorded_problem(connection: "sqlite3.Connection", row: Row) -> str:
    """Why a row that is open is not the one that was recorded; empty when it is."""
    found = connection.execute("SELECT body FROM audit WHERE seq = ?", (row.record,)).fetchone()
    record = glance(found[0]) if found is not None and isinstance(found[0], bytes) else ""
    event = {"pending": "skill_approval_queued", "approved": "skill_approved"}.get(row.state)
    same = (
        isinstance(record, Glance)
        and record.event == event
        and compare_digest(record.grant, digest_of(row, row.state))
        and row.key is not None
        and row.call is not None
        and row.shown is not None
        and compare_digest(row.seal, seal_of(row.key, row.call, row.shown))
    )
    return "" if same else "it is not as it was recorded; see `metier audit verify`"


def view(row: Row, now: Moment, word: str = "") -> Approval:
    """As it stands now. What has run out is over, also before anybody has written that down."""
    state = cast("State", row.state)
    if state in OPEN and is_over(row.term, now):
        state = "expired"
    return Approval(
        id=row.id,
        call_id=row.call_id,
        principal=row.principal,
        on_behalf_of=row.on_behalf_of,
        session=row.session,
        state=state,
        asked_at=row.asked_at,
        expires_at=written(row.expires_at),
        decided_at=row.decided_at,
        decided_by=row.decided_by,
        scope=row.scope,
        word=word,
        waited_for=state in OPEN and row.boot == now.boot and now.running < row.waiting_until,
        fingerprint=row.fingerprint,
        shown=shown_in(row) if state in OPEN else None,
    )


def word_of(connection: "sqlite3.Connection", row: Row) -> str:
    """What was said when it was denied. It is a payload of that record and lies nowhere else, so it is masked, kept and erased
    like every other."""
    if row.state != "denied":
        return ""
    found: tuple[object, object, object] | None = connection.execute(
        "SELECT body, keys, kept FROM audit WHERE seq = ?", (row.record,)
    ).fetchone()
    if found is None or not isinstance(found[0], bytes):
        return ""
    record = glance(found[0])
    word = recorded(record.payloads, *found[1:]).get("word") if isinstance(record, Glance) else None
    return msgspec.json.decode(word, type=str) if word is not None else ""


def shown_in(row: Row) -> Shown | None:
    """What the approver is shown; None when it is gone or cannot be read."""
    try:
        return None if row.shown is None else _shown.decode(row.shown)
    except UNDECODABLE:
        return None


def blank(connection: "sqlite3.Connection", approval: str) -> None:
    """Nobody needs to know any more what was asked. Overwritten where it lies: a row that shrinks leaves copies behind."""
    connection.execute(
        """UPDATE approval SET key = zeroblob(length(key)), call = zeroblob(length(call)),
           shown = zeroblob(length(shown)), waiting_until = 0.0 WHERE id = ?""",
        (approval,),
    )
