"""People's word by Telegram: bound to one number, one exact act and one span of time, said once, and decided where everything is decided."""

import time
from pathlib import Path

import pytest
from msgspec import structs

from metier.catalog.here import owner
from metier.kernel.store import Store
from metier.kernel.telegram_buttons import Buttons
from metier.model.approval import Approval
from metier.model.call import Principal, Surroundings
from metier.model.digest import Json
from metier.model.instant import written
from metier.model.outcome import Outcome, Pending
from metier.model.role import ROLES, Registered
from metier.record.database import Database
from metier.record.deciding import Decider, Undecided, decide
from metier.record.principals import add_principal, revoke_principal
from telegram_desk import ADA, BEN, EVE, Desk, with_desk

OWNER = Decider(id=owner(), kind="human", rights=ROLES["owner"])


@pytest.mark.slow
def test_an_approvers_button_lets_exactly_that_act_run_wherever_it_was_asked(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        async with desk.running():
            approval = await desk.asked_for("green tea", project="elsewhere")
            await desk.wait(lambda state: state.sent)
            sent = desk.telegram.last(ADA)
            assert "green tea" in sent.text
            assert [label for label, _ in sent.buttons] == ["Once", "Deny"], (
                "there is no session to grant it for"
            )
            assert await desk.pressed(ADA, sent, "Once") == "Approved."
            await desk.until(lambda: desk.state(approval) == "spent")
            await desk.wait(lambda state: len(state.sent) > 1)
            assert "it ran to its end" in desk.telegram.texts(ADA)[-1]
            assert (desk.home / "workspace/memory/9.md").read_text() == "green tea"
            assert sent.buttons == (), "nothing is left to press"

    with_desk(tmp_path, main)


def test_for_this_session_nobody_is_asked_again_and_what_that_means_was_shown(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        async with desk.running():
            assert desk.calls is not None
            agent = Principal(id="agent:cli", kind="agent", on_behalf_of=owner())
            arguments: dict[str, Json] = {"path": "memory/tea.md", "content": "tea"}
            around = Surroundings(session="s-1")

            async def called(around: Surroundings) -> Outcome:
                assert desk.calls is not None
                return await desk.calls.call(
                    agent, "fs_write/execute", arguments, surroundings=around, unattended=False
                )

            assert isinstance(await called(around), Pending)
            await desk.wait(lambda state: state.sent)
            sent = desk.telegram.last(ADA)
            assert [label for label, _ in sent.buttons] == ["Once", "This session", "Deny"]
            assert "nobody is asked again for" in sent.text
            assert "exactly those of this request" in sent.text
            assert await desk.pressed(ADA, sent, "This session") == "Approved."
            await desk.wait(lambda state: len(state.sent) > 1)
            assert not isinstance(await called(around), Pending)
            assert isinstance(await called(Surroundings(session="s-2")), Pending), "another session is asked"

    with_desk(tmp_path, main)


def test_a_no_is_a_no_and_the_message_says_so(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        async with desk.running():
            approval, sent = await desk.shown()
            assert await desk.pressed(ADA, sent, "Deny") == "Denied."
            assert desk.state(approval) == "denied"
            await desk.wait(lambda _state: sent.buttons == () and f"denied by {owner()}" in sent.text)

    with_desk(tmp_path, main)


def test_tg_04_a_button_pressed_by_somebody_else_decides_nothing(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        desk.more = desk.more.replace("approvers = {", f'approvers = {{ "{BEN}" = "{owner()}",')
        async with desk.running():
            approval, _ = await desk.shown()
            await desk.wait(lambda state: {each.chat for each in state.sent} == {ADA, BEN})
            (sent,) = [each for each in desk.telegram.state.sent if each.chat == ADA]
            once = dict(sent.buttons)["Once"]
            in_group = structs.replace(sent, chat=-100123)
            for user, where in ((EVE, sent), (EVE, in_group), (ADA, in_group)):
                assert await desk.pressed(user, where, once) == "This is not yours to decide."
            assert (
                await desk.pressed(BEN, structs.replace(sent, chat=BEN), once) == "This button is not yours."
            )
            assert desk.state(approval) == "pending"
            assert [each for each in desk.records() if each.tool == "telegram_door.noted"], (
                "and it is on the record"
            )
            assert await desk.pressed(ADA, sent, "Deny") == "Denied.", "who was shown it decides"

    with_desk(tmp_path, main)


def test_tg_04_somebody_who_is_an_approver_no_more_decides_nothing(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        desk.more = desk.more.replace(owner(), "human:ada")
        with Database.open(desk.settings().database) as database:
            ada = Registered(id="human:ada", kind="human", roles=frozenset({"approver"}))
            assert add_principal(database, ada, by=owner(), owner=owner()) == ""
        async with desk.running():
            approval, sent = await desk.shown()
            with Database.open(desk.settings().database) as database:
                assert revoke_principal(database, "human:ada", by=owner(), owner=owner()) == ""
            assert "does not have the right" in await desk.pressed(ADA, sent, "Once")
            assert desk.state(approval) == "pending"

    with_desk(tmp_path, main)


@pytest.mark.slow
def test_tg_05_forged_replayed_and_oversized_data_decides_nothing(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        async with desk.running():
            first, one = await desk.shown("one")
            second, two = await desk.shown("three")
            once = dict(one.buttons)["Once"]
            number, _, _ = once.partition(".")
            forged = [
                "",
                "x",
                f"{first}.o",
                f"{number}.a",
                f"{number}.oo",
                f"{number[:-1]}{'B' if number.endswith('A') else 'A'}.o",
                f"{number}.o" * 9,
            ]
            for data in forged:
                assert await desk.pressed(ADA, one, data) in (
                    "This is not yours to decide.",
                    "There is no such button.",
                )
            assert await desk.pressed(ADA, two, once) == "This button is not yours.", (
                "it stands under another message"
            )
            assert (desk.state(first), desk.state(second)) == ("pending", "pending")
            deny = dict(one.buttons)["Deny"]
            assert await desk.pressed(ADA, one, deny) == "Denied."
            for again in (deny, once):
                assert await desk.pressed(ADA, one, again) == "This was decided already."
            assert (desk.state(first), desk.state(second)) == ("denied", "pending")

    with_desk(tmp_path, main)


def test_tg_05_a_button_is_no_longer_than_telegram_takes_and_no_two_are_alike(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "state"))
    buttons = Buttons(store)
    request = Approval(
        id="apr_1",
        call_id="c",
        principal="agent:cli",
        state="pending",
        asked_at="",
        expires_at=written(time.time() + 60),
        fingerprint="f",
    )
    numbers = {buttons.make(request, "7", user, "title", "od") for user in range(50)}
    assert len(numbers) == 50
    assert all(len(f"{number}.o".encode()) <= 64 for number in numbers)
    number = buttons.make(request, "7", 1, "title", "od")
    assert buttons.look(number, "7", 1, 5, now=time.time() + 61) == "It has expired."
    assert buttons.look(number, "7", 2, 5) == "This button is not yours."
    assert buttons.look(number, "8", 1, 5) == "This button is not yours.", "another bot has other messages"
    assert not isinstance(buttons.look(number, "7", 1, 5), str)
    buttons.over("apr_1")
    assert buttons.look(number, "7", 1, 5) == "This was decided already."
    with store.reading() as connection:
        kept = str(connection.execute("SELECT * FROM telegram_button").fetchall())
    assert number not in kept, "what is kept cannot be pressed"
    store.close()


def test_tg_05_a_button_outlives_a_restart_and_what_it_was_about_does_not_change(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        store = Store(str(desk.home))

        def told() -> bool:
            with store.reading() as connection:
                return bool(connection.execute("SELECT 1 FROM announced WHERE way = 'telegram'").fetchall())

        async with desk.running():
            approval, sent = await desk.shown()
            await desk.until(told)
        once = dict(sent.buttons)["Once"]
        with store.writing() as connection:
            connection.execute("UPDATE telegram_button SET fingerprint = 'another act'")
        async with desk.running():
            assert "no such request" in await desk.pressed(ADA, sent, once)
            assert desk.state(approval) == "pending"
            assert len([each for each in desk.telegram.state.sent if each.buttons]) <= 1, (
                "it is not shown twice"
            )
        store.close()

    with_desk(tmp_path, main)


HIDING = [
    "<b>nothing</b> *bold* [click](tg://user?id=1) `x` ||spoiler||",
    "harmless\u202e txet neddih",
    "first\n\n\n\n\n\nlast",
    "a\u200bb",
]


@pytest.mark.parametrize("text", HIDING, ids=range(len(HIDING)))
def test_tg_11_nothing_in_a_request_is_markup_and_everything_can_be_seen(tmp_path: Path, text: str) -> None:
    async def main(desk: Desk) -> None:
        async with desk.running():
            _, sent = await desk.shown(text)
            asked = desk.telegram.asked[-1]
            assert sent.parse_mode == ""
            assert "parse_mode" not in asked.given
            assert not {"\u202e", "\u200b"} & set(sent.text), "what cannot be seen is spelled out"
            for word in text.split():
                plain = word.strip("\u202e\u200b")
                assert plain in sent.text or "\u200b" in word

    with_desk(tmp_path, main)


@pytest.mark.parametrize("mark", ["\u030a", "\u0333", "\u033f"])
def test_apr_25_what_telegram_takes_out_of_every_message_is_spelled_out(tmp_path: Path, mark: str) -> None:
    async def main(desk: Desk) -> None:
        async with desk.running():
            _, sent = await desk.shown(f"send it to b{mark}ob@example.com")
            assert f"b\\u{{{ord(mark):x}}}ob@example.com" in sent.text
            assert (
                f"! it holds marks that Telegram does not show, spelled out above: U+{ord(mark):04X}"
                in sent.text
            )

    with_desk(tmp_path, main)


def test_tg_11_a_long_request_is_a_file_to_be_read_before_the_buttons(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        async with desk.running():
            content = "harmless\n" * 2_000 + "rm -rf /"
            approval, sent = await desk.shown(content)
            document, message = desk.telegram.state.sent
            assert message is sent
            assert document.document is not None
            assert b"rm -rf /" in document.document
            assert document.document.count(b"harmless") >= 2_000
            assert approval in message.text
            assert "Read that before you decide" in message.text

    with_desk(tmp_path, main)


def test_tg_12_what_was_decided_elsewhere_is_said_and_cannot_be_pressed(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        async with desk.running():
            approval, sent = await desk.shown()
            once = dict(sent.buttons)["Once"]
            with Database.open(desk.settings().database) as database:
                assert not isinstance(decide(database, approval, by=OWNER, decision="deny"), Undecided)
            await desk.wait(lambda _state: sent.edits)
            assert "denied" in sent.text
            assert sent.buttons == ()
            assert await desk.pressed(ADA, sent, once) == "This was decided already."
            assert desk.state(approval) == "denied"

    with_desk(tmp_path, main)


@pytest.mark.slow
def test_tg_10_a_request_waits_until_telegram_can_be_reached_again(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        async with desk.running():
            desk.telegram.flood(1)
            approval, sent = await desk.shown()
            assert approval in sent.text
            assert [each.status for each in desk.telegram.asked if each.method == "sendMessage"] == [429, 200]

    with_desk(tmp_path, main)


def test_nobody_is_told_while_nobody_is_an_approver(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        desk.more = "[announce]\nbatch_seconds = 0\nterminal = false"
        async with desk.running() as door:
            assert door.announcer.recipients() == []
            approval = await desk.asked_for()
            desk.telegram.state.message(ADA, "anything?")
            await desk.until(lambda: desk.messages())
            assert desk.telegram.state.sent == []
            assert desk.state(approval) == "pending"

    with_desk(tmp_path, main)
