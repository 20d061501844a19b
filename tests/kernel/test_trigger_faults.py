"""What happens to triggers when something breaks: the host is killed, the file cannot be used, a value is far too large, a fault of ours."""

import time
from pathlib import Path
from typing import Any

import pytest

from firing_kit import Desk, no_skills, valid_call
from metier.kernel import firing_store
from metier.kernel.firing_rate import Often
from metier.kernel.firing_store import KEPT, begun, earlier, ended, stands_in
from metier.kernel.schedule import read as read_schedule
from metier.kernel.schedule_firing import ScheduleFiring
from metier.kernel.schedule_store import KeptSchedule
from metier.kernel.trigger_template import LONGEST_FILLED, MOST_FILLED, TooMuch, filled
from metier.model.digest import Json
from metier.model.outcome import Completed, Refused

DONE = Completed(call_id="call_outer", value={"said": "fine"})
BROKEN = (RuntimeError("broken"), OSError("no disk"), KeyError("odd"))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def three(desk: Desk, **instead: Json) -> str:
    """One of each timing, on the same message; the id of the one that fires instead."""
    await desk.create(type="message", patterns=["x"], timing="before", tool="first")
    await desk.create(type="message", patterns=["x"], tool="kept-from-firing")
    return await desk.create(type="message", patterns=["x"], timing="instead", tool="instead", **instead)


# --- the host is killed


@pytest.mark.anyio
@pytest.mark.parametrize("meanwhile", ["nothing", "disabled", "removed"])
async def test_what_was_kept_from_firing_does_not_fire_after_a_crash(tmp_path: Path, meanwhile: str) -> None:
    """It is killed after the one that stood in the others' place fired, and before the message was called handled."""
    desk = Desk(tmp_path)
    id = await three(desk)
    desk.inbox.mark_handled = _never  # type: ignore[method-assign]
    async with desk.running():
        await desk.message("x", 5)
    assert desk.book.tools == ["first", "instead"]
    if meanwhile == "disabled":
        await desk.do("disable", id=id)
    elif meanwhile == "removed":
        await desk.do("remove", id=id)
    again = Desk(tmp_path)
    async with again.running():
        await again.message("x", 5)
        assert again.book.tools == [], "each was fired for it before, or kept from it"
        assert again.inbox.handled == [5]
        assert stands_in(again.store, 5) is None, "nothing of it is kept any longer"
        await again.message("x", 6)
    assert ("kept-from-firing" in again.book.tools) is (meanwhile != "nothing"), "the control"


@pytest.mark.anyio
async def test_who_stood_in_their_place_and_was_cut_off_does_so_again(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    id = await three(desk)
    assert begun(desk.store, id, 5.0, 1, Often(source="x"), instead_of=5)[0]  # and then the host was killed
    async with desk.running():
        await desk.message("x", 5)
    assert desk.book.tools == ["first", "instead"]


@pytest.mark.anyio
async def test_where_none_stood_in_their_place_none_does_so_after_a_crash(tmp_path: Path) -> None:
    """It rested then, and could fire now: those after it were fired, and the chat is not answered twice."""
    desk = Desk(tmp_path)
    id = await three(desk, cooldownMs=600_000)
    with desk.store.writing() as connection:
        connection.execute("UPDATE trigger SET last_fired = ? WHERE id = ?", (time.time(), id))
    desk.inbox.mark_handled = _never  # type: ignore[method-assign]
    async with desk.running():
        await desk.message("x", 5)
    assert desk.book.tools == ["first", "kept-from-firing"]
    with desk.store.writing() as connection:
        connection.execute("UPDATE trigger SET last_fired = 0 WHERE id = ?", (id,))
    again = Desk(tmp_path)
    async with again.running():
        await again.message("x", 5)
        assert again.book.tools == []
        await again.message("x", 6)
    assert again.book.tools == ["first", "instead"], "the control"


async def _never(_: int) -> None:
    raise RuntimeError("killed")


# --- what is kept of firings


@pytest.mark.anyio
async def test_a_busy_trigger_pushes_out_nothing_of_what_is_kept_of_a_quiet_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(firing_store, "KEPT", 20)
    desk = Desk(tmp_path)
    quiet = await desk.create(type="message", patterns=["x"], tool="quiet")
    busy = await desk.create(type="message", patterns=["y"], tool="busy")

    def fired(what: str, due: float) -> None:
        number, _ = begun(desk.store, what, due, 1, Often(source=str(due)))
        ended(desk.store, "trigger", what, number, "completed", "")

    fired(quiet, 1.0)
    for number in range(250):
        fired(busy, 1_000.0 + number)
    fired(quiet, 2.0)
    assert earlier(desk.store, quiet, 1.0) == (1, True), "so the same message does not fire it twice"
    assert earlier(desk.store, busy, 1_249.0) == (1, True)
    assert earlier(desk.store, busy, 1_000.0) == (0, False), "the control: the busy one's own are let go of"
    with desk.store.reading() as connection:
        (rows,) = connection.execute("SELECT count(*) FROM firing WHERE what = ?", (busy,)).fetchone()
    assert rows <= 20 + 100 < KEPT


# --- a fault of ours


@pytest.mark.anyio
@pytest.mark.parametrize("fault", BROKEN, ids=lambda each: type(each).__name__)
async def test_no_fault_of_what_looks_on_reaches_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fault: Exception
) -> None:
    desk = Desk(tmp_path)
    for timing in ("before", "after"):
        await desk.create(type="tool_use", toolNames=["a/b"], timing=timing, tool=timing)
    async with desk.running():
        with monkeypatch.context() as broken:
            broken.setattr("metier.kernel.trigger_around.of_tool", _raising(fault))
            assert await desk.triggers.before(valid_call("a/b")) is None
            await desk.triggers.begins(valid_call("a/b"))
            desk.triggers.after(valid_call("a/b"), DONE)
        assert "triggers before a/b failed" in caplog.text
        assert "triggers after a/b failed" in caplog.text
        await desk.triggers.begins(valid_call("a/b"))
        desk.triggers.after(valid_call("a/b"), DONE)
        await desk.triggers.drain(30)
    assert desk.book.tools == ["before", "after"], "the control"


