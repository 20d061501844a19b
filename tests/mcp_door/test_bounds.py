"""WEB-19: what a client may send, and what becomes of the rest. Everything is answered, and nothing is left running."""

import json
import threading
import time
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp.shared.dispatcher import coerce_request_id
from mcp_types import jsonrpc_message_adapter

from mcp_desk import Desk, until_answered
from metier.doors.mcp import lines as module
from metier.doors.mcp.messages import MOST_VALUES, Bad, UnderWay, read

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "c", "version": "1"},
    },
}
PING = {"jsonrpc": "2.0", "id": "p", "method": "ping"}
BAD: list[tuple[Any, int]] = [
    (b"garbage", -32700),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping"', -32700),
    (b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}', -32700),
    (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', -32700),
    (b"[" * 100_000, -32700),
    (b'"\xff"', -32700),
    ([PING] * 10_000, -32600),
    (3, -32600),
    ({"id": 1, "method": "ping"}, -32600),
    ({**PING, "id": None}, -32600),
    ({**PING, "id": True}, -32600),
    ({**PING, "id": 1.5}, -32600),
    ({**PING, "id": {}}, -32600),
    ({**PING, "id": ""}, -32600),
    ({**PING, "id": "x" * 129}, -32600),
    ({**PING, "method": 3}, -32600),
    ({**PING, "method": "a b"}, -32600),
    ({**PING, "params": [1]}, -32600),
    ({**PING, "result": {}}, -32600),
    ({"jsonrpc": "2.0", "id": 1, "result": {}, "error": {}}, -32600),
    ({"jsonrpc": "2.0"}, -32600),
    ({**PING, "method": "tools/call", "params": {"arguments": {"a": [0] * 66_000}}}, -32700),
    (
        {
            **PING,
            "method": "subscriptions/listen",
            "params": {
                "notifications": {"resourceSubscriptions": [f"skill://{each}" for each in range(2_000)]}
            },
        },
        -32600,
    ),
]


def line(message: Any) -> bytes:
    return (message if isinstance(message, bytes) else json.dumps(message).encode()) + b"\n"


@pytest.mark.parametrize(("message", "code"), BAD, ids=range(len(BAD)))
def test_web_19_what_is_no_message_is_answered_with_an_error(message: Any, code: int) -> None:
    found = read(line(message))
    assert isinstance(found, Bad) and found.code == code
    json.loads(json.dumps(found.answer))


@settings(max_examples=300, deadline=None)
@given(
    st.binary(max_size=300)
    | st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists).map(line)
)
def test_web_19_no_bytes_break_the_reader(raw: bytes) -> None:
    assert isinstance(read(raw), Bad | dict)


def test_the_first_message_of_a_session_is_small_because_it_is_kept_for_as_long_as_that_lasts() -> None:
    assert not isinstance(read(line(HELLO)), Bad)
    many = {"x": {f"{each:x}": 0 for each in range(8_000)}}
    much = read(line({**HELLO, "params": {**HELLO["params"], "capabilities": {"experimental": many}}}))
    assert isinstance(much, Bad) and "65,536" in much.why and much.id == 1


