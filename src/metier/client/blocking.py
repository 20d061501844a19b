"""The client for programs without an event loop."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self, TypeVar, final

import httpcore2

import metier.client.asking as asking
from metier.client.asking import Asked, CallState, Change, Frames, SkillShown, ToolShape
from metier.model.approval import Approval, Scope
from metier.model.digest import Json
from metier.model.outcome import Outcome

_T = TypeVar("_T")


@final
class Client:
    """Speaks to one server as one principal. Follows no redirect, uses no proxy, and sends its token nowhere else."""

    def __init__(self, url: str, *, token: str) -> None:
        """
        Raises:
            ConfigError: for an address that is none, or to which a token would travel in the clear.
        """
        self._url = asking.address(url, token)
        self._token = token
        self._pool = httpcore2.ConnectionPool(max_connections=64, keepalive_expiry=20.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of every connection."""
        self._pool.close()

    def call(
        self,
        tool: str,
        arguments: Json = None,
        *,
        wait: float = 0.0,
        unattended: bool = False,
        key: str = "",
        patience: float | None = asking.HOUR,
    ) -> Outcome:
        """Call a tool through the whole gate.

        Args:
            wait: seconds to wait for somebody's word, where it takes one.
            key: of your own for this one call: asked again with it, it runs once and gives the same answer.
            patience: seconds after which you hang up, and a call without a key ends; None waits as long as it takes.

        Raises:
            ApiError: when the request was not done. What the gate says is an outcome.
        """
        return self._ask(asking.call(tool, arguments, wait, unattended, key, patience))

    def operate(
        self, operation: str, arguments: Json = None, *, key: str = "", patience: float | None = asking.HOUR
    ) -> Outcome:
        """Have an operation of a module done, written `module.op`."""
        return self._ask(asking.operate(operation, arguments, key, patience))

    def state(self, call_id: str) -> CallState:
        """How a call stands, or ended."""
        return self._ask(asking.state(call_id))

    def cancel(self, call_id: str) -> None:
        """Have a running call ended."""
        self._ask(asking.cancel(call_id))

    def tools(self, shape: ToolShape = "openai") -> list[dict[str, Json]]:
        """The tools a model can call, in a provider's shape."""
        return self._ask(asking.tools(shape))

    def handle(
        self, tool_calls: object, *, wait: float = 0.0, patience: float | None = asking.HOUR
    ) -> list[dict[str, Json]]:
        """Answer a provider's own tool calls, its objects or plain JSON, with its own result messages. For agents.

        Args:
            wait: seconds each of them waits for somebody's word, where it takes one.
            patience: as for `call`.

        Raises:
            ApiError: when the request was not done.
            TypeError: for what is nothing that a provider sends.
        """
        return self._ask(asking.handle(tool_calls, wait, patience))

    def skills(self) -> list[SkillShown]:
        """The skills there are."""
        return self._ask(asking.skills())

    def prompt(self, message: str = "", *, full: bool = False) -> str:
        """The text that tells a model which skills there are."""
        return self._ask(asking.prompt(message, full))

    def approvals(self, *, over: bool = False) -> list[Approval]:
        """What waits for a decision: all of it for who may decide, else your own."""
        return self._ask(asking.approvals(over))

    def approval(self, id: str) -> Approval:
        """One request."""
        return self._ask(asking.approval(id))

    def approve(self, shown: Approval, *, scope: Scope = "once") -> Approval:
        """Approve exactly what was shown to you."""
        return self._ask(asking.say_yes(shown, scope))

    def deny(self, id: str, *, word: str = "") -> Approval:
        """Say no."""
        return self._ask(asking.deny(id, word))

    def take_up(self, id: str, *, wait: float = 0.0, patience: float | None = asking.HOUR) -> Outcome:
        """Run what was approved, once; or wait so long for the decision."""
        return self._ask(asking.take_up(id, wait, patience))

    def events(self, after: int | None = None) -> Iterator[Change]:
        """What happens, until the server or you end it. `after` is the `seq` of the last one you know.

        Raises:
            ApiError: when it cannot be listened to, or the connection broke; go on with the last `seq`.
        """
        asked, frames = asking.events(after), Frames()
        try:
            with self._stream(asked) as response:
                if response.status != 200:
                    raise asking.problem(response.status, response.read())
                for data in response.iter_stream():
                    yield from frames.take(data)
        except asking.UNANSWERED as error:
            raise asking.no_answer(error) from None

    def _ask(self, asked: Asked[_T]) -> _T:
        got = bytearray()
        try:
            with self._stream(asked) as response:
                for data in response.iter_stream():
                    asked.grown(got, data, response.status)
        except asking.UNANSWERED as error:
            raise asked.no_answer(error) from None
        return asked.read(response.status, bytes(got))

    def _stream(self, asked: Asked[_T]) -> AbstractContextManager[httpcore2.Response]:
        return self._pool.stream(
            asked.method,
            f"{self._url}{asked.path}",
            headers=asked.headers(self._token),
            content=asked.content,
            extensions={"timeout": asked.timeouts},
        )
