"""Our lines to a guest: sent at once as far as they fit, and never waited for where that could hold up a run."""

import os
from collections import deque
from collections.abc import Callable
from typing import Final, final

import anyio

MOST_WAITING: Final = 1_048_576
"""Bytes of answers a guest may leave unread before further ones wait; refusals that pile up so far end the run."""


@final
class Outgoing:
    """One descriptor, which is not blocking and stays the caller's."""

    def __init__(self, write_fd: int, never_read: Callable[[], None]) -> None:
        """`never_read` is called when far too much waits to be read."""
        self._write_fd = write_fd
        self._never_read = never_read
        self._lines: deque[memoryview] = deque()
        self.waiting = 0
        """Bytes that the guest has not taken yet."""
        self._most_waiting = MOST_WAITING
        self._deaf = False
        self._wake = anyio.Event()
        self._room = anyio.Event()

    def make_room(self, size: int) -> None:
        """Let so many bytes wait besides answers."""
        self._most_waiting = size + 2 * MOST_WAITING

    async def until_room(self) -> None:
        """Until the guest has read enough for one more line."""
        while self.waiting > MOST_WAITING:
            await self._room.wait()

    def post(self, line: bytes) -> None:
        """Send a line, at once as far as it fits. Never waits: what does not fit is sent by `run`."""
        rest = memoryview(line)
        if not self._lines:
            rest = rest[self._push(rest) :]
        if not rest or self._deaf:
            return
        self._lines.append(rest)
        self.waiting += len(rest)
        self._wake.set()
        if self.waiting > self._most_waiting:
            self._never_read()

    async def run(self) -> None:
        """Send what did not fit at once, until cancelled."""
        while True:
            await self._wake.wait()
            self._wake = anyio.Event()
            while self._lines:
                try:
                    await anyio.wait_writable(self._write_fd)
                except (OSError, anyio.ClosedResourceError):
                    self._deaf = True
                sent = len(self._lines[0]) if self._deaf else self._push(self._lines[0])
                self.waiting -= sent
                self._lines[0] = self._lines[0][sent:]
                if not self._lines[0]:
                    self._lines.popleft()
                if self.waiting <= MOST_WAITING:
                    self._room.set()
                    self._room = anyio.Event()

    def _push(self, data: memoryview) -> int:
        """How much of `data` could be written without waiting."""
        try:
            return os.write(self._write_fd, data)
        except BlockingIOError:
            return 0
        except OSError:
            self._deaf = True  # gone; the reader sees how it ended
            return len(data)
