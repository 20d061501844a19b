"""Buttons under requests for somebody's word: each set belongs to one request, one exact act, one bot, one person and one span of time.
What a button carries is a number nobody can guess; what it means, and which answers it offers, is kept here. The desk decides, and it
decides once; here is kept besides who was about to say yes, so that a yes which was cut off is taken up, and he is told how it ended.

Everything blocks; call it in a thread."""

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
    offered: str
    """The letters of the answers it may give."""


@final
class Yes(Struct, frozen=True, kw_only=True):
    """Somebody pressed yes, and was not told how it ended."""

    approval: str
    recipient: int
    title: str
    by: str
    """As whom he said it."""


@final
class Buttons:
    """Those that were shown."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def make(self, approval: Approval, bot: str, recipient: int, title: str, offered: str) -> str:
        """A number for the buttons of this request to this person. An earlier one counts as well: where nobody knows whether its message
        arrived, he may have it before him."""
        number = secrets.token_urlsafe(_BYTES)
        with self._store.writing() as connection:
            connection.execute("DELETE FROM telegram_button WHERE expires_at < ?", (time.time() - _KEPT,))
            connection.execute(
                "INSERT INTO telegram_button (digest, approval, fingerprint, recipient, title, message, expires_at, used, bot, offered)"
                " VALUES (?, ?, ?, ?, ?, '', ?, 0, ?, ?)",
                (
                    _digest(number),
                    approval.id,
                    approval.fingerprint,
                    str(recipient),
                    title,
                    approval.ends,
                    bot,
                    offered,
                ),
            )
        return number

    def shown(self, number: str, message: int) -> None:
        """They stand under this message."""
        with self._store.writing() as connection:
            connection.execute(
                "UPDATE telegram_button SET message = ? WHERE digest = ?", (str(message), _digest(number))
            )

    def place(self, approval: str, bot: str, recipient: int) -> tuple[str, str]:
        """The message under which this bot showed this person the request, and its title; empty where it did not. The messages of
        another bot have the same numbers."""
        with self._store.reading() as connection:
            row = connection.execute(
                "SELECT message, title FROM telegram_button WHERE approval = ? AND bot = ? AND recipient = ? AND message != ''",
                (approval, bot, str(recipient)),
            ).fetchone()
        return (str(row[0]), str(row[1])) if row is not None else ("", "")

    def look(self, number: str, bot: str, user: int, message: int, now: float | None = None) -> Button | str:
        """What was pressed; or why it counts for nothing. Nothing is written: a no must not wait for this file."""
        digest = _digest(number)
        with self._store.reading() as connection:
            row = connection.execute(
                "SELECT approval, fingerprint, recipient, title, message, expires_at, used, bot, offered"
                " FROM telegram_button WHERE digest = ?",
                (digest,),
            ).fetchone()
        if row is None:
            return "There is no such button."
        approval, fingerprint, recipient, title, place, expires_at, used, shown_by, offered = row
        if (recipient, shown_by) != (str(user), bot) or (place and place != str(message)):
            return "This button is not yours."
        if used:
            return "This was decided already."
        if expires_at <= (time.time() if now is None else now):
            return "It has expired."
        return Button(digest=digest, approval=approval, fingerprint=fingerprint, title=title, offered=offered)

    def about_to(self, button: Button, by: str) -> None:
        """Somebody is about to say yes, as `by`; empty when nothing came of it."""
        with self._store.writing() as connection:
            connection.execute("UPDATE telegram_button SET yes_by = ? WHERE digest = ?", (by, button.digest))

    def unfinished(self) -> list[Yes]:
        """Every yes of which who said it was not told how it ended."""
        with self._store.reading() as connection:
            rows = connection.execute(
                "SELECT approval, recipient, title, yes_by FROM telegram_button WHERE yes_by != '' ORDER BY expires_at"
            ).fetchall()
        return [Yes(approval=a, recipient=int(r), title=t, by=b) for a, r, t, b in rows]

    def finished(self, approval: str) -> None:
        """Who said yes was told how it ended, or cannot be."""
        with self._store.writing() as connection:
            connection.execute("UPDATE telegram_button SET yes_by = '' WHERE approval = ?", (approval,))

    def over(self, approval: str) -> None:
        """The request was decided, or is over: nobody's button counts any more."""
        with self._store.writing() as connection:
            connection.execute("UPDATE telegram_button SET used = 1 WHERE approval = ?", (approval,))


def _digest(number: str) -> str:
    return hashlib.sha256(number.encode()).hexdigest()
