"""Signing the log: checkpoints, and the change from one key to the next. What does not verify is not signed."""

from typing import TYPE_CHECKING

from metier.errors import RecordError, StateError
from metier.record.chain import Act, append, now
from metier.record.checkpoint import Checkpoint, Known, PublicKey, read_checkpoint, read_key, rotation
from metier.record.schema import KNOWS_SETTING
from metier.record.signed_head import digest_of
from metier.record.verify import Verification, verify

if TYPE_CHECKING:
    import sqlite3

    from metier.record.database import Database
    from metier.record.keys import Keys


def sign_head(database: "Database", keys: "Keys", *, by: str) -> Checkpoint:
    """Sign the log as it is now, after walking all of it. The signing is recorded.

    Raises:
        RecordError: when the log is empty or does not verify.
        StateError: when the key cannot be used or the state cannot be written.
    """
    with keys.alone():
        return _sign_head(database, keys, by)


def _sign_head(database: "Database", keys: "Keys", by: str) -> Checkpoint:
    found = _whole(database, keys, "it is not signed")
    if not found.records:
        raise RecordError("there is nothing to sign yet", remedy="Call something first")
    signer = keys.signer(found.origin, current=found.key)
    if found.key:  # the log says so already; somebody may have been cut off before he wrote it down here
        keys.remember(signer.public, since=found.key_since)
    checkpoint = Checkpoint(
        origin=found.origin,
        size=found.records,
        root=bytes.fromhex(found.root),
        head=bytes.fromhex(found.head),
        at=now(),
    ).signed_by(signer.public, signer.sign)
    note = checkpoint.text().encode()
    with database.transaction(quiet=True) as connection:
        _require_same_key(connection, found.records)
        if there := _stored(connection, found.records):  # somebody else signed the same log meanwhile
            return there
        connection.execute("INSERT INTO signed_head VALUES (?, ?)", (found.records, note))
        append(
            connection,
            "head_signed",
            Act(principal=by),
            at=checkpoint.at,
            code=str(signer.public),
            about=found.records,
            grant=digest_of(note),
        )
    keys.remember(signer.public, since=found.key_since)
    return checkpoint


def rotate_key(database: "Database", keys: "Keys", *, by: str, lost: bool = False) -> PublicKey:
    """Put a new key in the place of the one that signs. The old one signs that, unless it is `lost`.

    Raises:
        RecordError: when the log does not verify, or nothing was ever signed.
        StateError: when a key cannot be used or the state cannot be written.
    """
    with keys.alone():
        return _rotate_key(database, keys, by, lost=lost)


def _rotate_key(database: "Database", keys: "Keys", by: str, *, lost: bool) -> PublicKey:
    import base64

    found = _whole(database, keys, "its key is not changed")
    old = read_key(found.key)
    if isinstance(old, str):
        raise RecordError("no key has signed this log yet", remedy="Run `metier audit checkpoint` first")
    signer = None if lost else keys.signer(found.origin, current=found.key)
    keys.remember(old, since=found.key_since)  # before: whoever is cut off later must not lose it
    new = keys.next(found.origin).public
    word = base64.b64encode(signer.sign(rotation(old, new))).decode() if signer else ""
    said = f"from key {old.id.hex()} to key {new.id.hex()}" + ("" if signer else ", the old one being lost")
    try:
        with database.transaction(quiet=True) as connection:
            _require_same_key(connection, found.records)
            act = Act(principal=by, evidence=word)
            seq = append(connection, "key_rotated", act, at=now(), code=str(new), reasons=(said,))
    except BaseException:
        keys.drop_next(new)
        raise
    keys.use_next(new)
    keys.remember(new, since=seq)
    return new


def stored_checkpoint(database: "Database", size: int | None = None) -> Checkpoint | None:
    """The newest checkpoint in the database, or that of `size`.

    Raises:
        StateError: when it cannot be read.
    """
    with database.reading() as connection:
        return _stored(connection, size)


def trusted_keys(keys: "Keys") -> tuple[Known, ...] | None:
    """The public keys that this machine vouches for; None where it has none, and the log's own word must do.

    Raises:
        StateError: when the list of them cannot be read.
    """
    return keys.known() or None


def _whole(database: "Database", keys: "Keys", otherwise: str) -> Verification:
    found = verify(database, trusted=trusted_keys(keys))
    if not found.ok:
        raise RecordError(
            f"the log does not verify, so {otherwise}: {found.problem}", remedy="Run `metier audit verify`"
        )
    return found


def _stored(connection: "sqlite3.Connection", size: int | None) -> Checkpoint | None:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version < KNOWS_SETTING:
        return None
    row = connection.execute(
        "SELECT note FROM signed_head WHERE :size IS NULL OR size = :size ORDER BY size DESC LIMIT 1",
        {"size": size},
    ).fetchone()
    if row is None:
        return None
    found = (
        read_checkpoint(row[0].decode("utf-8", "replace")) if isinstance(row[0], bytes) else "it is no text"
    )
    if isinstance(found, str):
        raise StateError(f"a checkpoint in the database: {found}", remedy="Run `metier audit verify`")
    return found


def _require_same_key(connection: "sqlite3.Connection", since: int) -> None:
    """Inside the transaction: the key may have changed after the walk."""
    changed = connection.execute(
        """SELECT 1 FROM audit WHERE seq > ? AND instr(body, CAST('"event":"key_rotated"' AS BLOB)) > 0""",
        (since,),
    ).fetchone()
    if changed is not None:
        raise RecordError("somebody else put another key in place just now", remedy="Try again")
