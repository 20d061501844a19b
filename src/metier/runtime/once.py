"""A call under an id that its door chose: however often it is asked for, it begins once, because the record takes an id once."""

from metier.model.digest import Json
from metier.model.outcome import Outcome, Pending
from metier.runtime import Runtime
from metier.runtime.asked import name_of


async def call_once(
    runtime: Runtime, tool: str, arguments: Json, *, id: str, wait: float = 0.0, unattended: bool = False
) -> Outcome:
    """As `Runtime.call`. `id` is nothing that a client can choose freely: it names the call on the record."""
    engine = runtime._engine  # pyright: ignore[reportPrivateUsage]
    named = engine.seen.internal(name_of(tool))
    made = runtime._call(named, arguments, unattended=unattended, id=id)  # pyright: ignore[reportPrivateUsage]
    outcome = await engine.run(made)
    if not isinstance(outcome, Pending) or wait <= 0:
        return outcome
    return await runtime.wait_for(outcome, wait)
