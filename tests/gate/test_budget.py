"""Which budgets a call is counted in, and that a used-up one refuses it."""

from typing import Any

import pytest
from msgspec.structs import replace

from metier.config.settings import BudgetSettings, Window
from metier.gate.budget import budgets, scopes
from metier.gate.situation import Situation
from metier.model.call import Call, Principal, ValidCall
from metier.model.entry import Operation
from metier.model.permission import PermissionSet
from metier.model.skill import Skill, Tool
from metier.model.verdict import Decision
from metier.record.budgets import MOST_SCOPES

SKILL = Skill(name="tea", description="", dialect="agent_skills")


def valid(*, skill: Skill | None = None, **tool: Any) -> ValidCall:
    entry = Operation(module="test", operation="nothing")
    made = Tool(**{"name": "tea/pour", "description": "", "parameters": {}, "entry": entry, **tool})
    call = Call(id="call_1", principal=Principal(id="agent:cli", kind="agent"), tool=made.name, arguments={})
    return ValidCall(call=call, tool=made, arguments={}, skill=skill, permissions=PermissionSet())


def counted(call: ValidCall, settings: BudgetSettings | None = None) -> dict[str, tuple[int, int]]:
    found = scopes(call, settings or BudgetSettings())
    assert len(found) <= MOST_SCOPES
    return {scope.id: (scope.calls, scope.seconds) for scope in found}


def test_what_is_free_is_counted_for_its_principal_and_its_tool() -> None:
    assert counted(valid(cost="free")) == {"principal:agent:cli": (600, 60), "tool:tea/pour": (3_000, 60)}


@pytest.mark.parametrize(("cost", "most"), [("cheap", 6_000), ("expensive", 600)])
def test_what_costs_is_counted_for_its_skill_and_its_cost_too(cost: str, most: int) -> None:
    assert counted(valid(skill=SKILL, cost=cost)) == {
        "principal:agent:cli": (600, 60),
        "tool:tea/pour": (3_000, 60),
        "skill:tea": (3_000, 60),
        f"{cost}:agent:cli": (most, 3_600),
    }


@pytest.mark.parametrize("cost", ["free", "cheap", "expensive"])
def test_no_principal_alone_uses_up_what_a_tool_or_a_skill_has_for_all(cost: str) -> None:
    found = counted(valid(skill=SKILL, cost=cost))
    calls, seconds = found.pop("principal:agent:cli")
    shared = {name: window for name, window in found.items() if "agent:cli" not in name}
    assert shared.keys() == {"tool:tea/pour", "skill:tea"}
    for most, stretch in shared.values():
        assert stretch == seconds, "stretches of one length begin at the same moment"
        assert 4 * calls <= most


def test_searches_of_memory_are_counted_for_whoever_stands_behind_the_skill_that_searches() -> None:
    def window(behind: str | None) -> dict[str, tuple[int, int]]:
        asked = valid(permissions=PermissionSet(operations=frozenset({"memory.search"})), cost="free")
        by = Principal(id="skill:search_index", kind="skill", on_behalf_of=behind)
        found = counted(replace(asked, call=replace(asked.call, principal=by)))
        return {name: each for name, each in found.items() if name.startswith("memory:")}

    assert window("agent:a") == {"memory:agent:a": (60, 60)}
    assert window("agent:b") == {"memory:agent:b": (60, 60)}
    assert window(None) == {"memory:skill:search_index": (60, 60)}


def test_every_number_is_the_operators() -> None:
    mine = BudgetSettings(
        principal=Window(calls=1, seconds=2),
        tool=Window(calls=3, seconds=4),
        skill=Window(calls=5, seconds=6),
        expensive=Window(calls=0, seconds=8),
    )
    assert list(counted(valid(skill=SKILL, cost="expensive"), mine).values()) == [
        (1, 2),
        (3, 4),
        (5, 6),
        (0, 8),
    ]


def test_a_budget_that_is_used_up_refuses_and_every_one_is_named() -> None:
    call = valid()
    assert budgets(call, Situation()).decision is Decision.ABSTAIN
    verdict = budgets(call, Situation(exhausted=("the tool's", "the agent's")))
    assert verdict.decision is Decision.DENY
    assert verdict.reasons == ("the tool's", "the agent's")
