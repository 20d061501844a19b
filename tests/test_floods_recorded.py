"""One caller, or one skill, that floods: it is slowed down, and what became of each of its doings is on the record."""

import json
import os
from collections import Counter
from pathlib import Path

import anyio
import pytest

from gatehouse import OWNER
from machine import Machine
from metier.host import bridge
from metier.host.bridge import BURST
from metier.host.call_log import read_log
from metier.model.call import Call, Principal
from metier.model.entry import PythonHandler
from metier.model.outcome import Completed, Outcome, Refused
from metier.pipeline import run
from metier.runtime.own import OwnRun, run_own
from parlour import AGENT, Parlour, tool

ASKED = BURST + 300
FLOOD = f"""
async def main(params, context):
    ends = {{}}
    for number in range({ASKED}):
        try:
            await context.log("info", str(number))
            end = "answered"
        except Exception as error:
            end = error.name
        ends[end] = ends.get(end, 0) + 1
    return ends
"""


def test_res_23_of_a_flood_of_lines_each_is_in_the_log_or_counted_as_refused_on_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(Path(os.path.realpath(tmp_path)))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(bridge, "PER_SECOND", 1)  # a busy machine asks slowly, and would not be slowed down
    wanted = OwnRun(name="main.py", data=FLOOD.encode(), entry=PythonHandler(path="main.py"))
    outcome = anyio.run(run_own, machine.settings(), wanted)
    assert isinstance(outcome, Completed), outcome
    ends = outcome.value
    assert isinstance(ends, dict)
    assert set(ends) == {"answered", "Busy"}  # it was slowed down, or this shows nothing
    assert ends["answered"] + ends["Busy"] == ASKED
    log = read_log(str(machine.state), outcome.call_id)
    assert log is not None
    assert len(log.lines) == ends["answered"]
    shown = machine.metier("audit", "tail", "--call", outcome.call_id, "--json").stdout
    kept = json.loads(shown.splitlines()[-1])["kept"]["run"]["requests"]
    assert {each["answer"]: each["count"] for each in kept} == ends
    assert {each["method"] for each in kept} == {"log"}


def test_res_23_no_call_of_a_flood_by_one_caller_is_missing_from_the_record(tmp_path: Path) -> None:
    parlour = Parlour(tmp_path, tool())
    somebody = Principal(id=AGENT, kind="agent", on_behalf_of=OWNER)
    house = parlour.house
    outcomes: list[Outcome] = []

    async def one(number: int) -> None:
        name = "send" if number % 2 else "nothing"
        call = Call(
            id=f"call_{number}", principal=somebody, tool=name, arguments={"to": "ada", "text": "tea?"}
        )
        outcomes.append(await run(call, house))

    async def flood() -> None:
        async with anyio.create_task_group() as tasks:
            for number in range(200):
                tasks.start_soon(one, number)

    anyio.run(flood)
    assert Counter(type(each) for each in outcomes) == {Completed: 100, Refused: 100}
    lines = parlour.lines()
    assert {line["callId"] for line in lines} == {each.call_id for each in outcomes}
    last = {line["callId"]: line["event"] for line in lines}
    by_end = {
        kind: {last[each.call_id] for each in outcomes if isinstance(each, kind)}
        for kind in (Completed, Refused)
    }
    assert all(len(events) == 1 for events in by_end.values())  # each has its end, and no two alike
    assert by_end[Completed].isdisjoint(by_end[Refused])
    assert len(parlour.ran) == 100
