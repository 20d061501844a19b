"""Is the log whole? One walk from the first record to the last, in memory that does not grow with the log.

It finds every changed, missing, doubled, moved or added record, every payload that is not the one that was
recorded, whatever else was planted in the file, checkpoints that are not of these records, and trust, principals, grants, words,
settings and open intents that do not follow from the records. What no chain can show by itself is a tail that was cut off, or a
whole chain written anew: for that give `kept`, a checkpoint that was kept elsewhere, or `expected`, a head.
"""

import sqlite3
from collections.abc import Collection
from typing import Final, final

import msgspec

from metier.record.beside import Payloads
from metier.record.chain import GENESIS, link
from metier.record.checkpoint import Checkpoint, Known, origin_of
from metier.record.connection import DRIVER_ERRORS, astray, explain, look, shape_problem
from metier.record.database import Database
from metier.record.follow import Ledger
from metier.record.glance import UNDECODABLE, Bad, decode
from metier.record.signed_head import HeadLedger
from metier.record.sound import unsound
from metier.record.tree import EMPTY, Tree


@final
class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """What the walk found. `first_bad` is where it stopped; everything before it is as it was written.

    A problem without a `first_bad` is not in a record but beside them.
    """

    ok: bool
    records: int
    """How many records were found whole."""
    head: str
    """Hash of the last of them."""
    root: str = EMPTY.hex()
    """Root of the tree over them."""
    origin: str = ""
    """The name of the log; empty while it has no record."""
    signed: int = 0
    """How many of them the newest checkpoint in the database covers."""
    key: str = ""
    """The key that signs checkpoints now, as the log names it."""
    key_since: int = 1
    """The record that put it in its place."""
    first_bad: int | None = None
    problem: str = ""
    notes: tuple[str, ...] = ()
    """What is no problem and should be known all the same."""
    open_intents: tuple[int, ...] = ()
    """Acts that were begun and have no outcome: a crash, or somebody at work right now."""


def verify(
    database: Database | str,
    *,
    until: int | None = None,
    expected: tuple[int, str] | None = None,
    kept: Checkpoint | None = None,
    trusted: Collection[Known] | None = None,
) -> Verification:
    """Walk the log of `database`, or of the file at a path, up to record `until`.

    Args:
        until: the last record to look at.
        expected: number and hash of a record, kept elsewhere.
        kept: a checkpoint kept elsewhere. Its signature is the caller's to check; here the log is held against it.
        trusted: the public keys that somebody vouches for, each for its part of the log; None takes the log's own word for them.

    Raises:
        StateError: when there is no database or it cannot be opened at all.
    """
    if isinstance(database, str):
        path = database
    else:
        path = database.path
        database.require_in_place()
    connection = look(path)  # its own, so that the walk holds nobody up and sees one moment
    walk = _Walk(connection, until)
    try:
        connection.execute("BEGIN")
        if problem := shape_problem(connection):
            raise Bad(None, problem)
        walk.run(expected, kept, trusted)
    except Bad as bad:
        return walk.result(first_bad=bad.seq, problem=bad.problem)
    except DRIVER_ERRORS as error:
        where = None if walk.over else walk.size + 1
        return walk.result(first_bad=where, problem=explain(error, path).message)
    finally:
        connection.close()
    return walk.result()


def verify_nothing(
    path: str, *, expected: tuple[int, str] | None = None, kept: Checkpoint | None = None
) -> Verification:
    """What is to be said where there is no database at all."""
    nothing = Verification(ok=True, records=0, head=GENESIS.hex())
    entries = kept.size if kept else expected[0] if expected else 0
    if kept is None and (expected is None or expected == (0, nothing.head)):
        return nothing
    problem = f"there is no record at {path}, but one of {entries} entries is expected"
    return msgspec.structs.replace(nothing, ok=False, problem=problem)


_MOST: Final = 2**63 - 1


