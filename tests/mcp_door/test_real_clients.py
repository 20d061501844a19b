"""The official SDK's client, over both ways and in both generations of the protocol."""

import json
from typing import Any

import anyio
import pytest

from mcp_desk import AGENT, EVERY, Desk, Person, text_of

every = pytest.mark.parametrize(("way", "mode"), EVERY)


@every
def test_a_client_sees_the_tools_for_models_and_calls_one_through_the_gate(
    desk: Desk, way: str, mode: str
) -> None:
    async def main() -> None:
        async with desk.client(way, mode) as client:
            tools = {each.name: each for each in (await client.list_tools()).tools}
            assert {"read_skill", "tea__count", "tea__pour", "tea__brew"} <= tools.keys()
            assert tools["tea__count"].output_schema == {
                "type": "object",
                "properties": {"words": {"type": "integer"}},
                "required": ["words"],
            }
            assert not [name for name in tools if name.startswith(("settings", "secrets", "approvals"))]
            done = await client.call_tool("tea__count", {"text": "one two"})
            assert (done.is_error, done.structured_content) == (False, {"words": 2})
            assert json.loads(text_of(done)) == {"words": 2}
            bad = await client.call_tool("tea__count", {"text": 3})
            assert bad.is_error and json.loads(text_of(bad))["error"] == "invalid_arguments"
            none = await client.call_tool("no__such", {})
            assert none.is_error and json.loads(text_of(none))["error"] == "unknown_tool"

    anyio.run(main)
    ran = [each for each in desk.records() if each.event == "skill_executed"]
    assert [(each.principal, each.channel) for each in ran] == [(AGENT, "mcp")]


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "version"), [("legacy", "2025-11-25"), ("auto", "2026-07-28")])
def test_metier_mcp_is_a_server_that_a_client_starts(desk: Desk, mode: str, version: str) -> None:
    async def main() -> None:
        async with desk.client("process", mode) as client:
            assert client.protocol_version == version
            assert client.server_info is not None and client.server_info.name == "metier"
            assert "tea" in (client.instructions or "")
            done = await client.call_tool("tea__count", {"text": "one"})
            assert done.structured_content == {"words": 1}

    anyio.run(main)
    [ran] = [each for each in desk.records() if each.event == "skill_executed"]
    assert ran.principal == "agent:mcp", "nobody said another name"


@every
def test_what_needs_a_word_waits_and_the_client_is_told_how_to_decide_it(
    desk: Desk, way: str, mode: str
) -> None:
    person = Person()

    async def main() -> Any:
        async with desk.client(way, mode, elicitation_callback=person) as client:
            return await client.call_tool("tea__pour", {"text": "green"})

    result = anyio.run(main)
    [pending] = desk.waiting()
    assert result.is_error and pending.state == "pending" and pending.principal == AGENT
    said = text_of(result)
    assert (
        '"error":"pending_approval"' in said
        and f"metier approvals show {pending.id}" in said
        and "approvals approve" not in said
    )
    assert (f"/approvals/{pending.id}" in said) == (way == "http")
    assert person.asked == [], "an answer over this connection would approve nothing, so it is not asked for"


def decided_elsewhere(desk: Desk, way: str, mode: str, *word: str) -> Any:
    """What a call that waits is answered with once somebody decided at another door."""
    desk.configured("[mcp]\nwait_seconds = 20\n")
    result: list[Any] = []

    async def main() -> None:
        async with desk.client(way, mode) as client, anyio.create_task_group() as tasks:

            async def call() -> None:
                result.append(await client.call_tool("tea__pour", {"text": "green"}))

            tasks.start_soon(call)
            with anyio.fail_after(20):
                while not desk.waiting():
                    await anyio.sleep(0.05)
                desk.decide(desk.waiting()[0].id, *word)

    anyio.run(main)
    return result[0]


@every
def test_a_word_given_elsewhere_lets_the_waiting_call_go_on(desk: Desk, way: str, mode: str) -> None:
    result = decided_elsewhere(desk, way, mode)
    assert text_of(result) == "poured green" and not result.is_error
    assert [each.state for each in desk.waiting()] == ["spent"]


@every
def test_a_denial_given_elsewhere_is_told_with_its_word(desk: Desk, way: str, mode: str) -> None:
    result = decided_elsewhere(desk, way, mode, "deny", "not today")
    assert result.is_error and "not today" in text_of(result)
    assert '"error":"approval_denied"' in text_of(result)


@every
def test_a_person_is_asked_to_confirm_and_a_models_own_word_is_not_enough(
    desk: Desk, way: str, mode: str
) -> None:
    person = Person()

    async def main() -> Any:
        async with desk.client(way, mode, elicitation_callback=person) as client:
            return await client.call_tool("tea__brew", {"text": "oolong", "confirmed": True})

    result = anyio.run(main)
    assert text_of(result) == "brewed oolong"
    [asked] = person.asked
    assert "tea/brew" in asked and '"oolong"' in asked and '(its own words): "Brew it now?"' in asked


@every
def test_who_does_not_say_yes_has_not_confirmed(desk: Desk, way: str, mode: str) -> None:
    person = Person()

    async def main() -> None:
        async with desk.client(way, mode, elicitation_callback=person) as client:
            for given, error in (
                (Person("decline"), "forbidden"),
                (Person("cancel"), "confirmation_required"),
                (Person(go_ahead=False), "forbidden"),
                (Person(go_ahead="true"), "forbidden"),
            ):
                person.answer = given.answer
                asked = len(person.asked)
                result = await client.call_tool("tea__brew", {"text": "oolong", "confirmed": True})
                assert result.is_error and f'"error":"{error}"' in text_of(result)
                assert len(person.asked) > asked

    anyio.run(main)
    assert not [each for each in desk.records() if each.event == "skill_executed"]
