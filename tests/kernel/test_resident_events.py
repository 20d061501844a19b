"""Modules of skills that live are told what happens: what may be told, how much of it, and that nobody is held up."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from household import KETTLE, Household, alive, configured, kettle, loaded, script_package, trusted
from machine import Machine
from metier.kernel import resident_life
from metier.kernel.events import OURS, Happened
from metier.kernel.firing_rate import DEEPEST
from metier.kernel.resident_events import MOST_WAITING, Hearing, told_to

POT = KETTLE.replace("kettle", "pot").replace("['locks.open']", "[]")
HEARS = "    def __init__(self, ctx): self._ctx = ctx\n"
LISTENING = POT.replace(
    HEARS,
    HEARS
    + "    heard = []\n"
    + "    async def on_event(self, name, payload, meta): self.heard.append([name, payload, meta['source']])\n",
).replace("return {'boiled': params, 'meta': meta}", "return self.heard")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def happened(name: str, payload: Any = None, source: str = OURS, depth: int = 0) -> Happened:
    return Happened(name=name, source=source, payload=payload, depth=depth)


# --- what may be told


@pytest.mark.parametrize(
    "name",
    ["channels.message.received", "channels.message.sent", "channels.message.failed", "approvals.waiting", "approvals.decided",
     "session_start", "session_end", "error_occurred", "anything.new"],
)  # fmt: skip
def test_no_module_hears_of_messages_approvals_sessions_and_errors(name: str) -> None:
    assert told_to("pot", happened(name, {"skill": "pot", "text": "private"})) is None
    theirs = told_to("pot", happened(name, {"text": "mine"}, source="kettle"))
    assert theirs is not None, "what another skill calls so is that skill's own event"
    assert theirs.source == "kettle"


def test_of_our_own_events_a_module_hears_which_skill_they_are_about_and_no_more() -> None:
    said = {"skill": "kettle", "error": "raised: token sk-1", "call_id": "call_1"}
    for name in (
        "skills.enabled",
        "skills.disabled",
        "skills.failed",
        "skill_installed",
        "skill_uninstalled",
    ):
        heard = told_to("pot", happened(name, said))
        assert heard is not None
        assert heard.payload == {"skill": "kettle"}
    heard = told_to("pot", happened("heartbeat_check", said))
    assert heard is not None
    assert heard.payload == {}


def test_that_settings_changed_is_told_to_the_skill_whose_they_are() -> None:
    event = happened("settings.skill.updated", {"skill": "pot"})
    assert told_to("pot", event) is not None
    assert told_to("kettle", event) is None


def test_what_came_round_too_often_is_told_no_further() -> None:
    assert told_to("pot", happened("ping", source="kettle", depth=DEEPEST - 1)) is not None
    assert told_to("pot", happened("ping", source="kettle", depth=DEEPEST)) is None


def test_what_finds_the_queue_full_is_dropped_counted_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        hearing = Hearing("pot")
        hearing.take(happened("drip", 0, source="kettle"))
        hearing.wanted = True
        for number in range(MOST_WAITING + 50):
            hearing.take(happened("drip", number, source="kettle"))
        assert hearing.dropped == 50
        heard: list[Any] = []

        async def tell(event: Happened) -> None:
            heard.append(event.payload)

        with anyio.move_on_after(0.1):
            await hearing.run(tell)
        assert heard == [*range(MOST_WAITING)], "in order, and nothing from before it listened"

    anyio.run(main)
    assert [each for each in caplog.messages if "is not told of some events" in each] == [
        "the skill pot is not told of some events: it is slower than what happens"
    ]


# --- told for real


def test_a_module_that_listens_hears_what_another_skill_emits_and_whose_it_is(tmp_path: Path) -> None:
    async def act(house: Household) -> None:
        await loaded(house, "kettle", "pot")
        payload = {"source": "metier", "degrees": 100}
        await house.ask("kettle.emit", name="water.boils", payload=payload)
        house.events.emit("channels.message.received", {"text": "private"})
        house.events.emit("heartbeat_check", {"at": 1})
        heard: list[Any] = []
        with anyio.fail_after(20):
            while ["heartbeat_check", {}, "metier"] not in heard:
                heard = await house.ask("pot.boil")
        assert [each for each in heard if each[0] != "skills.enabled"] == [
            ["water.boils", payload, "kettle"],
            ["heartbeat_check", {}, "metier"],
        ]
        assert "pot.boil" in house.modules.tools
        assert "pot.on_event" not in house.modules.tools, "it is told, and is no operation"

    alive(kettle(tmp_path, pot=LISTENING), act)


PING = """
export const skill = { id: "NAME", version: "1", async onEnable(ctx) {
  let heard = 0;
  ctx.registerModule({ name: "NAME", begin: () => ctx.emit("NAME.ping", {}), count: () => heard, onEvent(name, payload, meta) {
    if (meta.source === "NAME" || meta.source === "metier") return;
    heard += 1;
    ctx.emit("NAME.ping", {});
  } });
} };
"""


@pytest.mark.parametrize("language", ["python", "typescript"])
def test_skills_that_answer_each_others_events_come_to_a_bottom(tmp_path: Path, language: str) -> None:
    """Each answers the other's event with one, without waiting for it: for ever, if nobody counted."""
    answering = KETTLE.replace(
        HEARS,
        HEARS
        + "    def on_event(self, name, payload, meta):\n        if meta['source'] not in ('kettle', 'metier'):\n"
        + "            self._ctx.emit('kettle.ping')\n",
    )
    if language == "python":
        machine = kettle(
            tmp_path, answering, pot=answering.replace("kettle", "pot").replace("['locks.open']", "[]")
        )
    else:
        machine = Machine(tmp_path)
        for name in ("kettle", "pot"):
            script_package(machine, name, PING.replace("NAME", name))
        configured(machine, "kettle", "pot", enabled=["kettle", "pot"])
        trusted(machine, "kettle", "pot")

    async def act(house: Household) -> None:
        await loaded(house, "kettle", "pot")
        with anyio.fail_after(20):
            for number in range(1, 4):
                if language == "python":
                    await house.ask("kettle.emit", name="kettle.ping")
                else:
                    await house.ask("kettle.begin")
                while (
                    len(pings := [each for each in house.heard if each.name.endswith(".ping")]) < 5 * number
                ):
                    await anyio.sleep(0.01)
        await anyio.sleep(0.2)
        pings = [each for each in house.heard if each.name.endswith(".ping")]
        assert [each.depth for each in pings] == [0, 1, 2, 3, 4] * 3, "and whoever begins anew is heard again"

    alive(machine, act)


def test_one_that_never_takes_an_event_hears_no_more_and_goes_on_living(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(resident_life, "OPERATION_SECONDS", 0.5)
    hanging = LISTENING.replace("meta['source']])\n", "meta['source']]); await asyncio.sleep(3600)\n", 1)

    async def act(house: Household) -> None:
        await loaded(house, "kettle", "pot")
        before = len(house.heard)
        for number in range(50):
            house.events.emit("skill_installed", {"skill": f"s{number}"})
        with anyio.fail_after(20):
            while "hears of no events until it is started anew" not in caplog.text:
                await anyio.sleep(0.02)
        assert len(await house.ask("pot.boil")) == 1
        assert [each.name for each in house.heard[before:]] == ["skill_installed"] * 50, (
            "it did not die of it"
        )

    alive(kettle(tmp_path, pot=hanging), act)
