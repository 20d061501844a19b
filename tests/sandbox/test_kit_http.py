"""The contract kit on requests that we send ourselves."""

from pathlib import Path

import anyio
import pytest

from kit_backends import behaviours, http
from metier.testing.sandbox_kit.behaviour import Behaviour
from metier.testing.sandbox_kit.kit import verify

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("behaviour", behaviours())
def test_http(behaviour: Behaviour, tmp_path: Path) -> None:
    anyio.run(verify, behaviour, http(), str(tmp_path))
