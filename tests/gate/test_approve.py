"""An ALLOW goes on with its evidence; nothing else does."""

import pytest

from metier.gate.approve import approve
from metier.model.call import ApprovedCall, AuthorizedCall, Bytes, Call, Principal, ValidCall
from metier.model.entry import Operation
from metier.model.outcome import Refused
from metier.model.skill import Tool
from metier.model.verdict import Verdict

TOOL = Tool(name="pour", description="", parameters={}, entry=Operation(module="tea", operation="pour"))
CALL = Call(id="call_1", principal=Principal(id="agent:test", kind="agent"), tool="pour", arguments={})
VALID = ValidCall(call=CALL, tool=TOOL, arguments={}, skill=None, permissions=TOOL.permissions)


def authorized(verdict: Verdict) -> AuthorizedCall:
    return AuthorizedCall(valid=VALID, verdict=verdict, bytes=Bytes(digest="sha256:0"))


def test_what_was_allowed_goes_on_unchanged_and_says_on_whose_word() -> None:
    allowed = authorized(Verdict.allow("it is harmless"))
    answer = approve(allowed)
    assert isinstance(answer, ApprovedCall)
    assert answer.authorized is allowed
    assert answer.evidence == "policy"


def test_what_would_have_to_be_asked_does_not_run() -> None:
    answer = approve(authorized(Verdict.ask("it spends money") | Verdict.ask("it is the first time")))
    assert isinstance(answer, Refused)
    assert (answer.call_id, answer.code) == ("call_1", "approval_required")
    assert answer.reasons == ("it spends money", "it is the first time")
    assert "approval" in answer.remedy


@pytest.mark.parametrize("verdict", [Verdict.abstain("no opinion"), Verdict.deny("never")])
def test_nothing_but_an_allowance_goes_on(verdict: Verdict) -> None:
    answer = approve(authorized(verdict))
    assert isinstance(answer, Refused)
    assert answer.reasons == verdict.reasons
