"""Messages come in by long polling: each is stored once, in order, by the operation for it, and by nothing else."""

import time
from pathlib import Path
from typing import Any, cast

import anyio
import msgspec
import pytest

from metier.doors.telegram import bot, polling
from metier.doors.telegram.update import read
from metier.kernel.store import Store
from metier.kernel.telegram_cursor import Cursor
from metier.model.outcome import Completed
from metier.runtime.as_owner import operate
from metier.testing.bot_api import BotApiServer
from metier.testing.bot_api_methods import BOT_ID
from telegram_desk import ADA, BEN, Desk, asked, status, with_desk

DENY = """
[[rule]]
name = "nothing-comes-in"
tool = "channels.route_inbound_message"
decision = "deny"
because = "not today"
"""


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits long before he tries again."""
    monkeypatch.setattr(polling, "_pause", lambda _failures: 0.05)


def test_what_a_listed_person_writes_is_stored_as_conversation_and_answered(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        async with desk.running():
            number = desk.telegram.state.message(ADA, "hello")
            await desk.until(lambda: desk.messages() == [(str(ADA), "hello")])
            reply = {"channel": "telegram", "chat_id": str(ADA), "text": "good day", "reply_to": str(number)}
            assert isinstance(await operate(desk.settings(), "channels.send_message", reply), Completed)
            await desk.wait(lambda state: state.sent)
            (sent,) = desk.telegram.state.sent
            assert (sent.chat, sent.text, sent.reply_to, sent.parse_mode) == (ADA, "good day", number, "")
            assert desk.messages("out") == [(str(ADA), "good day")]
            threads = await operate(desk.settings(), "conv.list_threads", {"channel": "telegram"})
            assert isinstance(threads, Completed)
            assert str(ADA) in msgspec.json.encode(threads.value).decode()

    with_desk(tmp_path, main)


@pytest.mark.slow
def test_it_asks_with_a_timeout_and_only_when_the_last_question_was_answered(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        desk.values["polling"] = {"timeout_sec": 5}
        async with desk.running():
            began = time.monotonic()
            await desk.until(lambda: len(desk.telegram.state.offsets) >= 2)
            assert time.monotonic() - began > 3, (
                "nothing happened, so the first question was open until its time was over"
            )
            desk.telegram.state.message(ADA, "now")
            await desk.until(lambda: len(desk.telegram.state.offsets) >= 3, seconds=4)
            assert set(desk.telegram.state.timeouts) == {5.0}
            polls = [each for each in desk.telegram.asked if each.method == "getUpdates"]
            assert all(each.given["allowed_updates"] == ["message", "callback_query"] for each in polls)

    with_desk(tmp_path, main)


def test_the_time_of_a_poll_lies_between_5_and_60_seconds_and_is_30_by_itself(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        async with desk.hosting() as door:
            for given, counts in ((0, 5), (7, 7), (1000, 60), ("soon", 30), (None, 30)):
                desk.values["polling"] = {"timeout_sec": given}
                await door.configure(asked("configure"))
                assert status(door)["polling"]["timeout_sec"] == counts

    with_desk(tmp_path, main)


def test_a_rule_that_denies_the_operation_keeps_everything_out(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        policy = desk.home / "policy.toml"
        policy.write_text(DENY, encoding="utf-8")
        policy.chmod(0o600)
        async with desk.running() as door:
            desk.telegram.state.message(ADA, "hello")
            await desk.until(lambda: len(desk.telegram.state.offsets) > 1)
            assert desk.messages() == []
            assert status(door)["received"] == 0
            (refused,) = [each for each in desk.records() if each.tool == "channels.route_inbound_message"]
            assert (refused.event, refused.code) == ("skill_execution_blocked", "forbidden")
            assert "not today" in " ".join(refused.reasons)

    with_desk(tmp_path, main)


def test_while_the_rules_cannot_be_read_messages_wait_and_are_not_lost(tmp_path: Path, quick: None) -> None:
    async def main(desk: Desk) -> None:
        policy = desk.home / "policy.toml"
        policy.write_text(DENY.replace("deny", "dney"), encoding="utf-8")
        policy.chmod(0o600)
        async with desk.running() as door:
            desk.telegram.state.message(ADA, "hello")
            await desk.until(lambda: "waits" in status(door)["error"])
            policy.write_text(
                DENY.replace("deny", "ask").replace("channels.route_inbound_message", "no.such")
            )
            await desk.until(lambda: desk.messages() == [(str(ADA), "hello")])

    with_desk(tmp_path, main)


def test_tg_06_what_is_told_again_or_out_of_order_is_taken_in_once_also_after_a_restart(
    tmp_path: Path,
) -> None:
    async def main(desk: Desk) -> None:
        state = desk.telegram.state
        async with desk.running():
            for count in range(3):
                state.message(ADA, f"first {count}")
            await desk.until(lambda: len(desk.messages()) == 3)
        state.again = 3  # Telegram forgets that it was told they arrived
        state.message(ADA, "late", message_id=900)
        state.message(BEN, "later", message_id=901)
        state.waiting.reverse()
        async with desk.running():
            await desk.until(lambda: len(desk.messages()) >= 5)
            state.again = 3
            state.message(ADA, "last")
            await desk.until(lambda: (str(ADA), "last") in desk.messages())
        found = desk.messages()
        assert sorted(text for _, text in found) == ["first 0", "first 1", "first 2", "last", "late", "later"]
        assert [text for chat, text in found if chat == str(ADA)] == [
            "first 0",
            "first 1",
            "first 2",
            "late",
            "last",
        ]

    with_desk(tmp_path, main)


def test_tg_06_where_everything_was_taken_in_to_is_kept_over_a_restart(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        async with desk.running():
            desk.telegram.state.message(ADA, "one")
            await desk.until(lambda: len(desk.telegram.state.offsets) > 1)
        last = desk.telegram.state.offsets[-1]
        assert last > 0
        desk.telegram.state.offsets.clear()
        async with desk.running():
            await desk.until(lambda: desk.telegram.state.offsets)
            assert desk.telegram.state.offsets[0] == last
        store = Store(str(desk.home))
        assert Cursor(store, BOT_ID, desk.telegram.url).read()[0] == last
        assert Cursor(store, BOT_ID + 1, desk.telegram.url).read() == (0, 0.0), "another bot has not begun"
        assert Cursor(store, BOT_ID, "https://elsewhere.example").read() == (0, 0.0), (
            "another server counts for itself"
        )
        with store.writing() as connection:
            connection.execute("UPDATE cursor SET value = 'rubbish' WHERE name LIKE 'telegram.offset.%'")
        assert Cursor(store, BOT_ID, desk.telegram.url).read() == (0, 0.0)
        store.close()

    with_desk(tmp_path, main)


@pytest.mark.parametrize("days", [3, 6])
def test_tg_06_after_days_of_silence_a_smaller_number_is_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    """After a week without updates Telegram goes on from any number. The silence counts from the last update, also over a restart."""
    now = time.time()
    monkeypatch.setattr(polling, "_now", lambda: now)

    async def main(desk: Desk) -> None:
        nonlocal now
        state = desk.telegram.state
        desk.settings()
        store = Store(str(desk.home))
        Cursor(store, BOT_ID, desk.telegram.url).write(900_000, now - days * 86_400)
        store.close()
        async with desk.running():
            await desk.until(lambda: state.offsets)
            assert state.offsets[0] == (900_000 if days == 3 else 0), (
                "what is known counts while it can be true"
            )
            now += 3 * 86_400
            state.message(ADA, "after the silence")
            await desk.until(lambda: desk.messages() == [(str(ADA), "after the silence")])

    with_desk(tmp_path, main)


def test_tg_06_another_bot_is_heard_also_where_it_counts_as_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bot, "_LOOK", 0.05)

    async def main(desk: Desk) -> None:
        telegram, honest = desk.telegram, desk.telegram.state.do

        def other(method: str, given: dict[str, Any]) -> Any:
            found = honest(method, given)
            return {**found, "id": BOT_ID + 1} if method == "getMe" else found

        async with desk.running() as door:
            telegram.state.message(ADA, "to the first", message_id=7)
            await desk.until(lambda: desk.messages() == [(str(ADA), "to the first")])
            await desk.until(lambda: not telegram.state.waiting)
            telegram.token = desk.secrets["bot_token"] = "7000000002:another-bot"
            telegram.state.do = other  # pyright: ignore[reportAttributeAccessIssue]
            said = {"message_id": 7, "date": 1, "text": "to the second"}
            said |= {"chat": {"id": ADA, "type": "private"}, "from": {"id": ADA, "is_bot": False}}
            telegram.state.post({"update_id": 50, "message": said})
            store = Store(str(desk.home))
            with store.writing() as connection:  # as another process that changes the settings does
                connection.execute("INSERT INTO cursor VALUES ('something', 'else')")
            store.close()
            await desk.until(lambda: len(desk.messages()) == 2)
            assert desk.messages()[1] == (str(ADA), "to the second")
            assert status(door)["bot"]["id"] == BOT_ID + 1
            shown = await operate(
                desk.settings(), "conv.get_thread", {"channel": "telegram", "chat_id": str(ADA)}
            )
            assert isinstance(shown, Completed)
            ids = [each["channel_message_id"] for each in cast("Any", shown.value)["messages"]]
            assert ids == [f"{BOT_ID}:7", f"{BOT_ID + 1}:7"]

    with_desk(tmp_path, main)


@pytest.mark.parametrize("kept", ["the first server's number", "a number from nowhere"])
def test_tg_06_a_bot_api_server_that_counts_from_elsewhere_is_heard(
    tmp_path: Path, quick: None, kept: str
) -> None:
    """Each server has numbers of its own. Asked from one on that it does not know, it tells what it has from the beginning."""

    async def main(desk: Desk) -> None:
        async with desk.running():
            desk.telegram.state.message(ADA, "by the first server")
            await desk.until(lambda: len(desk.messages()) == 1 and not desk.telegram.state.waiting)
        with BotApiServer(token=desk.telegram.token) as own:
            own.state.begin(update=500, message=50)
            desk.telegram = own
            desk.settings()
            if kept == "a number from nowhere":
                store = Store(str(desk.home))
                Cursor(store, BOT_ID, own.url).write(1 << 30)
                store.close()
            own.state.message(ADA, "by my own server")
            async with desk.running():
                await desk.until(lambda: len(desk.messages()) == 2)
                await desk.until(lambda: not own.state.waiting)
                own.state.message(ADA, "and on")
                await desk.until(lambda: len(desk.messages()) == 3 and not own.state.waiting)
        assert [text for _, text in desk.messages()] == ["by the first server", "by my own server", "and on"]

    with_desk(tmp_path, main)


def test_tg_06_one_update_with_an_absurd_number_does_not_make_the_bot_deaf(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        state = desk.telegram.state
        async with desk.running():
            said = {"message_id": 7, "date": 1, "text": "hello"}
            said |= {"chat": {"id": ADA, "type": "private"}, "from": {"id": ADA, "is_bot": False}}
            state.post({"update_id": (1 << 31) - 1, "message": said})
            await desk.until(lambda: len(desk.messages()) == 1)
            await desk.until(lambda: not state.waiting)
            state.message(ADA, "after it")
            await desk.until(lambda: len(desk.messages()) == 2)
        assert read(msgspec.json.encode({"update_id": 1 << 40, "message": said})).update == 0

    with_desk(tmp_path, main)


def test_tg_10_a_telegram_that_is_down_throttles_or_sends_rubbish_loses_nothing(
    tmp_path: Path, quick: None
) -> None:
    async def main(desk: Desk) -> None:
        telegram = desk.telegram
        async with desk.running() as door:
            telegram.garble()
            telegram.garble(b'{"ok": true, "result": {"not": "a list"}}')
            telegram.fail(2)
            telegram.cut(1)
            telegram.cut(1, after=True)
            telegram.state.message(ADA, "through it all")
            await desk.until(lambda: desk.messages() == [(str(ADA), "through it all")], seconds=40)
            telegram.state.post({"message": {"message_id": "none", "chat": 7}})
            telegram.state.post({"message": "a text"})
            telegram.state.post({"poll": {"id": "1"}})
            telegram.state.message(ADA, "x" * 40_000)
            telegram.state.message(ADA, "after the rubbish")
            await desk.until(lambda: (str(ADA), "after the rubbish") in desk.messages(), seconds=20)
            assert (str(ADA), "x" * 40_000) in desk.messages()
            assert status(door)["state"] == "running"
            assert status(door)["ignored"] == 3

    with_desk(tmp_path, main)


def test_tg_10_a_second_program_with_the_same_token_is_told_and_the_bot_goes_on(
    tmp_path: Path, quick: None
) -> None:
    async def main(desk: Desk) -> None:
        async with desk.running() as door:
            await desk.until(lambda: desk.telegram.state.offsets)
            found = await anyio.to_thread.run_sync(
                desk.telegram.answer, f"/bot{desk.telegram.token}/getUpdates", "", b""
            )
            assert found is not None
            await desk.until(lambda: "Conflict" in status(door)["error"])
            desk.telegram.state.message(ADA, "still here")
            await desk.until(lambda: desk.messages() == [(str(ADA), "still here")])
            await desk.until(lambda: status(door)["error"] == "")

    with_desk(tmp_path, main)


def test_a_token_that_telegram_does_not_know_is_said_and_a_new_one_counts_at_once(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        desk.secrets["bot_token"] = "1:not-the-token-of-any-bot"
        async with desk.running() as door:
            await desk.until(lambda: status(door)["state"] == "error")
            assert "does not accept the bot token" in status(door)["error"]
            desk.secrets["bot_token"] = desk.telegram.token
            await door.configure(asked("configure"))
            await desk.until(lambda: status(door)["state"] == "running")

    with_desk(tmp_path, main)
