"""The chain: each record's hash covers its own bytes, its number and the hash before it.

A record is hashed as the bytes that are stored and is never written again to be verified. Payloads lie
beside the chain; the record holds only a digest under a key that lies beside it too, so payload and key can
be erased and the chain still holds, and nobody can guess a short payload from what is left.
"""

import hashlib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, final

import msgspec

from metier.errors import StateError
from metier.record.events import EVENTS, Event
from metier.record.payload import PAYLOAD_BYTES, bounded_text, bounded_texts

if TYPE_CHECKING:
    import sqlite3

GENESIS: Final = bytes(32)
_DOMAIN: Final = b"metier audit record 1\0"
_MOST: Final = 2**63 - 1
_GRANT: Final = b"metier grant 1\0"


@final
class Act(msgspec.Struct, frozen=True, kw_only=True):
    """Who does what with which skill."""

    principal: str
    call_id: str = ""
    on_behalf_of: str = ""
    tool: str = ""
    skill: str = ""
    skill_digest: str = ""


@final
class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One record as it is stored. Events stay plain text here: an older Metier can still show a newer log."""

    seq: int
    at: str
    """UTC. For people; the order is that of `seq`."""
    event: str
    level: str
    category: str
    call_id: str = ""
    principal: str = ""
    on_behalf_of: str = ""
    tool: str = ""
    skill: str = ""
    skill_digest: str = ""
    code: str = ""
    reasons: tuple[str, ...] = ()
    """Words of ours, kept for good. What a person or a skill said belongs into a payload, which can be erased."""
    about: int | None = None
    """The record this one concerns: the intent of an outcome, the record whose payloads were erased."""
    payloads: dict[str, str] = {}
    """Name of each payload, and HMAC-SHA256 of its bytes under the key kept beside it."""
    unkept: dict[str, str] = {}
    """Name of each payload of which only the key was kept, and SHA-256 of that key. All others are there."""
    grant: str = ""
    """Digest of the whole grant that this record is about, so that an edited one is found."""


def now() -> str:
    """The time of this moment as records have it."""
    from datetime import UTC, datetime

    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def link(previous: bytes, seq: int, body: bytes) -> bytes:
    """The hash of record `seq`, which follows the record with hash `previous`."""
    return hashlib.sha256(_DOMAIN + previous + seq.to_bytes(8, "big") + body).digest()


def keyed_digest(key: bytes, body: bytes) -> str:
    """The digest of a payload that a record holds."""
    import hmac

    return hmac.digest(key, body, "sha256").hex()


def grant_digest(*parts: bytes) -> str:
    """The digest of a grant as it is stored, part by part."""
    return hashlib.sha256(
        _GRANT + b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    ).hexdigest()


def head(connection: "sqlite3.Connection") -> tuple[int, bytes]:
    """Number and hash of the newest record."""
    row = connection.execute("SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1").fetchone()
    if row is None:
        return 0, GENESIS
    seq, stored = row
    if not isinstance(stored, bytes) or not 0 < seq < _MOST:
        raise StateError(
            "the newest record of the audit log was tampered with",
            remedy="Run `metier audit verify`; keep the file as evidence",
        )
    return seq, stored


def append(
    connection: "sqlite3.Connection",
    event: Event,
    act: Act,
    *,
    at: str,
    code: str = "",
    reasons: tuple[str, ...] = (),
    about: int | None = None,
    payloads: Mapping[str, bytes] = {},
    keep_payloads: bool = True,
    grant: str = "",
) -> int:
    """Write one record. The caller holds the transaction, so the head cannot move in between."""
    last, previous = head(connection)
    seq = last + 1
    keys = {name: os.urandom(32) for name in payloads}
    kept = {name: keep_payloads and len(body) <= PAYLOAD_BYTES for name, body in payloads.items()}
    record = Record(
        seq=seq,
        at=at,
        event=event,
        level=EVENTS[event].level,
        category=EVENTS[event].category,
        call_id=bounded_text(act.call_id),
        principal=bounded_text(act.principal),
        on_behalf_of=bounded_text(act.on_behalf_of),
        tool=bounded_text(act.tool),
        skill=bounded_text(act.skill),
        skill_digest=bounded_text(act.skill_digest),
        code=bounded_text(code),
        reasons=bounded_texts(reasons),
        about=about,
        payloads={name: keyed_digest(keys[name], body) for name, body in payloads.items()},
        unkept={name: hashlib.sha256(keys[name]).hexdigest() for name in payloads if not kept[name]},
        grant=grant,
    )
    stored = msgspec.json.encode(record)
    connection.execute("INSERT INTO audit VALUES (?, ?, ?)", (seq, stored, link(previous, seq, stored)))
    for name, body in payloads.items():
        row = (seq, name, keys[name], body if kept[name] else None)
        connection.execute("INSERT INTO payload VALUES (?, ?, ?, ?)", row)
    return seq
