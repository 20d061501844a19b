"""What cannot be taken in now stays with Telegram, and keeps nobody else: no button, no other chat."""

import logging
import sqlite3
from pathlib import Path
from typing import cast

import anyio
import pytest

from metier.doors.telegram import polling
from metier.doors.telegram.held import GIVEN_UP, Held
from metier.doors.telegram.inbound import Inbound, Later
from metier.doors.telegram.update import Pressed, Said, Update
from metier.doors.telegram.window import MOST_TRIES, Window
from metier.kernel import conversation_rows
from telegram_desk import ADA, BEN, EVE, Desk, status, with_desk


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits long before he tries again."""
    monkeypatch.setattr(polling, "_pause", lambda _failures: 0.05)
    monkeypatch.setattr(polling, "_LOOK", 0.05)


class Taking:
    """Takes in what it is given, but for what it was told to keep out."""

    def __init__(self) -> None:
        self.keeps: dict[int, Later] = {}
        """By person."""
        self.taken: list[int] = []
        self.noted: list[str] = []

    async def take(self, update: Update) -> None:
        if not isinstance(update, Pressed) and (later := self.keeps.get(update.user)):
            raise later
        self.taken.append(update.update)

    async def note(self, why: str, user: int, chat: int) -> None:
        self.noted.append(f"{user} {why}")


def window(taking: Taking, pause: float = 0.0) -> Window:
    return Window(cast("Inbound", taking), lambda _tries: pause)


def said(update: int, user: int) -> Said:
    return Said(update=update, user=user, message=update, text="x", at=1)


def press(update: int) -> Pressed:
    return Pressed(update=update, query=str(update), user=ADA, chat=ADA, message=1, data="x")


def test_a_chat_that_has_to_wait_keeps_its_order_and_holds_up_no_other() -> None:
    async def main() -> None:
        taking = Taking()
        taking.keeps[BEN] = Later("there is no room", passes=True, alone=True)
        told = [said(5, ADA), said(6, BEN), said(7, ADA), said(8, BEN), press(9), said(10, ADA)]
        here = window(taking)
        assert await here.take(told) == 6, "the first that waits is not confirmed"
        assert taking.taken == [9, 5, 7, 10]
        assert "there is no room" in here.waits
        assert await here.take([*told[1:], said(11, ADA)]) == 6
        assert taking.taken == [9, 5, 7, 10, 11], "what is told again is not taken in again"
        taking.keeps.clear()
        assert await here.take([*told[1:], said(11, ADA)]) == 12
        assert taking.taken == [9, 5, 7, 10, 11, 6, 8]
        assert here.waits == ""

    anyio.run(main)


def test_while_nobodys_messages_are_taken_in_each_is_not_tried_one_by_one() -> None:
    async def main() -> None:
        taking = Taking()
        tried: list[int] = []
        taken_in = taking.take

        async def take(update: Update) -> None:
            tried.append(update.update)
            await taken_in(update)

        taking.take = take
        taking.keeps = {each: Later("everything is stopped", passes=True) for each in (ADA, BEN)}
        here = window(taking, pause=60.0)
        told = [said(5, ADA), said(6, BEN), press(7), said(8, ADA)]
        for _ in range(3):
            assert await here.take(told) == 5
        assert tried == [7, 5], "the button, and the first message once: the next try is a minute off"

    anyio.run(main)


def test_what_fails_by_itself_is_given_up_in_the_end_and_that_is_noted() -> None:
    async def main() -> None:
        taking = Taking()
        taking.keeps[BEN] = Later("it broke", passes=False)
        here = window(taking)
        offsets = [await here.take([said(5, BEN), said(6, ADA)]) for _ in range(MOST_TRIES)]
        assert offsets == [5] * (MOST_TRIES - 1) + [7]
        assert taking.taken == [6]
        assert taking.noted == [f"{BEN} it could not be taken in and was given up"]

    anyio.run(main)


def test_tg_06_a_message_for_which_there_is_no_room_stays_with_telegram_until_there_is(
    tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(desk: Desk) -> None:
        caplog.set_level(logging.WARNING, "metier.telegram")
        state = desk.telegram.state
        async with desk.running() as door:
            monkeypatch.setattr(conversation_rows, "MOST_RECEIVED", 0)
            state.message(ADA, "one too many")
            before = len(state.offsets)
            await desk.until(lambda: "waits at Telegram" in status(door)["error"])
            await desk.until(lambda: len(state.offsets) > before + 4)
            assert status(door)["state"] == "running"
            assert [each["message"]["text"] for each in state.waiting] == ["one too many"]
            assert desk.messages() == []
            assert len([each for each in caplog.records if "waits" in each.getMessage()]) == 1, "said once"
            monkeypatch.setattr(conversation_rows, "MOST_RECEIVED", 10_000)
            await desk.until(lambda: desk.messages() == [(str(ADA), "one too many")])
            await desk.until(lambda: status(door)["error"] == "" and not state.waiting)

    with_desk(tmp_path, main)


def test_tg_10_an_approver_can_say_no_while_messages_are_held_back_and_says_it_once(
    tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main(desk: Desk) -> None:
        state = desk.telegram.state
        async with desk.running():
            approval = await desk.asked_for("tea")
            await desk.wait(lambda state: any(each.buttons for each in state.sent))
            sent = desk.telegram.last(ADA)
            monkeypatch.setattr(conversation_rows, "MOST_RECEIVED", 0)
            state.message(BEN, "held back")
            await desk.until(lambda: state.offsets and state.waiting)
            state.press(ADA, sent, dict(sent.buttons)["Deny"])
            await desk.wait(lambda state: [text for _, text in state.answers] == ["Denied."])
            assert desk.state(approval) == "denied"
            before = len(state.offsets)
            await desk.until(lambda: len(state.offsets) > before + 4)
            assert len(state.waiting) == 2, "neither is confirmed, so the button was told again"
            assert len(state.answers) == 1
            assert not [each for each in desk.records() if each.tool == "telegram_door.noted"]
            monkeypatch.setattr(conversation_rows, "MOST_RECEIVED", 10_000)
            await desk.until(lambda: desk.messages() == [(str(BEN), "held back")])
            await desk.until(lambda: not state.waiting)
            assert len(state.answers) == 1

    with_desk(tmp_path, main)


CANNOT_BE_WRITTEN = "CREATE TRIGGER full BEFORE INSERT ON message BEGIN SELECT RAISE(ABORT, 'full'); END"
DAMAGED = (
    "INSERT OR REPLACE INTO channel (name, look, skill, connector, config, changed_at)"
    " VALUES ('telegram', 'telegram', 'xpell-agent-skill-telegram', 'telegram', '{', 0)"
)


@pytest.mark.parametrize(
    ("spoil", "mend"),
    [
        (CANNOT_BE_WRITTEN, "DROP TRIGGER full"),
        (DAMAGED, "DELETE FROM channel WHERE name = 'telegram'"),
    ],
)
def test_tg_06_while_what_keeps_messages_has_to_be_mended_they_wait_however_often_they_are_told(
    tmp_path: Path, quick: None, spoil: str, mend: str
) -> None:
    async def main(desk: Desk) -> None:
        state = desk.telegram.state
        async with desk.running() as door:
            kernel = sqlite3.connect(desk.home / "kernel.db", isolation_level=None)
            kernel.execute(spoil)
            state.message(ADA, "precious")
            before = len(state.offsets)
            await desk.until(lambda: "waits at Telegram" in status(door)["error"])
            await desk.until(lambda: len(state.offsets) > before + MOST_TRIES + 3)
            assert len(state.waiting) == 1
            kernel.execute(mend)
            kernel.close()
            await desk.until(lambda: desk.messages() == [(str(ADA), "precious")])
            await desk.until(lambda: status(door)["error"] == "")

    with_desk(tmp_path, main)


def test_what_telegram_gave_up_to_bring_is_not_said_to_wait_for_ever() -> None:
    now = 0.0
    held = Held(lambda: now)
    held.kept_out(ADA, "everything is stopped", alone=False)
    held.kept_out(BEN, "his chat is full", alone=True)
    assert held.waits == "what came in waits at Telegram: everything is stopped"
    held.taken_in(EVE, stored=False)
    assert "stopped" in held.waits, "a button that was heard says nothing of messages"
    held.taken_in(EVE, stored=True)
    assert "his chat is full" in held.waits
    now = GIVEN_UP
    assert held.waits == ""
    held.kept_out(BEN, "his chat is full", alone=True)
    held.taken_in(BEN, stored=True)
    assert held.waits == ""


def test_for_how_many_something_waits_has_a_bound() -> None:
    held = Held()
    for stranger in range(1, 5_000):
        held.kept_out(stranger, "full", alone=True)
    assert len(held._by) == 1_000  # pyright: ignore[reportPrivateUsage]
