"""The contract kit on JavaScript, behind either wall."""

from pathlib import Path

import pytest

from kit_backends import behaviours, bubblewrap_deno, holds, landlock_deno
from metier.testing.sandbox_kit.behaviour import Behaviour

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("behaviour", behaviours())
def test_bubblewrap_deno(behaviour: Behaviour, tmp_path: Path) -> None:
    holds(behaviour, bubblewrap_deno, tmp_path)


@pytest.mark.parametrize("behaviour", behaviours(third=2))
def test_landlock_deno(behaviour: Behaviour, tmp_path: Path) -> None:
    holds(behaviour, landlock_deno, tmp_path)
