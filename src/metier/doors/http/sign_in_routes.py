"""The requests that nobody has to be signed in for, because they sign somebody in. All but the way back from a provider come from a
page of ours, or nobody is signed in by them: a page of somebody else's must not sign a person in as another.
"""

import logging
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias, TypeVar, final

import anyio
import msgspec
from msgspec import Meta, Struct
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from metier.doors.http.failures import Failures
from metier.doors.http.identity import PLAIN_COOKIE, SECURE_COOKIE, by_name, cookie_in, cookie_name, own_page
from metier.doors.http.oidc import CALLBACK, Oidc
from metier.doors.http.oidc import SECONDS as OIDC_SECONDS
from metier.doors.http.page import refused_page
from metier.doors.http.problem import Refusal, of_error, problem
from metier.doors.http.sign_in import SignedIn, SignIn
from metier.errors import MetierError
from metier.host.secrets import Secrets
from metier.model import strictjson
from metier.model.text import one_line

if TYPE_CHECKING:
    from metier.doors.http.identity import Gatekeeper
    from metier.runtime.engine import Engine

LINK: Final = "/api/v1/sign-in/link"
PASSWORD: Final = "/api/v1/sign-in/password"  # noqa: S105  a path
START: Final = "/api/v1/sign-in/oidc/start"
WAYS: Final = "/api/v1/sign-in"
_MOST: Final = 8_192
BODY_SECONDS: Final = 10.0
"""For what nobody has to be signed in to send."""
_FAILED: Final = frozenset({"sign_in_failed", "too_many_attempts", "provider_unavailable"})
_log: Final = logging.getLogger("metier.http")
_T = TypeVar("_T")
_Answering: TypeAlias = Callable[[Request], Awaitable[Response]]


@final
class _Link(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    token: Annotated[str, Meta(min_length=1, max_length=128)]


@final
class _Password(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(min_length=1, max_length=200)]
    password: Annotated[str, Meta(min_length=1, max_length=1_024)]


@final
class _Nothing(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


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
        given = await _body(request, _Link, origins())
        value, made = await sign_in.by_link(given.token, address=_address(request), before=_before(request))
        return _signed_in(request, value, made)

    async def password(request: Request) -> Response:
        given = await _body(request, _Password, origins())
        value, made = await sign_in.by_password(
            given.id, given.password, address=_address(request), before=_before(request)
        )
        return _signed_in(request, value, made)

    async def start(request: Request) -> Response:
        await _body(request, _Nothing, origins())
        origin = by_name(request.headers).get(b"origin", [])
        if not origin:
            raise Refusal(400, "bad_request", "a browser says where it is, in Origin, and this did not")
        begun = await sign_in.to_provider(origin[0].decode("latin-1"), address=_address(request))
        name = _flow(_cookie(request))
        made = _json({"url": begun.url})
        # Lax: the provider sends the browser back from its own site, and a Strict one would stay behind.
        made.headers.append("set-cookie", _set(name, begun.cookie, OIDC_SECONDS, "Lax"))
        return made

    async def callback(request: Request) -> Response:
        given = request.query_params.multi_items()
        flow = _flow(_cookie(request))
        if len(given) != len(dict(given)) or sum(len(value) for _, value in given) > _MOST:
            raise Refusal(400, "bad_request", "the provider's answer cannot be read")
        value, made = await sign_in.by_oidc(
            dict(given),
            cookie_in(by_name(request.headers), flow),
            address=_address(request),
            before=_before(request),
        )
        answer = Response(status_code=303, headers={"location": "/", "cache-control": "no-store"})
        answer.headers.append(
            "set-cookie", _set(_cookie(request), value, made.expires_at - time.time(), "Strict")
        )
        answer.headers.append("set-cookie", _set(flow, "", 0, "Lax"))
        return answer

    async def ways(_request: Request) -> Response:
        return _json({"ways": ["link", "password", *(["oidc"] if sign_in.oidc.there_is_one else [])]})

    def _before(request: Request) -> str:
        return cookie_in(by_name(request.headers), _cookie(request))

    def _cookie(request: Request) -> str:
        return cookie_name(by_name(request.headers), origins())

    def _signed_in(request: Request, value: str, made: SignedIn) -> Response:
        answer = _json(made)
        answer.headers.append(
            "set-cookie", _set(_cookie(request), value, made.expires_at - time.time(), "Strict")
        )
        return answer

    failures = Failures()
    return [
        _route(LINK, "POST", link, failures),
        _route(PASSWORD, "POST", password, failures),
        _route(START, "POST", start, failures),
        _route(CALLBACK, "GET", callback, failures),
        _route(WAYS, "GET", ways, failures),
    ]


def signed_out(cookie: str) -> Response:
    """The answer that takes the cookie away."""
    answer = Response(status_code=204, headers={"cache-control": "no-store"})
    answer.headers.append("set-cookie", _set(cookie, "", 0, "Strict"))
    return answer


def _route(path: str, method: str, does: _Answering, failures: Failures) -> Route:
    """One method and no other: what signs somebody in does so for no HEAD."""

    async def ask(request: Request) -> Response:
        try:
            if request.method != method:
                raise Refusal(405, "method_not_allowed", f"here there is {method}", allow=method)
            return await does(request)
        except Refusal as refusal:
            if refusal.problem.code in _FAILED:
                failures.say(path, _address(request), refusal.problem.detail)
            if path == CALLBACK and "text/html" in request.headers.get("accept", ""):
                return refused_page(refusal)  # a provider sent his browser here, and no page of ours asked
            return problem(refusal)
        except MetierError as error:
            _log.warning("signing in: %s", one_line(str(error), 500))
            return problem(of_error(error))
        except ClientDisconnect:
            return Response(status_code=400)  # nobody is there to read it

    made = Route(path, ask)
    made.methods = set()  # every method comes here, to be told so in our own words
    return made


async def _body(request: Request, shape: type[_T], origins: frozenset[bytes]) -> _T:
    """Nothing that was sent is repeated in what is wrong with it: it may be a password."""
    if not own_page(by_name(request.headers), origins):
        raise Refusal(
            403,
            "foreign_page",
            "people sign in from a page of this server",
            remedy="Open the address that `metier serve` printed; programs use a token and need not sign in",
        )
    data = await _read(request)
    try:
        return msgspec.convert(strictjson.loads(data, most=_MOST), shape)
    except msgspec.ValidationError:
        raise Refusal(422, "invalid_body", "the body is not of the form that is asked for") from None
    except ValueError:
        raise Refusal(400, "bad_request", "the body is not strict JSON") from None


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
            408, "too_slow", f"the body did not come within {BODY_SECONDS:g} seconds", connection="close"
        ) from None
    return bytes(data)


def _too_large() -> Refusal:
    return Refusal(413, "too_large", f"at most {_MOST} bytes", connection="close")


def _address(request: Request) -> str:
    """Of the other end of the connection. What a header says about it is anybody's word."""
    return request.client.host if request.client is not None else ""


def _set(name: str, value: str, seconds: float, same_site: str) -> str:
    secure = "; Secure" if name.startswith("__Host-") else ""
    return f"{name}={value}; Path=/; Max-Age={max(0, int(seconds))}; HttpOnly; SameSite={same_site}{secure}"


def _json(value: object) -> Response:
    return Response(
        msgspec.json.encode(value), media_type="application/json", headers={"cache-control": "no-store"}
    )
