"""The requests that nobody has to be signed in for, because they sign somebody in. All but the way back from a provider come from a
page of ours, or nobody is signed in by them: a page of somebody else's must not sign a person in as another.
"""

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal, TypeVar

import anyio
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from metier.doors.http.bodies import decoded
from metier.doors.http.console.looks import not_signed_in
from metier.doors.http.described import Described
from metier.doors.http.endpoint import NO_STORE, as_json
from metier.doors.http.failures import Failures
from metier.doors.http.identity import (
    PLAIN_COOKIE,
    SECURE_COOKIE,
    by_name,
    cookie_in,
    cookie_name,
    cookies_in,
    own_page,
)
from metier.doors.http.oidc import SECONDS as OIDC_SECONDS
from metier.doors.http.oidc import Oidc
from metier.doors.http.problem import Refusal, of_error, problem
from metier.doors.http.routing import Answering, only
from metier.doors.http.sign_in import SignedIn, SignIn
from metier.doors.http.sign_in_asked import (
    BACK,
    LINK,
    PASSWORD,
    START,
    WAYS,
    Link,
    NameAndPassword,
    Start,
    There,
    Ways,
)
from metier.errors import MetierError
from metier.host.secrets import Secrets
from metier.model.instant import seconds_of
from metier.model.text import one_line

if TYPE_CHECKING:
    from metier.doors.http.identity import Gatekeeper
    from metier.runtime.engine import Engine

_MOST: Final = 8_192
BODY_SECONDS: Final = 10.0
"""For what nobody has to be signed in to send."""
_FAILED: Final = frozenset({"sign_in_failed", "too_many_attempts", "provider_unavailable"})
_log: Final = logging.getLogger("metier.http")
_T = TypeVar("_T")


def sign_in_routes(
    engine: "Engine", gatekeeper: "Gatekeeper", origins: Callable[[], frozenset[bytes]]
) -> list[Route]:
    """The routes of a server over `engine`; the rest as for `routes`."""

    def reveal(name: str) -> str | None:
        settings = engine.seen.settings
        return Secrets(settings.secrets, settings.home).reveal(name)

    database, doors = engine.state.database, gatekeeper.doors
    oidc = Oidc(
        doors=doors, database=database, settings=lambda: engine.seen.settings.serve.oidc, reveal=reveal
    )
    signing = SignIn(
        gatekeeper=gatekeeper,
        doors=doors,
        database=database,
        settings=lambda: engine.seen.settings,
        oidc=oidc,
    )
    return routes(signing, origins)


def routes(sign_in: SignIn, origins: Callable[[], frozenset[bytes]]) -> list[Route]:
    """The routes, for the server to mount. `origins`: under which it is reached, exactly, as an Origin header has them."""

    async def link(request: Request) -> Response:
        given = await _body(request, Link, origins())
        value, made = await sign_in.by_link(given.token, address=_address(request), before=_before(request))
        return _signed_in(request, value, made)

    async def password(request: Request) -> Response:
        given = await _body(request, NameAndPassword, origins())
        value, made = await sign_in.by_password(
            given.id, given.password, address=_address(request), before=_before(request)
        )
        return _signed_in(request, value, made)

    async def start(request: Request) -> Response:
        await _body(request, Start, origins())
        origin = by_name(request.headers).get(b"origin", [])
        if not origin:
            raise Refusal(
                400,
                "bad_request",
                "a browser says where it is, in Origin, and this did not",
                remedy="Begin at the page of this server",
            )
        begun = await sign_in.to_provider(origin[0].decode("latin-1"), address=_address(request))
        name = _flow(_cookie(request))
        made = as_json(There(url=begun.url), headers=NO_STORE)
        # Lax: the provider sends the browser back from its own site, and a Strict one would stay behind.
        made.headers.append("set-cookie", _set(name, begun.cookie, OIDC_SECONDS, "Lax"))
        return made

    async def callback(request: Request) -> Response:
        given = request.query_params.multi_items()
        flow = _flow(_cookie(request))
        if len(given) != len(dict(given)) or sum(len(value) for _, value in given) > _MOST:
            raise Refusal(
                400,
                "bad_request",
                "the provider's answer cannot be read",
                remedy="Begin again at the page of this server",
            )
        value, made = await sign_in.by_oidc(
            dict(given),
            cookie_in(by_name(request.headers), flow),
            address=_address(request),
            before=_before(request),
        )
        answer = Response(status_code=303, headers={"location": "/", **NO_STORE})
        answer.headers.append(
            "set-cookie", _set(_cookie(request), value, seconds_of(made.expires_at) - time.time(), "Strict")
        )
        answer.headers.append("set-cookie", _set(flow, "", 0, "Lax"))
        return answer

    async def ways(_request: Request) -> Response:
        there: list[Literal["oidc"]] = ["oidc"] if sign_in.oidc.there_is_one else []
        return as_json(Ways(ways=["link", "password", *there]), headers=NO_STORE)

    def _before(request: Request) -> list[str]:
        return cookies_in(by_name(request.headers), _cookie(request))

    def _cookie(request: Request) -> str:
        return cookie_name(by_name(request.headers), origins())

    def _signed_in(request: Request, value: str, made: SignedIn) -> Response:
        answer = as_json(made, headers=NO_STORE)
        answer.headers.append(
            "set-cookie", _set(_cookie(request), value, seconds_of(made.expires_at) - time.time(), "Strict")
        )
        return answer

    failures = Failures()
    return [
        _route(LINK, link, failures),
        _route(PASSWORD, password, failures),
        _route(START, start, failures),
        _route(BACK, callback, failures),
        _route(WAYS, ways, failures),
    ]


