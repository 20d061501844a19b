"""Messages on their way out: whole, in order, at a bearable pace, and to nobody who is not to be written to."""

from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.catalog.here import owner
from metier.doors.telegram.api import BotApi
from metier.doors.telegram.configured import Configured
from metier.doors.telegram.sending import BURST, OVERALL, Pace, Sender
from metier.doors.telegram.text import LONGEST, pieces, units
from metier.kernel.delivery_ports import Never, NotNow
from metier.kernel.store import Store
from metier.model.call import Principal
from metier.model.digest import Json
from metier.model.outcome import Completed
from metier.runtime.as_owner import operate
from metier.testing import bot_api_methods
from metier.testing.bot_api import BotApiServer
from metier.testing.bot_api_methods import BOT_ID
from telegram_desk import ADA, EVE, Desk, asked, with_desk


@given(st.text(alphabet=st.sampled_from("ab \n😀ä"), max_size=300), st.integers(2, 40))
def test_every_piece_fits_and_nothing_is_lost_but_breaks(text: str, most: int) -> None:
    made = pieces(text, most)
    assert all(units(piece) <= most and piece.strip() for piece in made)
    assert "".join("".join(made).split()) == "".join(text.split())


def test_what_counts_twice_for_telegram_counts_twice_here() -> None:
    assert units("😀a") == 3 == bot_api_methods.units("😀a")
    assert [len(piece) for piece in pieces("😀" * 3_000)] == [2_048, 952]


def test_a_text_is_parted_at_line_ends_where_there_are_some() -> None:
    line = "x" * 99
    first, second = pieces("\n".join([line] * 50))
    assert first.endswith("x")
    assert set(first.split("\n")) == set(second.split("\n")) == {line}


