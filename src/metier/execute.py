"""ApprovedCall → Outcome: finds what the call's entry names and runs it."""

from anyio import to_thread

from metier.errors import MetierError
from metier.model.call import ApprovedCall
from metier.model.entry import Operation
from metier.model.outcome import Completed, Failed
from metier.model.ports import Operations


async def execute(approved: ApprovedCall, operations: Operations) -> Completed | Failed:
    """Run the call. What went wrong inside is a `Failed`; only cancellation and our own faults come out as exceptions."""
    valid = approved.authorized.valid
    match valid.tool.entry:
        case Operation(module=module, operation=operation):
            function = operations.find(module, operation)
        case _:
            function = None
    if function is None:
        return Failed(
            call_id=valid.call.id,
            code="internal",
            message=f"nothing here can run {valid.tool.name!r}; its kind of entry needs a sandbox this version lacks",
        )
    try:
        return await to_thread.run_sync(function, approved)
    except MetierError as error:
        return Failed(call_id=valid.call.id, code="internal", message=str(error))
