"""One file of a skill has one name, however it is written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.model.skill import Skill
from metier.model.skill_path import base_dir, path_in

SKILL = Skill(name="my notes", description="", dialect="agent_skills")
ODD = Skill(name="odd", description="", dialect="agent_skills", manifest="Skill.md")


@pytest.mark.parametrize(
    "written",
    [
        "references/more.md",
        "./references/more.md",
        "././references/more.md",
        "references/./more.md",
        "skill://my%20notes/references/more.md",
        "skill://my%20notes/./references/more.md",
    ],
)
def test_every_spelling_of_a_file_becomes_its_name_in_the_bundle(written: str) -> None:
    assert path_in(SKILL, written) == "references/more.md"


def test_the_manifest_has_the_name_that_it_has_in_the_bundle() -> None:
    assert path_in(ODD, "SKILL.md") == path_in(ODD, "skill://odd/SKILL.md") == "Skill.md"
    assert path_in(SKILL, "./SKILL.md") == "SKILL.md"
    assert path_in(ODD, "references/SKILL.md") == "references/SKILL.md"


@pytest.mark.parametrize(
    "written",
    [
        "../x",
        "references/../SKILL.md",
        "/etc/hostname",
        "references/",
        "references//more.md",
        "skill://other/SKILL.md",
        "skill://my%20notes/../x",
        "skill://my%20notes/skill://my%20notes/x",
        "skill://my%20notes/",
        ".",
        "./",
        "",
    ],
)
def test_what_can_be_no_name_in_a_bundle_is_not_made_into_one(written: str) -> None:
    assert path_in(SKILL, written) == written


PARTS = st.sampled_from([".", "..", "", "skill:", "my%20notes", "SKILL.md", "a", base_dir(SKILL)])


@given(st.lists(PARTS, max_size=8).map("/".join))
def test_what_is_settled_stays_as_it_is(written: str) -> None:
    once = path_in(SKILL, written)
    assert path_in(SKILL, once) == once
