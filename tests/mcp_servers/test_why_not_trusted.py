"""`metier skills trust` says why an MCP server could not be asked for its tools, and what to do."""

from pathlib import Path
from typing import Any

import pytest

from machine import Machine
from mcp_kit import manifest


@pytest.mark.parametrize(
    ("how", "more", "why"),
    [
        ("dead", {}, "it ended with exit code 7: cannot start"),
        ("toolless", {}, "it says that it has no tools"),
        ("old", {}, "1999-01-01"),
        ("well", {"env": {"API_TOKEN": "{{secret:odd.tok}}"}}, "metier secrets set odd.tok"),
        ("well", {"command": "not-installed"}, "not-installed"),
    ],
)
def test_why_a_server_told_nothing_is_said(
    how: str, more: dict[str, Any], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(tmp_path)
    monkeypatch.setenv("HOME", str(machine.home))
    manifest(machine, how=how, **more)
    done = machine.metier("skills", "trust", "--yes", "odd", check=1)
    assert why in done.stderr
    assert "doctor" not in done.stderr
