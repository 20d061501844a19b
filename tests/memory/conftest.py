"""Three memories and an index over them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from memories import LAKE, TAX, put
from metier.memory.index import MemoryIndex


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "memory"
    put(place, "episodic/2026/lake.json", LAKE, tags=["summer"], timestamp="2026-07-01")
    put(place, "tax.json", TAX)
    (place / "notes").mkdir()
    (place / "notes/guitar.md").write_text("---\ntitle: Guitar\n---\nThe third tuner of the guitar slips.\n")
    return place


@pytest.fixture
def state(tmp_path: Path) -> str:
    return str(tmp_path / "state" / "memory.db")


@pytest.fixture
def index(folder: Path, state: str) -> Iterator[MemoryIndex]:
    made = MemoryIndex(str(folder), state)
    yield made
    made.close()
