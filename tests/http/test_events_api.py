"""What happens, told live: to each what he may see, from where he was, and to nobody who does not read or is no longer let in."""

import contextlib
import json
import socket
import struct
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from anyio import to_thread
from anyio.abc import SocketStream

from core_desk import DECIDER
from metier.catalog.here import owner
from metier.doors.http import live, wire
from metier.doors.http.server import GRACE_SECONDS
from metier.errors import StateError
from metier.model.approval import Approval
from metier.model.job import Report
from metier.model.role import EXECUTE
from metier.record.deciding import decide, expire_due
from metier.record.principals import revoke_principal
from serve_kit import READ, WRITE, House, Premises, read_all, request, status


@pytest.fixture
def premises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Premises:
    made = Premises(tmp_path, monkeypatch)
    made.box._report = Report(ending="returned", value={"success": True, "outputs": {}})
    return made


class Stream:
    """What a listener got."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.ended = anyio.Event()
        self.status = 0

    async def until(self, *kinds: str) -> list[dict[str, Any]]:
        with anyio.fail_after(10):
            while not set(kinds) <= {each["kind"] for each in self.got}:
                assert not self.ended.is_set(), self.got
                await anyio.sleep(0.02)
        return self.got


@asynccontextmanager
async def listening(house: House, token: str, **headers: str) -> AsyncGenerator[Stream]:
    stream = Stream()
    ready = anyio.Event()

    async def read() -> None:
        try:
            async with (
                house.client(token, **headers) as client,
                client.stream("GET", "/api/v1/events") as answer,
            ):
                stream.status = answer.status_code
                async for line in answer.aiter_lines():
                    ready.set()
                    if line.startswith("data: "):
                        stream.got.append(json.loads(line[6:]))
        finally:
            ready.set()
            stream.ended.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        with anyio.fail_after(10):
            await ready.wait()
        yield stream
        tasks.cancel_scope.cancel()


def test_a_person_is_told_what_waits_what_was_decided_and_what_ran(premises: Premises) -> None:
    agent, ann = premises.agent(), premises.person("ann", "approver")

    async def main() -> None:
        async with premises.serving() as house, listening(house, ann) as stream:
            async with house.client(agent) as client, house.client(ann) as person:
                made = (await client.post("/api/v1/calls", json=WRITE)).json()
                await stream.until("approval.pending")
                shown = (await person.get(f"/api/v1/approvals/{made['approval_id']}")).json()
                body = {"fingerprint": shown["fingerprint"]}
                await person.post(f"/api/v1/approvals/{made['approval_id']}/approve", json=body)
                await client.post(f"/api/v1/approvals/{made['approval_id']}/take-up", json={})
            got = await stream.until("approval.pending", "approval.decided", "call.began", "call.ended")
            mine = [each for each in got if each.get("call_id") == made["call_id"]]
            assert [each["kind"] for each in mine] == [
                "approval.pending", "approval.decided", "call.began", "call.ended",
            ]  # fmt: skip
            numbers = [each["seq"] for each in got if "seq" in each]
            assert numbers == sorted(set(numbers))
            assert "tea" not in json.dumps(got)  # no argument, no result

    anyio.run(main)


def test_cap_13_an_agent_is_told_of_its_own_calls_only(premises: Premises) -> None:
    one, two = premises.agent("one"), premises.agent("two")

    async def main() -> None:
        async with premises.serving() as house, listening(house, one) as stream:
            async with house.client(one) as first, house.client(two) as second:
                await second.post("/api/v1/calls", json=READ)
                await first.post("/api/v1/calls", json=READ)
            await stream.until("call.ended")
            assert {each.get("principal", "agent:one") for each in stream.got} == {"agent:one"}

    anyio.run(main)


def test_cap_13_who_asked_and_whom_he_acts_for_are_told_of_the_decision_and_nobody_else(
    premises: Premises,
) -> None:
    """A no over this server, a yes in another process, and one that nobody decided in time. Who decides is told only while he may
    see what others ask."""
    one, two, ann = premises.agent("one"), premises.agent("two"), premises.person("ann", "approver")
    his, hers = premises.token(owner(), EXECUTE), premises.token("human:ann", EXECUTE)

    async def main() -> None:
        async with contextlib.AsyncExitStack() as stack:
            house = await stack.enter_async_context(premises.serving())
            asker, other, behind, decider = [
                await stack.enter_async_context(listening(house, each)) for each in (one, two, his, hers)
            ]
            client = await stack.enter_async_context(house.client(one))
            person = await stack.enter_async_context(house.client(ann))
            made = [(await client.post("/api/v1/calls", json=WRITE)).json() for _ in range(3)]
            ids = [each["approval_id"] for each in made]
            assert (await person.post(f"/api/v1/approvals/{ids[0]}/deny", json={})).status_code == 200
            with premises.opened() as database:  # as another process has it
                assert isinstance(decide(database, ids[1], by=DECIDER, decision="approve"), Approval)
                assert expire_due(database, time.time() + 3_600, most=1) == 1
            with anyio.fail_after(10):
                while min(len(decisions(each)) for each in (asker, behind)) < 3:
                    await anyio.sleep(0.02)
            async with house.client(two) as third:  # whatever was to come before this has come by then
                await third.post("/api/v1/calls", json=READ)
            await other.until("call.ended")
            states = ["skill_rejected", "skill_approved", "approval_expired"]
            for stream in (asker, behind):
                told = decisions(stream)
                assert [each["state"] for each in told] == states
                assert {(each["asked_by"], each["asked_for"]) for each in told} == {("agent:one", owner())}
                assert [each["approval"] for each in told[:2]] == ids[:2]
                assert told[0]["principal"] == "human:ann"
            assert not decisions(other) and not decisions(decider)
            again = {"last-event-id": str(decisions(asker)[0]["seq"] - 1)}
            async with listening(house, one, **again) as late, listening(house, two, **again) as stranger:
                await stranger.until("call.ended")  # the last of what both missed
                with anyio.fail_after(10):
                    while len(decisions(late)) < 3:
                        await anyio.sleep(0.02)
                assert decisions(late) == decisions(asker) and not decisions(stranger)

    anyio.run(main)


def decisions(stream: Stream) -> list[dict[str, Any]]:
    return [each for each in stream.got if each["kind"] == "approval.decided"]


def test_who_was_cut_off_goes_on_where_he_was_and_who_missed_too_much_is_told_so(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = premises.agent()

    async def main() -> None:
        async with premises.serving() as house, house.client(agent) as client:
            async with listening(house, agent) as stream:
                await client.post("/api/v1/calls", json=READ)
                before = await stream.until("call.ended")
            made = (await client.post("/api/v1/calls", json=READ)).json()
            async with listening(house, agent, **{"last-event-id": str(before[-1]["seq"])}) as stream:
                got = await stream.until("call.ended")
                assert [(each["kind"], each["call_id"]) for each in got] == [
                    ("call.began", made["call_id"]), ("call.ended", made["call_id"]),
                ]  # fmt: skip
            monkeypatch.setattr(live, "MOST_MISSED", 1)
            async with listening(house, agent, **{"last-event-id": "1"}) as stream:
                assert [each["kind"] for each in await stream.until("reset")] == ["reset"]

    anyio.run(main)


def test_web_10_a_stream_ends_when_who_listens_is_revoked(premises: Premises) -> None:
    agent = premises.agent()

    async def main() -> None:
        async with premises.serving() as house, listening(house, agent) as stream:
            with premises.opened() as database:
                assert revoke_principal(database, "agent:bot", by=owner(), owner=owner()) == ""
            with anyio.fail_after(5):
                await stream.ended.wait()

    anyio.run(main)


def test_web_22_who_does_not_read_is_cut_off_and_nothing_piles_up_for_him(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "STALLED_SECONDS", 0.5)
    monkeypatch.setattr(live, "QUEUE", 8)
    agent = premises.agent()

    async def main() -> None:
        async with premises.serving() as house, await house.connected() as stream:
            told = request(path="/api/v1/events", host=house.at, authorization=f"Bearer {agent}")
            await stream.send(told)
            with anyio.fail_after(5):
                while not house.door.serving.live._listeners:
                    await anyio.sleep(0.02)
            change = live.Change(kind="skills.changed", state="x" * 60_000)
            with anyio.fail_after(10):
                while house.door.serving.live._listeners:
                    house.door.serving.live._tell(change)
                    await anyio.sleep(0.001)
            await anyio.sleep(1.0)  # longer than anybody may read nothing
            got = await read_all(stream, 10)
            assert not got.endswith(b"0\r\n\r\n")  # cut off, not ended
            assert (
                len(got) < 20 * 60_000 + wire.MOST_HEAD_BYTES + 4_000_000
            )  # what lay in sockets, and no more

    anyio.run(main)


def test_web_22_who_hangs_up_while_he_is_told_what_he_missed_leaves_no_word_in_the_log(
    premises: Premises, caplog: pytest.LogCaptureFixture
) -> None:
    agent = premises.agent()

    async def main() -> None:
        async with premises.serving() as house, house.client(agent) as client:
            for _ in range(20):
                assert (await client.post("/api/v1/calls", json=READ)).status_code == 200
            told = request(
                path="/api/v1/events", host=house.at, authorization=f"Bearer {agent}", last_event_id="1"
            )

            def hang_up() -> None:
                with socket.create_connection(("127.0.0.1", house.door.port)) as stream:
                    stream.sendall(told)
                    stream.recv(1)
                    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

            for _ in range(12):
                await to_thread.run_sync(hang_up)
            with anyio.fail_after(10):
                while house.door.serving.live._listeners:
                    await anyio.sleep(0.02)
            async with listening(house, agent, **{"last-event-id": "1"}) as heard:  # who stays is told
                await heard.until("call.ended")

    anyio.run(main)
    assert [each.getMessage() for each in caplog.records if each.name == "asyncio"] == []


def test_streams_end_with_the_server_and_there_are_only_so_many(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MOST_LISTENERS", 1)
    agent = premises.agent()

    async def main() -> None:
        ended: list[bool] = []
        async with anyio.create_task_group() as tasks, premises.serving() as house:

            async def listen() -> None:
                async with listening(house, agent) as stream:
                    with anyio.fail_after(20):
                        await stream.ended.wait()
                    ended.append(True)

            tasks.start_soon(listen)
            with anyio.fail_after(5):
                while not house.door.serving.live._listeners:
                    await anyio.sleep(0.02)
            async with house.client(agent) as client:
                assert (await client.get("/api/v1/events")).status_code == 503
        assert ended == [True]

    anyio.run(main)


def test_one_who_listens_often_takes_nobodys_place_but_his_own(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MOST_OF_ONE", 2)
    monkeypatch.setattr(live, "MOST_OF_AGENTS", 3)
    one, two, me = premises.agent("one"), premises.agent("two"), premises.owner()

    async def main() -> None:
        async with premises.serving() as house, contextlib.AsyncExitStack() as stack:

            async def listens(token: str) -> SocketStream:
                stream = await stack.enter_async_context(await house.connected())
                await stream.send(
                    request(path="/api/v1/events", host=house.at, authorization=f"Bearer {token}")
                )
                return stream

            async def begun(token: str) -> SocketStream:
                stream = await listens(token)
                assert status(await stream.receive()) == 200
                return stream

            first = await begun(one)
            for _ in range(4):
                await begun(one)
            assert (await read_all(first, 5)).endswith(b"0\r\n\r\n")  # ended, and told so
            await begun(two)
            assert status(await (await listens(two)).receive()) == 503
            await begun(me)
            assert len(house.door.serving.live._listeners) == 4

    anyio.run(main)


def test_who_cannot_be_told_what_he_missed_keeps_no_place(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = premises.agent()

    async def main() -> None:
        async with premises.serving() as house, house.client(agent) as client:
            assert (await client.post("/api/v1/calls", json=READ)).status_code == 200

            async def fails(*_: Any) -> None:
                raise StateError("it cannot be read")

            monkeypatch.setattr(house.door.serving.live, "_missed", fails)
            answer = await client.get("/api/v1/events", headers={"last-event-id": "1"})
            assert answer.status_code == 503
            assert not house.door.serving.live._listeners

    anyio.run(main)


def test_the_streams_of_another_door_end_with_the_server_too(premises: Premises) -> None:
    """Without waiting for the grace that requests have."""
    agent = premises.agent()

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            ended = anyio.Event()
            async with premises.serving(mcp=True) as house:

                async def listen() -> None:
                    headers = {"accept": "text/event-stream", "mcp-protocol-version": "2025-06-18"}
                    with contextlib.suppress(httpx2.HTTPError):
                        async with house.client(agent, **headers) as client:
                            begun = await client.post("/mcp", json=INITIALIZE, headers=BOTH)
                            session = {"mcp-session-id": begun.headers["mcp-session-id"]}
                            async with client.stream("GET", "/mcp", headers=session) as stream:
                                assert stream.status_code == 200
                                listening.set()
                                async for _ in stream.aiter_lines():
                                    pass
                    ended.set()

                listening = anyio.Event()
                tasks.start_soon(listen)
                with anyio.fail_after(20):
                    await listening.wait()
                left = anyio.current_time()
            assert ended.is_set() or anyio.current_time() - left < GRACE_SECONDS

    anyio.run(main)


BOTH = {"accept": "application/json, text/event-stream"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
