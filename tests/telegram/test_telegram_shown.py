"""How approvers are shown what waits: each request with its own buttons, all of it or without a yes, by the bot that runs."""

import time
from pathlib import Path

import pytest
from msgspec import structs

from metier.catalog.here import owner
from metier.doors.telegram import approvals
from metier.doors.telegram.request import MOST_FILE, request
from metier.doors.telegram.text import LONGEST, units
from metier.kernel import announce
from metier.kernel.delivery_ports import Never
from metier.kernel.store import Store
from metier.model.approval import Approval, Shown
from metier.model.instant import written
from metier.model.outcome import Pending
from metier.model.role import Registered
from metier.record.database import Database
from metier.record.principals import add_principal, revoke_principal
from metier.runtime import at_terminal
from metier.testing.bot_api import BotApiServer
from metier.testing.bot_api_methods import Sent
from telegram_desk import ADA, BEN, Desk, status, with_desk

ANOTHER = "7000000002:AAtoken-of-another-bot-that-is-none-0000"


async def asked(desk: Desk, many: int) -> list[str]:
    """So many requests at once."""
    async with at_terminal(desk.settings()) as runtime:
        made = [
            await runtime.call("fs_write", {"path": f"memory/{number}.md", "content": "tea"})
            for number in range(many)
        ]
    return [each.approval_id for each in made if isinstance(each, Pending)]


def with_buttons(desk: Desk) -> list[Sent]:
    return [each for each in desk.telegram.state.sent if each.buttons]


