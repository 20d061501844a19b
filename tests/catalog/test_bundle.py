"""Snapshots: complete, link-free, read-only, and self-proving."""

import os
import stat
import time
from pathlib import Path

import pytest

from machine import write_skill
from metier.catalog import folder as folders
from metier.catalog.bundle import BundleStore, measure, tree_signature
from metier.errors import BundleError

LATER = 10_000_000_000  # ten seconds from now every file is old enough to vouch for itself


def now() -> int:
    return time.time_ns() + LATER


@pytest.fixture
def skill(tmp_path: Path) -> Path:
    made = write_skill(tmp_path / "skill")
    (made / "scripts").mkdir()
    (made / "scripts/run.sh").write_text("#!/bin/sh\n", encoding="utf-8")
    (made / "scripts/run.sh").chmod(0o755)
    return made


@pytest.fixture
def store(tmp_path: Path) -> BundleStore:
    return BundleStore(str(tmp_path / "bundles"))


def test_a_snapshot_holds_every_file_and_gives_back_its_bytes(skill: Path, store: BundleStore) -> None:
    made = store.take(str(skill), now_ns=now())
    snapshot = store.open(made.digest)
    assert snapshot is not None
    assert [(file.path, file.executable) for file in snapshot.files] == [
        ("SKILL.md", False),
        ("scripts/run.sh", True),
    ]
    assert snapshot.read("scripts/run.sh") == b"#!/bin/sh\n"
    assert snapshot.read("../skill/SKILL.md") is None


def test_taking_and_measuring_agree_and_the_place_does_not_matter(
    skill: Path, store: BundleStore, tmp_path: Path
) -> None:
    made = store.take(str(skill), now_ns=now())
    skill.rename(tmp_path / "moved")
    assert measure(str(tmp_path / "moved"), now_ns=now()).digest == made.digest


@pytest.mark.parametrize("change", ["content", "mode", "name", "added", "removed", "empty file"])
def test_any_change_of_a_file_changes_the_digest(skill: Path, change: str) -> None:
    before = measure(str(skill), now_ns=now()).digest
    script = skill / "scripts/run.sh"
    match change:
        case "content":
            script.write_text("#!/bin/sh\necho\n", encoding="utf-8")
        case "mode":
            script.chmod(0o644)
        case "name":
            script.rename(skill / "scripts/other.sh")
        case "added":
            (skill / "more.md").write_text("x", encoding="utf-8")
        case "removed":
            script.unlink()
        case _:
            (skill / "nothing").touch()
    assert measure(str(skill), now_ns=now()).digest != before


def test_the_snapshot_is_read_only_and_survives_changes_of_the_folder(
    skill: Path, store: BundleStore
) -> None:
    made = store.take(str(skill), now_ns=now())
    (skill / "SKILL.md").write_text("changed", encoding="utf-8")
    snapshot = store.open(made.digest)
    assert snapshot is not None
    assert b"Does a thing" in (snapshot.read("SKILL.md") or b"")
    for path in (path for path in Path(snapshot.folder).rglob("*") if path.is_file()):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o222, path


def test_a_link_inside_the_folder_is_stored_as_what_it_points_to(skill: Path, store: BundleStore) -> None:
    (skill / "AGENTS.md").symlink_to("SKILL.md")
    (skill / "scripts/again.md").symlink_to("../SKILL.md")
    snapshot = store.open(store.take(str(skill), now_ns=now()).digest)
    assert snapshot is not None
    assert snapshot.read("AGENTS.md") == snapshot.read("SKILL.md") == snapshot.read("scripts/again.md")
    assert not [path for path in Path(snapshot.folder).rglob("*") if path.is_symlink()]


@pytest.mark.parametrize("target", ["/etc/hostname", "../outside", "scripts/../../outside", "scripts"])
def test_a_link_that_leaves_the_folder_or_names_a_folder_is_refused(
    skill: Path, store: BundleStore, target: str
) -> None:
    (skill.parent / "outside").write_text("secret", encoding="utf-8")
    (skill / "link").symlink_to(target)
    with pytest.raises(BundleError):
        store.take(str(skill), now_ns=now())
    assert not [path for path in (skill.parent / "bundles").rglob("*") if path.is_file()]


