"""Buttons under requests for somebody's word: each set belongs to one request, one exact act, one person and one span of time, and is
pressed once. What a button carries is a number nobody can guess; what it means is kept here. Everything blocks; call it in a thread."""

import hashlib
import secrets
import time
from typing import Final, final

from msgspec import Struct

from metier.kernel.store import Store
from metier.model.approval import Approval

_BYTES: Final = 16
_KEPT: Final = 7 * 86_400.0
"""Seconds after it expired that a button is known as one of the past."""


@final
class Button(Struct, frozen=True, kw_only=True):
    """What a button that was pressed stands for."""

    digest: str
    approval: str
    fingerprint: str
    title: str


@final
class Buttons:
    """Those that were shown."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def make(self, approval: Approval, recipient: int, title: str) -> str:
        """A number for the buttons of this request to this person; an earlier one is void from now on."""
        number = secrets.token_urlsafe(_BYTES)
        with self._store.writing() as connection:
            connection.execute("DELETE FROM telegram_button WHERE expires_at < ?", (time.time() - _KEPT,))
            connection.execute(
                "DELETE FROM telegram_button WHERE approval = ? AND recipient = ?",
                (approval.id, str(recipient)),
            )
            connection.execute(
                "INSERT INTO telegram_button VALUES (?, ?, ?, ?, ?, '', ?, 0)",
                (
                    _digest(number),
                    approval.id,
                    approval.fingerprint,
                    str(recipient),
                    title,
                    approval.expires_at,
                ),
            )
        return number

    def shown(self, number: str, message: int) -> None:
        """They stand under this message."""
        with self._store.writing() as connection:
            connection.execute(
                "UPDATE telegram_button SET message = ? WHERE digest = ?", (str(message), _digest(number))
            )

    def place(self, approval: str, recipient: int) -> tuple[str, str]:
        """The message under which this person was shown the request, and its title; empty where he was not."""
        with self._store.reading() as connection:
            row = connection.execute(
                "SELECT message, title FROM telegram_button WHERE approval = ? AND recipient = ?",
                (approval, str(recipient)),
            ).fetchone()
        return (str(row[0]), str(row[1])) if row is not None else ("", "")

    def take(self, number: str, user: int, message: int, now: float | None = None) -> Button | str:
        """What was pressed, and nobody can press it again; or why it counts for nothing."""
        digest = _digest(number)
        with self._store.writing() as connection:
            row = connection.execute(
                "SELECT approval, fingerprint, recipient, title, message, expires_at, used FROM telegram_button WHERE digest = ?",
                (digest,),
            ).fetchone()
            if row is None:
                return "There is no such button."
            approval, fingerprint, recipient, title, place, expires_at, used = row
            if recipient != str(user) or (place and place != str(message)):
                return "This button is not yours."
            if used:
                return "This was decided already."
            if expires_at <= (time.time() if now is None else now):
                return "It has expired."
            connection.execute("UPDATE telegram_button SET used = 1 WHERE digest = ?", (digest,))
        return Button(digest=digest, approval=approval, fingerprint=fingerprint, title=title)

    def give_back(self, button: Button) -> None:
        """Nothing was decided, so it may be pressed again."""
        with self._store.writing() as connection:
            connection.execute("UPDATE telegram_button SET used = 0 WHERE digest = ?", (button.digest,))

    def over(self, approval: str, recipient: int) -> None:
        """The request is over, whoever decided it."""
        with self._store.writing() as connection:
            connection.execute(
                "UPDATE telegram_button SET used = 1 WHERE approval = ? AND recipient = ?",
                (approval, str(recipient)),
            )


def _digest(number: str) -> str:
    return hashlib.sha256(number.encode()).hexdigest()
