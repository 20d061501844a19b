"""What an approved act depends on outside of itself is part of it: programs, variables, and where paths lead."""

import os
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from approval_kit import TOOL, wanted
from metier.gate.around import MOST_PATHS, MOST_STEPS, around, program_files
from metier.gate.fingerprint import fingerprint
from metier.gate.granted import answers
from metier.gate.shown import shown
from metier.gate.situation import Situation
from metier.model.approval import Shown, StandingGrant
from metier.model.call import ValidCall
from metier.model.permission import PermissionSet
from metier.record.approval_clock import moment
from metier.record.standing import proposed_grant

KEY = b"k" * 32


def situation(folder: Path, **environ: str) -> Situation:
    def found(names: Any) -> dict[str, str]:
        return {name: str(folder / name) for name in names}

    return Situation(programs=found, environ=environ)


def told(valid: ValidCall, facts: Situation) -> dict[str, Any]:
    found = around(valid, facts.programs, facts.environ)
    assert isinstance(found, dict)
    return found


def mark(facts: Situation, arguments: dict[str, Any] | None = None, **permissions: Any) -> str:
    """The fingerprint of one act in this situation, under one key."""
    act = wanted(arguments, tool=structs.replace(TOOL, permissions=PermissionSet(**permissions)), cwd=None)
    return fingerprint(act, cwd="", key=KEY, around=told(act.valid, facts))


def test_apr_09_a_program_that_was_replaced_is_another_program(tmp_path: Path) -> None:
    tool = tmp_path / "grind"
    tool.write_text("coffee")
    before = mark(situation(tmp_path), binaries=frozenset({"grind"}))
    assert mark(situation(tmp_path), binaries=frozenset({"grind"})) == before, (
        "the same program, the same act"
    )
    other = tmp_path / "other"
    other.write_text("poison")
    os.utime(other, ns=(tool.stat().st_atime_ns, tool.stat().st_mtime_ns))
    os.replace(other, tool)
    assert mark(situation(tmp_path), binaries=frozenset({"grind"})) != before
    tool.unlink()
    assert mark(situation(tmp_path), binaries=frozenset({"grind"})) != before


def test_apr_09_a_program_that_nobody_uses_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "grind").write_text("coffee")
    before = mark(situation(tmp_path))
    (tmp_path / "grind").write_text("poison")
    assert mark(situation(tmp_path)) == before


@pytest.mark.parametrize("spelled", ["absolute", "nested"])
def test_apr_10_a_link_among_the_arguments_that_was_swapped_leads_to_another_act(
    tmp_path: Path, spelled: str
) -> None:
    for name in ("mine", "yours"):
        (tmp_path / name).mkdir()
    link = tmp_path / "out"
    link.symlink_to(tmp_path / "mine")
    path = str(link / "note.txt")
    given = {"path": path} if spelled == "absolute" else {"files": [{"path": path}]}
    before = mark(situation(tmp_path), given)
    assert mark(situation(tmp_path), given) == before
    link.unlink()
    link.symlink_to(tmp_path / "yours")
    assert mark(situation(tmp_path), given) != before


def test_apr_10_a_path_below_the_working_directory_is_followed_too(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "yours").mkdir()
    (tmp_path / "out").symlink_to("mine")
    act = wanted({"path": "out/note.txt"}, cwd=str(tmp_path))
    before = told(act.valid, Situation())
    (tmp_path / "out").unlink()
    (tmp_path / "out").symlink_to("yours")
    assert told(act.valid, Situation()) != before


def test_texts_that_lead_nowhere_are_no_paths_and_names_without_end_are_left_alone() -> None:
    act = wanted({"a": "milk and sugar", "b": "/no/such/place", "c": "/" * 5000, "d": ""}, cwd=None)
    assert told(act.valid, Situation())["paths"] == {}


@pytest.mark.parametrize("text", ["word " * 60, "x" * 4096, "é" * 200, "a/" * 150 + "word " * 60])
def test_an_ordinary_text_too_long_for_a_name_is_no_path_and_can_be_asked_about(
    tmp_path: Path, text: str
) -> None:
    act = wanted({"text": text, "file": "here"}, cwd=str(tmp_path))
    (tmp_path / "here").touch()
    assert told(act.valid, Situation())["paths"] == {"here": str(tmp_path / "here")}


def test_apr_10_a_link_below_which_a_name_would_be_too_long_is_followed_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/tmp")
    text = "link/" + "x" * 300
    act = wanted({"text": text}, cwd=str(tmp_path))
    before = told(act.valid, Situation())
    assert text in before["paths"]
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("/usr")
    assert told(act.valid, Situation()) != before


def test_what_cannot_be_followed_is_named_with_its_argument(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    act = wanted({"text": "word " * 60, "where": [{"file": "loop"}]}, cwd=str(tmp_path))
    found = around(act.valid, Situation().programs, {})
    assert isinstance(found, str)
    assert "argument 'where' names a path that cannot be followed" in found
    assert "loop" not in found  # the value may be a secret


def test_apr_11_a_variable_with_another_value_is_another_act(tmp_path: Path) -> None:
    before = mark(situation(tmp_path, LANG="C"), env=frozenset({"LANG"}))
    assert mark(situation(tmp_path, LANG="C", OTHER="x"), env=frozenset({"LANG"})) == before
    assert mark(situation(tmp_path, LANG="de"), env=frozenset({"LANG"})) != before
    assert mark(situation(tmp_path), env=frozenset({"LANG"})) != before


def test_apr_22_always_is_for_this_program_and_for_no_other_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "grind").write_text("coffee")
    tool = structs.replace(TOOL, risk="medium", permissions=PermissionSet(binaries=frozenset({"grind"})))
    act = wanted(tool=tool, cwd=None)
    facts = situation(tmp_path)
    seen = shown(act, programs=program_files(act.valid, facts.programs))
    assert isinstance(seen, Shown)
    grant = proposed_grant(seen, "always", approval="apr_1", by="human:owner")
    assert isinstance(grant, StandingGrant)
    assert answers(grant, act, cwd="", now=moment(), programs=program_files(act.valid, facts.programs)) == ""
    (tmp_path / "grind").write_text("poison!")
    said = answers(grant, act, cwd="", now=moment(), programs=program_files(act.valid, facts.programs))
    assert "no longer the one" in said


def refused(arguments: dict[str, Any]) -> str:
    found = around(wanted(arguments, cwd=None).valid, lambda _: {}, {})
    assert isinstance(found, str)
    return found


def test_apr_10_more_paths_than_are_followed_cannot_be_asked_so_nothing_hides_behind_them(
    tmp_path: Path,
) -> None:
    padding = ["/" + "./" * number for number in range(MOST_PATHS)]
    assert "too many" in refused({"padding": padding, "path": str(tmp_path)})
    deep = ["/tmp" + "/x" * 1000 + str(number) for number in range(MOST_STEPS // 1000 + 1)]
    assert "too many" in refused({"deep": deep})


def test_apr_10_links_that_lead_in_a_circle_or_on_and_on_cannot_be_asked(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert "cannot be followed" in refused({"path": str(tmp_path / "a")})
    for number in range(1200):
        (tmp_path / f"{number}").symlink_to(tmp_path / f"{number + 1}")
    assert "cannot be followed" in refused({"path": str(tmp_path / "0")})
