"""Who runs now and who waits: first come, first served, and not without end."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final, final

import anyio

WAITING_MOST: Final = 512


class Full(Exception):
    """Too many wait already."""


@final
class Turns:
    """A bounded number of runs at once, and a bounded number that wait for them."""

    def __init__(self, at_once: int | None = None) -> None:
        self._at_once = at_once or max(4, 4 * (os.cpu_count() or 1))
        self._free: anyio.Semaphore | None = None
        self._waiting = 0

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[None]:
        """Raises Full at once when too many wait."""
        if self._free is None:
            self._free = anyio.Semaphore(self._at_once, fast_acquire=True)
        if self._waiting >= WAITING_MOST:
            raise Full(f"{self._at_once} runs are under way and {WAITING_MOST} wait; try again later")
        self._waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._free.release()
