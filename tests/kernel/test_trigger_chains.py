"""One firing sets off the next, by whatever way: how many lie behind it goes along, and so does who is counted for it."""

from pathlib import Path

import anyio
import pytest

from firing_kit import Desk, Made, valid_call
from household import Household, alive, kettle, loaded
from metier.catalog.here import owner
from metier.kernel.events import Happened
from metier.kernel.firing_rate import DEEPEST, PER_SOURCE
from metier.kernel.trigger_occasion import of_event
from metier.model.call import Call, Cause, Principal
from metier.model.digest import Json
from metier.model.outcome import Completed, Failed, Outcome
from metier.runtime.inner import Inner, by_skill, inner_call
from metier.runtime.kernel_here import Calling

DONE = Completed(call_id="call_outer", value=None)
BY_CHAT = Cause(firings=2, root="the chat a/7", chat="a/7")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def made(cause: Cause, id: str = "call_1") -> Call:
    return Call(
        id=id, principal=Principal(id="agent:trigger/t", kind="agent"), tool="t", arguments={}, cause=cause
    )


@pytest.mark.anyio
async def test_a_call_inside_of_a_call_has_the_same_cause_and_so_has_what_is_told_of_it_later() -> None:
    """By code of a skill, by a module for somebody else, and by one that was over when it was told of."""
    seen: list[Call] = []

    async def run(call: Call) -> Outcome:
        seen.append(call)
        with inner.under(call):
            return Completed(call_id=call.id, value=None)

    async with anyio.create_task_group() as tasks:
        inner = Inner(run, tasks)
        outer = made(BY_CHAT)
        with inner.under(outer):
            await inner.call(outer.id, "tea", "tea/boil", {})
            await Calling(run, inner).call(outer.principal, "x", {}, parent=outer.id)
        await Calling(run, inner).call(outer.principal, "late", {}, parent=outer.id)
        await Calling(run, inner).call(outer.principal, "of nobody", {}, parent="call_elsewhere")
    assert [each.cause for each in seen] == [BY_CHAT] * 3 + [Cause()]
    assert inner.cause_of(seen[0].id) == BY_CHAT
    agent = inner_call(seen[0], by_skill("tea", outer.principal), "y", {})
    assert agent.cause == BY_CHAT, "however deep it goes"


@pytest.mark.anyio
async def test_a_trigger_on_errors_that_fails_in_a_call_inside_of_its_call_comes_to_an_end(
    tmp_path: Path,
) -> None:
    """What fails is another's call, made for the firing: its caller is a skill, and was never heard of."""
    desk = Desk(tmp_path)
    await desk.create(type="event", events=["error_occurred"], tool="a/b", perMinute=6000)

    async def fails_inside(made: Made) -> Json | Failed:
        inside = f"call_inside_{len(desk.book.made)}"
        desk.book.made.append(
            Made(
                principal=Principal(id="skill:tea", kind="skill"),
                tool="inside",
                arguments={},
                parent=made.call_id,
                surroundings=made.surroundings,
                unattended=True,
                call_id=inside,
                cause=made.cause,
            )
        )
        desk.events.emit("error_occurred", {"call_id": inside, "code": "raised", "principal": "skill:tea"})
        return "the outer one took it well"

    desk.book.answer = fails_inside
    async with desk.running():
        await desk.happens("error_occurred", {"call_id": "c", "code": "raised", "principal": "agent:cli"})
    assert desk.book.tools.count("a/b") == DEEPEST


