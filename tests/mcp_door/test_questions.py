"""Whose answer counts, and for what: an answer that was not asked for, by anybody, in any way, confirms and approves nothing."""

import json
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.request_state import RequestStateBoundary
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult, InputRequiredResult

from mcp_desk import AGENT, EVERY, WAYS, Desk, Person, text_of
from metier.catalog.here import owner
from metier.doors.mcp import server
from metier.doors.mcp.peer import Peer
from metier.doors.mcp.questions import Questions, act_of
from metier.model.call import Principal, Surroundings
from metier.model.role import APPROVE, EXECUTE, Registered
from metier.record.approvals import find
from metier.record.principals import add_principal
from metier.record.tokens import Made

every = pytest.mark.parametrize(("way", "mode"), EVERY)
ways = pytest.mark.parametrize("way", WAYS)
NEW = "2026-07-28"
YES = {"answer": ElicitResult(action="accept", content={"go_ahead": True})}
BREW = {"text": "oolong"}


def ran(desk: Desk) -> list[str]:
    return [each.tool for each in desk.records() if each.event == "skill_executed"]


async def asked(client: Any, tool: str = "tea__brew", arguments: dict[str, Any] = BREW) -> str:
    """Call it, and give what the question carries."""
    result = await client.session.call_tool(tool, arguments, allow_input_required=True)
    assert isinstance(result, InputRequiredResult) and result.input_requests, result
    assert result.request_state is not None
    return result.request_state


async def answered(client: Any, state: str | None, tool: str = "tea__brew", arguments: Any = BREW) -> Any:
    return await client.session.call_tool(
        tool, arguments, input_responses=YES, request_state=state, allow_input_required=True
    )


def forged(tool: str = "tea/brew") -> str:
    return json.dumps({"kind": "confirm", "id": "ask_1", "act": act_of(tool, BREW), "about": ""})


# --- what the person at a client confirms


@ways
def test_an_answer_to_a_question_that_was_put_counts_once(desk: Desk, way: str) -> None:
    async def main() -> None:
        async with desk.client(way, NEW, elicitation_callback=Person()) as client:
            state = await asked(client)
            assert text_of(await answered(client, state)) == "brewed oolong"
            with pytest.raises(MCPError, match="answers no question"):
                await answered(client, state)

    anyio.run(main)
    assert ran(desk) == ["tea/brew"]


@ways
def test_a_forged_answer_is_refused(desk: Desk, way: str) -> None:
    async def main() -> None:
        async with desk.client(way, NEW, elicitation_callback=Person()) as client:
            for state in (None, forged(), "v1.AAAA", "", "null"):
                with pytest.raises(MCPError):
                    await answered(client, state)

    anyio.run(main)
    assert ran(desk) == []


def test_without_the_boundary_a_question_that_was_not_put_here_has_no_answer(desk: Desk) -> None:
    """The second guard holds by itself; and so does the third, the gate, which never asked."""
    _no_boundary(desk)

    async def main(error: bool) -> Any:
        async with desk.client("lines", NEW, elicitation_callback=Person()) as client:
            if error:
                with pytest.raises(MCPError, match="answers no question"):
                    await answered(client, forged())
                return None
            return await answered(client, forged())

    anyio.run(main, True)
    desk.patch.setattr(Questions, "take", lambda *given: True)
    refused = anyio.run(main, False)
    assert refused.is_error and "confirmation_required" in text_of(refused)
    assert ran(desk) == []


def _only_the_boundary(desk: Desk) -> None:
    """Neither our own list nor the turns of the gate."""
    desk.patch.setattr(Questions, "take", lambda *given: True)

    def around(**named: Any) -> Surroundings:
        return Surroundings(**{**named, "turn": None})

    desk.patch.setattr("metier.doors.mcp.calls.Surroundings", around)


def test_the_boundary_refuses_a_forged_answer_by_itself(desk: Desk) -> None:
    _only_the_boundary(desk)

    async def main() -> None:
        async with desk.client("lines", NEW, elicitation_callback=Person()) as client:
            with pytest.raises(MCPError, match="requestState"):
                await answered(client, forged())

    anyio.run(main)
    assert ran(desk) == []


