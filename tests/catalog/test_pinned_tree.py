"""Trust is in the whole tree: a file more, a file less, other bytes or another mode, and it is not what was trusted."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from machine import Machine, write_skill
from metier.catalog.bundle import BundleStore
from metier.catalog.hold import Held, bind, declared_by, hold
from metier.model.call import Bytes
from metier.record.database import Database
from metier.record.trust import TrustStore

CHANGES: dict[str, Callable[[Path], object]] = {
    "a file added": lambda skill: (skill / "scripts/more.sh").write_text("true\n"),
    "an empty file added": lambda skill: (skill / "nothing").touch(),
    "a hidden file added": lambda skill: (skill / ".profile").write_text("x"),
    "a file removed": lambda skill: (skill / "notes.md").unlink(),
    "a folder of files removed": lambda skill: shutil.rmtree(skill / "scripts"),
    "a byte changed": lambda skill: (skill / "notes.md").write_text("Notez."),
    "the manifest changed": lambda skill: write_skill(skill, body="Do something else."),
    "made executable": lambda skill: (skill / "notes.md").chmod(0o755),
    "no longer executable": lambda skill: (skill / "scripts/run.sh").chmod(0o644),
    "a file renamed": lambda skill: (skill / "notes.md").rename(skill / "other.md"),
    "two files swapped": lambda skill: swap(skill / "notes.md", skill / "scripts/run.sh"),
    "a file that became a link": lambda skill: linked(skill / "notes.md"),
}


def swap(one: Path, other: Path) -> None:
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)


def linked(file: Path) -> None:
    file.unlink()
    file.symlink_to("scripts/run.sh")


@pytest.fixture
def skill(tmp_path: Path) -> Path:
    folder = write_skill(Machine(tmp_path).skills / "pinned")
    (folder / "notes.md").write_text("Notes.", encoding="utf-8")
    (folder / "scripts").mkdir()
    (folder / "scripts/run.sh").write_text("#!/bin/sh\n", encoding="utf-8")
    (folder / "scripts/run.sh").chmod(0o755)
    return folder


def held(machine: Machine) -> Held:
    listed = machine.catalog().get("pinned")
    assert listed is not None
    settings = machine.settings()
    with Database.open(settings.database) as database:
        return hold(
            listed,
            trust=TrustStore(database),
            bundles=BundleStore(settings.bundles),
            now_ns=time.time_ns() + 10**10,
        )


def trusted(machine: Machine) -> None:
    listed, settings = machine.catalog().get("pinned"), machine.settings()
    assert listed is not None
    Database.open(settings.database).close()  # first of all, as everywhere
    bundles = BundleStore(settings.bundles)
    made = bundles.take(listed.folder, now_ns=time.time_ns() + 10**10)
    snapshot = bundles.open(made.digest)
    assert snapshot is not None
    declared = declared_by(snapshot, listed.manifest, folder=listed.folder)
    assert declared is not None
    found = Bytes(digest=made.digest, signature=made.signature)
    with Database.open(settings.database) as database:
        assert bind(listed, declared, found, trust=TrustStore(database), how="operator", by="human:test")


@pytest.mark.parametrize("change", CHANGES)
def test_sup_09_any_change_of_a_pinned_tree_holds_the_skill_back(
    tmp_path: Path, skill: Path, change: str
) -> None:
    machine = Machine(tmp_path)
    trusted(machine)
    assert not held(machine).refusal
    CHANGES[change](skill)
    found = held(machine)
    assert found.refusal
    assert "not the bytes that were trusted" in found.refusal


def test_sup_09_the_same_tree_written_anew_is_the_same(tmp_path: Path, skill: Path) -> None:
    machine = Machine(tmp_path)
    trusted(machine)
    copy = tmp_path / "copy"
    shutil.copytree(skill, copy)
    shutil.rmtree(skill)
    shutil.copytree(copy, skill)
    os.utime(skill / "notes.md", (1, 1))
    assert not held(machine).refusal


def test_sup_09_a_hash_of_each_file_by_itself_would_miss_most_of_it(tmp_path: Path, skill: Path) -> None:
    """What only compares the files it knows sees neither one more nor another mode."""
    known = {file: file.read_bytes() for file in skill.rglob("*") if file.is_file()}
    for change in ("a file added", "an empty file added", "made executable", "no longer executable"):
        CHANGES[change](skill)
        assert all(file.read_bytes() == content for file, content in known.items())
