"""A skill that is called like one that ships takes its place only on a person's word."""

from pathlib import Path

import pytest

from machine import Machine, write_skill

ROOTS = [".metier/skills", ".claude/skills"]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setenv("HOME", str(made.home))
    return made


@pytest.mark.parametrize("root", ROOTS)
def test_inj_05_what_ships_keeps_its_name_until_somebody_trusts_another(machine: Machine, root: str) -> None:
    folder = write_skill(machine.home / root / "fs_write", name="fs_write")
    found = machine.catalog().get("fs_write")
    assert found is not None
    assert found.root.kind == "bundled"
    [other] = [each for each in machine.catalog().listed if each.folder == str(folder)]
    assert other.shown == "shadowed"
    assert "`metier skills trust` puts this one in its place" in other.why
    said = machine.metier("skills", "trust", "fs_write", "--yes").stdout
    assert "takes the place of the skill of this name that comes with Metier" in said
    now = machine.catalog().get("fs_write")
    assert now is not None
    assert now.folder == str(folder), "the control: on a person's word it does"
    (folder / "SKILL.md").write_text("---\nname: fs_write\ndescription: Other.\n---\nx\n", encoding="utf-8")
    changed = machine.catalog().get("fs_write")
    assert changed is not None
    assert (changed.folder, changed.shown) == (str(folder), "pending_approval"), "other bytes wait for him"


def test_inj_05_what_a_person_trusted_and_changed_since_keeps_its_place_before_a_strangers(
    machine: Machine,
) -> None:
    own = write_skill(machine.home / ".openclaw" / "skills" / "bank", name="bank")
    machine.metier("skills", "trust", "bank", "--yes")
    write_skill(machine.home / ".metier" / "skills" / "bank", name="bank", description="A stranger's.")
    found = machine.catalog().get("bank")
    assert found is not None
    assert (found.folder, found.shown) == (str(own), "usable")
    write_skill(own, name="bank", description="My own, edited.")
    edited = machine.catalog().get("bank")
    assert edited is not None
    assert (edited.folder, edited.shown) == (str(own), "pending_approval")
    machine.metier("skills", "untrust", "bank")
    other = machine.catalog().get("bank")
    assert other is not None
    assert other.folder != str(own), "the control: without his word the first root counts"


def test_a_broken_one_takes_nothing_away(machine: Machine) -> None:
    (machine.home / ".metier" / "skills" / "calendar").mkdir(parents=True)
    (machine.home / ".metier" / "skills" / "calendar" / "SKILL.md").write_text("nothing", encoding="utf-8")
    found = machine.catalog().get("calendar")
    assert found is not None
    assert found.root.kind == "bundled"


def test_one_that_ships_needs_no_word(machine: Machine) -> None:
    assert "trusted by the release" in machine.metier("skills", "trust", "fs_write", "--yes", check=1).stderr
