"""One question to the operator's gateway, one text back. It speaks the chat completions of OpenAI, as OpenClaw's gateway does.

Where the gateway is and what opens it are the operator's configuration. The token is put in on the way out and masked in what
comes back, so nobody who asks through here holds it. What goes wrong is a name and a sentence for the code that asked; where
the gateway lies and what it said are for the operator, and go to the log.
"""

import logging
import time
from collections.abc import Callable
from typing import Final, Protocol, final

import anyio
import msgspec
from msgspec import Struct

from metier.config.gateway import NAMED, GatewaySettings
from metier.errors import ConfigError
from metier.host.secrets import Secrets
from metier.model.ports import NotAnswered
from metier.model.text import one_line
from metier.sandbox.egress import Egress
from metier.sandbox.egress_limits import RETRIES, EgressLimits
from metier.sandbox.reply import Answer, Denied, Failed, Reply, Violation
from metier.sandbox.secret import SecretRef
from metier.sandbox.url import BadUrl, read_url

MOST_ANSWER: Final = 262_144
"""Bytes of what the gateway answers."""
LONGEST: Final = 300.0
"""Seconds; an agent thinks before it answers, and is silent meanwhile."""
LIMITS: Final = EgressLimits(
    upload_bytes=131_072,
    download_bytes=MOST_ANSWER,
    read_seconds=LONGEST,
    total_seconds=LONGEST,
    retries=RETRIES,  # of a POST only where no connection came about
)
_SET_UP: Final = (
    "The operator names one under [gateway] url in metier.toml, or in the variable OPENCLAW_GATEWAY_URL"
)
_log: Final = logging.getLogger("metier.gateway")


class MakeOwnEgress(Protocol):
    """How an Egress for one origin of the operator's is made; `Egress` itself is one."""

    def __call__(
        self,
        *,
        hosts: frozenset[str],
        own: str,
        limits: EgressLimits,
        reveal: Callable[[str], str | None],
        secrets: frozenset[str] = frozenset(),
    ) -> Egress: ...


class _Said(Struct, frozen=True):
    content: str


class _Choice(Struct, frozen=True):
    message: _Said


class _Completion(Struct, frozen=True):
    choices: tuple[_Choice, ...]


@final
class GatewayClient:
    """The gateway for one call, within what is left of its time."""

    def __init__(
        self, settings: GatewaySettings, *, seconds: float, make: MakeOwnEgress = Egress, home: str = ""
    ) -> None:
        """`home` has the store of secrets, where the token is kept there. `seconds` is the time of the whole call, counted from now. A part is kept back: whoever asked is told that it took
        too long while he can still write that down."""
        self._settings = settings
        self._home = home
        self._make = make
        self._deadline = time.monotonic() + seconds - min(1.0, seconds / 5)
        self._egress: Egress | None = None

    async def ask(self, task: str, content: str) -> str | NotAnswered:
        """What the gateway answers to `content`, having been told what to do with it."""
        place = self._place()
        if isinstance(place, NotAnswered):
            return place
        left = self._deadline - time.monotonic()
        messages = [{"role": "system", "content": task}, {"role": "user", "content": content}]
        body = msgspec.json.encode({"model": self._settings.model, "messages": messages})
        reply: Reply = Failed(code="timed_out", message="The time of the call is used up")
        if left > 0:
            egress = await self._opened(place[0])
            if isinstance(egress, NotAnswered):
                return egress
            with anyio.move_on_after(left):
                reply = await egress.request(
                    "POST",
                    place[1],
                    headers={"Content-Type": "application/json", "Accept": "application/json"},
                    body=body,
                    secrets={"Authorization": SecretRef(name=NAMED, before="Bearer ")},
                )
        return _text(reply)

    async def aclose(self) -> None:
        """Close the connection."""
        egress, self._egress = self._egress, None
        if egress is not None:
            await egress.__aexit__(None, None, None)

    def _place(self) -> tuple[str, str] | NotAnswered:
        """Origin and endpoint."""
        if not self._settings.url:
            return NotAnswered(name="NotConfigured", message=f"There is no gateway. {_SET_UP}")
        url = read_url(self._settings.url)
        if isinstance(url, BadUrl):
            return _unfit(f"the configured address cannot be read: {url.why}")
        base = url.target.rstrip("/").removesuffix("/v1")
        return url.origin, f"{url.origin}{base}/v1/chat/completions"

    async def _opened(self, origin: str) -> Egress | NotAnswered:
        if self._egress is None:
            try:
                reveal = Secrets({NAMED: self._settings.token}, self._home).reveal
                made = self._make(
                    hosts=frozenset(), own=origin, limits=LIMITS, reveal=reveal, secrets=frozenset({NAMED})
                )
            except ConfigError as problem:
                return _unfit(problem.message)
            self._egress = await made.__aenter__()
        return self._egress


def _text(reply: Reply) -> str | NotAnswered:
    match reply:
        case Answer(status=200, truncated=False):
            return _content(reply.body)
        case Answer(status=200):
            return _failed("BadAnswer", "The gateway's answer is too long", f"more than {MOST_ANSWER} bytes")
        case Answer():
            return _refused(reply)
        case Failed(code="timed_out"):
            message = "The gateway did not answer in time; whether it did what was asked is not known"
            return _failed("TimedOut", message, reply.message)
        case Failed(code="lookup_failed" | "connect_failed" | "tls_failed"):
            return _failed(
                "GatewayDown", "The gateway cannot be reached; nothing was sent to it", reply.message
            )
        case Failed(code="secret_unavailable"):
            return _unfit(f"its token cannot be had ([gateway] token, {reply.message})")
        case Failed(code="redirect_refused" | "invalid_url" | "invalid_request") | Denied() | Violation():
            return _unfit(reply.message)
        case Failed(code="too_large"):
            return _failed("TooLarge", "The request to the gateway is too large", reply.message)
        case Failed():
            message = "The gateway broke off; whether it did what was asked is not known"
            return _failed("Unanswered", message, reply.message)


def _content(body: bytes) -> str | NotAnswered:
    try:
        choices = msgspec.json.decode(body, type=_Completion).choices
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        choices = ()
    if not choices:
        shown = one_line(body[:200].decode(errors="replace"), 200)
        return _failed("BadAnswer", "What the gateway answered is no chat completion", shown)
    return choices[0].message.content


def _refused(reply: Answer) -> NotAnswered:
    shown = f"status {reply.status}: {one_line(reply.body[:500].decode(errors='replace'), 300)}"
    match reply.status:
        case 401 | 403:
            return _failed("GatewayRefused", "The gateway does not accept the operator's token", shown)
        case 404 | 405:
            message = "The gateway offers no chat completions; the operator has to switch them on there"
            return _failed("GatewayRefused", message, shown)
        case 429:
            return _failed("Busy", "The gateway has too much to do; try again later", shown)
        case status if status >= 500:
            return _failed("GatewayFailed", f"The gateway failed (status {status})", shown)
        case status:
            return _failed("GatewayRefused", f"The gateway refused the request (status {status})", shown)


def _failed(name: str, message: str, detail: str) -> NotAnswered:
    _log.warning("%s: %s", message, detail)
    return NotAnswered(name=name, message=message)


def _unfit(detail: str) -> NotAnswered:
    _log.warning("the gateway is not asked: %s", detail)
    message = "The gateway is not set up so that it can be asked; the log of Metier says why"
    return NotAnswered(name="NotConfigured", message=message)
