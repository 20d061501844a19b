"""What a request must be before anybody looks at what it asks: for this server, from no foreign page, of one meaning and of a
bounded size. Exact values only; a browser that cannot say where it comes from is a foreign one.

| what | answer |
|---|---|
| another Host, or none, or two | 421, 400 |
| a target that is no plain path | 400 |
| both Content-Length and Transfer-Encoding | 400, and the connection ends |
| an Origin that is not ours; Sec-Fetch-Site of another site | 403 |
| a cookie of ours without a word that the page is ours, and no token | 403 |
| a body that is not JSON, is packed, or is too large | 415, 413 |
"""

import logging
import re
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

import anyio
from msgspec import Struct

from metier.doors.http.identity import PLAIN_COOKIE, SECURE_COOKIE, by_name
from metier.doors.http.problem import Refusal, problem
from metier.doors.http.room import Room, call_of
from metier.doors.http.wire import MOST_HEAD_BYTES

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BODY_BYTES: Final = 2_097_152
"""A call takes 1 MiB of arguments; what is around them needs some room too."""
MOST_HEADERS: Final = 100
_MOST_DIGITS: Final = 16
_COOKIES: Final = (PLAIN_COOKIE.encode(), SECURE_COOKIE.encode())
"""Found anywhere in a line of cookies: what could be read as one of ours by anybody is taken for one."""
DATA_POLICY: Final = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; sandbox"
_ALWAYS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=(), payment=()"),
)
_PATH: Final = re.compile(rb"(?:/[A-Za-z0-9._~!$&'()*+,=:@%-]*)+")
_ODD: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})|%2f|%5c|%2e|%00|//|/\.{1,2}(?:/|$)", re.IGNORECASE)
"""What another reader of the same path could take for another path."""
_JSON: Final = re.compile(rb"application/json(?: *; *charset=(?:utf-8|\"utf-8\"))?", re.IGNORECASE)
_BACK: Final = b"/api/v1/sign-in/oidc/callback"
"""The way back from a provider."""
_NO_PAGES: Final = (b"/api/", b"/mcp", b"/metrics")
"""Everything else is a page, which does nothing by being looked at: a link of another site may lead a person there."""
_FOR_ALL: Final = frozenset({b"/healthz", b"/readyz", b"/api/v1/openapi.json"})
"""Where everybody is told the same, whatever cookie comes along."""
_log: Final = logging.getLogger("metier.http")
Headers: TypeAlias = dict[bytes, list[bytes]]


@final
class Ours(Struct, frozen=True, kw_only=True):
    """Under which names this server is reached, exactly."""

    hosts: frozenset[bytes]
    """As a Host header has them: `127.0.0.1:8765`."""
    origins: frozenset[bytes]
    """As an Origin header has them: `http://127.0.0.1:8765`."""

    @classmethod
    def at(cls, address: str, port: int, origins: Iterable[str] = ()) -> "Ours":
        """What a server at this address is called, and what the operator says besides. An origin of his is a host too."""
        names = ["127.0.0.1", "localhost", "[::1]"]
        if address not in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "::"):  # noqa: S104  looked for, not listened at
            names.append(f"[{address}]" if ":" in address else address)
        places = [f"{name}:{port}" for name in names] + ([*names] if port == 80 else [])
        given = tuple(origins)
        return cls(
            hosts=frozenset(
                each.lower().encode() for each in (*places, *(o.partition("://")[2] for o in given))
            ),
            origins=frozenset(each.lower().encode() for each in (*(f"http://{p}" for p in places), *given)),
        )


@final
class Guard:
    """Stands before everything, the pages and other doors that are mounted included."""

    def __init__(self, app: "ASGIApp", ours: Callable[[], Ours], room: Room) -> None:
        self._app = app
        self._ours = ours
        self._room = room

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """One request."""
        if scope["type"] != "http":
            return
        said = _Answering(scope, send)
        try:
            _require_small(scope["headers"])
            headers = by_name(scope["headers"])
            self._admit(scope, headers)
            _admit_body(headers)
            with self._room.place(scope) as place:
                with place.within:
                    await self._app(scope, _bounded(receive), said.send)
                if place.within.cancelled_caught:
                    raise _ending(scope)
        except Refusal as refusal:
            await said.instead(refusal)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):  # else uvicorn answers, in words that are not ours
                await said.instead(_ending(scope))
            raise
        except Exception:  # noqa: BLE001  the door's last resort: one broken request is not the end of the others
            _log.exception("a request broke Metier: %s %s", scope["method"], scope["path"][:200])
            await said.instead(_broken())

    def _admit(self, scope: "Scope", headers: Headers) -> None:
        ours = self._ours()
        path: bytes = scope["raw_path"]
        if b"content-length" in headers and b"transfer-encoding" in headers:
            raise _unclear("two lengths were given for one body")
        hosts = headers.get(b"host", [])
        if len(hosts) != 1:
            raise _unclear("a request names one Host")
        if hosts[0].lower() not in ours.hosts:
            raise Refusal(
                421,
                "wrong_host",
                "this server is not called that",
                remedy="Use the address that `metier serve` printed, or name yours in [serve] origins of metier.toml",
            )
        if not _PATH.fullmatch(path) or _ODD.search(path):
            raise Refusal(
                400,
                "bad_request",
                "the path has characters that could mean another path",
                remedy="Write it plainly, without //, dot segments and escaped slashes",
            )
        self._same_site(scope["method"], path, headers, ours)

    def _same_site(self, method: str, path: bytes, headers: Headers, ours: Ours) -> None:
        origins = headers.get(b"origin", [])
        site = headers.get(b"sec-fetch-site", [])
        if any(each.lower() not in ours.origins for each in origins) or len(origins) > 1 or len(site) > 1:
            raise _foreign()
        if _navigated(method, path, headers):
            return
        if site and site[0] not in (b"same-origin", b"none"):
            raise _foreign()
        # Cookies do not know ports, so a page of another program on this machine has ours sent along.
        by_cookie = _by_cookie(headers) and path not in _FOR_ALL
        if by_cookie and not origins and site != [b"same-origin"]:
            raise _foreign()


