"""A call that the owner himself makes of a skill's tool, as `metier skills test` does: through every stage and onto the record."""

import secrets

from metier.catalog.here import owner
from metier.model.call import Call, Principal
from metier.model.digest import Json
from metier.model.outcome import Outcome
from metier.runtime import Runtime


async def call_as_owner(runtime: Runtime, tool: str, arguments: Json) -> Outcome:
    """The outcome of the call. What a rule wants to be asked is refused: nobody waits here for an answer."""
    call = Call(
        id=f"call_{secrets.token_hex(12)}",
        principal=Principal(id=owner(), kind="human", roles=frozenset({"owner"})),
        tool=tool,
        arguments=arguments,
        fleeting=True,
    )
    return await runtime._run(call)  # pyright: ignore[reportPrivateUsage]
