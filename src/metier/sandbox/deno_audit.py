"""What the engine was asked for and refused, read from its own audit on standard error.

The audit names accesses, allowed or not, so what was granted is taken out here. Code that is run can write on that
stream too, so it can accuse itself of more than it did. Programs that were refused are not in the engine's audit: our
runner adds them, and code that goes around the runner is refused all the same but not counted. So this is a count for
authors, not evidence. Every other text on the stream is the engine's own last words, which name files of the host: only
how it died is taken from them.
"""

import os
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, final

import anyio
import msgspec
from msgspec import Struct

from metier.model.job import Event
from metier.sandbox.wire_text import Events

_PIECE: Final = 65_536
_LONGEST_LINE: Final = 16_384
_MOST_LINES: Final = 20_000
"""So many are read; an honest run has hundreds."""
_NOTICED: Final = 0.002
_REST: Final = 4
"""Reading that took longer is followed by a rest of so many times as long: others want the loop too."""
_OUT_OF_MEMORY: Final = re.compile(rb"out of memory|memory allocation of \d+ bytes failed")
"""How the engine says it of its heap, and of what lies outside."""
_KINDS: Final = frozenset({"read", "write", "env", "net", "run", "ffi", "sys", "import"})


@final
class _Access(Struct, frozen=True):
    """One line of the audit."""

    permission: str
    value: str | None = None


_decode: Final = msgspec.json.Decoder(_Access).decode


@final
class Audit:
    """Reads the stream of one process. `theirs` is the end for it; closed by `close_theirs` once it has it."""

    def __init__(self, *, reads: Sequence[str], writes: Sequence[str], variables: Sequence[str]) -> None:
        self._granted = {"read": tuple(reads), "write": tuple(writes)}
        self._variables = frozenset(variables)
        self._ours, self.theirs = os.pipe()
        # The engine opens the stream by its name, perhaps as another user than the one who made it.
        os.fchmod(self.theirs, 0o622)
        os.set_blocking(self._ours, False)
        self._events = Events()
        self._cwd = ""
        self._rest = b""
        self._lines = 0
        self.out_of_memory = False

    @property
    def denials(self) -> tuple[Event, ...]:
        return self._events.seen

    async def run(self) -> None:
        """Read until the stream ends, or this is cancelled."""
        with suppress(OSError, anyio.ClosedResourceError):
            while True:
                await anyio.wait_readable(self._ours)
                began = time.thread_time()
                if not self._take():
                    return
                if (spent := time.thread_time() - began) > _NOTICED:
                    await anyio.sleep(spent * _REST)

    def finish(self) -> None:
        """Take what is there now; the process has ended."""
        with suppress(OSError):
            for _ in range(32):
                if not self._take():
                    return

    def close_theirs(self) -> None:
        if self.theirs >= 0:
            os.close(self.theirs)
            self.theirs = -1

    def close(self) -> None:
        self.close_theirs()
        if self._ours >= 0:
            os.close(self._ours)
            self._ours = -1

    def _take(self) -> bool:
        try:
            data = os.read(self._ours, _PIECE)
        except BlockingIOError:
            return False
        if self._lines > _MOST_LINES:  # it floods us; only how it died is still of interest
            self._last_words(data)
            return bool(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._lines += len(lines)
        self._rest = self._rest[-_LONGEST_LINE:]
        for line in lines:
            self._read(line)
        if not data and self._rest:
            self._read(self._rest)
        return bool(data)

    def _read(self, line: bytes) -> None:
        if not line.startswith(b'{"v":'):
            self._last_words(line)
            return
        try:
            access = _decode(line)
        except msgspec.DecodeError:
            return
        if access.permission == "cwd" and not self._cwd:
            self._cwd = access.value or "/"  # the runner says it first, before there is any other code
        elif access.permission in _KINDS and not self._was_granted(access):
            self._events.add(access.permission, access.value or "all")

    def _last_words(self, data: bytes) -> None:
        self.out_of_memory = self.out_of_memory or _OUT_OF_MEMORY.search(data) is not None

    def _was_granted(self, access: _Access) -> bool:
        value = access.value
        if access.permission == "env":
            return value in self._variables
        folders = self._granted.get(access.permission)
        if folders is None or value is None:
            return False
        path = os.path.normpath(os.path.join(self._cwd, value))
        return any(_below(path, os.path.join(self._cwd, folder)) for folder in folders)


def _below(path: str, folder: str) -> bool:
    folder = folder.removesuffix("/.")
    return path == folder or path.startswith(folder + "/")
