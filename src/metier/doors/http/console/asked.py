"""What a page has asked: operations, through the gate, in the name of who looks."""

from typing import TypeVar, final

import msgspec
from anyio import to_thread
from msgspec import Struct

from metier.doors.http.endpoint import Asking
from metier.gate.reachable import LOOKS_AT_RULES, WHILE_STOPPED
from metier.gate.roles import needed
from metier.model.digest import Json
from metier.model.outcome import Completed, Failed, Pending, Refused

_T = TypeVar("_T")


@final
class Unanswered(Struct, frozen=True, kw_only=True):
    """Why something is not shown."""

    why: str
    code: str = ""
    """Of an operation that failed: its own."""


async def asked(
    asking: Asking, operation: str, arguments: dict[str, Json], shape: type[_T]
) -> _T | Unanswered:
    """What `operation` answers, or in words why it does not. What he may not have is not asked for: a look leaves no refusal behind."""
    if lacking := await _lacking(asking, operation):
        return Unanswered(why=f"it takes the right {lacking!r}, which you do not have")
    if refused := await _refused_anyway(asking, operation):
        return Unanswered(why=refused)
    outcome = await asking.runtime.call(operation, arguments)
    match outcome:
        case Completed():
            return await to_thread.run_sync(lambda: msgspec.convert(outcome.value, shape))
        case Refused():
            return Unanswered(why="; ".join(outcome.reasons))
        case Failed(value={"message": str(message), **rest}):
            return Unanswered(why=message, code=str(rest.get("code", "")))
        case Failed():
            return Unanswered(why=outcome.message)
        case Pending():
            return Unanswered(why=f"a person has to decide that first: {outcome.approval_id}")


async def _refused_anyway(asking: Asking, operation: str) -> str:
    """Why nothing at all is done at the moment, this included."""
    engine = asking.serving.engine
    stopped = (await asking.serving.gatekeeper.steering()).stopped
    if stopped and operation not in WHILE_STOPPED:
        return f"everything is stopped ({stopped})"
    trouble = await to_thread.run_sync(engine.state.trouble, engine.seen)
    if trouble.why and not (trouble.rules and operation in LOOKS_AT_RULES):
        return f"what you wrote down for Metier cannot be used, so nothing is done: {trouble.why}"
    return ""


async def _lacking(asking: Asking, operation: str) -> str:
    """The right that he lacks for it. The gate decides all the same; this only keeps from asking for nothing."""
    engine = asking.serving.engine
    tool = engine.kernel.tools(engine.seen.tools).get(operation)
    right = needed(tool) if tool is not None else ""
    return right if right and right not in await asking.rights() else ""
