"""The chain: each record's hash covers its own bytes, its number and the hash before it.

A record is hashed as the bytes that are stored and is never written again to be verified. Payloads lie beside it in the
same row, and the chain does not cover them; the record holds only a digest under a key that lies there too, so payload and
key can be erased and the chain still holds, and nobody can guess a short payload from what is left.
"""

import hashlib
import hmac
import os
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final, final

import msgspec
from msgspec.structs import asdict, replace

from metier.errors import StateError
from metier.record.events import EVENTS, Event
from metier.record.held import Held
from metier.record.payload import PAYLOAD_BYTES, bounded_text, bounded_texts, fits
from metier.record.redact import masked

if TYPE_CHECKING:
    import sqlite3

GENESIS: Final = bytes(32)
_DOMAIN: Final = b"metier audit record 1\0"
_MOST: Final = 2**63 - 1
KEY_BYTES: Final = 32
"""Of the key of one payload."""
_GRANT: Final = b"metier grant 1\0"


@final
class Act(msgspec.Struct, frozen=True, kw_only=True):
    """Who does what with which skill."""

    principal: str
    call_id: str = ""
    on_behalf_of: str = ""
    token: str = ""
    """Id of the API token it came with, or empty."""
    tool: str = ""
    skill: str = ""
    skill_digest: str = ""
    attempt: int = 1
    parent: str = ""
    """The call it was made inside of."""
    session: str = ""
    channel: str = ""
    effect: str = ""
    risk: str = ""
    decision: str = ""
    """What the layers said together: `allow`, `ask` or `deny`."""
    evidence: str = ""
    """On whose word it ran: `policy`, or the id of a decision or standing grant."""
    approved_by: str = ""
    trust_level: str = ""
    policy: str = ""
    """Digest of the operator's rules at that moment."""


@final
class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """How something ran."""

    sandbox: str = ""
    guarantees: tuple[str, ...] = ()
    duration_ms: float | None = None


NOT_RUN: Final = Ran()


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
    token: str = ""
    tool: str = ""
    skill: str = ""
    skill_digest: str = ""
    attempt: int = 1
    parent: str = ""
    session: str = ""
    channel: str = ""
    effect: str = ""
    risk: str = ""
    decision: str = ""
    evidence: str = ""
    approved_by: str = ""
    trust_level: str = ""
    policy: str = ""
    sandbox: str = ""
    guarantees: tuple[str, ...] = ()
    duration_ms: float | None = None
    approval: str = ""
    """The request for somebody's word that this record is about."""
    code: str = ""
    reasons: tuple[str, ...] = ()
    """Words of ours, kept for good. What a person or a skill said belongs into a payload, which can be erased."""
    about: int | None = None
    """The record this one concerns: the intent of an outcome, the record whose payloads were erased."""
    payloads: dict[str, str] = {}
    """Name of each payload, and HMAC-SHA256 of its bytes under the key kept beside it."""
    unkept: dict[str, str] = {}
    """Name of each payload of which only the key was kept, and SHA-256 of that key. All others are there."""
    lengths: dict[str, int] = {}
    """How many bytes each payload had that was too large to be kept."""
    grant: str = ""
    """Digest of the whole grant that this record is about, so that an edited one is found."""


def now() -> str:
    """The time of this moment as records have it."""
    seconds, rest = divmod(time.time_ns(), 1_000_000_000)
    return f"{_second(seconds)}.{rest // 1000:06}Z"


