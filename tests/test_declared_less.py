"""What a tool says of itself does not let it run unasked where it can do more than it says."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core_desk import Desk
from machine import approve_all
from metier.model.outcome import Completed, Pending

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no wall for code here")


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    made = Desk(tmp_path, monkeypatch)
    yield made
    made.close()


def put(desk: Desk, name: str, permissions: dict[str, list[str]]) -> str:
    """A skill whose one tool says that it only reads, and at how little risk."""
    folder = desk.machine.skills / name
    folder.mkdir(parents=True)
    tool = {
        "name": "look",
        "description": "Looks.",
        "effect": "read",
        "risk": "low",
        "minimum_trust": "observe",
        "entry": {"kind": "python", "path": "look.py"},
        "permissions": permissions,
    }
    block = json.dumps({"metier": {"tools": [tool]}})
    (folder / "SKILL.md").write_text(
        f"---\nname: {name}\ndescription: Looks.\nmetadata: {block}\n---\n\nLook.\n"
    )
    (folder / "look.py").write_text("def main(params, context):\n    return 'looked'\n")
    approve_all(desk.machine.skills)
    return f"{name}/look"


def read_only(desk: Desk, tool: str) -> Any:
    (found,) = [each for each in desk.runtime.tools("mcp") if each["name"] == tool.replace("/", "__")]
    return found["annotations"]["readOnlyHint"]


@pytest.mark.parametrize("permissions", [{"operations": ["gateway.post"]}, {"hosts": ["a.example"]}])
def test_a_tool_that_can_send_is_asked_about_though_it_says_that_it_only_reads(
    desk: Desk, permissions: dict[str, list[str]]
) -> None:
    sends, looks = put(desk, "sends", permissions), put(desk, "looks", {})
    outcome = desk.call(sends)
    assert isinstance(outcome, Pending)
    assert desk.shown(outcome).effect == "act"
    assert not read_only(desk, sends)
    assert isinstance(desk.call(looks), Completed), "which can do no more than it says"
    assert read_only(desk, looks)
