"""Signing people in: by a link, a password, or an account elsewhere. Each way ends here, in a session that is on the record.

A session that a browser brought along is over when it signs in: nobody gets to use one that he was given by somebody else.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, final

from anyio import to_thread
from msgspec import Struct

from metier.doors.http import limits_sign_in as limits
from metier.doors.http import sessions
from metier.doors.http.identity import Gatekeeper
from metier.doors.http.links import use_link
from metier.doors.http.oidc import Begun, NotSignedIn, Oidc
from metier.doors.http.passwords import Checking, TooBusy
from metier.doors.http.problem import Refusal
from metier.model.instant import written
from metier.record.credentials import credential_in
from metier.record.registered import since_of
from metier.record.sign_ins import note_sign_in

if TYPE_CHECKING:
    from metier.config.settings import Settings
    from metier.record.credentials import Credential
    from metier.record.database import Database
    from metier.record.doors_db import DoorsDb


@final
class SignedIn(Struct, frozen=True, kw_only=True):
    """What the person's browser is told, but for the cookie."""

    principal: str
    expires_at: str


@final
class SignIn:
    """Belongs to one loop."""

    def __init__(
        self,
        *,
        gatekeeper: Gatekeeper,
        doors: "DoorsDb",
        database: "Database",
        settings: "Callable[[], Settings]",
        oidc: Oidc,
    ) -> None:
        self.gatekeeper: Final = gatekeeper
        self.oidc: Final = oidc
        self._doors = doors
        self._database = database
        self._settings = settings
        self._passwords = Checking()

    async def by_link(self, token: str, *, address: str, before: list[str]) -> tuple[str, SignedIn]:
        """`before`: the session that the browser has, or empty. Gives the value for the cookie.

        Nobody guesses a link, so one that is right is never kept waiting for those who try.

        Raises:
            Refusal: when it signs nobody in.
        """
        principal = await to_thread.run_sync(use_link, self._doors, token)
        if principal is None:
            await self._counted(address, "")
            raise _failed("the link was used already, is over, or is none", "`metier sign-in` makes another")
        return await self._begin(principal, None, before)

    async def by_password(
        self, principal: str, password: str, *, address: str, before: list[str]
    ) -> tuple[str, SignedIn]:
        """Likewise. What is wrong with it is not said: not even whether there is such a person.

        Raises:
            Refusal: when it signs nobody in, or too many were tried.
        """
        at = await self._counted(address, principal)
        found = await to_thread.run_sync(self._password_of, principal)
        try:
            fits = await self._passwords.matches(found.body if found else None, password)
        except TooBusy:
            raise Refusal(
                429,
                "too_many_attempts",
                "too many sign in at this moment",
                remedy="Try again in a moment",
                retry_after="2",
            ) from None
        if not fits or found is None:
            raise _failed(
                "name or password is wrong", "Names are written human:ada; the owner sets a new password"
            )
        made = await self._begin(principal, found, before)
        await to_thread.run_sync(partial(limits.right, self._doors, at, address=address, account=principal))
        return made

    async def to_provider(self, origin: str, *, address: str) -> Begun:
        """Where to send somebody who is at the page of `origin`.

        Raises:
            Refusal: when nobody is sent.
        """
        _not_too_often(await to_thread.run_sync(partial(limits.sent, self._doors, address=address)))
        try:
            return await self.oidc.begin(origin)
        except NotSignedIn as why:
            status = 503 if self.oidc.there_is_one else 409
            raise Refusal(
                status,
                "provider_unavailable",
                str(why),
                remedy="Sign in another way; the owner finds the provider under [serve.oidc], and more in the log",
            ) from None

    async def by_oidc(
        self, given: dict[str, str], cookie: str, *, address: str, before: list[str]
    ) -> tuple[str, SignedIn]:
        """Likewise, with what the provider sent somebody back with.

        Raises:
            Refusal: when it signs nobody in.
        """
        try:
            found = await self.oidc.end(given, cookie)
        except NotSignedIn as why:
            await self._counted(address, "")
            raise _failed(str(why)) from None
        return await self._begin(found.principal, found, before)

    async def _begin(
        self, principal: str, credential: "Credential | None", before: list[str]
    ) -> tuple[str, SignedIn]:
        return await to_thread.run_sync(self._begun, principal, credential, before)

    def _begun(
        self, principal: str, credential: "Credential | None", before: list[str]
    ) -> tuple[str, SignedIn]:
        with self._database.reading() as connection:
            _, since = since_of(connection, principal)
        value, session = sessions.begin(
            self._doors,
            principal,
            since=since,
            proof=sessions.proof_of(credential),
            hours=self._settings().serve.session_hours,
        )
        try:
            if not self.gatekeeper.holds(session):
                raise _failed(
                    "this person may do nothing here", "The owner gives roles: metier principals add"
                )
            how = credential.kind if credential is not None else "link"
            note_sign_in(self._database, principal, session=f"session:{session.id}", how=how)
        except BaseException:
            sessions.end(self._doors, session.id)
            raise
        for each in before:
            sessions.end_cookie(self._doors, each)
        return value, SignedIn(principal=principal, expires_at=written(session.expires_at))

    def _password_of(self, principal: str) -> "Credential | None":
        with self._database.reading() as connection:
            return credential_in(connection, "password", principal)

    async def _counted(self, address: str, account: str) -> float:
        at = await to_thread.run_sync(partial(limits.counted, self._doors, address=address, account=account))
        _not_too_often(at)
        return at


def _not_too_often(at: float) -> None:
    if at < 0:
        raise Refusal(
            429,
            "too_many_attempts",
            "signing in was tried too often",
            remedy="Wait, or let the owner sign in with a link from `metier sign-in`",
            retry_after=str(int(-at) + 1),
        )


def _failed(why: str, remedy: str = "Try it again from the page of this server, or ask its owner") -> Refusal:
    return Refusal(401, "sign_in_failed", why, remedy=remedy)
