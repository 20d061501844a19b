"""Questions to Telegram's Bot API, by Metier's own egress. The token stands in the path there, and is masked in whatever comes back, as the
webhook's secret is: no address, error or log of ours has either.

Whatever comes back that is no answer of Telegram's is trouble like any other, and ends nothing but the question.
"""

import hashlib
import hmac
import json
import logging
import secrets as random
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, TypeVar, final

import anyio
import msgspec
from msgspec import Struct

from metier.errors import ConfigError
from metier.model.digest import Json
from metier.model.text import one_line
from metier.sandbox.egress import Egress
from metier.sandbox.egress_limits import EgressLimits
from metier.sandbox.reply import Answer, Denied, Failed, Reply, Violation
from metier.sandbox.url import BadUrl, read_url

Kind: TypeAlias = Literal[
    "down", "doubtful", "unreadable", "flood", "refused", "closed", "unauthorized", "conflict", "unusable"
]
"""`down`: nothing was sent. `doubtful`: it may have been done all the same. `closed`: the person it is for has blocked the bot or never
wrote to it. `unreadable`: an answer came, too long or no JSON that can be
read. `unusable`: nothing can be asked as things are set up."""
MOST_BYTES: Final = 8_388_608
"""Of one answer. A hundred of the longest messages are less."""
SECONDS: Final = 20.0
"""For everything but a poll."""
LONGEST_POLL: Final = 60
LONGEST_SILENCE: Final = 3_600.0
"""Seconds that Telegram may ask for. What it says beyond that is an error, and would be taken for the end."""
_BEGAN: Final = 200
_DONE: Final = 200
_TOO_LARGE: Final = 413
_CLOSED: Final = "chat not found"
_SPARE: Final = 15.0
"""What a poll may take beyond the time it asked for."""
_TOKEN: Final = "bot_token"  # noqa: S105  a name
_ITS_SECRET: Final = "the secret part of bot_token"  # noqa: S105  a name
_HIDDEN: Final = "hidden"
_SHOWN: Final = "shown"
_T = TypeVar("_T")
_LIMITS: Final = EgressLimits(
    upload_bytes=1_048_576,
    download_bytes=MOST_BYTES,
    read_seconds=LONGEST_POLL + _SPARE,
    total_seconds=LONGEST_POLL + 2 * _SPARE,
)
_log: Final = logging.getLogger("metier.telegram")


@final
class Trouble(Exception):
    """Telegram did not do it. Nothing in here is secret."""

    def __init__(self, kind: Kind, message: str, *, seconds: float = 0.0, began: bytes = b"") -> None:
        super().__init__(message)
        self.kind: Kind = kind
        self.message = message
        self.seconds = min(max(seconds, 0.0), LONGEST_SILENCE)
        """How long it said to wait."""
        self.began = began
        """How an answer began that is unreadable."""


class _Parameters(Struct, frozen=True):
    retry_after: int | float = 0


class _Envelope(Struct, frozen=True):
    ok: bool
    result: msgspec.Raw = msgspec.Raw(b"null")
    error_code: int = 0
    description: str = ""
    parameters: msgspec.Raw = msgspec.Raw(b"{}")


class Me(Struct, frozen=True):
    """A bot, as Telegram knows it."""

    id: int
    username: str = ""