@pytest.mark.anyio
@pytest.mark.parametrize("fault", BROKEN, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("where", ["trigger_around.of_tool", "trigger_around.set_off", "firing.begun"])
async def test_a_call_is_refused_where_a_fault_hides_what_stands_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception, where: str
) -> None:
    desk = Desk(tmp_path)
    await desk.create(type="tool_use", toolNames=["a/b"], timing="instead", tool="instead")
    await desk.triggers.load()
    monkeypatch.setattr(f"metier.kernel.{where}", _raising(fault))
    refused = await desk.triggers.before(valid_call("a/b"))
    assert isinstance(refused, Refused)
    assert refused.code in ("setup_unusable", "replaced")
    assert refused.remedy
    assert "Error" not in str(refused), "nothing of the fault is told to who called"
    assert await desk.triggers.before(valid_call("a/c")) is None, "the control: it concerns nobody else"


@pytest.mark.anyio
async def test_a_message_on_which_we_fail_is_tried_a_few_times_and_keeps_no_other_from_being_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metier.kernel.trigger_rounds._PAUSE", 0.0)
    desk = Desk(tmp_path)
    await desk.create(type="message", patterns=["x"], tool="a/b")
    tried: list[int] = []
    from metier.kernel import trigger_around

    real: Any = trigger_around.set_off

    def odd(triggers: Any, occasion: Any) -> Any:
        if occasion.message == 1:
            tried.append(1)
            raise KeyError("odd")
        return real(triggers, occasion)

    monkeypatch.setattr(trigger_around, "set_off", odd)
    async with desk.running():
        for number in (1, 2, 3):
            await desk.message("x", number)
            await desk.triggers.drain(30)
    assert desk.inbox.handled == [2, 3], "that one is told again after the next start"
    assert 1 <= len(tried) <= 4


def _raising(fault: Exception) -> Any:
    def broken(*_: Any, **__: Any) -> Any:
        raise fault

    return broken


# --- far too large


def test_what_is_filled_in_is_bounded_in_sum_and_each_text_by_itself() -> None:
    around: dict[str, Json] = {"message": {"text": "x" * LONGEST_FILLED}}
    most = MOST_FILLED // LONGEST_FILLED
    fits = filled(["{{message.text}}"] * most, around, set())
    assert isinstance(fits, list)
    assert sum(len(str(each)) for each in fits) == MOST_FILLED
    with pytest.raises(TooMuch, match="more than 262,144 characters"):
        filled({"a": ["{{message.text}}"] * most, "b": {"c": "{{message.text}}"}}, around, set())
    once = filled("{{message.text}}" * 100, around, set())
    assert len(str(once)) == LONGEST_FILLED


def test_a_place_is_made_a_text_once_however_often_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from metier.kernel import trigger_template

    made: list[Json] = []
    real = trigger_template.plain
    monkeypatch.setattr(trigger_template, "plain", lambda value: made.append(value) or real(value))
    filled(["{{event.payload}}"] * 1_000, {"event": {"payload": {"a": 1}}}, set())
    assert len(made) == 1


@pytest.mark.anyio
async def test_a_firing_that_would_be_filled_with_too_much_is_refused_and_that_is_kept(
    tmp_path: Path,
) -> None:
    desk = Desk(tmp_path)
    many: Json = {"q": ["{{message.text}}"] * 3_000}
    id = await desk.create(type="message", patterns=["x"], tool="a/b", arguments=many, contextTemplate="sent")
    async with desk.running():
        await desk.message("x" * 60_000)
        assert desk.book.made == []
        assert desk.inbox.handled == [1]
        shown = await desk.do("get", id=id)
        assert shown["last_outcome"].startswith("refused (invalid_arguments): its places would be filled")
        assert shown["firings"][0]["outcome"] == shown["last_outcome"]
        await desk.message("x", 2)
        assert desk.book.tools == ["a/b", "channels.send_message"], "the control: of a small one it is done"
    (would,) = (await desk.do("test", text="x" * 60_000))["would_fire"]
    assert "more than 262,144 characters" in would["problem"]


@pytest.mark.anyio
async def test_a_schedule_that_would_be_filled_with_too_much_is_refused(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    teller: Any = None
    firing = ScheduleFiring(
        store=desk.store, events=desk.events, calls=desk.book, catalog=no_skills, teller=teller
    )
    for places, refused in ((3_000, True), (3, False)):
        schedule = read_schedule(
            {"name": "s", "type": "interval", "intervalMs": 60_000, "tool": "a/b",
             "arguments": {"q": ["{{schedule.last}}"] * places}}
        )  # fmt: skip
        kept = KeptSchedule(
            id="sch_1", owner="human:me", skill="", enabled=True, schedule=schedule, created_at=0.0, next_due=None,
            last_due=None, last_outcome="x" * 300, missed=0, accounted=0.0,
        )  # fmt: skip
        outcome = await firing.call(kept, schedule, 0.0)
        assert isinstance(outcome, Refused) is refused
    (made,) = desk.book.made
    assert (made.cause.firings, made.cause.root) == (1, "the schedule sch_1"), (
        "and it is a firing like any other"
    )
