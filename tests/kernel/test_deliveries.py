"""What is to be sent: in order, again after a fault, and one chat or channel that fails holds up no other."""

import time
from pathlib import Path

import anyio
import pytest

import metier.kernel.delivery_rows as delivery_rows
from metier.kernel.deliveries import FAILED, MOST_AT_ONCE, RETRIED, SENT
from metier.kernel.delivery_ports import Never, NotNow
from metier.kernel.operation import Asked, OperationError
from metier.model.digest import Json
from switchboard import OWNER, Post, Switchboard, private


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(delivery_rows, "_FIRST_PAUSE", 0.05)
    return private(tmp_path)


def test_messages_of_a_chat_are_sent_in_their_order_and_once(home: str) -> None:
    board, post = Switchboard(home), Post()
    board.connectors.connect("telegram", post)

    async def main() -> None:
        async with board.running():
            for number in range(30):
                await board.say(f"m{number}", chat="ab"[number % 2])
            await board.until(lambda: len(board.named(SENT)) == 30)
        for place, chat in enumerate("ab"):
            assert post.texts(chat) == [f"m{number}" for number in range(place, 30, 2)]
        done = board.message(30)
        assert (done.state, done.attempts, done.doubtful) == ("sent", 1, 0)
        assert {board.message(id).channel_message for id in range(1, 31)} == {
            f"sent-{id}" for id in range(1, 31)
        }
        assert len(set(post.keys)) == 30

    anyio.run(main)


def test_a_later_message_never_overtakes_an_earlier_one_that_has_to_wait(home: str) -> None:
    failures = [NotNow(0, "busy"), NotNow(0, "busy")]
    board = Switchboard(home)
    post = Post(lambda _chat, text: failures.pop() if text == "first" and failures else None)
    board.connectors.connect("telegram", post)

    async def main() -> None:
        async with board.running():
            first = await board.say("first")
            await board.say("second")
            other = await board.say("elsewhere", chat="other")
            await board.until(lambda: len(board.named(SENT)) == 3)
        assert post.texts("c") == ["first", "second"]
        assert board.message(first["message_id"]).attempts == 3
        assert board.message(other["message_id"]).attempts == 1
        assert post.sent[0] == ("other", "elsewhere"), "another chat did not wait for it"

    anyio.run(main)


def test_a_channel_that_asks_for_a_pause_gets_it(home: str) -> None:
    asked = [NotNow(1.0, "Too Many Requests: retry after 1")]
    board = Switchboard(home)
    post = Post(lambda _chat, _text: asked.pop() if asked else None)
    board.connectors.connect("telegram", post)

    async def main() -> None:
        async with board.running():
            stored = await board.say("hello")
            await board.until(lambda: len(post.tried) == 1)
            await board.until(lambda: board.message(stored["message_id"]).state == "waiting")
            assert "retry after 1" in board.message(stored["message_id"]).error
            await board.until(lambda: len(board.named(SENT)) == 1)
        assert post.at[1] - post.at[0] >= 0.99

    anyio.run(main)


def test_what_can_never_be_sent_fails_at_once_and_the_chat_goes_on(home: str) -> None:
    board = Switchboard(home)
    post = Post(lambda _chat, text: Never("Forbidden: bot was blocked by the user") if text == "no" else None)
    board.connectors.connect("telegram", post)

    async def main() -> None:
        async with board.running():
            no = await board.say("no")
            await board.say("yes")
            await board.until(lambda: len(board.named(SENT)) == 1)
        failed = board.message(no["message_id"])
        assert (failed.state, failed.attempts) == ("failed", 1)
        assert [each.payload["error"] for each in board.named(FAILED) if isinstance(each.payload, dict)] == [
            "Forbidden: bot was blocked by the user"
        ]
        listed = (await board.ask(OWNER, "conv.undelivered"))["messages"]
        assert [(each["text"], each["error"]) for each in listed] == [
            ("no", "Forbidden: bot was blocked by the user")
        ]

    anyio.run(main)


def test_a_message_that_failed_is_sent_when_a_person_wants_it_tried_again(home: str) -> None:
    blocked = [True]
    board = Switchboard(home)
    board.connectors.connect("telegram", Post(lambda _chat, _text: Never("blocked") if blocked[0] else None))

    async def main() -> None:
        async with board.running():
            id = (await board.say("hello"))["message_id"]
            await board.until(lambda: board.message(id).state == "failed")
            blocked[0] = False
            await board.ask(OWNER, "conv.retry", message_id=id)
            await board.until(lambda: board.message(id).state == "sent")
            with pytest.raises(OperationError):
                await board.ask(OWNER, "conv.retry", message_id=id)

    anyio.run(main)


