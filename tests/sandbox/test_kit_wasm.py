"""The contract kit on WASM modules."""

import tempfile
from pathlib import Path

import anyio
import pytest

from kit_backends import behaviours, wasm
from metier.testing.sandbox_kit.behaviour import Behaviour
from metier.testing.sandbox_kit.bench import Bench
from metier.testing.sandbox_kit.kit import verify

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def awake() -> None:
    """wasmtime starts threads of its own with its first run; they stay for as long as the program does."""

    async def once() -> None:
        with tempfile.TemporaryDirectory() as folder:
            opened = wasm().open(folder)
            await Bench(opened.sandbox, wasm(), folder).run("echo")
            await opened.aclose()

    anyio.run(once)


@pytest.mark.parametrize("behaviour", behaviours())
def test_wasm(behaviour: Behaviour, tmp_path: Path) -> None:
    anyio.run(verify, behaviour, wasm(), str(tmp_path))
