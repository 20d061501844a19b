"""A call under an id that its door chose: however often it is asked for, it begins once, because the record takes an id once."""

from metier.model.digest import Json
from metier.model.outcome import Outcome, Pending
from metier.runtime import Runtime
from metier.runtime.asked import name_of


async def call_once(
    runtime: Runtime,
    tool: str,
    arguments: Json,
    *,
    id: str,
    wait: float = 0.0,
    waits: bool = False,
    unattended: bool = False,
) -> Outcome:
    """As `Runtime.call`. `id` is nothing that a client can choose freely: it names the call on the record.

    Args:
        waits: who asks will wait by himself, with `Runtime.wait_for`.
    """
    engine = runtime._engine  # pyright: ignore[reportPrivateUsage]
    named = engine.seen.internal(name_of(tool))
    made = runtime._call(  # pyright: ignore[reportPrivateUsage]
        named, arguments, unattended=unattended, waits=waits or wait > 0, id=id
    )
    outcome = await engine.run(made)
    if not isinstance(outcome, Pending) or wait <= 0:
        return outcome
    return await runtime.wait_for(outcome, wait)
