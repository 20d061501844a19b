"""Conversations: every message once and in order, seen by who may, and erased where a person wants it."""

import os
from pathlib import Path

import anyio
import pytest

import metier.kernel.conversation_rows as rows
from metier.kernel.channel_rules import BAD_PARAMS, FULL, UNKNOWN
from metier.kernel.conversation_erase import erase_of_calls
from metier.kernel.operation import Asked
from metier.model.digest import Json
from switchboard import HOST, OWNER, Post, Switchboard, private


async def sends(asked: Asked) -> Json:
    return None


@pytest.fixture
def board(tmp_path: Path) -> Switchboard:
    return Switchboard(private(tmp_path))


def test_a_message_that_is_delivered_twice_is_stored_once(board: Switchboard) -> None:
    async def main() -> None:
        first = await board.came_in("hello", id="7")
        again = await board.came_in("hello", id="7")
        assert (first["duplicate"], again["duplicate"]) == (False, True)
        assert again["message_id"] == first["message_id"]
        other = await board.came_in("hello", id="7", chat="another")
        assert other["duplicate"] is False, "an id counts in its chat"
        assert len(board.thread(first["thread_id"])) == 1

    anyio.run(main)


def test_the_first_text_under_an_id_stays(board: Switchboard) -> None:
    async def main() -> None:
        first = await board.came_in("as it was said", id="7")
        await board.came_in("as somebody would have it", id="7")
        assert [each.text for each in board.thread(first["thread_id"])] == ["as it was said"]

    anyio.run(main)


def test_numbers_and_texts_that_say_the_same_are_one_chat_and_one_message(board: Switchboard) -> None:
    async def main() -> None:
        asked = {"channel": "telegram", "text": "x"}
        one = await board.ask(HOST, "channels.route_inbound_message", **asked, chat_id=-100, message_id=5)
        two = await board.ask(HOST, "channels.route_inbound_message", **asked, chat_id="-100", message_id="5")
        assert (two["thread_id"], two["duplicate"]) == (one["thread_id"], True)

    anyio.run(main)


def test_the_same_key_is_the_same_reply_and_another_senders_key_is_not(board: Switchboard) -> None:
    async def main() -> None:
        first = await board.say("done", key="t:7")
        again = await board.say("done, once more", key="t:7")
        assert (again["message_id"], again["duplicate"]) == (first["message_id"], True)
        needs = board.has("crm", channels=("telegram",), modules={"crm": sends})
        other = await board.ask(
            needs, "channels.send_message", channel="telegram", chat_id="c", text="mine", key="t:7"
        )
        assert other["duplicate"] is False, "nobody takes away another's message by guessing its key"
        assert (await board.say("no key"))["message_id"] != (await board.say("no key"))["message_id"]

    anyio.run(main)


def test_many_writers_at_once_store_each_message_once(board: Switchboard) -> None:
    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            for number in range(60):
                tasks.start_soon(lambda id=str(number % 20): board.came_in("x", id=id))
        with board.store.reading() as connection:
            assert connection.execute(
                "SELECT count(*), count(DISTINCT channel_message) FROM message"
            ).fetchone() == (
                20,
                20,
            )
            assert connection.execute("SELECT count(*) FROM thread").fetchone() == (1,)

    anyio.run(main)


def test_threads_are_listed_newest_first_and_page_by_page(board: Switchboard) -> None:
    async def main() -> None:
        for chat in ("a", "b", "c"):
            await board.came_in("hello", chat=chat)
        await board.came_in("again", chat="a")
        first = (await board.ask(OWNER, "conv.list_threads", limit=2))["threads"]
        assert [each["chat_id"] for each in first] == ["a", "c"]
        rest = await board.ask(OWNER, "conv.list_threads", before=first[-1]["last_message_id"])
        assert [each["chat_id"] for each in rest["threads"]] == ["b"]
        assert (await board.ask(OWNER, "conv.list_threads", channel="nowhere"))["threads"] == []

    anyio.run(main)


def test_a_thread_is_read_oldest_first_and_page_by_page(board: Switchboard) -> None:
    async def main() -> None:
        for number in range(5):
            await board.came_in(f"m{number}")
        newest = await board.ask(OWNER, "conv.get_thread", thread_id=1, limit=2)
        assert [each["text"] for each in newest["messages"]] == ["m3", "m4"]
        assert newest["more"] is True
        before = newest["messages"][0]["message_id"]
        older = await board.ask(OWNER, "conv.get_thread", channel="telegram", chat_id="c", before=before)
        assert [each["text"] for each in older["messages"]] == ["m0", "m1", "m2"]
        assert older["more"] is False

    anyio.run(main)


