"""The payloads beside the chain, walked in step with it: each is the recorded one, or is gone on the record."""

import hashlib
import sqlite3
from collections.abc import Iterator
from typing import Final, TypeAlias

from metier.record.chain import keyed_digest
from metier.record.glance import Bad, Glance, erases
from metier.record.payload import PAYLOAD_BYTES

_AT_HAND: Final = 65_536
"""Bodies up to this size come with their row. A larger one is fetched when its turn comes, so that few are held at once."""
_Row: TypeAlias = tuple[int, str, bytes, object, int]
"""Record, name, key, the body if it is at hand, and where it lies."""


def keyed(key: bytes, body: bytes) -> str:
    """`chain.keyed_digest` in half the time: for one short body, asking OpenSSL for HMAC takes longer than its two hashes."""
    if len(key) != 32:
        return keyed_digest(key, body)
    inner = hashlib.sha256(key.translate(_INNER) + _INNER_REST + body).digest()
    return hashlib.sha256(key.translate(_OUTER) + _OUTER_REST + inner).hexdigest()


# RFC 2104: the key, filled up with zeros to a block of 64 bytes, is changed in two ways, byte by byte.
_INNER: Final = bytes(byte ^ 0x36 for byte in range(256))
_OUTER: Final = bytes(byte ^ 0x5C for byte in range(256))
_INNER_REST: Final = bytes([0x36]) * 32
_OUTER_REST: Final = bytes([0x5C]) * 32


class Payloads:
    """The payloads in the order of their records."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """`connection` gives text as text, and so lets it be told from bytes."""
        self._connection = connection
        self._walked = 0
        self._erased_by_row = 0
        self._rows: Iterator[_Row] = connection.execute(
            f"""SELECT seq, name, key, iif(length(body) <= {_AT_HAND}, body, NULL), rowid
                FROM payload ORDER BY seq, name"""  # noqa: S608  a constant
        )
        self._erasures: Iterator[tuple[int, object]] = connection.execute(
            """SELECT erasure.seq, audit.body
               FROM erasure LEFT JOIN audit ON audit.seq = erasure.record ORDER BY erasure.seq"""
        )
        self._erasure = next(self._erasures, None)
        self._next = next(self._rows, None)

    def check(self, record: Glance) -> None:
        """Each recorded payload is there and as it was, or was erased on the record; and there is no other."""
        row, seq, payloads = self._next, record.seq, record.payloads
        erasure = self._erasure
        erased = erasure is not None and erasure[0] <= seq and self._erased(seq, erasure)
        if row is None or row[0] != seq:
            if payloads or row is not None:
                self._check_absent(record, row)
            return
        plain = not (erased or record.unkept)
        found, last = 0, ""
        while row is not None and row[0] == seq:
            _, name, key, body, _ = row
            # Nearly every payload is small, kept and not erased; the other questions are for those that are not.
            if (
                not plain
                or type(body) is not bytes
                or type(key) is not bytes
                or type(name) is not str
                or keyed(key, body) != payloads.get(name)
            ):
                self._look(record, row, erased=erased)
            if name <= last:
                raise Bad(seq, f"payload {self._name(row)!r} of record {seq} is there twice")
            found, last = found + 1, name
            row = self._next = next(self._rows, None)
        if found != len(payloads):
            raise Bad(seq, f"a payload of record {seq} is missing")
        self._walked += found

    def check_no_more(self, last: int, erasures: int) -> None:
        """After the last record there is nothing to lie beside, and nothing was passed over. That many records are of an erasure."""
        if self._next is not None:
            raise Bad(last + 1, f"there is a payload for record {self._next[0]}, but no such record")
        if self._erasure is not None:
            raise Bad(
                last + 1, f"the table of erasures names record {self._erasure[0]}, but there is no such"
            )
        if self._erased_by_row != erasures:
            raise Bad(None, "payloads were erased on the record, and the table of erasures forgot one")
        # They were found through their index; one that it does not know would never be erased.
        there: int = self._connection.execute("SELECT count(*) FROM payload NOT INDEXED").fetchone()[0]
        if there != self._walked:
            raise Bad(None, "there is a payload that the index of the payloads does not know")

    def _check_absent(self, record: Glance, row: _Row | None) -> None:
        """No payload of this record is there."""
        if row is not None and not (isinstance(row[0], int) and row[0] > record.seq):  # pyright: ignore[reportUnnecessaryIsInstance]
            name = self._name(row)
            raise Bad(row[0], f"payload {name!r} lies beside record {row[0]}, which does not know it")
        if record.payloads:
            raise Bad(record.seq, f"payload {min(record.payloads)!r} of record {record.seq} is missing")

    def _name(self, row: _Row) -> str:
        # SQLite keeps whatever it is given in any column, so what is read need not be what was written.
        seq, name, key, _, _ = row
        if not isinstance(seq, int) or not isinstance(name, str) or not isinstance(key, bytes):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise Bad(None, "there is a payload that Metier cannot have stored")
        return name

    def _look(self, record: Glance, row: _Row, *, erased: bool) -> None:
        """Refuse a payload unless it is as it should be."""
        name = self._name(row)
        recorded = record.payloads.get(name)
        if recorded is None:
            raise Bad(record.seq, f"payload {name!r} lies beside record {record.seq}, which does not know it")
        if problem := self._problem(record, name, row, recorded, erased=erased):
            raise Bad(record.seq, f"payload {name!r} of record {record.seq} {problem}")

    def _problem(self, record: Glance, name: str, row: _Row, recorded: str, *, erased: bool) -> str:
        _, _, key, body, place = row
        if body is None:
            body = self._fetched(place)
        if erased:
            blank = not any(key) and (body is None or (isinstance(body, bytes) and not body.strip(b"\0")))
            return "" if blank else "was erased, and something lies in its place"
        if name in record.unkept:
            same = body is None and hashlib.sha256(key).hexdigest() == record.unkept[name]
            return "" if same else "was kept as a digest only, and that is not what lies there"
        if body is None:
            return "was kept, and is gone without a record of its erasure"
        same = isinstance(body, bytes) and keyed(key, body) == recorded
        return "" if same else "is not the one that was recorded"

    def _fetched(self, place: int) -> bytes | int | None:
        """A body that was too large to come along; a number where it is too large to be ours."""
        row = self._connection.execute(
            "SELECT iif(length(body) > ?, 0, body) FROM payload WHERE rowid = ?", (PAYLOAD_BYTES, place)
        ).fetchone()
        return row[0]

    def _erased(self, seq: int, erasure: tuple[int, object]) -> bool:
        """Take the next row of the table of erasures, which must be of record `seq` and of one that says so.

        That one is in the chain and is verified when the walk comes to it.
        """
        if erasure[0] != seq or not erases(erasure[1], seq):
            raise Bad(erasure[0], f"record {erasure[0]} is in the table of erasures, and no record says so")
        self._erasure = next(self._erasures, None)
        self._erased_by_row += 1
        return True
