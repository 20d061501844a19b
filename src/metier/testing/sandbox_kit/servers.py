"""Listeners of the host that no guest may reach, and a note of who did."""

import os
import socket
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Final, final

import anyio
from anyio.abc import TaskGroup


@final
class Servers:
    """Listening sockets on loopback and by name. `reached` is who got through, in words."""

    def __init__(self) -> None:
        self.reached: Final[list[str]] = []
        self.params: Final[dict[str, Any]] = {}
        self._listening: list[tuple[str, socket.socket]] = []
        self._closing = ExitStack()

    def listen(self, name: str, family: int, kind: int, address: Any) -> Any:
        """Start one; its address, or None where the machine has no such family."""
        made = self._closing.enter_context(socket.socket(family, kind))
        try:
            made.bind(address)
        except OSError:
            return None
        made.setblocking(False)
        if kind == socket.SOCK_STREAM:
            made.listen(16)
        self._listening.append((name, made))
        return made.getsockname()

    def serve(self, tasks: TaskGroup) -> None:
        """Answer everybody until the task group is cancelled."""
        for name, each in self._listening:
            tasks.start_soon(self._serve, name, each)

    async def _serve(self, name: str, listening: socket.socket) -> None:
        while True:
            await anyio.wait_readable(listening)
            with suppress(OSError):
                if listening.type == socket.SOCK_STREAM:
                    listening.accept()[0].close()
                else:
                    _, sender = listening.recvfrom(100)
                    if sender:
                        listening.sendto(b"in", sender)
                self.reached.append(name)

    def close(self) -> None:
        self._closing.close()


@contextmanager
def on_loopback() -> Generator[Servers]:
    servers = Servers()
    try:
        tcp = servers.listen("tcp", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))
        udp = servers.listen("udp", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))
        tcp6 = servers.listen("tcp6", socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0))
        seen = f"metier-kit-seen-{os.getpid()}"
        servers.listen("seen", socket.AF_UNIX, socket.SOCK_STREAM, "\0" + seen)
        servers.params.update(tcp=tcp[1], udp=udp[1], tcp6=tcp6[1] if tcp6 else 9, socket=seen)
        yield servers
    finally:
        servers.close()


@contextmanager
def by_name(folder: str) -> Generator[Servers]:
    """Unix sockets: abstract ones, and some in a folder that a guest is granted."""
    servers = Servers()
    abstract, path = f"metier-kit-{os.getpid()}", os.path.join(folder, "s")
    try:
        for name, address in (("abstract", "\0" + abstract), ("path", path)):
            servers.listen(name, socket.AF_UNIX, socket.SOCK_STREAM, address)
            servers.listen(name, socket.AF_UNIX, socket.SOCK_DGRAM, address + ".dgram")
        servers.params.update(abstract=abstract, path=path)
        yield servers
    finally:
        servers.close()
