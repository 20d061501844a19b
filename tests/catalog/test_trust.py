"""Who may be used: bundled, vouched for, trusted by name, and never other bytes than those."""

import time
from pathlib import Path

import pytest

from machine import Machine, write_skill
from metier.catalog.bundle import BundleStore
from metier.catalog.hold import Held, bind, declared_by, hold
from metier.model.call import Bytes
from metier.record.database import Database
from metier.record.trust import How, TrustStore


def look(machine: Machine, name: str) -> Held:
    settings = machine.settings()
    listed = machine.catalog().get(name)
    assert listed is not None
    with Database.open(settings.database) as database:
        return hold(
            listed,
            trust=TrustStore(database),
            bundles=BundleStore(settings.bundles),
            now_ns=time.time_ns() + 10**10,
        )


def trust(machine: Machine, name: str, how: How = "operator") -> bool:
    settings = machine.settings()
    listed = machine.catalog().get(name)
    assert listed is not None
    Database.open(settings.database).close()  # first of all, as everywhere
    bundles = BundleStore(settings.bundles)
    made = bundles.take(listed.folder, now_ns=time.time_ns() + 10**10)
    snapshot = bundles.open(made.digest)
    assert snapshot is not None
    declared = declared_by(snapshot, listed.manifest, folder=listed.folder)
    assert declared is not None
    found = Bytes(digest=made.digest, signature=made.signature, first_use=how == "first_use")
    with Database.open(settings.database) as database:
        return bind(listed, declared, found, trust=TrustStore(database), how=how, by="human:test")


def status(machine: Machine, name: str) -> str:
    found = machine.catalog().get(name)
    assert found is not None
    return found.shown


def test_a_project_skill_waits_until_it_is_trusted(machine: Machine) -> None:
    write_skill(machine.project / "skills/theirs")
    assert status(machine, "theirs") == "pending_approval"
    assert look(machine, "theirs").refusal
    assert trust(machine, "theirs")
    assert status(machine, "theirs") == "usable"
    assert not look(machine, "theirs").refusal


def test_a_skill_in_the_users_own_root_is_bound_at_first_use(machine: Machine) -> None:
    write_skill(machine.skills / "mine")
    assert status(machine, "mine") == "usable"
    held = look(machine, "mine")
    assert held.bytes is not None
    assert held.bytes.first_use
    assert trust(machine, "mine", "first_use")
    again = look(machine, "mine")
    assert again.bytes is not None
    assert not again.bytes.first_use


@pytest.mark.parametrize("file", ["SKILL.md", "scripts/run.sh", "new-file"])
@pytest.mark.parametrize("place", ["user", "project"])
def test_sup_11_other_bytes_than_the_trusted_ones_are_held_back(
    machine: Machine, place: str, file: str
) -> None:
    root = machine.skills if place == "user" else machine.project / "skills"
    skill = write_skill(root / "pinned")
    (skill / "scripts").mkdir()
    (skill / "scripts/run.sh").write_text("true\n", encoding="utf-8")
    assert trust(machine, "pinned")
    changed = skill / file
    changed.write_text(
        (changed.read_text(encoding="utf-8") if changed.exists() else "") + "\nmore\n", encoding="utf-8"
    )
    held = look(machine, "pinned")
    assert "not the bytes" in held.refusal
    if file == "SKILL.md":
        assert status(machine, "pinned") == "pending_approval"
    assert trust(machine, "pinned")
    assert status(machine, "pinned") == "usable"


def test_the_same_bytes_in_another_place_are_trusted_too(machine: Machine, tmp_path: Path) -> None:
    write_skill(machine.project / "skills/shared")
    assert trust(machine, "shared")
    (machine.project / "skills/shared").rename(machine.project / "aside")
    write_skill(machine.project / ".claude/skills/shared")
    assert status(machine, "shared") == "usable"


def test_taking_trust_back_holds_at_once_also_in_the_users_own_root(machine: Machine) -> None:
    write_skill(machine.skills / "mine")
    assert trust(machine, "mine")
    with Database.open(machine.settings().database) as database:
        TrustStore(database).revoke("mine", by="human:test")
    assert status(machine, "mine") == "pending_approval"
    assert "taken back" in look(machine, "mine").refusal


def test_first_use_does_not_bring_back_what_a_person_revoked(machine: Machine) -> None:
    write_skill(machine.skills / "mine")
    assert trust(machine, "mine")
    with Database.open(machine.settings().database) as database:
        TrustStore(database).revoke("mine", by="human:test")
    assert not trust(machine, "mine", "first_use")
    assert look(machine, "mine").refusal


def test_what_is_granted_is_read_from_the_bytes_that_will_be_used(machine: Machine) -> None:
    metadata = '{"openclaw": {"requires": {"bins": ["git"], "env": ["TOKEN"]}}}'
    write_skill(machine.project / "skills/needy", metadata=metadata)
    assert trust(machine, "needy")
    granted = look(machine, "needy").granted
    assert granted.plain() == {"binaries": ["git"], "env": ["TOKEN"], "reads": ["{baseDir}"]}


def test_a_manifest_of_a_project_does_not_make_its_skills_trusted(machine: Machine) -> None:
    write_skill(machine.project / "skills/theirs")
    manifest = machine.project / "skills/SKILL_MANIFEST.json"
    manifest.write_text('{"approvedSkills": ["theirs"]}', encoding="utf-8")
    assert status(machine, "theirs") == "pending_approval"


