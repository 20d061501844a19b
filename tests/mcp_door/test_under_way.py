"""Calls that take long: who waits hears that they go on, and who cancels ends them, down to the sandbox."""

from typing import Any

import anyio
import anyio.to_thread
import pytest
from mcp.shared.exceptions import MCPError

from mcp_desk import EVERY, WAYS, Desk
from metier.record.calls import calls_under_way

every = pytest.mark.parametrize(("way", "mode"), EVERY)


async def until(true: Any, seconds: float = 20.0) -> None:
    with anyio.fail_after(seconds):
        while not true():
            await anyio.sleep(0.05)


def begun(desk: Desk) -> int:
    with desk.database() as database:
        return len(calls_under_way(database))


@every
def test_a_call_that_is_cancelled_ends_in_its_sandbox_and_on_the_record(
    desk: Desk, way: str, mode: str
) -> None:
    async def main() -> None:
        async with desk.client(way, mode) as client:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.call_tool, "tea__slow", {})
                await until(lambda: begun(desk) == 1)
                await anyio.sleep(0.3)
                tasks.cancel_scope.cancel()
            await until(lambda: begun(desk) == 0)
            done = await client.call_tool("tea__count", {"text": "one"})
            assert done.structured_content == {"words": 1}, "the connection goes on"

    anyio.run(main)
    [ended] = [each for each in desk.records() if each.event == "skill_execution_error"]
    assert (ended.tool, ended.code) == ("tea/slow", "interrupted")


def test_a_client_that_goes_away_leaves_nothing_running(desk: Desk) -> None:
    async def main() -> None:
        async with desk.lines() as (out, back):
            hello = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
            hello += b'"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}\n'
            out.write(hello)
            await anyio.to_thread.run_sync(back.readline)
            out.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
            out.write(b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"tea__slow"}}\n')
            await until(lambda: begun(desk) == 1)
            out.close()

    anyio.run(main)
    assert begun(desk) == 0
    assert [each.code for each in desk.records() if each.event == "skill_execution_error"] == ["interrupted"]


@every
def test_who_wants_to_hear_it_is_told_every_second_that_it_goes_on(desk: Desk, way: str, mode: str) -> None:
    heard: list[float] = []

    async def progress(now: float, total: float | None, message: str | None) -> None:
        heard.append(now)

    async def main() -> None:
        async with desk.client(way, mode) as client, anyio.create_task_group() as tasks:

            async def call() -> None:
                await client.call_tool("tea__slow", {}, progress_callback=progress)

            tasks.start_soon(call)
            await until(lambda: len(heard) >= 2)
            tasks.cancel_scope.cancel()

    anyio.run(main)
    assert heard[:2] == [1.0, 2.0]


@pytest.mark.parametrize("way", WAYS)
def test_one_principal_has_so_many_calls_under_way_and_no_more(desk: Desk, way: str) -> None:
    desk.patch.setattr("metier.doors.mcp.calls._MOST_AT_ONCE", 1)

    async def main() -> None:
        async with desk.client(way, "2026-07-28") as client, anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "tea__slow", {})
            await until(lambda: begun(desk) == 1)
            with pytest.raises(MCPError, match="under way"):
                await client.call_tool("tea__count", {})
            tasks.cancel_scope.cancel()

    anyio.run(main)


@every
def test_calls_that_were_cancelled_are_under_way_no_more(desk: Desk, way: str, mode: str) -> None:
    """Nobody answers them, so whoever counts answers would think that they still run."""
    desk.patch.setattr("metier.doors.mcp.lines.MOST_AT_ONCE", 2)
    desk.patch.setattr("metier.doors.mcp.http.MOST_REQUESTS", 3)
    desk.patch.setattr("metier.doors.mcp.calls._MOST_AT_ONCE", 2)

    async def main() -> None:
        async with desk.client(way, mode) as client:
            for _ in range(4):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(client.call_tool, "tea__slow", {})
                    await until(lambda: begun(desk) == 1)
                    tasks.cancel_scope.cancel()
                await until(lambda: begun(desk) == 0)
            done = await client.call_tool("tea__count", {"text": "one"})
            assert done.structured_content == {"words": 1}

    anyio.run(main)
