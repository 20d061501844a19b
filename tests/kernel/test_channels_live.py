"""Two skills that live in their sandboxes, through the host and the whole gate: one has a channel, the other wants it."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from household import configured, python_package, trusted
from machine import Machine
from metier import Runtime
from metier.kernel.conversation_rows import messages_in
from metier.kernel.store import Store
from metier.model.outcome import Completed
from metier.runtime.as_owner import call_as_owner

SKILL = """
import asyncio
class Desk:
    name = 'NAME'
    def __init__(self, ctx): self._ctx, self._sent = ctx, []
    async def send(self, params, meta):
        if params['text'] == 'hang': await asyncio.sleep(3600)
        self._sent.append([params['chat_id'], params['text'], params['key']])
        return {'message_id': len(self._sent)}
    async def sent(self, params, meta): return self._sent
    async def bell(self, params, meta):
        said = {'channel': 'NAME', 'chat_id': '9', 'message_id': '1', 'text': 'ring \\x07\\x1b[0m', 'author': 'Eve\\x00', 'data': ['\\x07']}
        return await self._ctx.execute('channels', 'route_inbound_message', said)
    async def ask(self, params, meta):
        try:
            return {'done': await self._ctx.execute(params['module'], params['op'], params['params'])}
        except Exception as error:
            return {'refused': error.name}

async def on_enable(ctx):
    ctx.register_module(Desk(ctx))

skill = {
    'id': 'NAME', 'version': '1.0.0', 'on_enable': on_enable,
    'capabilities': {'channels': CHANNELS, 'kernel_ops': [
        'channels.configure', 'channels.route_inbound_message', 'channels.send_message', 'conv.list_threads', 'conv.get_thread',
    ]},
}
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(Path(os.path.realpath(tmp_path)))
    monkeypatch.setenv("HOME", str(made.home))
    for name, channels in (("lobby", ["lobby"]), ("thief", ["loot"])):
        python_package(made, name, SKILL.replace("NAME", name).replace("CHANNELS", repr(channels)))
    configured(made, "lobby", "thief", enabled=["lobby", "thief"])
    trusted(made, "lobby", "thief")
    return made


@pytest.mark.slow
def test_a_skill_with_every_operation_granted_gets_no_channel_of_another(machine: Machine) -> None:
    async def main() -> None:
        async with Runtime.open(
            project=str(machine.project), home=str(machine.state), watch=False, host=True
        ) as runtime:

            async def ask(tool: str, **arguments: Any) -> Any:
                outcome = await call_as_owner(runtime, tool, arguments)
                assert isinstance(outcome, Completed), outcome
                return outcome.value

            async def by(skill: str, name: str, **params: Any) -> Any:
                module, _, op = name.partition(".")
                return await ask(f"{skill}.ask", module=module, op=op, params=params)

            async def until(tool: str, wanted: Callable[[Any], bool], **arguments: Any) -> None:
                with anyio.fail_after(30):
                    while not wanted(await ask(tool, **arguments)):
                        await anyio.sleep(0.05)

            for name in ("lobby", "thief"):
                await until("skills.info", lambda record: record["status"] == "loaded", skill_id=name)
            taken = await by("lobby", "channels.register", channel="lobby", connector_module="lobby")
            assert taken["done"]["ok"] is True
            message = {"channel": "lobby", "chat_id": "7", "text": "hello"}
            came_in = {**message, "message_id": "1"}
            attacks: dict[str, dict[str, Any]] = {
                "channels.register": {"channel": "lobby", "connector_module": "thief"},
                "channels.configure": {"channel": "lobby", "config": {"mode": "x"}},
                "channels.route_inbound_message": came_in,
                "channels.send_message": message,
            }
            for name, params in attacks.items():
                assert await by("thief", name, **params) == {"refused": "E_AGENT_FORBIDDEN"}, name
            # The control: the same, asked by who has the channel.
            for name, params in list(attacks.items())[1:]:
                assert (await by("lobby", name, **params))["done"]["ok"] is True, name
            again = await by("lobby", "channels.route_inbound_message", **came_in)
            assert again["done"]["duplicate"] is True
            seen = {
                name: (await by(name, "conv.list_threads"))["done"]["threads"] for name in ("lobby", "thief")
            }
            assert (len(seen["lobby"]), seen["thief"]) == (1, [])
            thread = seen["lobby"][0]["thread_id"]
            assert await by("thief", "conv.get_thread", thread_id=thread) == {"refused": "E_CHANNELS_UNKNOWN"}
            await until("lobby.sent", lambda sent: [each[:2] for each in sent] == [["7", "hello"]])
            await until(
                "conv.get_thread",
                lambda found: [each["state"] for each in found["messages"]] == ["handled", "sent"],
                thread_id=thread,
            )
            # Disabled, it has the channel no more, and nobody else sends what waits for it.
            await ask("skills.disable", skill_id="lobby")
            listed = (await ask("channels.list"))["channels"]
            assert "lobby" not in [each["channel"] for each in listed]

    anyio.run(main)
    store = Store(str(machine.state))
    with store.reading() as connection:
        found = messages_in(connection, 1)
    assert [(each.direction, each.text, each.author) for each in found] == [
        ("in", "hello", ""),
        ("out", "hello", "skill:lobby"),
    ]


@pytest.mark.slow
def test_a_message_that_makes_a_real_connector_hang_is_given_up_and_its_skill_lives_on(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metier.kernel.resident_life.OPERATION_SECONDS", 1.0)

    async def main() -> None:
        async with Runtime.open(
            project=str(machine.project), home=str(machine.state), watch=False, host=True
        ) as runtime:

            async def ask(tool: str, **arguments: Any) -> Any:
                outcome = await call_as_owner(runtime, tool, arguments)
                return outcome.value if isinstance(outcome, Completed) else None

            async def until(tool: str, wanted: Callable[[Any], bool], **arguments: Any) -> Any:
                with anyio.fail_after(40):
                    while not wanted(found := await ask(tool, **arguments)):
                        await anyio.sleep(0.05)
                    return found

            await until("skills.info", lambda record: record["status"] == "loaded", skill_id="lobby")
            registered = {"channel": "lobby", "connector_module": "lobby"}
            await ask("lobby.ask", module="channels", op="register", params=registered)
            # What people type is stored, whatever it is.
            assert (await ask("lobby.bell"))["ok"] is True
            found = await ask("conv.get_thread", channel="lobby", chat_id="9")
            (bell,) = found["messages"]
            assert (bell["text"], bell["author"], bell["data"]) == (
                "ring \ufffd\ufffd[0m",
                "Eve\ufffd",
                ["\ufffd"],
            )
            hangs = await ask("channels.send_message", channel="lobby", chat_id="7", text="hang")
            await until(
                "conv.undelivered",
                lambda found: [each["state"] for each in found["messages"]] == ["failed"],
            )
            (failed,) = (await ask("conv.undelivered"))["messages"]
            assert failed["message_id"] == hangs["message_id"]
            assert (failed["attempts"], failed["may_have_arrived_twice"]) == (2, True)
            await until("skills.info", lambda record: record["status"] == "loaded", skill_id="lobby")
            fine = await ask("channels.send_message", channel="lobby", chat_id="8", text="fine")
            await until(
                "conv.get_thread",
                lambda found: found["messages"][-1]["state"] == "sent",
                thread_id=fine["thread_id"],
            )

    anyio.run(main)