def test_an_answer_is_bounded_and_says_that_there_is_more(board: Switchboard) -> None:
    async def main() -> None:
        for _ in range(15):
            await board.came_in("a" * 60_000)
        found = await board.ask(OWNER, "conv.get_thread", thread_id=1)
        assert 1 < len(found["messages"]) < 15
        assert found["more"] is True

    anyio.run(main)


def test_a_note_stands_in_the_conversation_and_is_sent_to_nobody(board: Switchboard) -> None:
    async def main() -> None:
        post = Post()
        board.connectors.connect("telegram", post)
        async with board.running():
            thread = (await board.came_in("hello"))["thread_id"]
            await board.ask(OWNER, "conv.append", thread_id=thread, text="called back", author="Ada")
            last = await board.say("bye")
            await board.until(lambda: board.message(last["message_id"]).state == "sent")
        assert [(each.direction, each.author) for each in board.thread(thread)] == [
            ("in", "user"),
            ("note", "Ada"),
            ("out", "human:owner"),
        ]
        assert post.sent == [("c", "bye")]

    anyio.run(main)


def test_a_skill_does_not_write_in_another_name(board: Switchboard) -> None:
    async def main() -> None:
        thread = (await board.came_in("hello"))["thread_id"]
        needs = board.has("crm", channels=("telegram",))
        await board.ask(needs, "conv.append", thread_id=thread, text="approved", author="human:owner")
        assert board.thread(thread)[-1].author == "skill:crm"

    anyio.run(main)


def test_cap_13_a_skill_learns_nothing_of_conversations_that_are_not_its_own(board: Switchboard) -> None:
    async def main() -> None:
        thread = (await board.came_in("for the owner alone"))["thread_id"]
        stranger = board.has("stranger", modules={"stranger": sends})
        asks: dict[str, dict[str, Json]] = {"conv.get_thread": {}, "conv.append": {"text": "x"}}
        for name, more in asks.items():
            theirs = await board.refused(stranger, name, thread_id=thread, **more)
            absent = await board.refused(stranger, name, thread_id=thread + 999, **more)
            assert theirs == absent == UNKNOWN, "that it is there is not told either"
        assert (await board.ask(stranger, "conv.list_threads"))["threads"] == []
        needs = board.has("needs", channels=("telegram",))  # the control: what it declared it reads
        assert len((await board.ask(needs, "conv.list_threads"))["threads"]) == 1
        assert (await board.ask(needs, "conv.get_thread", thread_id=thread))["messages"][0]["text"]

    anyio.run(main)


def test_a_skill_reads_what_was_said_on_a_channel_of_its_own(board: Switchboard) -> None:
    async def main() -> None:
        who = board.has("echo-skill", modules={"echo": sends})
        await board.ask(who, "channels.register", channel="echo", connector_module="echo")
        message = {"channel": "echo", "chat_id": "c", "message_id": "1", "text": "hello"}
        await board.ask(who, "channels.route_inbound_message", **message)
        assert [each["chat_id"] for each in (await board.ask(who, "conv.list_threads"))["threads"]] == ["c"]

    anyio.run(main)


def test_which_conversation_has_to_be_said(board: Switchboard) -> None:
    async def main() -> None:
        assert await board.refused(OWNER, "conv.get_thread") == BAD_PARAMS
        assert await board.refused(OWNER, "conv.get_thread", channel="telegram", chat_id="nobody") == UNKNOWN

    anyio.run(main)


def test_what_waits_in_one_chat_is_bounded_and_other_chats_go_on(
    board: Switchboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "MOST_WAITING", 3)
    monkeypatch.setattr(rows, "MOST_RECEIVED", 3)

    async def main() -> None:
        for number in range(3):
            await board.say(f"m{number}")
            await board.came_in(f"m{number}")
        full = await board.refused(OWNER, "channels.send_message", channel="telegram", chat_id="c", text="x")
        assert full == FULL
        message = {"channel": "telegram", "chat_id": "c", "message_id": "9", "text": "x"}
        assert await board.refused(HOST, "channels.route_inbound_message", **message) == FULL
        assert (await board.say("x", chat="other"))["ok"] is True
        assert (await board.came_in("x", chat="other"))["ok"] is True

    anyio.run(main)


