"""While something runs it is asked, several times a second, whether it still may: everything may have been stopped, the
call cancelled, its skill disabled, by whatever process. And what could not be written at once is written down."""

import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import anyio
from anyio import CapacityLimiter, to_thread

from metier.errors import MetierError
from metier.host.running import Running
from metier.record.calls import cancelled_in, this_process
from metier.record.database import Database
from metier.record.stop import stopped_in
from metier.runtime.state import State
from metier.sandbox.beat import BEAT, on_beat

PATIENCE: Final = 5.0
"""So long a run goes on while nobody can tell whether it still may."""


async def guard(
    state: State, running: Running, refresh: Callable[[], Awaitable[object]] | None = None
) -> None:
    """Until cancelled."""
    process = this_process()
    # A thread of its own: however much others have to do, what is to be stopped is stopped.
    own = CapacityLimiter(1)
    known = time.monotonic()
    while True:
        await anyio.sleep(on_beat(BEAT / 2))
        if running.unsettled:
            with suppress(RuntimeError):
                await running.settle(state.disable)
        if not running.skills:
            known = time.monotonic()
        else:
            # Where no thread is to be had (RuntimeError), or somebody else is writing, the next look may tell.
            with suppress(MetierError, OSError, RuntimeError):
                stopped, cancelled = await to_thread.run_sync(_wishes, state.database, process, limiter=own)
                if stopped:
                    running.stop_all(stopped)
                for call_id, by in cancelled.items():
                    running.cancel(call_id, by)
                known = time.monotonic()
                if refresh is not None:
                    await refresh()
            if time.monotonic() - known > PATIENCE:
                running.stop_all("whether it may go on could not be read from the state")


def _wishes(database: Database, process: str) -> tuple[str, dict[str, str]]:
    with database.reading() as connection:
        return stopped_in(connection), cancelled_in(connection, process)