def test_web_19_no_message_that_is_taken_holds_the_loop_for_long_when_it_is_read_once_more() -> None:
    """The SDK reads it again, on the loop: numbers with a fraction take it longest."""
    start = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"n","arguments":{"a":['
    worst = start + b"1.5e300," * (MOST_VALUES - 20) + b"0]}}}"
    assert not isinstance(read(worst), Bad)
    spent = 1.0
    for _ in range(3):
        before = time.thread_time()
        jsonrpc_message_adapter.validate_python(json.loads(worst), by_name=False)
        spent = min(spent, time.thread_time() - before)
    assert spent < 0.08, "some 20 ms where this was written"
    assert isinstance(read(start + b"1.5e300," * (MOST_VALUES + 20) + b"0]}}}"), Bad)


def test_a_request_to_listen_is_small_because_it_is_kept_for_as_long_as_somebody_listens() -> None:
    listen = {
        **PING,
        "method": "subscriptions/listen",
        "params": {"notifications": {"toolsListChanged": True}},
    }
    assert not isinstance(read(line(listen)), Bad)
    long = read(line({**listen, "params": {"_meta": {"x": "x" * 16_384}}}))
    assert isinstance(long, Bad) and "16,384" in long.why and long.id == "p"


@pytest.mark.parametrize("length", [100, 17_000, 1_000_000])
def test_a_large_message_is_not_read_on_the_loop(desk: Desk, length: int) -> None:
    """Else whoever sends many of them holds up everybody."""
    where: list[bool] = []

    def watched(raw: bytes) -> Any:
        where.append(threading.current_thread() is threading.main_thread())
        return read(raw)

    desk.patch.setattr("metier.doors.mcp.aside.read", watched)
    message = {**PING, "params": {"_meta": {"x": "x" * length}}}

    async def main() -> None:
        async with desk.lines() as (out, back):
            await anyio.to_thread.run_sync(out.write, line(message))
            await until_answered(back)
        token = desk.token()
        headers = {"Authorization": f"Bearer {token.text}", "Content-Type": "application/json"}
        async with desk.served() as url, httpx2.AsyncClient(headers=headers) as http:
            await http.post(url, content=line(message))

    anyio.run(main)
    assert where == [length == 100] * 2


@pytest.mark.parametrize("text", ["7", "007", " 7", "+7", "0_7", "٧"])
def test_a_number_and_its_text_are_one_id(text: str) -> None:
    """However it is written: to the SDK they are one, and who cancels the one would end the other."""
    assert coerce_request_id(text) == 7
    under_way = UnderWay(10)
    assert under_way.begin({**PING, "id": 7}) is None
    bad = under_way.begin({**PING, "id": text})
    assert bad is not None and bad.id is None, "an error under the id would answer the first"
    under_way.end(text)
    assert under_way.begin({**PING, "id": text}) is None
    assert under_way.begin({**PING, "id": "7x"}) is None


def test_web_19_bad_lines_are_answered_and_the_connection_goes_on(desk: Desk) -> None:
    async def main() -> None:
        async with desk.lines() as (out, back):
            for message, code in BAD:
                await anyio.to_thread.run_sync(out.write, line(message))
                answer = await until_answered(back)
                assert answer["error"]["code"] == code, (message, answer)
            out.write(line({"jsonrpc": "2.0", "id": 5, "method": "tools/list"}))
            assert (await until_answered(back))["error"]["code"] == -32602, "before it was initialized"
            out.write(line(HELLO))
            assert (await until_answered(back))["result"]["serverInfo"]["name"] == "metier"
            out.write(line({"jsonrpc": "2.0", "id": 2, "method": "no/such"}))
            assert (await until_answered(back))["error"]["code"] == -32601
            for _ in range(500):  # a flood of what nobody asked for
                out.write(
                    line(
                        {
                            "jsonrpc": "2.0",
                            "method": "notifications/progress",
                            "params": {"progressToken": 1, "progress": 1},
                        }
                    )
                )
            out.write(line(PING))
            assert (await until_answered(back)) == {"jsonrpc": "2.0", "id": "p", "result": {}}

    anyio.run(main)


def test_web_19_a_line_has_a_length_and_one_without_end_keeps_no_memory(desk: Desk) -> None:
    desk.patch.setattr(module, "MOST_BYTES", 100_000)

    async def main() -> None:
        async with desk.lines() as (out, back):

            def flood() -> None:
                for _ in range(200):
                    out.write(b"x" * 65_536)
                out.write(b"\n")

            await anyio.to_thread.run_sync(flood)
            answer = await until_answered(back)
            assert answer["error"]["code"] == -32600 and "100,000" in answer["error"]["message"]
            out.write(line(HELLO))
            assert "result" in await until_answered(back)

    anyio.run(main)


def test_web_19_who_speaks_something_else_is_hung_up_on(desk: Desk) -> None:
    async def main() -> None:
        async with desk.lines() as (out, back):

            def talk() -> int:
                said = 0
                try:
                    for _ in range(150):
                        out.write(b"GET / HTTP/1.1\n")
                except BrokenPipeError:
                    pass
                while back.readline():
                    said += 1
                return said

            with anyio.fail_after(20):
                assert await anyio.to_thread.run_sync(talk) == 100

    anyio.run(main)


def test_web_19_an_id_that_is_under_way_is_not_taken_again(desk: Desk) -> None:
    async def main() -> None:
        async with desk.lines() as (out, back):
            out.write(line(HELLO))
            await until_answered(back)
            out.write(line({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            slow = {"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": "tea__slow"}}
            out.write(line(slow))
            out.write(line({**slow, "id": "9"}))
            answer = await until_answered(back)
            assert answer["id"] is None and "under way already" in answer["error"]["message"]
            stop = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}}
            out.write(line(stop))
            out.write(line(PING))
            while (await until_answered(back)).get("id") != "p":
                pass

    anyio.run(main)
    begun = [each for each in desk.records() if each.event == "skill_execution_started"]
    assert len(begun) <= 1


def test_a_fault_of_ours_reaches_no_client(desk: Desk) -> None:
    """Also in the older generation, whose loop would hand the text of any exception on."""

    def broken(*given: Any) -> Any:
        raise RuntimeError("/secret/place")

    desk.patch.setattr("metier.doors.mcp.server.shown_to", broken)

    async def main() -> None:
        async with desk.lines() as (out, back):
            out.write(line(HELLO))
            await until_answered(back)
            out.write(line({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}))
            answer = await until_answered(back)
            assert answer["error"] == {
                "code": -32603,
                "message": "a fault of Metier; its log has the details",
            }

    anyio.run(main)
