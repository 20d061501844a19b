"""What was approved by a button runs, once: also where the host ended in between, and whoever else decides at the same moment."""

import threading
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

import metier.doors.telegram.word
from metier.catalog.here import owner
from metier.doors.telegram import taking_up
from metier.doors.telegram.door import Telegram
from metier.doors.telegram.update import Pressed
from metier.doors.telegram.word import Word
from metier.kernel.delivery_ports import NotNow
from metier.kernel.telegram_buttons import Button, Yes
from metier.model.approval import Approval
from metier.model.role import ROLES
from metier.record.audit import AuditLog, Intent
from metier.record.chain import Act
from metier.record.database import Database
from metier.record.deciding import Decider, Undecided, decide
from metier.testing.bot_api_methods import Sent
from telegram_desk import ADA, BEN, Desk, with_desk

OWNER = Decider(id=owner(), kind="human", rights=ROLES["owner"])


class Killed(BaseException):
    """As if the process ended here."""


def pressing(desk: Desk, user: int, sent: Sent, label: str) -> Pressed:
    """As the door hears it."""
    return Pressed(
        update=1,
        query="q",
        user=user,
        chat=sent.chat,
        message=sent.message_id,
        data=dict(sent.buttons)[label],
        bot=desk.telegram.state.bot,
    )


def button(door: Telegram, desk: Desk, sent: Sent) -> Button:
    number = sent.buttons[0][1].partition(".")[0]
    found = door.announcer._buttons.look(number, str(desk.telegram.state.bot), sent.chat, sent.message_id)  # pyright: ignore[reportPrivateUsage]
    assert isinstance(found, Button)
    return found


def word(door: Telegram) -> Word:
    return door.announcer._word  # pyright: ignore[reportPrivateUsage]


def nobody(_yes: Yes) -> None:
    """The host ended before it could have anything run."""


@pytest.mark.slow
def test_tg_05_a_yes_that_was_cut_off_before_the_run_is_taken_up_by_the_next_host_once(
    tmp_path: Path,
) -> None:
    async def main(desk: Desk) -> None:
        async with desk.running() as door:
            approval, sent = await desk.shown("green tea")
            door.announcer._approved = nobody  # pyright: ignore[reportPrivateUsage]
            assert await desk.pressed(ADA, sent, "Once") == "Approved."
            await desk.wait(lambda _state: sent.buttons == ())
        assert (desk.state(approval), desk.begun(approval)) == ("approved", 0)
        async with desk.running():
            await desk.until(lambda: desk.state(approval) == "spent")
            await desk.until(lambda: (desk.home / "workspace/memory/9.md").exists())
        async with desk.running() as door:
            await desk.until(lambda: not door.announcer._buttons.unfinished())  # pyright: ignore[reportPrivateUsage]
        assert desk.begun(approval) == 1

    with_desk(tmp_path, main)


def test_tg_05_a_yes_that_was_cut_off_before_the_desk_heard_it_can_be_said_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main(desk: Desk) -> None:
        async with desk.running() as door:
            approval, sent = await desk.shown()

            def killed(*_: object, **__: object) -> None:
                raise Killed

            with monkeypatch.context() as patch:
                patch.setattr("metier.doors.telegram.word.decide", killed)
                with pytest.raises(Killed):
                    word(door).yes(button(door, desk, sent), ADA, False)
        assert desk.state(approval) == "pending"
        async with desk.running() as door:
            assert await desk.pressed(ADA, sent, "Once") == "Approved."
            await desk.until(lambda: desk.state(approval) == "spent")
        assert desk.begun(approval) == 1

    with_desk(tmp_path, main)


def cut_off(door: Telegram) -> None:
    """Whatever it is asked to say how a call ended, the host ends before."""

    async def never(_yes: Yes, _spent: object) -> None:
        await anyio.sleep_forever()

    door._taking_up._one = never  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]


