"""MetaHuman's trust table and way of a call, with calls that are really made."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from metier.model.outcome import Completed, Failed, Outcome, Pending, Refused
from metier.model.skill import Tool
from metier.model.trust_level import LEVELS, TrustLevel
from parlour import Parlour, tool

CORE: dict[str, dict[str, Any]] = {
    "fs_read": {"risk": "low", "minimum_trust": "observe", "effect": "read"},
    "fs_write": {"risk": "high", "minimum_trust": "supervised_auto", "approval": "always"},
    "search_index": {"risk": "low", "minimum_trust": "observe", "effect": "read", "cost": "expensive"},
    "run_agent": {"risk": "medium", "minimum_trust": "supervised_auto", "approval": "always"},
    "shell_safe": {"risk": "high", "minimum_trust": "bounded_auto", "approval": "always"},
}
READING = {"fs_read", "search_index"}
AVAILABLE: dict[TrustLevel, set[str]] = {
    "observe": READING,
    "suggest": READING | {"run_agent"},
    "supervised_auto": READING | {"run_agent", "fs_write"},
    "bounded_auto": set(CORE),
    "adaptive_auto": set(CORE),
}
BY_ITSELF: dict[TrustLevel, set[str]] = {
    "observe": set(),
    "suggest": set(),
    "supervised_auto": READING,
    "bounded_auto": READING,
    "adaptive_auto": READING,
}
"""What asks for approval itself is asked at every level."""


def core() -> list[Tool]:
    return [tool(name, **fields) for name, fields in CORE.items()]


@pytest.fixture
def parlour(tmp_path: Path) -> Iterator[Parlour]:
    made = Parlour(tmp_path, *core(), tool("medium", risk="medium"), tool("high", risk="high"))
    yield made
    made.database.close()


@pytest.mark.parametrize("level", LEVELS)
def test_at_each_level_exactly_the_skills_of_the_table_are_there_and_run_by_themselves(
    parlour: Parlour, level: TrustLevel
) -> None:
    parlour.level = level
    outcomes: dict[str, Outcome] = {name: parlour.call(name) for name in CORE}
    refused = {name for name, outcome in outcomes.items() if isinstance(outcome, Refused)}
    ran = {name for name, outcome in outcomes.items() if isinstance(outcome, Completed)}
    asked = {name for name, outcome in outcomes.items() if isinstance(outcome, Pending)}
    assert set(CORE) - refused == AVAILABLE[level]
    assert ran == BY_ITSELF[level]
    assert asked == AVAILABLE[level] - BY_ITSELF[level]
    assert len(parlour.ran) == len(ran)
    for name in refused:
        assert level in " ".join(getattr(outcomes[name], "reasons", ())), "it says why"


@pytest.mark.parametrize("level", LEVELS)
def test_an_agent_never_does_what_is_of_high_risk_by_itself(parlour: Parlour, level: TrustLevel) -> None:
    parlour.level = level
    outcome = parlour.call("high")
    assert not isinstance(outcome, Completed | Failed)
    assert parlour.ran == []
    assert isinstance(outcome, Pending) == (level not in ("observe", "suggest"))


@pytest.mark.parametrize("level", LEVELS)
def test_what_says_that_it_needs_approval_is_asked_at_every_level_whatever_its_risk(
    parlour: Parlour, level: TrustLevel
) -> None:
    parlour.level = level
    parlour.tools = {"send": tool(approval="always", risk="low", minimum_trust="observe")}
    assert isinstance(parlour.call(), Pending)
    parlour.tools = {"send": tool(risk="low", minimum_trust="observe")}
    assert isinstance(parlour.call(), Completed) == (level not in ("observe", "suggest"))


def test_the_level_of_the_moment_counts_and_not_that_of_the_start(parlour: Parlour) -> None:
    assert isinstance(parlour.call("fs_read"), Completed)
    parlour.level = "observe"
    assert isinstance(parlour.call("fs_read"), Pending)
    assert isinstance(parlour.call("medium"), Refused)
    parlour.level = "bounded_auto"
    assert isinstance(parlour.call("medium"), Completed)


def test_a_call_that_needs_approval_waits_for_a_person_and_then_runs_once(parlour: Parlour) -> None:
    pending = parlour.call("fs_write")
    assert isinstance(pending, Pending)
    assert parlour.resume(pending) is None, "nobody decided yet"
    parlour.decided(pending)
    assert isinstance(parlour.resume(pending), Completed)
    assert parlour.resume(pending) is None
    assert len(parlour.ran) == 1
    assert parlour.events(pending) == [
        "skill_approval_queued", "skill_approved", "skill_execution_started", "skill_executed",
    ]  # fmt: skip


def test_a_call_that_was_denied_runs_nothing_and_stays_denied(parlour: Parlour) -> None:
    pending = parlour.call("fs_write")
    parlour.decided(pending, "deny", word="not today")
    assert parlour.resume(pending) is None
    parlour.decided(pending)
    assert parlour.resume(pending) is None, "the first word counts"
    assert parlour.ran == []
    assert parlour.events(pending)[:2] == ["skill_approval_queued", "skill_rejected"]


@pytest.mark.parametrize(
    "arguments", [{}, {"to": "ada"}, {"to": 7, "text": "x"}, {"to": "ada", "text": None}]
)
def test_an_input_that_is_missing_or_of_the_wrong_type_refuses_the_call(
    parlour: Parlour, arguments: dict[str, Any]
) -> None:
    outcome = parlour.call("fs_read", arguments)
    assert isinstance(outcome, Refused)
    assert outcome.code == "invalid_arguments"
    assert parlour.ran == []
    assert parlour.events(outcome) == ["skill_execution_blocked"]
