"""A command that is forked from a process that stands ready is told and tells what a started one is and does."""

import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import forked
from machine import Machine, own_rows, write_skill

pytestmark = pytest.mark.slow


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What was started, from now on; nothing was before."""
    seen: list[list[str]] = []
    real: Callable[..., Any] = subprocess.run

    def run(line: list[str], **more: Any) -> Any:
        seen.append(line[1:])
        return real(line, **more)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(forked, "_started", set())
    return seen


# fmt: off
LINES = {
    "what it prints": (["skills", "list"], ""),
    "its exit status": (["call", "no_such_tool", "{}"], ""),
    "its standard input": (["call", "read_skill", "-"], '{"name": "nobody"}'),
    "a wrong line": (["skills", "bogus"], ""),
    "signs that are not ASCII": (["call", "t\u00e9a\udc80", "{}"], ""),
    "a line with much in it": (["call", "x" * 60_000, "{}"], ""),
}
# fmt: on


@pytest.mark.parametrize(("line", "stdin"), LINES.values(), ids=LINES)
def test_a_forked_command_answers_as_a_started_one(
    machine: Machine, starts: list[list[str]], line: list[str], stdin: str
) -> None:
    one, other = (machine.metier(*line, check=None, stdin=stdin) for _ in range(2))
    assert starts == [line]
    assert (one.args, one.returncode, one.stdout, one.stderr) == (
        other.args, other.returncode, other.stdout, other.stderr
    )  # fmt: skip
    assert one.stdout + one.stderr


def test_it_has_the_home_the_folder_and_the_mask_that_it_was_given(
    tmp_path: Path, starts: list[list[str]]
) -> None:
    for name, mask in (("started", 0o022), ("forked", 0o077), ("again", 0o022)):
        machine = Machine(tmp_path / name)
        write_skill(machine.skills / f"{name}-at-home")
        [row] = own_rows(machine.metier("skills", "list").stdout)
        assert f"{name}-at-home" in row
        machine.metier("skills", "new", "kettle", umask=mask)
        [made] = machine.top.rglob("kettle/SKILL.md")
        assert stat.S_IMODE(made.stat().st_mode) == 0o666 & ~mask
    assert starts == [["skills", "list"], ["skills", "new", "kettle"]]


def test_the_first_of_each_kind_of_command_is_started(machine: Machine, starts: list[list[str]]) -> None:
    for line in (["skills", "list"], ["skills", "check"], ["skills", "list"], ["approvals", "list"]):
        machine.metier(*line, check=None)
    assert starts == [["skills", "list"], ["skills", "check"], ["approvals", "list"]]


@pytest.mark.parametrize("name", ["PYTHONWARNINGS", "LC_ALL", "TZ", "LANG", "PYTHONPATH"])
def test_where_an_interpreter_would_look_at_something_else_it_is_started(
    machine: Machine, starts: list[list[str]], name: str
) -> None:
    around = {**machine.environ, "PYTHONPATH": os.environ.get("PYTHONPATH", ""), name: "C"}
    for _ in range(2):
        forked.metier(
            ["--version"], cwd=str(machine.project), env=around, stdin="", umask=-1, seconds=30
        ).check_returncode()
    assert starts == [["--version"]] * 2


@pytest.mark.parametrize("word", ["\0", "\ud800"])
def test_what_no_command_line_can_hold_reaches_no_command(machine: Machine, word: str) -> None:
    for _ in range(2):
        with pytest.raises(ValueError, match=r"embedded null|surrogates not allowed"):
            machine.metier("call", "read_skill", word)


def test_when_the_process_that_stands_ready_was_ended_there_is_another(
    machine: Machine, starts: list[list[str]]
) -> None:
    first, second = (machine.metier("--version") for _ in range(2))
    [(_, process)] = forked._ready
    process.kill()
    process.wait(10)
    assert machine.metier("--version").stdout == first.stdout == second.stdout
    assert starts == [["--version"]]


def test_a_command_that_lasts_too_long_is_ended(machine: Machine, starts: list[list[str]]) -> None:
    around = {**machine.environ, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    for _ in range(2):
        with pytest.raises(subprocess.TimeoutExpired):
            forked.metier(["host"], cwd=str(machine.project), env=around, stdin="", umask=-1, seconds=2)
    assert starts == [["host"]]
    assert "Nothing runs as the host" in machine.metier("host", "status", check=1).stdout
