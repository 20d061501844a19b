"""A standing grant answers for what it was given for. Everything else is asked as ever."""

from typing import Any

import pytest

from approval_kit import AGENT, CWD, DIGEST, SKILL, TOOL, changed, given, seen, wanted
from metier.gate.granted import answers
from metier.model.approval import StandingGrant
from metier.model.call import AuthorizedCall, Bytes
from metier.model.permission import PermissionSet
from metier.model.verdict import Verdict
from metier.record.approval_clock import moment
from metier.record.standing import fits, proposed_grant


def said(
    grant: StandingGrant, authorized: AuthorizedCall | None = None, *, cwd: str = CWD, later: float = 0.0
) -> str:
    return answers(grant, authorized or wanted(), cwd=cwd, now=moment().wall + later)


def test_it_answers_for_the_act_it_was_given_with() -> None:
    assert said(given()) == ""
    assert said(given(scope="session")) == ""


OTHERS: dict[str, tuple[dict[str, Any], str]] = {
    "arguments": ({"arguments": {"id": 8, "folder": "/notes"}}, "other arguments"),
    "version": ({"digest": "sha256:" + "b" * 64}, "other bytes"),
    "skill": ({"skill": changed(SKILL, name="other")}, "other bytes"),
    "no skill": ({"skill": None}, "other bytes"),
    "binary": ({"permissions": TOOL.permissions | PermissionSet(binaries=frozenset({"curl"}))}, "needs more"),
    "folder it reads": ({"permissions": PermissionSet(reads=frozenset({"/"}))}, "needs more"),
    "description": ({"tool": changed(TOOL, description="Harmless.")}, "no longer the one"),
    "tool": ({"tool": changed(TOOL, name="notes/add")}, "another tool"),
    "principal": ({"principal": changed(AGENT, id="agent:b")}, "another principal"),
    "behalf": ({"principal": changed(AGENT, on_behalf_of="human:ann")}, "another principal"),
}


@pytest.mark.parametrize("part", OTHERS)
def test_apr_22_always_is_for_these_arguments_bytes_rights_and_no_others(part: str) -> None:
    fields, why = OTHERS[part]
    assert why in said(given(), wanted(**fields))
    assert said(given()) == ""


def test_apr_22_always_is_for_this_folder() -> None:
    assert "another working directory" in said(given(), cwd="/work (device 1, inode 3)")
    assert "another working directory" in said(given(), cwd="")
    anywhere = given(cwd="")
    assert said(anywhere, cwd="/elsewhere (device 1, inode 9)") == "", (
        "a call without a folder has none to bind"
    )


def test_any_arguments_only_where_that_was_said() -> None:
    other = wanted({"id": 99, "folder": "/notes"})
    assert said(given(any_arguments=True), other) == ""
    assert "other arguments" in said(given(), other)


@pytest.mark.parametrize(
    ("program", "why"),
    [("bash", "exact arguments only"), ("python3.12", "exact arguments only"), ("cat", "")],
)
def test_cmd_30_whatever_is_told_to_a_shell_is_never_granted_at_once(program: str, why: str) -> None:
    needs = TOOL.permissions | PermissionSet(binaries=frozenset({program}))
    act, other = wanted(permissions=needs), wanted({"id": 99, "folder": "/notes"}, permissions=needs)
    proposed = proposed_grant(seen(act), "always", approval="x", by="human:owner", any_arguments=True)
    assert isinstance(proposed, str) == bool(why)
    exact = given(act)
    assert said(exact, act) == ""
    assert "other arguments" in said(exact, other)
    anyhow = changed(exact, arguments="", key="")  # as one of an older time may be
    assert why in said(anyhow, other)
    assert bool(said(anyhow, other)) == bool(why)
    assert why in fits(anyhow, seen(act), "always", approval=anyhow.approval, by=anyhow.given_by)


def test_less_than_was_granted_is_answered() -> None:
    assert said(given(), wanted(permissions=PermissionSet(reads=frozenset({"/notes/today"})))) == ""


def test_it_never_answers_a_denial_and_is_not_needed_for_what_is_allowed() -> None:
    for verdict in (Verdict.deny("no"), Verdict.allow("yes")):
        assert "only what is asked" in said(given(), wanted(verdict=verdict))


@pytest.mark.parametrize(("risk", "answered"), [("low", True), ("medium", True), ("high", False)])
def test_high_risk_is_answered_only_where_it_was_named(risk: str, answered: bool) -> None:
    tool = changed(TOOL, risk=risk)
    grant = changed(given(wanted(tool=tool)), risk="medium")
    assert (said(grant, wanted(tool=tool)) == "") == answered
    assert said(changed(grant, risk="high"), wanted(tool=tool)) == ""


def test_a_tool_that_asks_every_time_is_answered_only_by_who_saw_that() -> None:
    tool = changed(TOOL, approval="always")
    grant = given(wanted(tool=tool))
    assert grant.names_tool
    assert said(grant, wanted(tool=tool)) == ""
    assert "asks every time" in said(changed(grant, names_tool=False), wanted(tool=tool))
    assert not given().names_tool


def test_apr_34_who_comes_back_does_not_inherit_what_was_granted_to_the_former_session() -> None:
    grant = given(scope="session")
    assert said(grant) == ""
    for session in ("session-2", "", None):
        assert "another session" in said(grant, wanted(session=session))
    assert said(given(scope="always"), wanted(session="session-2")) == ""


def test_rel_09_a_grant_ends_with_its_time_and_where_the_clock_was_set_back() -> None:
    grant = given(days=1)
    assert said(grant, later=86_000) == ""
    assert "expired" in said(grant, later=86_500)
    assert "expired" in said(grant, later=-3600)
    assert said(grant, later=-30) == ""
    assert "expired" in said(changed(grant, given_at="no time"))
    assert "expired" in said(changed(grant, expires_at=float("nan")))


def test_what_is_used_up_answers_no_more() -> None:
    grant = given(uses=2)
    assert said(grant) == ""
    assert "used up" in said(changed(grant, uses_left=0))


def test_a_grant_without_the_bytes_of_a_skill_answers_for_none() -> None:
    assert "other bytes" in said(changed(given(), skill_digest=""), wanted(digest=""))


def test_a_grant_for_a_file_of_the_owners_own_answers_for_these_bytes_and_no_others() -> None:
    bare = wanted(skill=None)
    file = changed(bare, bytes=Bytes(digest=DIGEST, file="own.py"))
    grant = given(file)
    assert (grant.skill, grant.skill_digest, grant.file) == ("", DIGEST, "own.py")
    assert said(grant, file) == ""
    for other in (changed(file, bytes=Bytes(digest="sha256:" + "b" * 64, file="own.py")), bare, wanted()):
        assert "other bytes" in said(grant, other)
