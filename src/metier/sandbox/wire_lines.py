"""From bytes to messages, where the wire is alone on its descriptor and where code can print on it too.

On a descriptor of its own every line is a message, or is judged as one. On a shared one (the standard output of a
JavaScript engine, which its code can write to by number) only the key of the run, which that code does not know, begins
a message, wherever in a line it stands. Everything else is output, word for word: that code may print whatever it was
told by others, also what looks like a message, and nobody is blamed for it. It comes in large pieces, so that printing
much costs us little.
"""

from collections.abc import Callable, Generator
from typing import final


@final
class Lines:
    """Cuts what came into lines, on a descriptor of our own."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._buffer = bytearray()
        self._searched = 0

    def add(self, piece: bytes) -> Generator[bytes]:
        """Every message that is whole now, without its line end."""
        self._buffer += piece
        while (cut := self._buffer.find(b"\n", self._searched)) >= 0:
            line = bytes(self._buffer[:cut])
            del self._buffer[: cut + 1]
            self._searched = 0
            yield line
        self._searched = len(self._buffer)

    def overfull(self) -> bool:
        """Whether what waits for its line end is larger than any message."""
        return len(self._buffer) > self._most

    def end(self) -> None:
        """Nothing more is taken."""
        self._buffer.clear()


@final
class SharedLines:
    """Finds messages among what code prints. `output` takes what is none of ours."""

    def __init__(self, key: bytes, *, most: int, output: Callable[[bytes], None]) -> None:
        self._key = key
        self._most = most
        self._output = output
        self._buffer = bytearray()
        self._searched = 0
        """How far we looked: for a key while none is there, else for the end of its line."""

    def add(self, piece: bytes) -> Generator[bytes]:
        """Every message that is whole now, without its line end."""
        self._buffer += piece
        while self._begins():
            cut = self._buffer.find(b"\n", self._searched)
            if cut < 0:
                self._searched = len(self._buffer)
                return
            line = bytes(self._buffer[:cut])
            del self._buffer[: cut + 1]
            self._searched = 0
            yield line

    def overfull(self) -> bool:
        """Whether what waits for its line end is larger than any message. Output never waits."""
        return len(self._buffer) > self._most

    def end(self) -> None:
        """Nothing more is taken: what is left is output, unless it is the beginning of a message."""
        if not self._buffer.startswith(self._key):
            self._let_out(len(self._buffer))
        self._buffer.clear()

    def _begins(self) -> bool:
        """Whether the buffer begins with a key, once everything before one was let out."""
        if self._buffer.startswith(self._key):
            return True
        found = self._buffer.find(self._key)
        # The last bytes may be the first ones of a key.
        self._let_out(found if found >= 0 else len(self._buffer) - self._tail())
        self._searched = 0
        return found >= 0

    def _tail(self) -> int:
        """How many of the last bytes may be the first ones of a key."""
        for size in range(min(len(self._key) - 1, len(self._buffer)), 0, -1):
            if self._buffer.endswith(self._key[:size]):
                return size
        return 0

    def _let_out(self, size: int) -> None:
        if size:
            self._output(bytes(self._buffer[:size]))
            del self._buffer[:size]
