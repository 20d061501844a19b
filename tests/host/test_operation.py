"""The code of a skill asks for operations of Metier's own: those it was granted, as calls of their own, and no others."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from core_desk import Desk, value
from machine import approve_all
from metier.gate.ladder import ladder
from metier.gate.principals import standing
from metier.gate.situation import Situation
from metier.gate.validate import MAX_DEPTH
from metier.host.agent_lock import hold
from metier.host.operation import MOST, Operate
from metier.model.call import Call, Principal, ValidCall
from metier.model.digest import Json
from metier.model.outcome import Completed, Failed, Outcome, Pending, Refused
from metier.model.permission import PermissionSet
from metier.model.ports import Answered, NotAnswered
from metier.model.role import Registered
from metier.model.skill import Skill, Tool
from metier.model.verdict import Decision
from metier.record.audit import AuditLog
from metier.record.chain import Record
from metier.record.principals import add_problem
from metier.record.verify import verify
from metier.runtime.inner import Inner, by_agent, by_skill, inner_call
from metier.runtime.inner_tools import INNER_TOOLS, MEMORY_SEARCH
from metier.sandbox.secret import Mask

SEARCH = PermissionSet(operations=frozenset({MEMORY_SEARCH}))
TEA = "We bought jasmine tea at the market."


class Clerk:
    """Makes no calls; says how each ended."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.asked: list[tuple[str, str, str, dict[str, Json]]] = []

    async def call(self, inside: str, skill: str, tool: str, arguments: dict[str, Json]) -> Outcome:
        self.asked.append((inside, skill, tool, arguments))
        return self.outcome


def ask(clerk: Clerk | None, params: dict[str, Json], permissions: PermissionSet = SEARCH) -> Any:
    async def main() -> Answered | NotAnswered:
        return await Operate("call_1", "tea", permissions, clerk).answer(params)

    return anyio.run(main)


DONE = Completed(call_id="call_2", value={"count": 0})
ASKED: dict[str, Json] = {"operation": MEMORY_SEARCH, "arguments": {"query": "tea"}}


def test_a_granted_operation_is_called_for_the_skill_inside_its_call() -> None:
    clerk = Clerk(DONE)
    assert ask(clerk, ASKED) == Answered(value={"count": 0})
    assert clerk.asked == [("call_1", "tea", MEMORY_SEARCH, {"query": "tea"})]


def test_a_secret_of_the_code_is_not_among_the_arguments_that_are_recorded() -> None:
    clerk, mask = Clerk(DONE), Mask()
    mask.add("tok-4711-supersecret")
    told: dict[str, Json] = {"query": ["a tok-4711-supersecret"], "tok-4711-supersecret": 1}

    async def main() -> None:
        service = Operate("call_1", "tea", SEARCH, clerk, mask)
        await service.answer({"operation": MEMORY_SEARCH, "arguments": told})

    anyio.run(main)
    assert clerk.asked[0][3] == {"query": ["a ••••••••"], "••••••••": 1}


def test_an_operation_that_was_not_granted_is_a_violation_and_not_called() -> None:
    clerk = Clerk(DONE)
    refused = ask(clerk, {"operation": "agents.run", "arguments": {}})
    assert (refused.name, refused.kind) == ("PermissionDenied", "violation")
    assert clerk.asked == []
    nothing = Operate("call_1", "tea", PermissionSet(), clerk)
    assert not nothing.allowed(PermissionSet())
    assert nothing.allowed(SEARCH)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"operation": 7},
        {"operation": MEMORY_SEARCH, "arguments": "tea"},
        {"operation": MEMORY_SEARCH, "skill": "another"},
        {"operation": MEMORY_SEARCH, "principal": "human:uid-0"},
    ],
)
def test_a_request_says_which_operation_and_nothing_of_who_asks(params: dict[str, Json]) -> None:
    clerk = Clerk(DONE)
    assert ask(clerk, params).name == "InvalidRequest"
    assert clerk.asked == []


