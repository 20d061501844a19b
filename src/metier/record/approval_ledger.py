"""What the table of approvals must hold if the chain is right.

What is kept while the log is walked grows with the requests that are open. Those that are over are counted into one sum,
and the rows of the table into another: equal sums mean equal rows, however many there are.
"""

import hashlib
from typing import TYPE_CHECKING, Final, NamedTuple

from metier.record.approval_row import OPEN, OPEN_ONLY, Row, digest_of, seal_of
from metier.record.glance import rows_since
from metier.record.schema import KNOWS_SETTING

if TYPE_CHECKING:
    import sqlite3

    from metier.record.glance import Glance

_CLOSING: Final = ("skill_rejected", "approval_expired", "call_cancelled")
_MODULUS: Final = 1 << 256
_TEXTS: Final = frozenset(Row._fields) - {
    "expires_at",
    "deadline",
    "record",
    "key",
    "call",
    "shown",
    "waiting_until",
}


class _Open(NamedTuple):
    approval: str
    state: str
    digest: str


class ApprovalLedger:
    """What followed from the records so far."""

    def __init__(self) -> None:
        self._open: dict[int, _Open] = {}
        """By the record that made it what it is."""
        self._seq: dict[str, int] = {}
        """By id: the key into the other."""
        self._over = 0

    def take(self, record: "Glance") -> str:
        """Follow one more record. Gives why it cannot follow on the others; empty when it can."""
        event = record.event
        if event == "skill_approval_queued":
            return (
                self._put(record.seq, _Open(record.approval, "pending", record.grant))
                if record.approval
                else ""
            )
        if event == "skill_approved":
            was = self._pop(record.about)
            if was is None or was.state != "pending" or was.approval != record.approval:
                return f"record {record.seq} approves what did not wait for it"
            return self._put(record.seq, _Open(was.approval, "approved", record.grant))
        if event in _CLOSING and record.approval:
            was = self._pop(record.about)
            if was is None or was.approval != record.approval:
                return f"record {record.seq} ends a request that was not open"
            self._end(record.seq, record.grant)
        elif event == "skill_execution_started" and record.evidence.startswith("apr_"):
            was = self._pop(self._seq.get(record.evidence))
            if was is None or was.state != "approved":
                return (
                    f"record {record.seq} began on a decision that nobody had made, or that was used before"
                )
            self._end(record.seq, was.digest)
        elif event == "outcome_given":  # its row names this record now instead of the beginning of its run
            self._over = (self._over - _weight(record.about or 0, record.grant)) % _MODULUS
            self._end(record.seq, record.grant)
        return ""

    def problem(self, connection: "sqlite3.Connection") -> str:
        """Where the table says something else than the records. The connection gives text as bytes."""
        missing, over = set(self._open), 0
        for found in rows_since(KNOWS_SETTING, connection, f"SELECT {OPEN_ONLY} FROM approval ORDER BY id"):  # noqa: S608
            row = _decoded(found)
            if row.state in OPEN:
                if said := self._open_problem(row):
                    return said
                missing.discard(row.record)
            elif row.record in self._open:
                return f"approval {row.id!r} is {row.state}, and no record says so; deny it once more to settle it"
            else:
                # Using one up writes no new digest: the last one is of the state before.
                before = "approved" if row.state == "spent" else row.state
                over = (over + _weight(row.record, digest_of(row, before))) % _MODULUS
        if missing:
            return f"approval {self._open[min(missing)].approval!r} is open on the record, and the table forgot it"
        if over != self._over:
            return "among the approvals that are over one is missing, added or changed"
        return ""

    def _open_problem(self, row: Row) -> str:
        recorded = self._open.get(row.record)
        if recorded is None or recorded.approval != row.id or recorded.state != row.state:
            return f"approval {row.id!r} is {row.state}, and no record says so; {_REMEDY}"
        blobs = (row.key, row.call, row.shown)
        sealed = all(isinstance(each, bytes) for each in blobs) and row.seal == seal_of(*map(_bytes, blobs))
        if not sealed or digest_of(row, row.state) != recorded.digest:
            return f"approval {row.id!r} is not the one that was recorded; {_REMEDY}"
        return ""

    def _put(self, seq: int, entry: _Open) -> str:
        if entry.approval in self._seq:
            return f"record {seq} asks again under the id of another request"
        self._open[seq] = entry
        self._seq[entry.approval] = seq
        return ""

    def _end(self, seq: int, digest: str) -> None:
        self._over = (self._over + _weight(seq, digest)) % _MODULUS

    def _pop(self, seq: int | None) -> _Open | None:
        was = None if seq is None else self._open.pop(seq, None)
        if was is not None:
            del self._seq[was.approval]
        return was


_REMEDY: Final = "keep the file as evidence"


def _weight(seq: int, digest: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seq} {digest}".encode()).digest(), "big")


def _bytes(stored: object) -> bytes:
    return stored if isinstance(stored, bytes) else b""


def _decoded(found: tuple[object, ...]) -> Row:
    """Text comes as bytes here, whatever it is; what is no text of ours then has another digest."""
    row = Row(*found)  # pyright: ignore[reportArgumentType]  only compared, never relied on
    texts = {
        name: value.decode("utf-8", "replace")
        for name, value in row._asdict().items()
        if name in _TEXTS and isinstance(value, bytes)
    }
    return row._replace(**texts)
