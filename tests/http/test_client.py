"""The client for programs: typed answers, problems as errors with their codes, and a token that goes nowhere else."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

import metier.client.asking
from metier import Completed, ConfigError, Pending, Refused
from metier.client import ApiError, AsyncClient, Client
from metier.model.job import Job, Report
from serve_kit import READ, WRITE, Premises


@pytest.fixture
def premises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Premises:
    made = Premises(tmp_path, monkeypatch)
    made.box._report = Report(ending="returned", value={"success": True, "outputs": {}})
    return made


def test_everything_a_program_asks_for_is_typed(premises: Premises) -> None:
    agent, ann = premises.agent(), premises.person("ann", "approver")

    async def main() -> None:
        async with (
            premises.serving() as house,
            AsyncClient(house.door.url, token=agent) as client,
            AsyncClient(house.door.url, token=ann) as person,
        ):
            done = await client.call(READ["tool"], READ["arguments"], key="one")
            assert isinstance(done, Completed)
            assert await client.call(READ["tool"], READ["arguments"], key="one") == done
            assert (await client.state(done.call_id)).state == "completed"
            assert isinstance(await client.call("no_such_tool"), Refused)
            assert "read_skill" in str(await client.tools("anthropic"))
            assert "writing-skills" in [each.name for each in await client.skills()]
            assert "writing-skills" in await client.prompt("write a skill")
            assert isinstance(
                await client.operate("settings.set_skill", {"skill_id": "x", "patch": {}}), Refused
            )
            waits = await client.call(WRITE["tool"], WRITE["arguments"])
            assert isinstance(waits, Pending)
            [shown] = await person.approvals()
            assert (await person.approve(shown)).state == "approved"
            assert isinstance(await client.take_up(waits.approval_id), Completed)
            another = await client.call(WRITE["tool"], WRITE["arguments"])
            assert isinstance(another, Pending)
            assert (await person.deny(another.approval_id, word="no")).state == "denied"
            with pytest.raises(ApiError) as caught:
                await client.approve(shown)
            assert (caught.value.status, caught.value.api_code) == (403, "forbidden")
            with pytest.raises(ApiError) as caught:
                await client.cancel(done.call_id)
            assert caught.value.status == 404

    anyio.run(main)


def test_what_happens_is_told_and_gone_on_from(premises: Premises) -> None:
    agent = premises.agent()

    async def main() -> None:
        async with premises.serving() as house, AsyncClient(house.door.url, token=agent) as client:
            first = await client.call(READ["tool"], READ["arguments"])
            second = await client.call(READ["tool"], READ["arguments"])
            got: list[Any] = []
            with anyio.fail_after(10):
                async for change in client.events(after=1):
                    got.append(change)
                    if (change.kind, change.call_id) == ("call.ended", second.call_id):
                        break
            calls = [each.call_id for each in got if each.kind == "call.ended"]
            assert calls == [first.call_id, second.call_id]

    anyio.run(main)


def test_without_a_loop_it_is_the_same(premises: Premises) -> None:
    agent = premises.agent()

    def blocking(url: str) -> None:
        with Client(url, token=agent) as client:
            done = client.call(READ["tool"], READ["arguments"])
            assert isinstance(done, Completed)
            assert client.state(done.call_id).state == "completed"
            for change in client.events(after=1):
                if change.kind == "call.ended":
                    break
        with pytest.raises(ApiError) as caught, Client(url, token="metier_0_0") as client:
            client.skills()
        assert (caught.value.status, caught.value.api_code) == (401, "unauthenticated")

    async def main() -> None:
        async with premises.serving() as house:
            await to_thread.run_sync(blocking, house.door.url)

    anyio.run(main)


@pytest.mark.parametrize(
    "url",
    [
        "http://metier.example.org",
        "ftp://127.0.0.1",
        "http://x@127.0.0.1",
        "127.0.0.1:8765",
        "http://127.0.0.1/?token=x",
        "http://127.0.0.1:abc",
        "http://127.0.0.1:99999",
        "http://[::1",
    ],
)
def test_web_07_a_token_is_not_sent_where_others_could_read_it(url: str) -> None:
    with pytest.raises(ConfigError):
        Client(url, token="metier_0_0")


def test_web_07_a_server_that_sends_elsewhere_is_not_followed() -> None:
    async def main() -> None:
        asked: list[bytes] = []

        async def serve(stream: Any) -> None:
            async with stream:
                asked.append(await stream.receive())
                await stream.send(
                    b"HTTP/1.1 307 Go\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
                )

        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        port = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610
        async with listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, serve)
            async with AsyncClient(f"http://127.0.0.1:{port}", token="metier_0_0") as client:
                with pytest.raises(ApiError) as caught:
                    await client.skills()
            assert caught.value.status == 307
            assert len(asked) == 1
            tasks.cancel_scope.cancel()

    anyio.run(main)


def test_no_server_is_said_so() -> None:
    with pytest.raises(ApiError) as caught, Client("http://127.0.0.1:9", token="metier_0_0") as client:
        client.skills()
    assert (caught.value.status, caught.value.api_code) == (0, "no_answer")


def test_a_token_with_its_line_end_is_said_so() -> None:
    with pytest.raises(ConfigError, match="line end"):
        Client("http://127.0.0.1:9", token="metier_0_0\n")


def test_a_call_is_waited_for_until_it_ends_or_as_long_as_is_said(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = premises.agent()
    look = ("fs_read", {"path": "memory/tea.md"})

    async def report(job: Job) -> Report:
        await anyio.sleep(1.5)
        return Report(ending="returned", value={"success": True})

    def blocking(url: str) -> None:
        with Client(url, token=agent) as client:
            assert isinstance(client.call(*look), Completed)
            with pytest.raises(ApiError) as caught:
                client.call(*look, key="one", patience=0.3)
            assert (caught.value.status, caught.value.api_code) == (0, "timed_out")
            assert "running" not in caught.value.remedy

    async def main() -> None:
        monkeypatch.setattr(metier.client.asking, "PATIENCE", 0.5)
        premises.box._report = report
        async with premises.serving() as house, AsyncClient(house.door.url, token=agent) as client:
            await to_thread.run_sync(blocking, house.door.url)
            assert isinstance(await client.call(*look), Completed)

    anyio.run(main)


def test_a_providers_own_objects_are_sent_as_what_they_are(premises: Premises) -> None:
    agent = premises.agent()

    class Function:
        def __init__(self) -> None:
            self.name, self.arguments, self._raw = READ["tool"], json.dumps(READ["arguments"]), object()

    class ToolCall:
        """As a library with models has it."""

        def model_dump(self, *, mode: str, exclude_none: bool) -> dict[str, Any]:
            assert (mode, exclude_none) == ("json", True)
            return {"id": "t1", "type": "function", "function": Function()}

    async def main() -> None:
        async with premises.serving() as house, AsyncClient(house.door.url, token=agent) as client:
            [answer] = await client.handle([ToolCall()])
            assert answer["tool_call_id"] == "t1" and "Writing skills" in str(answer["content"])
            with pytest.raises(TypeError, match="cannot be sent: give plain JSON"):
                await client.handle([object()])
            done = await client.operate("skills.list")
            assert isinstance(done, Completed), done

    anyio.run(main)


def test_both_clients_ask_for_the_same_in_the_same_way() -> None:
    import inspect

    def asks(client: type) -> dict[str, list[str]]:
        public = [
            each for each in vars(client).items() if not each[0].startswith("_") and "close" not in each[0]
        ]
        return {name: list(inspect.signature(does).parameters) for name, does in public}

    assert asks(Client) == asks(AsyncClient)
    assert {"call", "handle", "events", "take_up"} <= asks(Client).keys()
    for client in (Client, AsyncClient):
        source = inspect.getsource(client)
        assert "/api/v1" not in source and "Authorization" not in source, "what is sent is made in one place"
