"""What ran where it was approved, when who asked was not there any more: he asks the same again, is given how it ended, once, and
nothing runs twice."""

import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec import structs

from metier.model.approval import Approval
from metier.model.call import ApprovedCall, Cause, Surroundings
from metier.model.outcome import Completed, Failed, Outcome, Pending, Refused
from metier.model.ports import OperationFunction
from metier.pipeline import run
from metier.record import late
from metier.record.approval_clock import moment
from metier.record.approvals import find, stored_call
from metier.record.audit import AuditLog
from metier.record.chain import Record
from metier.record.deciding import expire_due
from metier.record.erasure import erase, erase_call
from metier.record.principals import revoke_principal
from metier.record.schema import MIGRATIONS
from metier.record.verify import verify
from parlour import AGENT, OWNER, Parlour, tool

ASKS = tool(approval="always")


@pytest.fixture
def parlour(tmp_path: Path) -> Parlour:
    return Parlour(tmp_path, ASKS, tool("other", approval="always"))


def asked(parlour: Parlour, **more: Any) -> Pending:
    """Asked, and approved when nobody waits any more."""
    pending = parlour.call(**more)
    assert isinstance(pending, Pending), pending
    assert isinstance(parlour.decided(pending), Approval)
    return pending


def run_there(parlour: Parlour, pending: Pending) -> Outcome:
    """What is done where it was approved."""
    stored = stored_call(parlour.database, pending.approval_id)
    assert stored is not None
    return anyio.run(run, structs.replace(stored, by_decider=True), parlour.house)


def ran(parlour: Parlour, **more: Any) -> Pending:
    """Asked, approved, and run where it was approved."""
    pending = asked(parlour, **more)
    ended = run_there(parlour, pending)
    assert isinstance(ended, Completed | Failed), ended
    return pending


def kept(parlour: Parlour) -> list[tuple[Any, ...]]:
    with parlour.database.reading() as connection:
        return connection.execute("SELECT * FROM late").fetchall()


def records(parlour: Parlour, event: str) -> list[Record]:
    return [each for each in parlour.log.tail(100) if each.event == event]


def test_who_asks_again_is_given_how_it_ended_where_it_was_approved_and_nothing_runs_again(
    parlour: Parlour,
) -> None:
    pending = ran(parlour)
    again = parlour.call()
    assert isinstance(again, Completed), again
    assert again.value == {"sent": True}
    assert again.call_id != pending.call_id
    assert again.earlier is not None
    assert again.earlier.call_id == pending.call_id
    assert again.earlier.approval_id == pending.approval_id
    assert again.earlier.approved_by == OWNER
    assert again.earlier.at == records(parlour, "skill_execution_started")[0].at
    assert len(parlour.ran) == 1


def test_it_is_given_once_and_then_it_is_a_new_act(parlour: Parlour) -> None:
    ran(parlour)
    outcomes = [parlour.call() for _ in range(3)]
    assert [type(each) for each in outcomes] == [Completed, Pending, Pending]
    assert len(parlour.ran) == 1
    assert kept(parlour) == []


def test_each_of_two_that_ran_there_is_given_the_oldest_first(parlour: Parlour) -> None:
    first, second = parlour.call(), parlour.call()
    for each in (first, second):
        assert isinstance(parlour.decided(each), Approval)
        assert isinstance(each, Pending)
        run_there(parlour, each)
    given = [parlour.call() for _ in range(3)]
    named = [each.earlier.call_id for each in given if isinstance(each, Completed) and each.earlier]
    assert named == [first.call_id, second.call_id]
    assert isinstance(given[2], Pending)


def test_that_it_was_given_is_on_the_record_and_cannot_be_undone_unnoticed(parlour: Parlour) -> None:
    pending = ran(parlour)
    again = parlour.call()
    assert parlour.events(again) == ["outcome_given"]
    [given] = records(parlour, "outcome_given")
    [began] = records(parlour, "skill_execution_started")
    assert (given.principal, given.approval, given.about) == (AGENT, pending.approval_id, began.seq)
    assert given.call_id == again.call_id
    assert verify(parlour.database).ok
    with parlour.database.transaction() as connection:
        connection.execute("UPDATE approval SET record = ? WHERE id = ?", (began.seq, pending.approval_id))
    assert not verify(parlour.database).ok


def test_what_who_asked_took_up_himself_is_not_given_a_second_time(parlour: Parlour) -> None:
    pending = asked(parlour)
    assert isinstance(parlour.resume(pending), Completed)
    assert kept(parlour) == []
    assert isinstance(parlour.call(), Pending)
    asked(parlour)
    assert isinstance(parlour.call(), Completed)  # asked again, it ran on the yes that was there
    assert isinstance(parlour.call(), Pending)


