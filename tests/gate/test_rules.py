"""The operator's rules as a layer: the strictest wins in any order, and what cannot be decided is a no."""

from pathlib import Path
from typing import Any, final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from metier.gate.conditions import condition
from metier.gate.ladder import ladder
from metier.gate.rule_file import examine
from metier.gate.rules import NO_RULES, Names, Rule, Rules, facts_of, matching, rules
from metier.gate.situation import Situation
from metier.model.call import Call, Principal, Surroundings, ValidCall
from metier.model.entry import Operation
from metier.model.permission import PermissionSet
from metier.model.skill import Skill, Tool
from metier.model.verdict import Decision, decide

ABSTAIN, ALLOW, ASK, DENY = Decision.ABSTAIN, Decision.ALLOW, Decision.ASK, Decision.DENY


def a_call(
    tool: str = "fs.write",
    *,
    skill: str = "",
    principal: str = "agent:a",
    channel: str | None = None,
    cwd: str | None = None,
    arguments: dict[str, Any] | None = None,
    **says: Any,
) -> ValidCall:
    made = Tool(
        **{
            "name": tool,
            "description": "",
            "parameters": {},
            "entry": Operation(module="m", operation="o"),
            **says,
        }
    )
    call = Call(
        id="call_1",
        principal=Principal(id=principal, kind="human" if principal.startswith("human:") else "agent"),
        tool=tool,
        arguments=arguments or {},
        cwd=cwd,
        surroundings=Surroundings(channel=channel),
    )
    return ValidCall(
        call=call,
        tool=made,
        arguments=arguments or {},
        skill=Skill(name=skill, description="", dialect="agent_skills") if skill else None,
        permissions=PermissionSet(),
    )


def a_rule(number: int, decision: Decision, *, when: str = "", because: str = "so", **about: str) -> Rule:
    names = {
        field: Names(beginnings=frozenset({name.removesuffix("*")}))
        if name.endswith("*")
        else Names(exact=frozenset(name.split("|")))
        for field, name in about.items()
    }
    made = condition(when) if when else None
    return Rule(number=number, decision=decision, because=because, names=names, condition=made)


def judged(found: list[Rule], valid: ValidCall) -> Decision:
    return rules(valid, Situation(rules=Rules(rules=tuple(found)))).decision


def test_without_rules_the_layer_has_no_opinion() -> None:
    verdict = rules(a_call(), Situation())
    assert verdict.decision is ABSTAIN
    assert (NO_RULES.digest, NO_RULES.deciding(a_call()), NO_RULES.deciding_digest(a_call())) == ("", (), "")


@pytest.mark.parametrize(
    ("about", "fits"),
    [
        ({"tool": "fs.write"}, True),
        ({"tool": "fs.*"}, True),
        ({"tool": "fs.writ"}, False),
        ({"tool": "fs.write.*"}, False),
        ({"tool": "FS.write"}, False),
        ({"tool": "a|fs.write"}, True),
        ({"skill": "notes"}, True),
        ({"skill": "other"}, False),
        ({"principal": "agent:*"}, True),
        ({"principal": "human:*"}, False),
        ({"channel": "chat"}, True),
        ({"channel": "cha"}, False),
        ({"effect": "act"}, True),
        ({"effect": "read"}, False),
        ({"risk": "medium|high"}, True),
        ({"risk": "low"}, False),
        ({"cost": "cheap"}, True),
        ({"cost": "free"}, False),
        ({"tool": "fs.*", "skill": "notes", "risk": "high"}, True),
        ({"tool": "fs.*", "skill": "notes", "risk": "low"}, False),
        ({}, True),
    ],
)
def test_a_rule_is_about_exactly_what_it_names(about: dict[str, str], fits: bool) -> None:
    valid = a_call(skill="notes", channel="chat", effect="act", risk="high", cost="cheap")
    assert judged([a_rule(1, DENY, **about)], valid) is (DENY if fits else ABSTAIN)