@pytest.mark.parametrize("ended", ["not at all", "well", "badly"])
def test_apr_31_of_a_call_that_was_begun_under_an_earlier_host_is_said_what_the_record_has(
    tmp_path: Path, ended: str
) -> None:
    """A request that is spent says that its call was begun, and no more."""

    async def main(desk: Desk) -> None:
        async with desk.running() as door:
            approval, sent = await desk.shown("green tea")
            cut_off(door)
            assert await desk.pressed(ADA, sent, "Once") == "Approved."
            await desk.until(lambda: desk.state(approval) == "approved")
        with Database.open(desk.database) as database:
            (found,) = [each for each in desk.approvals() if each.id == approval]
            log = AuditLog(database)
            begun = log.intent(Act(call_id=found.call_id, tool="fs_write/execute", principal="agent:cli"))
            assert isinstance(begun, Intent)
            with database.transaction() as connection:  # as whoever ran it had done before he was killed
                connection.execute("UPDATE approval SET state = 'spent' WHERE id = ?", (approval,))
                connection.execute("UPDATE open_intent SET process = 'gone'")
            if ended != "not at all":
                log.outcome(
                    begun, "skill_executed" if ended == "well" else "skill_execution_error", code="raised"
                )
        said = {
            "not at all": "Whether it did anything nobody knows",
            "well": "it ran to its end.",
            "badly": "failed: raised.",
        }
        async with desk.running() as door:
            await desk.wait(lambda _state: any(said[ended] in each for each in desk.telegram.texts(ADA)))
            await desk.until(lambda: not door.announcer._buttons.unfinished())  # pyright: ignore[reportPrivateUsage]
        assert not any("has run" in each for each in desk.telegram.texts(ADA))
        told = len(desk.telegram.texts(ADA))
        async with desk.running():
            await desk.until(lambda: desk.telegram.state.offsets)
        assert len(desk.telegram.texts(ADA)) == told, "it is said once"

    with_desk(tmp_path, main)


def test_tg_05_how_it_ended_is_said_again_until_it_was_said_also_by_the_next_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking_up, "_FIRST_PAUSE", 0.05)
    says: list[str] = []

    def unheard(door: Telegram, times: int) -> None:
        say = door._taking_up._say  # pyright: ignore[reportPrivateUsage]

        async def sometimes(user: int, text: str) -> object:
            says.append(text)
            if len(says) <= times:
                raise NotNow(0.0, "Telegram failed")
            return await say(user, text)

        door._taking_up._say = sometimes  # pyright: ignore[reportPrivateUsage]

    async def main(desk: Desk) -> None:
        async with desk.running() as door:
            unheard(door, 3)
            approval, sent = await desk.shown()
            assert await desk.pressed(ADA, sent, "Once") == "Approved."
            await desk.wait(
                lambda _state: any("it ran to its end." in each for each in desk.telegram.texts(ADA))
            )
            assert len(says) == 4
            unheard(door, 1_000_000)
            other, sent = await desk.shown("green tea")
            assert await desk.pressed(ADA, sent, "Once") == "Approved."
            await desk.until(lambda: desk.state(other) == "spent" and len(says) > 6)
        async with desk.running():
            await desk.wait(
                lambda _state: any(
                    other in each and "ran to its end" in each for each in desk.telegram.texts(ADA)
                )
            )
        assert (desk.begun(approval), desk.begun(other)) == (1, 1)

    with_desk(tmp_path, main)


