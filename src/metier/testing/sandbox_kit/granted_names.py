"""Two public names for a backend's egress, of which the kit grants one, and the server of the kit's that both lead to.

Who is let through to the other one as well is seen here: by what it was told, and by what was looked up for it.
"""

import json
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, final

import anyio
from anyio.abc import SocketAttribute, SocketStream

if TYPE_CHECKING:
    from metier.sandbox.egress import Egress

GRANTED: Final = "granted.metier-kit.example"
OTHER: Final = "other.metier-kit.example"
GRANTS: Final = (GRANTED, f"http://{GRANTED}")
ADDRESSES: Final = {GRANTED: "93.184.216.36", OTHER: "93.184.216.37"}
_MOST: Final = 65_536

WAYS: Final[dict[str, str]] = {
    "plain": f"http://{GRANTED}/plain",
    "tunnel": f"{GRANTED}:443",
    "other": f"http://{OTHER}/other",
    "other_port": f"http://{GRANTED}:8080/other_port",
    "other_tunnel": f"{OTHER}:443",
    "redirected": f"http://{GRANTED}/redirected",
}
"""What is asked for; an address without a scheme is a tunnel."""
OPEN: Final = frozenset({"plain", "tunnel"})
"""What of it the grants are for."""


@final
class Names:
    """What egress is told of the two names, and the server, while there is one."""

    def __init__(self) -> None:
        self.word: Final = secrets.token_hex(8)
        """What the server says, and nobody else knows."""
        self.looked_up: Final[list[str]] = []
        self.dialled: Final[list[str]] = []
        self._port = 0

    @property
    def proxy(self) -> str:
        """The server also takes requests as a proxy does, and refuses nobody: that is how it is without a wall."""
        return f"http://127.0.0.1:{self._port}"

    async def resolve(self, host: str) -> list[str]:
        """For the egress under test, in the place of a name server."""
        self.looked_up.append(host)
        if host not in ADDRESSES:
            raise OSError(f"no such name: {host}")
        return [ADDRESSES[host]]

    def connect(self, address: str, port: int) -> tuple[str, int]:
        """For the egress under test: where an address is dialled that passed every check."""
        self.dialled.append(address)
        return "127.0.0.1", self._port

    def egress(self, hosts: frozenset[str]) -> "Egress":
        return self.make(hosts=hosts)

    def make(self, **given: Any) -> "Egress":
        from metier.sandbox.egress import Egress

        return Egress(**given, resolver=self.resolve, connect=self.connect)

    @asynccontextmanager
    async def served(self) -> AsyncGenerator[None]:
        """There is a server for as long as this lasts."""
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        self._port = listener.extra(SocketAttribute.local_port)  # noqa: S610  no database is near
        async with listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, self._answer)
            yield
            tasks.cancel_scope.cancel()

    async def _answer(self, stream: SocketStream) -> None:
        async with stream:
            asked = b""
            with anyio.move_on_after(5):
                try:
                    while b"\r\n\r\n" not in asked and len(asked) < _MOST:
                        asked += await stream.receive()
                    await stream.send(self._said(asked.decode("latin-1")))
                except (anyio.EndOfStream, anyio.BrokenResourceError):
                    return  # a tunnel that nothing was sent through, or nobody who waits

    def _said(self, asked: str) -> bytes:
        method, target = [*asked.split(" ", 2), "", ""][:2]
        if method == "CONNECT":
            return b"HTTP/1.1 200 Connection established\r\n\r\n"
        name = target.rpartition("/")[2]
        if name == "redirected" and OTHER not in asked:
            away = f"Location: http://{OTHER}/redirected\r\nContent-Length: 0\r\nConnection: close"
            return f"HTTP/1.1 302 Found\r\n{away}\r\n\r\n".encode()
        body = json.dumps({"did": [name], "refused": {}, "word": self.word})
        lines = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close"
        return f"HTTP/1.1 200 OK\r\n{lines}\r\n\r\n{body}".encode()
