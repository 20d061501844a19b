"""Every layer can stop a call by itself, says so in its own words, and lets the call go when that one fact is right."""

from itertools import combinations
from typing import Any

import pytest
from msgspec import structs

from gatehouse import OF_AGENTS, OF_OWNERS
from metier.catalog.hold import Held
from metier.gate.authorize import LAYERS, authorize
from metier.gate.rules import Rule, Rules
from metier.gate.situation import Situation, hearing
from metier.model.call import AuthorizedCall, Bytes, Call, Principal, ValidCall
from metier.model.entry import Operation
from metier.model.ground import Ground
from metier.model.outcome import RefusalCode, Refused
from metier.model.permission import BASE_DIR, PermissionSet
from metier.model.requirement import RequirementError
from metier.model.role import Standing
from metier.model.skill import Skill, Tool
from metier.model.verdict import Decision, Verdict

AGENT = Principal(id="agent:test", kind="agent")
TOOL = Tool(
    name="read_leaf",
    description="",
    parameters={},
    subject="name",
    effect="read",
    risk="low",
    permissions=PermissionSet(reads=frozenset({BASE_DIR})),
    entry=Operation(module="tea", operation="read"),
)
SKILL = Skill(name="tea", description="", dialect="agent_skills")
BYTES = Bytes(digest="sha256:0")
HELD = Held(bytes=BYTES)
GRANTED = PermissionSet(reads=frozenset({BASE_DIR}))
MISSING = RequirementError(type="binary", name="kettle", skill="tea")
NOTHING = PermissionSet()
TRUST_IT = "who runs `metier skills trust tea` is shown what it asks for, and grants it"

Case = tuple[ValidCall, Situation]


def valid(*, principal: Principal = AGENT, tool: Tool = TOOL, skill: Skill | None = SKILL) -> ValidCall:
    call = Call(id="call_1", principal=principal, tool=tool.name, arguments={"name": "tea"})
    return ValidCall(
        call=call, tool=tool, arguments={"name": "tea"}, skill=skill, permissions=tool.permissions
    )


def situation(
    held: Held | None = HELD, granted: PermissionSet = GRANTED, missing: bool = False, **more: Any
) -> Situation:
    facts: dict[str, Any] = {"standing": OF_AGENTS, "level": "supervised_auto", **more}
    return Situation(held=held, granted=granted, missing=(MISSING,) if missing else (), **facts)


def changed(skill: Skill = SKILL, **fields: object) -> Skill:
    return structs.replace(skill, **fields)


def tool(**fields: object) -> Tool:
    return structs.replace(TOOL, **fields)


# What is wrong, the layer that must say so, the code, words of the reason, the call and situation with it.
DENIED: list[tuple[str, str, RefusalCode, str, Case]] = [
    (
        "stopped", "running", "stopped", "everything is stopped: a fire (human:me, today)",
        (valid(), situation(stopped="a fire (human:me, today)")),
    ),
    (
        "nobody we know", "roles", "forbidden", "'agent:test' is not registered",
        (valid(), situation(standing=Standing(problem="'agent:test' is not registered"))),
    ),
    (
        "not trusted that far", "ladder", "forbidden",
        "'read_leaf' (risk medium) asks for trust level 'bounded_auto', and the level is 'supervised_auto'",
        (valid(tool=tool(risk="medium", minimum_trust="bounded_auto")), situation()),
    ),
    (
        "against a rule", "rules", "forbidden", "rule 1: tea is for the afternoon",
        (valid(), situation(rules=Rules(rules=(
            Rule(number=1, decision=Decision.DENY, because="tea is for the afternoon"),
        )))),
    ),
    (
        "rules that cannot be read", "rules", "forbidden",
        "the operator's rules cannot be used, so nothing is allowed: line 3",
        (valid(), situation(rules=Rules(problem="line 3"))),
    ),
    (
        "nothing left", "budgets", "budget_exceeded", "the budget is used up",
        (valid(), situation(exhausted=("the budget is used up",))),
    ),
    (
        "below the floor", "floor", "forbidden",
        "'/state/keys' cannot be read: Metier's own state lies there",
        (
            valid(tool=tool(permissions=PermissionSet(reads=frozenset({"/state/keys"})))),
            situation(granted=PermissionSet(reads=frozenset({"/state"})), ground=Ground(state="/state")),
        ),
    ),
    (
        "refused by a gate hook", "hooks", "forbidden", "the hook says no",
        (valid(), hearing(situation(), Verdict.deny("the hook says no"))),
    ),
    (
        "disabled", "switched_on", "skill_disabled", "skill 'tea' is disabled: named in skills.disabled",
        (valid(skill=changed(status="disabled", why="named in skills.disabled")), situation()),
    ),
    (
        "broken when it was listed", "intact", "skill_broken", "skill 'tea' is broken: no description",
        (valid(skill=changed(status="broken", why="no description")), situation()),
    ),
    (
        "broken now", "intact", "skill_broken", "skill 'tea' is broken: it holds a link",
        (valid(), situation(Held(bytes=BYTES, broken="it holds a link"))),
    ),
    (
        "bytes nobody trusts", "trusted", "not_trusted", "skill 'tea': not trusted yet",
        (valid(), situation(Held(bytes=BYTES, refusal="not trusted yet"))),
    ),
    (
        "bytes nobody looked at", "trusted", "not_trusted", "skill 'tea': its bytes could not be looked at",
        (valid(), situation(None)),
    ),
    (
        "for operators", "audience", "forbidden", "'read_leaf' is for operators only",
        (valid(tool=tool(audience="operator")), situation(standing=OF_OWNERS)),
    ),
    (
        "not for models", "audience", "forbidden", "skill 'tea' says that models may not invoke it",
        (valid(skill=changed(model_may_invoke=False)), situation()),
    ),
    (
        "something missing", "equipped", "skill_unavailable", 'skill "tea" requires binary "kettle"',
        (valid(), situation(missing=True)),
    ),
    (
        "nothing granted", "permissions", "forbidden", f"not granted: reads {{baseDir}}; {TRUST_IT}",
        (valid(), situation(granted=NOTHING)),
    ),
    (
        "more than granted", "permissions", "forbidden", "not granted: hosts tea.example; secrets TOKEN",
        (
            valid(
                tool=tool(
                    permissions=PermissionSet(
                        reads=frozenset({BASE_DIR}), hosts=frozenset({"tea.example"}), secrets=frozenset({"TOKEN"})
                    )
                )
            ),
            situation(),
        ),
    ),
]  # fmt: skip
each_denial = pytest.mark.parametrize(
    ("layer", "code", "reason", "case"), [pytest.param(*rest, id=name) for name, *rest in DENIED]
)


