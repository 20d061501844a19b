"""The payloads beside the chain, walked in step with it: each is the recorded one, or is gone on the record."""

import hashlib
import sqlite3
from collections.abc import Iterator
from hmac import compare_digest

from metier.record.chain import keyed_digest
from metier.record.glance import Bad, Glance, glance


class Payloads:
    """The payloads in the order of their records."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """`connection` gives text as bytes."""
        self._connection = connection
        # Bodies are fetched one by one: a merely counted megabyte would be read for nothing.
        self._rows: Iterator[tuple[object, object, object, int]] = connection.execute(
            "SELECT seq, name, key, rowid FROM payload ORDER BY seq, name"
        )
        self._next = self._row()

    def check(self, record: Glance) -> None:
        """Each recorded payload is there and as it was, or was erased on the record; and there is no other."""
        waiting = dict(record.payloads)
        while self._next is not None and self._next[0] <= record.seq:
            owner, name, key, place = self._next
            if owner != record.seq or name not in waiting:
                raise Bad(owner, f"payload {name!r} lies beside record {owner}, which does not know it")
            problem = self._problem(record, name, key, place, waiting.pop(name))
            if problem:
                raise Bad(owner, f"payload {name!r} of record {owner} {problem}")
            self._next = self._row()
        if waiting:
            raise Bad(record.seq, f"payload {min(waiting)!r} of record {record.seq} is missing")

    def check_no_more(self, last: int) -> None:
        """After the last record there is nothing to lie beside."""
        if self._next is not None:
            raise Bad(last + 1, f"there is a payload for record {self._next[0]}, but no such record")

    def _row(self) -> tuple[int, str, bytes, int] | None:
        row = next(self._rows, None)
        if row is None:
            return None
        seq, name, key, place = row
        # SQLite keeps whatever it is given in any column, so what is read need not be what was written.
        if not isinstance(seq, int) or not isinstance(name, bytes) or not isinstance(key, bytes):
            raise Bad(None, "there is a payload that Metier cannot have stored")
        return seq, name.decode("utf-8", "replace"), key, place

    def _problem(self, record: Glance, name: str, key: bytes, place: int, recorded: str) -> str:
        body, blank = self._connection.execute(
            """SELECT body, key = zeroblob(length(key)) AND (body IS NULL OR body = zeroblob(length(body)))
               FROM payload WHERE rowid = ?""",
            (place,),
        ).fetchone()
        if self._erased(record.seq):
            return "" if blank else "was erased, and something lies in its place"
        if name in record.unkept:
            same = body is None and compare_digest(hashlib.sha256(key).hexdigest(), record.unkept[name])
            return "" if same else "was kept as a digest only, and that is not what lies there"
        if body is None:
            return "was kept, and is gone without a record of its erasure"
        same = isinstance(body, bytes) and compare_digest(keyed_digest(key, body), recorded)
        return "" if same else "is not the one that was recorded"

    def _erased(self, seq: int) -> bool:
        row = self._connection.execute(
            "SELECT audit.body FROM erasure JOIN audit ON audit.seq = erasure.record WHERE erasure.seq = ?",
            (seq,),
        ).fetchone()
        if row is None or not isinstance(row[0], bytes):
            return False
        record = glance(row[0])
        # That record is in the chain and is verified when the walk comes to it.
        return isinstance(record, Glance) and record.event == "payload_erased" and record.about == seq
