"""The one way out for a skill: granted hosts, public addresses, bounded sizes and times, masked secrets.

An `Egress` is made for one call and closed with it. Each request ends as a value: an `Answer`, a `Denied`, a
`Violation` or a `Failed`; nothing that a skill, a server or a name server does raises. There is no argument that
switches a check off. Environment variables for proxies, netrc files and cookies play no part.
"""

import time
from collections.abc import Callable, Mapping
from random import SystemRandom
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, Protocol, Self, TypeVar, final

import anyio
from anyio import to_thread
from msgspec.structs import replace

from metier.sandbox.address import why_closed, why_closed_name
from metier.sandbox.egress_limits import EgressLimits
from metier.sandbox.grants import read_grants
from metier.sandbox.headers import METHODS, REPEATABLE, WEBDAV, Lines, check_lines, fit_value
from metier.sandbox.hop import Hop, location, next_hop
from metier.sandbox.own_origin import read_own, resolver_of, why_not
from metier.sandbox.reply import Answer, Denied, Failed, Reply, Violation
from metier.sandbox.secret import SHORTEST, Mask, SecretRef
from metier.sandbox.url import BadUrl, Url, read_url

if TYPE_CHECKING:
    from metier.sandbox.exchange import Exchange
    from metier.sandbox.pinned import Connect, Pins, Raw, Resolver

_IN_PIECES: Final = frozenset({"range", "if-range"})
_WORTH_ANOTHER_TRY: Final = frozenset({502, 503, 504})
_LARGE: Final = 65_536
"""A body beyond this is looked through in a thread: everybody else's calls are on the loop."""
_NOTHING_SENT: Final = frozenset({"lookup_failed", "connect_failed"})
_MAYBE_SENT: Final = frozenset({"disconnected"})
_RANDOM: Final = SystemRandom()
_T = TypeVar("_T")


def _no_secrets(_name: str) -> str | None:
    return None


class MakeEgress(Protocol):
    """How the Egress of a call is made; `Egress` itself is one."""

    def __call__(
        self,
        *,
        hosts: frozenset[str],
        limits: EgressLimits,
        reveal: Callable[[str], str | None],
        secrets: frozenset[str] = frozenset(),
    ) -> "Egress": ...


