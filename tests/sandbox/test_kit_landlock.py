"""The contract kit on everything that runs behind Landlock alone."""

from pathlib import Path

import anyio
import pytest

from kit_backends import behaviours, landlock_native, landlock_python
from metier.testing.sandbox_kit.behaviour import Behaviour
from metier.testing.sandbox_kit.kit import verify

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("behaviour", behaviours())
def test_landlock_native(behaviour: Behaviour, tmp_path: Path) -> None:
    anyio.run(verify, behaviour, landlock_native(), str(tmp_path))


@pytest.mark.parametrize("behaviour", behaviours(third=1))
def test_landlock_python(behaviour: Behaviour, tmp_path: Path) -> None:
    anyio.run(verify, behaviour, landlock_python(), str(tmp_path))