def test_a_long_message_arrives_whole_and_in_order(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        text = "\n".join(f"line {count} 😀" for count in range(900))
        async with desk.running():
            arguments = {"channel": "telegram", "chat_id": str(ADA), "text": text}
            assert isinstance(await operate(desk.settings(), "channels.send_message", arguments), Completed)
            await desk.until(lambda: "\n".join(desk.telegram.texts(ADA)) == text)
            assert all(units(each) <= LONGEST for each in desk.telegram.texts(ADA))
            assert len(desk.telegram.texts(ADA)) > 2

    with_desk(tmp_path, main)


def test_what_was_sent_before_the_connection_broke_is_not_sent_again(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        async with desk.running() as door:
            text = f"{'a' * 4_000}\n{'b' * 4_000}"
            original = desk.telegram.state.do
            cuts = iter([False, True, False])

            def broken(method: str, given: dict[str, object]) -> object:
                if method == "sendMessage" and next(cuts):
                    raise bot_api_methods.Refusal(500, "Internal Server Error")
                return original(method, given)

            desk.telegram.state.do = broken  # pyright: ignore[reportAttributeAccessIssue]
            with pytest.raises(NotNow):
                await door.connector.send(str(ADA), text, key="k", reply_to=None)
            assert await door.connector.send(str(ADA), text, key="k", reply_to=None)
            assert [each[0] for each in desk.telegram.texts(ADA)] == ["a", "b"]

    with_desk(tmp_path, main)


def test_tg_10_when_telegram_asks_for_silence_there_is_silence(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        async with desk.running() as door:
            desk.telegram.flood(7)
            with pytest.raises(NotNow) as first:
                await door.connector.send(str(ADA), "hello", key="1", reply_to=None)
            assert first.value.seconds == 7
            with pytest.raises(NotNow) as second:
                await door.connector.send(str(ADA), "hello", key="2", reply_to=None)
            assert 5 < second.value.seconds <= 7
            sends = [each for each in desk.telegram.asked if each.method == "sendMessage"]
            assert len(sends) == 1, "meanwhile it was not even asked"

    with_desk(tmp_path, main)


def test_tg_10_who_pressed_a_button_is_not_answered_either_while_there_is_silence(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        async with desk.running() as door:
            await door.connector.say(ADA, "press")
            query = desk.telegram.state.press(ADA, desk.telegram.last(ADA), "x")
            original = desk.telegram.state.do

            def flooded(method: str, given: dict[str, object]) -> object:
                if method == "answerCallbackQuery" and given["callback_query_id"] == "late":
                    raise bot_api_methods.Refusal(429, "Too Many Requests: retry after 9", 9)
                return original(method, given)

            desk.telegram.state.do = flooded  # pyright: ignore[reportAttributeAccessIssue]
            await desk.wait(lambda state: query in [each for each, _ in state.answers])
            with pytest.raises(NotNow):
                await door.connector.answer("late", "no")
            before = len(desk.telegram.asked)
            for asked_for in (door.connector.answer("1", "no"), door.connector.say(ADA, "hello")):
                with pytest.raises(NotNow) as held:
                    await asked_for
                assert 5 < held.value.seconds <= 9
            methods = {each.method for each in desk.telegram.asked[before:]}
            assert methods <= {"getUpdates"}, "meanwhile nothing was asked"

    with_desk(tmp_path, main)


@pytest.mark.parametrize(
    ("given", "counts"),
    [
        ("7", 7),
        (f"{bot_api_methods.BOT_ID}:7", 7),
        (f"{bot_api_methods.BOT_ID + 1}:7", None),
        ("seven", None),
        (":", None),
        ("9" * 200, None),
        ("٧", None),
    ],
)
def test_an_answer_refers_to_a_message_of_this_bot_or_to_none(
    tmp_path: Path, given: str, counts: int | None
) -> None:
    async def main(desk: Desk) -> None:
        async with desk.running() as door:
            number = await door.connector.send(str(ADA), "hello", key="k", reply_to=given)
            (sent,) = desk.telegram.state.sent
            assert sent.reply_to == counts
            assert number == f"{bot_api_methods.BOT_ID}:{sent.message_id}"

    with_desk(tmp_path, main)


@pytest.mark.parametrize("chat", ["-100123", "@ada", "ada", "", "0", "*", str(EVE), "1001\n"])
def test_only_people_the_bot_speaks_with_are_written_to(tmp_path: Path, chat: str) -> None:
    async def main(desk: Desk) -> None:
        async with desk.running() as door:
            with pytest.raises(Never):
                await door.connector.send(chat, "hello", key="k", reply_to=None)
            assert desk.telegram.state.sent == []
            assert await door.connector.send(str(ADA), "hello", key="k", reply_to=None), "and the others are"

    with_desk(tmp_path, main)


def test_somebody_who_blocked_the_bot_is_not_tried_for_ever(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        desk.telegram.state.blocked.add(ADA)
        async with desk.running() as door:
            with pytest.raises(Never, match="blocked"):
                await door.connector.send(str(ADA), "hello", key="k", reply_to=None)

    with_desk(tmp_path, main)


def test_what_is_sent_while_the_bot_is_stopped_waits() -> None:
    import anyio

    async def main() -> None:
        sender = Sender(lambda: None, lambda: Configured(admins=frozenset({ADA})))
        with pytest.raises(NotNow):
            await sender.send(str(ADA), "hello", key="k", reply_to=None)

    anyio.run(main)


def test_what_waited_while_the_bot_was_stopped_goes_as_soon_as_it_is_started(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        async with desk.hosting() as door:
            assert desk.calls is not None
            message: dict[str, Json] = {"channel": "telegram", "chat_id": str(ADA), "text": "at last"}
            await desk.calls.call(Principal(id=owner(), kind="human"), "channels.send_message", message)
            store = Store(str(desk.home))
            try:

                def waits() -> bool:
                    with store.writing() as connection:
                        changed = "UPDATE message SET next_try = next_try + 7000 WHERE state = 'waiting' AND error <> ''"
                        return connection.execute(changed).rowcount == 1

                await desk.until(waits)
            finally:
                store.close()
            await door.start(asked("start"))
            await desk.wait(lambda state: [each.text for each in state.sent] == ["at last"])

    with_desk(tmp_path, main)


def test_one_chat_gets_one_message_a_second_after_a_burst_and_others_go_on() -> None:
    now = 0.0
    pace = Pace(lambda: now)
    for _ in range(BURST):
        assert pace.wait(1) == 0.0
    assert 0 < pace.wait(1) <= 1
    assert pace.wait(2) == 0.0
    now += 1.0
    assert pace.wait(1) == 0.0
    assert pace.wait(1) > 0
    now += 10.0
    went = sum(pace.wait(chat) == 0.0 for chat in range(100, 200))
    assert went == OVERALL, "all together no more than that in a second"


LONG = "a" * LONGEST + "b" * LONGEST


def test_tg_06_nothing_is_sent_before_it_is_known_which_bot_it_is() -> None:
    async def main() -> None:
        with BotApiServer() as telegram:
            api = BotApi(telegram.url, telegram.token)
            sender = Sender(lambda: api, lambda: Configured(admins=frozenset({ADA})))
            with pytest.raises(NotNow):
                await sender.send(str(ADA), "hello", key="k", reply_to=f"{BOT_ID}:5")
            assert telegram.texts(ADA) == []
            await api.meet()
            assert await sender.send(str(ADA), "hello", key="k", reply_to=f"{BOT_ID}:5") == f"{BOT_ID}:1"
            assert telegram.last(ADA).reply_to == 5
            await api.close()

    anyio.run(main)


def test_tg_06_a_message_is_said_by_one_bot_and_begun_anew_by_the_next() -> None:
    async def main() -> None:
        with BotApiServer() as one, BotApiServer(token="7000000002:AAother") as other:
            first, second = BotApi(one.url, one.token), BotApi(other.url, other.token)
            await first.meet()
            await second.meet()
            now, honest = [first], one.answer

            def changed_meanwhile(path: str, kind: str, data: bytes) -> tuple[int, bytes] | None:
                now[0] = second
                return honest(path, kind, data)

            one.answer = changed_meanwhile  # pyright: ignore[reportAttributeAccessIssue]
            sender = Sender(lambda: now[0], lambda: Configured(admins=frozenset({ADA})))
            with pytest.raises(NotNow):
                await sender.send(str(ADA), LONG, key="k", reply_to=None)
            assert [each[0] for each in one.texts(ADA)] == ["a"]
            assert other.texts(ADA) == []
            assert await sender.send(str(ADA), LONG, key="k", reply_to=None) == "7000000002:2"
            assert [each[0] for each in other.texts(ADA)] == ["a", "b"]
            await first.close()
            await second.close()

    anyio.run(main)


@pytest.mark.parametrize(
    "odd", [b"<html>504 Gateway Time-out</html>", b'{"ok": false, "error_code": 500, "description": "oh"}']
)
def test_tg_10_what_a_gateway_failed_at_may_have_arrived_and_is_marked_so(odd: bytes) -> None:
    async def main() -> None:
        with BotApiServer() as telegram:
            api = BotApi(telegram.url, telegram.token)
            await api.meet()
            sender = Sender(lambda: api, lambda: Configured(admins=frozenset({ADA})))
            telegram.answer = lambda _path, _kind, _data: (504, odd)  # pyright: ignore[reportAttributeAccessIssue]
            with pytest.raises(NotNow) as later:
                await sender.send(str(ADA), "hello", key="k", reply_to=None)
            assert later.value.doubtful
            await api.close()

    anyio.run(main)
