"""How often triggers fire holds for all processes together, counts nothing that did not happen, and loops come to their end."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from firing_kit import Desk, Made, valid_call
from metier.errors import StateError
from metier.kernel import firing
from metier.kernel.firing_guess import RIGHT_AFTER_SENDING, Guesses, chat_key
from metier.kernel.firing_rate import MOST_ROUNDS
from metier.kernel.trigger_store import one_trigger
from metier.model.digest import Json
from metier.model.outcome import GATE_HOOK_UNHEARD, Completed, Failed, Refused

DONE = Completed(call_id="call_outer", value=None)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be handled is taken up again at once."""
    monkeypatch.setattr("metier.kernel.trigger_rounds._PAUSE", 0.01)


async def until_handled(desk: Desk, message: int) -> None:
    with anyio.fail_after(20):
        while message not in desk.inbox.handled:
            await anyio.sleep(0.01)


# --- what could not begin is not counted


def once(monkeypatch: pytest.MonkeyPatch, desk: Desk) -> None:
    """The next firing cannot be written down: somebody holds the file."""
    real: Any = firing.begun
    left = iter([StateError("the disk is full")])

    def begun(*given: Any, **more: Any) -> Any:
        for fault in left:
            raise fault
        return real(*given, **more)

    monkeypatch.setattr(firing, "begun", begun)


@pytest.mark.anyio
@pytest.mark.parametrize("bound", [{"cooldownMs": 600_000}, {"perMinute": 1}, {}], ids=str)
async def test_a_message_whose_firing_could_not_begin_fires_later_however_seldom_that_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: dict[str, Json]
) -> None:
    desk = Desk(tmp_path)
    await desk.create(type="message", patterns=["x"], tool="act", **bound)
    once(monkeypatch, desk)
    async with desk.running():
        await desk.message("x", 5)
        await until_handled(desk, 5)
    assert desk.book.tools == ["act"]


@pytest.mark.anyio
async def test_who_stands_in_the_place_of_others_does_so_though_it_could_not_begin_at_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(tmp_path)
    await desk.create(type="message", patterns=["x"], tool="kept from firing")
    await desk.create(type="message", patterns=["x"], timing="instead", tool="instead", cooldownMs=600_000)
    once(monkeypatch, desk)
    async with desk.running():
        await desk.message("x", 5)
        await until_handled(desk, 5)
    assert desk.book.tools == ["instead"]


@pytest.mark.anyio
async def test_a_message_waits_while_another_process_holds_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(tmp_path)
    await desk.create(type="message", patterns=["x"], tool="act", cooldownMs=600_000)
    with desk.store.writing() as connection:
        connection.execute("PRAGMA busy_timeout = 50")
    with closing(sqlite3.connect(desk.store.path, isolation_level=None)) as other:
        async with desk.running():
            other.execute("BEGIN IMMEDIATE")
            await desk.message("x", 5)
            assert desk.book.tools == []
            assert desk.inbox.handled == []
            other.execute("ROLLBACK")
            await until_handled(desk, 5)
    assert desk.book.tools == ["act"]


# --- a refusal that is nobody's word


def refused(code: Any, remedy: str = "") -> Refused:
    return Refused(call_id="c", code=code, reasons=("as it happens",), remedy=remedy)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "word",
    [
        refused("record_unavailable"),
        refused("setup_unusable"),
        refused("changed_meanwhile"),
        refused("forbidden", GATE_HOOK_UNHEARD),
    ],
    ids=lambda each: each.code,
)
@pytest.mark.parametrize("sends", [False, True], ids=["calls", "only sends"])
async def test_a_message_whose_call_nobody_could_judge_is_taken_up_until_somebody_does(
    tmp_path: Path, word: Refused, sends: bool
) -> None:
    desk = Desk(tmp_path)
    does: dict[str, Json] = {"contextTemplate": "yes"} if sends else {"tool": "act"}
    id = await desk.create(type="message", patterns=["x"], cooldownMs=600_000, **does)
    answers: Iterator[Json | Refused] = iter([word] * 5 + ["done"])  # more often than a host may be killed

    async def answer(_: Made) -> Json | Failed | Refused:
        return next(answers)

    desk.book.answer = answer
    async with desk.running():
        await desk.message("x", 5)
        await until_handled(desk, 5)
        kept = one_trigger(desk.store, id)
        assert kept.fired == 1, "what came to nothing is not counted"
        assert kept.last_outcome.startswith("completed")
        assert len((await desk.do("get", id=id))["firings"]) == 1
        desk.book.answer = None
        await desk.message("x", 6)
    assert len(desk.book.made) == 6, "and it rests after the one that came to its end"
    assert desk.inbox.handled == [5, 6]


@pytest.mark.anyio
async def test_a_no_ends_a_message_and_so_does_what_is_no_message(tmp_path: Path) -> None:
    """The control: what was judged is over, and events are not kept."""
    desk = Desk(tmp_path)
    await desk.create(type="message", patterns=["x"], tool="act")
    event = await desk.create(type="event", events=["e"], tool="act")

    async def no(_: Made) -> Json | Failed | Refused:
        return refused("forbidden")

    async def unheard(_: Made) -> Json | Failed | Refused:
        return refused("record_unavailable")

    desk.book.answer = no
    async with desk.running():
        await desk.message("x", 5)
        assert desk.inbox.handled == [5]
        desk.book.answer = unheard
        await desk.happens("e")
    assert len(desk.book.made) == 2
    assert one_trigger(desk.store, event).last_outcome.startswith("refused (record_unavailable)")


