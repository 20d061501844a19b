"""Channels: who registers one owns it, and nobody else gets to it, under whatever name."""

from pathlib import Path

import anyio
import pytest

from metier.kernel.channel_rows import MOST_OF_ONE
from metier.kernel.channel_rules import (
    BAD_PARAMS,
    BROKEN,
    CONFLICT,
    FORBIDDEN,
    FULL,
    MOST_TEXT,
    UNKNOWN,
    clean_text,
    require_no_secrets,
    taken_in,
)
from metier.kernel.operation import Asked, OperationError
from metier.model.call import Principal
from metier.model.digest import Json
from metier.model.settled import settled
from switchboard import HOST, OWNER, TELEGRAM, Switchboard, private, skill


async def sends(asked: Asked) -> Json:
    return {"message_id": "1"}


@pytest.fixture
def board(tmp_path: Path) -> Switchboard:
    return Switchboard(private(tmp_path))


async def echo(board: Switchboard) -> Principal:
    """The skill of the seed: it declares no channels, and has one called like its module."""
    who = board.has("echo-skill", modules={"echo": sends})
    await board.ask(who, "channels.register", channel="echo", connector_module="echo")
    return who


def test_a_skill_registers_its_channel_and_configures_it(board: Switchboard) -> None:
    async def main() -> None:
        who = await echo(board)
        await board.ask(who, "channels.configure", channel="echo", config={"mode": "echo"})
        found = {each["channel"]: each for each in (await board.ask(who, "channels.list"))["channels"]}
        assert found["echo"]["config"] == {"mode": "echo"}
        assert (found["echo"]["skill"], found["echo"]["status"]) == ("echo-skill", "ready")

    anyio.run(main)


def test_registering_again_after_a_restart_keeps_what_was_configured(board: Switchboard) -> None:
    async def main() -> None:
        who = await echo(board)
        await board.ask(who, "channels.configure", channel="echo", config={"mode": "echo"})
        await board.ask(who, "channels.register", channel="echo", connector_module="echo")
        found = (await board.ask(OWNER, "channels.list"))["channels"]
        assert [each["config"] for each in found if each["channel"] == "echo"] == [{"mode": "echo"}]

    anyio.run(main)


def test_another_skill_gets_a_channel_neither_by_its_name_nor_by_one_that_looks_like_it(
    board: Switchboard,
) -> None:
    async def main() -> None:
        await echo(board)
        thief = board.has("thief", channels=("echo", "Echo", "ech0", "own"), modules={"loot": sends})
        for name in ("echo", "Echo", "ECHO", "ech0"):
            assert await board.refused(thief, "channels.register", channel=name, connector_module="loot") == (
                FORBIDDEN if name == "ECHO" else CONFLICT
            )
        await board.ask(thief, "channels.register", channel="own", connector_module="loot")

    anyio.run(main)


def test_a_skill_sends_by_its_own_module_and_by_no_other(board: Switchboard) -> None:
    async def main() -> None:
        await echo(board)
        thief = board.has("thief", channels=("post",), modules={"loot": sends})
        for module in ("echo", "channels", "settings", "nothing", ""):
            asked = board.refused(thief, "channels.register", channel="post", connector_module=module)
            assert await asked == FORBIDDEN
        await board.ask(thief, "channels.register", channel="post", connector_module="loot")

    anyio.run(main)


def test_a_skill_owns_only_channels_that_it_declared(board: Switchboard) -> None:
    async def main() -> None:
        who = board.has("chat", channels=("matrix",), modules={"chat": sends})
        assert (
            await board.refused(who, "channels.register", channel="chat", connector_module="chat")
            == FORBIDDEN
        )
        await board.ask(who, "channels.register", channel="matrix", connector_module="chat")
        silent = board.has("silent", modules={"whisper": sends})
        refused = board.refused(silent, "channels.register", channel="irc", connector_module="whisper")
        assert await refused == FORBIDDEN
        await board.ask(silent, "channels.register", channel="whisper", connector_module="whisper")

    anyio.run(main)