def test_tg_05_pressed_a_second_time_a_yes_that_was_cut_off_is_still_taken_up(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        async with desk.running() as door:
            approval, sent = await desk.shown("green tea")
            door.announcer._approved = nobody  # pyright: ignore[reportPrivateUsage]
            word(door)._over = lambda _button: None  # pyright: ignore[reportPrivateUsage]
            once = dict(sent.buttons)["Once"]
            assert await desk.pressed(ADA, sent, once) == "Approved."
            assert "it was approved already" in await desk.pressed(ADA, sent, once)
        assert desk.begun(approval) == 0
        async with desk.running():
            await desk.until(lambda: desk.state(approval) == "spent")
        assert desk.begun(approval) == 1

    with_desk(tmp_path, main)


def test_tg_05_what_was_approved_elsewhere_is_not_taken_up_for_a_button_that_decided_nothing(
    tmp_path: Path,
) -> None:
    async def main(desk: Desk) -> None:
        desk.approvers(ben=BEN)
        async with desk.running() as door:
            approval, _ = await desk.shown()
            sent = await desk.shown_to(BEN, approval)
            door.announcer._buttons.about_to(button(door, desk, sent), "human:ben")  # pyright: ignore[reportPrivateUsage]
        with Database.open(desk.database) as database:
            assert isinstance(decide(database, approval, by=OWNER, decision="approve"), Approval)
        async with desk.running() as door:
            await desk.until(lambda: not door.announcer._buttons.unfinished())  # pyright: ignore[reportPrivateUsage]
            assert desk.state(approval) == "approved"

    with_desk(tmp_path, main)


def test_tg_05_whoever_cancels_while_the_desk_decides_does_not_keep_it_from_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deciding, go = anyio.Event(), threading.Event()

    async def main(desk: Desk) -> None:
        async with desk.running() as door:
            approval, sent = await desk.shown()

            def slowly(*args: Any, **given: Any) -> Approval | Undecided:
                anyio.from_thread.run_sync(deciding.set)
                assert go.wait(10)
                return decide(*args, **given)

            monkeypatch.setattr("metier.doors.telegram.word.decide", slowly)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(door.announcer.pressed, pressing(desk, ADA, sent, "Once"))
                await deciding.wait()
                tasks.cancel_scope.cancel()
                go.set()
            await desk.until(lambda: desk.state(approval) == "spent")
            assert desk.begun(approval) == 1

    with_desk(tmp_path, main)


@pytest.mark.parametrize("where", ["another button", "the same message", "the terminal"])
def test_tg_12_of_a_yes_and_a_no_at_once_one_counts_the_other_is_told_and_it_runs_accordingly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    together = threading.Barrier(2, timeout=10)

    def at_once(*args: Any, **given: Any) -> Approval | Undecided:
        together.wait()
        return decide(*args, **given)

    async def main(desk: Desk) -> None:
        desk.approvers(ben=BEN)
        answers: list[str] = []

        async def answer(_query: str, text: str) -> None:
            answers.append(text)

        def at_the_terminal(approval: str) -> None:
            with Database.open(desk.database) as database:
                made = at_once(database, approval, by=OWNER, decision="deny")
            answers.append("Nothing was changed" if isinstance(made, Undecided) else "Denied.")

        async with desk.running() as door:
            for round in range(2):
                answers.clear()
                approval, sent = await desk.shown("x" * (round + 1))
                others = await desk.shown_to(BEN, approval)
                yes = pressing(desk, ADA, sent, "Once")
                no = pressing(desk, *((BEN, others) if where == "another button" else (ADA, sent)), "Deny")
                with monkeypatch.context() as patch:
                    patch.setattr(metier.doors.telegram.word, "decide", at_once)
                    patch.setattr(door.connector, "answer", answer)
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(door.announcer.pressed, yes)
                        if where == "the terminal":
                            tasks.start_soon(to_thread.run_sync, at_the_terminal, approval)
                        else:
                            tasks.start_soon(door.announcer.pressed, no)
                assert len(answers) == 2
                counted = [each for each in answers if each in ("Approved.", "Denied.")]
                told = [each for each in answers if each.startswith("Nothing was changed")]
                assert (len(counted), len(told)) == (1, 1), answers
                if counted == ["Approved."]:
                    await desk.until(lambda approval=approval: desk.state(approval) == "spent")
                else:
                    assert desk.state(approval) == "denied"
                assert desk.begun(approval) == (counted == ["Approved."])

    with_desk(tmp_path, main)