@pytest.mark.parametrize(
    ("outcome", "name", "said"),
    [
        (
            Failed(call_id="c", code="not_started", message="it is not there"),
            "not_started",
            "it is not there",
        ),
        (
            Refused(call_id="c", code="forbidden", reasons=("so",), remedy="Ask"),
            "forbidden",
            "memory.search was refused: so. Ask",
        ),
        (Pending(call_id="c", approval_id="apr_1", reasons=("so",)), "pending_approval", "apr_1: "),
    ],
)
def test_how_it_ended_otherwise_is_a_name_and_a_sentence(outcome: Outcome, name: str, said: str) -> None:
    told = ask(Clerk(outcome), ASKED)
    assert (told.name, told.kind) == (name, "failed")
    assert told.message.startswith(said)


def test_one_call_asks_for_so_many_and_no_more() -> None:
    clerk = Clerk(DONE)

    async def main() -> list[Answered | NotAnswered]:
        service = Operate("call_1", "tea", SEARCH, clerk)
        return [await service.answer(ASKED) for _ in range(MOST + 1)]

    *before, last = anyio.run(main)
    assert all(isinstance(each, Answered) for each in before)
    assert isinstance(last, NotAnswered)
    assert last.name == "Busy"
    assert len(clerk.asked) == MOST


def test_where_nobody_makes_calls_nothing_is_called() -> None:
    assert ask(None, ASKED).name == "NotFound"


# --- who asks


OWNER = "human:uid-0"
CLI = Principal(id="agent:cli", kind="agent", on_behalf_of=OWNER)


def test_a_call_inside_is_deeper_and_acts_for_whoever_stands_behind_the_outer_one() -> None:
    outer = Call(id="call_1", principal=CLI, tool="t", arguments={}, depth=3, unattended=True)
    inner = inner_call(outer, by_skill("tea", outer.principal), MEMORY_SEARCH, {})
    assert (inner.parent, inner.depth, inner.unattended) == ("call_1", 4, True)
    assert inner.principal == Principal(
        id="skill:tea", kind="skill", on_behalf_of="agent:cli", roles=frozenset({"agent"})
    )
    assert by_agent("helper", inner.principal).on_behalf_of == "agent:cli"
    assert by_skill("other", by_agent("helper", CLI)).on_behalf_of == "agent:cli"
    human = Principal(id=OWNER, kind="human")
    assert by_skill("tea", human).on_behalf_of == OWNER


def test_whoever_acts_inside_has_no_more_than_who_asked() -> None:
    for made in (by_skill("tea", CLI), by_agent("helper", CLI)):
        assert "skills:execute" in standing(made, {}, OWNER).rights
        revoked = {"agent:cli": Registered(id="agent:cli", kind="agent", revoked=True)}
        assert "was revoked" in standing(made, revoked, OWNER).problem
    alone = Principal(id="agent:brain/helper", kind="agent")
    assert "works for nobody" in standing(alone, {}, OWNER).problem
    stranger = Principal(id="agent:helper", kind="agent", on_behalf_of="agent:cli")
    assert "not registered" in standing(stranger, {}, OWNER).problem


def test_nobody_can_be_registered_as_an_agent_of_the_workspace() -> None:
    new = Registered(id="agent:brain/helper", kind="agent", roles=frozenset({"agent"}))
    assert "is no id" in add_problem(new, {}, owner=OWNER)


def test_a_call_of_which_no_outer_one_runs_is_not_made() -> None:
    async def main() -> Outcome:
        async def run(call: Call) -> Outcome:
            raise AssertionError("nothing may be run")

        async with anyio.create_task_group() as tasks:
            return await Inner(run, tasks).call("call_9", "tea", MEMORY_SEARCH, {})

    outcome = anyio.run(main)
    assert isinstance(outcome, Refused)
    assert outcome.reasons == ("it is part of no call that runs",)


