"""One host ends and the next begins: what is done for a message is done by one of them, and nothing is lost between them."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from firing_kit import Desk, Made
from lookout import Lookout
from metier.kernel import trigger_rounds
from metier.kernel.host_role import holder
from metier.model.digest import Json
from metier.model.outcome import Completed, Failed, Refused
from metier.runtime import Runtime, hosting_here
from metier.runtime.as_owner import call_as_owner

TRIGGER: Json = {
    "name": "n",
    "type": "message",
    "patterns": ["boil"],
    "tool": "kettle/boil",
    "arguments": {"cups": 1},
}
MESSAGE: dict[str, Json] = {
    "channel": "telegram",
    "chat_id": "7",
    "message_id": "1",
    "author": "anna",
    "text": "boil",
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def lookout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lookout:
    made = Lookout(tmp_path, monkeypatch)
    made.pretend()
    return made


class Kettle:
    """Boils until it is told to be done."""

    def __init__(self, lookout: Lookout) -> None:
        self.at_once = self.most_at_once = self.begun = 0
        self.began = anyio.Event()
        self.done = anyio.Event()
        self._real: Any = lookout.box._report
        private: Any = lookout.box
        private._report = self._report

    async def _report(self, job: Any) -> Any:
        self.begun += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.began.set()
        try:
            await self.done.wait()
        finally:
            self.at_once -= 1
        return await self._real(job)


async def outcomes(runtime: Runtime, state: str) -> list[str]:
    """How the firings ended, latest first, once the message is done with."""
    found: list[str] = []
    with anyio.fail_after(30):
        while not found or found[0] != state:
            answer = await call_as_owner(runtime, "triggers.get", {"id": "n"})
            assert isinstance(answer, Completed)
            value: Any = answer.value
            found = [each["outcome"] for each in value["firings"]]
            await anyio.sleep(0.02)
    return found


def test_the_role_is_given_back_once_what_is_under_way_for_messages_is_done(lookout: Lookout) -> None:
    async def main() -> None:
        kettle = Kettle(lookout)
        home = str(lookout.machine.state)
        async with Runtime.open(project=str(lookout.machine.project), watch=False) as other:
            assert isinstance(await call_as_owner(other, "triggers.create", {"trigger": TRIGGER}), Completed)
            async with hosting_here(lookout.machine.settings, (), lambda _: None) as hosting:
                assert hosting is not None
                await call_as_owner(other, "channels.route_inbound_message", MESSAGE)
                await kettle.began.wait()
                hosting.end()
                await anyio.sleep(0.3)
                assert not hosting.ended.is_set()
                assert holder(home) is not None, "nobody else can be the host meanwhile"
                kettle.done.set()
                await hosting.ended.wait()
                async with hosting_here(lookout.machine.settings, (), lambda _: None) as second:
                    assert second is not None
                    assert await outcomes(other, "completed") == ["completed"]
        assert kettle.begun == 1

    anyio.run(main)


def test_what_takes_too_long_is_cut_off_and_done_by_the_next_host_alone(
    lookout: Lookout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trigger_rounds, "LAST_SECONDS", 0.05)

    async def main() -> None:
        kettle = Kettle(lookout)
        async with Runtime.open(project=str(lookout.machine.project), watch=False) as other:
            assert isinstance(await call_as_owner(other, "triggers.create", {"trigger": TRIGGER}), Completed)
            async with hosting_here(lookout.machine.settings, (), lambda _: None) as hosting:
                assert hosting is not None
                await call_as_owner(other, "channels.route_inbound_message", MESSAGE)
                await kettle.began.wait()
                hosting.end()
                await hosting.ended.wait()
                assert kettle.at_once == 0
                kettle.began = anyio.Event()
                async with hosting_here(lookout.machine.settings, (), lambda _: None) as second:
                    assert second is not None
                    await kettle.began.wait()
                    kettle.done.set()
                    found = await outcomes(other, "completed")
                    assert found == ["completed", "under way, or cut off"]
        assert (kettle.begun, kettle.most_at_once) == (2, 1)

    anyio.run(main)


@pytest.mark.anyio
async def test_what_was_not_begun_or_waits_to_be_tried_again_is_left_to_the_next_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trigger_rounds, "_PAUSE", 0.01)
    desk = Desk(tmp_path)
    await desk.create(type="message", patterns=["x"], tool="act")
    await desk.create(type="event", events=["e"], tool="event")
    tried = anyio.Event()

    async def unheard(_: Made) -> Json | Failed | Refused:
        tried.set()
        return Refused(call_id="c", code="setup_unusable", reasons=("this runtime is closed",))

    desk.book.answer = unheard
    async with desk.running():
        await desk.message("x", 1)
        await tried.wait()
        await desk.triggers.finish()
        made = len(desk.book.made)
        await desk.message("x", 2)
        await anyio.sleep(0.1)
        assert len(desk.book.made) == made
        await desk.happens("e")
    assert desk.book.tools[-1] == "event", "the control: what is no message is done where it came up"
    assert desk.inbox.handled == []
    again = Desk(tmp_path)
    async with again.running():
        await again.message("x", 1)
        await again.message("x", 2)
    assert again.book.tools == ["act", "act"]
    assert again.inbox.handled == [1, 2]
