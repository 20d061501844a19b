"""Whatever a server sends, reading it ends with a value."""

import json
import os
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.dialects.manifest import read_manifest
from metier.dialects.mcp_server import read as with_tools
from metier.model.job import Job
from metier.model.permission import PermissionSet
from metier.model.skill import Limits
from metier.sandbox import mcp_message, mcp_pipe
from metier.sandbox.mcp_content import report_of
from metier.sandbox.mcp_message import Answered, Asks, Erred, Tells, Unknown, Unusable
from metier.sandbox.mcp_pipe import PipePeer

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=15,
)
MESSAGES = st.fixed_dictionaries(
    {"jsonrpc": st.sampled_from(["2.0", "1.0", 2])},
    optional={"id": JSON, "method": JSON, "params": JSON, "result": JSON, "error": JSON},
)
BLOCKS = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "image", "audio", "resource", "resource_link", "odd"])},
    optional={"text": JSON, "data": JSON, "mimeType": JSON, "uri": JSON, "resource": JSON, "name": JSON},
)
TOOLS = st.fixed_dictionaries(
    {"name": st.text(max_size=10) | JSON},
    optional={"description": JSON, "inputSchema": JSON | st.just({"type": "object"}), "outputSchema": JSON, "annotations": JSON},
)  # fmt: skip
FILE = b'{"command": "serve"}'
WAITING = read_manifest(FILE, folder="odd", manifest="mcp_server.json")


@given(st.binary(max_size=200) | MESSAGES.map(lambda value: json.dumps(value).encode()))
def test_every_line_is_a_message_or_said_to_be_none(line: bytes) -> None:
    assert isinstance(mcp_message.read(line), Answered | Erred | Asks | Tells | Unusable | Unknown)


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc": "2.0", "id": 7, "result": {"n": 18446744073709551615}}',
        b'{"jsonrpc": "2.0", "id": 7, "result": {"n": ' + b"9" * 5_000 + b"}}",
        b'{"jsonrpc": "2.0", "id": 7, "result": {"n": NaN}}',
        b'{"jsonrpc": "2.0", "id": 7, "result": {"n": "\xff"}}',
        b'{"jsonrpc": "2.0", "id": 7, "result": {"n": [' + b"0," * 600_000 + b"0]}}",
        b'{"jsonrpc": "2.0", "id": 7, "result": []}',
        b'{"jsonrpc": "2.0", "id": 7, "error": "no"}',
        b'{"jsonrpc": "2.0", "id": 7}',
    ],
)
def test_an_answer_that_is_not_believed_is_still_known_as_the_answer(line: bytes) -> None:
    found = mcp_message.read(line)
    assert isinstance(found, Unusable)
    assert found.id == 7
    assert len(found.why) <= 300


@pytest.mark.parametrize(
    "line",
    [
        b"Starting up: 7",
        b'{"id": 7, "took": NaN}',
        b'{"jsonrpc": "2.0", "id": 7, "method": "ping", "params": {"n": NaN}}',
        b'{"jsonrpc": "2.0", "id": 18446744073709551615, "result": {}}x',
        b'{"jsonrpc": "2.0", "id": true, "result": NaN}',
        b'{"jsonrpc": "2.0", "id": 7, "method": "x", "params": [' + b"0," * 600_000 + b"0]}",
        b"[" * 100_000,
    ],
)
def test_what_is_no_answer_of_anybody_fails_no_call(line: bytes) -> None:
    assert isinstance(mcp_message.read(line), Unknown)


@given(st.fixed_dictionaries({}, optional={"content": st.lists(BLOCKS | JSON, max_size=3) | JSON, "structuredContent": JSON, "isError": JSON, "resultType": JSON}))  # fmt: skip
def test_every_result_is_a_report(result: dict[str, Any]) -> None:
    from metier.model.entry import RemoteTool

    job = Job(
        call_id="call_x",
        entry=RemoteTool(server="s", tool="t"),
        arguments={},
        permissions=PermissionSet(),
        limits=Limits(),
        needs=frozenset(),
    )
    assert report_of(result, job).ending in ("returned", "raised", "bad_result")


@given(st.lists(TOOLS | JSON, max_size=4), st.lists(TOOLS, max_size=2))
def test_every_listing_gives_the_tools_that_can_be_called_and_no_other(
    tools: list[Any], newer: list[Any]
) -> None:
    listing = {"tools": [each for each in tools if _fits(each)]}
    found = with_tools(WAITING, FILE, listing, {"tools": [each for each in newer if _fits(each)]})
    assert found.skill is not None
    for tool in found.skill.tools:
        assert tool.parameters["type"] == "object"


def _fits(value: Any) -> bool:
    """What comes over the wire was read strictly before."""
    from metier.model import strictjson

    try:
        strictjson.check(value)
    except ValueError:
        return False
    return True


def test_who_talks_unasked_is_read_seldom_and_who_is_asked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read = list[bytes]()

    async def slowly(line: bytes) -> mcp_message.Message:
        read.append(line)
        await anyio.sleep(0.2)
        return mcp_message.read(line)

    async def main() -> None:
        (reads, talks), (hears, writes) = os.pipe(), os.pipe()
        peer = PipePeer(reads, writes, lambda: None)

        async def say(line: bytes) -> None:
            os.write(talks, line + b"\n")
            await anyio.sleep(0.02)  # each is a piece of its own

        try:
            with anyio.fail_after(10):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(peer.run)
                    for number in range(4):
                        await say(mcp_message.notice("notifications/message", {"n": number}))
                    await anyio.sleep(0.8)
                    assert len(read) <= 2, "resting after the first"
                    answer = b'{"jsonrpc":"2.0","id":1,"result":{"a":1}}'
                    tasks.start_soon(say, answer)
                    began = anyio.current_time()
                    assert await peer.ask("x", {}, 5.0) == {"a": 1}
                    assert anyio.current_time() - began < 3, "nobody rests while something is asked"
                    peer.stop("over")
        finally:
            for each in (reads, talks, hears):
                os.close(each)

    monkeypatch.setattr(mcp_message, "read_aside", slowly)
    monkeypatch.setattr(mcp_pipe, "_UNASKED_REST", 40.0)  # five seconds, that is
    anyio.run(main)
