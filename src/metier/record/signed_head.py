"""The checkpoints that lie in the database, found to follow from the chain.

A record `head_signed` names the size, the digest of the text and the key. The first key a log names is taken at its word; another
one follows only on a record that the key before it signed.
"""

import hashlib
import sqlite3
from collections.abc import Collection

from metier.record.checkpoint import Checkpoint, Known, PublicKey, read_checkpoint, read_key, rotation
from metier.record.glance import Bad, Glance
from metier.record.schema import KNOWS_SETTING


def digest_of(note: bytes) -> str:
    """What the record of a checkpoint holds of it. A checkpoint has nothing to hide, so the digest needs no key."""
    return hashlib.sha256(note).hexdigest()


class HeadLedger:
    """The checkpoints of a log, met while walking it."""

    def __init__(self, connection: sqlite3.Connection, trusted: Collection[Known] | None) -> None:
        """`trusted` are the keys that somebody vouches for; None takes those that the log names."""
        self.key = ""
        """The key that signs now, as the log names it."""
        self.key_since = 1
        """The record that put it in its place."""
        self.signed = 0
        """The largest size that was signed."""
        self.origin = ""
        self.replaced_unsigned = False
        """Whether a key took the place of another without its word."""
        self._trusted = trusted
        self._rotated_at: set[tuple[int, str]] = set()
        self._waiting: dict[int, tuple[str, Checkpoint]] = {}
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        self._rows = (
            connection.execute(
                "SELECT size, iif(typeof(note) = 'blob' AND length(note) <= 4096, note, 0) FROM signed_head ORDER BY size"
            )
            if version >= KNOWS_SETTING
            else iter(())
        )
        self._next = next(self._rows, None)
        self.size = self._next[0] if self._next else 0
        """At which size the next one is to be compared; 0 when there is none."""

    def compare(self, head: bytes, root: bytes) -> None:
        """The log has the size of the next checkpoint now."""
        size, note = self._next or (0, b"")
        checkpoint = (
            read_checkpoint(note.decode("utf-8", "replace")) if isinstance(note, bytes) else "no text"
        )
        if isinstance(checkpoint, str):
            raise Bad(None, f"the checkpoint of {size} records in the database cannot be read: {checkpoint}")
        same = (checkpoint.size, checkpoint.head, checkpoint.root, checkpoint.origin) == (
            size,
            head,
            root,
            self.origin,
        )
        if not same:
            raise Bad(size, f"the first {size} records are not those that were signed: the log was rewritten")
        self._waiting[size] = (digest_of(note), checkpoint)
        self._next = next(self._rows, None)
        self.size = self._next[0] if self._next else 0

    def take(self, record: Glance) -> str:
        """Follow a record of a signing or of a change of keys."""
        key = read_key(record.code)
        if isinstance(key, str):
            return f"record {record.seq} names no key: {key}"
        if record.event == "key_rotated":
            return self._rotated(record, key)
        digest, checkpoint = self._waiting.pop(record.about or 0, ("", None))
        if checkpoint is None or digest != record.grant:
            return f"the checkpoint that record {record.seq} speaks of is not in the database"
        if self.key and record.code != self.key:
            return f"record {record.seq} was signed with a key that nobody put in the place of the one before"
        if problem := checkpoint.problem(key) or self._unvouched(record, checkpoint):
            return f"the checkpoint of {checkpoint.size} records: {problem}"
        self.key, self.signed = record.code, checkpoint.size
        return ""

    def problem(self) -> str:
        """What is left over at the end of the log."""
        sizes = [*self._waiting, *([] if self._next is None else [self._next[0]])]
        if sizes:
            return f"the database has a checkpoint of {min(sizes)} records, and no record of it"
        for known in self._trusted or ():
            rotated = known.since > 1 and known.key.name == self.origin
            if rotated and (known.since, str(known.key)) not in self._rotated_at:
                return (
                    f"record {known.since} put key {known.key.id.hex()} in place, and this log does not say so: "
                    "it was rewritten, or is older than the key"
                )
        return ""

    def _unvouched(self, record: Glance, checkpoint: Checkpoint) -> str:
        """Whether the key is none of those trusted, or signed what it no longer may."""
        if self._trusted is None:
            return ""
        known = next((each for each in self._trusted if str(each.key) == record.code), None)
        return known.problem(checkpoint) if known else "it is signed with a key that is none of yours"

    def _rotated(self, record: Glance, key: PublicKey) -> str:
        import base64
        import binascii

        old = read_key(self.key)
        if isinstance(old, str):
            return f"record {record.seq} puts a key in the place of none"
        try:
            word = base64.b64decode(record.evidence, validate=True)
        except (binascii.Error, ValueError):
            word = b"?"
        if not word:
            self.replaced_unsigned = True
        elif not old.signed(rotation(old, key), word):
            return f"record {record.seq} puts a key in the place of another, and that one did not sign it"
        self.key, self.key_since = record.code, record.seq
        self._rotated_at.add((record.seq, record.code))
        return ""
