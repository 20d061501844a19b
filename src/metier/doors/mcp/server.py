"""The SDK's server with our handlers. What stands around each request, from the outside: the guard, which lets no fault of ours reach
the wire; the boundary, which seals what questions carry; then the handler.
"""

import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, final

import mcp_types as types
from anyio import to_thread
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from metier import __version__
from metier.doors.mcp.artifacts import Artifacts
from metier.doors.mcp.calls import Calls
from metier.doors.mcp.changes import Changes
from metier.doors.mcp.lasting import Lasting
from metier.doors.mcp.peer import Peer, may_use
from metier.doors.mcp.prompts import Prompts
from metier.doors.mcp.questions import SECONDS
from metier.doors.mcp.refusals import SETUP
from metier.doors.mcp.resources import Resources
from metier.doors.mcp.skills import EXTENSION, GetSkillParams, Skills
from metier.doors.mcp.tools import page, shown_to
from metier.errors import MetierError
from metier.model.text import one_line
from metier.runtime import Runtime
from metier.runtime.engine import Engine

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult

    from metier.doors.mcp.peer import Context, Who

NAME: Final = "metier"
_ABOUT: Final = (
    "Every tool here runs behind one gate: some calls are refused with a reason, some wait until a person decides. What waits has "
    "not run; do not call it again, tell the user how to decide it. Read a skill with read_skill before you use it."
)
_LONGEST_ABOUT: Final = 20_000
_TELLS: Final = frozenset({"initialize", "server/discover"})
"""What is answered with instructions. They are made for who asks, so they are put in here and not kept with the server."""
_log: Final = logging.getLogger("metier.mcp")


@final
class McpServer(Server[dict[str, Any]]):
    """One for each process. Who asks is found anew for every request."""

    def __init__(
        self,
        engine: Engine,
        who: "Who",
        *,
        decide_at: Callable[[str], str] = lambda _: "",
    ) -> None:
        """`decide_at` gives the page where an approval can be decided; empty where there is none."""
        self._engine = engine
        self._who = who
        artifacts = Artifacts()
        resources = Resources(engine, who, artifacts)
        prompts = Prompts(engine, who)
        self.changes: Final = Changes(engine)
        self.lasting: Final = Lasting(engine.state.database)
        super().__init__(
            NAME,
            version=__version__,
            title="Metier",
            get_tool_input_schema=lambda _: None,  # what it would check, the gate checks
            on_list_tools=self._tools,
            on_call_tool=Calls(engine, who, artifacts, decide_at=decide_at),
            on_list_resources=resources.list,
            on_list_resource_templates=resources.templates,
            on_read_resource=resources.read,
            on_list_prompts=prompts.list,
            on_get_prompt=prompts.get,
            on_subscriptions_listen=self.changes.listen,
        )
        self.add_notification_handler(
            "notifications/initialized", types.NotificationParams, self.changes.connected
        )
        skills = Skills(engine, who)
        self.add_request_handler("skills/list", types.PaginatedRequestParams, skills.list)
        self.add_request_handler("skills/get", GetSkillParams, skills.get)
        self.extensions[EXTENSION] = {}
        # The key lives as long as this process: so do the questions that it seals.
        sealed = RequestStateSecurity(
            keys=[os.urandom(32)], ttl=SECONDS, bind_principal=self._principal, audience=NAME
        )
        self.middleware[:] = [self._guard, RequestStateBoundary(sealed, default_audience=NAME)]

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """As the SDK makes them, and with the word that lists change while connected."""
        changes = NotificationOptions(tools_changed=True, prompts_changed=True, resources_changed=True)
        return super().create_initialization_options(changes, experimental_capabilities, extensions)

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> types.ServerCapabilities:
        """As the SDK makes them. It thinks that who can listen can listen to single resources, of which nobody is ever told."""
        made = super().get_capabilities(
            notification_options, experimental_capabilities, extensions, protocol_version=protocol_version
        )
        if made.resources is not None:
            made.resources.subscribe = False
        return made

    async def _about(self, peer: Peer) -> str:
        """What a model is told first: the skills there are, as in a prompt. Who is let in no more is told of none."""
        try:
            await self._engine.refresh()
            if not await may_use(peer, self._engine.state.database):
                return _ABOUT
        except MetierError:  # whatever is asked next says what is wrong
            return _ABOUT
        skills = await to_thread.run_sync(Runtime(self._engine, peer.principal).prompt)
        return f"{_ABOUT}\n\n{skills}" if len(skills) <= _LONGEST_ABOUT else _ABOUT

    def _principal(self, ctx: "Context") -> str:
        peer = self._who(ctx)
        return f"{peer.principal.id}\n{peer.connection}"

    async def _tools(
        self, ctx: "Context", params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        every = await shown_to(self._engine, self._who(ctx))
        begin, end, after = page(params, len(every))
        return types.ListToolsResult(tools=every[begin:end], next_cursor=after)

    async def _guard(self, ctx: "Context", call_next: "CallNext") -> "HandlerResult":
        peer = self._who(ctx)
        try:
            if ctx.request_id is None:
                return await call_next(ctx)
            made = await self.lasting.while_let_in(peer, lambda: call_next(ctx))
            if ctx.method in _TELLS and isinstance(made, dict):
                made = {**made, "instructions": await self._about(peer)}
            return made
        except (MCPError, ValidationError):
            raise
        except MetierError as error:
            _log.warning("a request of MCP was not done: %s", error)
            said = SETUP if peer.remote else str(error)
            raise MCPError(types.INTERNAL_ERROR, one_line(said, 500)) from None
        except Exception as error:
            _log.exception("a request of MCP broke Metier")
            raise MCPError(types.INTERNAL_ERROR, "a fault of Metier; its log has the details") from error
