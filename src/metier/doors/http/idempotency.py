"""Calls that are made once however often they are asked for: the client names each by a key of its own (the header Idempotency-Key).

The record itself sees to it that a call begins once. What is kept here, for a day, is what was asked under a key and what was answered:
how it ended, or the request for somebody's word that it waits for. What is final is never overwritten.
"""

import hashlib
import hmac
import re
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, final

from anyio import to_thread
from msgspec import Struct

from metier.doors.http.problem import Refusal
from metier.record.doors_db import GONE

if TYPE_CHECKING:
    import sqlite3

    from starlette.requests import Request

    from metier.record.doors_db import DoorsDb

SECONDS: Final = 86_400
MOST_KEYS: Final = 20_000
"""Of one principal, a day."""
MOST_BYTES: Final = 65_536
"""A longer answer is not kept; asked again, the call says that it began already."""
MOST_BYTES_EACH: Final = 32 * 1_048_576
"""Of the answers that are kept for one principal. Beyond that the oldest go; what was asked, and that it was, stays."""
_SMALL: Final = 4_096
"""What is no longer than this does not go: what waits and what was denied is found by it, and it costs next to nothing."""
WAITS: Final = 202
"""How what waits for somebody's word was answered, and is kept."""
_SIGNS: Final = "[A-Za-z0-9._:~+/=@-]{1,255}"
KEY: Final = f'"{_SIGNS}"|{_SIGNS}'
"""A quoted string, as the draft has it, of letters, digits and a few signs. Many clients leave the quotes out, and mean the same."""


@final
class Answered(Struct, frozen=True, kw_only=True):
    """What was answered before."""

    status: int
    body: bytes


def key_in(request: "Request") -> str | None:
    """The key of a request; None where there is none.

    Raises:
        Refusal: when it is no such key, or there are two.
    """
    given = request.headers.getlist("idempotency-key")
    if not given:
        return None
    if len(given) > 1 or not re.fullmatch(KEY, given[0], re.ASCII):
        raise Refusal(
            400,
            "bad_idempotency_key",
            "an Idempotency-Key is one quoted string of 1 to 255 letters, digits and signs",
            remedy='Send it once, such as "8e03978e-40d5-43e8-bc93-6894a57f9324"',
        )
    return given[0].strip('"')


@final
class Once(Struct, frozen=True, kw_only=True):
    """A key of somebody's. An id that is added again is somebody else's, and so are his keys."""

    principal: str
    since: str
    """When he was registered; empty for who was not."""
    key: str

    @property
    def name(self) -> str:
        """Under which it is kept: the key itself is not."""
        return f"{self.principal} {self._digest()}"

    @property
    def call_id(self) -> str:
        """The call that this key stands for. The record takes each id once, whatever becomes of the answers that are kept."""
        return f"call_{self._digest()[:24]}"

    def digest_of(self, asked: bytes, *, slowly: bool = False) -> bytes:
        """By what it is known that the same is asked again. Under the client's key, so that nobody who has the digest can try what
        was asked without it; `slowly` where there is a secret in it and the key may be easy to guess. Blocking then."""
        key = self._whole()
        if slowly:
            asked = hashlib.scrypt(asked, salt=key, n=16_384, r=8, p=1)
        return hmac.digest(key, asked, "sha256")

    def _whole(self) -> bytes:
        return "\0".join(
            (self.principal, self.since, self.key) if self.since else (self.principal, self.key)
        ).encode()

    def _digest(self) -> str:
        return hashlib.sha256(self._whole()).hexdigest()


@final
class Before(Struct, frozen=True, kw_only=True):
    """What is known of a key."""

    answered: Answered | None
    """None where it is to be done now: for the first time, or because nobody knows how it ended but the record."""
    new: bool
    """Whether nobody asked for it before."""


