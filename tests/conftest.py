"""Fixtures for everybody."""

import gc
import json
import os
import sys
import tarfile
from collections.abc import Iterator
from typing import Any, final

import pytest
from msgspec import Struct

PROJECT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def pytest_collection_finish() -> None:
    """What lasts as long as the run is not looked through again each time that garbage is collected: there is much of it, and
    some tests have garbage collected often, to see what is left."""
    gc.collect()
    gc.freeze()


@final
class Corpus(Struct, frozen=True, kw_only=True):
    """Real skills as their authors published them, and what OpenClaw makes of each."""

    root: str
    """The folder that holds the collections."""
    oracle: list[dict[str, Any]]
    bins: list[str]
    """Names of the programs that were there when the oracle was made."""


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """The corpus, unpacked. It belongs to its authors and is not part of the project, so it may be absent."""
    place = os.path.join(os.path.dirname(PROJECT), "shared", "corpus")
    if not os.path.isfile(os.path.join(place, "skills.tar.xz")):
        pytest.skip(f"the corpus of real skills is not here ({place})")
    folder = tmp_path_factory.mktemp("corpus")
    with tarfile.open(os.path.join(place, "skills.tar.xz")) as archive:
        archive.extractall(folder, filter="data")
    with open(os.path.join(place, "openclaw-oracle.jsonl"), encoding="utf-8") as lines:
        oracle = [json.loads(line) for line in lines]
    with open(os.path.join(place, "bins-present.txt"), encoding="utf-8") as names:
        bins = names.read().split()
    return Corpus(root=str(folder / "skills"), oracle=oracle, bins=bins)


@pytest.fixture(autouse=True)
def parlours_are_closed() -> Iterator[None]:
    """Whoever opened one need not think of it."""
    yield
    parlour = sys.modules.get("parlour")
    while parlour is not None and parlour.OPENED:
        parlour.OPENED.pop().database.close()
