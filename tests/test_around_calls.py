"""When who stands around a call is told of it: asked while it is judged, told that it begins once it is on the record, and then how it ended."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec import structs

from machine import Machine, write_skill
from metier.model.call import ValidCall
from metier.model.outcome import Completed, Failed, Outcome, Pending, Refused
from metier.model.verdict import Verdict
from metier.pipeline import run
from test_pipeline import Kitchen, asked


class Around:
    """Writes down what it is told, and what the record said of the call by then."""

    def __init__(self, kitchen: Kitchen, word: Verdict | None = None) -> None:
        self.kitchen = kitchen
        self.word = word
        self.told: list[str] = []
        self.recorded: list[list[str]] = []

    async def before(self, valid: ValidCall) -> Verdict | Refused | None:
        self.told.append("before")
        return self.word

    async def begins(self, valid: ValidCall) -> None:
        self.told.append(f"begins, {self.kitchen.ran} ran")
        self.recorded.append([event for event, _ in self.kitchen.events()])

    def after(self, valid: ValidCall, outcome: Completed | Failed) -> None:
        self.told.append(f"after, {self.kitchen.ran} ran")

    def call(self, tool: str = "pour", **arguments: Any) -> Outcome:
        return anyio.run(run, asked(tool, **arguments), structs.replace(self.kitchen.house, around=self))


@pytest.fixture
def kitchen(tmp_path: Path) -> Iterator[Kitchen]:
    machine = Machine(tmp_path)
    write_skill(machine.skills / "tea", body="Boil, then pour.")
    made = Kitchen(machine)
    made.trusted("tea")
    yield made
    made.database.close()


def test_that_a_call_begins_is_told_when_it_is_on_the_record_and_before_it_runs(kitchen: Kitchen) -> None:
    around = Around(kitchen)
    assert isinstance(around.call(), Completed)
    assert around.told == ["before", "begins, 0 ran", "after, 1 ran"]
    assert around.recorded == [["skill_execution_started"]]


def test_a_call_that_is_refused_at_whatever_stage_never_begins(kitchen: Kitchen) -> None:
    for tool, arguments, code in [
        ("nothing", {}, "unknown_tool"),
        ("pour", {"name": "coffee"}, "unknown_skill"),
        ("boil", {}, "sandbox_unavailable"),
    ]:
        around = Around(kitchen)
        outcome = around.call(tool, **arguments)
        assert isinstance(outcome, Refused)
        assert outcome.code == code
        assert around.told in ([], ["before"]), code
    denied = Around(kitchen, Verdict.deny("no"))
    assert isinstance(denied.call(), Refused)
    assert denied.told == ["before"]


def test_a_call_that_waits_for_somebodys_word_has_not_begun(kitchen: Kitchen) -> None:
    around = Around(kitchen, Verdict.ask("look at it"))
    assert isinstance(around.call(), Pending)
    assert around.told == ["before"]


def test_a_call_that_the_last_look_refuses_has_not_begun(kitchen: Kitchen) -> None:
    """Its trust is taken back after it was judged: the intent itself is refused."""
    around = Around(kitchen)
    kitchen.after_look = lambda: kitchen.trust.revoke("tea", by="human:test")
    outcome = around.call()
    assert isinstance(outcome, Refused), outcome
    assert "begins, 0 ran" not in around.told
