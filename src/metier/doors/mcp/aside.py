"""What is not done on the loop: reading large messages, and waiting for the other side.

A thread of the loop's own is waited for when the process ends. One that waits for a line which never comes would hold it for good, so
that is done in threads which keep nobody from ending.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar, TypeVarTuple, Unpack, final

import anyio
from anyio import from_thread, to_thread
from anyio.lowlevel import current_token

from metier.doors.mcp.messages import Bad, read
from metier.model.digest import Json

_SMALL: Final = 16_384
"""Bytes beyond which reading a message would hold up everybody else."""
_LARGE_AT_ONCE: Final = 2
"""Threads for that, so that nobody else's are used up."""
_T = TypeVar("_T")
_Given = TypeVarTuple("_Given")


async def aside(act: Callable[[Unpack[_Given]], _T], *given: *_Given) -> _T:
    """What `act` gives. Whoever is cancelled meanwhile leaves it to itself.

    Raises:
        OSError: as `act` does; also where the file was closed.
    """
    made: list[_T] = []
    failed: list[OSError] = []
    ended = anyio.Event()
    token = current_token()

    def run() -> None:
        try:
            made.append(act(*given))
        except OSError as error:
            failed.append(error)
        except ValueError as error:
            failed.append(OSError(f"the file was closed: {error}"))
        finally:
            with suppress(RuntimeError):  # nobody is there any more
                from_thread.run_sync(ended.set, token=token)

    threading.Thread(target=run, name="metier-mcp", daemon=True).start()
    await ended.wait()
    if failed:
        raise failed[0]
    return made[0]


@final
class Reader:
    """Reads messages without holding anybody up. Belongs to one loop."""

    def __init__(self) -> None:
        self._limiter = anyio.CapacityLimiter(_LARGE_AT_ONCE)

    async def __call__(self, raw: bytes) -> dict[str, Json] | Bad:
        """As `read` does."""
        return read(raw) if len(raw) < _SMALL else await to_thread.run_sync(read, raw, limiter=self._limiter)