@final
class Kept:
    """Belongs to one loop; the table is for every process."""

    def __init__(self, database: "DoorsDb") -> None:
        self._database = database
        self._running: set[str] = set()

    @contextmanager
    def alone(self, once: Once) -> Generator[None]:
        """Whoever asks with the same key meanwhile is told so.

        Raises:
            Refusal: when it is being done.
        """
        if once.name in self._running:
            raise still_running()
        self._running.add(once.name)
        try:
            yield
        finally:
            self._running.discard(once.name)

    async def begin(self, once: Once, asked: bytes) -> Before:
        """What is known of this key; from now on it stands for what is asked.

        Raises:
            Refusal: when the key was used for something else, or there are too many.
        """
        return await to_thread.run_sync(self._begin, once, asked)

    async def keep(self, principal: str, call_id: str, status: int, body: bytes) -> None:
        """Keep what was answered, where the call was asked for under a key."""
        await to_thread.run_sync(self._keep, principal, call_id, status, body)

    async def forget(self, once: Once) -> None:
        """Nothing came of it: the key is free again."""
        await to_thread.run_sync(self._forget, once.name)

    def _begin(self, once: Once, asked: bytes) -> Before:
        now = time.time()
        with self._database.writing() as connection:
            connection.execute("DELETE FROM answer WHERE at < ?", (now - SECONDS,))
            row = connection.execute(
                "SELECT digest, status, body FROM answer WHERE key = ?", (once.name,)
            ).fetchone()
            if row is None:
                self._require_room(connection, once.principal)
                connection.execute(
                    "INSERT INTO answer VALUES (?, ?, ?, 0, x'', ?)", (once.name, asked, once.call_id, now)
                )
                return Before(answered=None, new=True)
        if row[0] != asked:
            raise Refusal(
                422,
                "key_reused",
                "this key was used for another request",
                remedy="Take a new key for this one; with the same key send exactly what was sent before",
            )
        # Without an answer it was cut off, or runs in another process: the record knows whether it began.
        answered = None if row[1] in (0, GONE) else Answered(status=row[1], body=row[2])
        return Before(answered=answered, new=False)

    def _require_room(self, connection: "sqlite3.Connection", principal: str) -> None:
        many = connection.execute(
            "SELECT count(*) FROM answer WHERE key > ? AND key < ?", _of(principal)
        ).fetchone()
        if many[0] >= MOST_KEYS:
            raise Refusal(
                429,
                "too_many_keys",
                f"{MOST_KEYS:,} keys a day are the most",
                remedy="Without a key calls can be made; or wait until the oldest is a day old",
                retry_after="3600",
            )

    def _keep(self, principal: str, call_id: str, status: int, body: bytes) -> None:
        if len(body) > MOST_BYTES:
            return
        with self._database.writing() as connection:
            connection.execute(
                "UPDATE answer SET status = ?, body = ? WHERE key > ? AND key < ? AND call_id = ? AND status IN (0, ?)",
                (status, body, *_of(principal), call_id, WAITS),
            )
            if len(body) > _SMALL:
                self._make_room(connection, principal)

    def _make_room(self, connection: "sqlite3.Connection", principal: str) -> None:
        """Let the oldest answers go, so that all of them together are not too long."""
        rows = connection.execute(
            "SELECT key, length(body) FROM answer WHERE key > ? AND key < ? AND length(body) > ? ORDER BY at DESC",
            (*_of(principal), _SMALL),
        ).fetchall()
        together = 0
        for key, length in rows:
            together += length
            if together > MOST_BYTES_EACH:
                connection.execute("UPDATE answer SET status = ?, body = x'' WHERE key = ?", (GONE, key))

    def _forget(self, name: str) -> None:
        with self._database.writing() as connection:
            connection.execute("DELETE FROM answer WHERE key = ? AND status = 0", (name,))


def still_running() -> Refusal:
    """It is being done, here or in another process."""
    return Refusal(
        409, "still_running", "this is being done", remedy="Ask again with the same key", retry_after="1"
    )


def _of(principal: str) -> tuple[str, str]:
    """Between which names the keys of one principal lie."""
    return f"{principal} ", f"{principal}!"
