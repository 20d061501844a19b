"""`lint` finds manifests of every dialect that can be read without running anything."""

import json
import shutil
from pathlib import Path

from machine import write_skill
from metier.catalog.discover import Noted
from metier.catalog.lint import Linted, lint
from metier.catalog.requirements import Environment

EXAMPLES = Path(__file__).parents[2] / "examples"
HERE = Environment(path="/usr/bin:/bin", env={}, platform="linux", config={}, entries={})


def _linted(*paths: Path) -> dict[str, Linted]:
    found = list(lint(tuple(map(str, paths)), HERE))
    assert not [each for each in found if isinstance(each, Noted)]
    return {Path(each.path).name: each for each in found if isinstance(each, Linted)}


def test_the_examples_of_all_dialects_are_found_and_in_order() -> None:
    found = [(each.dialect, each.status) for each in lint((str(EXAMPLES),), HERE) if isinstance(each, Linted)]
    assert found == [
        ("amber", "usable"),
        ("friday", "usable"),
        ("mcp_server", "unavailable"),  # its program is for the operator to install
        ("metahuman", "usable"),
        ("metier", "usable"),
    ]


def test_several_skills_in_one_folder_each_have_a_digest_of_their_own(tmp_path: Path) -> None:
    for name in ("word_count", "line_count"):
        for ending in (".json", ".py"):
            source = EXAMPLES / "metahuman-word-count" / f"word_count{ending}"
            text = source.read_text(encoding="utf-8").replace('"id": "word_count"', f'"id": "{name}"')
            (tmp_path / f"{name}{ending}").write_text(text, encoding="utf-8")
    before = _linted(tmp_path)
    assert {name: each.status for name, each in before.items()} == {
        "line_count.json": "usable",
        "word_count.json": "usable",
    }
    (tmp_path / "line_count.py").write_text("def execute(inputs): ...\n", encoding="utf-8")
    after = _linted(tmp_path)
    assert after["word_count.json"].digest == before["word_count.json"].digest
    assert after["line_count.json"].digest != before["line_count.json"].digest


def test_a_skill_that_has_its_folder_for_itself_is_all_that_lies_there(tmp_path: Path) -> None:
    folder = tmp_path / "word_count"
    shutil.copytree(EXAMPLES / "metahuman-word-count", folder)
    before = _linted(tmp_path)["word_count.json"].digest
    (folder / "words.txt").write_text("tea", encoding="utf-8")
    assert _linted(tmp_path)["word_count.json"].digest != before


def test_json_and_yaml_for_something_else_are_not_taken_for_skills(tmp_path: Path) -> None:
    write_skill(tmp_path / "one")
    for name, text in {
        "skill.json": "{}",  # beside SKILL.md, which says what the skill is
        "data.json": '{"inputs": 1}',
        "data.py": "",
        "package.json": '{"inputs": 1, "category": 2}',
        "package.js": "",
        "alone.json": json.dumps({"inputs": {}, "category": "fs"}),
    }.items():
        (tmp_path / "one" / name).write_text(text, encoding="utf-8")
    assert list(_linted(tmp_path)) == ["SKILL.md"]


def test_a_skill_json_that_is_none_is_broken_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "skill.json").write_text('{"id": "x"}', encoding="utf-8")
    [found] = _linted(tmp_path).values()
    assert (found.status, found.dialect) == ("broken", "friday")
    assert "not_friday" in {each.code for each in found.diagnostics}
