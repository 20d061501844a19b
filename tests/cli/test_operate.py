"""`metier operate`: a person has an operation done, and what an agent would be refused he is not."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from machine import Machine
from metier.doors.cli import metier as command


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.delenv("METIER_HOME", raising=False)
    monkeypatch.chdir(made.project)
    return made


def metier(*args: str, given: str = "") -> Result:
    done = CliRunner().invoke(command, list(args), input=given)
    assert "Traceback" not in done.output, done.output
    return done


def test_a_person_has_done_what_an_agent_is_refused(machine: Machine) -> None:
    done = metier("operate", "conv.list_threads", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["outcome"] == "completed"
    assert metier("call", "conv.list_threads", "--json").exit_code == 3


def test_arguments_come_from_standard_input_too(machine: Machine) -> None:
    done = metier("operate", "settings.schema", "-", "--json", given='{"skill_id": "fs_read"}')
    assert json.loads(done.stdout)["value"]["reason"] == "no_schema"


@pytest.mark.parametrize("written", ["{", "[1]", "1", '{"a": 1, "a": 2}', "null"])
def test_what_is_no_object_is_said_and_nothing_is_done(machine: Machine, written: str) -> None:
    done = metier("operate", "channels.list", written)
    assert done.exit_code == 2
    assert "arguments are" in done.output


@pytest.mark.parametrize("name", ["fs_read/execute", "read_skill", "a.b/c"])
def test_a_tool_of_a_skill_is_no_operation(machine: Machine, name: str) -> None:
    done = metier("operate", name)
    assert done.exit_code == 2
    assert "is no operation" in done.output


def test_without_a_host_one_is_told_to_start_it(machine: Machine) -> None:
    done = metier("operate", "skills.enable", '{"skill_id": "anything"}')
    assert done.exit_code == 1
    assert "Start one with `metier host`" in done.output


def test_what_no_module_offers_is_refused_with_what_there_is(machine: Machine) -> None:
    done = metier("operate", "channels.lst")
    assert done.exit_code == 3
    assert "channels.list" in done.output
