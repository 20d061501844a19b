"""The Bot API server of our own writing does what the public description of the real one says."""

import threading
from typing import Any

import msgspec
import pytest

from metier.testing.bot_api import BotApiServer
from metier.testing.bot_api_methods import BOT_ID, BotState, Refusal


def asked(telegram: BotApiServer, method: str, **given: Any) -> tuple[int, Any]:
    found = telegram.answer(f"/bot{telegram.token}/{method}", "application/json", msgspec.json.encode(given))
    assert found is not None
    return found[0], msgspec.json.decode(found[1])


def test_an_answer_says_ok_and_a_refusal_says_why() -> None:
    telegram = BotApiServer()
    assert asked(telegram, "getMe")[1]["result"]["id"] == BOT_ID
    assert asked(telegram, "getMe")[1]["result"]["is_bot"] is True
    wrong = telegram.answer("/bot1:wrong/getMe", "", b"")
    assert wrong == (401, b'{"ok":false,"error_code":401,"description":"Unauthorized"}')
    assert asked(telegram, "noSuchMethod") == (
        404,
        {"ok": False, "error_code": 404, "description": "Not Found"},
    )
    telegram.flood(3)
    status, body = asked(telegram, "sendMessage", chat_id=5, text="x")
    assert (status, body["parameters"]) == (429, {"retry_after": 3})


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"chat_id": 5, "text": " "}, "text is empty"),
        ({"chat_id": 5, "text": "x" * 4_097}, "too long"),
        ({"chat_id": 5, "text": "😀" * 2_049}, "too long"),
        ({"chat_id": "@ada", "text": "x"}, "chat not found"),
        ({"chat_id": 6, "text": "x"}, "blocked by the user"),
    ],
)
def test_a_message_that_the_real_one_refuses_is_refused(given: dict[str, Any], why: str) -> None:
    telegram = BotApiServer()
    telegram.state.blocked.add(6)
    assert why in asked(telegram, "sendMessage", **given)[1]["description"]
    assert asked(telegram, "sendMessage", chat_id=5, text="😀" * 2_048)[0] == 200


def test_what_the_real_one_takes_out_of_a_message_does_not_arrive() -> None:
    telegram = BotApiServer()
    asked(telegram, "sendMessage", chat_id=5, text="a\u0333b\u030ac\u033fd\u202ee\r\n\x07f")
    assert telegram.texts(5) == ["abcde\n f"]


def test_a_button_carries_64_bytes_and_no_more() -> None:
    telegram = BotApiServer()
    for size, status in ((64, 200), (65, 400), (0, 400)):
        row = [[{"text": "yes", "callback_data": "x" * size}]]
        assert (
            asked(telegram, "sendMessage", chat_id=5, text="?", reply_markup={"inline_keyboard": row})[0]
            == status
        )


def test_updates_wait_until_a_higher_offset_confirms_them() -> None:
    state = BotState()
    first = state.post({"poll": {}})
    second = state.post({"poll": {}})
    assert [each["update_id"] for each in state.do("getUpdates", {})] == [first, second]
    assert [each["update_id"] for each in state.do("getUpdates", {"limit": 1})] == [first]
    assert [each["update_id"] for each in state.do("getUpdates", {"offset": second})] == [second]
    assert state.do("getUpdates", {"offset": second + 1}) == []
    state.again = 1
    assert [each["update_id"] for each in state.do("getUpdates", {"offset": second + 1})] == [second]


def test_an_offset_far_beyond_the_newest_update_confirms_nothing_and_is_answered_from_the_beginning() -> None:
    state = BotState()
    first = state.post({"poll": {}})
    for _ in range(2):
        assert [each["update_id"] for each in state.do("getUpdates", {"offset": first + 11})] == [first]
    assert state.do("getUpdates", {"offset": first + 10}) == []


def test_of_two_that_poll_the_first_is_told_and_with_a_webhook_nobody_polls() -> None:
    state, ended = BotState(), list[object]()

    def poll() -> None:
        try:
            ended.append(state.do("getUpdates", {"timeout": 20}))
        except Refusal as refusal:
            ended.append(refusal.code)

    first = threading.Thread(target=poll)
    first.start()
    with state.turn:
        assert state.turn.wait_for(lambda: state.offsets, 5)
    assert state.do("getUpdates", {"timeout": 0}) == []
    first.join(5)
    assert ended == [409]
    with pytest.raises(Refusal, match="HTTPS URL"):
        state.do("setWebhook", {"url": "http://x"})
    state.do("setWebhook", {"url": "https://x/", "secret_token": "abc"})
    with pytest.raises(Refusal, match="webhook is active"):
        state.do("getUpdates", {})
    assert state.do("getWebhookInfo", {})["url"] == "https://x/"
    state.do("deleteWebhook", {})
    assert state.do("getUpdates", {}) == []


def test_a_pressed_button_is_answered_once_and_a_message_edited_only_to_something_else() -> None:
    state = BotState()
    state.do("sendMessage", {"chat_id": 5, "text": "?"})
    (sent,) = state.sent
    query = state.press(5, sent, "data")
    pressed = state.waiting[-1]["callback_query"]
    assert (pressed["id"], pressed["from"]["id"], pressed["data"]) == (query, 5, "data")
    assert pressed["chat_instance"]
    state.do("answerCallbackQuery", {"callback_query_id": query})
    with pytest.raises(Refusal, match="query is too old"):
        state.do("answerCallbackQuery", {"callback_query_id": query})
    state.do("editMessageText", {"chat_id": 5, "message_id": sent.message_id, "text": "!"})
    with pytest.raises(Refusal, match="not modified"):
        state.do("editMessageText", {"chat_id": 5, "message_id": sent.message_id, "text": "!"})
    with pytest.raises(Refusal, match="not found"):
        state.do("editMessageText", {"chat_id": 5, "message_id": 999, "text": "!"})
