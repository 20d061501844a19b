"""Servers, names and certificates for the tests of the way out."""

import ssl
from collections.abc import Callable, Iterator

import pytest

from loopback import Answering, Authority, Listener, World, make_authority, reply

HELLO = reply()


@pytest.fixture
def listen() -> Iterator[Callable[..., Listener]]:
    """Start a listener; it is stopped with the test."""
    started: list[Listener] = []

    def start(answering: Answering | bytes = HELLO, tls: ssl.SSLContext | None = None) -> Listener:
        answer = answering if callable(answering) else lambda _asked: answering
        started.append(Listener(answer, tls))
        return started[-1]

    yield start
    for listener in started:
        listener.close()


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("authority"))