def test_conditions_see_the_call_and_its_arguments() -> None:
    valid = a_call(skill="notes", principal="agent:b", cwd="/srv", arguments={"path": "/etc/x"}, risk="low")
    for when, holds in {
        "args.path == '/etc/x' && tool == 'fs.write' && skill == 'notes' && principal == 'agent:b'": True,
        "channel == '' && cwd == '/srv' && risk == 'low' && effect == 'act'": True,
        "args.path == '/srv/x'": False,
    }.items():
        assert judged([a_rule(1, ASK, when=when)], valid) is (ASK if holds else ABSTAIN)


def test_the_reason_is_the_operators_own() -> None:
    found = [
        a_rule(1, ASK, because="ask me", tool="fs.*"),
        a_rule(2, DENY, because="never", tool="fs.write"),
        a_rule(3, DENY, because="nor here", effect="act"),
    ]
    verdict = rules(a_call(), Situation(rules=Rules(rules=tuple(found))))
    assert verdict.reasons == ("rule 2: never", "rule 3: nor here")


OVERLAPPING = {
    "allow, then deny": [(ALLOW, "fs.write"), (DENY, "fs.*")],
    "deny, then allow": [(DENY, "fs.*"), (ALLOW, "fs.write")],
    "the longer name allows": [(DENY, "fs.*"), (ASK, "fs.*"), (ALLOW, "fs.write")],
    "the longer name denies": [(ALLOW, "fs.*"), (DENY, "fs.write"), (ASK, "fs.write|fs.read")],
}


@pytest.mark.parametrize("what", OVERLAPPING)
def test_cap_14_the_strictest_of_overlapping_rules_wins(what: str) -> None:
    found = [
        a_rule(number, decision, tool=tool) for number, (decision, tool) in enumerate(OVERLAPPING[what], 1)
    ]
    assert judged(found, a_call()) is DENY
    without = [rule for rule in found if rule.decision is not DENY]
    assert judged(without, a_call()) is max(rule.decision for rule in without)


TOOLS = ["fs.write", "fs.read", "fs", "notes/add", "notes/add.all"]
SKILLS = ["notes", "mail", ""]
RULES = st.builds(
    lambda decision, tool, skill, effect, risk, principal, when: (
        decision,
        when,
        {
            field: name
            for field, name in zip(
                ("tool", "skill", "effect", "risk", "principal"),
                (tool, skill, effect, risk, principal),
                strict=True,
            )
            if name
        },
    ),
    st.sampled_from([ALLOW, ASK, DENY]),
    st.sampled_from(["", *TOOLS, "fs.*", "notes/*", "notes/add.*", "fs.write|notes/add"]),
    st.sampled_from(["", "notes", "mail"]),
    st.sampled_from(["", "", "read", "act"]),
    st.sampled_from(["", "", "low", "high", "low|medium"]),
    st.sampled_from(["", "", "agent:*", "agent:a", "human:h"]),
    st.sampled_from(["", "", "args.n > 1", "args.missing == 1", "tool == 'fs.write'", "args.n"]),
)
CALLS = st.builds(
    lambda tool, skill, effect, risk, principal, n: a_call(
        tool, skill=skill, effect=effect, risk=risk, principal=principal, arguments={"n": n}
    ),
    st.sampled_from(TOOLS),
    st.sampled_from(SKILLS),
    st.sampled_from(["read", "act"]),
    st.sampled_from(["low", "medium", "high"]),
    st.sampled_from(["agent:a", "agent:b", "human:h"]),
    st.integers(0, 3),
)


@given(st.lists(RULES, max_size=12), CALLS, st.randoms(use_true_random=False))
def test_cap_14_the_order_of_rules_never_changes_the_verdict(
    written: list[tuple[Decision, str, dict[str, str]]], valid: ValidCall, shuffled: Any
) -> None:
    def asked(order: list[int]) -> tuple[Decision, list[str], str]:
        found = Rules(
            rules=tuple(
                a_rule(
                    place,
                    written[number][0],
                    when=written[number][1],
                    because=f"{number}",
                    **written[number][2],
                )
                for place, number in enumerate(order, 1)
            )
        )
        verdict = found.judge(valid)
        said = sorted(reason.partition(": ")[2] for reason in verdict.reasons)
        return verdict.decision, said, found.deciding_digest(valid)

    order = list(range(len(written)))
    other = list(order)
    shuffled.shuffle(other)
    assert asked(order) == asked(other)


