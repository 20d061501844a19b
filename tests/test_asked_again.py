"""Who is told that somebody has to decide, and asks the same again once he did, is not asked about anew: it runs, once."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_desk import EVERY, Desk, text_of
from metier.model.approval import Approval
from metier.model.call import Cause, Surroundings
from metier.model.outcome import Completed, Pending, Refused
from metier.model.role import ROLES
from metier.pipeline import run
from metier.record.approval_clock import moment
from metier.record.approvals import find, keep_waiting
from metier.record.deciding import Decider, revoke_approval
from metier.record.verify import verify
from parlour import OWNER, Parlour, tool

ASKS = tool(approval="always")


@pytest.fixture
def parlour(tmp_path: Path) -> Parlour:
    return Parlour(tmp_path, ASKS, tool("other", approval="always"))


def approved(parlour: Parlour, **more: Any) -> Pending:
    """Asked, and approved when nobody waits any more."""
    pending = parlour.call(**more)
    assert isinstance(pending, Pending), pending
    assert isinstance(parlour.decided(pending), Approval)
    return pending


def state(parlour: Parlour, pending: Pending) -> str:
    found = find(parlour.database, pending.approval_id)
    assert found is not None
    return found.state


def test_what_was_approved_after_its_caller_went_runs_when_he_asks_the_same_again(parlour: Parlour) -> None:
    pending = approved(parlour)
    again = parlour.call()
    assert isinstance(again, Completed), again
    assert again.call_id != pending.call_id
    assert len(parlour.ran) == 1
    assert state(parlour, pending) == "spent"


def test_the_record_says_which_call_ran_and_on_whose_word_to_which_request(parlour: Parlour) -> None:
    pending = approved(parlour)
    again = parlour.call()
    assert parlour.events(pending) == ["skill_approval_queued", "skill_approved"]
    assert parlour.events(again) == ["skill_execution_started", "skill_executed"]
    began = next(each for each in parlour.log.tail(10) if each.event == "skill_execution_started")
    assert (began.evidence, began.approved_by) == (pending.approval_id, OWNER)
    assert verify(parlour.database).ok


def test_a_yes_is_used_once_however_often_the_same_is_asked_again(parlour: Parlour) -> None:
    approved(parlour)
    outcomes = [parlour.call() for _ in range(3)]
    assert [type(each) for each in outcomes] == [Completed, Pending, Pending]
    assert len(parlour.ran) == 1


def test_of_many_that_ask_again_at_once_one_runs(parlour: Parlour) -> None:
    pending = approved(parlour)
    calls = [parlour.made() for _ in range(8)]
    ended: list[Any] = []

    async def all_of_them() -> None:
        async def one(call: Any) -> None:
            ended.append(await run(call, house))

        house = parlour.house
        async with anyio.create_task_group() as tasks:
            for call in calls:
                tasks.start_soon(one, call)

    anyio.run(all_of_them)
    assert len(parlour.ran) == 1
    assert sum(isinstance(each, Completed) for each in ended) == 1
    others = [each for each in ended if not isinstance(each, Completed)]
    assert all(
        isinstance(each, Pending) or (isinstance(each, Refused) and each.code == "approval_void")
        for each in others
    ), others
    assert state(parlour, pending) == "spent"


def test_whoever_takes_it_up_by_its_id_and_whoever_asks_again_do_not_both_run_it(parlour: Parlour) -> None:
    pending = approved(parlour)
    assert isinstance(parlour.call(), Completed)
    assert parlour.resume(pending) is None
    second = approved(parlour)
    assert isinstance(parlour.resume(second), Completed)
    assert isinstance(parlour.call(), Pending)
    assert len(parlour.ran) == 2


@pytest.mark.parametrize(
    "other",
    [
        {"arguments": {"to": "ada", "text": "tea!"}},
        {"name": "other"},
        {"by": "agent:other"},
        {"parent": "call_outer", "depth": 1},
        {"unattended": True},
        {"attempt": 1, "cwd": "/"},
        {"cause": Cause(firings=1, root="x", by="trg_1")},
    ],
    ids=lambda other: "-".join(other),
)
def test_what_is_not_the_same_act_of_the_same_caller_is_asked_for_itself(
    parlour: Parlour, other: dict[str, Any]
) -> None:
    parlour.add("agent:other", "agent")
    pending = approved(parlour)
    outcome = parlour.call(**other)
    assert not isinstance(outcome, Completed) or (outcome.call_id and other.get("by") == "human:bob"), outcome
    assert state(parlour, pending) == "approved"
    assert isinstance(parlour.call(), Completed)


def test_each_firing_of_a_trigger_asks_for_itself(parlour: Parlour) -> None:
    fired = {"cause": Cause(firings=1, root="x", by="trg_1")}
    approved(parlour, **fired)
    assert isinstance(parlour.call(**fired), Pending)
    assert parlour.ran == []


def test_another_session_is_another_caller(parlour: Parlour) -> None:
    pending = approved(parlour)
    elsewhere = parlour.made(surroundings=Surroundings(session="other", channel="voice"))
    assert isinstance(anyio.run(run, elsewhere, parlour.house), Pending)
    assert state(parlour, pending) == "approved"


def test_a_no_is_not_turned_around_by_asking_again(parlour: Parlour) -> None:
    first, second = parlour.call(), parlour.call()
    parlour.decided(first, "deny")
    assert isinstance(parlour.call(), Pending)
    assert isinstance(second, Pending)
    assert parlour.ran == []


def test_a_yes_that_was_taken_back_or_is_over_lets_nothing_run(parlour: Parlour) -> None:
    pending = approved(parlour)
    by = Decider(id=OWNER, kind="human", rights=ROLES["owner"])
    assert isinstance(revoke_approval(parlour.database, pending.approval_id, by=by), Approval)
    assert isinstance(parlour.call(), Pending)
    late = parlour.call()
    assert isinstance(parlour.decided(late, use_within=0.0), Approval)
    assert isinstance(parlour.call(), Pending)
    assert parlour.ran == []


def test_a_yes_that_its_caller_waits_for_is_left_to_him(parlour: Parlour) -> None:
    pending = approved(parlour)
    keep_waiting(parlour.database, pending.approval_id, moment().running + 60)
    assert isinstance(parlour.call(), Pending)
    assert isinstance(parlour.resume(pending), Completed)


def test_a_yes_that_comes_before_its_caller_has_begun_to_wait_is_left_to_him_too(parlour: Parlour) -> None:
    """Between his asking and the first beat of his waiting somebody may decide, and another ask for the same."""
    pending = approved(parlour, waits=True)
    assert isinstance(parlour.call(), Pending)
    assert not parlour.ran and state(parlour, pending) == "approved"
    keep_waiting(
        parlour.database, pending.approval_id, 0.0
    )  # and once he went, it is there for who asks again
    assert isinstance(parlour.call(), Completed)


def test_what_the_level_or_a_right_no_longer_allows_does_not_run_on_a_yes_of_before(parlour: Parlour) -> None:
    pending = approved(parlour)
    parlour.level = "observe"
    assert isinstance(parlour.call(), Refused)
    assert parlour.ran == []
    parlour.level = "supervised_auto"
    assert isinstance(parlour.call(), Completed)
    assert state(parlour, pending) == "spent"


def test_a_tool_that_changed_since_is_asked_anew(parlour: Parlour) -> None:
    approved(parlour)
    parlour.tools["send"] = tool(approval="always", description="Sends it to everybody.")
    assert isinstance(parlour.call(), Pending)
    assert parlour.ran == []


def test_a_full_queue_is_not_in_the_way_of_a_yes_that_is_there(parlour: Parlour) -> None:
    approved(parlour)
    for number in range(100):
        assert isinstance(parlour.call(arguments={"to": "ada", "text": str(number)}), Pending)
    assert isinstance(parlour.call(arguments={"to": "ada", "text": "one more"}), Refused)
    assert isinstance(parlour.call(), Completed)


# --- over a door


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(tmp_path, monkeypatch)


@pytest.mark.parametrize(("way", "mode"), EVERY)
def test_a_model_that_asks_again_after_a_late_yes_is_given_the_result(
    desk: Desk, way: str, mode: str
) -> None:
    async def main() -> None:
        async with desk.client(way, mode) as client:
            first = await client.call_tool("tea__pour", {"text": "green"})
            assert first.is_error
            [waiting] = desk.waiting()
            desk.decide(waiting.id)
            again = await client.call_tool("tea__pour", {"text": "green"})
            assert not again.is_error, text_of(again)
            assert "poured green" in text_of(again)
            third = await client.call_tool("tea__pour", {"text": "green"})
            assert third.is_error, "the yes was for once"

    anyio.run(main)
    assert sorted(each.state for each in desk.waiting()) == ["pending", "spent"]
    assert sum(each.event == "skill_executed" for each in desk.records()) == 1
