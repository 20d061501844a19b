"""What is asked and how the answer is read, for both clients. Nothing here opens a connection."""

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Final, Generic, Literal, TypeAlias, TypeVar, final
from urllib.parse import quote, urlencode, urlsplit

import httpcore2
import msgspec

from metier.errors import ConfigError, MetierError
from metier.model.approval import Approval, Scope
from metier.model.digest import Json
from metier.model.outcome import Outcome

MOST_BYTES: Final = 64 * 1_048_576
"""Of one answer."""
PATIENCE: Final = 30.0
"""For what is only looked up or noted down."""
HOUR: Final = 3_600.0
"""For what runs, unless something else is said: who hangs up ends it, and a server that vanished is not waited for without end."""
_CONNECT: Final = 10.0
_HERE: Final = frozenset({"127.0.0.1", "::1", "localhost"})
UNANSWERED: Final = (httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.ProtocolError)
"""What the transport raises where no answer came."""
_T = TypeVar("_T")
ToolShape: TypeAlias = Literal["openai", "openai_responses", "anthropic", "mcp"]


@final
class ApiError(MetierError):
    """A request was not done. `code` is stable."""

    code: ClassVar[str] = "api_error"

    def __init__(self, status: int, code: str, message: str, *, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.status = status
        """0 where there was no answer."""
        self.api_code = code


@final
class CallState(msgspec.Struct, frozen=True, kw_only=True):
    """How a call stands, as the record has it."""

    call_id: str
    state: str
    """`pending`, `approved`, `running`, `completed`, `failed`, `refused` or `interrupted`."""
    tool: str
    principal: str
    on_behalf_of: str = ""
    skill: str = ""
    began_at: str = ""
    ended_at: str = ""
    code: str = ""
    reasons: tuple[str, ...] = ()
    approval: str = ""


@final
class SkillShown(msgspec.Struct, frozen=True, kw_only=True):
    """A skill as the server lists it."""

    name: str
    description: str
    status: str
    why: str = ""
    version: str = ""
    digest: str = ""
    tools: tuple[str, ...] = ()


@final
class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened. `seq` is what to go on from."""

    kind: str
    seq: int = 0
    at: str = ""
    call_id: str = ""
    tool: str = ""
    skill: str = ""
    principal: str = ""
    on_behalf_of: str = ""
    approval: str = ""
    state: str = ""
    code: str = ""
    asked_by: str = ""
    """Of a decision: whose request it was about. Its `principal` is who decided."""
    asked_for: str = ""
    """On whose behalf he asked."""


@final
class Asked(msgspec.Struct, Generic[_T], frozen=True, kw_only=True):
    """One request."""

    method: str
    path: str
    shape: Any
    """The type of what is answered."""
    body: Any = msgspec.UNSET
    key: str = ""
    patience: float | None = PATIENCE
    """Seconds to wait for an answer; None for as long as it takes."""
    accept: str = "application/json"
    more: tuple[tuple[str, str], ...] = ()
    """Further headers."""
    within: str = ""
    """The one field of the answer that is given out; empty where it is all of it."""

    def headers(self, token: str) -> list[tuple[str, str]]:
        """With who asks."""
        made = [("Authorization", f"Bearer {token}"), ("Accept", self.accept), *self.more]
        if self.body is not msgspec.UNSET:
            made.append(("Content-Type", "application/json"))
        return [*made, *([("Idempotency-Key", f'"{self.key}"')] if self.key else [])]

    @property
    def content(self) -> bytes:
        """What is sent."""
        return b"" if self.body is msgspec.UNSET else msgspec.json.encode(self.body, enc_hook=_plain)

    @property
    def timeouts(self) -> dict[str, float | None]:
        """As the transport takes them."""
        return {"connect": _CONNECT, "read": self.patience, "write": PATIENCE, "pool": PATIENCE}

    def no_answer(self, error: Exception) -> ApiError:
        """What is said where none came."""
        if not isinstance(error, httpcore2.ReadTimeout):
            return no_answer(error)
        return ApiError(
            0,
            "timed_out",
            f"there was no answer within {self.patience:g} seconds",
            remedy="Give it a greater `patience`. What ran without a key ended with the connection; what has a key goes on, and is answered "
            "when you ask again with the same one",
        )

    def grown(self, got: bytearray, data: bytes, status: int) -> None:
        """Take a further piece of the answer.

        Raises:
            ApiError: when it has no end.
        """
        got += data
        if len(got) > MOST_BYTES:
            raise ApiError(status, "too_large", "the server's answer has no end", remedy="Ask for less of it")

    def read(self, status: int, data: bytes) -> _T:
        """What was answered.

        Raises:
            ApiError: when it was not done, or is not understood.
        """
        if status in (200, 202):
            try:
                if not self.within:
                    return msgspec.json.decode(data, type=self.shape)
                return msgspec.json.decode(data, type=dict[str, self.shape])[self.within]
            except (msgspec.MsgspecError, RecursionError, KeyError):
                raise ApiError(status, "not_understood", "the server's answer is not understood") from None
        raise problem(status, data)


def _plain(thing: object) -> object:
    """What a provider's own library gives out, as the JSON that it came as.

    Raises:
        TypeError: for anything else, which is a mistake in the calling program.
    """
    dump = getattr(thing, "model_dump", None)
    if callable(dump):
        return dump(mode="json", exclude_none=True)
    if hasattr(thing, "__dict__") and not isinstance(thing, type):
        return {name: value for name, value in vars(thing).items() if not name.startswith("_")}
    raise TypeError(
        f"a {type(thing).__name__} cannot be sent: give plain JSON, or a provider's objects as they came"
    )


@final
class _Problem(msgspec.Struct):
    code: str = "unknown"
    detail: str = ""
    remedy: str = ""


def problem(status: int, data: bytes) -> ApiError:
    """What a server says that did not do what it was asked."""
    try:
        said = msgspec.json.decode(data, type=_Problem)
    except (msgspec.MsgspecError, RecursionError):
        said = _Problem()
    return ApiError(status, said.code, said.detail or f"the server answered {status}", remedy=said.remedy)


def address(url: str, token: str) -> str:
    """Where the server is, without a slash at its end.

    Raises:
        ConfigError: for what is no such address, for no token, and for one that would travel in the clear.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port  # only now it is looked at
    except ValueError:
        raise _no_address() from None
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or parts.query
        or parts.fragment
        or parts.username
    ):
        raise _no_address()
    if parts.scheme == "http" and parts.hostname not in _HERE:
        raise ConfigError(
            "a token is not sent over http to another machine",
            remedy="Use https, or 127.0.0.1 on this machine",
        )
    if token[:1].isspace() or token[-1:].isspace():
        raise ConfigError("the token has a space or line end around it", remedy="Give it with `.strip()`")
    if not token or not token.isascii() or not token.isprintable():
        raise ConfigError("that is no token", remedy="`metier tokens add` makes one")
    return url.rstrip("/")