def denials(case: Case) -> list[str]:
    return [layer.__name__ for _, layer in LAYERS if layer(*case).decision is Decision.DENY]


def refused(case: Case) -> Refused:
    answer = authorize(*case)
    assert isinstance(answer, Refused), answer
    return answer


def test_the_call_itself_is_allowed_when_nothing_is_wrong() -> None:
    answer = authorize(valid(), situation())
    assert isinstance(answer, AuthorizedCall)
    assert answer.verdict.decision is Decision.ALLOW
    assert answer.verdict.reasons == ("reading a trusted skill is disclosure, not an act",)
    assert answer.valid == valid()
    assert answer.bytes == BYTES, "the bytes that were judged are the bytes that will be used"


@each_denial
def test_one_wrong_fact_is_enough_and_its_own_layer_says_so(
    layer: str, code: RefusalCode, reason: str, case: Case
) -> None:
    assert denials(case) == [layer]
    answer = refused(case)
    assert (answer.call_id, answer.code) == ("call_1", code)
    assert answer.reasons == (reason,)


def test_every_layer_that_can_deny_has_a_case_here() -> None:
    speaks_for = {"disclosure"}
    assert {layer.__name__ for _, layer in LAYERS} - speaks_for == {layer for _, layer, *_ in DENIED}


@pytest.mark.parametrize(
    ("kind", "standing", "audience", "allowed"),
    [
        ("human", OF_OWNERS, "operator", True),
        ("human", OF_AGENTS, "operator", False),
        ("human", Standing(), "operator", False),
        ("human", OF_OWNERS, "model", True),
        ("human", Standing(), "model", False),
        ("agent", OF_OWNERS, "operator", False),
        ("skill", OF_OWNERS, "operator", False),
        ("trigger", OF_OWNERS, "operator", False),
    ],
)
def test_what_is_for_operators_only_a_human_who_has_the_right_may_do(
    kind: str, standing: Standing, audience: str, allowed: bool
) -> None:
    principal = Principal(id="x", kind=kind, roles=frozenset({"owner"}))  # type: ignore[arg-type]
    asked = valid(principal=principal, tool=tool(audience=audience, effect="act", subject=""), skill=None)
    assert isinstance(authorize(asked, situation(standing=standing)), AuthorizedCall) is allowed


def test_the_owner_gets_no_more_than_was_granted() -> None:
    owner = Principal(id="human:x", kind="human", roles=frozenset({"owner"}))
    more = tool(audience="operator", permissions=PermissionSet(hosts=frozenset({"tea.example"})))
    facts = situation(standing=OF_OWNERS)
    assert refused((valid(principal=owner, tool=more, skill=None), facts)).code == "forbidden"


def test_each_refusal_has_a_way_out_of_its_own() -> None:
    said = {code: refused(case).remedy for _, _, code, _, case in DENIED}
    assert all(said.values())
    assert len(set(said.values())) >= 4
    assert "configuration" in said["skill_disabled"]
    assert "metier skills check" in said["skill_broken"]
    assert "metier skills trust" in said["not_trusted"]
    assert "metier skills check" in said["skill_unavailable"]


