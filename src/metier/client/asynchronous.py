"""The client for programs with an event loop."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
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
class AsyncClient:
    """Speaks to one server as one principal. Follows no redirect, uses no proxy, and sends its token nowhere else."""

    def __init__(self, url: str, *, token: str) -> None:
        """
        Raises:
            ConfigError: for an address that is none, or to which a token would travel in the clear.
        """
        self._url = asking.address(url, token)
        self._token = token
        self._pool = httpcore2.AsyncConnectionPool(max_connections=64, keepalive_expiry=20.0)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Let go of every connection."""
        await self._pool.aclose()

    async def call(
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
        return await self._ask(asking.call(tool, arguments, wait, unattended, key, patience))

    async def operate(
        self, operation: str, arguments: Json = None, *, key: str = "", patience: float | None = asking.HOUR
    ) -> Outcome:
        """Have an operation of a module done, written `module.op`."""
        return await self._ask(asking.operate(operation, arguments, key, patience))

    async def state(self, call_id: str) -> CallState:
        """How a call stands, or ended."""
        return await self._ask(asking.state(call_id))

    async def cancel(self, call_id: str) -> None:
        """Have a running call ended."""
        await self._ask(asking.cancel(call_id))

    async def tools(self, shape: ToolShape = "openai") -> list[dict[str, Json]]:
        """The tools a model can call, in a provider's shape."""
        return await self._ask(asking.tools(shape))

    async def handle(
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
        return await self._ask(asking.handle(tool_calls, wait, patience))

    async def skills(self) -> list[SkillShown]:
        """The skills there are."""
        return await self._ask(asking.skills())

    async def prompt(self, message: str = "", *, full: bool = False) -> str:
        """The text that tells a model which skills there are."""
        return await self._ask(asking.prompt(message, full))

    async def approvals(self, *, over: bool = False) -> list[Approval]:
        """What waits for a decision: all of it for who may decide, else your own."""
        return await self._ask(asking.approvals(over))

    async def approval(self, id: str) -> Approval:
        """One request."""
        return await self._ask(asking.approval(id))

    async def approve(self, shown: Approval, *, scope: Scope = "once") -> Approval:
        """Approve exactly what was shown to you."""
        return await self._ask(asking.say_yes(shown, scope))

    async def deny(self, id: str, *, word: str = "") -> Approval:
        """Say no."""
        return await self._ask(asking.deny(id, word))

    async def take_up(self, id: str, *, wait: float = 0.0, patience: float | None = asking.HOUR) -> Outcome:
        """Run what was approved, once; or wait so long for the decision."""
        return await self._ask(asking.take_up(id, wait, patience))

    async def events(self, after: int | None = None) -> AsyncIterator[Change]:
        """What happens, until the server or you end it. `after` is the `seq` of the last one you know.

        Raises:
            ApiError: when it cannot be listened to, or the connection broke; go on with the last `seq`.
        """
        asked, frames = asking.events(after), Frames()
        try:
            async with self._stream(asked) as response:
                if response.status != 200:
                    raise asking.problem(response.status, await response.aread())
                async for data in response.aiter_stream():
                    for change in frames.take(data):
                        yield change
        except asking.UNANSWERED as error:
            raise asking.no_answer(error) from None

    async def _ask(self, asked: Asked[_T]) -> _T:
        got = bytearray()
        try:
            async with self._stream(asked) as response:
                async for data in response.aiter_stream():
                    asked.grown(got, data, response.status)
        except asking.UNANSWERED as error:
            raise asked.no_answer(error) from None
        return asked.read(response.status, bytes(got))

    def _stream(self, asked: Asked[_T]) -> AbstractAsyncContextManager[httpcore2.Response]:
        return self._pool.stream(
            asked.method,
            f"{self._url}{asked.path}",
            headers=asked.headers(self._token),
            content=asked.content,
            extensions={"timeout": asked.timeouts},
        )
