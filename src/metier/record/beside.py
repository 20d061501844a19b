"""The payloads that lie beside a record, in its own row: their keys one after the other, and those that are kept as one JSON object.

One row, so that writing a record touches one page. Both columns can be overwritten where they lie, and the chain does not
cover them: the record holds a digest of each payload under its key.
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from metier.record.chain import KEY_BYTES, keyed_digest, together
from metier.record.glance import UNDECODABLE, Bad, Glance, erases

if TYPE_CHECKING:
    import sqlite3

_decode: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
Stored: TypeAlias = object
"""What is in a cell. SQLite keeps whatever it is given in any column, so what is read need not be what was written."""


def apart(kept: Stored) -> dict[str, bytes] | None:
    """Each payload that is kept, by its name; None where that is not as Metier stores them."""
    if type(kept) is not bytes:
        return None if kept is not None else {}
    try:
        found = {name: bytes(body) for name, body in _decode(kept).items()}
    except UNDECODABLE:
        return None
    return found if together(found) == kept else None


def recorded(payloads: Mapping[str, str], keys: Stored, kept: Stored) -> dict[str, bytes]:
    """Those of the `payloads` a record knows that are still there, and are the recorded ones."""
    found = apart(kept) or {}
    if type(keys) is not bytes or len(keys) != KEY_BYTES * len(payloads):
        return {}
    return {
        name: found[name]
        for name, key in _keys(payloads, keys).items()
        if name in found and keyed_digest(key, found[name]) == payloads[name]
    }


def recorded_one(name: str, payloads: Mapping[str, str], keys: Stored, kept: Stored) -> bytes | None:
    """One of them: the others are not held against their digests for it."""
    found, key = apart(kept) or {}, key_of(name, payloads, keys)
    return found[name] if key and name in found and keyed_digest(key, found[name]) == payloads[name] else None


def key_of(name: str, payloads: Mapping[str, str], keys: Stored) -> bytes:
    """The key of one payload of a record; empty where there is none."""
    if name not in payloads or type(keys) is not bytes or len(keys) != KEY_BYTES * len(payloads):
        return b""
    return _keys(payloads, keys)[name]


def _keys(payloads: Mapping[str, str], keys: bytes) -> dict[str, bytes]:
    """The key of each payload. They lie in the order of the names."""
    return {
        name: keys[place * KEY_BYTES : (place + 1) * KEY_BYTES] for place, name in enumerate(sorted(payloads))
    }


class Payloads:
    """Held against the records one after the other: each is the recorded one, or is gone on the record."""

    def __init__(self, connection: "sqlite3.Connection") -> None:
        self._erased_by_row = 0
        self._erasures: Iterator[tuple[int, object]] = connection.execute(
            """SELECT erasure.seq, audit.body
               FROM erasure LEFT JOIN audit ON audit.seq = erasure.record ORDER BY erasure.seq"""
        )
        self._erasure = next(self._erasures, None)

    def check(self, record: Glance, keys: Stored, kept: Stored) -> None:
        """Each recorded payload is there and as it was, or was erased on the record; and there is no other."""
        seq, payloads, erasure = record.seq, record.payloads, self._erasure
        if erasure is not None and erasure[0] <= seq and self._erased(seq, erasure):
            blank = type(keys) is bytes and not any(keys) and len(keys) == KEY_BYTES * len(payloads)
            if not (payloads and blank and (kept is None or _is_blank(kept))):
                raise Bad(seq, f"the payloads of record {seq} were erased, and something lies in their place")
            return
        if not payloads:
            if keys is not None or kept is not None:
                raise Bad(seq, f"something lies beside record {seq}, which knows of no payload")
            return
        # Nearly every record has one payload, and its digest says whether all of it is right.
        if len(payloads) == 1 and not record.unkept and type(kept) is bytes and type(keys) is bytes:
            ((name, digest),) = payloads.items()
            opening = b'{"%b":' % name.encode()
            body = kept[len(opening) : -1]
            whole = kept[: len(opening)] == opening and kept[-1:] == b"}"
            # HMAC takes a key with zeros behind it for the same.
            if whole and len(keys) == KEY_BYTES and keyed_digest(keys, body) == digest:
                return
        self._look(record, keys, kept)

    def check_no_more(self, last: int, erasures: int) -> None:
        """After the last record. That many records are of an erasure."""
        if self._erasure is not None:
            raise Bad(
                last + 1, f"the table of erasures names record {self._erasure[0]}, but there is no such"
            )
        if self._erased_by_row != erasures:
            raise Bad(None, "payloads were erased on the record, and the table of erasures forgot one")

    def _look(self, record: Glance, keys: Stored, kept: Stored) -> None:
        """Refuse what lies beside a record unless it is as it should be."""
        seq, payloads = record.seq, record.payloads
        found = apart(kept)
        if found is None or type(keys) is not bytes or len(keys) != KEY_BYTES * len(payloads):
            raise Bad(seq, f"beside record {seq} lies something that Metier cannot have stored")
        if strange := min(found.keys() - payloads.keys(), default=""):
            raise Bad(seq, f"payload {strange!r} lies beside record {seq}, which does not know it")
        for name, key in _keys(payloads, keys).items():
            body, unkept = found.get(name), record.unkept.get(name)
            if unkept is not None:
                same = body is None and hashlib.sha256(key).hexdigest() == unkept
                problem = "" if same else "was kept as a digest only, and that is not what lies there"
            elif body is None:
                problem = "was kept, and is gone without a record of its erasure"
            else:
                problem = (
                    "" if keyed_digest(key, body) == payloads[name] else "is not the one that was recorded"
                )
            if problem:
                raise Bad(seq, f"payload {name!r} of record {seq} {problem}")

    def _erased(self, seq: int, erasure: tuple[int, object]) -> bool:
        """Take the next row of the table of erasures, which must be of record `seq` and of one that says so.

        That one is in the chain and is verified when the walk comes to it.
        """
        if erasure[0] != seq or not erases(erasure[1], seq):
            raise Bad(erasure[0], f"record {erasure[0]} is in the table of erasures, and no record says so")
        self._erasure = next(self._erasures, None)
        self._erased_by_row += 1
        return True


def _is_blank(stored: Stored) -> bool:
    return type(stored) is bytes and not stored.strip(b"\0")
