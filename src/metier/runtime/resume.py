"""What was approved is run by whoever approved it, unless the caller waits for it and runs it himself."""

import anyio
from anyio import to_thread

from metier.config.settings import Settings
from metier.model.approval import Approval
from metier.model.outcome import Outcome
from metier.record.approvals import find
from metier.record.database import Database
from metier.runtime import at_terminal
from metier.runtime.waiting import LEASE_SECONDS, POLL_SECONDS


async def resume(settings: Settings, approval_id: str) -> Outcome | Approval:
    """Run the stored call; where its caller waits and took it up himself, how the request stands.

    Raises:
        MetierError: when configuration or state cannot be used.
    """
    with anyio.move_on_after(LEASE_SECONDS):
        while (found := await to_thread.run_sync(_look, settings, approval_id)) is not None:
            if not found.waited_for or found.state != "approved":
                break
            await anyio.sleep(POLL_SECONDS)
        if found is not None and found.state == "spent":
            return found
    async with at_terminal(settings) as runtime:
        return await runtime._engine.resume(approval_id, of=None)  # pyright: ignore[reportPrivateUsage]


def _look(settings: Settings, approval_id: str) -> Approval | None:
    with Database.open(settings.database) as database:
        return find(database, approval_id)
