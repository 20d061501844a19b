"""The socket between a supervisor and the host: a frame is four bytes of length and JSON, with descriptors beside it.

Standard library only: the package is not importable here.
"""

import json
import os
import socket

TYPE_CHECKING = False  # importing typing would cost a good part of the start-up time
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    Message: TypeAlias = dict[str, Any]

FRAME_MOST = 64 << 20


class Control:
    """The socket to the host."""

    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)  # it came through an exec, and must not go through another
        self._socket = socket.socket(fileno=descriptor)
        self._data = b""
        self._handed: list[int] = []

    def fileno(self) -> int:
        return self._socket.fileno()

    def receive(self) -> "tuple[Message, list[int]] | None":
        """The next frame with its descriptors, or None when the host is gone."""
        size = self._exactly(4)
        if size is None or (length := int.from_bytes(size, "big")) > FRAME_MOST:
            return None
        body = self._exactly(length)
        if body is None:
            return None
        handed, self._handed = self._handed, []
        return json.loads(body), handed

    def send(self, message: "Message", descriptors: "list[int] | None" = None) -> None:
        body = json.dumps(message, separators=(",", ":")).encode()
        frame = len(body).to_bytes(4, "big") + body
        if descriptors:
            frame = frame[socket.send_fds(self._socket, [frame], descriptors) :]
        self._socket.sendall(frame)

    def _exactly(self, size: int) -> "bytes | None":
        while len(self._data) < size:
            data, handed, _, _ = socket.recv_fds(self._socket, 65_536, 253)
            for each in handed:
                os.set_inheritable(each, False)
            self._handed += handed
            if not data:
                return None
            self._data += data
        taken, self._data = self._data[:size], self._data[size:]
        return taken