@pytest.mark.parametrize(
    "name", ["metier", "Metier", "host", "terminal", "webhook", "te1egram", "Telegram", "telegrаm"]
)
def test_a_name_of_ours_is_nobodys_however_it_is_spelled(board: Switchboard, name: str) -> None:
    async def main() -> None:
        who = board.has("thief", channels=(name,), modules={"loot": sends})
        refused = await board.refused(who, "channels.register", channel=name, connector_module="loot")
        assert refused in (CONFLICT, BAD_PARAMS)

    anyio.run(main)


def test_the_channel_of_our_own_door_is_registered_by_the_skill_that_ships_and_by_nobody_else(
    board: Switchboard,
) -> None:
    async def main() -> None:
        key = "@xpell/agent-skill-telegram"
        false = board.has("forged", channels=("telegram",), modules={"forged": sends}, key=key)
        refused = board.refused(false, "channels.register", channel="telegram", connector_module="forged")
        assert await refused == FORBIDDEN, "the same id, and not the one that ships"
        ships = board.has(
            TELEGRAM, channels=("telegram",), modules={"telegram": sends}, key=key, source="bundled"
        )
        await board.ask(ships, "channels.register", channel="telegram", connector_module="telegram")

    anyio.run(main)


@pytest.mark.parametrize("name", ["", " ", "a b", "echo ", "ü", "a" * 65, "../x", "e\u200bcho", "1st"])
def test_what_is_no_name_is_no_channel(board: Switchboard, name: str) -> None:
    async def main() -> None:
        who = board.has("odd", modules={"odd": sends})
        assert (
            await board.refused(who, "channels.register", channel=name, connector_module="odd") == BAD_PARAMS
        )

    anyio.run(main)


def test_agents_and_people_register_no_channel(board: Switchboard) -> None:
    async def main() -> None:
        for who in (OWNER, HOST, Principal(id="agent:cli", kind="agent"), skill("unknown")):
            asked = board.refused(who, "channels.register", channel="echo", connector_module="echo")
            assert await asked == FORBIDDEN

    anyio.run(main)


def test_another_skill_neither_configures_nor_sends_nor_takes_in_for_a_channel(board: Switchboard) -> None:
    async def main() -> None:
        who = await echo(board)
        thief = board.has("thief", modules={"loot": sends})
        message = {"channel": "echo", "chat_id": "c", "text": "hello"}
        for each, allowed in ((thief, False), (who, True)):  # the owner is the control
            asks = (
                ("channels.configure", {"channel": "echo", "config": {"mode": "x"}}),
                ("channels.send_message", message),
                ("channels.route_inbound_message", {**message, "message_id": "1"}),
            )
            for name, arguments in asks:
                if allowed:
                    assert (await board.ask(each, name, **arguments))["ok"] is True
                else:
                    assert await board.refused(each, name, **arguments) == FORBIDDEN, name

    anyio.run(main)


def test_a_skill_that_declares_that_it_needs_a_channel_sends_on_it_and_does_no_more(
    board: Switchboard,
) -> None:
    async def main() -> None:
        await echo(board)
        needs = board.has("crm", channels=("echo",), modules={"crm": sends})
        sent = await board.ask(needs, "channels.send_message", channel="echo", chat_id="c", text="hello")
        assert sent["state"] == "waiting"
        assert await board.refused(needs, "channels.configure", channel="echo", config={}) == FORBIDDEN
        message = {"channel": "echo", "chat_id": "c", "text": "hello", "message_id": "1"}
        assert await board.refused(needs, "channels.route_inbound_message", **message) == FORBIDDEN

    anyio.run(main)


def test_the_host_takes_in_for_our_own_doors_and_for_no_channel_of_a_skill(board: Switchboard) -> None:
    async def main() -> None:
        await echo(board)
        message = {"chat_id": 5, "message_id": 7, "text": "hello"}
        assert (
            await board.refused(HOST, "channels.route_inbound_message", channel="echo", **message)
            == FORBIDDEN
        )
        stored = await board.ask(HOST, "channels.route_inbound_message", channel="telegram", **message)
        assert stored["duplicate"] is False
        triggered = Principal(id="agent:trigger/t", kind="agent", on_behalf_of=OWNER.id)
        refused = board.refused(triggered, "channels.route_inbound_message", channel="telegram", **message)
        assert await refused == FORBIDDEN, "what fires by itself does not say what came in"

    anyio.run(main)


