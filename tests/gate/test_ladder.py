"""The trust ladder, cell by cell, as the document of MetaHuman OS has it."""

from typing import Any, get_args

import pytest

from metier.gate.ladder import ladder
from metier.gate.situation import Situation
from metier.model.call import Call, Principal, ValidCall
from metier.model.entry import Operation
from metier.model.permission import PermissionSet
from metier.model.skill import Tool
from metier.model.trust_level import LEVELS, TrustLevel, level_of, reaches
from metier.model.verdict import Decision

ENTRY = Operation(module="test", operation="nothing")
CORE = {
    "fs_read": {"risk": "low", "minimum_trust": "observe", "effect": "read"},
    "fs_write": {"risk": "high", "minimum_trust": "supervised_auto", "approval": "always"},
    "search_index": {"risk": "low", "minimum_trust": "observe", "effect": "read", "cost": "expensive"},
    "run_agent": {"risk": "medium", "minimum_trust": "supervised_auto", "approval": "always"},
    "shell_safe": {"risk": "high", "minimum_trust": "bounded_auto", "approval": "always"},
}
"""The five core skills, as their manifests say it."""

ASK, ALLOW, DENY = Decision.ASK, Decision.ALLOW, Decision.DENY
TABLE: dict[TrustLevel, dict[str, Decision]] = {
    "observe": {"fs_read": ASK, "fs_write": DENY, "search_index": ASK, "run_agent": DENY, "shell_safe": DENY},
    "suggest": {"fs_read": ASK, "fs_write": DENY, "search_index": ASK, "run_agent": ASK, "shell_safe": DENY},
    "supervised_auto": {
        "fs_read": ALLOW,
        "fs_write": ASK,
        "search_index": ALLOW,
        "run_agent": ASK,
        "shell_safe": DENY,
    },
    "bounded_auto": {
        "fs_read": ALLOW,
        "fs_write": ASK,
        "search_index": ALLOW,
        "run_agent": ASK,
        "shell_safe": ASK,
    },
}


def judged(level: TrustLevel, kind: Any = "agent", **tool: Any) -> Decision:
    principal = Principal(id=f"{kind}:test", kind=kind)
    made = Tool(**{"name": "test", "description": "", "parameters": {}, "entry": ENTRY, **tool})
    call = Call(id="call_1", principal=principal, tool=made.name, arguments={})
    valid = ValidCall(call=call, tool=made, arguments={}, skill=None, permissions=PermissionSet())
    return ladder(valid, Situation(level=level)).decision


@pytest.mark.parametrize("level", TABLE)
@pytest.mark.parametrize("name", CORE)
def test_apr_37_the_table_of_the_five_core_skills_holds_row_by_row(level: TrustLevel, name: str) -> None:
    assert judged(level, **CORE[name]) is TABLE[level][name]
    if level == "bounded_auto":
        assert judged("adaptive_auto", **CORE[name]) is TABLE[level][name]


CELLS = [
    (level, risk, approval) for level in LEVELS for risk in ("low", "medium", "high") for approval in ("policy", "always")
]  # fmt: skip
RUNS = {
    ("supervised_auto", "low"), ("bounded_auto", "low"), ("bounded_auto", "medium"),
    ("adaptive_auto", "low"), ("adaptive_auto", "medium"),
}  # fmt: skip


@pytest.mark.parametrize(("level", "risk", "approval"), CELLS)
def test_apr_37_every_cell_of_level_risk_and_approval(level: TrustLevel, risk: str, approval: str) -> None:
    expected = ALLOW if approval == "policy" and (level, risk) in RUNS else ASK
    assert judged(level, risk=risk, approval=approval, minimum_trust="observe") is expected


@pytest.mark.parametrize("kind", ["agent", "skill", "trigger"])
def test_the_ladder_binds_whoever_is_no_human(kind: str) -> None:
    assert judged("observe", kind, risk="high") is DENY
    assert judged("observe", "human", risk="high") is Decision.ABSTAIN


@pytest.mark.parametrize("minimum", ["", "HIGH", "observe ", "Observe", "none", "bounded"])
def test_apr_38_a_minimum_that_is_no_level_is_never_reached(minimum: str) -> None:
    for level in LEVELS:
        assert judged(level, risk="low", minimum_trust=minimum) is DENY
        assert not reaches(level, minimum)


@pytest.mark.parametrize(
    "word", ["", "Bounded_auto", "bounded_auto ", "yolo", None, 3, True, ["bounded_auto"]]
)
def test_apr_38_a_level_that_is_no_level_means_the_least(word: object) -> None:
    assert level_of(word) == "observe"


def test_every_level_is_itself_and_reaches_those_below() -> None:
    assert get_args(TrustLevel) == LEVELS
    for number, level in enumerate(LEVELS):
        assert level_of(level) == level
        assert [reaches(level, other) for other in LEVELS] == [n <= number for n in range(len(LEVELS))]


def test_reading_a_trusted_skill_is_no_act_at_any_level() -> None:
    for level in LEVELS:
        assert judged(level, effect="read", subject="name", risk="low", minimum_trust="bounded_auto") is (
            Decision.ABSTAIN
        )


@pytest.mark.parametrize("name", ["channels.send_message", "schedules.notify"])
@pytest.mark.parametrize("who", ["agent:trigger/trg_1", "agent:schedule/sch_1", "agent:host"])
@pytest.mark.parametrize("level", LEVELS)
def test_where_nothing_runs_by_itself_no_trigger_sends_anything_by_itself(
    level: TrustLevel, who: str, name: str
) -> None:
    module, _, operation = name.partition(".")
    tool = Tool(
        name=name,
        description="",
        parameters={},
        entry=Operation(module=module, operation=operation),
        privileged=True,
        risk="medium",
        minimum_trust="supervised_auto",
    )
    call = Call(id="call_1", principal=Principal(id=who, kind="agent"), tool=name, arguments={})
    valid = ValidCall(call=call, tool=tool, arguments={}, skill=None, permissions=PermissionSet())
    found = ladder(valid, Situation(level=level)).decision
    itself = who == "agent:host" or level not in ("observe", "suggest")
    assert found is (ALLOW if itself else DENY if level == "observe" else ASK)
