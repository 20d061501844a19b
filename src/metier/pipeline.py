"""THE FLOW. Every act of Metier is one call through `run`:

    validate ──► authorize ──► approve ──► prepare ─ [intent recorded] ─► execute ──► [outcome recorded]
        └─► Refused  └─► Refused   └─► Pending | Refused └─► Refused          └─► Completed | Failed

Four stages, each a function that takes the type the previous one made (`Call → ValidCall → AuthorizedCall →
ApprovedCall → Ready`), so none can be left out or moved; the last has two halves, and between them the intent is
recorded. What no sandbox here can run safely is refused in the first half. Nothing runs that was not recorded first,
and whatever ran leaves its outcome in the record, also when the caller went away. How a call ends is always a value.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, final

import anyio
from msgspec import Struct

from metier.catalog.catalog import Catalog
from metier.errors import MetierError
from metier.execute import Workshop, execute, prepare
from metier.gate.approve import approve
from metier.gate.authorize import authorize
from metier.gate.situation import Situation
from metier.gate.validate import validate
from metier.model.call import ApprovedCall, Call, ValidCall
from metier.model.outcome import Failed, Outcome, Refused
from metier.model.ports import Operations
from metier.model.skill import Tool
from metier.record.recorder import Recorder

LAST_WORD_SECONDS: Final = 5.0
"""How long a cancelled call may take to write its outcome."""


@final
class House(Struct, frozen=True, kw_only=True):
    """What the stages work with. One call keeps the one it started with."""

    tools: Mapping[str, Tool]
    catalog: Catalog
    look: Callable[[ValidCall], Awaitable[Situation]]
    operations: Operations
    recorder: Recorder
    workshop: Workshop


async def run(call: Call, house: House) -> Outcome:
    """Take one call all the way."""
    valid = validate(call, tools=house.tools, catalog=house.catalog)
    if isinstance(valid, Refused):
        return await house.recorder.refused(call, valid)
    try:
        situation = await house.look(valid)
    except MetierError as error:
        unknown = Refused(
            call_id=call.id, code="record_unavailable", reasons=(error.message,), remedy=error.remedy
        )
        return await house.recorder.refused(call, unknown)
    authorized = authorize(valid, situation)
    if isinstance(authorized, Refused):
        return await house.recorder.refused(call, authorized)
    approved = approve(authorized)
    if not isinstance(approved, ApprovedCall):
        return await house.recorder.refused(call, approved)
    ready = await prepare(approved, house.workshop)
    if isinstance(ready, Refused):
        return await house.recorder.refused(call, ready)
    intent = await house.recorder.intent(approved)
    if isinstance(intent, Refused):
        return intent
    outcome: Outcome = Failed(
        call_id=call.id, code="interrupted", message="the caller went away before it ended"
    )
    try:
        outcome = await execute(ready, house.operations, house.workshop)
    finally:
        with anyio.move_on_after(LAST_WORD_SECONDS, shield=True):
            outcome = await house.recorder.outcome(intent, outcome)
    return outcome
