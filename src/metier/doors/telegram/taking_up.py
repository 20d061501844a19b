"""What was approved by Telegram runs: by whoever asked where he waits for it, else here, under the configuration of the project it was
asked in."""

import os
from collections.abc import Awaitable, Callable

import anyio
from anyio import to_thread

from metier.config.load import load
from metier.config.settings import Settings
from metier.errors import ConfigError
from metier.gate.shown import real_project
from metier.model.approval import Approval
from metier.record.approvals import find
from metier.record.database import Database
from metier.runtime.resume import resume
from metier.runtime.waiting import LEASE_SECONDS, POLL_SECONDS


async def take_up(settings: Settings, approval: str, here: Callable[[str], Awaitable[object]]) -> object:
    """How it ended; how the request stands, where its caller took it up himself.

    Args:
        here: runs it in this process, for what was asked in this process's own project.

    Raises:
        MetierError: when configuration or state cannot be used.
    """
    found = await to_thread.run_sync(_look, settings, approval)
    with anyio.move_on_after(LEASE_SECONDS):
        while found is not None and found.waited_for and found.state == "approved":
            await anyio.sleep(POLL_SECONDS)
            found = await to_thread.run_sync(_look, settings, approval)
    if found is not None and found.state == "spent":
        return found
    project = found.shown.project if found is not None and found.shown is not None else ""
    if not project or project == await to_thread.run_sync(real_project, settings.project):
        return await here(approval)
    return await resume(await to_thread.run_sync(_there, settings, project), approval)


def _look(settings: Settings, approval: str) -> Approval | None:
    with Database.open(settings.database) as database:
        return find(database, approval)


def _there(settings: Settings, project: str) -> Settings:
    """The configuration of the project a request comes from, which restricts it wherever somebody decides."""
    if not os.path.isdir(project):
        raise ConfigError("the project it was asked in is gone", remedy="Call again elsewhere")
    own = settings.files[0] if settings.files and os.path.exists(settings.files[0]) else None
    return load(config=own, home=settings.home, project=project)