def test_with_no_guard_left_the_forged_answer_would_run(desk: Desk) -> None:
    """The attack is real: this is what the guards are for."""
    _only_the_boundary(desk)
    _no_boundary(desk)

    async def main() -> Any:
        async with desk.client("lines", NEW, elicitation_callback=Person()) as client:
            return await answered(client, forged())

    assert text_of(anyio.run(main)) == "brewed oolong"


def _no_boundary(desk: Desk) -> None:
    class Open(RequestStateBoundary):
        async def __call__(self, ctx: Any, call_next: Any) -> Any:
            return await call_next(ctx)

    desk.patch.setattr(server, "RequestStateBoundary", Open)


@ways
def test_an_answer_counts_only_for_the_act_that_was_asked_about(desk: Desk, way: str) -> None:
    async def main() -> None:
        async with desk.client(way, NEW, elicitation_callback=Person()) as client:
            for arguments in ({"text": "arsenic"}, {}, {**BREW, "text": "oolong "}):
                with pytest.raises(MCPError):
                    await answered(client, await asked(client), arguments=arguments)
            with pytest.raises(MCPError):
                await answered(client, await asked(client), tool="tea__pour")

    anyio.run(main)
    assert ran(desk) == [] and desk.waiting() == []


def test_an_answer_counts_only_from_whom_the_question_was_put_to(desk: Desk) -> None:
    first, second = desk.token(), desk.token("agent:mcp")

    async def main() -> None:
        async with desk.served() as url:

            async def using(token: Any, act: Any) -> Any:
                async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token.text}"}) as http:
                    transport = streamable_http_client(url, http_client=http)
                    async with Client(
                        transport, mode=NEW, cache=None, elicitation_callback=Person()
                    ) as client:
                        return await act(client)

            state = await using(first, asked)

            async def steal(client: Any) -> None:
                with pytest.raises(MCPError, match="requestState"):
                    await answered(client, state)

            await using(second, steal)
            assert ran(desk) == []
            done = await using(first, lambda client: answered(client, state))
            assert text_of(done) == "brewed oolong", "to whom it was put it still counts"

    anyio.run(main)


def test_a_round_with_state_and_no_answer_runs_nothing_and_asks_nothing_again(desk: Desk) -> None:
    async def main() -> None:
        async with desk.client("lines", NEW, elicitation_callback=Person()) as client:
            state = await asked(client)
            result = await client.session.call_tool(
                "tea__brew", BREW, request_state=state, allow_input_required=True
            )
            assert result.is_error and "did not answer" in text_of(result)

    anyio.run(main)
    assert ran(desk) == []


@every
@pytest.mark.parametrize(
    "person", [Person("decline"), Person(go_ahead=False)], ids=["declines", "leaves it at no"]
)
def test_after_his_no_the_model_is_told_to_leave_it_and_the_no_is_on_the_record(
    desk: Desk, way: str, mode: str, person: Person
) -> None:
    async def main() -> Any:
        async with desk.client(way, mode, elicitation_callback=person) as client:
            return await client.call_tool("tea__brew", {**BREW, "confirmed": True})

    told = json.loads(text_of(anyio.run(main)))
    assert "requires_confirmation" not in told and told["error"] == "forbidden"
    assert "said no" in told["message"] and "Do not ask again" in told["remedy"]
    [asked, no] = [each for each in desk.records() if each.event == "skill_execution_blocked"]
    assert (asked.code, no.code, no.tool) == ("confirmation_required", "forbidden", "tea/brew")
    assert "said no" in str(no.reasons) and ran(desk) == []


@every
def test_who_does_not_answer_is_asked_anew_by_a_further_call(desk: Desk, way: str, mode: str) -> None:
    person = Person("cancel")

    async def main() -> Any:
        async with desk.client(way, mode, elicitation_callback=person) as client:
            if mode == "legacy":
                return await client.call_tool("tea__brew", BREW)
            state = await asked(client)
            return await client.session.call_tool(
                "tea__brew",
                BREW,
                input_responses={"answer": person.answer},
                request_state=state,
                allow_input_required=True,
            )

    told = json.loads(text_of(anyio.run(main)))
    assert (told["requires_confirmation"], told["prompt"]) == (True, "Brew it now?")
    assert "did not answer" in told["message"] and "anew" in told["remedy"]


