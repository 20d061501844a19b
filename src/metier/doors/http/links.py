"""Sign-in links for the owner: made where he sits at the terminal, good once and for five minutes.

The token stands behind the `#` of the address, which browsers send to nobody; the page takes it out and exchanges it by POST.
Every function blocks.
"""

import hashlib
import secrets
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from metier.record.doors_db import DoorsDb

SECONDS: Final = 300.0
MOST: Final = 20
"""Links that are good at once; the oldest one goes for the next."""
_DOMAIN: Final = b"metier link 1\0"


def make_link(doors: "DoorsDb", principal: str, origin: str) -> str:
    """A new link to the page at `origin`."""
    token, now = secrets.token_hex(32), time.time()
    with doors.writing() as connection:
        connection.execute("DELETE FROM link WHERE expires_at <= ? OR expires_at > ?", (now, now + SECONDS))
        connection.execute("INSERT INTO link VALUES (?, ?, ?)", (_hash(token), principal, now + SECONDS))
        connection.execute(
            "DELETE FROM link WHERE hash NOT IN (SELECT hash FROM link ORDER BY expires_at DESC, rowid DESC LIMIT ?)",
            (MOST,),
        )
    return f"{origin}/#token={token}"


def use_link(doors: "DoorsDb", token: str) -> str | None:
    """Whom the token signs in; None when nobody. Whoever comes second comes too late, however close."""
    with doors.writing() as connection:
        row = connection.execute(
            "DELETE FROM link WHERE hash = ? RETURNING principal, expires_at", (_hash(token),)
        ).fetchone()
    now = time.time()
    return row[0] if row is not None and now < row[1] <= now + SECONDS else None


def _hash(token: str) -> bytes:
    return hashlib.sha256(_DOMAIN + token.encode("utf-8", "surrogatepass")).digest()
