"""The server of these tests leaves nothing behind either."""

import socket
from collections.abc import Callable

import pytest

from loopback import Listener

HEAD = b"POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\n"


@pytest.mark.parametrize("sent", [b"", b"POST / HT", HEAD, HEAD + b"hel"])
def test_it_closes_the_connection_of_a_client_that_left_in_the_middle(
    listen: Callable[..., Listener], sent: bytes
) -> None:
    listener = listen()
    with socket.create_connection(("127.0.0.1", listener.port), timeout=3) as client:
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""
    assert listener.asked == []
