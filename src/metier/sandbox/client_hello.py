"""Which server a TLS client asks for, read from the first bytes it sends. Pure; nothing is decrypted."""

from typing import Final, TypeAlias, final

from msgspec import Struct

MOST_BYTES: Final = 65_536
_HANDSHAKE: Final = 22
_CLIENT_HELLO: Final = 1
_SERVER_NAME: Final = 0
_HOST_NAME: Final = 0


@final
class Hello(Struct, frozen=True, kw_only=True):
    """A whole hello."""

    name: str
    """Lower-case; empty when the client names no server."""


@final
class NotYet(Struct, frozen=True):
    """The hello is not complete; more bytes are needed."""


@final
class NoHello(Struct, frozen=True):
    """Not the beginning of a TLS connection, or one that cannot be read."""


Seen: TypeAlias = Hello | NotYet | NoHello


class _Short(Exception):
    """A field ends beyond its surroundings."""


@final
class _Bytes:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._data):
            raise _Short
        found = self._data[self._at : end]
        self._at = end
        return found

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def block(self, size: int) -> "_Bytes":
        """What stands behind a length of `size` bytes."""
        return _Bytes(self.take(self.number(size)))

    def rest(self) -> bytes:
        return self.take(len(self._data) - self._at)

    def __bool__(self) -> bool:
        return self._at < len(self._data)


def read_hello(data: bytes) -> Seen:
    """The hello in the first bytes of a connection."""
    message = b""
    records = _Bytes(data)
    try:
        while len(message) < 4 or len(message) < 4 + int.from_bytes(message[1:4], "big"):
            if records and data[0] != _HANDSHAKE:
                return NoHello()
            kind, version, size = records.number(1), records.number(2), records.number(2)
            if kind != _HANDSHAKE or version >> 8 != 3 or not size:
                return NoHello()
            message += records.take(size)
            if message[0] != _CLIENT_HELLO:
                return NoHello()
    except _Short:
        return NotYet() if len(data) < MOST_BYTES else NoHello()
    try:
        return Hello(name=_server_name(_Bytes(message[4:])))
    except (_Short, UnicodeDecodeError):
        return NoHello()


def _server_name(hello: _Bytes) -> str:
    hello.take(2 + 32)  # version and random
    hello.block(1)  # session
    hello.block(2)  # ciphers
    hello.block(1)  # compressions
    names: list[str] = []
    extensions = hello.block(2) if hello else _Bytes(b"")
    while extensions:
        kind, content = extensions.number(2), extensions.block(2)
        if kind == _SERVER_NAME:
            entries = content.block(2)
            while entries:
                if entries.number(1) != _HOST_NAME:
                    raise _Short
                names.append(entries.block(2).rest().decode("ascii").lower())
    if len(names) > 1:
        raise _Short
    return names[0] if names else ""