def judged(tool: Tool, principal: Principal, parent: str | None) -> Decision:
    skill = Skill(name="tea", description="", dialect="metahuman")
    call = Call(id="call_2", principal=principal, tool=tool.name, arguments={}, parent=parent)
    valid = ValidCall(call=call, tool=tool, arguments={}, skill=skill, permissions=tool.permissions)
    return ladder(valid, Situation(level="observe")).decision


def test_only_what_a_skill_asks_for_inside_its_call_was_judged_with_it() -> None:
    tool = INNER_TOOLS[MEMORY_SEARCH]
    assert judged(tool, by_skill("tea", CLI), "call_1") is Decision.ALLOW
    assert judged(tool, by_skill("tea", CLI), None) is Decision.ASK
    assert judged(tool, by_agent("helper", CLI), "call_1") is Decision.ASK
    other = Tool(
        name="tea/brew", description="", parameters={}, risk="low", minimum_trust="observe", entry=tool.entry
    )
    assert judged(other, by_skill("tea", CLI), "call_1") is Decision.ASK


# --- through the whole gate


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    made = Desk(tmp_path, monkeypatch)
    (made.workspace / "memory" / "tea.json").write_text(json.dumps({"content": TEA}))
    yield made
    made.close()


def skill(desk: Desk, code: str, **fields: Any) -> str:
    """A skill of the operator's own that searches memory; its tool."""
    about = {
        "id": "recall",
        "name": "Recall",
        "description": "Recall something.",
        "category": "memory",
        "inputs": {},
        "outputs": {},
        "risk": "low",
        "cost": "cheap",
        "minTrustLevel": "observe",
        "requiresApproval": False,
        **fields,
    }
    folder = desk.machine.skills
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "recall.json").write_text(json.dumps(about))
    (folder / "recall.py").write_text(code)
    approve_all(folder)
    return "recall/execute"


RECALL = """
def execute(inputs, context):
    try:
        return {"success": True, "found": context.operate("memory.search", {"query": "jasmine tea"}).wait()["count"]}
    except context.Error as error:
        return {"success": True, "name": error.name, "said": str(error)}
"""


def records(desk: Desk) -> list[Record]:
    with desk.database() as database:
        assert verify(database).ok
        return AuditLog(database).tail(1000)


def test_what_code_asks_for_is_a_call_of_its_own_on_the_record(desk: Desk) -> None:
    outcome = desk.call(skill(desk, RECALL))
    assert value(outcome)["found"] == 1
    began, inner_began, inner_ended, ended = [each for each in records(desk) if each.call_id]
    assert (began.tool, inner_began.tool, inner_ended.tool, ended.tool) == (
        "recall/execute",
        MEMORY_SEARCH,
        MEMORY_SEARCH,
        "recall/execute",
    )
    assert inner_began.call_id == inner_ended.call_id != began.call_id == ended.call_id
    assert inner_began.parent == inner_ended.parent == began.call_id
    assert (inner_began.principal, inner_began.on_behalf_of) == ("skill:recall", "agent:library")
    assert inner_began.skill == "recall"
    assert inner_ended.event == "skill_executed"


@pytest.mark.slow
def test_code_in_javascript_asks_likewise(desk: Desk) -> None:
    tool = skill(desk, "", implementation="recall.js")
    (desk.machine.skills / "recall.py").unlink()
    (desk.machine.skills / "recall.js").write_text(
        "export async function execute(inputs, context) {\n"
        '  const found = await context.operate("memory.search", { query: "jasmine tea" });\n'
        "  return { success: true, found: found.count };\n}\n"
    )
    assert value(desk.call(tool))["found"] == 1


def test_asking_for_an_operation_beyond_the_grant_ends_and_disables_the_skill(desk: Desk) -> None:
    code = RECALL.replace("memory.search", "agents.run")
    outcome = desk.call(skill(desk, code))
    assert isinstance(outcome, Failed)
    assert outcome.code == "violation"
    after = desk.call("recall/execute")
    assert isinstance(after, Refused)
    assert after.code == "skill_disabled"


