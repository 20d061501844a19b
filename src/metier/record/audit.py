"""The audit log. Whoever acts writes the intent first and the outcome after; if writing fails nothing may run.

Every method is one transaction. Whatever goes wrong is a `RecordError`, and whoever meets one must not act.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, final

import msgspec

from metier.errors import RecordError, StateError
from metier.model.digest import Json
from metier.model.outcome import RefusalCode
from metier.record.chain import NOT_RUN, Act, Ran, Record, append, head, now
from metier.record.events import Ending, Event, Note
from metier.record.glance import UNDECODABLE
from metier.record.payload import PAYLOAD_BYTES, Payloads, bounded_text, payload_bytes

if TYPE_CHECKING:
    import sqlite3

    from metier.record.database import Database
    from metier.record.writer import Work


@final
class IntentDenied(msgspec.Struct, frozen=True):
    """Nothing was recorded and nothing may run."""

    reason: str
    code: RefusalCode = "not_trusted"


class Condition(Protocol):
    """Something that must be so when an act begins, and what beginning it uses up.

    All conditions of an intent are asked before any is taken, so a refusal never leaves half of them taken.
    """

    def problem(self, connection: "sqlite3.Connection") -> IntentDenied | None:
        """Why the act may not begin. Looks, and writes nothing."""
        ...

    def take(self, connection: "sqlite3.Connection", intent: int) -> None:
        """Use up what the act needs. `intent` is the number of its record."""
        ...


@final
class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """An act that was announced and has no outcome yet."""

    seq: int
    act: Act


@final
class AuditLog:
    """Appends to the one chain of a database and reads it.

    What is written for a call comes as work to be done inside a transaction, so that many calls can share one.
    """

    def __init__(
        self, database: "Database", *, payloads: Payloads = "redacted", clock: Callable[[], str] = now
    ) -> None:
        self._database = database
        self._payloads: Payloads = payloads
        self._clock = clock

    def intending(
        self,
        act: Act,
        *,
        reasons: tuple[str, ...] = (),
        payloads: Mapping[str, Json] = {},
        conditions: Sequence[Condition] = (),
        process: str = "",
    ) -> "Work[Intent | IntentDenied]":
        """The work that records that `act` is about to happen, if no condition objects."""
        kept, call_id = self.kept_bytes(payloads), bounded_text(act.call_id)

        def work(connection: "sqlite3.Connection") -> "Intent | IntentDenied":
            for condition in conditions:
                if (denied := condition.problem(connection)) is not None:
                    return denied
            if has_begun(connection, call_id, act.attempt):
                return IntentDenied(f"attempt {act.attempt} of this call has begun already", "already_begun")
            seq = self._append(connection, "skill_execution_started", act, kept, reasons=reasons)
            if call_id:
                connection.execute("INSERT INTO begun VALUES (?, ?, ?)", (call_id, act.attempt, seq))
            connection.execute("INSERT INTO open_intent VALUES (?, ?, ?, '')", (seq, call_id, process))
            for condition in conditions:
                condition.take(connection, seq)
            return Intent(seq=seq, act=act)

        return work

    def intent(
        self,
        act: Act,
        *,
        reasons: tuple[str, ...] = (),
        payloads: Mapping[str, Json] = {},
        conditions: Sequence[Condition] = (),
    ) -> Intent | IntentDenied:
        """Record that `act` is about to happen, if no condition objects."""
        work = self.intending(act, reasons=reasons, payloads=payloads, conditions=conditions)
        with _recording(), self._database.transaction(quiet=not conditions) as connection:
            return work(connection)

    def ending(
        self,
        intent: Intent,
        event: Ending,
        *,
        code: str = "",
        reasons: tuple[str, ...] = (),
        payloads: Mapping[str, Json] = {},
        ran: Ran = NOT_RUN,
    ) -> "Work[int]":
        """The work that records how the act announced by `intent` ended. An intent has one outcome."""
        kept = self.kept_bytes(payloads)

        def work(connection: "sqlite3.Connection") -> int:
            if not connection.execute("DELETE FROM open_intent WHERE seq = ?", (intent.seq,)).rowcount:
                raise RecordError(
                    f"record {intent.seq} is not an intent that waits for its outcome",
                    remedy="Run `metier audit verify` to see whether the log is whole",
                )
            return self._append(
                connection, event, intent.act, kept, code=code, reasons=reasons, about=intent.seq, ran=ran
            )

        return work

    def outcome(
        self,
        intent: Intent,
        event: Ending,
        *,
        code: str = "",
        reasons: tuple[str, ...] = (),
        payloads: Mapping[str, Json] = {},
    ) -> int:
        """Record how the act announced by `intent` ended."""
        work = self.ending(intent, event, code=code, reasons=reasons, payloads=payloads)
        with _recording(), self._database.transaction(quiet=True) as connection:
            return work(connection)

    def refused(
        self, act: Act, *, code: str, reasons: tuple[str, ...], payloads: Mapping[str, Json] = {}
    ) -> int:
        """Record that `act` was refused and nothing ran."""
        return self.note("skill_execution_blocked", act, code=code, reasons=reasons, payloads=payloads)

    def noting(
        self,
        event: Note,
        act: Act,
        *,
        code: str = "",
        reasons: tuple[str, ...] = (),
        payloads: Mapping[str, Json] = {},
        approval: str = "",
        grant: str = "",
        about: int | None = None,
        most: int = PAYLOAD_BYTES,
    ) -> "Work[int]":
        """The work that records what became of a call that did not begin. Payloads of at most `most` bytes are kept."""
        kept = self.kept_bytes(payloads)

        def work(connection: "sqlite3.Connection") -> int:
            return self._append(
                connection,
                event,
                act,
                kept,
                code=code,
                reasons=reasons,
                approval=approval,
                grant=grant,
                about=about,
                most=most,
            )

        return work

    def note(
        self,
        event: Note,
        act: Act,
        *,
        code: str = "",
        reasons: tuple[str, ...] = (),
        payloads: Mapping[str, Json] = {},
    ) -> int:
        """Record what became of a call that did not begin."""
        work = self.noting(event, act, code=code, reasons=reasons, payloads=payloads)
        with _recording(), self._database.transaction(quiet=True) as connection:
            return work(connection)

    def erase(self, seq: int, *, by: str) -> None:
        """Make the payloads of record `seq` unreadable for good. Doing it again finishes what was hindered."""
        from metier.record.erasure import erase

        with _recording(), self._database.reading() as connection:
            if (
                connection.execute(
                    "SELECT 1 FROM audit WHERE seq = ? AND keys IS NOT NULL", (seq,)
                ).fetchone()
                is None
            ):
                raise RecordError(
                    f"record {seq} has no payload", remedy="Look it up with `metier audit tail`"
                )
        with _recording():
            erase(self._database, (seq,), by=by)

    def tail(self, count: int, *, call_id: str | None = None) -> list[Record]:
        """The newest `count` records, newest last; with `call_id` only those of that call."""
        if count <= 0:
            return []
        found: list[Record] = []
        wanted = None if call_id is None else bounded_text(call_id)
        # The bytes of the field as they would be stored, so that SQLite skips what cannot match.
        needle = b"" if wanted is None else b'"call_id":' + msgspec.json.encode(wanted)
        with _recording(), self._database.reading() as connection:
            for (body,) in connection.execute(
                "SELECT body FROM audit WHERE instr(body, ?) > 0 ORDER BY seq DESC", (needle,)
            ):
                record = _decode(body)
                if wanted is None or record.call_id == wanted:
                    found.append(record)
                if len(found) == count:
                    break
        return found[::-1]

    def kept(self, record: Record) -> dict[str, Json]:
        """The payloads of a record that are still there and are the recorded ones."""
        from metier.record.beside import recorded

        with _recording(), self._database.reading() as connection:
            row = connection.execute("SELECT keys, kept FROM audit WHERE seq = ?", (record.seq,)).fetchone()
        found = recorded(record.payloads, *row) if row is not None else {}
        return {name: msgspec.json.decode(body) for name, body in found.items()}

    def open_intents(self) -> list[Record]:
        """Acts that were begun and of which nobody knows how they ended."""
        with _recording(), self._database.reading() as connection:
            rows = connection.execute(
                "SELECT body FROM audit JOIN open_intent ON open_intent.seq = audit.seq ORDER BY audit.seq"
            )
            return [_decode(body) for (body,) in rows]

    def head(self) -> tuple[int, str]:
        """How many records there are and the hash of the newest: keep it elsewhere, and no tail can be cut unseen."""
        with _recording(), self._database.reading() as connection:
            size, digest = head(connection)
            return size, digest.hex()

    def kept_bytes(self, payloads: Mapping[str, Json]) -> dict[str, bytes]:
        """Done before the transaction: others wait for it, and large payloads take their time."""
        return {bounded_text(name): payload_bytes(value, self._payloads) for name, value in payloads.items()}

    def _append(
        self,
        connection: "sqlite3.Connection",
        event: Event,
        act: Act,
        payloads: Mapping[str, bytes],
        *,
        code: str = "",
        reasons: tuple[str, ...] = (),
        about: int | None = None,
        approval: str = "",
        grant: str = "",
        ran: Ran = NOT_RUN,
        most: int = PAYLOAD_BYTES,
    ) -> int:
        return append(
            connection,
            event,
            act,
            at=self._clock(),
            code=code,
            reasons=reasons,
            about=about,
            payloads=payloads,
            keep_payloads=self._payloads != "hashes",
            most=most,
            approval=approval,
            grant=grant,
            ran=ran,
        )


def has_begun(connection: "sqlite3.Connection", call_id: str, attempt: int) -> bool:
    """Whether this attempt of a call began before."""
    found = connection.execute("SELECT 1 FROM begun WHERE call_id = ? AND attempt = ?", (call_id, attempt))
    return found.fetchone() is not None


@contextmanager
def _recording() -> Generator[None, None, None]:
    try:
        yield
    except StateError as error:
        raise RecordError(error.message, remedy=error.remedy) from error


def _decode(body: bytes) -> Record:
    try:
        return msgspec.json.decode(body, type=Record)
    except UNDECODABLE as error:
        raise RecordError(
            "a record of the audit log cannot be read", remedy="Run `metier audit verify` to see which one"
        ) from error
