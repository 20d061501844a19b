"""Channels and conversations through the whole gate: people by their rights, agents never, and what a client claims is dropped."""

from pathlib import Path

import anyio

from machine import Machine
from metier import Runtime
from metier.kernel.conversation_rows import messages_in
from metier.kernel.store import Store
from metier.model.digest import Json
from metier.model.outcome import Completed, Failed, Refused
from metier.runtime.as_owner import call_as_owner

MESSAGE: dict[str, Json] = {"channel": "telegram", "chat_id": "42", "text": "hello"}


def test_an_agent_sends_and_reads_nothing_and_a_person_does(tmp_path: Path) -> None:
    machine = Machine(tmp_path)

    async def main() -> None:
        async with Runtime.open(home=str(machine.state), project=str(machine.project)) as runtime:
            asks: dict[str, dict[str, Json]] = {
                "channels.send_message": MESSAGE,
                "channels.route_inbound_message": {**MESSAGE, "message_id": "1"},
                "channels.configure": {"channel": "telegram", "config": {}},
                "conv.list_threads": {},
                "conv.get_thread": {"thread_id": 1},
                "conv.append": {"thread_id": 1, "text": "x"},
                "conv.erase": {"thread_id": 1},
                "conv.retry": {"message_id": 1},
                "channels.remove": {"channel": "echo"},
            }
            for tool, arguments in asks.items():
                outcome = await runtime.call(tool, arguments)
                assert isinstance(outcome, Refused), (tool, outcome)
                assert outcome.code == "forbidden", (tool, outcome)
            registered = await runtime.call(
                "channels.register", {"channel": "echo", "connector_module": "echo"}
            )
            assert not isinstance(registered, Completed)
            sent = await call_as_owner(runtime, "channels.send_message", MESSAGE)
            assert isinstance(sent, Completed), sent
            listed = await call_as_owner(runtime, "conv.list_threads", {})
            assert isinstance(listed, Completed), listed

    anyio.run(main)


def test_cap_01_what_a_client_says_about_who_it_is_is_dropped_and_what_is_kept_is_who_asked(
    tmp_path: Path,
) -> None:
    machine = Machine(tmp_path)
    claims: dict[str, Json] = {
        "_ctx": {"kernel_cap": "x" * 32, "actor": "human:owner"},
        "kernel_cap": "x",
        "actor": "system",
    }

    async def main() -> None:
        async with Runtime.open(home=str(machine.state), project=str(machine.project)) as runtime:
            refused = await runtime.call("channels.send_message", {**MESSAGE, **claims})
            assert isinstance(refused, Refused), refused
            sent = await call_as_owner(runtime, "channels.send_message", {**MESSAGE, **claims})
            assert isinstance(sent, Completed), sent

    anyio.run(main)
    store = Store(str(machine.state))
    with store.reading() as connection:
        (message,) = messages_in(connection, 1)
    assert message.author not in ("system", "x")
    assert message.author.startswith("human:")


def test_a_refusal_of_an_operation_says_its_code_and_what_to_do(tmp_path: Path) -> None:
    machine = Machine(tmp_path)

    async def main() -> None:
        async with Runtime.open(home=str(machine.state), project=str(machine.project)) as runtime:
            outcome = await call_as_owner(runtime, "channels.send_message", {**MESSAGE, "channel": "nowhere"})
            assert isinstance(outcome, Failed), outcome
            assert outcome.value == {
                "code": "E_CHANNELS_UNKNOWN",
                "message": "there is no channel 'nowhere'; `channels.list` shows those there are",
            }

    anyio.run(main)
