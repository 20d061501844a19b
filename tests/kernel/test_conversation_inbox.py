"""What came in is told at least once, in the order of its chat, and is handled when whoever kept it says so."""

from pathlib import Path

import anyio
import pytest

from metier.kernel import conversation_inbox
from metier.kernel.conversation_inbox import RECEIVED
from metier.kernel.events import Happened
from switchboard import Switchboard, private


@pytest.fixture
def home(tmp_path: Path) -> str:
    return private(tmp_path)


def texts(board: Switchboard) -> list[str]:
    return [each.payload["text"] for each in board.named(RECEIVED) if isinstance(each.payload, dict)]  # pyright: ignore[reportReturnType]


def test_a_message_that_nobody_keeps_is_told_once_and_handled(home: str) -> None:
    board = Switchboard(home)

    async def main() -> None:
        async with board.running():
            stored = await board.came_in("hello", id="7")
            await board.came_in("hello", id="7")
            await board.until(lambda: board.message(stored["message_id"]).state == "handled")
            last = await board.came_in("last")
            await board.until(lambda: board.message(last["message_id"]).state == "handled")
        assert texts(board) == ["hello", "last"]
        (first, _) = board.named(RECEIVED)
        assert first.source == "metier"
        assert first.payload == {
            "channel": "telegram",
            "thread": stored["thread_id"],
            "message": stored["message_id"],
            "chat": "c",
            "skill": "",
            "author": "user",
            "text": "hello",
            "at": board.message(stored["message_id"]).at,
            "data": None,
            "call_id": board.message(stored["message_id"]).call_id,
        }

    anyio.run(main)


def test_the_next_message_of_a_chat_waits_for_the_one_before_and_other_chats_do_not(home: str) -> None:
    board = Switchboard(home, seconds=60)

    def keep(happened: Happened) -> None:
        if happened.name == RECEIVED and isinstance(happened.payload, dict):
            board.inbox.keep(int(str(happened.payload["message"])))

    async def main() -> None:
        with board.events.listening(keep):
            async with board.running():
                first = await board.came_in("a1", chat="a")
                await board.came_in("a2", chat="a")
                await board.came_in("b1", chat="b")
                await board.until(lambda: len(texts(board)) == 2)
                assert texts(board) == ["a1", "b1"]
                assert board.message(first["message_id"]).state == "received", "kept is not handled"
                await board.inbox.mark_handled(first["message_id"])
                await board.until(lambda: len(texts(board)) == 3)
        assert texts(board) == ["a1", "b1", "a2"]
        assert board.message(first["message_id"]).state == "handled"

    anyio.run(main)


def test_a_message_kept_by_two_is_handled_when_both_are_done(home: str) -> None:
    board = Switchboard(home, seconds=60)

    def keep(happened: Happened) -> None:
        if happened.name == RECEIVED and isinstance(happened.payload, dict):
            board.inbox.keep(int(str(happened.payload["message"])))

    async def main() -> None:
        with board.events.listening(keep), board.events.listening(keep):
            async with board.running():
                stored = await board.came_in("hello")
                await board.until(lambda: len(texts(board)) == 1)
                await board.inbox.mark_handled(stored["message_id"])
                assert board.message(stored["message_id"]).state == "received"
                await board.inbox.mark_handled(stored["message_id"])
                assert board.message(stored["message_id"]).state == "handled"

    anyio.run(main)


def test_what_was_kept_and_not_handled_is_told_again_after_a_restart(home: str) -> None:
    board = Switchboard(home, seconds=60)

    def keep(happened: Happened) -> None:
        if happened.name == RECEIVED and isinstance(happened.payload, dict):
            board.inbox.keep(int(str(happened.payload["message"])))

    async def first() -> None:
        with board.events.listening(keep):
            async with board.running():
                await board.came_in("unfinished")
                await board.until(lambda: len(texts(board)) == 1)

    async def second() -> None:
        async with after.running():
            await after.until(lambda: len(texts(after)) == 1)
            await after.until(lambda: after.message(1).state == "handled")

    anyio.run(first)
    after = Switchboard(home)
    anyio.run(second)
    assert texts(after) == ["unfinished"]


def test_one_that_is_never_handled_holds_up_its_chat_only_for_a_while(home: str) -> None:
    board = Switchboard(home, seconds=0.2)

    def keep(happened: Happened) -> None:
        if (
            happened.name == RECEIVED
            and isinstance(happened.payload, dict)
            and happened.payload["text"] == "stuck"
        ):
            board.inbox.keep(int(str(happened.payload["message"])))

    async def main() -> None:
        with board.events.listening(keep):
            async with board.running():
                await board.came_in("stuck")
                await board.until(lambda: len(texts(board)) == 1)
                await anyio.sleep(0.25)
                await board.came_in("next")
                await board.until(lambda: len(texts(board)) == 2)
        assert texts(board) == ["stuck", "next"]

    anyio.run(main)


def test_a_listener_that_fails_does_not_keep_a_message_from_being_handled(home: str) -> None:
    board = Switchboard(home)

    def fails(happened: Happened) -> None:
        raise ValueError(happened.name)

    async def main() -> None:
        with board.events.listening(fails):
            async with board.running():
                stored = await board.came_in("hello")
                await board.until(lambda: board.message(stored["message_id"]).state == "handled")

    anyio.run(main)


def test_what_another_process_stored_is_told_here(home: str) -> None:
    board, other = Switchboard(home), Switchboard(home)

    async def main() -> None:
        async with board.running():
            await board.until(lambda: True)
            await other.came_in("from elsewhere")
            await board.until(lambda: len(texts(board)) == 1)

    anyio.run(main)


def test_chats_take_turns_so_that_busy_ones_keep_no_other_from_being_told(
    home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation_inbox, "MOST_OPEN", 2)
    board = Switchboard(home, seconds=60)
    kept: list[int] = []

    def keep(happened: Happened) -> None:
        if happened.name == RECEIVED and isinstance(happened.payload, dict):
            kept.append(int(str(happened.payload["message"])))
            board.inbox.keep(kept[-1])

    async def main() -> None:
        for count in range(5):
            for busy in ("a", "b"):
                await board.came_in(f"{busy}{count}", chat=busy)
        for late in ("late", "later"):
            await board.came_in(late, chat=late)
        with board.events.listening(keep):
            async with board.running():
                for handled in range(12):
                    await board.until(lambda handled=handled: len(kept) > handled)
                    await board.inbox.mark_handled(kept[handled])
        told = texts(board)
        assert len(told) == 12
        assert told.index("late") < 4, told
        assert told.index("later") < 5, told
        assert [each for each in told if each.startswith("a")] == ["a0", "a1", "a2", "a3", "a4"]

    anyio.run(main)