def test_where_a_rule_wants_it_asked_the_code_is_told_and_only_that_act_runs_once(desk: Desk) -> None:
    tool = skill(desk, RECALL)
    policy = desk.machine.state / "policy.toml"
    policy.write_text('[[rule]]\ndecision = "ask"\nbecause = "memories are mine"\ntool = "memory.search"\n')
    policy.chmod(0o600)
    told = value(desk.call(tool))
    assert told["name"] == "pending_approval"
    approval = told["said"].partition(":")[0]
    asked = Pending(call_id="", approval_id=approval, reasons=())
    shown = desk.shown(asked)
    assert (shown.tool, shown.principal, shown.skill) == (MEMORY_SEARCH, "skill:recall", "recall")
    outer = [each for each in records(desk) if each.tool == "recall/execute"]
    done = desk.machine.metier("approvals", "approve", approval)
    assert json.loads(done.stdout)["results"][0]["path"] == "memory/tea.json"
    again = desk.machine.metier("approvals", "approve", approval, check=1)
    assert "begun already" in again.stderr
    after = records(desk)
    assert outer == [each for each in after if each.tool == "recall/execute"]
    assert [
        each.event for each in after if each.tool == MEMORY_SEARCH and each.event == "skill_executed"
    ] == ["skill_executed"]


def test_a_rule_that_denies_it_is_said_to_the_code(desk: Desk) -> None:
    tool = skill(desk, RECALL)
    policy = desk.machine.state / "policy.toml"
    policy.write_text('[[rule]]\ndecision = "deny"\nbecause = "not now"\nprincipal = "skill:*"\n')
    policy.chmod(0o600)
    told = value(desk.call(tool))
    assert told["name"] == "forbidden"
    assert "not now" in told["said"]


def test_calls_inside_calls_have_a_bottom(desk: Desk) -> None:
    from metier.gate.validate import validate

    outer = Call(id="call_1", principal=CLI, tool="t", arguments={}, depth=MAX_DEPTH)
    inner = inner_call(outer, by_skill("search_index", CLI), MEMORY_SEARCH, {"query": "tea"})
    refused = validate(inner, tools=INNER_TOOLS, catalog=desk.runtime.catalog)
    assert isinstance(refused, Refused)
    assert "deep" in refused.reasons[0]
    fits = inner_call(
        Call(id="call_1", principal=CLI, tool="t", arguments={}, depth=MAX_DEPTH - 1),
        by_skill("search_index", CLI),
        MEMORY_SEARCH,
        {"query": "tea"},
    )
    assert isinstance(validate(fits, tools=INNER_TOOLS, catalog=desk.runtime.catalog), ValidCall)


@pytest.mark.parametrize(("category", "risk"), [("memory", "low"), ("agent", "low")])
def test_what_a_category_is_for_is_shown_as_a_permission_and_never_lowers_the_risk(
    desk: Desk, category: str, risk: str
) -> None:
    tool = skill(desk, RECALL, category=category)
    (made,) = [each for found in desk.runtime.skills for each in found.tools if each.name == tool]
    wanted = {"memory": ["memory.search"], "agent": ["agents.status"]}[category]
    assert made.permissions.plain() == {"operations": wanted}
    assert made.risk == risk


def test_whether_an_agent_runs_can_be_asked(desk: Desk) -> None:
    code = """
def execute(inputs, context):
    return {"success": True, **context.operate("agents.status", {"agentName": "helper"}).wait()}
"""
    tool = skill(desk, code, category="agent", risk="medium")
    assert value(desk.approved(tool)) == {"success": True, "running": False}
    held = hold(str(desk.machine.state), "helper")
    assert held is not None
    held.note(4711)
    assert value(desk.approved(tool)) == {"success": True, "running": True, "pid": 4711}
    held.release()
