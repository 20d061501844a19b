"""What stands between a client's bytes and the SDK, each guard by itself: messages, lines, and what is waited for in threads."""

import json
import os
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse

from metier.doors.mcp import lines as module
from metier.doors.mcp.aside import aside
from metier.doors.mcp.lines import line_streams
from metier.doors.mcp.messages import BUSY, INVALID_REQUEST, MOST_TO_LISTEN, Bad, UnderWay, is_request, read

PING: dict[str, Any] = {"jsonrpc": "2.0", "id": "p", "method": "ping"}


def line(message: Any) -> bytes:
    return (message if isinstance(message, bytes) else json.dumps(message).encode()) + b"\n"


def bad(message: Any) -> Bad:
    found = read(line(message))
    assert isinstance(found, Bad), found
    return found


# --- one message


def test_who_sends_several_at_once_is_told_to_send_them_one_by_one() -> None:
    assert "one by one" in bad([PING, PING]).why


@pytest.mark.parametrize("answer", [3, "x", [1], None])
@pytest.mark.parametrize("name", ["result", "error"])
def test_an_answer_that_is_no_object_is_none(name: str, answer: Any) -> None:
    found = bad({"jsonrpc": "2.0", "id": 7, name: answer})
    assert (found.code, found.id) == (INVALID_REQUEST, 7)
    assert not isinstance(read(line({"jsonrpc": "2.0", "id": 7, name: {}})), Bad), "control"


@pytest.mark.parametrize("name", ["result", "error"])
def test_what_asks_and_answers_at_once_does_neither(name: str) -> None:
    assert "at once" in bad({**PING, name: {}}).why


def test_an_answer_without_an_id_answers_nothing() -> None:
    assert bad({"jsonrpc": "2.0", "result": {}}).id is None


@pytest.mark.parametrize("more", [{"method": 3}, {"params": [1]}, {"result": {}}], ids=str)
def test_whoever_gave_an_id_is_answered_under_it(more: dict[str, Any]) -> None:
    assert bad({**PING, **more}).id == "p"


def test_only_a_request_to_listen_has_to_be_small() -> None:
    long = {"_meta": {"x": "x" * MOST_TO_LISTEN}}
    assert not isinstance(read(line({**PING, "params": long})), Bad)
    assert isinstance(read(line({**PING, "method": "subscriptions/listen", "params": long})), Bad)


def test_an_answer_and_a_notice_are_owed_no_answer() -> None:
    assert is_request(PING)
    assert not is_request({"jsonrpc": "2.0", "id": 1, "result": {}})
    assert not is_request({"jsonrpc": "2.0", "method": "notifications/initialized"})


def test_web_19_as_many_are_under_way_as_may_be_and_the_next_is_told_to_come_again() -> None:
    under_way = UnderWay(2)
    assert under_way.empty
    assert [under_way.begin({**PING, "id": id}) for id in (1, 2)] == [None, None]
    busy = under_way.begin({**PING, "id": 3})
    assert busy is not None
    assert (busy.code, busy.id) == (BUSY, 3)
    under_way.end(1)
    assert under_way.begin({**PING, "id": 3}) is None
    assert not under_way.empty


# --- lines


class Ends:
    """Both ends of a connection over lines, the client's as bytes and the server's as the SDK has it."""

    def __init__(self, taken: Any, answers: Any, out: Any, back: Any) -> None:
        self.taken, self.answers, self.out, self.back = taken, answers, out, back

    async def sends(self, *messages: Any) -> None:
        await anyio.to_thread.run_sync(self.out.write, b"".join(map(line, messages)))

    async def gets(self) -> Any:
        with anyio.fail_after(10):
            return json.loads(await anyio.to_thread.run_sync(self.back.readline))

    async def comes(self) -> Any:
        """The next message that reached the server."""
        with anyio.fail_after(10):
            return (await self.taken.receive()).message

    async def answers_to(self, id: Any) -> None:
        await self.answers.send(SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=id, result={})))


@asynccontextmanager
async def connected() -> AsyncGenerator[Ends]:
    to_server, from_client = os.pipe()
    to_client, from_server = os.pipe()
    source, sink = os.fdopen(to_server, "rb", 0), os.fdopen(from_server, "wb")
    out, back = os.fdopen(from_client, "wb", 0), os.fdopen(to_client, "rb")
    try:
        async with line_streams(source, sink) as (taken, answers):
            yield Ends(taken, answers, out, back)
            out.close()
            with anyio.fail_after(10):  # else a thread that still reads would meet the files of the next test
                async for _ in taken:
                    pass
            await taken.aclose()
            await answers.aclose()
    finally:
        for file in (out, source, sink, back):
            file.close()


