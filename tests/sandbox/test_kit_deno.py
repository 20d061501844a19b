"""The contract kit on JavaScript, behind either wall."""

from pathlib import Path

import anyio
import pytest

from kit_backends import behaviours, bubblewrap_deno, landlock_deno
from metier.testing.sandbox_kit.behaviour import Behaviour
from metier.testing.sandbox_kit.kit import verify

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("behaviour", behaviours())
def test_bubblewrap_deno(behaviour: Behaviour, tmp_path: Path) -> None:
    anyio.run(verify, behaviour, bubblewrap_deno(), str(tmp_path))


@pytest.mark.parametrize("behaviour", behaviours(third=2))
def test_landlock_deno(behaviour: Behaviour, tmp_path: Path) -> None:
    anyio.run(verify, behaviour, landlock_deno(), str(tmp_path))
