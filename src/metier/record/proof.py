"""Proofs that need no log: that a record is in it, and that a checkpoint grew out of an earlier one.

A proof is one JSON object with the checkpoints in it. Whoever has it and a public key can check it, anywhere and offline.
"""

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Final, TypeAlias, final

import msgspec

from metier.errors import RecordError
from metier.record.chain import GENESIS, link
from metier.record.checkpoint import Checkpoint, Known, read_checkpoint, unvouched
from metier.record.tree import consistency_ranges, consistent, includes, inclusion_ranges, roots

if TYPE_CHECKING:
    import sqlite3

    from metier.record.database import Database

MOST_BYTES: Final = 16_777_216


@final
class Inclusion(
    msgspec.Struct, frozen=True, kw_only=True, tag="inclusion", tag_field="proof", forbid_unknown_fields=True
):
    """Record `seq` is the one that stands here, among the records of the checkpoint."""

    seq: int
    record: str
    """The record as it is stored, to the byte."""
    previous: str
    """Hash of the record before it."""
    path: tuple[str, ...]
    checkpoint: str


@final
class Consistency(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag="consistency",
    tag_field="proof",
    forbid_unknown_fields=True,
):
    """The log of the newer checkpoint begins with that of the older one, record for record."""

    path: tuple[str, ...]
    older: str
    newer: str


Proof: TypeAlias = Inclusion | Consistency
_decoder: Final = msgspec.json.Decoder(Proof)


def prove_inclusion(database: "Database", seq: int, checkpoint: Checkpoint) -> Inclusion:
    """Prove that record `seq` is among those of `checkpoint`.

    Raises:
        RecordError: when it is not, or the log is not that of the checkpoint.
        StateError: when the log cannot be read.
    """
    if not 0 < seq <= checkpoint.size:
        raise RecordError(
            f"record {seq} is not among the {checkpoint.size} of the checkpoint",
            remedy="Sign a newer one with `metier audit checkpoint`",
        )
    with database.reading() as connection:
        path = roots(_leaves(connection, checkpoint.size), inclusion_ranges(seq - 1, checkpoint.size))
        body, stored = _row(connection, seq)
        previous = _row(connection, seq - 1)[1] if seq > 1 else GENESIS
    if link(previous, seq, body) != stored or not includes(
        checkpoint.root, checkpoint.size, seq - 1, stored, path
    ):
        raise _another()
    return Inclusion(
        seq=seq,
        record=body.decode(),
        previous=previous.hex(),
        path=tuple(each.hex() for each in path),
        checkpoint=checkpoint.text(),
    )


def prove_consistency(database: "Database", older: Checkpoint, newer: Checkpoint) -> Consistency:
    """Prove that the log of `newer` begins with that of `older`.

    Raises:
        RecordError: when it does not, or the log is not theirs.
        StateError: when the log cannot be read.
    """
    if older.size > newer.size:
        raise RecordError("the older checkpoint has more records than the newer one", remedy="Exchange them")
    with database.reading() as connection:
        path = roots(_leaves(connection, newer.size), consistency_ranges(older.size, newer.size))
    if older.origin != newer.origin or not consistent(older.root, older.size, newer.root, newer.size, path):
        raise _another()
    return Consistency(path=tuple(each.hex() for each in path), older=older.text(), newer=newer.text())


def proof_text(proof: Proof) -> str:
    """A proof as it is handed on."""
    return msgspec.json.format(msgspec.json.encode(proof), indent=1).decode() + "\n"


def read_proof(text: str) -> Proof | str:
    """The proof in `text`, or why there is none."""
    if len(text) > MOST_BYTES:
        return "it is too long for a proof"
    try:
        return _decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        return f"it is not a proof: {error}"


def proof_problem(proof: Proof, known: Collection[Known]) -> str:
    """Why `proof` proves nothing to somebody who trusts the keys of `known`; empty when it does. Needs nothing else."""
    try:
        path = [bytes.fromhex(each) for each in proof.path]
        previous = bytes.fromhex(proof.previous) if isinstance(proof, Inclusion) else b""
    except ValueError:
        return "a hash in it cannot be read"
    if isinstance(proof, Inclusion):
        checkpoint = _vouched(proof.checkpoint, known)
        if isinstance(checkpoint, str):
            return checkpoint
        if not 0 < proof.seq <= checkpoint.size:
            return f"record {proof.seq} is not among the {checkpoint.size} of its checkpoint"
        stored = link(previous, proof.seq, proof.record.encode("utf-8", "surrogatepass"))
        within = includes(checkpoint.root, checkpoint.size, proof.seq - 1, stored, path)
        return "" if within else f"the record is not record {proof.seq} of that log"
    older, newer = _vouched(proof.older, known), _vouched(proof.newer, known)
    if isinstance(older, str) or isinstance(newer, str):
        return older if isinstance(older, str) else str(newer)
    if older.origin != newer.origin:
        return "the checkpoints are of two logs"
    same = consistent(older.root, older.size, newer.root, newer.size, path)
    return "" if same else "the newer log does not begin with the older one"


def _vouched(text: str, known: Collection[Known]) -> Checkpoint | str:
    checkpoint = read_checkpoint(text)
    if isinstance(checkpoint, str):
        return f"its checkpoint: {checkpoint}"
    problem = unvouched(checkpoint, known)
    return f"its checkpoint: {problem}" if problem else checkpoint


def _leaves(connection: "sqlite3.Connection", size: int) -> Iterator[bytes]:
    rows = connection.execute(
        "SELECT iif(typeof(hash) = 'blob', hash, x'') FROM audit WHERE seq BETWEEN 1 AND ? ORDER BY seq",
        (size,),
    )
    return (stored for (stored,) in rows)


def _row(connection: "sqlite3.Connection", seq: int) -> tuple[bytes, bytes]:
    row = connection.execute("SELECT body, hash FROM audit WHERE seq = ?", (seq,)).fetchone()
    if row is None or not isinstance(row[0], bytes) or not isinstance(row[1], bytes):
        raise _another()
    return row


def _another() -> RecordError:
    return RecordError(
        "the log is not the one of this checkpoint",
        remedy="Run `metier audit verify --since` with it to see what differs",
    )