@given(st.lists(RULES, max_size=12), CALLS)
def test_filing_loses_no_rule(written: list[tuple[Decision, str, dict[str, str]]], valid: ValidCall) -> None:
    made = [
        a_rule(number, decision, when=when, **about)
        for number, (decision, when, about) in enumerate(written, 1)
    ]
    facts = facts_of(valid)
    every = matching([rule for rule in made if rule.concerns(facts)], facts, valid.arguments)
    assert Rules(rules=tuple(made)).deciding(valid) == tuple(rule.id for rule, _ in every)


def test_of_a_thousand_rules_only_those_filed_near_a_call_are_looked_at() -> None:
    made = [a_rule(number, DENY, tool=f"m.tool{number}") for number in range(1, 1_001)]
    found = Rules(rules=(*made, a_rule(1_001, ASK, skill="notes"), a_rule(1_002, ASK, risk="low")))
    assert max(len(near) for near in found.filed.values()) == 1
    assert found.judge(a_call("m.tool7")).reasons == ("rule 7: so",)


@pytest.mark.parametrize("decision", [ALLOW, ASK, DENY])
@pytest.mark.parametrize("when", ["args.missing == 1", "args.n", "args.n + 'a' == ''", "args.n / 0 == 1"])
def test_cap_16_a_condition_that_cannot_be_decided_is_a_no(decision: Decision, when: str) -> None:
    valid = a_call(arguments={"n": 1})
    assert judged([a_rule(1, decision, when="args.n == 1")], valid) is decision
    verdict = rules(valid, Situation(rules=Rules(rules=(a_rule(1, decision, when=when),))))
    assert verdict.decision is DENY
    assert verdict.reasons[0].startswith("rule 1: its condition cannot be decided")


@final
class PanicException(BaseException):
    pass


@final
class Raises:
    """An engine that breaks."""

    def __init__(self, error: type[BaseException]) -> None:
        self._error = error

    def execute(self, _context: object) -> bool:
        raise self._error("hunter2")


@pytest.mark.parametrize("error", [MemoryError, RecursionError, OSError, PanicException])
def test_cap_16_an_engine_that_breaks_is_a_no(error: type[BaseException]) -> None:
    whole = a_rule(1, ALLOW, when="tool == 'fs.write'")
    assert whole.condition is not None
    assert judged([whole], a_call()) is ALLOW
    broken = replace(whole, condition=replace(whole.condition, program=Raises(error)))
    verdict = rules(a_call(), Situation(rules=Rules(rules=(broken,))))
    assert verdict.decision is DENY
    assert "hunter2" not in str(verdict.reasons)


def test_who_is_interrupted_stays_interrupted() -> None:
    whole = a_rule(1, ALLOW, when="tool == 'fs.write'")
    assert whole.condition is not None
    broken = replace(whole, condition=replace(whole.condition, program=Raises(KeyboardInterrupt)))
    with pytest.raises(KeyboardInterrupt):
        rules(a_call(), Situation(rules=Rules(rules=(broken,))))


def test_cap_16_a_fault_of_our_own_while_asking_is_a_no_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    whole = Rules(rules=(a_rule(1, ALLOW, tool="fs.write"),))
    assert rules(a_call(), Situation(rules=whole)).decision is ALLOW
    whole.filed[("tool", "fs.write")] = (None,)  # type: ignore[assignment]
    verdict = rules(a_call(), Situation(rules=whole))
    assert verdict.decision is DENY
    assert "call_1" in caplog.text


def test_rules_that_cannot_be_used_deny_everything() -> None:
    found = Rules(
        rules=(a_rule(1, ALLOW, tool="fs.write"),), problem="policy.toml, line 3: wrong", digest="sha256:x"
    )
    verdict = rules(a_call(), Situation(rules=found))
    assert verdict.decision is DENY
    assert "line 3" in verdict.reasons[0]
    assert found.deciding(a_call()) == ()
    assert found.deciding_digest(a_call()) != ""


