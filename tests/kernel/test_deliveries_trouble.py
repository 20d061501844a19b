"""Connectors of skills that raise, hang or are not let through: what is told about the message, and who else has to wait."""

from pathlib import Path

import anyio
import pytest

import metier.kernel.delivery_rows as delivery_rows
from metier.kernel.deliveries import FAILED, MOST_LATE, RETRIED, SENT
from metier.kernel.delivery_ports import NotNow
from metier.kernel.operation import Asked, OperationError
from metier.kernel.resident_life import MODULE_DISABLED, NOT_READY
from metier.model.call import Principal
from metier.model.digest import Json
from metier.model.outcome import GATE_HOOK, GATE_HOOK_UNHEARD, RULES_UNUSABLE, RefusalCode, Refused
from switchboard import OWNER, Post, Switchboard, private

LATE = OperationError(
    "TimedOut", "echo.send did not answer within 30 s; the skill echo-skill is started anew"
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(delivery_rows, "_FIRST_PAUSE", 0.05)
    monkeypatch.setattr("metier.kernel.delivery_skill._LONG_PAUSE", 0.05)
    return private(tmp_path)


class Desk:
    """The connector of a skill: it does what it is told for each text, once for each thing to do."""

    def __init__(self) -> None:
        self.faults: dict[str, list[OperationError]] = {}
        self.tried: list[str] = []
        self.sent: list[str] = []
        self.at_once: list[frozenset[str]] = []
        self._open: set[str] = set()

    async def send(self, asked: Asked) -> Json:
        text = str(asked.arguments["text"])
        self.tried.append(text)
        self._open.add(text)
        self.at_once.append(frozenset(self._open))
        try:
            await anyio.sleep(0.02)
            if self.faults.get(text):
                raise self.faults[text].pop()
        finally:
            self._open.discard(text)
        self.sent.append(text)
        return None


async def channel(board: Switchboard, desk: Desk) -> Principal:
    who = board.has("echo-skill", modules={"echo": desk.send})
    await board.ask(who, "channels.register", channel="echo", connector_module="echo")
    return who


async def say(board: Switchboard, text: str) -> int:
    return (await board.say(text, chat=text, channel="echo"))["message_id"]


@pytest.mark.parametrize(
    ("error", "doubtful"),
    [
        (OperationError("Error", "the line went dead"), 1),
        (OperationError("E_MINE", "whatever it calls it"), 1),
        (LATE, 1),
        (OperationError(MODULE_DISABLED, "the skill ended before it answered"), 1),
        (OperationError(NOT_READY, "it is being enabled"), 0),
        (OperationError("Busy", "it has 32 things to do already"), 0),
    ],
)
def test_what_may_have_been_sent_before_its_connector_failed_is_marked_and_nothing_else_is(
    home: str, error: OperationError, doubtful: int
) -> None:
    board, desk = Switchboard(home), Desk()
    desk.faults["x"] = [error]

    async def main() -> None:
        await channel(board, desk)
        async with board.running():
            id = await say(board, "x")
            await board.until(lambda: board.message(id).state == "sent")
        assert (board.message(id).doubtful, len(board.named(RETRIED))) == (doubtful, doubtful)

    anyio.run(main)


def test_a_message_that_makes_its_connector_hang_is_given_up_and_other_chats_go_on(home: str) -> None:
    board, desk = Switchboard(home), Desk()
    desk.faults["poison"] = [LATE] * MOST_LATE

    async def main() -> None:
        await channel(board, desk)
        async with board.running():
            poison, fine = await say(board, "poison"), await say(board, "fine")
            behind = (await board.say("behind", chat="poison", channel="echo"))["message_id"]
            await board.until(lambda: board.message(behind).state == "sent")
            await board.until(lambda: board.message(fine).state == "sent")
            failed = board.message(poison)
            assert (failed.state, failed.attempts, failed.doubtful) == ("failed", MOST_LATE, MOST_LATE)
            assert failed.error.startswith("given up, for it hung 2 times: echo.send did not answer")
            assert [
                each["message_id"] for each in (await board.ask(OWNER, "conv.undelivered"))["messages"]
            ] == [poison]
            assert len(board.named(FAILED)) == 1
            await board.ask(OWNER, "conv.retry", message_id=poison)
            await board.until(lambda: board.message(poison).state == "sent")

    anyio.run(main)


def test_of_those_that_hung_one_at_a_time_is_tried_again_so_that_the_innocent_arrive(home: str) -> None:
    board, desk = Switchboard(home), Desk()
    suspects = {"poison", "a", "b"}
    desk.faults = {
        "poison": [LATE] * MOST_LATE,
        "a": [LATE],
        "b": [LATE],
    }  # they hung with it, and not by themselves

    async def main() -> None:
        await channel(board, desk)
        ids = {text: await say(board, text) for text in ("poison", "a", "b")}
        async with board.running():
            await board.until(lambda: len(board.named(SENT)) == 2 and len(board.named(FAILED)) == 1)
        assert {text: board.message(id).state for text, id in ids.items()} == {
            "poison": "failed",
            "a": "sent",
            "b": "sent",
        }
        assert max(len(each & suspects) for each in desk.at_once) == 3, "the control: at first all go at once"
        assert all(len(each) == 1 for each in desk.at_once[3:])

    anyio.run(main)


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        ("setup_unusable", ""),
        ("forbidden", GATE_HOOK_UNHEARD),
        ("forbidden", RULES_UNUSABLE),
        ("budget_exceeded", ""),
        ("stopped", ""),
    ],
)
def test_while_nobody_can_say_whether_it_may_a_message_waits(
    home: str, code: RefusalCode, remedy: str
) -> None:
    board, desk = Switchboard(home), Desk()

    async def main() -> None:
        await channel(board, desk)
        board.refuses = Refused(call_id="c", code=code, reasons=("not now",), remedy=remedy)
        async with board.running():
            id = await say(board, "x")
            await board.until(lambda: bool(board.message(id).error))
            assert (board.message(id).state, board.message(id).error) == ("waiting", f"{code}: not now")
            board.refuses = None
            await board.until(lambda: board.message(id).state == "sent")
        assert board.message(id).doubtful == 0

    anyio.run(main)


