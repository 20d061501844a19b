"""Pipes to and from a child: output kept up to a limit, input fed as it is taken.

Beyond its limit output is still read and thrown away, so that a program that talks too much is not stopped by it
and our memory stays flat. Nobody waits for the other end to close: a grandchild may hold it open for ever.
"""

import os
from contextlib import suppress
from types import TracebackType
from typing import Final, Self, final

import anyio

from metier.sandbox.wire_text import keep_last

_AT_ONCE: Final = 65_536
_ENDLESS_PER_SECOND: Final = 4_194_304
"""Bytes that are read in a second of what has no end, so that it does not keep us busy for as long as it likes."""


@final
class Capture:
    """Reads one pipe. `theirs` is the end for the child; close it (by `close_theirs`) once the child has it."""

    def __init__(self, limit: int, *, endless: bool = False) -> None:
        """Of what is `endless` the last is kept, not the first."""
        self._limit = limit
        self._endless = endless
        self._ours, self.theirs = os.pipe()
        os.set_blocking(self._ours, False)
        self._kept = bytearray()
        self.total = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close_theirs()
        os.close(self._ours)

    def close_theirs(self) -> None:
        if self.theirs >= 0:
            os.close(self.theirs)
            self.theirs = -1

    @property
    def data(self) -> bytes:
        return bytes(self._kept)

    @property
    def truncated(self) -> bool:
        return self.total > self._limit

    async def run(self) -> None:
        """Read until the other end is closed, or this is cancelled."""
        while True:
            await anyio.wait_readable(self._ours)
            before = self.total
            if not self._take():
                return
            if self._endless:
                await anyio.sleep((self.total - before) / _ENDLESS_PER_SECOND)

    def finish(self) -> None:
        """Take what is in the pipe now, without waiting; the program behind it has ended."""
        for _ in range(64):  # a pipe holds far less: whoever still writes is not the program we waited for
            if not self._take():
                return

    def _take(self) -> bool:
        try:
            data = os.read(self._ours, _AT_ONCE)
        except BlockingIOError:
            return False
        self.total += len(data)
        room = self._limit - len(self._kept)
        if self._endless:
            keep_last(self._kept, data, self._limit)
        elif room > 0:
            self._kept += data[:room]
        return bool(data)


@final
class Feed:
    """Writes one pipe. `theirs` is the end for the child."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        self.theirs, self._ours = os.pipe()
        os.set_blocking(self._ours, False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in (self.theirs, self._ours):
            with suppress(OSError):
                os.close(each)

    async def run(self) -> None:
        """Write all of it, then close; stop early when nobody reads any more."""
        rest = self._data
        try:
            while rest:
                await anyio.wait_writable(self._ours)
                rest = rest[os.write(self._ours, rest[:_AT_ONCE]) :]
        except BrokenPipeError:
            pass
        os.close(self._ours)
        self._ours = -1
