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


# A start without a supervisor: what does not come from the wall itself, or from what is kept warm.
STRAIGHT = {2, 4, 11, 12, 13, 14, 15, 16, 17, 20, 21, 22, 23, 24, 26, 27, 31, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44,
            46, 47, 48, 49, 50, 51, 52, 53, 56, 60}  # fmt: skip


@pytest.mark.parametrize("behaviour", behaviours(STRAIGHT))
def test_bubblewrap_straight(behaviour: Behaviour, tmp_path: Path) -> None:
    anyio.run(verify, behaviour, bubblewrap_straight(), str(tmp_path))
