"""A call that the owner himself makes, as `metier skills test` and `metier settings` do: through every stage and onto the record."""

import secrets

from metier.catalog.here import owner
from metier.config.settings import Settings
from metier.model.call import Call, Principal
from metier.model.digest import Json
from metier.model.outcome import Outcome
from metier.runtime import Runtime, at_terminal


async def call_as_owner(runtime: Runtime, tool: str, arguments: Json) -> Outcome:
    """The outcome of the call. What a rule wants to be asked is refused: nobody waits here for an answer."""
    call = Call(
        id=f"call_{secrets.token_hex(12)}",
        principal=Principal(id=owner(), kind="human", roles=frozenset({"owner"})),
        tool=tool,
        arguments=arguments,
        fleeting=True,
    )
    return await runtime._engine.run(call)  # pyright: ignore[reportPrivateUsage]


async def operate(settings: Settings, tool: str, arguments: dict[str, Json]) -> Outcome:
    """The owner at the terminal has an operation of a module done.

    Raises:
        MetierError: when configuration or state cannot be used.
    """
    async with at_terminal(settings) as runtime:
        return await call_as_owner(runtime, tool, arguments)
