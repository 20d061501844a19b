"""A call whose arguments are still text, for a door that is given them so."""

from metier.model import strictjson
from metier.model.outcome import Outcome
from metier.runtime import Runtime
from metier.runtime.asked import unreadable


async def call_written(
    runtime: Runtime, tool: str, written: str | bytes, *, unattended: bool = False
) -> Outcome:
    """Call a tool with arguments that are still text. What is no strict JSON is a call too, and a refused one."""
    try:
        arguments = strictjson.loads(written)
    except ValueError as error:
        call = runtime._call(tool, None, unattended=unattended)  # pyright: ignore[reportPrivateUsage]
        refused = unreadable(call.id, f"the arguments are not strict JSON: {error}")
        return await runtime._engine.run(call, refused)  # pyright: ignore[reportPrivateUsage]
    return await runtime.call(tool, arguments, unattended=unattended)
