"""The contract kit on requests that we send ourselves."""

from pathlib import Path

import pytest

from kit_backends import behaviours, holds, http
from metier.testing.sandbox_kit.behaviour import Behaviour

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("behaviour", behaviours())
def test_http(behaviour: Behaviour, tmp_path: Path) -> None:
    holds(behaviour, http, tmp_path)
