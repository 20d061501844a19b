"""The layer of roles: the right that the tool asks for, or nothing."""

import re
from pathlib import Path
from typing import Any

import pytest

from metier.gate.principals import standing
from metier.gate.roles import OPERATORS_RIGHT, roles
from metier.gate.situation import Situation
from metier.model.call import Call, Principal, ValidCall
from metier.model.entry import Operation
from metier.model.permission import PermissionSet
from metier.model.role import EXECUTE, READ_AUDIT, ROLES, SETTINGS, Kind, Registered, Standing
from metier.model.skill import Tool
from metier.model.verdict import Decision, Verdict

ENTRY = Operation(module="test", operation="nothing")
OWNER = "human:uid-1000"


def judged(kind: Kind, rights: frozenset[str], *, problem: str = "", **tool: Any) -> Verdict:
    made = Tool(**{"name": "test", "description": "", "parameters": {}, "entry": ENTRY, **tool})
    principal = Principal(id=f"{kind}:test", kind=kind, roles=frozenset({"owner"}))
    call = Call(id="call_1", principal=principal, tool=made.name, arguments={})
    valid = ValidCall(call=call, tool=made, arguments={}, skill=None, permissions=PermissionSet())
    return roles(valid, Situation(standing=Standing(rights=rights, problem=problem)))


def test_a_human_with_the_right_needs_nobody_elses_word() -> None:
    assert judged("human", frozenset({EXECUTE})).decision is Decision.ALLOW
    assert judged("human", frozenset()).decision is Decision.DENY


@pytest.mark.parametrize("kind", ["agent", "skill", "trigger"])
def test_for_everybody_else_the_right_alone_allows_nothing(kind: Kind) -> None:
    assert judged(kind, frozenset({EXECUTE})).decision is Decision.ABSTAIN
    assert judged(kind, frozenset({"skills:create"})).decision is Decision.DENY


def test_left_as_it_is_a_situation_gives_nobody_a_right() -> None:
    made = Tool(name="t", description="", parameters={}, entry=ENTRY)
    call = Call(id="1", principal=Principal(id=OWNER, kind="human"), tool="t", arguments={})
    valid = ValidCall(call=call, tool=made, arguments={}, skill=None, permissions=PermissionSet())
    assert roles(valid, Situation()).decision is Decision.DENY
    owner = standing(call.principal, {}, OWNER)
    assert roles(valid, Situation(standing=owner)).decision is Decision.ALLOW


def test_a_verdict_says_when_it_is_the_owner_himself() -> None:
    assert judged("human", ROLES["owner"]).reasons == ("the owner does it himself",)
    assert judged("human", ROLES["operator"]).reasons == ("a human who has the right 'skills:execute'",)


def test_a_refusal_names_the_right_and_who_could_give_it() -> None:
    (said,) = judged("human", frozenset({EXECUTE}), permission=SETTINGS).reasons
    assert "'settings:write'" in said
    assert "owner or operator" in said
    (said,) = judged("human", frozenset({EXECUTE}), permission="channels:send").reasons
    assert "no role gives it" in said
    (said,) = judged("human", frozenset({EXECUTE}), problem="'human:test' was revoked").reasons
    assert said == "'human:test' was revoked"


@pytest.mark.parametrize("right", ["", "skills:execute ", "SKILLS:EXECUTE", "skills:*", "*", "skills"])
def test_a_right_is_one_exact_word(right: str) -> None:
    assert judged("human", ROLES["owner"], permission=right).decision is Decision.DENY
    assert judged("human", ROLES["owner"], permission=EXECUTE).decision is Decision.ALLOW


def test_an_operators_tool_takes_its_own_right_and_never_just_the_one_to_run_skills() -> None:
    own = {"audience": "operator", "permission": SETTINGS}
    assert judged("human", frozenset({SETTINGS}), **own).decision is Decision.ALLOW
    assert judged("human", frozenset({EXECUTE}), **own).decision is Decision.DENY
    assert judged("human", frozenset({EXECUTE}), audience="operator").decision is Decision.DENY
    assert judged("human", frozenset({OPERATORS_RIGHT}), audience="operator").decision is Decision.ALLOW
    for role, rights in ROLES.items():
        allowed = judged("human", rights, audience="operator").decision is Decision.ALLOW
        assert allowed is (role in ("owner", "operator"))


def test_cap_02_what_the_principal_says_of_itself_is_not_looked_at() -> None:
    # Every principal here claims the role owner; see `judged`.
    assert judged("human", ROLES["viewer"]).decision is Decision.DENY
    assert judged("human", ROLES["owner"]).decision is Decision.ALLOW


def test_the_documents_table_of_roles_is_the_one_that_holds() -> None:
    text = (Path(__file__).parents[2] / "docs" / "principals.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+) \| ((?:`[a-z:]+` ?)+) \|", text, re.MULTILINE)
    assert {role: frozenset(re.findall(r"[a-z]+:[a-z]+", rights)) for role, rights in rows} == ROLES


def test_a_scope_is_said_to_be_lacking_only_where_another_token_would_help() -> None:
    made = Tool(name="t", description="", parameters={}, entry=ENTRY)
    owner = Principal(id=OWNER, kind="human", scopes=frozenset({SETTINGS}), token="a")
    vic = Registered(id="human:vic", kind="human", roles=frozenset({"viewer"}))
    viewer = Principal(id=vic.id, kind="human", scopes=frozenset({READ_AUDIT}), token="b")
    for principal, said in (
        (owner, "lacks the scope 'skills:execute'"),
        (viewer, "lacks the right 'skills:execute'"),
    ):
        call = Call(id="1", principal=principal, tool="t", arguments={})
        valid = ValidCall(call=call, tool=made, arguments={}, skill=None, permissions=PermissionSet())
        verdict = roles(valid, Situation(standing=standing(principal, {vic.id: vic}, OWNER)))
        assert verdict.decision is Decision.DENY
        assert said in verdict.reasons[0]
        everything = Standing(
            rights=ROLES["owner"]
        )  # whatever was found out, a scope that is not there gives nothing
        assert roles(valid, Situation(standing=everything)).decision is Decision.DENY
