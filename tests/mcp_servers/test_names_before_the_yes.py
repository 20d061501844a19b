"""That a name is another's is known before somebody says yes to a server, and how much a server may do does not depend on its name."""

import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from machine import Machine
from mcp_kit import manifest
from metier.catalog.function_names import name_problems
from metier.catalog.listed import Listed
from metier.catalog.mcp_names import clashes
from metier.dialects.risk import default_risk
from metier.doors.cli.mcp_places import own_program
from metier.doors.cli.words import programs
from metier.model.entry import McpServer, RemoteTool
from metier.model.interpreters import is_interpreter
from metier.model.permission import PermissionSet
from metier.model.program import OperatorProgram
from metier.model.skill import Skill, Tool

LATER = "2999-01-01T00:00:00Z"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.setenv("PATH", str(made.bin))
    return made


def found(machine: Machine, name: str) -> tuple[Listed, Skill]:
    listed = machine.catalog().get(name)
    assert listed is not None
    assert listed.skill is not None
    return listed, listed.skill


def telling(skill: Skill, *names: str) -> Skill:
    """The skill with the tools that its server told."""
    tools = tuple(
        Tool(
            name=f"{skill.name}/{name}",
            skill=skill.name,
            description="",
            parameters={"type": "object"},
            entry=RemoteTool(server=skill.name, tool=name),
        )
        for name in names
    )
    return replace(skill, tools=tools)


def clashing(machine: Machine, name: str, *tools: str, beside: dict[str, Listed] | None = None) -> list[str]:
    catalog = machine.catalog()
    listed, skill = found(machine, name)
    by_name = {**catalog.by_name, **(beside or {})}
    return clashes(listed, telling(skill, *tools), by_name, catalog.listed, since=LATER)


def let_in(machine: Machine, name: str, *tools: str) -> dict[str, Listed]:
    """A server that somebody let in before."""
    listed, skill = found(machine, name)
    active = replace(telling(skill, *tools), status="active", why="", digest="sha256:0")
    return {name: replace(listed, skill=active, entrusted=True, probe=False, since="2020-01-01T00:00:00Z")}


def test_inj_05_that_a_name_is_another_servers_is_said_while_the_yes_is_still_to_come(
    machine: Machine,
) -> None:
    manifest(machine, "time2")
    manifest(machine, "time")
    before = let_in(machine, "time2", "get_current_time")
    [said] = clashing(machine, "time", "get_current_time", beside=before)
    assert said.startswith(
        'skill "time" requires the function name get_current_time, which is taken by the MCP server time2 '
    )
    assert said.count('"') % 2 == 0, "every quotation that begins ends"
    assert "`" not in said.replace("`metier", "")
    assert clashing(machine, "time", "convert_time", beside=before) == [], "control"


@pytest.mark.timeout(120)
def test_what_is_said_before_the_yes_is_what_is_said_after_it(machine: Machine) -> None:
    for name in ("first", "second"):
        manifest(machine, name)
        machine.metier("skills", "trust", "--yes", name)
    catalog = machine.catalog()
    after, skill = found(machine, "second")
    assert after.shown == "unavailable"
    [said] = name_problems(after)
    assert "taken by the MCP server first" in said
    waiting = replace(
        after, skill=replace(skill, tools=(), status="pending_approval"), missing=(), probe=True
    )
    before = {**catalog.by_name, "second": waiting}
    listed = tuple(waiting if each.name == "second" else each for each in catalog.listed)
    assert clashes(waiting, skill, before, listed, since=LATER) == [said]


def test_inj_05_that_a_name_is_metiers_own_is_said_too(machine: Machine) -> None:
    manifest(machine, "time")
    [said] = clashing(machine, "time", "read_skill")
    assert "read_skill, which is taken by Metier itself" in said


def test_who_was_let_in_before_is_no_newcomer_when_he_is_looked_at_again(machine: Machine) -> None:
    manifest(machine, "time")
    assert clashing(machine, "time", "now", beside=let_in(machine, "time", "now")) == []


@pytest.mark.parametrize("name", ["time2", "d", "python3", "node18", "env2", "watch1"])
def test_how_much_an_imported_server_may_do_does_not_depend_on_what_it_is_called(name: str) -> None:
    line = [sys.executable, "-m", "mcp_server_time"]
    own = own_program(name, line, path="", folder="", project=False, state="/nowhere")
    assert not is_interpreter(own.called)
    entry = RemoteTool(server=name, tool="now", reached=McpServer(argv=(own.called,)))
    may = PermissionSet(binaries=frozenset({own.called}))
    assert default_risk(effect="read", entry=entry, permissions=may) == "low"
    assert f"[binaries.programs.{own.called}]" in own.lines


def test_which_arguments_a_program_is_always_begun_with_is_shown_to_who_trusts() -> None:
    may = PermissionSet(binaries=frozenset({"d-server", "e-server", "f-server"}))
    named = {
        "d-server": OperatorProgram(file="/usr/bin/python3", before=("/srv/my server.py",)),
        "e-server": OperatorProgram(file="/usr/bin/python3", before=("-m", "mcp_server_time")),
        "f-server": OperatorProgram(file="/usr/bin/f"),
    }
    assert programs(may, named) == [
        "d-server is /usr/bin/python3, always begun with 1 fixed argument; it also touches nothing",
        "d-server is begun with: '/srv/my server.py'",
        "e-server is /usr/bin/python3, always begun with 2 fixed arguments; it also touches nothing",
        "e-server is begun with: -m mcp_server_time",
        "f-server is /usr/bin/f; it also touches nothing",
    ]
