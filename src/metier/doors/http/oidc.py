"""Signing in by way of an identity provider: the code flow with state, nonce and PKCE, and whose account here the other one is.

Whoever comes back must be the browser that went: a cookie of its own, good for ten minutes and once, says so.
"""

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final
from urllib.parse import urlencode

from anyio import to_thread
from msgspec import Struct

from metier.doors.http.oidc_provider import MakeEgress, Provider, Unanswered, named_error
from metier.doors.http.oidc_tokens import BadToken
from metier.record.credentials import Credential, credential_in, oidc_name
from metier.sandbox.egress import Egress

if TYPE_CHECKING:
    from metier.config.serve import OidcSettings
    from metier.record.database import Database
    from metier.record.doors_db import DoorsDb

CALLBACK: Final = "/api/v1/sign-in/oidc/callback"
SECONDS: Final = 600.0
"""So long one may take to sign in there."""
MOST: Final = 1_000
"""Sign-ins under way at once; the oldest one goes for the next."""
_DOMAIN: Final = b"metier oidc 1\0"


class NotSignedIn(Exception):
    """Nobody is. The text says why, for the person and for the log; nothing that was sent is in it."""


@final
class Begun(Struct, frozen=True, kw_only=True):
    """Somebody is sent to the provider."""

    url: str
    cookie: str
    """What his browser keeps until he is back."""


@final
class Oidc:
    """Belongs to one loop."""

    def __init__(
        self,
        *,
        doors: "DoorsDb",
        database: "Database",
        settings: "Callable[[], OidcSettings]",
        reveal: Callable[[str], str | None],
        make: MakeEgress = Egress,
    ) -> None:
        self._doors = doors
        self._database = database
        self._settings = settings
        self._reveal = reveal
        self._make = make
        self._provider: Provider | None = None

    @property
    def there_is_one(self) -> bool:
        """Whether a provider is configured."""
        return bool(self._settings().issuer)

    async def begin(self, origin: str) -> Begun:
        """Where to send somebody who is at the page of `origin`, which is one of ours.

        Raises:
            NotSignedIn: when there is no provider, or it does not answer.
        """
        try:
            about = await self._current().about()
        except Unanswered as error:
            raise NotSignedIn(str(error)) from None
        cookie, state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(4))
        back = f"{origin}{CALLBACK}"
        await to_thread.run_sync(self._keep, cookie, state, nonce, verifier, back)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        asked = {
            "response_type": "code",
            "client_id": self._settings().client_id,
            "redirect_uri": back,
            "scope": "openid",
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        mark = "&" if "?" in about.authorization else "?"
        return Begun(url=f"{about.authorization}{mark}{urlencode(asked)}", cookie=cookie)

    async def end(self, given: dict[str, str], cookie: str) -> Credential:
        """Who came back with `given`, the query of the callback.

        Raises:
            NotSignedIn: when it is nobody here, or not the one who went.
        """
        flow = await to_thread.run_sync(self._used, cookie) if cookie else None
        if flow is None:
            raise NotSignedIn("this sign-in was not begun here, took too long, or is over")
        state, nonce, verifier, back = flow
        if not hmac.compare_digest(given.get("state", "").encode(), state.encode()):
            raise NotSignedIn("this sign-in was begun by somebody else")
        provider = self._current()
        try:
            about = await provider.about()
            if (
                given.get("iss", "" if about.names_itself else provider.settings.issuer)
                != provider.settings.issuer
            ):
                raise NotSignedIn("another provider answered")
            if "error" in given or not given.get("code"):
                raise NotSignedIn("the provider let nobody in" + named_error(given.get("error")))
            subject = await provider.subject(given["code"], verifier, nonce, back)
        except Unanswered as error:
            raise NotSignedIn(str(error)) from None
        except BadToken as error:
            raise NotSignedIn(f"what the provider says cannot be taken for its word: {error}") from None
        name = oidc_name(provider.settings.issuer, subject)
        found = await to_thread.run_sync(self._find, name)
        if found is None:
            raise NotSignedIn(
                "this account is nobody's here; the owner can say whose it is with `metier principals oidc`"
            )
        return found

    def _current(self) -> Provider:
        settings = self._settings()
        if not settings.issuer:
            raise NotSignedIn("no identity provider is configured")
        if self._provider is None or self._provider.settings != settings:
            self._provider = Provider(settings, self._reveal, make=self._make)
        return self._provider

    def _find(self, name: str) -> Credential | None:
        with self._database.reading() as connection:
            return credential_in(connection, "oidc", name)

    def _keep(self, cookie: str, state: str, nonce: str, verifier: str, back: str) -> None:
        now = time.time()
        with self._doors.writing() as connection:
            connection.execute(
                "DELETE FROM oidc_flow WHERE expires_at <= ? OR expires_at > ?", (now, now + SECONDS)
            )
            connection.execute(
                "INSERT INTO oidc_flow VALUES (?, ?, ?, ?, ?, ?)",
                (_hash(cookie), state, nonce, verifier, back, now + SECONDS),
            )
            connection.execute(
                """DELETE FROM oidc_flow WHERE hash NOT IN
                   (SELECT hash FROM oidc_flow ORDER BY expires_at DESC, rowid DESC LIMIT ?)""",
                (MOST,),
            )

    def _used(self, cookie: str) -> tuple[str, str, str, str] | None:
        with self._doors.writing() as connection:
            row = connection.execute(
                "DELETE FROM oidc_flow WHERE hash = ? RETURNING state, nonce, verifier, back, expires_at",
                (_hash(cookie),),
            ).fetchone()
        return row[:4] if row is not None and time.time() < row[4] else None


def _hash(cookie: str) -> bytes:
    return hashlib.sha256(_DOMAIN + cookie.encode()).digest()