def test_cap_13_a_channel_stays_the_name_of_its_skill_while_that_one_is_down(board: Switchboard) -> None:
    async def main() -> None:
        who = await echo(board)
        taken = {"channel": "echo", "connector_module": "second"}
        second = board.has("second", channels=("echo",), modules={"second": sends})
        board.modules.unregister("echo-skill")
        await board.channels.unregister("echo-skill")
        assert await board.refused(second, "channels.register", **taken) == CONFLICT
        message = {"channel": "echo", "chat_id": "c", "text": "x"}
        for each in (OWNER, second, who):
            assert await board.refused(each, "channels.send_message", **message) == UNKNOWN
        assert "echo" not in [
            each["channel"] for each in (await board.ask(OWNER, "channels.list"))["channels"]
        ]
        assert await echo(board) == who, "it comes back and has it as before"
        assert (await board.ask(OWNER, "channels.send_message", **message))["ok"] is True
        # The control: once a person says so, another may have the name.
        board.modules.unregister("echo-skill")
        await board.channels.unregister("echo-skill")
        await board.ask(OWNER, "channels.remove", channel="echo")
        assert (await board.ask(second, "channels.register", **taken))["ok"] is True

    anyio.run(main)


def test_cap_13_a_skill_that_cannot_be_read_for_a_while_keeps_its_channel_and_what_waits_there(
    board: Switchboard,
) -> None:
    async def main() -> None:
        who = await echo(board)
        waits = await board.ask(who, "channels.send_message", channel="echo", chat_id="c", text="for c alone")
        second = board.has("second", channels=("echo",), modules={"second": sends})
        taken = {"channel": "echo", "connector_module": "second"}
        board.modules.unregister(
            "echo-skill"
        )  # its files became unreadable, so its life ended and the catalog has it no more
        del board.listed["echo-skill"]
        assert await board.refused(second, "channels.register", **taken) == CONFLICT
        await board.channels.unregister("echo-skill")
        assert await board.refused(second, "channels.register", **taken) == CONFLICT
        assert board.message(waits["message_id"]).state == "waiting"
        assert await echo(board) == who
        async with board.running():
            await board.until(lambda: board.message(waits["message_id"]).state == "sent")

    anyio.run(main)


def test_what_was_registered_is_gone_with_its_skill_and_whoever_comes_next_finds_nothing_of_it(
    board: Switchboard,
) -> None:
    async def main() -> None:
        who = await echo(board)
        await board.ask(who, "channels.configure", channel="echo", config={"mode": "mine"})
        first = await board.ask(who, "channels.send_message", channel="echo", chat_id="c", text="for c alone")
        board.modules.unregister("echo-skill")
        await board.channels.unregister("echo-skill")
        assert (
            await board.refused(OWNER, "channels.send_message", channel="echo", chat_id="c", text="x")
            == UNKNOWN
        )
        next_one = board.has("second", channels=("echo",), modules={"second": sends})
        await board.ask(OWNER, "channels.remove", channel="echo")
        await board.ask(next_one, "channels.register", channel="echo", connector_module="second")
        listed = (await board.ask(next_one, "channels.list"))["channels"]
        assert [each["config"] for each in listed if each["channel"] == "echo"] == [{}]
        second = await board.ask(next_one, "channels.send_message", channel="echo", chat_id="c", text="other")
        assert second["thread_id"] != first["thread_id"]
        seen = [each["thread_id"] for each in (await board.ask(next_one, "conv.list_threads"))["threads"]]
        assert seen == [second["thread_id"]]
        theirs = {"thread_id": first["thread_id"]}
        assert await board.refused(next_one, "conv.get_thread", **theirs) == UNKNOWN
        # The control: what was said under who has the channel now is seen by who declared that it needs it.
        needs = board.has("needs", channels=("echo",), modules={"needs": sends})
        assert len((await board.ask(needs, "conv.list_threads"))["threads"]) == 1
        async with board.running():
            await board.until(lambda: board.message(second["message_id"]).state == "sent")
            await board.until(lambda: board.message(first["message_id"]).attempts > 0)
        left = board.message(first["message_id"])
        assert (left.state, "does not have the channel any more" in left.error) == ("waiting", True)
        assert [arguments["text"] for _, _, arguments, _ in board.made] == ["other"]

    anyio.run(main)