class _Walk:
    def __init__(self, connection: sqlite3.Connection, until: int | None) -> None:
        self.connection = connection
        self.until = until
        self.hash = GENESIS
        self.tree = Tree()
        self.ledger: Ledger | None = None
        self.heads: HeadLedger | None = None
        self.over = False
        """Whether the last record was reached, and what is looked at lies beside them."""

    @property
    def size(self) -> int:
        return self.tree.size

    def run(
        self, expected: tuple[int, str] | None, kept: Checkpoint | None, trusted: Collection[Known] | None
    ) -> None:
        payloads = Payloads(self.connection)
        heads = self.heads = HeadLedger(self.connection, trusted)
        ledger = self.ledger = Ledger(self.connection, heads)
        add, check, take = self.tree.add, payloads.check, ledger.take
        until = _MOST if self.until is None else self.until
        marks = {mark for mark in (expected and expected[0], kept and kept.size, 1) if mark}
        previous, wanted, stop = self.hash, 1, 1
        rows = self.connection.execute(
            """SELECT seq, iif(typeof(body) = 'blob', body, 0), iif(typeof(hash) = 'blob', hash, 0), keys, kept
               FROM audit ORDER BY seq"""
        )
        for seq, body, stored, keys, bodies in rows:
            if seq > until:
                break
            if seq != wanted or type(body) is not bytes or link(previous, seq, body) != stored:
                raise _unchained(seq, wanted, body, stored)
            try:
                record = decode(body)
            except UNDECODABLE as error:
                raise Bad(seq, f"record {seq} is not a record: {error}") from None
            if record.seq != seq:
                raise Bad(seq, f"record {seq} says that it is record {record.seq}")
            check(record, keys, bodies)
            if problem := take(record):
                raise Bad(seq, problem)
            add(stored)
            self.hash = previous = stored
            wanted += 1
            if seq == stop:
                self._compare(seq, stored, expected, kept)
                if seq == heads.size:
                    heads.compare(stored, self.tree.root())
                stop = min((mark for mark in (*marks, heads.size) if mark > seq), default=0)
        else:
            self._compare_end(expected, kept)
            self.over = True
            payloads.check_no_more(self.size, ledger.erasures)
            if problem := astray(self.connection) or self._lost():
                raise Bad(None, problem)
            self.connection.text_factory = bytes  # what is no text is compared all the same
            if problem := ledger.problem(self.connection) or unsound(self.connection):
                raise Bad(None, problem)

    def _lost(self) -> str:
        """Whoever walks the table meets every record; whoever looks one up goes through the inner pages, which may lead elsewhere.

        Backwards, because SQLite does not search for the one that comes next.
        """
        found: int = self.connection.execute(
            "SELECT count(*) FROM main.audit AS walked CROSS JOIN main.audit AS found ON found.seq = ? - walked.seq",
            (self.size + 1,),
        ).fetchone()[0]
        return "" if found == self.size else "there are records that cannot be found by their number"

    def _compare(
        self, seq: int, stored: bytes, expected: tuple[int, str] | None, kept: Checkpoint | None
    ) -> None:
        if seq == 1 and self.heads is not None:
            self.heads.origin = origin_of(stored)
            if kept is not None and kept.origin != self.heads.origin:
                raise Bad(1, f"the checkpoint is of another log ({kept.origin})")
        if expected is not None and seq == expected[0] and stored.hex() != expected[1]:
            raise Bad(seq, f"record {seq} has another hash than the one that was kept: the log was rewritten")
        if kept is not None and seq == kept.size and (stored, self.tree.root()) != (kept.head, kept.root):
            raise Bad(
                seq,
                f"the first {seq} records are not those of the checkpoint that was kept: the log was rewritten",
            )

    def _compare_end(self, expected: tuple[int, str] | None, kept: Checkpoint | None) -> None:
        wanted = max(expected[0] if expected else 0, kept.size if kept else 0)
        if self.until is not None and self.until < wanted:
            return
        if self.size < wanted:
            raise Bad(
                self.size + 1,
                f"the log ends with record {self.size}, but there have been {wanted}: its tail was cut off",
            )
        if expected is not None and expected[0] == 0 and expected[1] != GENESIS.hex():
            raise Bad(None, "the head that was kept is none of an empty log")

    def result(self, *, first_bad: int | None = None, problem: str = "") -> Verification:
        heads = self.heads
        notes = ("a key took the place of one that was lost, without its word",)
        return Verification(
            ok=not problem,
            records=self.size,
            head=self.hash.hex(),
            root=self.tree.root().hex(),
            origin=heads.origin if heads else "",
            signed=heads.signed if heads else 0,
            key=heads.key if heads else "",
            key_since=heads.key_since if heads else 1,
            first_bad=first_bad,
            problem=problem,
            notes=notes if heads and heads.replaced_unsigned else (),
            open_intents=tuple(sorted(self.ledger.open)) if self.ledger else (),
        )


def _unchained(seq: int, wanted: int, body: object, stored: object) -> Bad:
    if seq != wanted:
        if wanted == 1 and seq < 1:
            return Bad(seq, f"record {seq} stands before the first one")
        return Bad(wanted, f"record {wanted} is missing; the next one there is {seq}")
    if not isinstance(body, bytes) or not isinstance(stored, bytes):
        return Bad(seq, f"record {seq} is not stored as bytes")
    return Bad(seq, f"record {seq} does not match its hash: it, or its hash, was changed or moved")
