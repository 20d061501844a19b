"""ApprovedCall → Outcome: finds what the call's entry names and runs it."""

import logging
from typing import Final

from anyio import to_thread

from metier.errors import MetierError
from metier.model.call import ApprovedCall
from metier.model.entry import Operation
from metier.model.outcome import Completed, Failed
from metier.model.ports import Operations

_log: Final = logging.getLogger("metier.execute")


async def execute(approved: ApprovedCall, operations: Operations) -> Completed | Failed:
    """Run the call. Whatever goes wrong inside is a `Failed`; only a cancellation comes out as an exception."""
    valid = approved.authorized.valid
    match valid.tool.entry:
        case Operation(module=module, operation=operation):
            function = operations.find(module, operation)
        case _:
            function = None
    if function is None:
        message = (
            f"nothing here can run {valid.tool.name!r}; its kind of entry needs a sandbox this version lacks"
        )
        return Failed(call_id=valid.call.id, code="internal", message=message)
    try:
        return await to_thread.run_sync(function, approved)
    except MetierError as error:
        return Failed(call_id=valid.call.id, code="internal", message=str(error))
    except Exception:  # noqa: BLE001  what runs here is not ours to know, and its caller is owed an outcome
        _log.exception("call %s of %s failed", valid.call.id, valid.tool.name)
        message = (
            f"{valid.tool.name!r} failed with an error of its own; the log of the program has the details"
        )
        return Failed(call_id=valid.call.id, code="internal", message=message)
