"""F.R.I.D.A.Y.'s way of an action and its roles: what is asked first, who may what, and that all of it is recorded."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gatehouse import OWNER
from metier.model.approval import Approval
from metier.model.outcome import Completed, Pending, Refused
from metier.model.role import APPROVE, CREATE, EXECUTE, MARKETPLACE, ROLES, Role
from metier.record.deciding import Undecided
from parlour import Parlour, tool

HUMANS: tuple[Role, ...] = ("operator", "approver", "viewer")


@pytest.fixture
def parlour(tmp_path: Path) -> Iterator[Parlour]:
    made = Parlour(
        tmp_path,
        tool(),
        tool("danger", risk="high"),
        tool("marked", approval="always"),
        tool("create", permission=CREATE),
        tool("market", permission=MARKETPLACE),
    )
    for role in HUMANS:
        made.add(f"human:{role}", role)
    made.add("agent:viewer", "viewer")
    yield made
    made.database.close()


def test_an_invalid_action_is_rejected_before_anything_else_is_looked_at(parlour: Parlour) -> None:
    for by in ("agent:test", "agent:stranger", OWNER):
        outcome = parlour.call("danger", {"to": 7}, by=by)
        assert isinstance(outcome, Refused)
        assert outcome.code == "invalid_arguments"
        assert parlour.events(outcome) == ["skill_execution_blocked"]
    assert parlour.looked == 0
    assert parlour.ran == []
    parlour.call("danger")
    assert parlour.looked == 1


@pytest.mark.parametrize("by", ["agent:viewer", "agent:stranger", "human:viewer", "human:approver"])
def test_who_lacks_the_right_to_execute_is_rejected_and_that_is_recorded(parlour: Parlour, by: str) -> None:
    outcome = parlour.call(by=by)
    assert isinstance(outcome, Refused)
    assert outcome.code == "forbidden"
    assert outcome.reasons
    assert parlour.ran == []
    (line,) = parlour.lines(outcome.call_id)
    assert (line["event"], line["actor"], line["code"]) == ("skill_execution_blocked", by, "forbidden")
    assert isinstance(parlour.call(), Completed), "who has it is not"


@pytest.mark.parametrize("name", ["danger", "marked"])
def test_an_action_that_needs_approval_is_pending_and_runs_only_after_a_persons_consent(
    parlour: Parlour, name: str
) -> None:
    pending = parlour.call(name)
    assert isinstance(pending, Pending)
    assert pending.approval_id
    assert pending.expires_at
    assert parlour.ran == []
    assert parlour.events(pending) == ["skill_approval_queued"]
    parlour.decided(pending)
    assert isinstance(parlour.resume(pending), Completed)
    assert len(parlour.ran) == 1


@pytest.mark.parametrize("role", ROLES)
def test_only_who_has_the_right_to_approve_approves(parlour: Parlour, role: Role) -> None:
    pending = parlour.call("danger")
    by = OWNER if role == "owner" else f"human:{role}"
    if role == "agent":
        parlour.add(by, "viewer")
    answer = parlour.decided(pending, by=by, role=role)
    may = APPROVE in ROLES[role]
    assert may == (role in ("owner", "operator", "approver"))
    assert isinstance(answer, Approval if may else Undecided), answer
    assert isinstance(parlour.resume(pending), Completed) == may
    assert len(parlour.ran) == may


@pytest.mark.parametrize(("name", "right"), [("send", EXECUTE), ("create", CREATE), ("market", MARKETPLACE)])
@pytest.mark.parametrize("role", HUMANS)
def test_each_right_is_asked_for_by_its_own_name_and_nobody_has_it_by_default(
    parlour: Parlour, name: str, right: str, role: Role
) -> None:
    outcome = parlour.call(name, by=f"human:{role}")
    assert isinstance(outcome, Completed) == (right in ROLES[role]) == (role == "operator")
    if isinstance(outcome, Refused):
        assert (outcome.code, right in outcome.reasons[0]) == ("forbidden", True)
    if name != "send":
        asked = parlour.call(name)
        assert isinstance(asked, Refused), "agents may execute, and no more"
        assert right in asked.reasons[0]