def signed_out(cookie: str) -> Response:
    """The answer that takes the cookie away."""
    answer = Response(status_code=204, headers=NO_STORE)
    answer.headers.append("set-cookie", _set(cookie, "", 0, "Strict"))
    return answer


def _route(described: Described, does: Answering, failures: Failures) -> Route:
    """One method and no other: what signs somebody in does so for no HEAD."""

    async def ask(request: Request) -> Response:
        try:
            return await does(request)
        except Refusal as refusal:
            if refusal.problem.code in _FAILED:
                failures.say(described.path, _address(request), refusal.problem.detail)
            if described.shown and "text/html" in request.headers.get("accept", ""):
                return not_signed_in(refusal)  # a provider sent his browser here, and no page of ours asked
            return problem(refusal)
        except MetierError as error:
            _log.warning("signing in: %s", one_line(str(error), 500))
            return problem(of_error(error))
        except ClientDisconnect:
            return Response(status_code=400)  # nobody is there to read it

    return only(described.path, ask, (described.method,))


async def _body(request: Request, shape: type[_T], origins: frozenset[bytes]) -> _T:
    """Nothing that was sent is repeated in what is wrong with it: it may be a password."""
    if not own_page(by_name(request.headers), origins):
        raise Refusal(
            403,
            "foreign_page",
            "people sign in from a page of this server",
            remedy="Open the address that `metier serve` printed; programs use a token and need not sign in",
        )
    return decoded(await _read(request), shape, repeated=False)


def _flow(cookie: str) -> str:
    """What the cookie is called by which the browser is known again that went to the provider."""
    if cookie == SECURE_COOKIE:
        return f"{SECURE_COOKIE}-oidc"
    return f"metier_oidc{cookie.removeprefix(PLAIN_COOKIE)}"


async def _read(request: Request) -> bytes:
    """As much as there may be, and no longer than that may take: nobody knows yet who sends it."""
    if int(request.headers.get("content-length", "0")) > _MOST:  # digits: the guard looked
        raise _too_large()
    data = bytearray()
    try:
        with anyio.fail_after(BODY_SECONDS):
            async for piece in request.stream():
                data += piece
                if len(data) > _MOST:
                    raise _too_large()
    except TimeoutError:
        raise Refusal(
            408,
            "too_slow",
            f"the body did not come within {BODY_SECONDS:g} seconds",
            remedy="Send it at once",
            connection="close",
        ) from None
    return bytes(data)


def _too_large() -> Refusal:
    return Refusal(
        413, "too_large", f"at most {_MOST} bytes", remedy="Nothing here needs more", connection="close"
    )


def _address(request: Request) -> str:
    """Of the other end of the connection. What a header says about it is anybody's word."""
    return request.client.host if request.client is not None else ""


def _set(name: str, value: str, seconds: float, same_site: str) -> str:
    secure = "; Secure" if name.startswith("__Host-") else ""
    return f"{name}={value}; Path=/; Max-Age={max(0, int(seconds))}; HttpOnly; SameSite={same_site}{secure}"