@every
def test_what_is_too_long_to_be_shown_is_told_so_and_not_to_be_asked_again(
    desk: Desk, way: str, mode: str
) -> None:
    """Each of these takes nine characters to be shown."""
    long, person = "\U000e0001" * 2_000, Person()

    async def main() -> None:
        async with desk.client(way, mode, elicitation_callback=person) as client:
            for given in ({"text": long}, {"text": long, "confirmed": True}):
                told = json.loads(text_of(await client.call_tool("tea__brew", given)))
                assert told["error"] == "not_runnable" and "16,000" in told["message"]
                assert "smaller parts" in told["remedy"] and "terminal" in told["remedy"]
                assert "requires_confirmation" not in told

    anyio.run(main)
    assert person.asked == [] and ran(desk) == []


def test_a_client_that_shows_no_forms_is_told_to_ask_its_person_itself(desk: Desk) -> None:
    async def main() -> None:
        async with desk.client("lines", NEW) as client:
            refused = await client.call_tool("tea__brew", BREW)
            said = json.loads(text_of(refused))
            assert (said["error"], said["prompt"]) == ("confirmation_required", "Brew it now?")
            done = await client.call_tool("tea__brew", {**BREW, "confirmed": True})
            assert text_of(done) == "brewed oolong", "asserted, as where no turns are known"

    anyio.run(main)


# --- what the operator approves over a client that he declared to be himself


def his(desk: Desk) -> Made:
    """A token that goes so far as to say yes."""
    return desk.token(AGENT, frozenset({EXECUTE, APPROVE}))


OWN = f'[mcp]\nwait_seconds = 0\nown_clients = ["{AGENT}"]\n'


@every
def test_the_operators_own_client_asks_him_and_his_word_decides(desk: Desk, way: str, mode: str) -> None:
    desk.configured(OWN)
    person = Person()

    async def main() -> Any:
        async with desk.client(way, mode, token=his(desk), elicitation_callback=person) as client:
            return await client.call_tool("tea__pour", {"text": "green"})

    assert text_of(anyio.run(main)) == "poured green"
    [approval] = desk.waiting()
    assert (approval.state, approval.decided_by) == ("spent", owner())
    [shown] = person.asked
    assert approval.id in shown and "tea/pour" in shown and '"green"' in shown and AGENT in shown
    assert "metier approvals" not in shown and "Go ahead" in shown, "a form is answered, not a terminal"


@every
@pytest.mark.parametrize(
    ("person", "state", "said"),
    [
        (Person("decline"), "denied", "approval_denied"),
        (Person(go_ahead=False), "denied", "approval_denied"),
        (Person("cancel"), "pending", "pending_approval"),
    ],
    ids=["declines", "leaves it at no", "does not answer"],
)
def test_his_no_is_a_no_and_no_answer_leaves_it_waiting(
    desk: Desk, way: str, mode: str, person: Person, state: str, said: str
) -> None:
    desk.configured(OWN)

    async def main() -> Any:
        async with desk.client(way, mode, token=his(desk), elicitation_callback=person) as client:
            if mode == "legacy" or state == "denied":
                return await client.call_tool("tea__pour", {"text": "green"})
            carried = await asked(client, "tea__pour", {"text": "green"})
            given = {"answer": ElicitResult(action="cancel")}
            return await client.session.call_tool(
                "tea__pour",
                {"text": "green"},
                input_responses=given,
                request_state=carried,
                allow_input_required=True,
            )

    result = anyio.run(main)
    assert result.is_error and said in text_of(result)
    assert [each.state for each in desk.waiting()] == [state]
    assert ran(desk) == []


@every
def test_four_eyes_hold_for_his_own_client_too(desk: Desk, way: str, mode: str) -> None:
    desk.configured(OWN + "[approvals]\nfour_eyes = true\n")
    person = Person()

    async def main() -> Any:
        async with desk.client(way, mode, token=his(desk), elicitation_callback=person) as client:
            return await client.call_tool("tea__pour", {"text": "green"})

    result = anyio.run(main)
    assert "pending_approval" in text_of(result) and person.asked == []
    assert [each.state for each in desk.waiting()] == ["pending"]