def test_a_chain_of_links_cannot_lead_outside(skill: Path, store: BundleStore) -> None:
    (skill.parent / "outside").write_text("secret", encoding="utf-8")
    (skill / "one").symlink_to("two")
    (skill / "two").symlink_to("../outside")
    with pytest.raises(BundleError):
        store.take(str(skill), now_ns=now())


@pytest.mark.parametrize("kind", ["hard link", "fifo"])
def test_hard_links_and_special_files_are_refused(skill: Path, store: BundleStore, kind: str) -> None:
    if kind == "fifo":
        os.mkfifo(skill / "odd")
    else:
        outside = skill.parent / "outside"
        outside.write_text("secret", encoding="utf-8")
        (skill / "odd").hardlink_to(outside)
    with pytest.raises(BundleError, match="odd"):
        store.take(str(skill), now_ns=now())


def test_a_changed_snapshot_is_noticed_when_it_is_read(skill: Path, store: BundleStore) -> None:
    digest = store.take(str(skill), now_ns=now()).digest
    snapshot = store.open(digest)
    assert snapshot is not None
    stored = Path(snapshot.folder) / "SKILL.md"
    stored.chmod(0o600)
    stored.write_text("evil", encoding="utf-8")
    with pytest.raises(BundleError, match="does not match"):
        snapshot.read("SKILL.md")
    index = Path(snapshot.folder).parent / "index.json"
    index.chmod(0o600)
    index.write_bytes(index.read_bytes().replace(b"SKILL.md", b"SKILL.mx"))
    with pytest.raises(BundleError, match="changed"):
        store.open(digest)


def test_an_interrupted_snapshot_leaves_nothing_behind(skill: Path, store: BundleStore) -> None:
    os.mkfifo(skill / "zzz")
    with pytest.raises(BundleError):
        store.take(str(skill), now_ns=now())
    assert list((skill.parent / "bundles").iterdir()) == []


@pytest.mark.parametrize("loss", ["a file", "the index", "everything but a folder"])
def test_what_a_crash_or_a_half_done_removal_left_is_made_anew(
    skill: Path, store: BundleStore, loss: str
) -> None:
    digest = store.take(str(skill), now_ns=now()).digest
    snapshot = store.open(digest)
    assert snapshot is not None
    place = Path(snapshot.folder).parent
    if loss != "the index":
        (place / "files/SKILL.md").unlink()
    if loss != "a file":
        (place / "index.json").unlink()
    store.take(str(skill), now_ns=now())
    again = store.open(digest)
    assert again is not None
    assert again.read("SKILL.md") == (skill / "SKILL.md").read_bytes()


def test_limits_on_number_and_size_are_refusals_with_a_way_out(
    skill: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "MAX_FILES", 1)
    with pytest.raises(BundleError) as refused:
        measure(str(skill), now_ns=now())
    assert refused.value.remedy


def test_version_control_and_caches_are_not_part_of_a_skill(skill: Path) -> None:
    before = measure(str(skill), now_ns=now()).digest
    for name in (".git/HEAD", "__pycache__/x.pyc"):
        (skill / name).parent.mkdir()
        (skill / name).write_text("x", encoding="utf-8")
    assert measure(str(skill), now_ns=now()).digest == before


def test_the_metadata_signature_moves_with_every_write_and_is_silent_about_young_files(skill: Path) -> None:
    assert tree_signature(str(skill), now_ns=time.time_ns()) == ""
    before = tree_signature(str(skill), now_ns=now())
    assert before == tree_signature(str(skill), now_ns=now()) != ""
    (skill / "scripts/run.sh").write_text("#!/bin/sh\n", encoding="utf-8")
    assert tree_signature(str(skill), now_ns=now()) != before


def test_a_folder_swapped_for_a_link_while_it_is_walked_is_not_followed(skill: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "run.sh").write_text("secret", encoding="utf-8")
    with folders.entries(str(skill)) as entries:
        first = next(entries)
        assert first.path == "SKILL.md"
        (skill / "scripts").rename(tmp_path / "aside")
        (skill / "scripts").symlink_to(outside)
        with pytest.raises(BundleError):
            next(entries)