def wrong(*facts: str) -> Case:
    """The call with each of these facts wrong."""
    held = HELD
    if "not_trusted" in facts or "skill_broken" in facts:
        held = Held(
            bytes=BYTES,
            refusal="not trusted yet" if "not_trusted" in facts else "",
            broken="a link" if "skill_broken" in facts else "",
        )
    skill = changed(status="disabled", why="off") if "skill_disabled" in facts else SKILL
    call = valid(skill=skill, tool=tool(audience="operator") if "forbidden" in facts else TOOL)
    return call, situation(held, missing="skill_unavailable" in facts, standing=OF_OWNERS)


ORDER: list[RefusalCode] = ["skill_disabled", "skill_broken", "not_trusted", "forbidden", "skill_unavailable"]


@pytest.mark.parametrize(("code", "other"), list(combinations(ORDER, 2)))
def test_of_several_denials_the_first_gives_the_code_and_all_give_their_reasons(
    code: RefusalCode, other: RefusalCode
) -> None:
    answer = refused(wrong(other, code))
    assert answer.code == code
    alone = {*refused(wrong(code)).reasons, *refused(wrong(other)).reasons}
    assert len(alone) == 2
    assert set(answer.reasons) == alone


def test_all_facts_wrong_at_once_are_all_said() -> None:
    answer = refused(wrong(*ORDER))
    assert answer.code == ORDER[0]
    assert len(answer.reasons) == len(ORDER)


def test_no_allowance_outweighs_a_denial() -> None:
    for _, _, _, _, case in DENIED:
        allowed = [layer.__name__ for _, layer in LAYERS if layer(*case).decision is Decision.ALLOW]
        assert allowed in (["disclosure"], []), "the allowance was there, where it is a disclosure"
        assert isinstance(authorize(*case), Refused)


def test_what_nobody_denies_and_nobody_allows_is_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    opinionless = tuple((code, layer) for code, layer in LAYERS if layer.__name__ != "disclosure")
    monkeypatch.setattr("metier.gate.authorize.LAYERS", opinionless)
    case = (valid(), situation())
    assert denials(case) == []
    answer = refused(case)
    assert (answer.code, answer.reasons) == ("forbidden", ("no layer allowed it",))


@pytest.mark.parametrize("kind", ["agent", "skill", "trigger"])
def test_what_a_skill_keeps_from_models_it_keeps_from_everybody_but_people(kind: str) -> None:
    kept = changed(model_may_invoke=False)
    asked = Principal(id=f"{kind}:x", kind=kind)  # type: ignore[arg-type]
    assert refused((valid(principal=asked, skill=kept), situation())).code == "forbidden"
    person = Principal(id="human:x", kind="human")
    facts = situation(standing=OF_OWNERS)
    assert isinstance(authorize(valid(principal=person, skill=kept), facts), AuthorizedCall)


@pytest.mark.parametrize(
    "case",
    [
        case
        for name, *_, case in DENIED
        if name not in ("for operators", "not for models", "not trusted that far")
    ],
)
def test_a_person_is_bound_by_every_other_layer(case: Case) -> None:
    call, facts = case
    person = structs.replace(call.call, principal=Principal(id="human:x", kind="human"))
    assert isinstance(authorize(structs.replace(call, call=person), facts), Refused)


def test_bytes_that_may_not_be_used_were_granted_nothing_worth_speaking_of() -> None:
    for held in (Held(bytes=BYTES, refusal="not trusted yet"), Held(broken="a link")):
        assert len(refused((valid(), situation(held, granted=NOTHING))).reasons) <= 2
        assert "not granted" not in "; ".join(refused((valid(), situation(held, granted=NOTHING))).reasons)


def test_what_is_granted_covers_what_lies_below_it_and_nothing_beside() -> None:
    one = valid(
        tool=tool(permissions=PermissionSet(reads=frozenset({f"{BASE_DIR}/leaves"}), env=frozenset({"A"})))
    )
    enough = PermissionSet(reads=frozenset({BASE_DIR}), env=frozenset({"A", "B"}))
    assert isinstance(authorize(one, situation(granted=enough)), AuthorizedCall)
    beside = PermissionSet(reads=frozenset({f"{BASE_DIR}/leave"}), env=frozenset({"A"}))
    assert refused((one, situation(granted=beside))).reasons == (
        f"not granted: reads {{baseDir}}/leaves; {TRUST_IT}",
    )


def test_each_missing_thing_is_a_reason() -> None:
    other = RequirementError(type="environment variable", name="TOKEN", skill="tea")
    facts = structs.replace(situation(), missing=(MISSING, other))
    [reason] = refused((valid(), facts)).reasons
    assert 'binary "kettle"' in reason
    assert 'environment variable "TOKEN"' in reason


def test_the_names_of_permissions_cannot_disturb_the_reason() -> None:
    noisy = tool(permissions=PermissionSet(hosts=frozenset({"a\n\x1b[2J\u202e", "b" * 500})))
    [reason] = refused((valid(tool=noisy), situation())).reasons
    assert reason.isprintable()
    assert len(reason) < 250