@final
class Egress:
    """`async with Egress(hosts=…) as egress: reply = await egress.request("GET", "https://…")`."""

    def __init__(
        self,
        *,
        hosts: frozenset[str],
        denied: frozenset[str] = frozenset(),
        own: str = "",
        limits: EgressLimits | None = None,
        reveal: Callable[[str], str | None] = _no_secrets,
        secrets: frozenset[str] = frozenset(),
        extra_roots: str = "",
        resolver: "Resolver | None" = None,
        connect: "Connect | None" = None,
    ) -> None:
        """`hosts` are grants as `metier.sandbox.grants` reads them; one that cannot be read is a ConfigError.

        `own` is the one origin of an Egress that Metier uses itself and no skill does (`metier.sandbox.own_origin`): it has
        no grants beside it, and redirects are not followed.

        `reveal` gives the value of a secret this skill may use, by name, or None. `secrets` names those that were
        granted: they are masked from the first answer on, whether they were sent or not. `connect` is for the tests of
        this room, which have no public server: it says where an address is dialled after it passed every check.
        """
        if own and hosts:
            raise ValueError("what Metier asks for itself and what a skill was granted are two Egresses")
        self._own = read_own(own) if own else None
        self._grants = read_grants(hosts, denied)
        self._limits = limits or EgressLimits()
        self._reveal = reveal
        self._to_learn = secrets
        self._guarded = bool(secrets)
        self._extra_roots = extra_roots
        self._resolver = resolver
        self._connect: Connect | None = connect
        self._mask = Mask()
        self._open: tuple[Pins, Exchange] | None = None
        self._heard = False

    async def __aenter__(self) -> Self:
        # Only who really goes out pays for the HTTP library.
        from metier.sandbox.exchange import Exchange
        from metier.sandbox.pinned import Pins, system_resolver

        resolver, seconds = self._resolver or system_resolver, self._limits.connect_seconds
        if self._own is None:
            pins = Pins(resolver, seconds=seconds)
        else:
            pins = Pins(resolver_of(self._own, resolver), seconds=seconds, why=why_not(self._own))
        exchange = Exchange(pins, self._limits, extra_roots=self._extra_roots, connect=self._connect)
        self._open = (pins, exchange)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._open is not None:
            _, exchange = self._open
            self._open = None
            with anyio.CancelScope(shield=True):
                await exchange.close()

    @property
    def limits(self) -> EgressLimits:
        """How much one request may cost."""
        return self._limits

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        secrets: Mapping[str, SecretRef] | None = None,
        follow: bool = True,
    ) -> Reply:
        """Send one request, follow its redirects, and say how it ended.

        `secrets` are header lines whose values are put in on the way out; they go over https only. Without
        `follow` a redirect is an answer like any other, for those who ask again themselves.
        """
        began = time.monotonic()
        self._learn()
        reply: Reply = Failed(
            code="timed_out",
            message=f"It took longer than {self._limits.total_seconds:g} seconds altogether",
        )
        with anyio.move_on_after(self._limits.total_seconds):
            hop = self._blamed(self._prepare(method, url, headers or {}, body, secrets or {}))
            made = await self._follow(hop, follow=follow) if isinstance(hop, Hop) else hop
            self._heard = self._heard or isinstance(made, Answer)
            reply = await self._handed_on(made)
        if isinstance(reply, Answer):
            reply = replace(reply, timing=replace(reply.timing, total=time.monotonic() - began))
        return reply

    async def connect(self, place: str) -> "Raw | Denied | Violation | Failed":
        """A plain connection to `host:port`, judged as a request to `https://host:port/` would be.

        It is for a program that speaks TLS to the other end itself. Whoever asks for it closes it.
        """
        url = self._own_url(f"https://{place}/") or self._blamed(self._admit(f"https://{place}/", "request"))
        if not isinstance(url, Url):
            return url
        if not place.endswith(f":{url.port}") or not set("/?#").isdisjoint(place):
            return _invalid(f"{place[:200]!r} is not of the form host:port")
        if self._open is None:
            raise RuntimeError("an Egress is used inside `async with`")
        pins, exchange = self._open
        pinned = await pins.pin(url)
        if isinstance(pinned, Violation | Failed):
            return pinned
        raw = await exchange.connect(url)
        self._heard = self._heard or not isinstance(raw, Failed)
        return raw

    def _blamed(self, judged: _T) -> "_T | Violation":
        """Once a server has answered, a closed place may be what it named: in a redirect that a program follows by
        itself, in a link on a page. Then it is not the skill that is to blame."""
        if isinstance(judged, Violation) and judged.cause == "request" and self._heard:
            return replace(judged, cause="answer")
        return judged

    def _prepare(
        self,
        method: str,
        text: str,
        headers: Mapping[str, str],
        body: bytes,
        secrets: Mapping[str, SecretRef],
    ) -> Hop | Reply:
        if (secrets or self._guarded) and _IN_PIECES & {name.lower() for name in headers}:
            return _invalid(
                "who was granted a secret may not ask for the answer in pieces: no mask would fit them"
            )
        url = self._own_url(text) or self._admit(text, "request")
        if not isinstance(url, Url):
            return url
        if method not in METHODS and (self._own is None or method not in WEBDAV):
            return _invalid(f"{method[:32]!r} is not one of {', '.join(sorted(METHODS))}")
        problem = check_lines(headers, secrets, self._limits)
        if problem is not None:
            return _invalid(problem)
        if len(body) > self._limits.upload_bytes:
            return Failed(
                code="too_large",
                message=f"The body has {len(body)} bytes; at most {self._limits.upload_bytes} are sent",
            )
        if secrets and url.scheme != "https" and self._own is None:
            return _invalid(f"secrets are sent over https only, not to {url.origin}")
        lines = self._reveal_all(secrets)
        if isinstance(lines, Failed):
            return lines
        return Hop(method=method, url=url, lines=[*headers.items(), *lines], body=body)

    def _learn(self) -> None:
        """Tell the mask every secret that was granted: a server may know one from another call. One that cannot be
        had now is nobody's to send, and no reason to refuse a request without it."""
        names, self._to_learn = self._to_learn, frozenset[str]()
        for name in sorted(names):
            self._mask.add(self._reveal(name) or "")

    def _reveal_all(self, secrets: Mapping[str, SecretRef]) -> Lines | Failed:
        lines: Lines = []
        for line, secret in secrets.items():
            value = self._reveal(secret.name)
            if value is None:
                return _no_secret(secret, "there is none of that name for this skill")
            if len(value) < SHORTEST:
                return _no_secret(secret, f"it is shorter than {SHORTEST} characters and could not be masked")
            self._mask.add(value)
            if not fit_value(secret.before.lstrip() + value) or not value.isascii():
                return _no_secret(secret, "it holds a character that cannot stand in a header line")
            lines.append((line, secret.before + value))
        return lines

    def _own_url(self, text: str) -> Url | None:
        """A URL of the origin that this Egress is for. Without TLS it is pinned to this machine, so secrets may go there."""
        url = read_url(text) if self._own is not None else None
        return url if isinstance(url, Url) and self._own and url.origin == self._own.origin else None

    def _admit(self, text: str, cause: Literal["request", "redirect"]) -> Url | Denied | Violation | Failed:
        """Whether a URL may be asked for, before any name is looked up."""
        url = read_url(text)
        if isinstance(url, BadUrl):
            closed = why_closed(url.address) if url.address else None
            if closed is None:
                code = "invalid_url" if cause == "request" else "redirect_refused"
                shown = self._mask.text(text)[:200]  # masked first: a cut would hide a secret from the mask
                return Failed(code=code, message=f"The URL {shown!r} is refused: {url.why}")
            return _violation(url.address, url.address, closed, cause)
        closed = why_closed(url.address) if url.address else why_closed_name(url.host)
        if closed is not None:
            return _violation(url.host, url.address, closed, cause)
        if not self._grants.allow(url):
            grant = url.place if url.scheme == "https" else url.origin
            return Denied(
                origin=url.origin,
                message=f"{url.origin} is not granted; grant the host {grant!r} if the skill should reach it",
                cause=cause,
            )
        return url

    async def _follow(self, hop: Hop, *, follow: bool) -> Reply:
        lookup = 0.0
        for redirects in range(self._limits.redirects + 1):
            reply, spent = await self._try(hop)
            lookup += spent
            if not isinstance(reply, Answer):
                return reply
            there = location(hop, reply) if follow else None
            if there is None:
                return replace(reply, redirects=redirects, timing=replace(reply.timing, lookup=lookup))
            if self._own is not None:
                message = (
                    f"{hop.url.origin} redirects; what is configured is asked itself and sends nobody on"
                )
                return Failed(code="redirect_refused", message=message)
            url = self._admit(there, "redirect")
            following = next_hop(hop, reply.status, url) if isinstance(url, Url) else url
            if not isinstance(following, Hop):
                return following
            hop = following
        return Failed(
            code="too_many_redirects",
            message=f"There were more than {self._limits.redirects} redirects, the last from {hop.url.origin}",
        )

    async def _try(self, hop: Hop) -> tuple[Answer | Violation | Failed, float]:
        """Send `hop`, again if that promises something, always to the addresses that were checked first."""
        if self._open is None:
            raise RuntimeError("an Egress is used inside `async with`")
        pins, exchange = self._open
        lookup = 0.0
        for attempt in range(self._limits.retries + 1):
            if attempt:
                await anyio.sleep(_RANDOM.uniform(0, self._limits.backoff_seconds * 2 ** (attempt - 1)))
            began = time.monotonic()
            pinned = await pins.pin(hop.url)
            lookup += time.monotonic() - began
            if isinstance(pinned, Violation):
                return pinned, lookup
            reply = pinned if isinstance(pinned, Failed) else await exchange.send(hop)
            if isinstance(reply, Answer):
                reply = replace(reply, attempts=attempt + 1)
            if attempt == self._limits.retries or not _worth_another_try(hop, reply):
                return reply, lookup
        raise AssertionError("the loop returns")

    async def _handed_on(self, reply: Reply) -> Reply:
        """The only way a reply leaves: without the secrets it may echo."""
        if isinstance(reply, Answer) and self._mask and len(reply.body) > _LARGE:
            return await to_thread.run_sync(self._masked, reply, abandon_on_cancel=True)
        return self._masked(reply)

    def _masked(self, reply: Reply) -> Reply:
        hide = self._mask.text
        match reply:
            case Answer() if (self._guarded or self._mask) and (coding := _packed(reply)):
                return Failed(
                    code="unknown_coding",
                    message=f"{hide(reply.url)} answered in the coding {hide(coding)[:100]!r}, which is not unpacked here; "
                    "where a secret is granted no answer is handed on that cannot be looked through",
                )
            case Answer():
                return replace(
                    reply,
                    headers=tuple((hide(name), hide(value)) for name, value in reply.headers),
                    body=self._mask.data(reply.body, truncated=reply.truncated),
                    url=hide(reply.url),
                )
            case Denied():
                return replace(reply, origin=hide(reply.origin), message=hide(reply.message))
            case Violation():
                return replace(reply, host=hide(reply.host), message=hide(reply.message))
            case Failed():
                return replace(reply, message=hide(reply.message))