def test_a_failure_is_given_as_one(parlour: Parlour) -> None:
    parlour.returns = Failed(call_id="", code="raised", message="no more tea")
    ran(parlour)
    again = parlour.call()
    assert isinstance(again, Failed)
    assert (again.code, again.message) == ("raised", "no more tea")
    assert again.earlier is not None
    assert len(parlour.ran) == 1


def test_of_many_that_ask_again_at_once_one_is_given_it_and_nothing_runs(parlour: Parlour) -> None:
    ran(parlour)
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
    assert sorted(type(each).__name__ for each in ended) == ["Completed"] + ["Pending"] * 7


@pytest.mark.parametrize(
    "other",
    [
        {"arguments": {"to": "ada", "text": "tea!"}},
        {"name": "other"},
        {"by": "agent:other"},
        {"by": "human:bob"},
        {"parent": "call_outer", "depth": 1},
        {"unattended": True},
        {"cwd": "/"},
        {"cause": Cause(firings=1, root="x", by="trg_1")},
        {"surroundings": Surroundings(channel="voice", call_id="line_1", session="another")},
        {"surroundings": Surroundings(channel="voice", call_id="line_1", caller_id="+49")},
        {"surroundings": Surroundings(channel="chat", call_id="line_1")},
    ],
    ids=(
        *("arguments", "tool", "agent", "person", "parent", "unattended", "folder", "cause"),
        *("session", "caller", "channel"),
    ),
)
def test_nobody_else_and_no_other_act_is_given_it(parlour: Parlour, other: dict[str, Any]) -> None:
    parlour.add("agent:other", "agent")
    parlour.add("human:bob", "owner")
    ran(parlour)
    outcome = parlour.call(**other)
    assert getattr(outcome, "earlier", None) is None, outcome
    assert len(kept(parlour)) == 1
    own = parlour.call()
    assert isinstance(own, Completed) and own.earlier is not None


@pytest.mark.parametrize(
    "bound", [{"token": "tok_2"}, {"scopes": frozenset({"skills:execute"})}, {"on_behalf_of": None}], ids=str
)
def test_the_same_agent_with_another_token_or_for_somebody_else_is_not_given_it(
    parlour: Parlour, bound: dict[str, Any]
) -> None:
    ran(parlour)
    call = parlour.made()
    other = structs.replace(call, principal=structs.replace(call.principal, **bound))
    assert getattr(anyio.run(run, other, parlour.house), "earlier", None) is None
    assert len(kept(parlour)) == 1


def test_a_tool_that_changed_since_is_asked_anew(parlour: Parlour) -> None:
    ran(parlour)
    parlour.tools["send"] = tool(approval="always", description="Sends it to everybody.")
    assert isinstance(parlour.call(), Pending)


def test_after_the_time_of_its_yes_it_is_asked_anew_and_nothing_of_it_is_kept(parlour: Parlour) -> None:
    pending = parlour.call()
    assert isinstance(parlour.decided(pending, use_within=0.6), Approval)
    assert isinstance(pending, Pending)
    run_there(parlour, pending)
    assert len(kept(parlour)) == 1
    time.sleep(0.7)
    assert isinstance(parlour.call(), Pending)
    expire_due(parlour.database)
    assert kept(parlour) == []
    assert verify(parlour.database).ok


def test_a_revoked_agent_is_given_nothing_and_an_id_that_comes_back_neither(parlour: Parlour) -> None:
    parlour.add("agent:other", "agent")
    ran(parlour, by="agent:other")
    assert revoke_principal(parlour.database, "agent:other", by=OWNER, owner=OWNER) == ""
    outcome = parlour.call(by="agent:other")
    assert isinstance(outcome, Refused), outcome
    parlour.add("agent:other", "agent")
    assert kept(parlour) == []
    assert isinstance(parlour.call(by="agent:other"), Pending)


def test_what_the_level_no_longer_allows_is_not_told_either(parlour: Parlour) -> None:
    ran(parlour)
    parlour.level = "observe"
    assert isinstance(parlour.call(), Refused)
    parlour.level = "supervised_auto"
    assert isinstance(parlour.call(), Completed)


def test_who_is_revoked_at_the_last_moment_is_given_nothing(parlour: Parlour) -> None:
    parlour.add("agent:other", "agent")
    ran(parlour, by="agent:other")
    look = parlour.look

    async def then_revoked(valid: Any) -> Any:
        found = await look(valid)
        revoke_principal(parlour.database, "agent:other", by=OWNER, owner=OWNER)
        return found

    parlour.look = then_revoked
    outcome = parlour.call(by="agent:other")
    assert isinstance(outcome, Refused), outcome
    assert outcome.code == "forbidden"