def test_a_disabled_skill_says_by_what(machine: Machine) -> None:
    write_skill(machine.skills / "one")
    write_skill(machine.skills / "two")
    machine.state.mkdir(exist_ok=True)
    config = machine.state / "metier.toml"
    for text, reason in {
        '[skills]\ndisabled = ["one"]\n': "skills.disabled",
        '[skills]\nallow = ["two"]\n': "skills.allow",
        '[skills]\nenabled = ["two"]\n': "skills.enabled",
        "[skills.entries.one]\nenabled = false\n": "skills.entries.one.enabled",
    }.items():
        config.write_text(text, encoding="utf-8")
        found = machine.catalog().get("one")
        assert found is not None
        assert found.shown == "disabled"
        assert reason in found.why
        assert status(machine, "two") == "usable"


def test_an_empty_allow_list_means_none(machine: Machine) -> None:
    write_skill(machine.skills / "one")
    (machine.state / "metier.toml").write_text("[skills]\nallow = []\n", encoding="utf-8")
    assert machine.catalog().usable() == []


def test_an_unreadable_trust_store_stops_everything_with_a_way_out(machine: Machine) -> None:
    write_skill(machine.project / "skills/theirs")
    assert trust(machine, "theirs")
    (machine.state / "state.db").write_bytes(b"not a database at all" * 100)
    done = machine.metier("skills", "list", check=5)
    assert "state.db" in done.stderr


def test_nothing_is_kept_of_a_skill_that_may_not_be_used(machine: Machine) -> None:
    write_skill(machine.project / "skills/theirs")
    assert look(machine, "theirs").refusal
    assert not (machine.state / "bundles").exists()


def test_a_project_skill_that_is_not_trusted_takes_no_name_from_one_that_is(machine: Machine) -> None:
    write_skill(machine.project / "skills/a", "writing-skills")
    write_skill(machine.project / "skills/b", "writing-skillѕ")
    found = machine.catalog().get("writing-skills")
    assert found is not None
    assert (found.root.kind, found.shown) == ("bundled", "usable")
    states = {each.folder.rsplit("/", 1)[1]: each.shown for each in machine.catalog().listed}
    assert (states["a"], states["b"]) == ("shadowed", "broken")


def test_a_project_skill_that_is_trusted_takes_the_name_its_place_gives_it(machine: Machine) -> None:
    ours = write_skill(machine.project / "skills/a", "mine", description="ours")
    assert trust(machine, "mine")
    later = write_skill(machine.top / "extra/b", "mine", description="theirs")
    (machine.state / "metier.toml").write_text(f'[skills]\nroots = ["{later.parent}"]\n', encoding="utf-8")
    found = machine.catalog().get("mine")
    assert found is not None
    assert (found.folder, found.shown) == (str(ours), "usable")


def test_a_skill_renamed_in_its_folder_is_shown_as_changed_and_can_be_trusted(machine: Machine) -> None:
    skill = write_skill(machine.skills / "folder", "one")
    assert trust(machine, "one", "first_use")
    write_skill(skill, "two")
    assert status(machine, "two") == "pending_approval"
    assert "not the bytes" in look(machine, "two").refusal
    assert trust(machine, "two")
    assert status(machine, "two") == "usable"


def test_a_skill_cannot_get_around_its_entry_by_choosing_another_key(machine: Machine) -> None:
    write_skill(machine.skills / "evil", metadata='{"openclaw": {"skillKey": "other"}}')
    (machine.state / "metier.toml").write_text("[skills.entries.evil]\nenabled = false\n", encoding="utf-8")
    assert status(machine, "evil") == "disabled"
    (machine.state / "metier.toml").write_text("[skills.entries.other]\nenabled = false\n", encoding="utf-8")
    assert status(machine, "evil") == "disabled"


def test_a_parent_folder_swapped_for_a_link_is_not_followed(machine: Machine) -> None:
    write_skill(machine.skills / "group/mine")
    listed = machine.catalog().get("mine")
    outside = write_skill(machine.top / "outside/mine")
    (outside / "key").write_text("secret", encoding="utf-8")
    (machine.skills / "group").rename(machine.top / "aside")
    (machine.skills / "group").symlink_to(machine.top / "outside")
    assert listed is not None
    settings = machine.settings()
    with Database.open(settings.database) as database:
        held = hold(
            listed, trust=TrustStore(database), bundles=BundleStore(settings.bundles), now_ns=time.time_ns()
        )
    assert held.broken
    assert held.bytes is None


def test_a_project_skill_that_is_switched_off_takes_no_name_from_a_trusted_one_either(
    machine: Machine,
) -> None:
    machine.state.mkdir(mode=0o700, exist_ok=True)
    (machine.state / "metier.toml").write_text(
        "[skills.entries.weather]\nenabled = false\n", encoding="utf-8"
    )
    write_skill(
        machine.project / "skills/a", "writing-skills", metadata='{"openclaw": {"skillKey": "weather"}}'
    )
    write_skill(
        machine.project / "skills/b", "wr1ting-skills", metadata='{"openclaw": {"skillKey": "weather"}}'
    )
    assert status(machine, "writing-skills") == "usable"
