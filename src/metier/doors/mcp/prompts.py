"""Skills that a person may call by name, as prompts. Getting one reads the skill through the gate."""

from typing import TYPE_CHECKING, Final, final

import mcp_types as types
from mcp.shared.exceptions import MCPError

from metier.doors.mcp.peer import may_use
from metier.doors.mcp.skill_files import asked, why_not
from metier.doors.mcp.tools import page
from metier.model.outcome import Completed
from metier.model.skill import Skill
from metier.model.text import one_line
from metier.runtime.engine import Engine

if TYPE_CHECKING:
    from metier.doors.mcp.peer import Context, Who

_REQUEST: Final = "request"
_LONGEST: Final = 100_000
_WRITTEN: Final = frozenset({"metier", "amber", "openclaw", "agent_skills", "friday"})
"""Dialects whose skills have instructions. The others are code, and their tools are all there is of them."""


@final
class Prompts:
    """Belongs to one loop."""

    def __init__(self, engine: Engine, who: "Who") -> None:
        self._engine = engine
        self._who = who

    async def list(
        self, ctx: "Context", params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        """Those that this principal could read."""
        peer = self._who(ctx)
        await self._engine.refresh()
        wanted = types.PromptArgument(name=_REQUEST, description="What it is to be used for", required=False)
        every = [
            types.Prompt(name=skill.name, description=one_line(skill.description, 500), arguments=[wanted])
            for skill in self._engine.seen.catalog.usable()
            if _is_one(skill)
        ]
        if not await may_use(peer, self._engine.state.database):
            every = []
        begin, end, after = page(params, len(every))
        return types.ListPromptsResult(prompts=every[begin:end], next_cursor=after)

    async def get(self, ctx: "Context", params: types.GetPromptRequestParams) -> types.GetPromptResult:
        """The instructions of one, and what it is wanted for.

        Raises:
            MCPError: when it cannot be read.
        """
        peer = self._who(ctx)
        given = params.arguments or {}
        request = given.get(_REQUEST) or ""
        if set(given) - {_REQUEST} or len(request) > _LONGEST:
            raise MCPError(
                types.INVALID_PARAMS, f"a prompt takes {_REQUEST!r} of at most {_LONGEST:,} characters"
            )
        await self._engine.refresh()
        listed = self._engine.seen.catalog.get(params.name)
        skill = listed.skill if listed is not None else None
        # Who is let in no more, and what is not listed for anybody: neither is told what there is.
        if skill is None or not _is_one(skill) or not await may_use(peer, self._engine.state.database):
            raise MCPError(types.INVALID_PARAMS, "there is no such prompt")
        outcome = await asked(self._engine, peer, params.name, None)
        if not isinstance(outcome, Completed) or not isinstance(outcome.value, str):
            raise MCPError(types.INVALID_PARAMS, one_line(why_not(peer, outcome), 500))
        said = f"{outcome.value}\n\n{request}" if request else outcome.value
        message = types.PromptMessage(role="user", content=types.TextContent(text=said))
        return types.GetPromptResult(description=one_line(skill.description, 500), messages=[message])


def _is_one(skill: Skill) -> bool:
    # What is for people only, an agent's connection cannot read either: nobody knows who typed it.
    return skill.user_may_invoke and skill.model_may_invoke and skill.dialect in _WRITTEN
