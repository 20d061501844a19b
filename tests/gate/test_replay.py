"""Other rules over the recorded past: what is said is so, and what cannot be known is said to be unknown."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from metier.gate.authorize import authorize
from metier.gate.conditions import condition
from metier.gate.replay import Known, Replay, Replayed
from metier.gate.rules import Names, Rule, Rules
from metier.gate.situation import Situation
from metier.model.call import Call, Principal, ValidCall
from metier.model.digest import Json
from metier.model.entry import Operation
from metier.model.outcome import Refused
from metier.model.permission import PermissionSet
from metier.model.role import ROLES, Standing
from metier.model.skill import Tool
from metier.model.verdict import Decision
from metier.record.judgements import Gone, Judgement
from metier.record.payload import bounded_texts
from metier.record.redact import redact

ALLOW, ASK, DENY = Decision.ALLOW, Decision.ASK, Decision.DENY
FACTS = {
    "tool": "fs.write",
    "principal": "agent:a",
    "effect": "act",
    "risk": "high",
    "trust_level": "supervised_auto",
}
TOOLS = {"fs.write": Known(cost="cheap")}
GONE = Gone("gone")
BY_LADDER = "high risk is asked at trust level 'supervised_auto'"


def rules(*made: Rule) -> Rules:
    return Rules(rules=made, digest="sha256:new")


def rule(decision: Decision, number: int = 1, when: str = "", **about: str) -> Rule:
    names = {field: Names(exact=frozenset({name})) for field, name in about.items()}
    return Rule(
        number=number,
        decision=decision,
        because="so",
        names=names,
        condition=condition(when) if when else None,
    )


def past(decision: str, /, *reasons: str, **fields: Any) -> Judgement:
    event = {"allow": "skill_execution_started", "ask": "skill_approval_queued"}.get(
        decision, "skill_execution_blocked"
    )
    given = {**FACTS, "policy": "sha256:old", "payloads": {"arguments": "…"}, **fields}
    if decision == "deny" and "trust_level" not in fields:
        given |= {"trust_level": "", "policy": "", "code": fields.get("code", "forbidden")}
    return Judgement(
        **{"seq": 1, "at": "2026-01-01", "event": event, "decision": decision, "reasons": reasons, **given}
    )


def replayed(new: Rules, judgement: Judgement, kept: Json | Gone = GONE, cwd: Json = "") -> Replayed:
    payloads = {"arguments": kept, "cwd": cwd}
    found = Replay(new, TOOLS).one(judgement, lambda name: payloads[name])
    assert found is not None
    return found


# --- what the others said is taken from the record --------------------------------------------------------------------

SPOKE = "rule 1: so"


@pytest.mark.parametrize(
    ("decision", "reasons", "new", "after"),
    [
        # Another layer said the same, so its part is known: it can only become stricter.
        ("allow", (BY_LADDER,), None, {ALLOW}),
        ("allow", (BY_LADDER, SPOKE), ASK, {ASK}),
        ("allow", (BY_LADDER,), DENY, {DENY}),
        ("ask", (BY_LADDER,), ALLOW, {ASK}),
        ("ask", (BY_LADDER, SPOKE), None, {ASK}),
        ("ask", (SPOKE, BY_LADDER), DENY, {DENY}),
        ("deny", ("skill 'x' is disabled: off", SPOKE), ALLOW, {DENY}),
        ("deny", ("no layer allowed it",), None, {DENY}),
        ("deny", ("no layer allowed it",), ALLOW, {ALLOW}),
        ("deny", ("no layer allowed it",), ASK, {ASK}),
        # Only a rule spoke: the others said something milder, and the record does not say what.
        ("allow", (SPOKE,), None, {DENY}),
        ("allow", (SPOKE,), ALLOW, {ALLOW}),
        ("ask", (SPOKE,), None, {ALLOW, DENY}),
        ("ask", ("rule 'no-etc': so",), ALLOW, {ALLOW}),
        ("ask", (SPOKE,), ASK, {ASK}),
        ("ask", (SPOKE,), DENY, {DENY}),
        ("deny", (SPOKE,), None, {ALLOW, ASK, DENY}),
        ("deny", (SPOKE,), ALLOW, {ALLOW, ASK}),
        ("deny", ("rule 2: its condition cannot be decided: it could not be evaluated",), ASK, {ASK}),
        ("deny", ("the operator's rules cannot be used, so nothing is allowed: x",), ALLOW, {ALLOW, ASK}),
        ("deny", (SPOKE,), DENY, {DENY}),
        # Not every reason was recorded.
        ("deny", (SPOKE, "… [cut, 70 in all]"), ALLOW, {ALLOW, ASK, DENY}),
    ],
)
def test_the_others_part_is_known_as_far_as_the_record_says_it(
    decision: str, reasons: tuple[str, ...], new: Decision | None, after: set[Decision]
) -> None:
    found = replayed(rules(rule(new)) if new else rules(), past(decision, *reasons))
    assert set(found.after) == after
    before = {"allow": ALLOW, "ask": ASK, "deny": DENY}[decision]
    expected = "otherwise" if before not in after else "same" if len(after) == 1 else "undecidable"
    assert found.state == expected
    assert bool(found.unknown) is (len(after) > 1)
    if new:
        assert found.rules == ("rule 1: so",)


def test_the_same_rules_are_the_same_end_whatever_became_of_the_arguments() -> None:
    same = rules(rule(DENY, when="args.path == '/etc'"))
    assert replayed(same, past("allow", BY_LADDER)).state == "undecidable"
    assert replayed(same, past("allow", BY_LADDER, policy=same.digest)).state == "same"


def test_rules_that_cannot_be_used_deny_everything_also_where_their_bytes_are_the_same() -> None:
    unusable = Rules(digest="sha256:new", problem="others can change it")
    assert replayed(unusable, past("allow", BY_LADDER, policy=unusable.digest)).after == (DENY,)


@pytest.mark.parametrize(
    "fields",
    [
        {"code": "unknown_tool", "effect": "", "tool": ""},
        {"code": "record_unavailable"},
        {"code": "sandbox_unavailable", "trust_level": "suggest"},
        {"code": "confirmation_required", "trust_level": "suggest"},
    ],
)
def test_a_refusal_that_no_rule_decides_is_left_alone(fields: dict[str, Any]) -> None:
    assert Replay(rules(rule(DENY)), TOOLS).one(past("deny", "x", **fields), lambda _: None) is None


def test_what_could_not_be_asked_runs_only_where_it_need_not_be_asked_any_more() -> None:
    unattended = {"code": "approval_required", "trust_level": "suggest", "policy": "sha256:old"}
    by_rule = past("deny", SPOKE, **unattended)
    assert replayed(rules(rule(ALLOW)), by_rule).after == (ALLOW,)
    assert replayed(rules(rule(ASK)), by_rule).after == (DENY,)
    assert replayed(rules(), by_rule).after == (ALLOW, DENY)
    no_rules_then = past("deny", BY_LADDER, **{**unattended, "policy": ""})
    assert replayed(rules(rule(ALLOW)), no_rules_then).after == (DENY,)
    assert replayed(rules(rule(ALLOW)), past("deny", "too many", **unattended)).after == (ALLOW, DENY)


def test_a_record_that_does_not_say_how_it_was_judged_tells_nothing() -> None:
    found = replayed(rules(rule(DENY)), past("allow", decision="", trust_level="", policy=""))
    assert (found.state, found.before) == ("undecidable", None)


# --- what the record no longer holds ----------------------------------------------------------------------------------

LOOKS = rule(DENY, when="args.path == '/etc'")


@pytest.mark.parametrize(
    ("kept", "after"),
    [
        ({"path": "/etc"}, (DENY,)),
        ({"path": "/srv"}, (ALLOW,)),
        ({"path": "/srv", "token": "••••••••"}, (ALLOW,)),
        ({"path": "••••••••"}, (ALLOW, DENY)),
        ({"path": ["x", {"a": "b ••••••••"}]}, (ALLOW, DENY)),
        ({"path": {"••••••••": 1}}, (ALLOW, DENY)),
        ({"path": "/srv", "••••••••": 1}, (ALLOW, DENY)),
        (Gone("its arguments were erased"), (ALLOW, DENY)),
        (["no object"], (ALLOW, DENY)),
        ({}, (DENY,)),
    ],
)
def test_a_condition_about_what_is_gone_is_not_guessed(
    kept: Json | Gone, after: tuple[Decision, ...]
) -> None:
    found = replayed(rules(LOOKS), past("allow", BY_LADDER), kept)
    assert found.after == after
    assert bool(found.unknown) is (len(after) > 1)
    assert all("rule 1" in why for why in found.unknown)


def test_a_condition_over_all_arguments_sees_every_mask() -> None:
    all_of_them = rules(rule(DENY, when="'path' in args"))
    assert replayed(all_of_them, past("allow", BY_LADDER), {"path": 1}).after == (DENY,)
    assert len(replayed(all_of_them, past("allow", BY_LADDER), {"path": 1, "key": "••••••••"}).after) == 2


def test_what_is_gone_does_not_matter_where_something_else_decides() -> None:
    both = rules(LOOKS, rule(DENY, 2))
    assert replayed(both, past("allow", BY_LADDER)).after == (DENY,)
    elsewhere = rules(rule(DENY, when="args.path == '/etc'", tool="other"))
    assert replayed(elsewhere, past("allow", BY_LADDER)).state == "same"
    assert replayed(rules(LOOKS), past("deny", "skill 'x' is disabled: off")).state == "same"
    asks = rules(rule(ASK, when="args.path == '/etc'"))
    assert replayed(asks, past("allow", BY_LADDER)).after == (ALLOW, ASK, DENY)


def test_the_arguments_of_a_refused_call_are_those_that_the_rules_saw_or_none() -> None:
    nobody = "no layer allowed it"
    looks = rules(rule(ALLOW, when="args.n == 1"))
    assert replayed(looks, past("deny", nobody), {"n": 1.0}).after == (ALLOW,)
    assert len(replayed(looks, past("deny", nobody, tool="gone"), {"n": 1}).after) == 2
    assert len(replayed(looks, past("deny", nobody), {"n": "a\x00"}).after) == 2
    cleaned = Replay(looks, {"fs.write": Known(sanitize=True)})
    found = cleaned.one(past("deny", nobody), lambda _: {"n": 1})
    assert found is not None and len(found.after) == 2
    word = rules(rule(ALLOW, when="has(args.confirmed)"))
    assert len(replayed(word, past("deny", nobody), {"confirmed": True}).after) == 2
    assert replayed(word, past("allow", BY_LADDER), {"confirmed": True}).after == (ALLOW,)


def test_the_working_directory_is_asked_only_where_it_is_recorded() -> None:
    here = rules(rule(DENY, when="cwd == '/srv'"))
    there = {"cwd": "…"}
    assert replayed(here, past("allow", BY_LADDER)).after == (ALLOW,)
    assert replayed(here, past("allow", BY_LADDER, payloads=there), cwd="/srv").after == (DENY,)
    assert len(replayed(here, past("allow", BY_LADDER, payloads=there), cwd="/••••••••").after) == 2
    assert len(replayed(here, past("deny", "no layer allowed it")).after) == 1
    allows = rules(rule(ALLOW, when="cwd == '/srv'"))
    assert len(replayed(allows, past("deny", "no layer allowed it")).after) == 2


def test_the_cost_is_that_of_todays_tool_if_it_is_still_the_same() -> None:
    dear = rules(rule(DENY, cost="cheap"))
    assert replayed(dear, past("allow", BY_LADDER)).after == (DENY,)
    assert replayed(rules(rule(DENY, cost="free")), past("allow", BY_LADDER)).after == (ALLOW,)
    for changed in ({"risk": "low"}, {"tool": "gone"}):
        assert replayed(dear, past("allow", BY_LADDER, **changed)).after == (ALLOW, DENY)
    other = rules(rule(DENY, cost="cheap", skill="notes"))
    assert replayed(other, past("allow", BY_LADDER, tool="gone")).after == (ALLOW,)


def test_a_name_that_was_cut_is_not_taken_for_the_whole() -> None:
    found = replayed(
        rules(rule(DENY, channel="x")), past("allow", BY_LADDER, channel="xx… [cut, 9000 bytes]")
    )
    assert found.state == "undecidable"


# --- against the gate itself ------------------------------------------------------------------------------------------

PATHS = st.sampled_from(["/etc", "/srv", 7, "password=hunter2hunter2"])
WHENS = st.sampled_from(["", "args.path == '/etc'", "args.path.startsWith('pass')", "has(args.token)"])
ABOUT = st.sampled_from([{}, {"tool": "fs.write"}, {"tool": "other"}, {"risk": "low"}, {"cost": "cheap"}])


@st.composite
def some_rules(draw: st.DrawFn) -> Rules:
    made = [
        rule(draw(st.sampled_from([ALLOW, ASK, DENY])), number, draw(WHENS), **draw(ABOUT))
        for number in range(1, draw(st.integers(0, 3)) + 1)
    ]
    return Rules(rules=tuple(made), digest=f"sha256:{hash(tuple(map(id, made)))}" if made else "")


def judged(valid: ValidCall, situation: Situation) -> tuple[Decision, Judgement]:
    """What the gate says, and what is written down of it."""
    answer = authorize(valid, situation)
    common = {
        "seq": 1,
        "at": "",
        "tool": valid.tool.name,
        "principal": valid.call.principal.id,
        "effect": valid.tool.effect,
        "risk": valid.tool.risk,
        "payloads": {"arguments": "…"},
    }
    if isinstance(answer, Refused):
        event, reasons = "skill_execution_blocked", bounded_texts(answer.reasons)
        said = {"event": event, "decision": "deny", "code": answer.code, "reasons": reasons}
        return DENY, Judgement(**common, **said)
    decision = answer.verdict.decision
    event = "skill_execution_started" if decision is ALLOW else "skill_approval_queued"
    return decision, Judgement(
        **common,
        event=event,
        decision=decision.name.lower(),
        reasons=bounded_texts(answer.verdict.reasons),
        trust_level=answer.trust_level,
        policy=answer.rules,
    )


@settings(deadline=None)  # how long it takes is the machine's
@given(
    some_rules(),
    some_rules(),
    st.fixed_dictionaries({"path": PATHS}, optional={"token": st.just("s3cret")}),
    st.sampled_from(["observe", "suggest", "supervised_auto", "adaptive_auto"]),
    st.sampled_from(["low", "medium", "high"]),
    st.sampled_from(["human", "agent", "skill"]),
    st.sampled_from(["kept", "redacted", "gone"]),
    st.booleans(),
)
def test_what_the_gate_would_say_is_always_among_what_is_thought_possible(
    old: Rules,
    new: Rules,
    arguments: dict[str, Any],
    level: Any,
    risk: Any,
    kind: Any,
    kept: str,
    stopped: bool,
) -> None:
    tool = Tool(
        name="fs.write",
        description="",
        parameters={},
        risk=risk,
        cost="cheap",
        entry=Operation(module="m", operation="o"),
    )
    call = Call(id="c", principal=Principal(id=f"{kind}:a", kind=kind), tool=tool.name, arguments=arguments)
    valid = ValidCall(call=call, tool=tool, arguments=arguments, skill=None, permissions=PermissionSet())
    then = Situation(rules=old, level=level, standing=Standing(rights=ROLES["agent"]), stopped="x" * stopped)
    before, record = judged(valid, then)
    beside: dict[str, Json | Gone] = {
        "kept": arguments,
        "redacted": redact(arguments),
        "gone": Gone("gone"),
    }
    found = Replay(new, {tool.name: Known.of(tool)}).one(record, lambda _: beside[kept])
    assert found is not None and found.before is before
    assert judged(valid, replace(then, rules=new))[0] in found.after
    assert found.state == "same" or len(found.after) == 1 or found.unknown


def test_a_tool_is_meant_by_what_models_are_told_and_of_one_that_is_gone_that_is_not_known() -> None:
    new = rules(rule(DENY, tool="fs_write"))
    then = past("allow", BY_LADDER, tool="fs_write/execute")
    there = {"fs_write/execute": Known(told="fs_write")}
    found = Replay(new, there).one(then, lambda name: GONE)
    assert found is not None and found.after == (DENY,)
    renamed = Replay(new, {"fs_write/execute": Known(told="write")}).one(then, lambda name: GONE)
    assert renamed is not None and renamed.after == (ALLOW,)
    gone = replayed(new, then)
    assert (gone.state, set(gone.after)) == ("undecidable", {ALLOW, DENY})
    assert "is not recorded, and the tool is gone" in gone.unknown[0]
    assert replayed(new, past("allow", BY_LADDER, tool="notes/add")).after == (ALLOW,)


def test_calls_that_are_alike_are_told_apart_where_a_condition_looks_at_more_of_them() -> None:
    replay, alike = Replay(rules(LOOKS), TOOLS), past("allow", BY_LADDER)
    ends: list[tuple[Decision, ...]] = []
    for kept in ({"path": "/etc"}, {"path": "/srv"}, GONE, {"path": "/etc"}):
        given: dict[str, Json | Gone] = {"arguments": kept, "cwd": ""}
        found = replay.one(alike, given.__getitem__)
        assert found == replayed(rules(LOOKS), alike, kept)
        ends.append(found.after)
    assert ends == [(DENY,), (ALLOW,), (ALLOW, DENY), (DENY,)]


def test_what_a_call_is_judged_by_is_never_taken_from_another() -> None:
    def beside(_name: str) -> Json:
        raise AssertionError("no condition looks at anything")

    new = rules(rule(DENY, tool="fs.write"), rule(ASK, 2, principal="agent:b"), rule(DENY, 3, channel="sms"))
    changes: list[dict[str, Any]] = [
        {},
        {"principal": "agent:b", "tool": "other"},
        {"tool": "other"},
        {"tool": "other", "channel": "sms"},
        {"tool": "other", "policy": "sha256:new"},
        {"tool": "other", "trust_level": ""},
        {"tool": "other", "decision": "nobody knows"},
        {"tool": "… [cut, 5"},
    ]
    pasts = [past("allow", BY_LADDER, **change) for change in changes]
    pasts += [past("deny", "no layer allowed it"), past("deny", BY_LADDER, code="record_unavailable")]
    pasts += [past("ask", BY_LADDER, tool="other"), past("ask", "rule 1: so", tool="other")]
    together = Replay(new, TOOLS)
    for _ in range(2):
        for number, each in enumerate(pasts):
            found = together.one(each, beside)
            assert found == Replay(new, TOOLS).one(each, beside), number
            assert found is None or found.judgement is each
