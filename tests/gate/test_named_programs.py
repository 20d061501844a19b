"""An approval of an act that uses a program of the operator's: for that file, with what he gives to it, and shown as such."""

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from approval_kit import TOOL, wanted
from metier.gate.around import around, named_programs, program_files
from metier.gate.fingerprint import fingerprint
from metier.gate.floor import floor
from metier.gate.shown import shown
from metier.gate.situation import Situation
from metier.model.approval import Shown
from metier.model.ground import Ground
from metier.model.permission import PermissionSet
from metier.model.program import OperatorProgram
from metier.model.verdict import Decision
from metier.sandbox.job_operator_programs import real_files

KEY = b"k" * 32
USES = structs.replace(TOOL, permissions=PermissionSet(binaries=frozenset({"grind"})))


def made(folder: Path, **more: Any) -> Ground:
    file = folder / "grinder"
    if not file.exists():
        file.write_text("#!/bin/sh\n")
        file.chmod(0o755)
    return Ground(programs={"grind": OperatorProgram(file=str(file), **more)})


def mark(ground: Ground, **environ: str) -> str:
    act = wanted(tool=USES, cwd=None)
    found = around(act.valid, lambda names: real_files(names, ground.programs, ""), environ, ground)
    assert isinstance(found, dict)
    return fingerprint(act, cwd="", key=KEY, around=found)


@pytest.mark.parametrize(
    "changed",
    [
        {"before": ("--fine", "--hot")},
        {"reads": frozenset({"/srv"})},
        {"writes": frozenset({"{workspace}/beans"})},
        {"hosts": frozenset({"beans.example"})},
        {"env": frozenset({"BEANS"})},
        {"environment": {"MODE": "coarse"}},
        {"spellings": frozenset({"/opt/grind"})},
    ],
    ids=lambda each: next(iter(each)),
)
def test_apr_09_a_program_that_is_given_something_else_is_another_act(
    tmp_path: Path, changed: dict[str, Any]
) -> None:
    usual: dict[str, Any] = {"before": ("--fine",), "environment": {"MODE": "fine"}}
    before = mark(made(tmp_path, **usual))
    assert mark(made(tmp_path, **usual)) == before, "the same program, the same act"
    assert mark(made(tmp_path, **{**usual, **changed})) != before


def test_cmd_38_a_program_whose_file_was_replaced_is_another_one(tmp_path: Path) -> None:
    before = mark(made(tmp_path))
    other = tmp_path / "other"
    other.write_text("#!/bin/sh\necho no\n")
    other.chmod(0o755)
    other.replace(tmp_path / "grinder")
    assert mark(made(tmp_path)) != before


def test_env_10_a_variable_that_is_passed_on_with_another_value_is_another_act(tmp_path: Path) -> None:
    ground = made(tmp_path, env=frozenset({"BEANS"}))
    before = mark(ground, BEANS="arabica", OTHER="1")
    assert mark(ground, BEANS="arabica", OTHER="2") == before, "what it is not given does not matter"
    assert mark(ground, BEANS="robusta") != before
    assert mark(ground) != before


def test_no_value_of_a_variable_is_in_the_digest_that_a_standing_grant_keeps(tmp_path: Path) -> None:
    act = wanted(tool=USES, cwd=None).valid

    def digest(value: str) -> str:
        ground = made(tmp_path, environment={"MODE": value})
        return program_files(act, lambda names: real_files(names, ground.programs, ""), ground)

    assert digest("fine") == digest("coarse")
    other = Ground(programs={"grind": OperatorProgram(file=str(tmp_path / "grinder"), before=("x",))})
    assert program_files(act, lambda names: real_files(names, other.programs, ""), other) != digest("fine")


def test_what_the_path_has_under_that_name_does_not_matter(tmp_path: Path) -> None:
    ground = made(tmp_path)
    planted = tmp_path / "bin" / "grind"
    planted.parent.mkdir()
    planted.write_text("#!/bin/sh\n")
    planted.chmod(0o755)
    path = str(planted.parent)
    assert real_files(["grind"], ground.programs, path) == {"grind": str(tmp_path / "grinder")}
    assert real_files(["grind"], {}, path) == {"grind": str(planted)}, "where he says nothing it does"
    gone = {"grind": OperatorProgram(file=str(tmp_path / "gone"))}
    assert real_files(["grind"], gone, path) == {}, "and never in place of a file that is not there"


def test_an_approver_is_shown_the_file_and_what_it_may_touch_but_no_value(tmp_path: Path) -> None:
    ground = made(tmp_path, reads=frozenset({"/srv"}), environment={"MODE": "s3cret-mode"})
    act = wanted(tool=USES, cwd=None)
    lines = tuple(f"{name} is {each.in_words}" for name, each in named_programs(act.valid, ground).items())
    seen = shown(act, stands_for=lines)
    assert isinstance(seen, Shown)
    assert seen.stands_for == (
        f"grind is {tmp_path / 'grinder'}; it also reads /srv; sees the variables MODE",
    )
    assert "s3cret-mode" not in str(seen)


def test_a_shell_is_refused_unless_the_operator_said_which_file_it_is() -> None:
    tool = structs.replace(TOOL, permissions=PermissionSet(binaries=frozenset({"bash"})))
    act = wanted(tool=tool, cwd=None).valid
    assert floor(act, Situation()).decision is Decision.DENY
    named = Ground(interpreters=frozenset({"bash"}), programs={"bash": OperatorProgram(file="/bin/bash")})
    assert floor(act, Situation(ground=named)).decision is Decision.ABSTAIN