def test_every_request_has_its_own_buttons_however_many_wait(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        ids = await asked(desk, 12)
        async with desk.running():
            await desk.wait(lambda _state: len(with_buttons(desk)) == 12)
            last = await desk.shown_to(ADA, ids[-1])
            assert await desk.pressed(ADA, last, "Deny") == "Denied."
        assert {desk.state(each) for each in ids[:-1]} == {"pending"}
        assert desk.state(ids[-1]) == "denied"

    with_desk(tmp_path, main)


def test_a_request_that_telegram_never_takes_keeps_no_other_from_being_shown(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        desk.telegram.refuse("sendMessage", "nobody takes a message like that")
        first, second, third = await asked(desk, 3)
        async with desk.running():
            await desk.wait(lambda _state: len(with_buttons(desk)) == 2)
            shown = {id for id in (first, second, third) for each in with_buttons(desk) if id in each.text}
            assert len(shown) == 2

    with_desk(tmp_path, main)


@pytest.mark.parametrize("how", ["too long for us", "refused by Telegram"])
def test_tg_11_what_cannot_be_shown_in_full_cannot_be_approved_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    async def main(desk: Desk) -> None:
        if how == "too long for us":
            monkeypatch.setattr("metier.doors.telegram.request.MOST_FILE", 10_000)
        else:
            desk.telegram.refuse("sendDocument", "file is too big")
        async with desk.running():
            approval, sent = await desk.shown("harmless\n" * 2_000 + "rm -rf /")
            assert "This is not all of it" in sent.text
            assert f"metier approvals show {approval}" in sent.text
            assert "rm -rf" not in sent.text
            assert [label for label, _ in sent.buttons] == ["Deny"]
            forged = sent.buttons[0][1].replace(".d", ".o")
            said = await desk.pressed(ADA, sent, forged)
            assert said == f"Here it can only be denied. To approve it: metier approvals show {approval}"
            assert desk.state(approval) == "pending"
            assert await desk.pressed(ADA, sent, "Deny") == "Denied."

    with_desk(tmp_path, main)


def test_tg_11_what_can_be_asked_may_be_longer_than_what_can_be_sent() -> None:
    shown = Shown(
        tool="fs_write/execute",
        description="",
        principal="agent:cli",
        kind="agent",
        arguments={"content": "\x7f" * 250_000},
        permissions={},
        effect="act",
        risk="high",
        cost="free",
        reasons=("it is asked",),
    )
    long = Approval(
        id="apr_1",
        call_id="c",
        principal="agent:cli",
        state="pending",
        asked_at="",
        expires_at=written(time.time() + 60),
        shown=shown,
    )
    made = request(long, "human:ada")
    assert len(made.whole.encode()) > MOST_FILE
    assert (made.file, made.offered) == (None, "d")
    assert units(made.text) <= LONGEST
    short = structs.replace(long, shown=structs.replace(shown, arguments={"content": "\x7f" * 1_000}))
    assert "o" in request(short, "human:ada").offered, "the control"


def test_tg_05_a_button_whose_message_arrived_and_was_not_kept_counts_as_well_as_the_next_one(
    tmp_path: Path,
) -> None:
    async def main(desk: Desk) -> None:
        async with desk.running():
            approval, first = await desk.shown()
        store = Store(str(desk.home))
        with store.writing() as connection:  # as a host leaves it that is killed right after it sent it
            connection.execute("UPDATE telegram_button SET message = ''")
            connection.execute("DELETE FROM announced")
        store.close()
        async with desk.running():
            await desk.wait(lambda _state: len(with_buttons(desk)) == 2)
            second = with_buttons(desk)[-1]
            assert await desk.pressed(ADA, first, "Deny") == "Denied."
            assert desk.state(approval) == "denied"
            await desk.wait(lambda _state: second.buttons == ())

    with_desk(tmp_path, main)


def test_a_reminder_is_told_how_it_ended_too(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        async with desk.running() as door:
            approval, sent = await desk.shown()
            (waiting,) = desk.approvals(over=False)
            (recipient,) = door.announcer.recipients()
            given = await door.announcer.announce(recipient, [waiting], reminder=True)
            reminder = desk.telegram.last(ADA)
            assert "still waits for your word" in reminder.text
            assert reminder.reply_to == sent.message_id
            assert given == {approval: str(reminder.message_id)}
            over = structs.replace(waiting, state="expired")
            await door.announcer.decided(recipient, over, [str(sent.message_id), given[approval]])
            assert "expired" in sent.text
            assert "expired" in reminder.text
            assert sent.buttons == ()

    with_desk(tmp_path, main)


def test_a_message_that_is_gone_keeps_the_other_one_from_nothing(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        async with desk.running() as door:
            _, sent = await desk.shown()
            (waiting,) = desk.approvals(over=False)
            (recipient,) = door.announcer.recipients()
            over = structs.replace(waiting, state="expired")
            with pytest.raises(Never, match="not found"):
                await door.announcer.decided(recipient, over, ["999999", str(sent.message_id)])
            assert "expired" in sent.text

    with_desk(tmp_path, main)


@pytest.mark.slow
def test_tg_05_another_bot_shows_what_waits_anew_and_touches_no_message_of_the_first(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        async with desk.running():
            approval, old = await desk.shown()
        with BotApiServer(token=ANOTHER) as second:
            first, desk.telegram = desk.telegram, second
            desk.secrets["bot_token"] = ANOTHER
            async with desk.running():
                new = await desk.shown_to(ADA, approval)
                assert new.message_id == old.message_id, "each bot counts for itself"
                said = await desk.pressed(ADA, new, dict(old.buttons)["Once"])
                assert said == "This button is not yours."
                assert await desk.pressed(ADA, new, "Deny") == "Denied."
                assert desk.state(approval) == "denied"
            assert (first.state.sent, old.edits) == ([old], 0)

    with_desk(tmp_path, main)


def test_tg_05_how_it_ended_is_not_written_into_a_message_of_another_bot(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        async with desk.running() as door:
            approval, sent = await desk.shown()
            (waiting,) = desk.approvals(over=False)
            over = structs.replace(waiting, state="expired")
            await door.announcer.decided(f"7000000009/{ADA}", over, [str(sent.message_id)])
            assert sent.edits == 0
            assert approval in sent.text
            await door.announcer.decided(f"{desk.telegram.state.bot}/{ADA}", over, [str(sent.message_id)])
            assert "expired" in sent.text, "the control"

    with_desk(tmp_path, main)


def test_tg_04_what_is_asked_is_shown_to_nobody_whose_word_would_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approvals, "_NOT_SHOWN", 0.2)
    monkeypatch.setattr(announce, "_FIRST_PAUSE", 0.2)
    monkeypatch.setattr(announce, "_LOOK_SECONDS", 0.2)

    async def main(desk: Desk) -> None:
        desk.approvers(ben=BEN)
        with Database.open(desk.database) as database:
            assert revoke_principal(database, "human:ben", by=owner(), owner=owner()) == ""
        async with desk.running() as door:
            approval, _ = await desk.shown("the secret plan")
            await desk.until(
                lambda: any("human:ben does not have the right" in each for each in status(door)["problems"])
            )
            assert desk.telegram.texts(BEN) == []
            with Database.open(desk.database) as database:
                again = Registered(id="human:ben", kind="human", roles=frozenset({"approver"}))
                assert add_principal(database, again, by=owner(), owner=owner()) == ""
            assert "the secret plan" in (await desk.shown_to(BEN, approval)).text
            await desk.until(lambda: status(door)["problems"] == [])

    with_desk(tmp_path, main)


def test_who_had_blocked_the_bot_is_shown_what_still_waits_when_he_has_not_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approvals, "_NOT_SHOWN", 0.2)
    monkeypatch.setattr(announce, "_FIRST_PAUSE", 0.2)
    monkeypatch.setattr(announce, "_LOOK_SECONDS", 0.2)

    async def main(desk: Desk) -> None:
        state = desk.telegram.state
        async with desk.running() as door:
            for kept_out in (state.blocked, state.unknown):
                kept_out.add(ADA)
                approval = await desk.asked_for("x" * (6_000 if kept_out is state.unknown else 5))
                await desk.until(
                    lambda: any(f"{ADA} was not shown" in each for each in status(door)["problems"])
                )
                kept_out.clear()
                await desk.shown_to(ADA, approval)
                await desk.until(lambda: status(door)["problems"] == [])

    with_desk(tmp_path, main)


@pytest.mark.parametrize("answer", [(413, b"<html>too large</html>"), (502, b"<html>oh</html>")])
def test_tg_11_where_the_file_does_not_go_through_the_beginning_is_shown_with_deny_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: tuple[int, bytes]
) -> None:
    monkeypatch.setattr(announce, "_FIRST_PAUSE", 0.1)
    monkeypatch.setattr(announce, "_LOOK_SECONDS", 0.1)

    async def main(desk: Desk) -> None:
        honest, tries = desk.telegram.answer, list[str]()

        def odd(path: str, kind: str, data: bytes) -> tuple[int, bytes] | None:
            if not path.endswith("sendDocument"):
                return honest(path, kind, data)
            tries.append(kind)
            return answer

        desk.telegram.answer = odd  # pyright: ignore[reportAttributeAccessIssue]
        async with desk.running():
            approval = await desk.asked_for("x" * 6_000)
            sent = await desk.shown_to(ADA, approval)
            assert [label for label, _ in sent.buttons] == ["Deny"]
            assert len(tries) == (1 if answer[0] == 413 else 3)

    with_desk(tmp_path, main)
