"""Who makes a request: found out from a token or a session, never from what a client says of itself.

`Authorization: Bearer metier_…` is a program with a token; where there is one, nothing else counts. A cookie is a person in a browser,
and then the request has to come from a page of ours: cookies know no ports, and go along with whatever another page asks for.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, final

from anyio import CapacityLimiter, to_thread
from msgspec import Struct
from starlette.datastructures import Headers

from metier.catalog.here import owner
from metier.doors.http import sessions
from metier.doors.http.problem import Refusal
from metier.gate.principals import by_token, rebuilt, standing, token_problem
from metier.model.call import Principal
from metier.record.registered import since_of
from metier.record.steering import NO_STEERING, Steering, steering_in
from metier.record.turn import Busy
from metier.runtime.one_look import OneLook

if TYPE_CHECKING:
    from metier.config.settings import Settings
    from metier.record.database import Database
    from metier.record.doors_db import DoorsDb

RawHeaders: TypeAlias = Headers | Iterable[tuple[bytes, bytes]]
SECURE_COOKIE: Final = "__Host-metier"
"""Where a browser speaks https: the prefix keeps other hosts and plain http from setting it."""
PLAIN_COOKIE: Final = "metier_session"
_LONGEST: Final = 256
"""Of a token or a session as it is shown."""
_MOST_COOKIES: Final = 16
"""Of one name. A browser sends one for each folder of the address, if somebody set that many."""


@final
class Identity(Struct, frozen=True, kw_only=True):
    """Who makes a request. Made only here."""

    principal: Principal
    by: Literal["session", "token"]
    ref: str
    """Id of the session or token. It lets nobody in."""
    expires_at: float
    """In seconds, as the clock on the wall counts them."""

    @property
    def session(self) -> str:
        """What he asks belongs to it: the token or session he came with, and no other of his."""
        return f"{self.by}:{self.ref}"


@final
class Gatekeeper:
    """Knows who comes. One for each server."""

    def __init__(
        self,
        *,
        database: "Database",
        doors: "DoorsDb",
        settings: "Callable[[], Settings]",
        origins: Callable[[], frozenset[bytes]],
    ) -> None:
        """`origins`: under which this server is reached, exactly, as an Origin header has them."""
        self._database = database
        self.doors: Final = doors
        self._settings = settings
        self._origins = origins
        self._steering: Steering = NO_STEERING
        self._at: int | None = None
        self._limiter = CapacityLimiter(4)
        """Threads for looking, which nobody else can use up."""
        self._one_look = OneLook(self._look_again)
        self.owner: Final = owner()

    async def who(self, headers: RawHeaders, method: str = "GET") -> Identity:
        """Who makes a request with these headers, as they came: the list of a scope, or what starlette makes of it.

        Raises:
            Refusal: 401 where nobody does, 403 where a page of somebody else's does in a person's name.
            StateError: when it cannot be looked up.
        """
        found = by_name(headers)
        if shown := found.get(b"authorization"):
            return await self._by_token(shown)
        shown_here = cookies_in(found, cookie_name(found, self._origins()))
        if not shown_here:
            raise _nobody("nobody signed in", "Sign in, or send a token as `Authorization: Bearer metier_…`")
        if not own_page(found, self._origins()):
            raise Refusal(
                403,
                "foreign_page",
                "a page of somebody else's asked in your name",
                remedy="Use the page that this server shows; programs send a token instead of a cookie",
            )
        used = by_hand(found, method)
        identity = await to_thread.run_sync(self._by_session, shown_here, used, limiter=self._limiter)
        if identity is None:
            raise _nobody("the session is over", "Sign in again")
        return identity

    async def person(self, headers: RawHeaders) -> Identity | None:
        """Who looks at a page: a person with a session, or nobody. A page does nothing, so who led him there does not matter.

        Raises:
            StateError: when it cannot be looked up.
        """
        found = by_name(headers)
        shown = cookies_in(found, cookie_name(found, self._origins()))
        used = by_hand(found, "GET")
        return (
            await to_thread.run_sync(self._by_session, shown, used, limiter=self._limiter) if shown else None
        )

    def still(self, identity: Identity) -> bool:
        """Whether he could still come so. For streams, and whatever else takes longer than a moment. Blocking.

        Raises:
            StateError: when it cannot be looked up.
        """
        if identity.by == "session":
            session = sessions.of_id(self.doors, identity.ref, idle=self._idle)
            return session is not None and session.principal == identity.principal.id and self.holds(session)
        steering = self._look(wait=True)
        if token_problem(identity.principal, steering.tokens):
            return False
        return not standing(identity.principal, steering.principals, self.owner).problem

    async def rights(self, identity: Identity) -> frozenset[str]:
        """What he may do today, bounded by the scopes of his token."""
        steering = await self.steering()
        principal = identity.principal
        if principal.token and token_problem(principal, steering.tokens):
            return frozenset()
        return standing(principal, steering.principals, self.owner).rights

    async def steering(self) -> Steering:
        """What operators decided, as of now."""
        try:
            return self._look(wait=False)
        except Busy:
            return await self._one_look()

    async def _look_again(self) -> Steering:
        return await to_thread.run_sync(partial(self._look, wait=True), limiter=self._limiter)

    def cookie_for(self, headers: dict[bytes, list[bytes]]) -> str:
        """What the session's cookie is called where a request with these headers was sent to."""
        return cookie_name(headers, self._origins())

    @property
    def _idle(self) -> float:
        return self._settings().serve.idle_minutes * 60

    def _look(self, *, wait: bool) -> Steering:
        database = self._database
        with database.glance(wait=wait):
            if database.version == self._at:
                return self._steering
        with database.reading(wait=wait) as connection:
            self._steering, self._at = steering_in(connection), database.version
            return self._steering

    async def _by_token(self, shown: list[bytes]) -> Identity:
        scheme, _, text = shown[0].decode("latin-1").partition(" ")
        if len(shown) != 1 or scheme.lower() != "bearer" or len(text) > _LONGEST:
            raise _nobody("that is no token", "Send one token, as `Authorization: Bearer metier_…`")
        steering = await self.steering()
        principal = by_token(text, steering.tokens, steering.principals, self.owner)
        if principal is None:
            raise _nobody("this token lets nobody in", "`metier tokens list` shows those that do")
        return Identity(
            principal=principal,
            by="token",
            ref=principal.token,
            expires_at=float(steering.tokens[principal.token].expires_at),
        )

    def _by_session(self, shown: list[str], used: bool) -> Identity | None:
        """Cookies know no ports, so another program on this machine can add some that stand for nobody. What is signed in by one of ours goes
        on; where two of them sign in nobody can say who he is."""
        found: list[Identity] = []
        for value in shown:
            session = sessions.of_cookie(self.doors, value, idle=self._idle, used=used)
            if session is None or not self.holds(session):
                continue
            principal = rebuilt(session.principal, "", self._look(wait=True).principals, self.owner)
            if not isinstance(principal, str):
                found.append(
                    Identity(principal=principal, by="session", ref=session.id, expires_at=session.expires_at)
                )
        return found[0] if len(found) == 1 else None

    def holds(self, session: sessions.Session) -> bool:
        """Whether the person is the same, may still come, and could come in again by what he came in by. Blocking."""
        with self._database.reading() as connection:
            registered, since = since_of(connection, session.principal)
            proven = sessions.proof_holds(connection, session.proof, session.principal)
        me = session.principal == self.owner
        if (
            not proven
            or since != session.since
            or not (registered or me)
            or (session.proof == "link" and not me)
        ):
            return False
        person = Principal(id=session.principal, kind="human")
        return not standing(person, self._look(wait=True).principals, self.owner).problem


