"""The contract kit on everything that runs behind bubblewrap."""

from pathlib import Path

import anyio
import pytest

from kit_backends import behaviours, bubblewrap_native, bubblewrap_python, bubblewrap_straight
from metier.testing.sandbox_kit.behaviour import Behaviour
from metier.testing.sandbox_kit.kit import verify

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("behaviour", behaviours())
def test_bubblewrap_native(behaviour: Behaviour, tmp_path: Path) -> None:
    anyio.run(verify, behaviour, bubblewrap_native(), str(tmp_path))


@pytest.mark.parametrize("behaviour", behaviours())
def test_bubblewrap_python(behaviour: Behaviour, tmp_path: Path) -> None:
    anyio.run(verify, behaviour, bubblewrap_python(), str(tmp_path))


@pytest.mark.parametrize("behaviour", behaviours(third=0))
def test_bubblewrap_straight(behaviour: Behaviour, tmp_path: Path) -> None:
    anyio.run(verify, behaviour, bubblewrap_straight(), str(tmp_path))