def over_lines(act: Callable[[Ends], Any]) -> None:
    async def main() -> None:
        async with connected() as ends:
            await act(ends)

    anyio.run(main)


def test_an_id_that_was_answered_may_be_used_again() -> None:
    async def act(ends: Ends) -> None:
        for _ in range(2):
            await ends.sends(PING)
            assert (await ends.comes()).id == "p"
            await ends.answers_to("p")
            assert (await ends.gets())["id"] == "p"

    over_lines(act)


def test_an_answer_of_the_client_takes_no_place_among_the_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_AT_ONCE", 1)

    async def act(ends: Ends) -> None:
        await ends.sends(
            {"jsonrpc": "2.0", "id": 1, "result": {}}, {"jsonrpc": "2.0", "id": 2, "result": {}}, PING
        )
        assert [(await ends.comes()).id for _ in range(3)] == [1, 2, "p"]

    over_lines(act)


def test_web_19_over_one_connection_only_so_many_are_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_AT_ONCE", 2)

    async def act(ends: Ends) -> None:
        await ends.sends(*({**PING, "id": id} for id in (1, 2)))
        assert [(await ends.comes()).id for _ in range(2)] == [1, 2]
        await ends.sends({**PING, "id": 3})
        busy = await ends.gets()
        assert (busy["id"], busy["error"]["code"]) == (3, BUSY)
        await ends.answers_to(1)
        await ends.gets()
        await ends.sends({**PING, "id": 3})
        assert (await ends.comes()).id == 3

    over_lines(act)


def test_web_19_a_line_that_is_too_long_is_so_in_one_piece_too_and_the_next_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 1_000)

    async def act(ends: Ends) -> None:
        await ends.sends({**PING, "params": {"x": "x" * 1_500}}, b"", b"   ", PING)
        assert "1,000" in (await ends.gets())["error"]["message"]
        assert (await ends.comes()).id == "p", "empty lines are nothing"

    over_lines(act)


def test_web_19_bad_lines_are_counted_in_a_row_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_BAD", 3)

    async def act(ends: Ends) -> None:
        for round in range(4):
            await ends.sends(b"x", b"y", {**PING, "id": round})
            await ends.gets()
            await ends.gets()
            assert (await ends.comes()).id == round
        await ends.sends(b"x", b"y", b"z")
        for _ in range(3):
            await ends.gets()
        with anyio.fail_after(10), pytest.raises(anyio.EndOfStream):
            await ends.taken.receive()

    over_lines(act)


def test_what_the_sdk_would_not_take_is_answered_and_goes_no_further() -> None:
    async def act(ends: Ends) -> None:
        await ends.sends({"jsonrpc": "2.0", "id": 1, "error": {"code": "x"}}, PING)
        assert (await ends.gets())["error"]["code"] == INVALID_REQUEST
        assert (await ends.comes()).id == "p"

    over_lines(act)


def test_what_was_said_is_written_whole_however_little_is_taken_at_once() -> None:
    class Small:
        def __init__(self) -> None:
            self.got, self.flushed = bytearray(), 0

        def write(self, data: memoryview, /) -> int:
            self.got += data[:3]
            return min(3, len(data))

        def flush(self) -> None:
            self.flushed += 1

    sink = Small()
    module._write(sink, b"0123456789\n")
    assert (bytes(sink.got), sink.flushed) == (b"0123456789\n", 1)


# --- what is waited for in threads


def test_what_fails_aside_fails_here() -> None:
    def gone() -> None:
        raise BrokenPipeError("nobody reads")

    def closed() -> None:
        raise ValueError("I/O operation on closed file")

    with pytest.raises(BrokenPipeError, match="nobody reads"):
        anyio.run(aside, gone)
    with pytest.raises(OSError, match="the file was closed"):
        anyio.run(aside, closed)


def test_who_goes_away_does_not_wait_for_what_never_comes() -> None:
    held = threading.Event()

    async def main() -> bool:
        with anyio.move_on_after(0.1) as over:
            await aside(held.wait, 20.0)
        return over.cancelled_caught

    began = time.monotonic()
    try:
        assert anyio.run(main)
        assert time.monotonic() - began < 5
    finally:
        held.set()
