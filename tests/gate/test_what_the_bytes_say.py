"""What the gate judges a skill by is what its bytes say, whatever the catalog's shortcut was made to say."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from machine import Machine, write_skill
from metier.catalog import hold as holding
from metier.catalog.bundle import BundleStore
from metier.catalog.catalog import Listed
from metier.catalog.hold import Held, hold
from metier.record.database import Database
from metier.record.trust import TrustStore

CLOSED, OPEN = b"\xb0model_may_invoke\xc2", b"\xb0model_may_invoke\xc3"
"""How the cache writes no and yes behind the name of a field."""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    monkeypatch.setattr("metier.openfile.YOUNG_NS", 0)
    yield Machine(tmp_path)


def held(machine: Machine) -> tuple[Listed, Held]:
    """The skill as the catalog lists it, and as a call takes hold of it."""
    listed = machine.catalog().get("notes")
    assert listed is not None
    settings = machine.settings()
    with Database.open(settings.database) as database:
        found = hold(
            listed,
            trust=TrustStore(database),
            bundles=BundleStore(settings.bundles),
            now_ns=time.time_ns(),
        )
    return listed, found


def rewritten(machine: Machine) -> None:
    """The cache, rewritten through a second name that was taken away again, as a run may do that was given its folder."""
    [file] = [each for each in (machine.state / "cache").iterdir() if CLOSED in each.read_bytes()]
    second = machine.top / "second"
    os.link(file, second)
    second.write_bytes(second.read_bytes().replace(CLOSED, OPEN))
    second.unlink()


@pytest.mark.parametrize("lets", [False, True], ids=["mended", "as it was"])
def test_a_cache_that_was_rewritten_and_has_one_name_again_opens_no_skill_to_models(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, lets: bool
) -> None:
    write_skill(machine.skills / "notes", disable_model_invocation="true")
    listed, found = held(machine)
    assert listed.skill is not None
    assert (listed.skill.model_may_invoke, found.broken) == (False, "")
    rewritten(machine)
    if lets:
        monkeypatch.setattr(holding, "_says", lambda _skill: ())
    listed, found = held(machine)
    assert listed.skill is not None
    assert listed.skill.model_may_invoke, "else this proves nothing"
    assert bool(found.broken) is not lets
    assert (found.bytes is None) is not lets
