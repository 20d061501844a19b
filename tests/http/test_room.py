"""Nobody takes all the room there is: not who never signs in, not an agent that waits, and not all agents together."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import SocketStream

from metier.doors.http import oidc_tokens, room, sign_in_routes, wire
from metier.doors.http.sign_in_asked import LINK
from serve_kit import READ, WRITE, House, Premises, code, request, status


@pytest.fixture
def premises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Premises:
    return Premises(tmp_path, monkeypatch)


def half_a_sign_in(house: House, *, length: int = 100) -> bytes:
    """Everything but the body."""
    return request(
        "POST",
        LINK.path,
        host=house.at,
        origin=house.door.url,
        content_type="application/json",
        content_length=str(length),
    )


async def all_sent(house: House, data: bytes, times: int) -> list[SocketStream]:
    """So many connections, each with these bytes."""
    held: list[SocketStream] = []
    for _ in range(times):
        stream = await house.connected()
        held.append(stream)
        with suppress(anyio.BrokenResourceError):  # it may be ended by then
            await stream.send(data)
    return held


async def close(held: list[SocketStream]) -> None:
    for each in held:
        await each.aclose()


async def ended(held: list[SocketStream]) -> int:
    """How many of them the server ended without a word."""
    count = 0
    for each in held:
        with anyio.move_on_after(0.01):
            try:
                await each.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                count += 1
    return count


@pytest.mark.parametrize(("altogether", "of_one_address"), [(32, 1_000), (1_000, 32)])
def test_res_20_connections_that_never_sign_in_are_limited_by_address_and_in_total_and_keep_nobody_out(
    premises: Premises, monkeypatch: pytest.MonkeyPatch, altogether: int, of_one_address: int
) -> None:
    monkeypatch.setattr(wire, "MOST_CONNECTIONS", altogether)
    monkeypatch.setattr(wire, "MOST_STRANGERS", of_one_address)
    me = premises.owner()

    async def main() -> None:
        async with premises.serving() as house, house.client(me) as client:
            assert (await client.post("/api/v1/calls", json=READ)).status_code == 200
            held = await all_sent(house, half_a_sign_in(house), 100)
            with anyio.fail_after(20):
                while await ended(held) < 100 - 32:
                    await anyio.sleep(0.05)
            async with house.client(me) as another:
                assert (await another.post("/api/v1/calls", json=READ)).status_code == 200
            # Who was let in before is not the one that goes for strangers.
            assert (await client.post("/api/v1/calls", json=READ)).status_code == 200
            await close(held)

    anyio.run(main)


def test_res_20_a_stranger_goes_and_not_who_is_being_answered(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "MOST_CONNECTIONS", 8)
    agent = premises.agent()

    async def main() -> None:
        async with premises.serving() as house, await house.connected() as listening:
            await listening.send(
                request(path="/api/v1/events", host=house.at, authorization=f"Bearer {agent}")
            )
            assert status(await listening.receive()) == 200
            await close(await all_sent(house, half_a_sign_in(house), 40))
            async with house.client(agent) as client:
                assert (await client.post("/api/v1/calls", json=READ)).status_code == 200
            with anyio.fail_after(10):
                told = b""
                while b"call.ended" not in told:
                    told += await listening.receive()

    anyio.run(main)


def test_res_18_a_body_that_is_huge_slow_or_endless_is_refused_before_anybody_signed_in(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sign_in_routes, "BODY_SECONDS", 0.5)

    async def main() -> None:
        async with premises.serving() as house:
            host = {"host": house.at, "content_type": "application/json", "origin": house.door.url}
            for path in (LINK.path, "/api/v1/calls"):
                huge = await house.raw(request("POST", path, content_length="1000000000", **host))
                assert (status(huge), code(huge)) == (413, "too_large"), path
            slow = await house.raw(half_a_sign_in(house) + b"{")
            assert (status(slow), code(slow)) == (408, "too_slow")
            # One that never ends is ended at what a sign-in needs; elsewhere nobody waits for it.
            for path, expected in ((LINK.path, 413), ("/api/v1/calls", 401)):
                async with await house.connected() as stream:
                    await stream.send(request("POST", path, transfer_encoding="chunked", **host))
                    for _ in range(9):
                        await stream.send(b"400\r\n" + b" " * 1_024 + b"\r\n")
                    assert status(await stream.receive()) == expected

    anyio.run(main)


def test_res_19_a_length_is_looked_at_before_anything_is_read_or_unpacked(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unpacked(*_: Any, **__: Any) -> bytes:
        raise AssertionError("it was unpacked")

    monkeypatch.setattr(oidc_tokens.base64, "b64decode", unpacked)
    long = "e30" * oidc_tokens.LONGEST
    with pytest.raises(oidc_tokens.BadToken):
        oidc_tokens.knows_key({"keys": []}, f"{long}.{long}.{long}")

    async def main() -> None:
        async with premises.serving() as house:
            # Not one byte of either comes.
            answer = await house.raw(half_a_sign_in(house, length=8_193))
            assert (status(answer), code(answer)) == (413, "too_large")
            packed = request(
                "POST",
                LINK.path,
                host=house.at,
                origin=house.door.url,
                content_type="application/json",
                content_encoding="gzip",
                content_length="100",
            )
            assert status(await house.raw(packed)) == 415

    anyio.run(main)


def test_an_agent_that_waits_many_times_keeps_nobody_from_saying_no(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "MOST_OF_ONE", 4)
    monkeypatch.setattr(wire, "MOST_CONNECTIONS", 16)
    agent, me = premises.agent(), premises.owner()

    async def main() -> None:
        async with premises.serving() as house:
            async with house.client(agent) as client:
                asked = (await client.post("/api/v1/calls", json=WRITE)).json()
            at = f"/api/v1/approvals/{asked['approval_id']}"
            wait = request(
                "POST",
                f"{at}/take-up",
                host=house.at,
                body=b'{"wait": 60}',
                content_type="application/json",
                authorization=f"Bearer {agent}",
            )
            held = await all_sent(house, wait, 40)
            async with house.client(agent) as client:
                with anyio.fail_after(20):
                    while (answer := await client.get("/api/v1/me")).status_code == 200:
                        await anyio.sleep(0.05)
                assert (answer.status_code, answer.json()["code"]) == (429, "too_many_requests")
                assert answer.headers["retry-after"]
            async with house.client(me) as client:
                assert (await client.post(f"{at}/deny", json={})).status_code == 200
            with anyio.fail_after(10):  # those that waited are answered, and their places are free again
                async with house.client(agent) as client:
                    while (await client.get("/api/v1/me")).status_code != 200:
                        await anyio.sleep(0.05)
            await close(held)

    anyio.run(main)


def test_all_agents_together_leave_room_for_people(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "MOST_OF_AGENTS", 2)
    agents, me = [premises.agent(f"a{number}") for number in range(3)], premises.owner()

    async def main() -> None:
        async with premises.serving() as house:
            held: list[SocketStream] = []
            for agent in agents[:2]:
                stream = await house.connected()
                held.append(stream)
                await stream.send(
                    request(path="/api/v1/events", host=house.at, authorization=f"Bearer {agent}")
                )
                assert status(await stream.receive()) == 200
            async with house.client(agents[2]) as client:
                assert (await client.get("/api/v1/me")).status_code == 429
            async with house.client(me) as client:
                assert (await client.get("/api/v1/me")).status_code == 200
            await close(held)

    anyio.run(main)
