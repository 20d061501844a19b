"""THE FLOW. Every act of Metier is one call through `run`:

    validate ──► authorize ──► approve ──► prepare ─ [intent recorded] ─► execute ──► [outcome recorded]
        └─► Refused  └─► Refused   └─► Pending | Refused └─► Refused          └─► Completed | Failed

Four stages, each a function that takes the type the previous one made (`Call → ValidCall → AuthorizedCall →
ApprovedCall → Ready`), so none can be left out or moved; the last has two halves, and between them the intent is
recorded. What no sandbox here can run safely is refused in the first half, and before anybody is asked about it. Who
stands around calls (`around`: gate hooks, triggers) is heard once every layer let the call pass, and can only make the
answer stricter; what is to happen before a call does so once its intent is recorded, so never for one that is refused or
waits. The intent is written in one transaction that also asks once more whether the call may begin and uses up
what it needs (`terms`): somebody's word, a grant, a budget.
Nothing runs that was not recorded first, but for the few operations that can only end something: those wait for no record.
Whatever ran leaves its outcome in the record, also when the caller went away. How a call ends is always a value.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import final

from msgspec import Struct

from metier.catalog.catalog import Catalog
from metier.errors import MetierError
from metier.execute import execute
from metier.gate.approve import Given, approve, taken_up
from metier.gate.authorize import authorize
from metier.gate.desk import ask
from metier.gate.outputs import held_to_its_word
from metier.gate.reachable import only_takes_away
from metier.gate.situation import Situation, depending_on, hearing
from metier.gate.terms import terms
from metier.gate.validate import validate
from metier.model.call import ApprovedCall, Call, ValidCall
from metier.model.outcome import Failed, Outcome, Pending, Refused
from metier.model.ports import Around, Operations
from metier.model.skill import Tool
from metier.prepare import Workshop, nowhere, prepare
from metier.record.audit import Intent
from metier.record.recorder import Recorder, Unrecorded


@final
class House(Struct, frozen=True, kw_only=True):
    """What the stages work with. One call keeps the one it started with."""

    tools: Mapping[str, Tool]
    catalog: Catalog
    look: Callable[[ValidCall], Awaitable[Situation]]
    operations: Operations
    recorder: Recorder
    workshop: Workshop
    around: Around | None = None
    """Who has a word on calls, and is told how they ended; None where nobody has."""


async def run(call: Call, house: House) -> Outcome:
    """Take one call all the way."""
    recorder = house.recorder
    valid = validate(call, tools=house.tools, catalog=house.catalog, ground=house.workshop.ground)
    if isinstance(valid, Refused):
        return await recorder.refused(call, valid)
    try:
        situation = await house.look(valid)
    except MetierError as error:
        unknown = Refused(
            call_id=call.id, code="record_unavailable", reasons=(error.message,), remedy=error.remedy
        )
        return await recorder.refused(call, unknown, valid=valid)
    authorized = authorize(valid, situation)
    if house.around is not None and not isinstance(authorized, Refused):
        said = await house.around.before(valid)
        if said is not None:
            authorized = said if isinstance(said, Refused) else authorize(valid, hearing(situation, said))
    if isinstance(authorized, Refused):
        return await recorder.refused(call, authorized, valid=valid)
    approved = approve(authorized, situation)
    if not isinstance(approved, ApprovedCall):
        if (why := await nowhere(authorized, house.workshop)) is not None:  # nobody is asked in vain
            return await recorder.refused(call, why, valid=valid, authorized=authorized)
        answer = await ask(approved, authorized, situation, recorder)
        if not isinstance(answer, Given):
            return answer
        # It was asked before, and somebody said yes: it goes on as a call that was asked and is taken up.
        approved, situation = (
            taken_up(authorized, answer, situation),
            depending_on(situation, answer.around),
        )
    ready = await prepare(approved, house.workshop)
    if isinstance(ready, Refused):
        return await recorder.refused(call, ready, valid=valid, authorized=authorized)
    intent = await recorder.intent(approved, terms(approved, situation))
    if isinstance(intent, Unrecorded):
        if only_takes_away(valid.tool):  # it waits for nothing, and says itself what was not recorded
            return await execute(ready, house.operations, house.workshop)
        return intent.refused
    if not isinstance(intent, Intent):
        return intent
    began = time.monotonic()
    outcome: Outcome = Failed(
        call_id=call.id, code="interrupted", message="the caller went away before it ended"
    )
    returned: Outcome | None = None
    try:
        if house.around is not None:
            await house.around.begins(valid)
            began = time.monotonic()  # what came before it is not its own time
        returned = await execute(ready, house.operations, house.workshop)
        outcome = held_to_its_word(returned, valid.tool)
    finally:  # a caller who goes away does not stop it
        outcome = await recorder.outcome(intent, outcome, began=began, ran=ready.ran, returned=returned)
        if house.around is not None and not isinstance(outcome, Refused | Pending):
            house.around.after(valid, outcome)
    return outcome
