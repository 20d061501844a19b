"""The audit log. Whoever acts writes the intent first and the outcome after; if writing fails nothing may run.

Every method is one transaction. Whatever goes wrong is a `RecordError`, and whoever meets one must not act.
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TypeAlias, final

import msgspec

from metier.errors import RecordError, StateError
from metier.model.digest import Json
from metier.record.chain import Act, Record, append, head, keyed_digest, now
from metier.record.events import Ending, Event, Note
from metier.record.payload import Payloads, bounded_text, payload_bytes

if TYPE_CHECKING:
    import sqlite3

    from metier.record.database import Database

Check: TypeAlias = "Callable[[sqlite3.Connection], IntentDenied | str | None]"
"""Looks, and may write, inside the intent's transaction; a returned reason undoes everything."""


@final
class IntentDenied(msgspec.Struct, frozen=True):
    """Nothing was recorded and nothing may run."""

    reason: str
    code: Literal["not_trusted", "skill_disabled"] = "not_trusted"


class _Undo(Exception):
    """Leaves a transaction without keeping it."""


@final
class AuditLog:
    """Appends to the one chain of a database and reads it."""

    def __init__(
        self, database: "Database", *, payloads: Payloads = "redacted", clock: Callable[[], str] = now
    ) -> None:
        self._database = database
        self._payloads: Payloads = payloads
        self._clock = clock

    def intent(
        self,
        act: Act,
        *,
        reasons: tuple[str, ...] = (),
        payloads: Mapping[str, Json] = {},
        check: "Check | None" = None,
    ) -> int | IntentDenied:
        """Record that `act` is about to happen, if `check` has no objection. Gives the number of the record."""
        kept = self._kept(payloads)
        objection: IntentDenied | str | None = None
        try:
            with _recording(), self._database.transaction(quiet=check is None) as connection:
                if check is not None and (objection := check(connection)) is not None:
                    raise _Undo
                seq = self._append(connection, "skill_execution_started", act, kept, reasons=reasons)
                connection.execute("INSERT INTO open_intent VALUES (?)", (seq,))
                return seq
        except _Undo:
            if isinstance(objection, IntentDenied):
                return objection
            return IntentDenied(objection or "the check gave no reason")

    def outcome(
        self,
        intent: int,
        event: Ending,
        *,
        code: str = "",
        reasons: tuple[str, ...] = (),
        payloads: Mapping[str, Json] = {},
    ) -> int:
        """Record how the act announced by record `intent` ended. An intent has one outcome."""
        kept = self._kept(payloads)
        with _recording(), self._database.transaction(quiet=True) as connection:
            ended = connection.execute("DELETE FROM open_intent WHERE seq = ?", (intent,)).rowcount
            row = connection.execute("SELECT body FROM audit WHERE seq = ?", (intent,)).fetchone()
            if not ended or row is None:
                raise RecordError(
                    f"record {intent} is not an intent that waits for its outcome",
                    remedy="Run `metier audit verify` to see whether the log is whole",
                )
            begun = _decode(row[0])
            act = Act(
                principal=begun.principal,
                call_id=begun.call_id,
                on_behalf_of=begun.on_behalf_of,
                tool=begun.tool,
                skill=begun.skill,
                skill_digest=begun.skill_digest,
            )
            return self._append(connection, event, act, kept, code=code, reasons=reasons, about=intent)

    def refused(
        self, act: Act, *, code: str, reasons: tuple[str, ...], payloads: Mapping[str, Json] = {}
    ) -> int:
        """Record that `act` was refused and nothing ran."""
        return self.note("skill_execution_blocked", act, code=code, reasons=reasons, payloads=payloads)

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
        kept = self._kept(payloads)
        with _recording(), self._database.transaction(quiet=True) as connection:
            return self._append(connection, event, act, kept, code=code, reasons=reasons)

    def erase(self, seq: int, *, by: str) -> None:
        """Make the payloads of record `seq` unreadable for good. Doing it again finishes what was hindered.

        Keys and bodies are overwritten where they lie. Deleting the rows would not do: when SQLite
        rearranges a page after a deletion it leaves copies of neighbouring rows behind, and
        `secure_delete` does not clear those when their turn comes.
        """
        with _recording(), self._database.transaction(quiet=True) as connection:
            if connection.execute("SELECT 1 FROM payload WHERE seq = ?", (seq,)).fetchone() is None:
                raise RecordError(
                    f"record {seq} has no payload", remedy="Look it up with `metier audit tail`"
                )
            if connection.execute("SELECT 1 FROM erasure WHERE seq = ?", (seq,)).fetchone() is None:
                record = self._append(connection, "payload_erased", Act(principal=by), {}, about=seq)
                connection.execute("INSERT INTO erasure VALUES (?, ?)", (seq, record))
            connection.execute(
                "UPDATE payload SET key = zeroblob(length(key)), body = zeroblob(length(body)) WHERE seq = ?",
                (seq,),
            )
        with _recording():
            if not self._database.flush():
                raise RecordError(
                    f"the payloads of record {seq} are erased, but the write-ahead file still holds the old bytes",
                    remedy="Close the other programs that read the database, then erase it again",
                )

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
        found: dict[str, Json] = {}
        with _recording(), self._database.reading() as connection:
            for name, key, body in connection.execute(
                "SELECT name, key, body FROM payload WHERE seq = ? ORDER BY name", (record.seq,)
            ):
                there = isinstance(key, bytes) and isinstance(body, bytes)
                if there and keyed_digest(key, body) == record.payloads.get(name):
                    found[name] = msgspec.json.decode(body)
        return found

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

    def _kept(self, payloads: Mapping[str, Json]) -> dict[str, bytes]:
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
        )


@contextmanager
def _recording() -> Generator[None, None, None]:
    try:
        yield
    except StateError as error:
        raise RecordError(error.message, remedy=error.remedy) from error


def _decode(body: bytes) -> Record:
    try:
        return msgspec.json.decode(body, type=Record)
    except (msgspec.MsgspecError, UnicodeDecodeError, TypeError) as error:
        raise RecordError(
            "a record of the audit log cannot be read", remedy="Run `metier audit verify` to see which one"
        ) from error