def test_secrets_stay_masked_in_what_is_given(parlour: Parlour) -> None:
    parlour.returns = Completed(call_id="", value={"token": "ghp_" + "a" * 36})
    ran(parlour)
    again = parlour.call()
    assert isinstance(again, Completed)
    assert "ghp_" not in str(again.value)


def test_a_masked_value_that_is_not_of_the_promised_shape_is_told_of_and_not_given(tmp_path: Path) -> None:
    number = {"type": "object", "properties": {"pin": {"type": "integer"}, "n": {"type": "integer"}}}
    parlour = Parlour(tmp_path, tool(approval="always", returns=number))
    for value, given in (({"n": 7}, True), ({"pin": 4711}, False)):
        parlour.returns = Completed(call_id="", value=value)
        pending = ran(parlour)
        again = parlour.call()
        if given:
            assert isinstance(again, Completed) and again.value == value
        else:
            assert isinstance(again, Refused) and again.code == "already_begun", again
            assert "masked" in again.reasons[0] and pending.call_id in again.remedy
            assert "4711" not in str(again)
    assert isinstance(parlour.call(), Pending), "once told, the same is a new act"
    assert len(parlour.ran) == 2


def test_where_no_payloads_are_kept_he_is_told_that_it_ran(parlour: Parlour) -> None:
    parlour.log = AuditLog(parlour.database, payloads="hashes")
    pending = ran(parlour)
    told = parlour.call()
    assert isinstance(told, Refused), told
    assert told.code == "already_begun"
    assert "it completed, and what it returned is not kept" in told.reasons[0]
    assert pending.call_id in told.reasons[0]
    assert pending.call_id in told.remedy
    assert parlour.events(told) == ["outcome_given"]
    assert isinstance(parlour.call(), Pending)
    assert len(parlour.ran) == 1


def test_what_was_erased_is_told_of_and_not_given(parlour: Parlour) -> None:
    pending = ran(parlour)
    [done] = records(parlour, "skill_executed")
    erase(parlour.database, (done.seq,), by=OWNER)
    told = parlour.call()
    assert isinstance(told, Refused)
    assert "what it returned is not kept" in told.reasons[0] and pending.call_id in told.reasons[0]


def test_erasing_the_call_leaves_nothing_by_which_what_was_asked_could_be_guessed(parlour: Parlour) -> None:
    pending = ran(parlour)
    erase_call(parlour.database, pending.call_id, by=OWNER)
    assert kept(parlour) == []
    assert isinstance(parlour.call(), Pending)


def test_nothing_of_what_was_asked_is_kept_for_it_in_the_clear(parlour: Parlour) -> None:
    ran(parlour, arguments={"to": "ada", "text": "plumblossom"})
    with parlour.database.reading() as connection:
        every = str(connection.execute("SELECT * FROM late").fetchall())
        every += str(connection.execute("SELECT * FROM approval").fetchall())
    assert "plumblossom" not in every


def test_while_it_still_runs_he_is_told_so_and_given_it_afterwards(parlour: Parlour) -> None:
    pending = asked(parlour)
    stored = stored_call(parlour.database, pending.approval_id)
    assert stored is not None
    told: list[Outcome] = []

    async def main() -> None:
        begun, go_on = anyio.Event(), anyio.Event()

        class Slow:
            def find(self, module: str, operation: str) -> OperationFunction:
                async def do(approved: ApprovedCall) -> Completed | Failed:
                    begun.set()
                    await go_on.wait()
                    return Completed(call_id=approved.authorized.valid.call.id, value="done")

                return do

        house = parlour.house
        slow = structs.replace(house, operations=Slow())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, structs.replace(stored, by_decider=True), slow)
            with anyio.fail_after(10):
                await begun.wait()
            told.append(await run(parlour.made(), house))
            go_on.set()
        told.append(await run(parlour.made(), house))

    anyio.run(main)
    assert isinstance(told[0], Refused), told
    assert told[0].code == "already_begun"
    assert "runs since" in told[0].reasons[0] and pending.call_id in told[0].reasons[0]
    assert isinstance(told[1], Completed), told
    assert told[1].value == "done" and told[1].earlier is not None
    assert parlour.ran == []


def test_where_the_process_that_ran_it_is_gone_he_is_told_that_nobody_knows_how_it_ended(
    parlour: Parlour,
) -> None:
    pending = ran(parlour)
    [began] = records(parlour, "skill_execution_started")
    with (
        parlour.database.transaction() as connection
    ):  # as it lies there when the machine went down meanwhile
        connection.execute("UPDATE late SET ended = 0")
        connection.execute(
            "INSERT INTO open_intent VALUES (?, ?, '1 2 gone', '')", (began.seq, pending.call_id)
        )
    told = parlour.call()
    assert isinstance(told, Refused)
    assert "nobody knows how it ended" in told.reasons[0]
    assert isinstance(parlour.call(), Pending)


