"""One turn of a conversation with the operator's model: messages and tools out, the model's message back.

The endpoint speaks the chat completions of OpenAI. Where it is and what opens it are the operator's configuration: the key is
put in on the way out, and masked in what comes back. What goes wrong is a sentence; what the endpoint said goes to the log.
"""

import logging
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, final

import msgspec

from metier.config.agents import NAMED, AgentSettings
from metier.errors import ConfigError
from metier.host.secrets import Secrets
from metier.model.digest import Json
from metier.model.text import one_line
from metier.sandbox.egress_limits import EgressLimits
from metier.sandbox.reply import Answer, Failed, Reply
from metier.sandbox.secret import SecretRef
from metier.sandbox.url import BadUrl, read_url

if TYPE_CHECKING:
    from metier.sandbox.egress import Egress

MOST_ASKED: Final = 4_194_304
MOST_ANSWER: Final = 1_048_576
SECONDS: Final = 120.0
"""Of one turn; a model thinks before it answers, and is silent meanwhile."""
_LIMITS: Final = EgressLimits(
    upload_bytes=MOST_ASKED, download_bytes=MOST_ANSWER, read_seconds=SECONDS, total_seconds=SECONDS
)
_CUT: Final = ("length", "content_filter")
"""Why an answer ended that is only the beginning of one."""
_log: Final = logging.getLogger("metier.agents")


@final
class NoAnswer(msgspec.Struct, frozen=True):
    """Why the model said nothing. For whoever started the agent: no address, no key."""

    message: str


@final
class ModelClient:
    """`async with ModelClient(settings) as model: said = await model.say(…)`."""

    def __init__(self, settings: AgentSettings, home: str = "") -> None:
        """`home` has the store of secrets, where the key is kept there."""
        self._settings = settings
        self._home = home
        self._egress: Egress | None = None
        self._place = ""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        egress, self._egress = self._egress, None
        if egress is not None:
            await egress.__aexit__(None, None, None)

    async def say(self, model: str, messages: list[Json], tools: list[Json]) -> dict[str, Json] | NoAnswer:
        """The model's next message, as it sent it."""
        egress = await self._opened()
        if isinstance(egress, NoAnswer):
            return egress
        asked: dict[str, Json] = {"model": model, "messages": messages}
        if tools:
            asked["tools"] = tools
        secrets = {"Authorization": SecretRef(name=NAMED, before="Bearer ")} if self._settings.key else {}
        reply = await egress.request(
            "POST",
            self._place,
            headers={"Content-Type": "application/json", "Accept": "application/json"},
            body=msgspec.json.encode(asked),
            secrets=secrets,
        )
        return _message(reply)

    async def _opened(self) -> "Egress | NoAnswer":
        if self._egress is not None:
            return self._egress
        if not self._settings.url:
            return NoAnswer(
                "there is no model for agents; the operator names one under [agents] url in metier.toml"
            )
        url = read_url(self._settings.url)
        if isinstance(url, BadUrl):
            return _unfit(url.why)
        from metier.sandbox.egress import Egress  # slow to import, and few calls are of an agent

        key = self._settings.key
        try:
            made = Egress(
                hosts=frozenset(),
                own=url.origin,
                limits=_LIMITS,
                reveal=Secrets({NAMED: key} if key else {}, self._home).reveal,
                secrets=frozenset({NAMED} if key else ()),
            )
        except ConfigError as problem:
            return _unfit(problem.message)
        self._place = f"{url.origin}{url.target.rstrip('/').removesuffix('/v1')}/v1/chat/completions"
        self._egress = await made.__aenter__()
        return self._egress


def _message(reply: Reply) -> dict[str, Json] | NoAnswer:
    match reply:
        case Answer(status=200, truncated=False):
            return _parsed(reply.body)
        case Answer(status=200):
            return _failed("what the model answered is too long", f"more than {MOST_ANSWER} bytes")
        case Answer(status=status):
            shown = one_line(reply.body[:500].decode(errors="replace"), 300)
            return _failed(f"the model's endpoint refused the request (status {status})", shown)
        case Failed(code="timed_out"):
            return _failed("the model did not answer in time", reply.message)
        case Failed(code="lookup_failed" | "connect_failed" | "tls_failed"):
            return _failed("the model's endpoint cannot be reached", reply.message)
        case _:
            return _unfit(reply.message)


def _parsed(body: bytes) -> dict[str, Json] | NoAnswer:
    said: Any = None
    why: Any = None
    with suppress(
        msgspec.MsgspecError, UnicodeDecodeError, RecursionError, LookupError, TypeError, AttributeError
    ):
        choice = msgspec.json.decode(body)["choices"][0]
        said, why = choice["message"], choice.get("finish_reason")
    if why in _CUT:
        return _failed("the model's answer was cut off before its end", str(why))
    if not isinstance(said, dict):
        return _failed(
            "what the model's endpoint answered is no chat completion",
            one_line(body[:200].decode(errors="replace"), 200),
        )
    message: dict[str, Json] = said  # pyright: ignore[reportUnknownVariableType]
    return message


def _failed(message: str, detail: str) -> NoAnswer:
    _log.warning("%s: %s", message, detail)
    return NoAnswer(message)


def _unfit(detail: str) -> NoAnswer:
    _log.warning("the model for agents is not asked: %s", detail)
    return NoAnswer("the model for agents is not set up so that it can be asked; the log of Metier says why")
