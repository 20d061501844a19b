"""Who is signed in. A session is a random secret in a cookie; here lies its SHA-256, with whom it stands for and by what he came in.

It is over on its hour, after a while in which he did nothing, when he signs out, when he is revoked or registered anew, and when the
password or account he came in by was changed or removed. Every function blocks.
"""

import hashlib
import hmac
import re
import secrets
import time
from typing import TYPE_CHECKING, Final, final

from msgspec import Struct

from metier.record.credentials import credential_in

if TYPE_CHECKING:
    import sqlite3

    from metier.record.credentials import Credential
    from metier.record.doors_db import DoorsDb

MOST_OF_ONE: Final = 50
"""How many sessions one person has at once; the oldest one goes for the next."""
_AHEAD: Final = 60.0
"""Seconds by which two clocks may differ."""
_NOTED: Final = 60
"""It is written down that a session was used when so small a part of the time went by after which it is over, so who goes on doing
something is never taken for somebody who left."""
_FORM: Final = re.compile(r"([0-9a-f]{16})\.[0-9a-f]{64}", re.ASCII)
_DOMAIN: Final = b"metier session 1\0"


@final
class Session(Struct, frozen=True, kw_only=True):
    """One sign-in of one person."""

    id: str
    """Known to anybody; lets nobody in."""
    principal: str
    since: str
    """When he was registered; empty for the owner. Registered anew he is somebody else."""
    proof: str
    """By what he came in: `link`, or kind, time and name of a credential."""
    expires_at: float


def proof_of(credential: "Credential | None") -> str:
    """What is remembered of how somebody came in."""
    if credential is None:
        return "link"
    return f"{credential.kind} {credential.set_at} {credential.name}"


def proof_holds(connection: "sqlite3.Connection", proof: str, principal: str) -> bool:
    """Whether one could still come in by it. `connection` is one to the record's database."""
    if proof == "link":
        return True
    kind, _, rest = proof.partition(" ")
    set_at, _, name = rest.partition(" ")
    if kind != "password" and kind != "oidc":
        return False
    found = credential_in(connection, kind, name)
    return found is not None and found.set_at == set_at and found.principal == principal


def begin(doors: "DoorsDb", principal: str, *, since: str, proof: str, hours: float) -> tuple[str, Session]:
    """Sign somebody in: the value for the cookie, which is nowhere else, and the session."""
    id, now = secrets.token_hex(8), time.time()
    value = f"{id}.{secrets.token_hex(32)}"
    made = Session(id=id, principal=principal, since=since, proof=proof, expires_at=now + hours * 3600)
    with doors.writing() as connection:
        connection.execute("DELETE FROM session WHERE expires_at <= ?", (now,))
        connection.execute(
            "INSERT INTO session VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (id, _hash(value), principal, since, proof, now, now, made.expires_at),
        )
        connection.execute(
            """DELETE FROM session WHERE principal = ?1 AND id NOT IN
               (SELECT id FROM session WHERE principal = ?1 ORDER BY made_at DESC, id LIMIT ?2)""",
            (principal, MOST_OF_ONE),
        )
    return value, made


def of_cookie(doors: "DoorsDb", value: str, *, idle: float, used: bool) -> Session | None:
    """The session of this cookie, if it is not over; `idle` are the seconds it may go without being used. `used`: whether this is such a
    use, which is noted; else it is only looked up."""
    found = _FORM.fullmatch(value)
    if found is None:
        return None
    now = time.time()
    with doors.reading() as connection:
        row = _row(connection, found[1])
    if row is None or not hmac.compare_digest(row[1], _hash(value)) or _over(row, now, idle):
        return None
    if used and not 0 <= now - row[6] < idle / _NOTED:
        with doors.writing() as connection:
            connection.execute("UPDATE session SET seen_at = ? WHERE id = ?", (now, found[1]))
    return _session(row)


def of_id(doors: "DoorsDb", id: str, *, idle: float) -> Session | None:
    """The session, if it is not over."""
    with doors.reading() as connection:
        row = _row(connection, id)
    return None if row is None or _over(row, time.time(), idle) else _session(row)


def end(doors: "DoorsDb", id: str) -> None:
    """Sign out."""
    with doors.writing() as connection:
        connection.execute("DELETE FROM session WHERE id = ?", (id,))


def end_cookie(doors: "DoorsDb", value: str) -> None:
    """The same, by the value of its cookie."""
    found = _FORM.fullmatch(value)
    if found is not None:
        with doors.writing() as connection:
            connection.execute("DELETE FROM session WHERE id = ? AND hash = ?", (found[1], _hash(value)))


_Row = tuple[str, bytes, str, str, str, float, float, float]


def _row(connection: "sqlite3.Connection", id: str) -> _Row | None:
    return connection.execute(
        "SELECT id, hash, principal, since, proof, made_at, seen_at, expires_at FROM session WHERE id = ?",
        (id,),
    ).fetchone()


def _over(row: _Row, now: float, idle: float) -> bool:
    """A clock that was set back makes nothing last longer: what was made later than now is over too."""
    made_at, seen_at, expires_at = row[5], row[6], row[7]
    return now >= expires_at or now - seen_at >= idle or made_at > now + _AHEAD


def _session(row: _Row) -> Session:
    return Session(id=row[0], principal=row[2], since=row[3], proof=row[4], expires_at=row[7])


def _hash(value: str) -> bytes:
    return hashlib.sha256(_DOMAIN + value.encode()).digest()
