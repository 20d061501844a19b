"""The contract kit on WASM modules."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kit_backends import behaviours, holds, wasm
from metier.testing.sandbox_kit.behaviour import Behaviour

pytestmark = pytest.mark.slow

FIRST = """
import sys
import anyio
from kit_backends import wasm
from metier.testing.sandbox_kit.kit import NUMBERED, verify

anyio.run(verify, NUMBERED[36], wasm(), sys.argv[1])
"""


@pytest.mark.parametrize("behaviour", behaviours())
def test_wasm(behaviour: Behaviour, tmp_path: Path) -> None:
    holds(behaviour, wasm, tmp_path)


def test_a_behaviour_may_be_the_first_thing_a_program_does(tmp_path: Path) -> None:
    """wasmtime starts threads of its own with its first run; they stay for as long as the program does."""
    done = subprocess.run(
        [sys.executable, "-c", FIRST, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=50,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
