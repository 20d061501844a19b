"""The contract kit on everything that runs behind Landlock alone."""

from pathlib import Path

import pytest

from kit_backends import behaviours, holds, landlock_native, landlock_python
from metier.testing.sandbox_kit.behaviour import Behaviour

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("behaviour", behaviours())
def test_landlock_native(behaviour: Behaviour, tmp_path: Path) -> None:
    holds(behaviour, landlock_native, tmp_path)


@pytest.mark.parametrize("behaviour", behaviours(third=1))
def test_landlock_python(behaviour: Behaviour, tmp_path: Path) -> None:
    holds(behaviour, landlock_python, tmp_path)