def test_a_message_is_given_up_after_a_day_and_says_why(home: str) -> None:
    board = Switchboard(home)
    post = Post(lambda _chat, _text: NotNow(0, "the service is down"))
    board.connectors.connect("telegram", post)

    async def main() -> None:
        id = (await board.say("hello"))["message_id"]
        async with board.running():
            await board.until(lambda: bool(board.message(id).error))
            with board.store.writing() as connection:
                connection.execute("UPDATE message SET give_up = ?", (time.time() - 1,))
            await board.until(lambda: board.message(id).state == "failed")
        assert board.message(id).error == "given up: the service is down"
        assert len(board.named(FAILED)) == 1

    anyio.run(main)


def test_what_is_stale_is_not_sent_all_at_once_when_the_host_comes_back(home: str) -> None:
    board, post = Switchboard(home), Post()
    board.connectors.connect("telegram", post)

    async def main() -> None:
        stale = [(await board.say(f"old {number}"))["message_id"] for number in range(3)]
        with board.store.writing() as connection:
            connection.execute("UPDATE message SET at = at - 90000, give_up = give_up - 90000")
        fresh = (await board.say("new"))["message_id"]
        async with board.running():
            await board.until(lambda: board.message(fresh).state == "sent")
            assert {board.message(id).error for id in stale} == {
                "given up: it waited for a day and nobody sent it"
            }
            assert post.sent == [("c", "new")]
            await board.ask(OWNER, "conv.retry", message_id=stale[0])
            await board.until(lambda: board.message(stale[0]).state == "sent")

    anyio.run(main)


def test_a_connector_that_breaks_or_hangs_is_marked_and_holds_up_nobody(home: str) -> None:
    board = Switchboard(home, seconds=1.0)
    faults = {"breaks": [True], "hangs": [True]}

    class Odd:
        async def send(self, chat: str, text: str, *, key: str, reply_to: str | None) -> str | None:
            if faults.get(text) and faults[text].pop():
                if text == "breaks":
                    raise ZeroDivisionError("a fault of the connector's own")
                await anyio.sleep_forever()
            return None

    board.connectors.connect("telegram", Odd())

    async def main() -> None:
        async with board.running():
            ids = [(await board.say(text, chat=text))["message_id"] for text in ("breaks", "hangs", "fine")]
            await board.until(lambda: len(board.named(SENT)) == 3)
        assert [board.message(id).doubtful for id in ids] == [1, 1, 0], (
            "it may have been sent before it broke"
        )
        assert len(board.named(RETRIED)) == 2
        told = await board.ask(OWNER, "conv.get_thread", channel="telegram", chat_id="hangs")
        assert told["messages"][0]["may_have_arrived_twice"] is True

    anyio.run(main)


def test_a_channel_that_hangs_holds_up_no_other(home: str) -> None:
    board = Switchboard(home, seconds=60)

    class Hangs:
        tried = 0

        async def send(self, chat: str, text: str, *, key: str, reply_to: str | None) -> str | None:
            self.tried += 1
            await anyio.sleep_forever()

    async def sends(asked: Asked) -> Json:
        return {"message_id": 5}

    hangs = Hangs()
    board.connectors.connect("telegram", hangs)

    async def main() -> None:
        who = board.has("echo-skill", modules={"echo": sends})
        await board.ask(who, "channels.register", channel="echo", connector_module="echo")
        async with board.running():
            for number in range(3 * MOST_AT_ONCE):
                await board.say("x", chat=str(number))
            await board.until(lambda: hangs.tried == MOST_AT_ONCE)
            sent = await board.ask(who, "channels.send_message", channel="echo", chat_id="c", text="x")
            await board.until(lambda: board.message(sent["message_id"]).state == "sent")
            assert hangs.tried == MOST_AT_ONCE
        assert board.message(sent["message_id"]).channel_message == "5"

    anyio.run(main)


def test_the_module_of_the_owner_is_asked_to_send_as_that_skill_inside_the_call_that_sent(home: str) -> None:
    board = Switchboard(home)

    async def sends(asked: Asked) -> Json:
        return "id-9"

    async def main() -> None:
        who = board.has("echo-skill", modules={"echo": sends})
        await board.ask(who, "channels.register", channel="echo", connector_module="echo")
        async with board.running():
            asked = {"channel": "echo", "chat_id": "c", "text": "hello", "reply_to": 4}
            id = (await board.ask(who, "channels.send_message", **asked))["message_id"]
            await board.until(lambda: board.message(id).state == "sent")
        ((principal, tool, arguments, parent),) = board.made
        assert (principal.id, principal.kind, principal.on_behalf_of) == (
            "skill:echo-skill",
            "skill",
            OWNER.id,
        )
        assert (tool, parent) == ("echo.send", board.message(id).call_id)
        assert arguments == {
            "channel": "echo",
            "chat_id": "c",
            "text": "hello",
            "message_id": id,
            "key": f"metier-{id}",
            "reply_to": "4",
        }
        assert board.message(id).channel_message == "id-9"

    anyio.run(main)