def _no_address() -> ConfigError:
    return ConfigError("that is no address of a server", remedy="Write http://127.0.0.1:8765, or https://…")


def no_answer(error: Exception) -> ApiError:
    """What is said where nobody is there, or the connection broke."""
    return ApiError(
        0,
        "no_answer",
        f"the server did not answer: {type(error).__name__}",
        remedy="Is `metier serve` running there?",
    )


# --- what can be asked


def call(
    tool: str, arguments: Json, wait: float, unattended: bool, key: str, patience: float | None
) -> Asked[Outcome]:
    body = {"tool": tool, "arguments": arguments or {}, "wait": wait, "unattended": unattended}
    return Asked(method="POST", path="/api/v1/calls", shape=Outcome, body=body, key=key, patience=patience)


def operate(operation: str, arguments: Json, key: str, patience: float | None) -> Asked[Outcome]:
    module, _, name = operation.partition(".")
    path = f"/api/v1/modules/{quote(module, safe='')}/{quote(name, safe='')}"
    return Asked(method="POST", path=path, shape=Outcome, body=arguments or {}, key=key, patience=patience)


def state(call_id: str) -> Asked[CallState]:
    return Asked(method="GET", path=f"/api/v1/calls/{quote(call_id, safe='')}", shape=CallState)


