"""A yes by a button rests on what holds at that moment: who may say it, what the operator wrote, what the project it was asked in restricts.
What cannot be read says no yes. A no waits for none of it."""

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from metier.catalog.here import owner
from metier.config.again import read_again
from metier.config.load import load
from metier.errors import ConfigError, StateError
from metier.model.call import Principal
from metier.model.digest import Json
from metier.model.outcome import Completed
from telegram_desk import ADA, BEN, CAL, Desk, with_desk

FOUR_EYES = "[approvals]\nfour_eyes = true\n"


def test_tg_04_with_four_eyes_it_takes_somebody_who_did_not_ask(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        desk.approvers(ben=BEN)
        async with desk.running():
            approval, sent = await desk.shown()
            desk.more += (
                f"\n{FOUR_EYES}"  # after it was asked, so that nothing but the button's own look tells
            )
            desk.settings()
            assert "a second person has to decide" in await desk.pressed(ADA, sent, "Once")
            assert desk.state(approval) == "pending"
            assert await desk.pressed(BEN, await desk.shown_to(BEN, approval), "Once") == "Approved."
            await desk.until(lambda: desk.state(approval) == "spent")

    with_desk(tmp_path, main)


def test_tg_04_four_eyes_of_the_project_it_was_asked_in_hold_for_a_button(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        async with desk.running():
            approval, sent = await desk.shown(project="elsewhere")
            own = tmp_path / "elsewhere/metier.toml"
            own.write_text(FOUR_EYES, encoding="utf-8")
            assert "a second person has to decide" in await desk.pressed(ADA, sent, "Once")
            assert desk.state(approval) == "pending"
            own.unlink()
            assert await desk.pressed(ADA, sent, "Once") == "Approved."
            await desk.until(lambda: desk.state(approval) == "spent")

    with_desk(tmp_path, main)


def unreadable(project: Path) -> None:
    (project / "metier.toml").write_text("approvals = nonsense", encoding="utf-8")


@pytest.mark.parametrize("spoil", [shutil.rmtree, unreadable])
def test_tg_04_where_the_project_cannot_be_asked_nobody_says_yes_and_everybody_may_say_no(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    async def main(desk: Desk) -> None:
        async with desk.running():
            approval, sent = await desk.shown(project="elsewhere")
            spoil(tmp_path / "elsewhere")
            said = await desk.pressed(ADA, sent, "Once")
            assert said.startswith("Nothing was approved: the project it was asked in is gone, or")
            assert desk.state(approval) == "pending"
            assert await desk.pressed(ADA, sent, "Deny") == "Denied."
            assert desk.state(approval) == "denied"

    with_desk(tmp_path, main)


def test_tg_04_while_the_configuration_cannot_be_read_nobody_says_yes(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        good = desk.more
        async with desk.running():
            approval, sent = await desk.shown()
            _written(desk, "approvers = nonsense")
            said = await desk.pressed(ADA, sent, "Once")
            assert said.startswith("Nothing was approved: the configuration cannot be read. Deny works.")
            assert desk.state(approval) == "pending"
            _written(desk, good)
            assert await desk.pressed(ADA, sent, "Once") == "Approved."
            again, other = await desk.shown("coffee")
            _written(desk, "approvers = nonsense")
            assert await desk.pressed(ADA, other, "Deny") == "Denied.", "a no waits for no configuration"
            assert desk.state(again) == "denied"
            _written(desk, good)

    with_desk(tmp_path, main)


def test_tg_04_who_was_taken_out_of_the_file_a_moment_ago_decides_nothing(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        async with desk.running():
            approval, sent = await desk.shown()
            _written(desk, "[announce]\nterminal = false")
            for label in ("Once", "Deny"):
                assert await desk.pressed(ADA, sent, label) == "This is not yours to decide."
            assert desk.state(approval) == "pending"
            assert [each for each in desk.records() if each.tool == "telegram_door.noted"]

    with_desk(tmp_path, main)


def _written(desk: Desk, more: str) -> None:
    """The operator's file says this from now on, whoever reads it."""
    desk.more = more
    text = f'[telegram]\napi = "{desk.telegram.url}"\n{more}\n'
    (desk.home / "metier.toml").write_text(text, encoding="utf-8")


def test_a_file_that_was_named_and_is_gone_is_not_replaced_by_the_usual_one(tmp_path: Path) -> None:
    home, named = tmp_path / "state", tmp_path / "mine.toml"
    home.mkdir(mode=0o700)
    (home / "metier.toml").write_text("", encoding="utf-8")
    named.write_text(FOUR_EYES, encoding="utf-8")
    os.chmod(named, 0o600)
    settings = load(config=str(named), home=str(home), project=str(tmp_path))
    assert read_again(settings).approvals.four_eyes
    named.unlink()
    with pytest.raises(ConfigError, match=r"mine\.toml"):
        read_again(settings)


async def _set_off(desk: Desk, by: int) -> str:
    """A message of his sets off a call that somebody has to approve: the id of the request."""
    trigger: Json = {
        "name": "note",
        "type": "message",
        "patterns": ["/note"],
        "matchMode": "startsWith",
        "tool": "fs_write/execute",
        "arguments": {"path": "memory/note.md", "content": "{{message.text}}"},
    }
    me = Principal(id=owner(), kind="human", roles=frozenset({"owner"}))
    assert desk.calls is not None
    made = await desk.calls.call(me, "triggers.create", {"trigger": trigger})
    assert isinstance(made, Completed), made
    desk.telegram.state.message(by, "/note this down")
    await desk.until(desk.approvals)
    return desk.approvals()[-1].id


def test_tg_04_with_four_eyes_nobody_approves_what_his_own_message_set_off(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        desk.approvers(ben=BEN, cal=CAL)
        desk.more += f'\n{FOUR_EYES}unattended = "wait"\n'
        async with desk.running():
            approval = await _set_off(desk, BEN)
            sent = await desk.shown_to(BEN, approval)
            assert "telegram/1002" in sent.text, "whose message it was is shown"
            said = await desk.pressed(BEN, sent, "Once")
            assert "a second person has to decide" in said
            assert "a message of his own set it off" in said
            assert desk.state(approval) == "pending"
            assert await desk.pressed(CAL, await desk.shown_to(CAL, approval), "Once") == "Approved."
            await desk.until(lambda: desk.state(approval) == "spent")

    with_desk(tmp_path, main)


def test_without_four_eyes_a_person_confirms_what_he_asked_for(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        desk.approvers(ben=BEN)
        desk.more += '\n[approvals]\nunattended = "wait"\n'
        async with desk.running():
            approval = await _set_off(desk, BEN)
            assert await desk.pressed(BEN, await desk.shown_to(BEN, approval), "Once") == "Approved."
            await desk.until(lambda: desk.state(approval) == "spent")

    with_desk(tmp_path, main)


def test_a_no_that_cannot_be_recorded_counts_and_is_told_as_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main(desk: Desk) -> None:
        async with desk.running():
            approval, sent = await desk.shown()
            with monkeypatch.context() as patch:
                patch.setattr("metier.record.chain.append", _full)
                patch.setattr("metier.record.approval_ending.append", _full)
                said = await desk.pressed(ADA, sent, "Once")
                assert said.startswith("It could not be written down, so nothing was decided")
                assert desk.state(approval) == "pending"
                said = await desk.pressed(ADA, sent, "Deny")
            assert said.startswith("Denied. But that could not be recorded")
            assert desk.state(approval) == "denied"
            await desk.wait(lambda _state: sent.buttons == () and "denied by" in sent.text)

    with_desk(tmp_path, main)


def _full(*_: object, **__: object) -> int:
    raise StateError("the disk is full")


def test_a_state_with_a_second_name_is_good_for_no_yes_and_for_every_no(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        async with desk.running():
            approval, sent = await desk.shown()
            os.link(desk.database, tmp_path / "second")
            said = await desk.pressed(ADA, sent, "Once")
            assert said.startswith("It could not be written down, so nothing was decided")
            assert await desk.pressed(ADA, sent, "Deny") == "Denied."
            os.unlink(tmp_path / "second")
            assert desk.state(approval) == "denied"

    with_desk(tmp_path, main)


def test_a_no_waits_for_nothing_that_has_to_be_written_beside_the_record(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        async with desk.running():
            approval, sent = await desk.shown()
            connection = sqlite3.connect(desk.home / "kernel.db", isolation_level=None)
            connection.execute(
                "CREATE TRIGGER full BEFORE UPDATE ON telegram_button BEGIN SELECT RAISE(ABORT, 'full'); END"
            )
            said = await desk.pressed(ADA, sent, "Once")
            assert said.startswith("It could not be written down, so nothing was decided")
            assert desk.state(approval) == "pending"
            assert await desk.pressed(ADA, sent, "Deny") == "Denied."
            assert desk.state(approval) == "denied"
            connection.execute("DROP TRIGGER full")
            connection.close()

    with_desk(tmp_path, main)
