"""Who somebody is, is his number: no name, no group, nobody else's words."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.config.load import load
from metier.doors.telegram.update import Passed, Pressed, Said, read
from metier.errors import ConfigError
from metier.kernel import conversation_rows
from metier.kernel.operation import OperationError
from metier.model.call import Principal
from metier.testing.bot_api_methods import BotState
from telegram_desk import ADA, BEN, EVE, Desk, asked, status, with_desk

GROUP = {"id": -100123, "type": "supergroup", "title": "Us"}
NOT_COMMANDS: dict[str, dict[str, Any]] = {
    "edited": {"kind": "edited_message", "edit_date": 1},
    "edited, as a message": {"edit_date": 1},
    "forwarded": {"forward_origin": {"type": "user", "date": 1}},
    "forwarded, as it was told before": {"forward_from": {"id": 5, "is_bot": False, "first_name": "X"}},
    "channel post": {"kind": "channel_post", "chat": {"id": -100, "type": "channel"}},
    "anonymous admin": {"chat": GROUP, "sender_chat": GROUP},
    "through another bot": {"via_bot": {"id": 9, "is_bot": True, "first_name": "B"}},
    "in a group": {"chat": GROUP},
    "by a bot": {"from": {"id": ADA, "is_bot": True, "first_name": "Robot"}},
    "to a business": {"business_connection_id": "x"},
    "inline": {"kind": "inline_query"},
}


def notes(desk: Desk) -> list[str]:
    return [each.tool for each in desk.records() if each.tool == "telegram_door.noted"]


def test_tg_03_a_stranger_also_one_with_a_familiar_name_is_ignored_and_on_the_record(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        desk.values["admin_chat_ids"] = [str(ADA), "ada"]
        async with desk.running() as door:
            desk.telegram.state.message(EVE, "rm -rf /", username="ada")
            desk.telegram.state.message(ADA, "mine", username="somebody")
            await desk.until(lambda: desk.messages())
            assert desk.messages() == [(str(ADA), "mine")], "and the one who is listed is heard"
            assert notes(desk)
            assert status(door)["problems"] == [
                "'ada' in admin_chat_ids is nobody: only a person's number counts"
            ]

    with_desk(tmp_path, main)


def test_tg_03_a_stranger_who_floods_fills_no_record(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        async with desk.running() as door:
            for count in range(300):
                desk.telegram.state.message(EVE, f"{count}")
            await desk.until(lambda: status(door)["ignored"] == 300)
            assert len(notes(desk)) == 2, "one note: that it began, and that it ended well"

    with_desk(tmp_path, main)


@pytest.mark.parametrize("how", NOT_COMMANDS)
def test_tg_07_what_nobody_said_himself_now_to_the_bot_is_no_message(how: str) -> None:
    state = BotState()
    state.message(ADA, "do it", **NOT_COMMANDS[how])
    found = read(msgspec.json.encode(state.waiting[0]))
    assert isinstance(found, Passed)
    assert found.update == state.waiting[0]["update_id"], "it is confirmed, so it does not come again"


def test_tg_07_only_what_a_person_wrote_himself_is_stored(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        async with desk.running() as door:
            for how in NOT_COMMANDS.values():
                desk.telegram.state.message(ADA, "do it", **how)
            desk.telegram.state.message(ADA, "said myself")
            await desk.until(lambda: desk.messages())
            assert desk.messages() == [(str(ADA), "said myself")]
            assert status(door)["ignored"] == len(NOT_COMMANDS)
            assert notes(desk)

    with_desk(tmp_path, main)


@pytest.mark.parametrize("listed", [[], ["*"], ["-100123"], ["@ada"], ["0"], ["01001"], [None], "1001", None])
def test_tg_08_a_group_a_star_or_an_empty_list_lets_nobody_in(tmp_path: Path, listed: Any) -> None:
    async def main(desk: Desk) -> None:
        desk.values["admin_chat_ids"] = listed
        async with desk.running() as door:
            desk.telegram.state.message(EVE, "hello", chat=GROUP)
            desk.telegram.state.message(BEN, "hello")
            desk.telegram.state.message(EVE, "hello")
            await desk.until(lambda: status(door)["ignored"] == 3)
            assert desk.messages() == []
            assert status(door)["problems"]

    with_desk(tmp_path, main)


def test_customers_are_heard_only_where_the_operators_file_says_so_and_marked_as_such(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        desk.more = "customers = true"
        async with desk.running():
            desk.telegram.state.message(EVE, "do you deliver?")
            await desk.until(lambda: desk.messages() == [(str(EVE), "do you deliver?")])

    with_desk(tmp_path, main)


@pytest.mark.parametrize("user", ["*", "-100123", "@ada", "ada", "", "0"])
def test_tg_08_nobody_but_a_person_can_be_an_approver(tmp_path: Path, user: str) -> None:
    (tmp_path / "metier.toml").write_text(f'[telegram]\napprovers = {{ "{user}" = "human:ada" }}\n')
    (tmp_path / "metier.toml").chmod(0o600)
    with pytest.raises(ConfigError, match="approvers"):
        load(home=str(tmp_path), project=str(tmp_path), environ={"HOME": str(tmp_path)})


def test_a_button_and_a_message_are_read_as_what_they_are() -> None:
    message = b'{"update_id":5,"message":{"message_id":7,"date":3,"chat":{"id":4,"type":"private"},"from":{"id":4,"is_bot":false},"text":"hi"}}'
    assert read(message) == Said(update=5, user=4, message=7, text="hi", at=3)
    query = b'{"update_id":6,"callback_query":{"id":"q","from":{"id":4,"is_bot":false},"data":"d","chat_instance":"1","message":{"message_id":8,"chat":{"id":4,"type":"private"}}}}'
    assert read(query) == Pressed(update=6, query="q", user=4, chat=4, message=8, data="d")
    assert read(b"nonsense") == Passed(update=0, why="it cannot be read")


@pytest.mark.parametrize("rest", [b"1e999", b'"\xff"', b"[[[]]]"])
def test_tg_10_what_cannot_be_read_has_a_number_all_the_same_and_can_be_confirmed(rest: bytes) -> None:
    assert read(b'{"update_id":5,"message":' + rest + b"}") == Passed(update=5, why="it cannot be read")


@pytest.mark.parametrize("number", [b"-5", b"0", b"5.0", b'"5"', b"null", b"9" * 30])
def test_tg_10_a_number_that_no_update_has_is_not_believed(number: bytes) -> None:
    assert read(b'{"update_id":' + number + b',"message":{}}').update == 0


KEYS = st.sampled_from(
    ["update_id", "message", "callback_query", "from", "chat", "id", "is_bot", "text", "date", "type", "data"]
)
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.text(max_size=5)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda within: st.lists(within, max_size=3) | st.dictionaries(KEYS, within, max_size=5),
    max_leaves=20,
)


@given(ANYTHING)
def test_whatever_telegram_says_is_read_as_something_or_as_nothing(tree: Any) -> None:
    for each in (tree, {"update_id": 5, "message": tree}, {"update_id": 5, "callback_query": tree}):
        assert isinstance(read(json.dumps(each).encode()), Said | Pressed | Passed)


def test_nobody_but_the_shipped_skill_speaks_with_the_door(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        async with desk.hosting() as door:
            assert await door.status(asked("status")), "the skill itself may"
            for other in ("skill:other", "agent:cli", "human:uid-0", "agent:host"):
                kind = other.partition(":")[0]
                with pytest.raises(OperationError) as refused:
                    await door.start(asked("start", Principal(id=other, kind=kind)))  # pyright: ignore[reportArgumentType]
                assert refused.value.code == "E_AGENT_FORBIDDEN"
            with pytest.raises(OperationError):
                await door.noted(asked("noted"))

    with_desk(tmp_path, main)


def test_who_is_let_in_and_where_updates_go_cannot_be_said_by_a_call(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        async with desk.hosting() as door:
            for given in (
                {"admin_chat_ids": ["6666"]},
                {"bot_token": "x"},
                {"webhook": {"url": "https://evil"}},
            ):
                with pytest.raises(OperationError, match="is not set here"):
                    await door.configure(asked("configure", config=given))
            with pytest.raises(OperationError, match="only the address in the setting"):
                await door.set_webhook(asked("set_webhook", url="https://evil.example.com/"))
            await door.configure(
                asked("configure", config={"mode": "webhook", "polling": {"timeout_sec": 9}})
            )
            assert (status(door)["mode"], status(door)["polling"]["timeout_sec"]) == ("webhook", 9)

    with_desk(tmp_path, main)


def test_tg_03_however_much_strangers_write_a_button_pressed_by_one_is_on_the_record(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        async with desk.running() as door:
            approval, sent = await desk.shown()
            for stranger in range(40):
                desk.telegram.state.message(50_000 + stranger, "spam")
            await desk.until(lambda: status(door)["ignored"] >= 40)
            before = noted(desk)
            assert await desk.pressed(EVE, sent, "Once") == "This is not yours to decide."
            await desk.until(lambda: noted(desk) == before + 1)
            assert desk.state(approval) == "pending"

    with_desk(tmp_path, main)


def noted(desk: Desk) -> int:
    """How many notes are on the record."""
    return len(
        [
            each
            for each in desk.records()
            if each.tool == "telegram_door.noted" and each.event == "skill_execution_started"
        ]
    )


def test_a_message_that_is_refused_for_good_is_told_in_the_status(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        policy = desk.home / "policy.toml"
        policy.write_text(
            '[[rule]]\nname = "out"\ntool = "channels.route_inbound_message"\ndecision = "deny"\nbecause = "not today"\n',
            encoding="utf-8",
        )
        policy.chmod(0o600)
        async with desk.running() as door:
            desk.telegram.state.message(ADA, "hello")
            await desk.until(lambda: status(door)["refused"] == 1)
            assert any("not today" in each for each in status(door)["problems"])

    with_desk(tmp_path, main)


@pytest.mark.parametrize("bound", ["MOST_BYTES", "MOST_OF_STRANGER", "MOST_RECEIVED"])
def test_tg_03_what_strangers_write_has_bounds_and_keeps_nobody_else_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(conversation_rows, bound, 2_000)

    async def main(desk: Desk) -> None:
        desk.more = f"customers = true\n{desk.more}"
        async with desk.running() as door:
            if bound == "MOST_RECEIVED":
                monkeypatch.setattr(conversation_rows, bound, 0)
            for _ in range(120):  # more than Telegram tells at once
                desk.telegram.state.message(EVE, "x" * 1_500)
            await desk.until(lambda: not desk.telegram.state.waiting, seconds=60)
            assert len(desk.messages()) == (0 if bound == "MOST_RECEIVED" else 1)
            assert status(door)["refused"] >= 119
            assert status(door)["error"] == ""
            monkeypatch.setattr(conversation_rows, "MOST_RECEIVED", 10_000)
            desk.telegram.state.message(ADA, "mine " * 500)
            await desk.until(lambda: str(ADA) in dict(desk.messages()))

    with_desk(tmp_path, main)