@pytest.mark.anyio
async def test_a_tool_call_is_as_deep_as_what_set_it_off_whoever_makes_it(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    id = await desk.create(type="tool_use", toolNames=["a/*"], tool="after")
    async with desk.running():
        desk.triggers.after(valid_call("a/b", by="skill:tea", cause=BY_CHAT), DONE)
        await desk.triggers.drain(30)
        assert [each.cause for each in desk.book.made] == [
            Cause(firings=3, root="the chat a/7", chat="a/7", by=id)
        ], "and the chat that began it is counted, not who happened to call"
        desk.triggers.after(valid_call("a/b", cause=Cause(firings=DEEPEST, root="x")), DONE)
        await desk.triggers.drain(30)
    assert len(desk.book.made) == 1


@pytest.mark.anyio
async def test_a_message_that_a_skill_brings_in_while_it_sends_ours_is_part_of_the_chain(
    tmp_path: Path,
) -> None:
    desk = Desk(tmp_path)
    await desk.create(
        type="message", patterns=["again"], channels=["*"], contextTemplate="again", perMinute=6000
    )
    numbers = iter(range(2, 100))

    async def echoes(made: Made) -> Json:
        told: Json = {
            "channel": "loop", "thread": 1, "message": next(numbers), "chat": "7", "author": "x", "text": "again",
            "skill": "echo-skill", "call_id": made.call_id,
        }  # fmt: skip
        desk.events.emit("channels.message.received", told)
        return None

    desk.book.answer = echoes
    async with desk.running():
        await desk.message("again", 1)
    assert desk.book.tools == ["channels.send_message"] * DEEPEST
    assert {each.cause.chat for each in desk.book.made} == {"chat/7"}, "who began it is who is named"


LATE = """
import asyncio
class Late:
    name = 'late'
    def __init__(self, ctx):
        self._ctx = ctx
        self._go = asyncio.Event()
        self._kept = []
    async def ring(self, params, meta):
        async def after():
            await self._go.wait()
            await self._ctx.emit('late.rang', params)
            await self._ctx.execute('late', 'inner', params)
        self._kept.append(asyncio.ensure_future(after()))
    async def inner(self, params, meta):
        await self._ctx.emit('late.inner', params)
    async def go(self, params, meta):
        self._go.set()
async def on_enable(ctx):
    ctx.register_module(Late(ctx))
skill = {'id': 'late', 'version': '1.0.0', 'on_enable': on_enable}
"""


def test_what_a_skill_tells_long_after_its_operation_ended_is_as_deep_as_that_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    me = Principal(id=owner(), kind="human")
    deep = Cause(firings=3, root="the chat a/7", chat="a/7")

    async def act(house: Household) -> None:
        await loaded(house, "late")
        for who, cause in {"a firing": deep, "a person": None}.items():
            assert isinstance(await house.call(me, "late.ring", {"for": who}, cause=cause), Completed)

        def told(name: str) -> dict[str, Happened]:
            return {str(each.payload["for"]): each for each in house.heard if each.name == name}  # type: ignore[index, call-overload]

        assert told("late.rang") == {}, "both are over, and nothing was told yet"
        await house.ask("late.go")
        with anyio.fail_after(20):
            while len(told("late.inner")) < 2:
                await anyio.sleep(0.01)
        for name in ("late.rang", "late.inner"):
            assert (told(name)["a firing"].depth, told(name)["a firing"].cause) == (3, deep)
            assert told(name)["a person"].cause == Cause(), "the control"

    alive(kettle(tmp_path, late=LATE), act)


# --- who is counted


@pytest.mark.parametrize(
    ("name", "payload", "counted"),
    [
        ("error_occurred", {"principal": "skill:tea", "call_id": "c"}, "the skill tea"),
        ("error_occurred", {"principal": "agent:cli"}, "agent:cli"),
        ("settings.skill.updated", {"skill": "tea"}, "the skill tea"),
        ("channels.message.sent", {"channel": "t", "chat": "7"}, "the chat t/7"),
        ("triggers.fired", {"trigger": "trg_1"}, "the trigger trg_1"),
        ("heartbeat_check", {}, "Metier's heartbeat_check"),
        ("heartbeat_check", None, "Metier's heartbeat_check"),
    ],
)
def test_of_our_own_events_who_they_are_about_is_counted(name: str, payload: Json, counted: str) -> None:
    happened = Happened(name=name, source="metier", payload=payload)
    assert of_event(happened).counted == counted
    assert of_event(happened, Cause(firings=1, root="the chat a/7")).counted == "the chat a/7"


@pytest.mark.anyio
async def test_a_skill_that_fails_without_end_uses_up_nothing_of_what_others_set_off(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    for number in range(4):
        await desk.create(type="event", events=["error_occurred"], tool=f"t{number}")
    await desk.create(type="event", events=["heartbeat_check"], tool="beat")
    loud: Json = {"principal": "skill:loud", "code": "raised"}
    async with desk.running():
        for _ in range(PER_SOURCE):
            desk.events.emit("error_occurred", loud)
        await desk.triggers.drain(30)
        assert len(desk.book.made) == PER_SOURCE, "the control: there is a bound"
        await desk.happens("heartbeat_check", {})
        assert desk.book.tools[-1] == "beat"
