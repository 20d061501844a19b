"""What was approved runs: by whoever asked where he waits for it, else here, or under the configuration of the project it was asked in."""

from collections.abc import Awaitable, Callable

import anyio
from anyio import to_thread

from metier.config.again import read_where_asked
from metier.config.settings import Settings
from metier.gate.shown import real_project
from metier.model.approval import Approval
from metier.record.approvals import find
from metier.record.database import Database
from metier.runtime.resume import resume
from metier.runtime.waiting import LEASE_SECONDS, POLL_SECONDS


async def take_up(settings: Settings, approval: str, here: Callable[[str], Awaitable[object]]) -> object:
    """How it ended; how the request stands, where its caller took it up himself.

    Raises:
        MetierError: when configuration or state cannot be used.
    """
    found = await to_thread.run_sync(look, settings, approval)
    with anyio.move_on_after(LEASE_SECONDS):
        while found is not None and found.waited_for and found.state == "approved":
            await anyio.sleep(POLL_SECONDS)
            found = await to_thread.run_sync(look, settings, approval)
    if found is not None and found.state == "spent":
        return found
    project = found.shown.project if found is not None and found.shown is not None else ""
    if not project or project == await to_thread.run_sync(real_project, settings.project):
        return await here(approval)
    return await resume(await to_thread.run_sync(read_where_asked, settings, project), approval)


def look(settings: Settings, approval: str) -> Approval | None:
    """How a request stands. Blocking.

    Raises:
        MetierError: when the state cannot be used.
    """
    with Database.open(settings.database) as database:
        return find(database, approval)