def _navigated(method: str, path: bytes, headers: Headers) -> bool:
    """Whether a person was led here, to a place that does nothing by it."""
    return (
        method == "GET"
        and (path == _BACK or may_be_a_page(path))
        and headers.get(b"sec-fetch-mode") == [b"navigate"]
        and headers.get(b"sec-fetch-dest") == [b"document"]
    )


def may_be_a_page(path: bytes) -> bool:
    """Whether a page could be there, by its path."""
    return not path.startswith(_NO_PAGES)


def _by_cookie(headers: Headers) -> bool:
    """Whether a cookie could mean somebody here. Where a token is shown none is looked at, and those of other programs on this
    machine mean nobody.
    """
    if b"authorization" in headers:
        return False
    return any(name in line for line in headers.get(b"cookie", []) for name in _COOKIES)


def _ending(scope: "Scope") -> Refusal:
    return Refusal(
        503,
        "ending",
        "this server ends, and what was asked for was cut off",
        remedy="The record has what began, as interrupted: look there before you ask for it again",
        call_id=call_of(scope),
        connection="close",
    )


def _broken() -> Refusal:
    return Refusal(
        500,
        "internal",
        "a fault of Metier",
        remedy="The log of the server has the details; please report it",
    )


def _unclear(why: str) -> Refusal:
    """What two readers could read differently is read by none."""
    remedy = "Send each header once, and one plain length; a proxy in between may be what changed it"
    return Refusal(400, "bad_request", why, remedy=remedy, connection="close")


def _foreign() -> Refusal:
    return Refusal(
        403,
        "foreign_page",
        "this came from a page that is not ours, or from one that does not say so",
        remedy="Ask from the page of this server, or send a token: a cookie counts only with the word of a browser that the page is ours",
    )


def _admit_body(headers: Headers) -> None:
    length = headers.get(b"content-length", [b"0"])
    if len(length) != 1 or not length[0].isdigit():
        raise _unclear("the length of the body is no number")
    if len(length[0]) > _MOST_DIGITS:  # every reader of it must find the same number
        raise _unclear("the length of the body has too many digits")
    if int(length[0]) > MOST_BODY_BYTES:
        raise _too_large()
    if int(length[0]) == 0 and b"transfer-encoding" not in headers:
        return
    if headers.get(b"content-encoding", [b"identity"]) != [b"identity"]:
        raise Refusal(
            415,
            "unsupported_media_type",
            "the body is packed",
            remedy="Send it as it is, without Content-Encoding",
            connection="close",
        )
    kinds = headers.get(b"content-type", [])
    if len(kinds) != 1 or not _JSON.fullmatch(kinds[0].strip()):
        raise Refusal(
            415,
            "unsupported_media_type",
            "a body here is application/json",
            remedy="Say so in Content-Type",
            connection="close",
        )


def _too_large() -> Refusal:
    return Refusal(
        413,
        "too_large",
        f"at most {MOST_BODY_BYTES:,} bytes",
        remedy="Send it in parts",
        connection="close",
    )


def _bounded(receive: "Receive") -> "Receive":
    """The same, up to so many bytes: a body that comes in chunks does not say how long it is."""
    left = MOST_BODY_BYTES

    async def bounded() -> "Message":
        nonlocal left
        message = await receive()
        left -= len(message.get("body", b""))
        if left < 0:
            raise _too_large()
        return message

    return bounded


def _require_small(headers: list[tuple[bytes, bytes]]) -> None:
    """A head that comes all at once is not measured by who parses it."""
    size = sum(len(name) + len(value) for name, value in headers)
    if size > MOST_HEAD_BYTES or len(headers) > MOST_HEADERS:
        raise Refusal(
            431,
            "head_too_large",
            f"at most {MOST_HEADERS} headers, and {MOST_HEAD_BYTES:,} bytes of them",
            remedy="Send fewer; in a browser, cookies of other programs on this machine may be the reason",
            connection="close",
        )


@final
class _Answering:
    """Adds the headers that every answer has."""

    def __init__(self, scope: "Scope", send: "Callable[[Any], Awaitable[None]]") -> None:
        self._scope = scope
        self._send = send
        self._begun = False

    async def send(self, message: "Message") -> None:
        if message["type"] == "http.response.start":
            self._begun = True
            headers: list[tuple[bytes, bytes]] = list(message.get("headers", []))
            given = {name.lower() for name, _ in headers}
            more = [
                *_ALWAYS,
                (b"content-security-policy", DATA_POLICY.encode()),
                (b"cache-control", b"no-store"),
            ]
            headers += [each for each in more if each[0] not in given]
            message = {**message, "headers": headers}
        await self._send(message)

    async def instead(self, refusal: Refusal) -> None:
        """Answer with a problem, where nothing was answered yet; else the connection ends in the middle, and says so by that."""
        if self._begun:
            raise ConnectionAbortedError("an answer broke off")
        await problem(refusal)(self._scope, _nothing, self.send)


async def _nothing() -> "Message":
    return {"type": "http.disconnect"}
