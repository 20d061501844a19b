"""A call of an MCP server ends when its time is over, whatever the server was asked before it, and at once where its answer is no use."""

from pathlib import Path

import anyio
import pytest

from mcp_kit import Bench, on_a_bench
from metier.model.job import Report
from metier.model.skill import Limits

pytestmark = pytest.mark.timeout(60)
BRIEF = Limits(timeout=1.0)
LONG = Limits(timeout=40.0)


def test_a_server_that_does_not_tell_its_changed_tools_holds_a_call_no_longer_than_its_time(
    tmp_path: Path,
) -> None:
    async def act(bench: Bench) -> None:
        await bench.look()
        assert (await bench.call("stall")).value == "said so"
        with anyio.fail_after(20):
            assert (await bench.call("echo", arguments={"text": "x"}, limits=BRIEF)).ending == "timed_out"
        # It is not believed until it told them, and is when it has.
        assert (await bench.call("echo", arguments={"text": "again"})).value == "again"

    on_a_bench(tmp_path, act)


def test_pages_without_end_are_one_question_with_one_time(tmp_path: Path) -> None:
    async def act(bench: Bench) -> None:
        await bench.look()
        await bench.call("endless")
        report = await bench.call("echo", arguments={"text": "x"}, limits=BRIEF)
        assert report.ending == "timed_out"

    on_a_bench(tmp_path, act)


def test_inj_06_no_tool_is_called_while_the_server_is_asked_what_it_is_now(tmp_path: Path) -> None:
    async def act(bench: Bench) -> None:
        await bench.look()
        assert (await bench.call("change_slowly")).value == "changed"
        reports: list[Report] = []

        async def echo() -> None:
            reports.append(await bench.call("echo", arguments={"text": "x"}))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(echo)
            await anyio.sleep(0.3)
            tasks.start_soon(echo)
        assert [each.ending for each in reports] == ["not_started"] * 2
        assert all("held back" in str(each.fault) for each in reports)

    on_a_bench(tmp_path, act)


def test_inj_06_who_gives_up_while_the_server_is_asked_leaves_the_question_to_the_next(
    tmp_path: Path,
) -> None:
    async def act(bench: Bench) -> None:
        await bench.look()
        await bench.call("change_slowly")
        with anyio.move_on_after(0.3) as given_up:
            await bench.call("echo", arguments={"text": "x"})
        assert given_up.cancelled_caught
        report = await bench.call("echo", arguments={"text": "x"})
        assert "held back" in str(report.fault)

    on_a_bench(tmp_path, act)


@pytest.mark.parametrize(
    ("result", "says"),
    [
        ('{"content": [], "structuredContent": {"t": 1763315000000000000}}', "beyond"),
        ('{"content": [], "structuredContent": {"t": NaN}}', "NaN"),
        ('{"content": [], "content": []}', "twice"),
        ('{"content": ' + "[" * 40 + "]" * 40 + "}", "levels"),
        ('{"content": "\\ud800"}', "surrogate"),
        ("7", "no object"),
    ],
)
def test_an_answer_that_cannot_be_used_fails_its_call_at_once_and_says_why(
    result: str, says: str, tmp_path: Path
) -> None:
    async def act(bench: Bench) -> None:
        await bench.look()
        with anyio.fail_after(20):
            report = await bench.call("raw", arguments={"text": result}, limits=LONG)
        assert report.ending == "no_result"
        assert "cannot be used" in str(report.fault)
        assert says in str(report.fault)
        # The control: the server lives, and an answer of the same kind that can be used is.
        fine = await bench.call(
            "raw", arguments={"text": '{"content": [], "structuredContent": {"t": 1763315000}}'}
        )
        assert fine.value == {"t": 1763315000}

    on_a_bench(tmp_path, act)


def test_a_list_of_tools_that_cannot_be_used_is_said_to_be_without_waiting(tmp_path: Path) -> None:
    async def act(bench: Bench) -> None:
        with anyio.fail_after(20):
            report = await bench.look("wide_numbers")
        assert report.ending == "not_started"
        assert "18446744073709551615 is beyond" in str(report.fault)

    on_a_bench(tmp_path, act)


def test_node_is_told_to_take_the_way_out_that_a_server_with_hosts_has(tmp_path: Path) -> None:
    async def act(bench: Bench) -> None:
        import json

        await bench.look()
        alone = json.loads(str((await bench.call("look")).value))["environ"]
        may = {"hosts": frozenset({"http://api.example.com"})}
        await bench.look(may=dict(may))
        found = json.loads(str((await bench.call("look", may=dict(may))).value))["environ"]
        assert (found["NODE_USE_ENV_PROXY"], found["HTTPS_PROXY"].partition(":")[0]) == ("1", "http")
        assert "NODE_USE_ENV_PROXY" not in alone

    on_a_bench(tmp_path, act)
