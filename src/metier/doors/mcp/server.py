"""The SDK's server with our handlers. What stands around each request, from the outside: the guard, which lets no fault of ours reach
the wire; the boundary, which seals what questions carry; then the handler.
"""

import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, final

import mcp_types as types
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from metier import __version__
from metier.catalog.here import owner
from metier.doors.mcp.artifacts import Artifacts
from metier.doors.mcp.calls import Calls
from metier.doors.mcp.changes import Changes
from metier.doors.mcp.peer import BUILT_IN, agent_of, standing_of
from metier.doors.mcp.prompts import Prompts
from metier.doors.mcp.questions import SECONDS
from metier.doors.mcp.resources import Resources
from metier.doors.mcp.skills import EXTENSION, GetSkillParams, Skills
from metier.doors.mcp.tools import listed, page
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
_SETUP: Final = (
    "the state cannot be used at the moment; any `metier` command on that machine says what is wrong"
)
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
        remote: bool = False,
    ) -> None:
        """`remote`: clients are not the local user, so nothing about this machine is said to them."""
        self._engine = engine
        self._remote = remote
        self._who = who
        artifacts = Artifacts()
        resources = Resources(engine, who, artifacts)
        prompts = Prompts(engine, who)
        self.changes: Final = Changes(engine)
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
        self.instructions = self._about()
        changes = NotificationOptions(tools_changed=True, prompts_changed=True, resources_changed=True)
        return super().create_initialization_options(changes, experimental_capabilities, extensions)

    def _about(self) -> str:
        """What a model is told first: the skills there are, as in a prompt."""
        skills = Runtime(self._engine, agent_of(BUILT_IN, owner())).prompt()
        return f"{_ABOUT}\n\n{skills}" if len(skills) <= _LONGEST_ABOUT else _ABOUT

    def _principal(self, ctx: "Context") -> str:
        peer = self._who(ctx)
        return f"{peer.principal.id}\n{peer.connection}"

    async def _tools(
        self, ctx: "Context", params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        peer = self._who(ctx)
        await self._engine.refresh()
        standing = await standing_of(peer, self._engine.state.database)
        offered = Runtime(self._engine, peer.principal)._offered  # pyright: ignore[reportPrivateUsage]
        every = listed(offered, standing)
        begin, end, after = page(params, len(every))
        return types.ListToolsResult(tools=every[begin:end], next_cursor=after)

    async def _guard(self, ctx: "Context", call_next: "CallNext") -> "HandlerResult":
        if ctx.method == "server/discover":
            self.instructions = self._about()
        try:
            return await call_next(ctx)
        except (MCPError, ValidationError):
            raise
        except MetierError as error:
            _log.warning("a request of MCP was not done: %s", error)
            said = _SETUP if self._remote else str(error)
            raise MCPError(types.INTERNAL_ERROR, one_line(said, 500)) from None
        except Exception as error:
            _log.exception("a request of MCP broke Metier")
            raise MCPError(types.INTERNAL_ERROR, "a fault of Metier; its log has the details") from error