@final
class BotApi:
    """The Bot API at one place for one bot, whose token this is. Another token is another bot, with other messages under the same numbers, so
    it gets a BotApi of its own. Belongs to one loop."""

    def __init__(self, place: str, token: str, hidden: str = "") -> None:
        """`hidden` is a further secret that may be sent."""
        self._place = place
        self._token = token
        self._hidden = hidden
        self._egress: Egress | None = None
        self._turn = anyio.Lock()
        self.me: Me | None = None
        """None until it was asked."""

    @property
    def bot(self) -> int:
        """The number of the bot; 0 until it is known."""
        return self.me.id if self.me is not None else 0

    @property
    def shown(self) -> str:
        """What Telegram shows with everything that this bot's webhook brings; empty where nothing is hidden."""
        return shown_by(self._token, self._hidden)

    def is_for(self, token: str, hidden: str) -> bool:
        """Whether it was made for these."""
        made, given = f"{self._token}\n{self._hidden}", f"{token}\n{hidden}"
        return hmac.compare_digest(made.encode(), given.encode())

    async def meet(self) -> Me:
        """Who the bot is.

        Raises:
            Trouble: when that cannot be had.
        """
        self.me = await self.ask_for(Me, "getMe", {})
        return self.me

    async def ask_for(
        self, kind: type[_T], method: str, given: Mapping[str, Json], *, seconds: float = SECONDS
    ) -> _T:
        """What Telegram gives for it, as what it has to be.

        Raises:
            Trouble: when it gives nothing, or something else.
        """
        raw = await self.ask(method, given, seconds=seconds)
        try:
            return msgspec.json.decode(raw, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise Trouble("doubtful", f"what Telegram gives for {method} is not what it has to be") from None

    async def ask(self, method: str, given: Mapping[str, Json], *, seconds: float = SECONDS) -> msgspec.Raw:
        """What Telegram gives for it.

        Raises:
            Trouble: when it gives nothing.
        """
        body = msgspec.json.encode({name: value for name, value in given.items() if value is not None})
        return await self._asked(method, body, "application/json", seconds)

    async def upload(self, method: str, name: str, data: bytes, **given: str) -> msgspec.Raw:
        """The same with a file, as forms carry one."""
        mark = random.token_hex(16)
        parts = [
            f'--{mark}\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n{value}\r\n'.encode()
            for field, value in given.items()
        ]
        parts.append(
            f'--{mark}\r\nContent-Disposition: form-data; name="document"; filename={json.dumps(name)}\r\n'
            "Content-Type: text/plain; charset=utf-8\r\n\r\n".encode()
        )
        body = b"".join((*parts, data, f"\r\n--{mark}--\r\n".encode()))
        return await self._asked(method, body, f"multipart/form-data; boundary={mark}", SECONDS)

    async def close(self) -> None:
        """Close every connection."""
        egress, self._egress = self._egress, None
        if egress is not None:
            await egress.__aexit__(None, None, None)

    async def _asked(self, method: str, body: bytes, kind: str, seconds: float) -> msgspec.Raw:
        token = self._token
        if not token:
            raise Trouble("unusable", "there is no bot token; set the skill's setting bot_token")
        if not token.isascii() or not token.replace(":", "").replace("-", "").replace("_", "").isalnum():
            raise Trouble("unusable", "the bot token is none: letters, digits, :, - and _")
        egress, origin = await self._opened()
        reply: Reply = Failed(code="timed_out", message="it took too long")
        with anyio.move_on_after(seconds):
            reply = await egress.request(
                "POST", f"{origin}/bot{token}/{method}", headers={"Content-Type": kind}, body=body
            )
        return _result(method, reply)

    async def _opened(self) -> tuple[Egress, str]:
        """An egress that masks every secret from its first answer on."""
        url = read_url(self._place)
        if isinstance(url, BadUrl):
            raise Trouble("unusable", f"[telegram] api cannot be read: {url.why}")
        async with self._turn:
            if self._egress is None:
                # What stands before the colon is the bot's number, which everybody may know.
                its_secret = self._token.partition(":")[2]
                secrets = {
                    _TOKEN: self._token,
                    _ITS_SECRET: its_secret,
                    _HIDDEN: self._hidden,
                    _SHOWN: self.shown,
                }
                try:
                    made = Egress(
                        hosts=frozenset(),
                        own=url.origin,
                        limits=_LIMITS,
                        reveal=secrets.get,
                        secrets=frozenset(secrets),
                    )
                except ConfigError as problem:
                    raise Trouble("unusable", f"[telegram] api: {problem.message}") from None
                self._egress = await made.__aenter__()
            return self._egress, f"{url.origin}{url.target.rstrip('/')}"


def shown_by(token: str, secret: str) -> str:
    """What Telegram is told to show with what it brings for the bot of this token. Made of the webhook's secret for each bot anew: who had
    another bot before is still brought that one's messages at the same address, and they are not this bot's."""
    return hmac.new(secret.encode(), token.encode(), hashlib.sha256).hexdigest() if secret else ""


def _result(method: str, reply: Reply) -> msgspec.Raw:
    match reply:
        case Answer(truncated=True):
            message = f"what Telegram answered to {method} is longer than {MOST_BYTES:,} bytes"
            raise Trouble("unreadable", message, began=reply.body[:_BEGAN])
        case Answer():
            return _of(method, reply)
        case Failed(code="lookup_failed" | "connect_failed" | "tls_failed"):
            raise Trouble("down", f"Telegram cannot be reached: {reply.message}")
        case Failed(code="invalid_url" | "redirect_refused" | "invalid_request") | Denied() | Violation():
            raise Trouble("unusable", f"Telegram is not asked: {reply.message}")
        case Failed(code="too_large"):
            raise Trouble("refused", f"{method} is too large: {reply.message}")
        case Failed():
            raise Trouble("doubtful", f"Telegram broke off: {reply.message}")


def _of(method: str, reply: Answer) -> msgspec.Raw:
    try:
        told = msgspec.json.decode(reply.body, type=_Envelope)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        _log.warning("%s was answered with status %d and no JSON of Telegram's", method, reply.status)
        kinds: dict[int, Kind] = {_DONE: "unreadable", _TOO_LARGE: "refused"}
        kind = kinds.get(reply.status, "doubtful")  # a gateway that failed may have handed it on before
        message = f"what came back for {method} is no answer of Telegram's (status {reply.status})"
        raise Trouble(kind, message, began=reply.body[:_BEGAN]) from None
    if told.ok:
        return told.result
    said = one_line(told.description, 200) or "no reason given"
    match told.error_code or reply.status:
        case 401 | 404:
            raise Trouble("unauthorized", f"Telegram does not accept the bot token: {said}")
        case 409:
            raise Trouble("conflict", f"Telegram says: {said}")
        case 429:
            raise Trouble("flood", f"Telegram says: {said}", seconds=max(_silence(told.parameters), 1.0))
        case code if code >= 500:
            raise Trouble("doubtful", f"Telegram failed: {said}", seconds=_silence(told.parameters))
        case code if code == 403 or _CLOSED in told.description:
            raise Trouble("closed", f"Telegram refuses {method}: {said}")
        case _:
            raise Trouble("refused", f"Telegram refuses {method}: {said}")


def _silence(parameters: msgspec.Raw) -> float:
    """The seconds it asks for; none where that cannot be read. An absurd number is the bound."""
    try:
        asked = msgspec.json.decode(parameters, type=_Parameters).retry_after
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return 0.0
    return float(min(max(asked, 0), LONGEST_SILENCE))