@ways
@pytest.mark.parametrize("boundary", [True, False])
def test_a_client_that_is_not_his_cannot_decide_by_answering_anyhow(
    desk: Desk, way: str, boundary: bool
) -> None:
    """It waits; then the client makes up the question that was never put, with everything in it right."""
    if not boundary:
        _no_boundary(desk)

    async def main() -> None:
        async with desk.client(way, NEW, elicitation_callback=Person()) as client:
            await client.call_tool("tea__pour", {"text": "green"})
            [pending] = desk.waiting()
            with desk.database() as database:
                found = find(database, pending.id)
            assert found is not None
            act = act_of("tea/pour", {"text": "green"})
            made = {"kind": "approve", "id": pending.id, "act": act, "about": found.fingerprint}
            with pytest.raises(MCPError):
                await answered(client, json.dumps(made), "tea__pour", {"text": "green"})

    anyio.run(main)
    assert ran(desk) == [] and [each.state for each in desk.waiting()] == ["pending"]


@ways
def test_a_client_that_is_no_longer_his_when_he_answers_decides_nothing(desk: Desk, way: str) -> None:
    desk.configured(OWN)

    async def main() -> Any:
        async with desk.client(way, NEW, token=his(desk), elicitation_callback=Person()) as client:
            state = await asked(client, "tea__pour", {"text": "green"})
            desk.configured("[mcp]\nwait_seconds = 0\n")
            return await answered(client, state, "tea__pour", {"text": "green"})

    assert "pending_approval" in text_of(anyio.run(main))
    assert [each.state for each in desk.waiting()] == ["pending"] and ran(desk) == []


@every
def test_an_agent_that_acts_for_somebody_else_never_says_the_owners_word(
    desk: Desk, way: str, mode: str
) -> None:
    with desk.database() as database:
        bob = Registered(id="human:bob", kind="human", roles=frozenset({"operator"}))
        bobs = Registered(id="agent:bobs", kind="agent", on_behalf_of="human:bob", roles=frozenset({"agent"}))
        for each in (bob, bobs):
            assert add_principal(database, each, by=owner(), owner=owner()) == ""
    desk.configured('[mcp]\nwait_seconds = 0\nown_clients = ["agent:bobs"]\n')
    person = Person()
    token = desk.token("agent:bobs", frozenset({EXECUTE, APPROVE}))

    async def main() -> Any:
        async with desk.client(
            way, mode, token=token, principal="agent:bobs", elicitation_callback=person
        ) as client:
            return await client.call_tool("tea__pour", {"text": "green"})

    assert "pending_approval" in text_of(anyio.run(main)) and person.asked == []
    assert [each.state for each in desk.waiting()] == ["pending"]


@pytest.mark.parametrize("mode", ["legacy", NEW])
def test_cap_12_a_token_without_the_scope_to_approve_never_says_the_owners_word(
    desk: Desk, mode: str
) -> None:
    desk.configured(OWN)
    person = Person()

    async def main() -> Any:
        async with desk.client("http", mode, elicitation_callback=person) as client:
            return await client.call_tool("tea__pour", {"text": "green"})

    assert "pending_approval" in text_of(anyio.run(main)) and person.asked == []
    assert [each.state for each in desk.waiting()] == ["pending"]


@pytest.mark.parametrize("written", ['"*"', '"human:uid-0"', '"agent:*"', '"claude"', '"agent:"', '""'])
def test_only_single_agents_can_be_declared_to_be_the_operator(desk: Desk, written: str) -> None:
    desk.configured(f"[mcp]\nown_clients = [{written}]\n")
    done = desk.machine.metier("skills", "list", check=5)
    assert "own_clients" in done.stderr and "agent:NAME" in done.stderr


def test_one_principal_that_is_asked_much_forgets_nobody_elses_questions() -> None:
    def peer(id: str) -> Peer:
        return Peer(principal=Principal(id=id, kind="agent"), connection="c")

    questions, mine, his = Questions(), peer("agent:a"), peer("agent:b")
    first = questions.put("confirm", mine, "act")
    his_own = [questions.put("confirm", his, "act") for _ in range(200)]
    assert questions.take(first, mine, "act")
    assert not questions.take(his_own[0], his, "act") and questions.take(his_own[-1], his, "act")