def test_what_others_configured_is_shown_to_people_and_to_its_owner_alone(board: Switchboard) -> None:
    async def main() -> None:
        who = await echo(board)
        await board.ask(who, "channels.configure", channel="echo", config={"room": "42"})
        other = board.has("other", modules={"other": sends})
        for each, sees in ((who, True), (OWNER, True), (other, False)):
            listed = (await board.ask(each, "channels.list"))["channels"]
            assert [("config" in row) for row in listed if row["channel"] == "echo"] == [sees]

    anyio.run(main)


@pytest.mark.parametrize(
    "config",
    [
        {"bot_token": "123456:secret-value"},
        {"nested": {"password": "hunter2hunter2"}},
        {"headers": [{"name": "Authorization", "value": "Bearer abcdef0123456789"}]},
        {"url": "https://user:hunter2@example.com/"},
        {"note": "sk-live0123456789abcdefghij"},
    ],
)
def test_sec_02_a_secret_in_the_clear_is_refused_in_a_configuration_and_not_repeated(
    config: dict[str, Json],
) -> None:
    with pytest.raises(OperationError) as error:
        require_no_secrets(config)
    said = error.value.message
    assert "looks like a secret" in said
    assert not [each for each in ("secret-value", "hunter2", "abcdef0123456789", "sk-live") if each in said]


def test_sec_02_a_reference_may_stand_in_a_configuration_and_stays_one(board: Switchboard) -> None:
    async def main() -> None:
        who = await echo(board)
        config = {"bot_token": "env://BOT_TOKEN", "mode": "polling", "hosts": ["a", "b"]}
        await board.ask(who, "channels.configure", channel="echo", config=config)
        with board.store.reading() as connection:
            (kept,) = connection.execute("SELECT config FROM channel WHERE name = 'echo'").fetchone()
        assert "env://BOT_TOKEN" in kept

    anyio.run(main)


