"""The contract kit on everything that runs behind bubblewrap."""

from pathlib import Path

import pytest

from kit_backends import behaviours, bubblewrap_native, bubblewrap_python, bubblewrap_straight, holds
from metier.testing.sandbox_kit.behaviour import Behaviour

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("behaviour", behaviours())
def test_bubblewrap_native(behaviour: Behaviour, tmp_path: Path) -> None:
    holds(behaviour, bubblewrap_native, tmp_path)


@pytest.mark.parametrize("behaviour", behaviours())
def test_bubblewrap_python(behaviour: Behaviour, tmp_path: Path) -> None:
    holds(behaviour, bubblewrap_python, tmp_path)


@pytest.mark.parametrize("behaviour", behaviours(third=0))
def test_bubblewrap_straight(behaviour: Behaviour, tmp_path: Path) -> None:
    holds(behaviour, bubblewrap_straight, tmp_path)
