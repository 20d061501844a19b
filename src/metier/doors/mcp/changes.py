"""Telling clients that what they were shown has changed: the older generation by a notification, the newer over a stream it opens."""

import logging
from typing import TYPE_CHECKING, Final, final

import anyio
import mcp_types as types
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ToolsListChanged,
)

from metier.model.skill import Skill, Tool
from metier.runtime.engine import Engine

if TYPE_CHECKING:
    from mcp.server.connection import Connection
    from mcp.server.session import ServerSession

    from metier.doors.mcp.peer import Context

_LOOK_SECONDS: Final = 0.25
_MOST: Final = 1_024
_SEND_SECONDS: Final = 5.0
_log: Final = logging.getLogger("metier.mcp")


@final
class Changes:
    """Belongs to one loop."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._bus = InMemorySubscriptionBus()
        self._sessions: dict[int, ServerSession] = {}
        self._listening = ListenHandler(self._bus, max_subscriptions=_MOST, max_buffered_events=16)

    async def connected(self, ctx: "Context", _: types.NotificationParams | None) -> None:
        """Somebody of the older generation is there from now on."""
        connection: Connection = ctx.session._connection  # pyright: ignore[reportPrivateUsage]  the SDK offers no other way to its end
        if id(connection) in self._sessions:  # who says it again is there once, and so is what ends with him
            return
        if len(self._sessions) >= _MOST:
            del self._sessions[next(iter(self._sessions))]
        self._sessions[id(connection)] = ctx.session
        connection.exit_stack.callback(self._sessions.pop, id(connection), None)

    async def listen(
        self, ctx: "Context", params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Somebody of the newer generation listens, until he leaves. To lists: of single resources nobody is ever told."""
        lists = params.notifications.model_copy(update={"resource_subscriptions": None})
        return await self._listening(ctx, params.model_copy(update={"notifications": lists}))

    async def follow(self) -> None:
        """Until cancelled."""
        before = self._shown()
        catalog = self._engine.seen.catalog
        while True:
            await anyio.sleep(_LOOK_SECONDS)
            if self._engine.seen.catalog is catalog:
                continue
            catalog = self._engine.seen.catalog
            now = self._shown()
            if now != before:
                before = now
                await self._tell()

    def close(self) -> None:
        """End the streams of the newer generation."""
        self._listening.close()

    def _shown(self) -> tuple[tuple[Tool, ...], tuple[Skill, ...]]:
        """What lists are made of, as far as it lies in the catalog."""
        skills = tuple(self._engine.seen.catalog.usable())
        return tuple(tool for skill in skills for tool in skill.tools), skills

    async def _tell(self) -> None:
        for event in (ToolsListChanged(), PromptsListChanged(), ResourcesListChanged()):
            await self._bus.publish(event)
        async with anyio.create_task_group() as tasks:
            for session in tuple(self._sessions.values()):
                tasks.start_soon(_told, session)


async def _told(session: "ServerSession") -> None:
    """One that does not read, or is gone, keeps nobody else from hearing it."""
    try:
        with anyio.move_on_after(_SEND_SECONDS):
            await session.send_tool_list_changed()
            await session.send_prompt_list_changed()
            await session.send_resource_list_changed()
    except Exception as error:  # noqa: BLE001  the SDK's own, whatever it raises; the others are told all the same
        _log.info("a client was not told of changes: %s", type(error).__name__)
