"""A skill whose dependency is switched off elsewhere, while a runtime is open here, does not run from then on."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core_desk import Desk, value
from metier.model.outcome import Refused

SAY = {"id": "say", "type": "shell", "command": "echo tea"}


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    made = Desk(tmp_path, monkeypatch)
    yield made
    made.close()


def put(desk: Desk, name: str, **fields: Any) -> None:
    folder = desk.machine.skills / name
    folder.mkdir(parents=True)
    (folder / "skill.json").write_text(
        json.dumps({"id": name, "description": "d", "instructions": "i", **fields})
    )


@pytest.mark.slow
@pytest.mark.parametrize("wanted", ["lender", "papers", "between"])
def test_a_dependency_that_another_process_disables_is_missed_at_the_next_call(
    desk: Desk, wanted: str
) -> None:
    put(desk, "lender", provides=["papers"])
    put(desk, "between", dependencies=["papers"])
    put(desk, "top", actions=[SAY], dependencies=[wanted])
    assert value(desk.approved("top/say"))["stdout"] == "tea\n"
    desk.machine.metier("skills", "disable", "lender")
    refused = desk.call("top/say")
    assert isinstance(refused, Refused)
    assert refused.code == "skill_unavailable"
    assert wanted in "; ".join(refused.reasons)
    desk.machine.metier("skills", "enable", "lender")
    assert value(desk.approved("top/say"))["stdout"] == "tea\n"
