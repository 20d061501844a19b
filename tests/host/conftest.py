"""What the services of a running call are tried with."""

import pytest

from loopback import World


@pytest.fixture
def world() -> World:
    return World()
