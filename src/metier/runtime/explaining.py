"""`metier explain`: opens what there is, and has the gate asked about a call that is not made."""

from collections.abc import Mapping

import anyio

from metier.config.settings import Settings
from metier.gate.explain import Explained
from metier.model.digest import Json
from metier.model.outcome import Refused
from metier.model.skill import Tool
from metier.runtime import at_terminal
from metier.runtime.explained_in import explained_in
from metier.runtime.state import State


def explained(
    settings: Settings, tool: str, arguments: Json, *, principal: str = "", level: str | None = None
) -> Explained | Refused:
    """What every layer would say. Of `operator.run`: to a file that is allowed nothing, run from here.

    Args:
        principal: who would ask; left empty, who does: the owner runs files, an agent calls tools.

    Raises:
        MetierError: when configuration or state cannot be used.
    """
    state = State(lambda: settings)
    try:
        return explained_in(
            state,
            state.look(),
            tool,
            arguments,
            principal=principal,
            level=level,
            operations=lambda name: anyio.run(_operations, settings, name),
        )
    finally:
        state.database.close()


async def _operations(settings: Settings, tool: str) -> Mapping[str, Tool]:
    """What modules offer, ours and those of skills that live."""
    async with at_terminal(settings) as runtime:
        kernel = runtime._engine.kernel  # pyright: ignore[reportPrivateUsage]
        await kernel.ready(tool, {})
        return kernel.tools({})
