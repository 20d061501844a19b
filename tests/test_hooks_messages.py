"""Messages of channels are told to hooks: Metier's own events alone, in OpenClaw's words, and nobody waits for it."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from lookout import BOIL, PASS, Lookout, hook_text
from metier.hooks import observers
from metier.kernel.events import Events
from metier.model.outcome import Completed, Outcome
from metier.runtime import Runtime
from metier.runtime.as_owner import call_as_owner
from metier.runtime.message_hooks import message_listener

RECEIVED = "channels.message.received"
MESSAGE: dict[str, Any] = {
    "channel": "telegram", "thread": 3, "message": 17, "chat": "4711", "author": {"id": 99, "name": "Ada"},
    "text": "my password=hunter2hunter2 is\x00 old",
}  # fmt: skip


@pytest.fixture
def lookout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lookout:
    return Lookout(tmp_path, monkeypatch)


def done(outcome: Outcome) -> Any:
    assert isinstance(outcome, Completed), outcome
    return outcome.value


def told(lookout: Lookout, *events: tuple[str, Any, str]) -> None:
    """Have these happen, and all hooks told of them."""

    async def act(runtime: Runtime) -> None:
        happening = Events()
        with happening.listening(message_listener(runtime._engine.hooks)):
            for name, payload, source in events:
                happening.emit(name, payload, source=source)

    lookout.opened(act)


def test_hooks_are_told_of_messages_in_openclaws_words_with_secrets_masked(lookout: Lookout) -> None:
    lookout.pretend()
    lookout.guard(text=hook_text('["message"]'))
    told(
        lookout,
        (RECEIVED, MESSAGE, "metier"),
        ("channels.message.sent", {**MESSAGE, "text": "yes"}, "metier"),
    )
    assert lookout.fired == ["guard message:received", "guard message:sent"]
    (_, received, environment), (_, sent, _) = lookout.events
    assert received["sessionKey"] == "telegram:4711"
    assert received["context"] == {
        "bootstrapFiles": [],
        "workspaceDir": str(lookout.machine.state / "workspace"),
        "channelId": "telegram",
        "conversationId": "3",
        "messageId": "17",
        "from": "99",
        "content": "my password=•••••••• is\ufffd old",
    }
    assert (sent["context"]["to"], sent["context"]["content"]) == ("4711", "yes")
    assert environment == {}, "no tool, no output"


def test_what_a_skill_emits_under_our_name_is_told_to_nobody(lookout: Lookout) -> None:
    lookout.pretend()
    lookout.guard()
    told(
        lookout,
        (RECEIVED, MESSAGE, "some-skill"),
        ("channels.message.failed", MESSAGE, "metier"),
        (RECEIVED, "no payload of ours", "metier"),
        (RECEIVED, {}, "metier"),
    )
    assert lookout.fired == ["guard message:received"], "an empty one of our own is told all the same"


def test_a_real_hook_is_told_of_a_real_message(lookout: Lookout, caplog: pytest.LogCaptureFixture) -> None:
    lookout.guard(
        "export default async (event: any) => { throw new Error(`heard ${event.context.content}`) }"
    )
    told(lookout, (RECEIVED, {**MESSAGE, "text": "good morning"}, "metier"))
    assert "failed on message:received: raised: Error: heard good morning" in caplog.text


def test_a_flood_of_messages_is_bounded_and_uses_up_nobodys_budget(lookout: Lookout) -> None:
    lookout.pretend()
    lookout.guard()
    lookout.configured("[budgets.principal]\ncalls = 2\nseconds = 86400\n")

    async def act(runtime: Runtime) -> Any:
        happening = Events()
        with happening.listening(message_listener(runtime._engine.hooks)):
            for _ in range(400):
                happening.emit(RECEIVED, MESSAGE)
        return runtime._engine.hooks

    hooks = lookout.opened(act)
    assert hooks.observers.dropped == 400 - observers.MOST_WAITING
    assert len(lookout.fired) == observers.MOST_WAITING
    assert hooks.failures == 0


def test_the_host_tells_hooks_of_what_happens_on_its_channels(lookout: Lookout) -> None:
    lookout.pretend()
    lookout.guard(text=hook_text('["message:received"]'))

    async def main() -> None:
        project = str(lookout.machine.project)
        async with Runtime.open(project=project, watch=False, host=True) as runtime:
            assert runtime.is_host
            hosting = runtime._engine.kernel.hosting
            assert hosting is not None
            hosting.events.emit(RECEIVED, MESSAGE)

    anyio.run(main)
    assert lookout.fired == ["guard message:received"]


def test_a_message_that_comes_while_a_host_closes_is_done_by_the_next_one(lookout: Lookout) -> None:
    """A hook that takes long keeps the process from ending, and by then it is a host no more."""
    lookout.pretend()
    lookout.guard(PASS, hook_text('["message:received"]'))
    trigger = {
        "name": "n", "type": "message", "patterns": ["boil"], "tool": BOIL, "arguments": {"cups": 1},
    }  # fmt: skip
    where: dict[str, Any] = {"project": str(lookout.machine.project), "watch": False}

    async def fired(runtime: Runtime) -> list[str]:
        told = done(await call_as_owner(runtime, "triggers.get", {"id": "n"}))
        return [each["outcome"] for each in told["firings"]]

    async def take_in(runtime: Runtime, number: int) -> None:
        message = {"channel": "telegram", "chat_id": 7, "message_id": number, "text": f"boil {number}"}
        done(await call_as_owner(runtime, "channels.route_inbound_message", message))

    async def main() -> None:
        let_go = anyio.Event()

        async def slow(_skill: str, event: Any) -> Any:
            await let_go.wait()
            return event["context"]

        async def late(other: Runtime, host: Runtime) -> None:
            with anyio.fail_after(30):
                while not host._engine.closed:
                    await anyio.sleep(0.01)
            await take_in(other, 2)
            with anyio.move_on_after(3):  # time enough for a host that is none to do something about it
                while len(await fired(other)) < 2:
                    await anyio.sleep(0.05)
            let_go.set()

        lookout.says = slow
        async with (
            Runtime.open(**where) as other,
            anyio.create_task_group() as tasks,
            Runtime.open(**where, host=True) as host,
        ):
            done(await call_as_owner(host, "triggers.create", {"trigger": trigger}))
            await take_in(host, 1)
            with anyio.fail_after(30):
                while await fired(host) != ["completed"]:
                    await anyio.sleep(0.02)
            tasks.start_soon(late, other, host)
        async with Runtime.open(**where, host=True) as host:
            with anyio.move_on_after(20):
                while len(await fired(host)) < 2:
                    await anyio.sleep(0.02)
            assert await fired(host) == ["completed", "completed"]

    anyio.run(main)
