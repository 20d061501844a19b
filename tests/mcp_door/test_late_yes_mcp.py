"""A yes that came late, over MCP: a model that calls again is given what ran where it was approved, and nobody is asked twice."""

from pathlib import Path

import anyio
import pytest

from mcp_desk import EVERY, Desk, text_of
from metier.model.outcome import Completed
from metier.runtime.resume import resume


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(tmp_path, monkeypatch)


@pytest.mark.parametrize(("way", "mode"), EVERY)
def test_a_model_that_calls_again_is_given_what_ran_at_the_terminal(desk: Desk, way: str, mode: str) -> None:
    async def main() -> None:
        async with desk.client(way, mode) as client:
            first = await client.call_tool("tea__pour", {"text": "green"})
            assert first.is_error
            [waiting] = desk.waiting()
            desk.decide(waiting.id)
            ended = await resume(desk.machine.settings(), waiting.id)
            assert isinstance(ended, Completed), ended
            again = await client.call_tool("tea__pour", {"text": "green"})
            assert not again.is_error, text_of(again)
            said = text_of(again)
            assert "poured green" in said
            assert "This did not run now" in said and ended.call_id in said
            other = await client.call_tool("tea__pour", {"text": "black"})
            assert other.is_error
            third = await client.call_tool("tea__pour", {"text": "green"})
            assert third.is_error, "it was given once"

    anyio.run(main)
    assert sorted(each.state for each in desk.waiting()) == ["pending", "pending", "spent"]
    events = [each.event for each in desk.records()]
    assert (events.count("skill_executed"), events.count("outcome_given")) == (1, 1)
