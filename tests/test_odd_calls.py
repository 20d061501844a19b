"""Calls that a careless or hostile program hands over end like any other: with a reason, on the record, and nobody waits for them."""

import json
import math
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from machine import Machine, write_skill
from metier import Completed, Refused, Runtime
from metier.runtime.asked import MOST_CALLS


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.delenv("METIER_HOME", raising=False)
    write_skill(made.skills / "tea")
    return made


def events(machine: Machine) -> list[tuple[str, str]]:
    lines = [json.loads(line) for line in machine.metier("audit", "export").stdout.splitlines()]
    return [(each["callId"], each["event"]) for each in lines if each.get("callId")]


class Named:
    def __repr__(self) -> str:
        return "read_skill"


@pytest.mark.parametrize(
    "tool", [None, 1, [], {}, b"read_skill", math.nan, ("read_skill",), Named()], ids=repr
)
def test_a_name_that_is_no_text_names_no_tool(machine: Machine, tool: Any) -> None:
    async def main() -> Any:
        async with Runtime.open(project=str(machine.project), watch=False) as runtime:
            return await runtime.call(tool, {"name": "tea"})

    outcome = anyio.run(main)
    assert isinstance(outcome, Refused)
    assert outcome.code == "unknown_tool"
    assert type(tool).__name__ in outcome.reasons[0]
    assert "read_skill" in outcome.remedy
    assert events(machine) == [(outcome.call_id, "skill_execution_blocked")]


@pytest.mark.parametrize("given", [None, 1, [], b"apr_x", "", "apr_\ud800", "x" * 100_000], ids=ascii)
def test_what_is_no_id_of_an_approval_resumes_nothing(machine: Machine, given: Any) -> None:
    async def main() -> Any:
        async with Runtime.open(project=str(machine.project), watch=False) as runtime:
            return await runtime.resume(given)

    outcome = anyio.run(main)
    assert isinstance(outcome, Refused)
    assert outcome.code == "approval_void"


def calls(many: int, tool: str = "read_skill") -> list[dict[str, Any]]:
    return [
        {"type": "tool_use", "id": f"c{number}", "name": tool, "input": {"name": "tea"}}
        for number in range(many)
    ]


@pytest.mark.slow
def test_of_one_message_so_many_calls_run_and_each_other_is_refused_with_the_reason(machine: Machine) -> None:
    many = MOST_CALLS + 12

    async def main() -> Any:
        async with Runtime.open(project=str(machine.project), watch=False) as runtime:
            assert isinstance(await runtime.call("read_skill", {"name": "tea"}), Completed)
            return await runtime.handle(calls(many))

    [message] = anyio.run(main)
    blocks = message["content"]
    assert [each["tool_use_id"] for each in blocks] == [f"c{number}" for number in range(many)]
    assert [each["is_error"] for each in blocks] == [False] * MOST_CALLS + [True] * 12
    said = json.loads(blocks[MOST_CALLS]["content"])
    assert said["error"] == "not_runnable"
    assert "number 129" in said["message"]
    assert "next message" in said["remedy"]
    blocked = [call for call, event in events(machine) if event == "skill_execution_blocked"]
    assert len(set(blocked)) == 12


class Watched(list[int]):
    """Notes each time that somebody looks at what it holds."""

    looks = 0

    def __iter__(self) -> Any:
        Watched.looks += 1
        return super().__iter__()


def test_between_the_calls_of_one_message_others_have_their_turn(machine: Machine) -> None:
    most = 0

    async def somebody_else() -> None:
        nonlocal most
        while True:
            before = Watched.looks
            await anyio.lowlevel.checkpoint()
            most = max(most, Watched.looks - before)

    async def main() -> None:
        # Long enough to be recorded in a thread, so that no writing comes between them.
        asked = [{**each, "input": {"name": Watched(), "path": "x" * 20_000}} for each in calls(MOST_CALLS)]
        async with Runtime.open(project=str(machine.project), watch=False) as runtime:
            await runtime.handle(calls(1))
            await runtime.handle(calls(1))  # nothing is new to it any more
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(somebody_else)
                await runtime.handle(asked)
                tasks.cancel_scope.cancel()

    anyio.run(main)
    assert Watched.looks >= MOST_CALLS
    assert most < 64
