"""A guest's memory as the host reads and writes it: every address is checked, because the guest chose it."""

from typing import TYPE_CHECKING, Self, final

if TYPE_CHECKING:
    import wasmtime


@final
class Memory:
    """Raises IndexError for whatever lies outside, and nothing else. Numbers may come as wasm's signed ones."""

    def __init__(self, raw: "wasmtime.Memory") -> None:
        self.raw = raw

    @classmethod
    def of(cls, caller: "wasmtime.Caller") -> Self | None:
        """The memory that the calling module exports as `memory`."""
        import wasmtime

        found = caller.get("memory")
        return cls(found) if isinstance(found, wasmtime.Memory) else None

    def read(self, store: "wasmtime.Store | wasmtime.Caller", at: int, length: int) -> bytes:
        at, length = _unsigned(at), _unsigned(length)
        if at + length > self.raw.data_len(store):
            raise IndexError("outside the guest's memory")
        return bytes(self.raw.read(store, at, at + length)) if length else b""

    def write(self, store: "wasmtime.Store | wasmtime.Caller", at: int, data: bytes) -> None:
        at = _unsigned(at)
        if at + len(data) > self.raw.data_len(store):
            raise IndexError("outside the guest's memory")
        if data:
            self.raw.write(store, data, at)

    def read_u32(self, store: "wasmtime.Store | wasmtime.Caller", at: int) -> int:
        return int.from_bytes(self.read(store, at, 4), "little")

    def write_u32(self, store: "wasmtime.Store | wasmtime.Caller", at: int, number: int) -> None:
        self.write(store, at, number.to_bytes(4, "little"))


def _unsigned(number: int) -> int:
    return number + 0x1_0000_0000 if number < 0 else number
