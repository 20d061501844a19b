"""Passwords: argon2id, as the library has it by default (64 MiB, a third of a second), and never more than two at once.

What nobody has takes as long to refuse as what somebody has, so nobody learns by asking who is there.
"""

import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from anyio import CapacityLimiter, to_thread

if TYPE_CHECKING:
    from argon2 import PasswordHasher

SHORTEST: Final = 12
LONGEST: Final = 256
_WAITING: Final = 8
"""How many may stand in line. Each takes 64 MiB for a third of a second."""


class TooBusy(Exception):
    """Too many stand in line."""


def problem_of(password: str, principal: str) -> str:
    """Why this can be nobody's password; empty when it can."""
    if not SHORTEST <= len(password) <= LONGEST:
        return f"a password has {SHORTEST} to {LONGEST} characters"
    if len(set(password)) < 5:
        return "a password of a few letters again and again is guessed at once"
    name = principal.partition(":")[2].casefold()
    if name and not password.casefold().replace(name, ""):
        return "that is the name it is for"
    return ""


def hashed(password: str) -> bytes:
    """What is kept of it. Blocking, for a third of a second."""
    return _hasher().hash(_spelled(password)).encode()


def matches(body: bytes | None, password: str) -> bool:
    """Whether it is the password that this is the hash of; None for the one of nobody. Blocking, equally long."""
    from argon2.exceptions import InvalidHashError, VerificationError

    try:
        return _hasher().verify((body or _nobodys()).decode(), _spelled(password)) and body is not None
    except (VerificationError, InvalidHashError, UnicodeDecodeError):
        return False


class Checking:
    """Checks passwords, two at once. Belongs to one loop."""

    def __init__(self) -> None:
        self._limiter = CapacityLimiter(2)
        self._there = 0
        """Who is looked at or stands in line. The limiter counts those only who have reached it: many who come at once are not there yet."""

    async def matches(self, body: bytes | None, password: str) -> bool:
        """As `matches`.

        Raises:
            TooBusy: when too many stand in line already.
        """
        if self._there >= 2 + _WAITING:
            raise TooBusy
        self._there += 1
        try:
            return await to_thread.run_sync(matches, body, password, limiter=self._limiter)
        finally:
            self._there -= 1


@lru_cache(maxsize=1)
def _hasher() -> "PasswordHasher":
    from argon2 import PasswordHasher

    return PasswordHasher()


@lru_cache(maxsize=1)
def _nobodys() -> bytes:
    return hashed("nobody has this password")


def _spelled(password: str) -> str:
    """One spelling for what looks the same, whatever keyboard it was typed on."""
    return unicodedata.normalize("NFC", password)
