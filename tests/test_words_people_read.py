"""What people read says what happened, in words: no name of a class of ours stands in front of it."""

import ast
import json
import re
from pathlib import Path

import pytest

import metier.sandbox
from jobs import job
from machine import Machine
from mcp_kit import manifest
from metier.host import keyring
from metier.model.entry import Command
from metier.model.job import Ending, Fault, Report
from metier.model.outcome import Failed
from metier.runtime import hosting
from metier.sandbox.ending import outcome_of

CLASS = re.compile(r"\b[A-Z][a-z]+(?:[A-Z][a-z]+)+\b")
"""A name as classes have them."""
ENDINGS: tuple[Ending, ...] = ("not_started", "busy", "no_result", "bad_result", "stopped", "out_of_disk")
"""How a run ends of which the skill's own code said nothing."""


def _names_of_faults() -> list[str]:
    """By what name a sandbox tells programs what went wrong."""
    found: set[str] = set()
    for path in Path(metier.sandbox.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                if node.func.id not in ("Fault", "not_started"):
                    continue
                found |= {
                    each.value.value
                    for each in node.keywords
                    if each.arg == "name"
                    and isinstance(each.value, ast.Constant)
                    and isinstance(each.value.value, str)
                }
    return sorted(found)


def told(ending: Ending, name: str) -> str:
    report = Report(ending=ending, fault=Fault(name=name, message="the reason itself"))
    outcome = outcome_of(job(Command(argv=("true",))), report, sandbox="test")
    assert isinstance(outcome, Failed)
    return outcome.message


@pytest.mark.parametrize("name", _names_of_faults())
def test_no_name_of_a_fault_of_ours_reaches_who_called(name: str) -> None:
    for ending in ENDINGS:
        message = told(ending, name)
        assert f"{name}:" not in message
        assert not CLASS.search(message), message
        assert "the reason itself" in message


def test_the_names_of_faults_are_found() -> None:
    assert {"ToolHeldBack", "ServerFailed", "BadModule", "NotFound"} <= set(_names_of_faults())


@pytest.mark.parametrize("name", ["ServerError", "ToolError", "PermissionDenied"])
def test_what_a_server_or_the_gate_says_stands_without_our_name_for_it(name: str) -> None:
    assert told("raised", name) == "the reason itself"


def test_an_error_of_a_skills_own_code_keeps_the_name_its_author_gave_it() -> None:
    assert told("raised", "KeyError") == "KeyError: the reason itself"


@pytest.mark.timeout(120)
def test_common_failures_at_the_terminal_name_no_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(tmp_path)
    monkeypatch.setenv("HOME", str(machine.home))
    monkeypatch.setenv("PATH", str(machine.bin))
    manifest(machine, "gone", how="dead")
    manifest(machine, "odd", tools={name: {"effect": "read"} for name in ("fail", "die", "garbage")})
    manifest(machine, "keyed", env={"API_TOKEN": "{{secret:nowhere}}"})
    machine.metier("skills", "trust", "--yes", "odd")
    said = [
        machine.metier(*line, check=None).stderr
        for line in (
            ("call", "nothing"),
            ("call", "read_skill", json.dumps({"name": "nobody"})),
            ("call", "read_skill", "[1"),
            ("call", "odd/fail"),
            ("call", "odd/die"),
            ("call", "odd/garbage"),
            ("skills", "trust", "--yes", "gone"),
            ("skills", "trust", "--yes", "keyed"),
            ("skills", "info", "nobody"),
            ("tokens", "revoke", "nope"),
            ("approvals", "approve", "nope"),
            ("--config", str(tmp_path / "none.toml"), "skills", "list"),
        )
    ]
    for each in said:
        assert each, said
        assert not CLASS.search(each), each
    assert "it broke" in said[3], "what the tool itself says is there"
    assert "metier secrets set nowhere" in said[7]
    assert "metier tokens list" in said[9]


def test_the_help_promises_only_what_also_holds_for_a_server(tmp_path: Path) -> None:
    said = " ".join(Machine(tmp_path).metier("--help").stdout.split())
    assert "Nothing leaves this machine" not in said, (
        "with `serve`, a webhook or a granted host something does"
    )
    assert "Metier reports to nobody: it reaches only what you set up or granted." in said


def test_a_fault_of_somebody_elses_library_is_told_without_its_name() -> None:
    class KeyringLocked(Exception):
        pass

    locked = keyring._closed(KeyringLocked("the key is hunter2"))  # pyright: ignore[reportPrivateUsage]
    assert locked.message == "the keyring of the operating system could not be used: it is locked"
    for said in (
        str(keyring._closed(RuntimeError("hunter2"))),  # pyright: ignore[reportPrivateUsage]
        hosting._said(NotImplementedError("hunter2")),  # pyright: ignore[reportPrivateUsage]
    ):
        assert "Error" not in said
        assert "hunter2" not in said, "what it says may hold anything"