def cancel(call_id: str) -> Asked[dict[str, Json]]:
    return Asked(method="POST", path=f"/api/v1/calls/{quote(call_id, safe='')}/cancel", shape=dict[str, Json])


def tools(shape: ToolShape) -> Asked[list[dict[str, Json]]]:
    path = f"/api/v1/tools?shape={shape}"
    return Asked(method="GET", path=path, shape=list[dict[str, Json]], within="tools")


def skills() -> Asked[list[SkillShown]]:
    return Asked(method="GET", path="/api/v1/skills", shape=list[SkillShown], within="skills")


def prompt(message: str, full: bool) -> Asked[str]:
    query = urlencode({"message": message, "full": "true" if full else "false"})
    return Asked(method="GET", path=f"/api/v1/prompt?{query}", shape=str, within="text")


def handle(tool_calls: object, wait: float, patience: float | None) -> Asked[list[dict[str, Json]]]:
    return Asked(
        method="POST",
        path="/api/v1/handle",
        shape=list[dict[str, Json]],
        within="messages",
        body={"tool_calls": tool_calls, "wait": wait},
        patience=patience,
    )


def approvals(over: bool) -> Asked[list[Approval]]:
    path = f"/api/v1/approvals?over={'true' if over else 'false'}"
    return Asked(method="GET", path=path, shape=list[Approval], within="approvals")


def approval(id: str) -> Asked[Approval]:
    return Asked(method="GET", path=f"/api/v1/approvals/{quote(id, safe='')}", shape=Approval)


def say_yes(shown: Approval, scope: Scope) -> Asked[Approval]:
    body = {"fingerprint": shown.fingerprint, "scope": scope}
    path = f"/api/v1/approvals/{quote(shown.id, safe='')}/approve"
    return Asked(method="POST", path=path, shape=Approval, body=body)


def deny(id: str, word: str) -> Asked[Approval]:
    path = f"/api/v1/approvals/{quote(id, safe='')}/deny"
    return Asked(method="POST", path=path, shape=Approval, body={"word": word})


def take_up(id: str, wait: float, patience: float | None) -> Asked[Outcome]:
    path = f"/api/v1/approvals/{quote(id, safe='')}/take-up"
    return Asked(method="POST", path=path, shape=Outcome, body={"wait": wait}, patience=patience)


# --- what happens

_SILENCE: Final = 60.0
"""The server says something at least every quarter of a minute."""


def events(after: int | None) -> Asked[Change]:
    """A stream: `Frames` reads it."""
    return Asked(
        method="GET",
        path="/api/v1/events",
        shape=Change,
        patience=_SILENCE,
        accept="text/event-stream",
        more=() if after is None else (("Last-Event-ID", str(after)),),
    )


class Frames:
    """Server-Sent Events out of what a connection brings, piece by piece."""

    def __init__(self) -> None:
        self._rest = b""

    def take(self, data: bytes) -> Iterator[Change]:
        """What is whole by now.

        Raises:
            ApiError: when one has no end.
        """
        self._rest += data
        while (end := self._rest.find(b"\n\n")) >= 0:
            frame, self._rest = self._rest[:end], self._rest[end + 2 :]
            if (change := _change(frame.split(b"\n"))) is not None:
                yield change
        if len(self._rest) > MOST_BYTES:
            raise ApiError(0, "too_large", "the server's event has no end")


def _change(lines: Iterable[bytes]) -> Change | None:
    data = b"".join(line[5:].strip() for line in lines if line.startswith(b"data:"))
    if not data:
        return None
    try:
        return msgspec.json.decode(data, type=Change)
    except (msgspec.MsgspecError, RecursionError):
        return None  # of a newer server