def test_a_row_that_cannot_be_read_is_listed_as_broken_and_the_others_go_on(board: Switchboard) -> None:
    async def main() -> None:
        who = await echo(board)
        with board.store.writing() as connection:
            connection.execute("UPDATE channel SET config = '{' WHERE name = 'echo'")
        listed = {each["channel"]: each for each in (await board.ask(OWNER, "channels.list"))["channels"]}
        assert listed["echo"]["status"] == "broken"
        assert "configure it anew" in listed["echo"]["why"]
        assert (
            await board.refused(who, "channels.send_message", channel="echo", chat_id="c", text="x") == BROKEN
        )
        assert (await board.came_in("still works"))["ok"] is True
        await board.ask(who, "channels.configure", channel="echo", config={})
        assert (await board.ask(who, "channels.send_message", channel="echo", chat_id="c", text="x"))[
            "ok"
        ] is True

    anyio.run(main)


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"text": ""}, BAD_PARAMS),
        ({"text": "ü" * (MOST_TEXT // 2 + 1)}, BAD_PARAMS),
        ({"chat_id": ""}, BAD_PARAMS),
        ({"chat_id": "a\nb"}, BAD_PARAMS),
        ({"chat_id": "x" * 257}, BAD_PARAMS),
        ({"chat_id": True}, BAD_PARAMS),
        ({"key": "a\x00b"}, BAD_PARAMS),
        ({"channel": "nowhere"}, UNKNOWN),
    ],
)
def test_what_cannot_be_sent_is_refused_before_it_is_stored(
    board: Switchboard, more: dict[str, Json], code: str
) -> None:
    async def main() -> None:
        message = {"channel": "telegram", "chat_id": "1", "text": "x", **more}
        assert await board.refused(OWNER, "channels.send_message", **message) == code
        with board.store.reading() as connection:
            assert connection.execute("SELECT count(*) FROM message").fetchone() == (0,)

    anyio.run(main)


def test_the_longest_message_is_taken_and_what_comes_beside_it_is_bounded(board: Switchboard) -> None:
    async def main() -> None:
        stored = await board.say("a" * MOST_TEXT)
        assert board.message(stored["message_id"]).text == "a" * MOST_TEXT
        message = {"channel": "telegram", "chat_id": 1, "message_id": 1, "text": "x"}
        big = {"x": "a" * 20_000}
        assert await board.refused(HOST, "channels.route_inbound_message", **message, data=big) == BAD_PARAMS

    anyio.run(main)


def test_one_skill_has_only_so_many_channels(board: Switchboard) -> None:
    async def main() -> None:
        names = tuple(f"room-{letter}x" for letter in "abcdefghjkmnpqrst"[: MOST_OF_ONE + 1])
        who = board.has("many", channels=names, modules={"many": sends})
        for name in names[:-1]:
            await board.ask(who, "channels.register", channel=name, connector_module="many")
        assert (
            await board.refused(who, "channels.register", channel=names[-1], connector_module="many") == FULL
        )

    anyio.run(main)


def test_a_person_forgets_a_channel_whose_skill_is_gone(board: Switchboard) -> None:
    async def main() -> None:
        await echo(board)
        del board.listed["echo-skill"]
        await board.ask(OWNER, "channels.remove", channel="echo")
        assert await board.refused(OWNER, "channels.remove", channel="echo") == UNKNOWN

    anyio.run(main)


def test_only_reading_and_registering_take_no_privilege() -> None:
    """What a skill must declare in `kernel_ops`, and what nobody but people is ever given."""
    board_tools = {
        "channels.register": (False, "model"),
        "channels.configure": (True, "model"),
        "channels.route_inbound_message": (True, "model"),
        "channels.send_message": (True, "model"),
        "channels.list": (False, "model"),
        "channels.remove": (False, "operator"),
        "conv.list_threads": (True, "model"),
        "conv.get_thread": (True, "model"),
        "conv.append": (True, "model"),
        "conv.undelivered": (True, "operator"),
        "conv.retry": (False, "operator"),
        "conv.erase": (False, "operator"),
    }
    import tempfile

    with tempfile.TemporaryDirectory() as top:
        tools = Switchboard(private(Path(top))).modules.tools
    assert {name: (tool.privileged, tool.audience) for name, tool in tools.items()} == board_tools


def test_whatever_people_type_becomes_a_text_that_a_call_may_carry() -> None:
    every = "".join(map(chr, range(0x110000)))
    cleaned = clean_text(every)
    settled({"text": cleaned[:60_000]})
    assert len(cleaned) == len(every)
    assert clean_text("tab\tline\nend\r\n ü 🙂 \u202e") == "tab\tline\nend\r\n ü 🙂 \u202e"
    with pytest.raises(ValueError, match="control"):
        settled({"text": "a\x1b[31m"})  # the control: as it came it would be refused, and be lost


def test_a_message_that_a_skill_takes_in_is_cleaned_and_not_lost(board: Switchboard) -> None:
    asked: dict[str, Json] = {
        "channel": "a\x1b",
        "text": "bell\x07 and \x1b[31mred",
        "author": "Ev\x00e",
        "data": {"raw\x01": ["\x02", 5, None, {"deep": "\x7f"}]},
    }
    cleaned = taken_in(asked)
    assert cleaned == {
        "channel": "a\x1b",  # its own word, and refused as it is
        "text": "bell\ufffd and \ufffd[31mred",
        "author": "Ev\ufffde",
        "data": {"raw\ufffd": ["\ufffd", 5, None, {"deep": "\ufffd"}]},
    }
    settled({"text": cleaned["text"], "data": cleaned["data"]})
    with pytest.raises(ValueError, match="control"):
        settled({"text": asked["text"]})  # the control

    async def main() -> None:
        who = await echo(board)
        message = {"channel": "echo", "chat_id": "c", "message_id": "1", "text": "x"}
        stored = await board.ask(
            who, "channels.route_inbound_message", **message, author="Ad\u202ea\n\t" + "x" * 300
        )
        kept = board.message(stored["message_id"]).author
        assert (kept[:6], len(kept)) == ("Ad\ufffda\ufffd\ufffd", 200)

    anyio.run(main)
