"""Is the log whole? One walk from the first record to the last, in memory that does not grow with the log.

It finds every changed, missing, doubled, moved or added record, and every payload that is not the one that
was recorded. What no chain can show by itself is a tail that was cut off, or a whole chain written anew:
for that give `expected`, a head that was kept elsewhere.
"""

import sqlite3
from collections.abc import Iterator
from hmac import compare_digest
from typing import Final, final

import msgspec

from metier.record.chain import GENESIS, keyed_digest, link
from metier.record.connection import explain, read_only
from metier.record.database import Database


@final
class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """What the walk found. `first_bad` is where it stopped; everything before it is as it was written."""

    ok: bool
    records: int
    """How many records were found whole."""
    head: str
    """Hash of the last of them."""
    first_bad: int | None = None
    problem: str = ""
    open_intents: tuple[int, ...] = ()
    """Acts that were begun and have no outcome: a crash, or somebody at work right now."""


class _Glance(msgspec.Struct):
    """The few fields of a record that the walk needs; whatever a newer Metier added does not matter."""

    seq: int
    event: str
    about: int | None = None
    payloads: dict[str, str] = {}


class _Bad(Exception):
    """The walk ends here."""

    def __init__(self, seq: int, problem: str) -> None:
        super().__init__(problem)
        self.seq = seq
        self.problem = problem


_glance: Final = msgspec.json.Decoder(_Glance)


def verify(
    database: Database | str, *, until: int | None = None, expected: tuple[int, str] | None = None
) -> Verification:
    """Walk the log of `database`, or of the file at a path, up to record `until`.

    Raises:
        StateError: when there is no database or it cannot be opened at all.
    """
    path = database if isinstance(database, str) else database.path
    connection = read_only(path)  # its own, so that the walk holds nobody up and sees one moment
    walk = _Walk(connection, until)
    try:
        connection.text_factory = bytes
        connection.execute("BEGIN")
        walk.run(expected)
    except _Bad as bad:
        return walk.result(first_bad=bad.seq, problem=bad.problem)
    except sqlite3.Error as error:
        return walk.result(first_bad=walk.size + 1, problem=explain(error, path).message)
    finally:
        connection.close()
    return walk.result()


class _Walk:
    def __init__(self, connection: sqlite3.Connection, until: int | None) -> None:
        self.connection = connection
        self.until = until
        self.size = 0
        self.hash = GENESIS
        self.open: set[int] = set()

    def run(self, expected: tuple[int, str] | None) -> None:
        payloads = _Payloads(self.connection)
        rows = self.connection.execute("SELECT seq, body, hash FROM audit ORDER BY seq")
        for seq, body, stored in rows:
            if self.until is not None and seq > self.until:
                break
            record = self._chained(seq, body, stored)
            payloads.check(seq, record.payloads)
            self._follow(record)
            self.size, self.hash = seq, stored
            if expected is not None and seq == expected[0] and stored.hex() != expected[1]:
                raise _Bad(
                    seq, f"record {seq} has another hash than the one that was kept: the log was rewritten"
                )
        else:
            payloads.check_no_more(self.size)
        if (
            expected is not None
            and self.size < expected[0]
            and (self.until is None or self.until >= expected[0])
        ):
            raise _Bad(
                self.size + 1,
                f"the log ends with record {self.size}, but there have been {expected[0]}: its tail was cut off",
            )

    def _chained(self, seq: int, body: object, stored: object) -> _Glance:
        wanted = self.size + 1
        if seq != wanted:
            if wanted == 1 and seq < 1:
                raise _Bad(seq, f"record {seq} stands before the first one")
            raise _Bad(wanted, f"record {wanted} is missing; the next one there is {seq}")
        if not isinstance(body, bytes) or not isinstance(stored, bytes):
            raise _Bad(seq, f"record {seq} is not stored as bytes")
        if link(self.hash, seq, body) != stored:
            raise _Bad(seq, f"record {seq} does not match its hash: it, or its hash, was changed or moved")
        try:
            record = _glance.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise _Bad(seq, f"record {seq} is not a record: {error}") from None
        if record.seq != seq:
            raise _Bad(seq, f"record {seq} says that it is record {record.seq}")
        return record

    def _follow(self, record: _Glance) -> None:
        if record.event == "skill_execution_started":
            self.open.add(record.seq)
        elif record.event in ("skill_executed", "skill_execution_error"):
            if record.about not in self.open:
                raise _Bad(
                    record.seq, f"record {record.seq} is the outcome of an intent that does not wait for one"
                )
            self.open.remove(record.about)

    def result(self, *, first_bad: int | None = None, problem: str = "") -> Verification:
        return Verification(
            ok=not problem,
            records=self.size,
            head=self.hash.hex(),
            first_bad=first_bad,
            problem=problem,
            open_intents=tuple(sorted(self.open)),
        )


class _Payloads:
    """The payloads in the order of their records, read alongside the chain."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        # Bodies are fetched one by one: a merely counted megabyte would be read for nothing.
        self.rows: Iterator[tuple[int, bytes, bytes]] = connection.execute(
            "SELECT seq, name, key FROM payload ORDER BY seq, name"
        )
        self.next = next(self.rows, None)

    def check(self, seq: int, recorded: dict[str, str]) -> None:
        """Each recorded payload is there and as it was, or was erased on the record; and there is no other."""
        waiting = dict(recorded)
        while self.next is not None and self.next[0] <= seq:
            owner, raw_name, key = self.next
            name = raw_name.decode("utf-8", "replace")
            if owner != seq or name not in waiting:
                raise _Bad(owner, f"payload {name!r} lies beside record {owner}, which does not know it")
            self._check_body(seq, raw_name, key, waiting.pop(name))
            self.next = next(self.rows, None)
        if waiting:
            raise _Bad(seq, f"payload {min(waiting)!r} of record {seq} is missing")

    def check_no_more(self, last: int) -> None:
        """After the last record there is nothing to lie beside."""
        if self.next is not None:
            raise _Bad(last + 1, f"there is a payload for record {self.next[0]}, but no such record")

    def _check_body(self, seq: int, name: bytes, key: bytes, recorded: str) -> None:
        if self._erased(seq):
            return
        body = self.connection.execute(
            "SELECT body FROM payload WHERE seq = ? AND name = ?", (seq, name.decode())
        ).fetchone()[0]
        if body is not None and not compare_digest(keyed_digest(key, body), recorded):
            raise _Bad(seq, f"payload {name.decode()!r} of record {seq} is not the one that was recorded")

    def _erased(self, seq: int) -> bool:
        row = self.connection.execute(
            "SELECT audit.body FROM erasure JOIN audit ON audit.seq = erasure.record WHERE erasure.seq = ?",
            (seq,),
        ).fetchone()
        if row is None:
            return False
        try:
            record = _glance.decode(row[0])
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return False
        # That record is in the chain and is verified when the walk comes to it.
        return record.event == "payload_erased" and record.about == seq