def test_what_a_rule_or_a_hook_says_no_to_has_failed_with_the_reason(home: str) -> None:
    board, desk = Switchboard(home), Desk()

    async def main() -> None:
        await channel(board, desk)
        board.refuses = Refused(
            call_id="c", code="forbidden", reasons=("nobody writes there",), remedy=GATE_HOOK
        )
        async with board.running():
            id = await say(board, "x")
            await board.until(lambda: board.message(id).state == "failed")
        assert (board.message(id).error, desk.tried) == ("forbidden: nobody writes there", [])

    anyio.run(main)


def test_what_waits_goes_at_once_when_who_sends_for_it_comes_back(home: str) -> None:
    board, desk, post = Switchboard(home), Desk(), Post()
    down = [NotNow(7_000, "the bot is stopped")]
    post = Post(lambda _chat, _text: down[0] if down else None)
    board.connectors.connect("telegram", post)
    desk.faults["x"] = [OperationError("Error", "no")]

    async def main() -> None:
        await channel(board, desk)
        async with board.running():
            ours, theirs = (await board.say("hello"))["message_id"], await say(board, "x")
            for id in (ours, theirs):
                await board.until(lambda: bool(board.message(id).error))  # noqa: B023  waited for at once
            with board.store.writing() as connection:
                connection.execute("UPDATE message SET next_try = next_try + 7000 WHERE id = ?", (theirs,))
            down.clear()
            await board.deliveries.wake("telegram")
            await board.until(lambda: board.message(ours).state == "sent")
            assert board.message(theirs).state == "waiting", "that is another channel"
            board.events.emit("skills.enabled", {"skill": "echo-skill"}, source="echo-skill")
            board.events.emit("skills.enabled", {"skill": "another"})
            await anyio.sleep(0.1)
            assert board.message(theirs).state == "waiting", "what a skill says counts for nothing here"
            board.events.emit("skills.enabled", {"skill": "echo-skill"})
            await board.until(lambda: board.message(theirs).state == "sent")

    anyio.run(main)
