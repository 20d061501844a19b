"""Is the log whole? One walk from the first record to the last, in memory that does not grow with the log.

It finds every changed, missing, doubled, moved or added record, every payload that is not the one that was
recorded, whatever else was planted in the file, and trust, revocations and open intents that do not follow
from the records. What no chain can show by itself is a tail that was cut off, or a whole chain written
anew: for that give `expected`, a head that was kept elsewhere.
"""

import sqlite3
from typing import final

import msgspec

from metier.record.beside import Payloads
from metier.record.chain import GENESIS, link
from metier.record.connection import explain, look, shape_problem
from metier.record.database import Database
from metier.record.follow import Ledger
from metier.record.glance import Bad, Glance, glance


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
    first_bad: int | None = None
    problem: str = ""
    open_intents: tuple[int, ...] = ()
    """Acts that were begun and have no outcome: a crash, or somebody at work right now."""


def verify(
    database: Database | str, *, until: int | None = None, expected: tuple[int, str] | None = None
) -> Verification:
    """Walk the log of `database`, or of the file at a path, up to record `until`.

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
        connection.text_factory = bytes
        walk.run(expected)
    except Bad as bad:
        return walk.result(first_bad=bad.seq, problem=bad.problem)
    except sqlite3.Error as error:
        return walk.result(first_bad=walk.size + 1, problem=explain(error, path).message)
    finally:
        connection.close()
    return walk.result()


def verify_nothing(path: str, *, expected: tuple[int, str] | None = None) -> Verification:
    """What is to be said where there is no database at all."""
    nothing = Verification(ok=True, records=0, head=GENESIS.hex())
    if expected is None or expected == (0, nothing.head):
        return nothing
    problem = f"there is no record at {path}, but one of {expected[0]} entries is expected"
    return msgspec.structs.replace(nothing, ok=False, problem=problem)


class _Walk:
    def __init__(self, connection: sqlite3.Connection, until: int | None) -> None:
        self.connection = connection
        self.until = until
        self.size = 0
        self.hash = GENESIS
        self.ledger = Ledger()

    def run(self, expected: tuple[int, str] | None) -> None:
        payloads = Payloads(self.connection)
        rows = self.connection.execute(
            "SELECT seq, iif(typeof(body) = 'blob', body, 0), iif(typeof(hash) = 'blob', hash, 0) FROM audit ORDER BY seq"
        )
        for seq, body, stored in rows:
            if self.until is not None and seq > self.until:
                break
            record = self._chained(seq, body, stored)
            payloads.check(record)
            if problem := self.ledger.take(record):
                raise Bad(seq, problem)
            self.size, self.hash = seq, stored
            if expected is not None and seq == expected[0] and stored.hex() != expected[1]:
                raise Bad(
                    seq, f"record {seq} has another hash than the one that was kept: the log was rewritten"
                )
        else:
            self._compare_end(expected)
            payloads.check_no_more(self.size)
            if problem := self.ledger.problem(self.connection):
                raise Bad(None, problem)

    def _compare_end(self, expected: tuple[int, str] | None) -> None:
        if expected is None or (self.until is not None and self.until < expected[0]):
            return
        if self.size < expected[0]:
            raise Bad(
                self.size + 1,
                f"the log ends with record {self.size}, but there have been {expected[0]}: its tail was cut off",
            )
        if expected[0] == 0 and expected[1] != GENESIS.hex():
            raise Bad(None, "the head that was kept is none of an empty log")

    def _chained(self, seq: int, body: object, stored: object) -> Glance:
        wanted = self.size + 1
        if seq != wanted:
            if wanted == 1 and seq < 1:
                raise Bad(seq, f"record {seq} stands before the first one")
            raise Bad(wanted, f"record {wanted} is missing; the next one there is {seq}")
        if not isinstance(body, bytes) or not isinstance(stored, bytes):
            raise Bad(seq, f"record {seq} is not stored as bytes")
        if link(self.hash, seq, body) != stored:
            raise Bad(seq, f"record {seq} does not match its hash: it, or its hash, was changed or moved")
        record = glance(body)
        if isinstance(record, str):
            raise Bad(seq, f"record {seq} is not a record: {record}")
        if record.seq != seq:
            raise Bad(seq, f"record {seq} says that it is record {record.seq}")
        return record

    def result(self, *, first_bad: int | None = None, problem: str = "") -> Verification:
        return Verification(
            ok=not problem,
            records=self.size,
            head=self.hash.hex(),
            first_bad=first_bad,
            problem=problem,
            open_intents=tuple(sorted(self.ledger.open)),
        )
