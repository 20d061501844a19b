"""The end of a proxied connection that lies inside the sandbox, and what the proxy may spend on one."""

import socket
from typing import Final, final

import anyio
from msgspec import Struct

_LINGER_SECONDS: Final = 0.5
_LINGER_BYTES: Final = 1_048_576


@final
class ProxyLimits(Struct, frozen=True, kw_only=True):
    """For the connections of one run."""

    connections: int = 16
    """At once; a further one is told to come back later."""
    head_bytes: int = 16_384
    head_seconds: float = 10.0
    """Until a request has come in whole, its body included."""
    tunnel_bytes: int = 104_857_600
    """Through one tunnel, both ways together."""
    idle_seconds: float = 60.0
    total_seconds: float = 300.0


@final
class Inner:
    """A connection from inside the sandbox. Its ends are values: a broken one reads as ended."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._socket = connection

    async def read(self, most: int, *, seconds: float) -> bytes | None:
        """What came next; nothing when it ended or broke, None when it was silent for so long."""
        with anyio.move_on_after(seconds):
            try:
                while True:
                    await anyio.wait_readable(self._socket)
                    try:
                        return self._socket.recv(most)
                    except BlockingIOError:
                        continue
            except (OSError, anyio.ClosedResourceError):
                return b""
        return None

    async def write(self, data: bytes, *, seconds: float) -> bool:
        """Whether all of it could be sent in time."""
        rest = memoryview(data)
        with anyio.move_on_after(seconds):
            try:
                while rest:
                    try:
                        rest = rest[self._socket.send(rest) :]
                    except BlockingIOError:
                        await anyio.wait_writable(self._socket)
            except (OSError, anyio.ClosedResourceError):
                return False
        return not rest

    async def finish(self) -> None:
        """Say that nothing more comes, and let the other side read that before the connection is gone."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            return
        left = _LINGER_BYTES
        with anyio.move_on_after(_LINGER_SECONDS):
            while left > 0 and (more := await self.read(65_536, seconds=_LINGER_SECONDS)):
                left -= len(more)

    def close(self) -> None:
        """Close it."""
        self._socket.close()
