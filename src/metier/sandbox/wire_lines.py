"""From bytes to lines, where the wire is alone on its descriptor and where code can print on it too.

On a descriptor of its own every line is a message, or is judged as one. On a shared one (the standard output of a
JavaScript engine, which its code can write to by number) only the key of the run, which that code does not know, begins
a message, wherever in a line it stands: what is before it, and lines without it, are output. Output that pretends to be a
message is handed on as the line it is, to be judged as forged.
"""

import re
from collections.abc import Callable, Generator
from typing import Final, final

_PRETENDS: Final = re.compile(rb'\s*(?:[0-9a-f]{32}\s+)?\{\s*"jsonrpc"\s*:')


@final
class Lines:
    """Cuts what came into lines. `output` takes what is no message, on a shared descriptor; None: it is not shared."""

    def __init__(self, key: bytes, *, most: int, output: Callable[[bytes], None] | None) -> None:
        self._key = key + b" "
        self._most = most
        self._output = output
        self._buffer = bytearray()
        self._searched = 0

    def add(self, piece: bytes) -> Generator[bytes]:
        """Every message that is whole now, without its line end."""
        self._buffer += piece
        while (cut := self._buffer.find(b"\n", self._searched)) >= 0:
            line = bytes(self._buffer[:cut])
            del self._buffer[: cut + 1]
            self._searched = 0
            if self._output is None:
                yield line
            else:
                yield from self._mine(line, self._output)
        self._searched = len(self._buffer)

    def overfull(self) -> bool:
        """Whether what waits for its line end is larger than any message. Output that long is let out instead."""
        if len(self._buffer) <= self._most:
            return False
        if self._output is None or (begins := self._buffer.find(self._key)) == 0:
            return True
        # The last bytes may be the first ones of a key.
        cut = begins if begins > 0 else len(self._buffer) - len(self._key)
        self._output(bytes(self._buffer[:cut]))
        del self._buffer[:cut]
        self._searched = 0
        return len(self._buffer) > self._most

    def end(self) -> None:
        """Nothing more comes: a last line without its end is output, where there is output."""
        if self._output is not None and self._buffer:
            self._output(bytes(self._buffer))
            self._buffer.clear()

    def _mine(self, line: bytes, output: Callable[[bytes], None]) -> Generator[bytes]:
        begins = line.find(self._key)
        said = line if begins < 0 else line[:begins]
        if _PRETENDS.match(said):
            yield said
        elif said or begins < 0:
            output(said)
        if begins >= 0:
            yield line[begins:]