@lru_cache(maxsize=4)
def _second(seconds: int) -> str:
    """Many records are of one second, and spelling it out takes longer than finding it again."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19]


def link(previous: bytes, seq: int, body: bytes) -> bytes:
    """The hash of record `seq`, which follows the record with hash `previous`."""
    return hashlib.sha256(_DOMAIN + previous + seq.to_bytes(8, "big") + body).digest()


def keyed_digest(key: bytes, body: bytes) -> str:
    """The digest of a payload that a record holds: HMAC-SHA256.

    For one short body, asking OpenSSL for HMAC takes longer than its two hashes, so a key of ours is used as RFC 2104 says.
    """
    if len(key) != KEY_BYTES:
        return hmac.digest(key, body, "sha256").hex()
    inner = hashlib.sha256(key.translate(_INNER) + _INNER_REST + body).digest()
    return hashlib.sha256(key.translate(_OUTER) + _OUTER_REST + inner).hexdigest()


# The key, filled up with zeros to a block of 64 bytes, is changed in two ways, byte by byte.
_INNER: Final = bytes(byte ^ 0x36 for byte in range(256))
_OUTER: Final = bytes(byte ^ 0x5C for byte in range(256))
_INNER_REST: Final = bytes([0x36]) * 32
_OUTER_REST: Final = bytes([0x5C]) * 32


def together(bodies: Mapping[str, bytes]) -> bytes | None:
    """Payloads as they are kept: one JSON object, in which each is byte for byte as it was hashed. None when there are none."""
    if not bodies:
        return None
    return b"{%b}" % b",".join(b"%b:%b" % (msgspec.json.encode(name), body) for name, body in bodies.items())


def grant_digest(*parts: bytes) -> str:
    """The digest of a grant as it is stored, part by part."""
    return hashlib.sha256(
        _GRANT + b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    ).hexdigest()


def head(connection: "sqlite3.Connection") -> tuple[int, bytes]:
    """Number and hash of the newest record. Only `append` writes any, so the last one it wrote over this connection is the
    newest, unless others committed since."""
    if isinstance(connection, Held) and connection.head is not None:
        return connection.head
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


def _bounded(act: Act) -> Act:
    """The act with every text that came from outside bounded; nearly always it is so already."""
    if fits(
        *(act.call_id, act.principal, act.on_behalf_of, act.tool, act.skill, act.skill_digest),
        *(act.parent, act.session, act.channel, act.approved_by),
    ):
        return act
    texts = {name: bounded_text(text) for name, text in asdict(act).items() if isinstance(text, str)}
    return replace(act, **texts)


def _bounded_reasons(reasons: tuple[str, ...]) -> tuple[str, ...]:
    """Bounded first, because masking takes time and room, and again, because a mask may be longer than what it hides."""
    return bounded_texts(masked(bounded_texts(reasons))) if reasons else ()


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
    most: int = PAYLOAD_BYTES,
    grant: str = "",
    approval: str = "",
    ran: Ran = NOT_RUN,
) -> int:
    """Write one record. The caller holds the transaction, so the head cannot move in between.

    Of a payload of more than `most` bytes only digest and length are kept.
    """
    last, previous = head(connection)
    seq = last + 1
    act = _bounded(act)
    keys = os.urandom(KEY_BYTES * len(payloads)) if payloads else None
    kept: dict[str, bytes] = {}
    digests: dict[str, str] = {}
    unkept: dict[str, str] = {}
    lengths: dict[str, int] = {}
    for place, name in enumerate(sorted(payloads) if len(payloads) > 1 else payloads):
        key, body = (keys or b"")[place * KEY_BYTES : (place + 1) * KEY_BYTES], payloads[name]
        digests[name] = keyed_digest(key, body)
        if keep_payloads and len(body) <= most:
            kept[name] = body
            continue
        unkept[name] = hashlib.sha256(key).hexdigest()
        if keep_payloads:
            lengths[name] = len(body)
    record = Record(
        seq=seq,
        at=at,
        event=event,
        level=EVENTS[event].level,
        category=EVENTS[event].category,
        call_id=act.call_id,
        principal=act.principal,
        on_behalf_of=act.on_behalf_of,
        token=act.token,
        tool=act.tool,
        skill=act.skill,
        skill_digest=act.skill_digest,
        attempt=act.attempt,
        parent=act.parent,
        session=act.session,
        channel=act.channel,
        effect=act.effect,
        risk=act.risk,
        decision=act.decision,
        evidence=act.evidence,
        approved_by=act.approved_by,
        trust_level=act.trust_level,
        policy=act.policy,
        sandbox=bounded_text(ran.sandbox),
        guarantees=ran.guarantees,
        duration_ms=ran.duration_ms,
        approval=approval,
        code=bounded_text(code),
        reasons=_bounded_reasons(reasons),
        about=about,
        payloads=digests,
        unkept=unkept,
        lengths=lengths,
        grant=grant,
    )
    stored = msgspec.json.encode(record)
    linked = link(previous, seq, stored)
    connection.execute(
        "INSERT INTO audit VALUES (?, ?, ?, ?, ?)", (seq, stored, linked, keys, together(kept))
    )
    if isinstance(connection, Held):
        connection.head = seq, linked
    return seq