# --- for all processes together


@pytest.mark.anyio
async def test_a_trigger_fires_as_often_as_it_may_in_all_processes_together(tmp_path: Path) -> None:
    first = Desk(tmp_path)
    await first.create(type="tool_use", toolNames=["a/*"], tool="often", perMinute=2)
    await first.create(type="tool_use", toolNames=["a/*"], tool="rests", cooldownMs=600_000)
    fired: list[str] = []
    for _ in range(5):
        desk = Desk(tmp_path)  # as `metier call a/b` five times
        async with desk.running():
            desk.triggers.after(valid_call("a/b"), DONE)
            await desk.triggers.drain(30)
        fired += desk.book.tools
    assert sorted(fired) == ["often", "often", "rests"]


@pytest.mark.anyio
async def test_one_chat_sets_off_as_much_as_it_may_also_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metier.kernel.firing_rate.PER_SOURCE", 3)
    desk = Desk(tmp_path)
    for name in ("a", "b"):
        await desk.create(type="message", patterns=["x"], tool=name, perMinute=2)
    for start in (1, 11):
        desk = Desk(tmp_path)
        async with desk.running():
            for number in range(start, start + 4):
                await desk.message("x", number)
            await desk.message("x", start + 9, chat="another")
    with desk.store.reading() as connection:
        (firings,) = connection.execute("SELECT count(*) FROM firing").fetchone()
        told = connection.execute("SELECT source FROM fired_lately").fetchall()
    assert firings == 4, "three of one chat and, by the bound of each trigger, one more of the other"
    assert not any("chat" in source for (source,) in told), "who is counted is not written down as he is"


@pytest.mark.anyio
async def test_a_clock_that_was_wrong_lets_nothing_rest_for_years(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    id = await desk.create(type="message", patterns=["x"], tool="act", cooldownMs=600_000)
    with desk.store.writing() as connection:
        connection.execute("UPDATE trigger SET last_fired = ?", (time.time() + 86_400 * 365,))
    async with desk.running():
        await desk.message("x", 5)
        await desk.message("x", 6)
    assert desk.book.tools == ["act"], "and then it rests as it should"
    assert "it rests for 600 s" in one_trigger(desk.store, id).last_outcome


# --- loops by way of a skill's channel


class Loop:
    """A skill whose channel brings back what was sent there, and does not say so."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.number = 1

    def bring(self, chat: str = "7", **more: Json) -> None:
        self.number += 1
        self.desk.events.emit(
            "channels.message.received",
            {"channel": "loop", "thread": 1, "message": self.number, "chat": chat, "author": "x", "text": "again",
             "skill": "echo-skill", "call_id": "call_not_said", **more},
        )  # fmt: skip


@pytest.mark.anyio
@pytest.mark.parametrize(
    "does",
    [{"tool": "echo.ring"}, {"tool": "other/tool"}, {"contextTemplate": "again"}],
    ids=["by its tool", "by another", "by a reply"],
)
async def test_what_a_skills_channel_brings_back_does_not_go_round_for_ever(
    tmp_path: Path, does: dict[str, Json]
) -> None:
    desk = Desk(tmp_path)
    loop = Loop(desk)
    id = await desk.create(type="message", patterns=["again"], channels=["loop"], perMinute=6000, **does)

    async def answer(_: Made) -> Json | Failed | Refused:
        if len(desk.book.made) < 200:
            loop.bring()
        return None

    desk.book.answer = answer
    async with desk.running():
        loop.bring()
        await desk.triggers.drain(30)
    assert len(desk.book.made) == MOST_ROUNDS
    assert f"it went round {MOST_ROUNDS} times" in one_trigger(desk.store, id).last_outcome


@pytest.mark.anyio
async def test_a_lively_channel_is_no_loop(tmp_path: Path) -> None:
    """Many chats at one time, and one in which much waited for its turn."""
    desk = Desk(tmp_path)
    loop = Loop(desk)
    await desk.create(type="message", patterns=["again"], channels=["loop"], tool="echo.ring", perMinute=6000)
    async with desk.running():
        for number in range(40):
            loop.bring(chat=f"c{number}")
            await anyio.lowlevel.checkpoint()
        await desk.triggers.drain(30)
        for _ in range(40):
            loop.bring(at=time.time() - 60)
            await desk.triggers.drain(30)
    assert len(desk.book.made) == 80


def test_a_chat_is_waited_for_until_what_was_sent_there_is_out(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000.0
    monkeypatch.setattr("metier.kernel.firing_guess.time.monotonic", lambda: now)
    guesses, chat = Guesses(), chat_key("loop", "7")
    works = guesses.begin(frozenset({chat, "skill:loop"}), 3)
    now += 5
    assert (guesses.behind(chat), guesses.behind("skill:loop"), guesses.behind("skill:other")) == (3, 3, 0)
    assert guesses.behind(chat, age=6) == 0, "it was there before"
    guesses.end(works)
    now += RIGHT_AFTER_SENDING - 0.1
    assert (guesses.behind(chat), guesses.behind("skill:loop")) == (3, 0)
    now += 10
    assert guesses.behind(chat) == 0
    guesses.still(chat)  # it was sent only now
    assert guesses.behind(chat) == 3
    guesses.still(chat_key("loop", "8"))
    assert guesses.behind(chat_key("loop", "8")) == 0
