"""What happens in the host, heard by the server: in its own process where that is the host, else over the host's line.

It is for open pages, so what is missed while there is no host, or while it changes, is no loss: they look again when it is there.
"""

from typing import Final

import anyio

from metier.doors.http.live import Live
from metier.errors import MetierError
from metier.kernel.host_line import HostLine
from metier.kernel.operation import OperationError
from metier.runtime.engine import Engine
from metier.sandbox.beat import on_beat

_AGAIN_SECONDS: Final = 2.0


async def hear(engine: Engine, live: Live) -> None:
    """Until cancelled."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_here, engine, live)
        tasks.start_soon(_elsewhere, engine, live)


async def _here(engine: Engine, live: Live) -> None:
    """This process may become the host later."""
    while True:
        hosting = await engine.kernel.hosted()
        with hosting.events.listening(live.happened):
            await hosting.ended.wait()


async def _elsewhere(engine: Engine, live: Live) -> None:
    while True:
        if engine.kernel.hosting is None and live.heard:
            try:
                async with HostLine(engine.seen.settings.home).events() as told:
                    async for each in told:
                        live.happened(each)
            except (MetierError, OperationError):
                pass  # there is none, it went away, or it has too much to do
        await anyio.sleep(on_beat(_AGAIN_SECONDS))
