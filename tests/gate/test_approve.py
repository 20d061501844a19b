"""An ALLOW goes on with its evidence, an ASK finds somebody's word or has it asked; nothing else goes on."""

from typing import Any

import pytest
from msgspec import structs

from metier.config.settings import ApprovalSettings
from metier.gate.approve import Asked, approve
from metier.gate.fingerprint import definition_digest
from metier.gate.situation import Situation
from metier.model.approval import StandingGrant
from metier.model.call import ApprovedCall, AuthorizedCall, Call, Principal, ValidCall
from metier.model.entry import Operation
from metier.model.outcome import Refused
from metier.model.skill import Tool
from metier.model.verdict import Verdict
from metier.record.approval_clock import moment

TOOL = Tool(
    name="pour",
    description="",
    parameters={},
    risk="medium",
    entry=Operation(module="tea", operation="pour"),
)
CALL = Call(id="call_1", principal=Principal(id="agent:test", kind="agent"), tool="pour", arguments={})
ASK = Verdict.ask("it spends money") | Verdict.ask("it is the first time")
GRANT = StandingGrant(
    id="grt_1",
    tool="pour",
    principal="agent:test",
    definition=definition_digest(TOOL),
    given_by="human:test",
    given_at=moment().text,
)


def authorized(verdict: Verdict, *, confirmed: bool | None = None, **call: Any) -> AuthorizedCall:
    made = ValidCall(
        call=structs.replace(CALL, **call),
        tool=TOOL,
        arguments={},
        skill=None,
        permissions=TOOL.permissions,
        confirmed=confirmed,
    )
    return AuthorizedCall(valid=made, verdict=verdict)


def test_what_was_allowed_goes_on_unchanged_and_says_on_whose_word() -> None:
    allowed = authorized(Verdict.allow("it is harmless"))
    answer = approve(allowed, Situation())
    assert isinstance(answer, ApprovedCall)
    assert answer.authorized is allowed
    assert answer.evidence == "policy"


def test_what_must_be_asked_is_asked_and_does_not_run() -> None:
    asking = authorized(ASK)
    answer = approve(asking, Situation(cwd="/work 1 2"))
    assert answer == Asked(authorized=asking, cwd="/work 1 2")


def test_where_nobody_is_there_to_be_asked_the_answer_is_no_unless_the_operator_lets_it_wait() -> None:
    answer = approve(authorized(ASK, unattended=True), Situation())
    assert isinstance(answer, Refused)
    assert (answer.code, answer.reasons) == ("approval_required", ("it spends money", "it is the first time"))
    assert "standing grant" in answer.remedy
    waits = Situation(approvals=ApprovalSettings(unattended="wait"))
    assert isinstance(approve(authorized(ASK, unattended=True), waits), Asked)


@pytest.mark.parametrize("verdict", [Verdict.abstain("no opinion"), Verdict.deny("never")])
@pytest.mark.parametrize("approval", [None, "apr_1"])
def test_nothing_but_an_allowance_or_a_question_goes_on(verdict: Verdict, approval: str | None) -> None:
    answer = approve(authorized(verdict, approval=approval), Situation(grants=(GRANT,)))
    assert isinstance(answer, Refused)
    assert answer.reasons == verdict.reasons


def test_a_standing_grant_that_fits_answers_and_one_that_does_not_fit_does_not() -> None:
    answer = approve(authorized(ASK), Situation(grants=(GRANT,), now=moment()))
    assert isinstance(answer, ApprovedCall)
    assert (answer.evidence, answer.approved_by) == ("grt_1", "human:test")
    other = structs.replace(GRANT, principal="agent:other")
    assert isinstance(approve(authorized(ASK), Situation(grants=(other,), now=moment())), Asked)


def test_a_call_that_is_taken_up_again_goes_on_with_its_decision_also_where_nobody_would_be_asked_now() -> (
    None
):
    for verdict in (ASK, Verdict.allow("the level was raised")):
        answer = approve(authorized(verdict, approval="apr_1"), Situation(grants=(GRANT,)))
        assert isinstance(answer, ApprovedCall)
        assert answer.evidence == "apr_1", "so that the decision is used up, and the act runs once"


def test_an_act_whose_working_directory_cannot_be_told_is_neither_asked_nor_taken_up() -> None:
    gone = Situation(cwd_problem="the working directory is gone", grants=(GRANT,))
    for call in (authorized(ASK), authorized(ASK, approval="apr_1")):
        answer = approve(call, gone)
        assert isinstance(answer, Refused)
        assert answer.reasons == ("the working directory is gone",)
