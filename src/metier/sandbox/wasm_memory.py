"""A guest's memory as the host reads and writes it: every address is checked, because the guest chose it."""

import ctypes
from typing import final

from metier.sandbox.wasm_raw import Item, Raw


@final
class Memory:
    """Raises IndexError for whatever lies outside, and nothing else. Numbers may come as wasm's signed ones.

    Where it lies is asked every time, because it may move when it grows."""

    def __init__(self, raw: Raw, item: Item) -> None:
        self._raw = raw
        self.item = item

    def read(self, context: int, at: int, length: int) -> bytes:
        at, length = _unsigned(at), _unsigned(length)
        return ctypes.string_at(self._start(context, at + length) + at, length)

    def write(self, context: int, at: int, data: bytes) -> None:
        at = _unsigned(at)
        ctypes.memmove(self._start(context, at + len(data)) + at, data, len(data))

    def read_u32(self, context: int, at: int) -> int:
        return int.from_bytes(self.read(context, at, 4), "little")

    def write_u32(self, context: int, at: int, number: int) -> None:
        self.write(context, at, number.to_bytes(4, "little"))

    def size(self, context: int) -> int:
        return self._raw.memory(context, self.item)[1]

    def _start(self, context: int, end: int) -> int:
        start, size = self._raw.memory(context, self.item)
        if end > size:
            raise IndexError("outside the guest's memory")
        return start


def _unsigned(number: int) -> int:
    return number + 0x1_0000_0000 if number < 0 else number