SELF_PRAISE = [
    {"effect": effect, "risk": risk} for effect in ("read", "act") for risk in ("low", "medium", "high")
]


@pytest.mark.parametrize("says", SELF_PRAISE)
def test_apr_27_what_a_tool_says_of_itself_escapes_no_rule_that_names_it(says: dict[str, str]) -> None:
    found = [a_rule(1, ASK, tool="fs.*"), a_rule(2, ALLOW, tool="fs.write", effect="read", risk="low")]
    assert judged(found, a_call(**says)) is ASK
    harmless = {"effect": "read", "risk": "low"}
    assert judged(found[1:], a_call(**says)) is (ALLOW if says == harmless else ABSTAIN)


@pytest.mark.parametrize(
    "about", ['effect = "read"', 'risk = "low"', 'cost = "free"', 'channel = "chat"', ""]
)
def test_apr_27_no_allow_rests_on_what_a_tool_says_of_itself(tmp_path: Path, about: str) -> None:
    file = tmp_path / "policy.toml"
    for decision, more, usable in (
        ("allow", "", False),
        ("ask", "", True),
        ("allow", 'tool = "fs.read"\n', True),
    ):
        file.write_text(f'[[rule]]\ndecision = "{decision}"\nbecause = "so"\n{more}{about}\n')
        file.chmod(0o600)
        assert (examine(str(file)).problems == ()) is usable


def test_an_allow_lowers_nobody_elses_word() -> None:
    found = Situation(rules=Rules(rules=(a_rule(1, ALLOW, tool="fs.write"),)), level="supervised_auto")
    valid = a_call(risk="high")
    assert rules(valid, found).decision is ALLOW
    assert ladder(valid, found).decision is ASK
    assert decide([rules(valid, found), ladder(valid, found)]).decision is ASK
    human = a_call(risk="high", principal="human:h")
    assert decide([ladder(human, found)]).decision is DENY  # nobody spoke for it
    assert decide([rules(human, found), ladder(human, found)]).decision is ALLOW


def test_what_decided_is_bound_and_nothing_else() -> None:
    ours = a_rule(1, ASK, tool="fs.write", because="look first")
    before = Rules(rules=(ours,)).deciding_digest(a_call())
    beside = Rules(
        rules=(a_rule(1, DENY, tool="other"), a_rule(2, ASK, tool="fs.write", because="look first"))
    )
    assert beside.deciding_digest(a_call()) == before
    for changed in (
        a_rule(1, DENY, tool="fs.write", because="look first"),
        a_rule(1, ASK, tool="fs.*", because="look first"),
        a_rule(1, ASK, tool="fs.write", because="another reason"),
        a_rule(1, ASK, tool="fs.write", because="look first", when="tool != ''"),
    ):
        assert Rules(rules=(changed,)).deciding_digest(a_call()) != before
    assert Rules(rules=(ours, a_rule(2, ALLOW, effect="act"))).deciding_digest(a_call()) != before


def test_cap_15_a_tool_is_forbidden_by_either_of_its_names_and_allowed_by_the_whole_one() -> None:
    call = a_call("fs_write/execute", outward="fs_write")
    for decision in (ASK, DENY):
        assert judged([a_rule(1, decision, tool="fs_write")], call) is decision
        assert judged([a_rule(1, decision, tool="fs_write/execute")], call) is decision
        assert judged([a_rule(1, decision, tool="fs_writ|execute|fs_write/")], call) is ABSTAIN
        assert judged([a_rule(1, decision, tool="fs_write", principal="agent:b")], call) is ABSTAIN
    assert judged([a_rule(1, ALLOW, tool="fs_write/execute")], call) is ALLOW
    # What models are told is the skill's own word, and no permission rests on that.
    assert judged([a_rule(1, ALLOW, tool="fs_write")], call) is ABSTAIN
    # A name that is made from the whole one counts as well.
    assert judged([a_rule(1, DENY, tool="notes__add")], a_call("notes/add")) is DENY