def test_what_is_erased_is_gone_from_every_file_and_does_not_come_back(tmp_path: Path) -> None:
    home = private(tmp_path)
    board = Switchboard(home)
    words = "remarkable-words-of-a-caller"

    def found() -> bool:
        return any(words.encode() in (Path(home) / name).read_bytes() for name in os.listdir(home))

    async def main() -> None:
        thread = (await board.came_in(words, id="7"))["thread_id"]
        post = Post()
        board.connectors.connect("telegram", post)
        async with board.running():  # rows that change grow, and pages are rearranged
            for number in range(40):
                await board.say(f"{words} {'x' * number * 40}")
            await board.until(lambda: len(post.sent) == 40)
            await board.until(lambda: all(each.state in ("sent", "handled") for each in board.thread(thread)))
        board.connectors.disconnect("telegram")
        waiting = await board.say(words)
        assert found(), "the control: before it is erased it is there"
        answer = await board.ask(OWNER, "conv.erase", thread_id=thread)
        assert (answer["messages"], answer["calls"], answer["calls_erased"]) == (42, 42, 42)
        assert len(board.forgotten) == 42
        assert not found()
        assert board.message(waiting["message_id"]).state == "failed", "nothing empty is sent"
        assert (await board.came_in(words, id="7"))["duplicate"] is True, "delivered twice it stays erased"
        assert not found()

    anyio.run(main)


def test_what_one_call_took_in_can_be_erased_by_itself(board: Switchboard) -> None:
    async def main() -> None:
        kept = await board.came_in("stays")
        gone = await board.came_in("goes")
        call = board.message(gone["message_id"]).call_id
        assert erase_of_calls(board.store, [call, "call_unknown"]) == 1
        assert [each.text for each in board.thread(kept["thread_id"])] == ["stays", ""]
        told = await board.ask(OWNER, "conv.get_thread", thread_id=kept["thread_id"])
        assert [(each["text"], each.get("erased", False)) for each in told["messages"]] == [
            ("stays", False),
            ("", True),
        ]

    anyio.run(main)


def test_a_skill_fills_no_disk_and_erasing_makes_room(
    board: Switchboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "MOST_BYTES", 100_000)

    async def main() -> None:
        who = board.has("echo-skill", modules={"echo": sends})
        await board.ask(who, "channels.register", channel="echo", connector_module="echo")

        def come_in(id: int) -> dict[str, Json]:
            return {"channel": "echo", "chat_id": id, "message_id": 1, "text": "a" * 40_000}

        await board.ask(who, "channels.route_inbound_message", **come_in(1))
        stored = await board.ask(who, "channels.route_inbound_message", **come_in(2))
        assert await board.refused(who, "channels.route_inbound_message", **come_in(3)) == FULL
        assert (await board.came_in("a" * 60_000))["ok"] is True, "what others say is not its matter"
        await board.ask(OWNER, "conv.erase", thread_id=stored["thread_id"])
        assert (await board.ask(who, "channels.route_inbound_message", **come_in(3)))["ok"] is True

    anyio.run(main)


def test_res_10_what_a_skill_writes_on_channels_of_others_is_bounded_and_counts_for_it_alone(
    board: Switchboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "MOST_BYTES", 100_000)

    async def main() -> None:
        who = board.has("echo-skill", modules={"echo": sends})
        await board.ask(who, "channels.register", channel="echo", connector_module="echo")
        guest = board.has("guest", channels=("telegram", "echo"))
        thread = (await board.came_in("hello"))["thread_id"]
        note = {"thread_id": thread, "text": "a" * 40_000}
        sent = {"channel": "echo", "chat_id": "c", "text": "a" * 40_000}
        await board.ask(guest, "conv.append", **note)
        await board.ask(guest, "channels.send_message", **sent)
        for name, more in (("conv.append", note), ("channels.send_message", {**sent, "channel": "telegram"})):
            assert await board.refused(guest, name, **more) == FULL
        # Nobody else has less room for it: neither who has the channel, nor people, nor our own door.
        for text in ("b" * 45_000, "c" * 45_000):
            await board.ask(who, "channels.send_message", **{**sent, "text": text})
        await board.ask(OWNER, "conv.append", **note)
        assert (await board.came_in("a" * 60_000))["ok"] is True
        await board.ask(OWNER, "conv.erase", thread_id=thread)
        thread = (await board.came_in("again", chat="d"))["thread_id"]
        assert (await board.ask(guest, "conv.append", **{**note, "thread_id": thread}))["ok"] is True

    anyio.run(main)


def test_a_skill_takes_no_more_than_half_of_the_chats_of_a_channel_that_is_not_its_own(
    board: Switchboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "MOST_THREADS", 4)

    async def main() -> None:
        guest = board.has("guest", channels=("telegram",))
        for chat in "ab":
            await board.ask(guest, "channels.send_message", channel="telegram", chat_id=chat, text="x")
        full = board.refused(guest, "channels.send_message", channel="telegram", chat_id="c", text="x")
        assert await full == FULL
        assert (await board.came_in("hello", chat="c"))["ok"] is True

    anyio.run(main)