def own_page(headers: dict[bytes, list[bytes]], origins: frozenset[bytes]) -> bool:
    """Whether a page of ours asks, and a browser says so."""
    site, origin = headers.get(b"sec-fetch-site", []), headers.get(b"origin", [])
    if len(site) > 1 or len(origin) > 1 or any(each not in origins for each in origin):
        return False
    return site == [b"same-origin"] if site else bool(origin)


def cookie_name(headers: dict[bytes, list[bytes]], origins: frozenset[bytes]) -> str:
    """What the cookie is called where this request was sent to: under https only one that nobody else can have set, else one with
    the port in its name. Cookies know no ports, and two servers on one machine would sign each other's people out."""
    host = headers.get(b"host", [b""])[0].lower()
    if b"https://" + host in origins:
        return SECURE_COOKIE
    port = host.rpartition(b":")[2]
    return f"{PLAIN_COOKIE}_{port.decode()}" if port != host and port.isdigit() else PLAIN_COOKIE


def by_hand(headers: dict[bytes, list[bytes]], method: str) -> bool:
    """Whether a person is there, as far as a request tells: he went to a page, or did something. What an open page looks up by itself keeps
    nobody signed in, or whoever makes things happen would."""
    if method not in ("GET", "HEAD"):
        return True
    if b"hx-request" in headers or b"text/event-stream" in headers.get(b"accept", []):
        return False
    return headers.get(b"sec-fetch-mode", [b"navigate"]) == [b"navigate"]  # an old browser does not say


def cookies_in(headers: dict[bytes, list[bytes]], name: str) -> list[str]:
    """The values of a cookie, each once; none where there are more than anybody has."""
    found: dict[bytes, None] = {}
    for line in headers.get(b"cookie", []):
        for part in line.split(b";"):
            said, equals, value = part.strip().partition(b"=")
            if equals and said == name.encode():
                found[value] = None
    if len(found) > _MOST_COOKIES:
        return []
    return [each.decode("latin-1") for each in found if len(each) <= _LONGEST]


def cookie_in(headers: dict[bytes, list[bytes]], name: str) -> str:
    """The value of a cookie; empty where there is none, or more than one."""
    found = cookies_in(headers, name)
    return found[0] if len(found) == 1 else ""


def by_name(headers: RawHeaders) -> dict[bytes, list[bytes]]:
    """Every line of each header."""
    found: dict[bytes, list[bytes]] = {}
    for name, value in headers.raw if isinstance(headers, Headers) else headers:
        found.setdefault(name.lower(), []).append(value.strip())
    return found


def _nobody(why: str, remedy: str) -> Refusal:
    return Refusal(401, "unauthenticated", why, remedy=remedy, WWW_Authenticate="Bearer")