def _packed(answer: Answer) -> str:
    """The coding of a body that was left as it came; empty when there is none, or nothing in it."""
    codings = ", ".join(value for name, value in answer.headers if name == "content-encoding")
    named = {each.strip().lower() for each in codings.split(",")} - {"", "identity"}
    return codings if named and answer.body else ""


def _worth_another_try(hop: Hop, reply: Answer | Failed) -> bool:
    if isinstance(reply, Failed):
        return reply.code in _NOTHING_SENT or (reply.code in _MAYBE_SENT and hop.method in REPEATABLE)
    # A server that says when to come back is better asked then than now.
    told_when = any(name == "retry-after" for name, _ in reply.headers)
    return reply.status in _WORTH_ANOTHER_TRY and hop.method in REPEATABLE and not told_when


def _invalid(why: str) -> Failed:
    return Failed(code="invalid_request", message=f"The request is refused: {why}")


def _no_secret(secret: SecretRef, why: str) -> Failed:
    return Failed(code="secret_unavailable", message=f"The secret {secret.name!r} is not sent: {why}")


def _violation(host: str, address: str, why: str, cause: Literal["request", "redirect"]) -> Violation:
    return Violation(
        host=host, address=address, message=f"{host} is {why}; no skill may connect to it", cause=cause
    )