def test_a_row_that_was_written_past_us_gives_nobody_what_is_not_his(parlour: Parlour) -> None:
    parlour.add("agent:other", "agent")
    his = ran(parlour, by="agent:other", arguments={"to": "ada", "text": "his"})
    mine = ran(parlour)
    with parlour.database.transaction() as connection:
        number = "SELECT record FROM approval WHERE id = ?"
        (other,) = connection.execute(number, (his.approval_id,)).fetchone()
        connection.execute("UPDATE approval SET record = ? WHERE id = ?", (other, mine.approval_id))
        connection.execute(
            "UPDATE late SET ended = (SELECT ended FROM late WHERE approval = ?) WHERE approval = ?",
            (his.approval_id, mine.approval_id),
        )
    assert isinstance(parlour.call(), Pending)


@pytest.mark.parametrize(
    "other",
    [{"arguments": {"to": "ada", "text": "other"}}, {"name": "other"}, {"by": "agent:other"}],
    ids=str,
)
def test_whatever_its_table_says_the_record_decides_what_is_whose(
    parlour: Parlour, other: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    parlour.add("agent:other", "agent")
    monkeypatch.setattr(late, "_same", lambda *_: "the same")
    ran(parlour)
    assert getattr(parlour.call(**other), "earlier", None) is None
    assert isinstance(parlour.call(), Completed)


def test_a_result_of_another_run_is_not_given_for_this_one(parlour: Parlour) -> None:
    parlour.returns = Completed(call_id="", value="other")
    other = ran(parlour, arguments={"to": "ada", "text": "other"})
    parlour.returns = None
    mine = ran(parlour)
    with parlour.database.transaction() as connection:
        connection.execute(
            "UPDATE late SET ended = (SELECT ended FROM late WHERE approval = ?) WHERE approval = ?",
            (other.approval_id, mine.approval_id),
        )
    told = parlour.call()
    assert isinstance(told, Refused)
    assert "not as it was recorded" in told.reasons[0]


def test_a_call_of_an_id_that_began_is_not_asked_about_in_vain(parlour: Parlour) -> None:
    pending = ran(parlour)
    assert isinstance(parlour.call(), Completed)
    told = anyio.run(run, structs.replace(parlour.made(), id=pending.call_id), parlour.house)
    assert isinstance(told, Refused)
    assert told.code == "already_begun"


def test_a_grant_that_came_with_the_yes_answers_by_itself_and_nothing_is_kept(parlour: Parlour) -> None:
    from metier.record.standing import proposed_grant

    pending = parlour.call()
    assert isinstance(pending, Pending)
    found = find(parlour.database, pending.approval_id)
    assert found is not None and found.shown is not None
    grant = proposed_grant(found.shown, "always", approval=pending.approval_id, by=OWNER)
    assert isinstance(parlour.decided(pending, scope="always", grant=grant), Approval)
    run_there(parlour, pending)
    assert kept(parlour) == []


def test_a_restored_state_gives_nothing_again(parlour: Parlour, tmp_path: Path) -> None:
    ran(parlour)
    from metier.record.approval_ending import void_all

    with parlour.database.transaction() as connection:
        void_all(connection, at=moment().text, by=OWNER)
    assert kept(parlour) == []
    assert isinstance(parlour.call(), Pending)


def test_a_call_that_nobody_has_to_approve_never_looks_for_it(parlour: Parlour) -> None:
    parlour.tools["free"] = tool("free", effect="read")
    ran(parlour)
    said: list[str] = []
    with parlour.database.transaction() as connection:
        connection.set_trace_callback(said.append)
    try:
        assert isinstance(parlour.call("free"), Completed)
    finally:
        with parlour.database.transaction() as connection:
            connection.set_trace_callback(None)
    assert said and not [each for each in said if " late" in each]


def test_the_table_came_with_the_sixth_step() -> None:
    assert "CREATE TABLE late" in MIGRATIONS[5][0]


def test_what_it_wrote_itself_does_not_make_it_another_act(parlour: Parlour, tmp_path: Path) -> None:
    target = tmp_path / "letter.txt"
    arguments = {"to": str(target), "text": "tea"}
    pending = asked(parlour, arguments=arguments)
    parlour.returns = None
    run_there(parlour, pending)
    target.write_text("tea", encoding="utf-8")
    again = parlour.call(arguments=arguments)
    assert isinstance(again, Completed) and again.earlier is not None