@pytest.mark.parametrize(
    ("answer", "state", "why"),
    [
        ({"ok": False, "error": "no such room", "permanent": True}, "failed", "no such room"),
        ({"ok": False, "error": "flood", "retry_after": 600}, "waiting", "flood"),
        ({"success": False}, "waiting", "says that it was not sent"),
        ({"ok": True, "message_id": 7}, "sent", ""),
        (None, "sent", ""),
    ],
)
def test_what_the_module_of_a_skill_answers_counts(home: str, answer: Json, state: str, why: str) -> None:
    board = Switchboard(home)

    async def sends(asked: Asked) -> Json:
        return answer

    async def main() -> None:
        who = board.has("echo-skill", modules={"echo": sends})
        await board.ask(who, "channels.register", channel="echo", connector_module="echo")
        async with board.running():
            id = (await board.ask(who, "channels.send_message", channel="echo", chat_id="c", text="x"))[
                "message_id"
            ]
            await board.until(lambda: board.message(id).attempts > 0 and board.message(id).state == state)
        assert why in board.message(id).error

    anyio.run(main)


def test_what_waits_for_a_skill_that_is_down_is_sent_once_it_lives_again(
    home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metier.kernel.delivery_skill._LONG_PAUSE", 0.05)
    board = Switchboard(home)

    async def sends(asked: Asked) -> Json:
        return None

    async def main() -> None:
        who = board.has("echo-skill", modules={"echo": sends})
        await board.ask(who, "channels.register", channel="echo", connector_module="echo")
        board.modules.unregister("echo-skill")
        async with board.running():
            id = (await board.ask(who, "channels.send_message", channel="echo", chat_id="c", text="x"))[
                "message_id"
            ]
            await board.until(lambda: board.message(id).attempts > 0)
            assert "unknown_tool" in board.message(id).error or board.message(id).state == "sending"
            board.has("echo-skill", modules={"echo": sends})
            await board.until(lambda: board.message(id).state == "sent")
        assert board.message(id).doubtful == 0, "nothing ran, so it did not arrive twice"

    anyio.run(main)


def test_who_takes_the_module_of_a_skill_that_died_is_not_told_its_messages(
    home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metier.kernel.deliveries._NOBODY", 0.05)
    board, told = Switchboard(home), list[Json]()

    async def listens(asked: Asked) -> Json:
        told.append(asked.arguments["text"])
        return None

    async def main() -> None:
        who = board.has("echo-skill", modules={"echo": listens})
        await board.ask(who, "channels.register", channel="echo", connector_module="echo")
        board.modules.unregister("echo-skill")
        board.modules.let_go("echo-skill")
        board.has("thief", modules={"echo": listens})
        async with board.running():
            sent = await board.ask(who, "channels.send_message", channel="echo", chat_id="c", text="secret")
            id = sent["message_id"]
            await board.until(lambda: "another skill has the module" in board.message(id).error)
            assert told == []
            board.modules.unregister("thief")
            board.modules.let_go("thief")
            board.has("echo-skill", modules={"echo": listens})
            await board.until(lambda: board.message(id).state == "sent")
        assert told == ["secret"]

    anyio.run(main)


def test_a_channel_of_ours_that_is_not_set_up_says_so_and_sends_once_it_is(
    home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metier.kernel.deliveries._NOBODY", 0.05)
    board, post = Switchboard(home), Post()

    async def main() -> None:
        async with board.running():
            id = (await board.say("hello"))["message_id"]
            await board.until(lambda: bool(board.message(id).error))
            assert "not set up" in board.message(id).error
            board.connectors.connect("telegram", post)
            await board.until(lambda: board.message(id).state == "sent")

    anyio.run(main)


def test_what_another_process_wants_sent_is_sent_here(home: str) -> None:
    board, other, post = Switchboard(home), Switchboard(home), Post()
    board.connectors.connect("telegram", post)

    async def main() -> None:
        async with board.running():
            await other.say("from elsewhere")
            await board.until(lambda: post.sent == [("c", "from elsewhere")])

    anyio.run(main)


def test_a_clock_that_was_wrong_keeps_no_message_waiting_for_years(home: str) -> None:
    board, post = Switchboard(home), Post()
    board.connectors.connect("telegram", post)

    async def main() -> None:
        await board.say("hello")
        with board.store.writing() as connection:
            connection.execute("UPDATE message SET next_try = ?", (time.time() + 3e8,))
        async with board.running():
            await board.until(lambda: len(post.sent) == 1)

    anyio.run(main)
