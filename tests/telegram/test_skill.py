"""The skill that ships, `@xpell/agent-skill-telegram`: found without configuration, off until somebody enables it, and over the door alone."""

import os
import re
from pathlib import Path
from typing import Any

import anyio
import pytest

from metier.catalog.here import catalog_here
from metier.doors.cli.host import telegram as telegram_door
from metier.doors.telegram.configured import SKILL, SKILL_ID
from metier.model.outcome import Completed, Failed, Outcome, Refused
from metier.runtime import at_terminal, hosting_here
from metier.runtime.as_owner import operate
from telegram_desk import ADA, EVE, SECRET, SHOWN, Desk, with_desk

SEEDS = Path(__file__).parents[3] / "shared" / "seeds"


def everything_kept(home: Path) -> str:
    """Every byte below a folder."""
    return "\n".join(each.read_bytes().decode("latin-1") for each in home.rglob("*") if each.is_file())


def value(outcome: Outcome) -> Any:
    assert isinstance(outcome, Completed), outcome
    return outcome.value


def test_it_ships_and_is_listed_as_disabled_until_somebody_enables_it(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        listed = catalog_here(desk.settings()).by_name[SKILL]
        assert listed.skill is not None
        assert (listed.shown, listed.skill.source, listed.skill.key) == ("disabled", "bundled", SKILL_ID)
        desk.more += f'\n[xbot]\nallow = ["{SKILL_ID}"]\nenabled = ["{SKILL_ID}"]'
        (listed,) = [each for each in catalog_here(desk.settings()).listed if each.name == SKILL]
        assert listed.root.kind == "bundled", "no other package stands for it"

    with_desk(tmp_path, main)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_every_operation_of_the_document_works_over_the_door(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        async def done(tool: str, **arguments: Any) -> Outcome:
            return await operate(desk.settings(), tool, arguments)

        telegram = desk.telegram
        async with hosting_here(desk.settings, (telegram_door,), desk.said.append) as hosting:
            assert hosting is not None
            record = value(await done("skills.enable", skill_id=SKILL_ID))
            assert (record["status"], record["modules_registered"]) == ("loaded", ["telegram"])
            assert record["capabilities"] == {
                "kernel_ops": [
                    "channels.route_inbound_message",
                    "channels.send_message",
                    "conv.list_threads",
                ],
                "channels": ["telegram"],
                "network": True,
            }
            settings = value(await done("settings.get_skill", skill_id=SKILL_ID))
            assert settings["settings"]["polling"] == {"timeout_sec": 30}
            unset = await done("telegram.start")
            assert isinstance(unset, Failed)
            assert "no bot token" in unset.message
            patch = {
                "bot_token": telegram.token,
                "admin_chat_ids": [str(ADA)],
                "polling": {"timeout_sec": 5},
                "webhook": {"url": "https://bot.example.com/hook", "secret_token": SECRET},
            }
            assert value(await done("settings.set_skill", skill_id=SKILL_ID, patch=patch))["ok"]
            assert value(await done("telegram.configure"))["polling"]["timeout_sec"] == 5
            assert value(await done("telegram.set_webhook"))["url"] == "https://bot.example.com/hook"
            assert telegram.state.webhook["secret_token"] == SHOWN
            forwarded = {"update_id": 5, "message": said(7, ADA, "by hook")}
            update = await done("telegram.handle_webhook_update", update=forwarded, secret_token=SHOWN)
            assert value(update) == {"ok": True}
            forged = await done("telegram.handle_webhook_update", update=forwarded, secret_token="x" * 20)
            assert isinstance(forged, Failed)
            assert value(await done("telegram.start"))["state"] == "starting"
            telegram.state.message(ADA, "hello")
            await desk.until(lambda: desk.messages() == [(str(ADA), "by hook"), (str(ADA), "hello")])
            assert value(await done("telegram.send", chat_id=ADA, text="good day"))["ok"]
            await desk.wait(lambda state: state.sent)
            assert telegram.texts(ADA) == ["good day"]
            assert desk.messages("out") == [(str(ADA), "good day")], "it is stored with its conversation"
            status = value(await done("telegram.status"))
            assert (status["running"], status["conversations"]) == (True, 1)
            assert telegram.token not in str(status)
            assert value(
                await done("settings.set_skill", skill_id=SKILL_ID, patch={"admin_chat_ids": [str(EVE)]})
            )
            with anyio.fail_after(20):  # another process changed it, and the host notices by itself
                while (str(EVE), "am I heard?") not in desk.messages():
                    telegram.state.message(EVE, "am I heard?")
                    await anyio.sleep(0.5)
            telegram.state.message(ADA, "am I still heard?")
            telegram.state.message(EVE, "now I am")
            await desk.until(lambda: (str(EVE), "now I am") in desk.messages())
            assert (str(ADA), "am I still heard?") not in desk.messages()
            assert value(await done("telegram.stop"))["state"] == "stopped"
            value(await done("skills.disable", skill_id=SKILL_ID))
            assert isinstance(await done("telegram.status"), Refused), "its module is gone with it"
        kept = everything_kept(desk.home)
        assert "handle_webhook_update" in kept
        assert SECRET not in kept
        assert SHOWN not in kept, "also where it was an argument"
        assert telegram.token not in kept

    with_desk(tmp_path, main)


def said(number: int, user: int, text: str) -> dict[str, Any]:
    person = {"id": user, "is_bot": False, "first_name": "A"}
    return {
        "message_id": number,
        "from": person,
        "chat": {"id": user, "type": "private"},
        "date": 1,
        "text": text,
    }


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_with_auto_start_it_listens_as_soon_as_the_host_is_there_and_an_agent_reaches_no_door(
    tmp_path: Path,
) -> None:
    async def main(desk: Desk) -> None:
        async def done(tool: str, **arguments: Any) -> Outcome:
            return await operate(desk.settings(), tool, arguments)

        desk.more += f'\n[xbot]\nenabled = ["{SKILL_ID}"]'
        patch = {"bot_token": desk.telegram.token, "admin_chat_ids": [str(ADA)], "auto_start": True}
        async with hosting_here(desk.settings, (telegram_door,), desk.said.append):
            await desk.until(lambda: os.path.exists(desk.home / "kernel.db"))
            ok = False
            while not ok:  # it has to be read before its settings are known
                outcome = await done("settings.set_skill", skill_id=SKILL_ID, patch=patch)
                ok = isinstance(outcome, Completed) and "'ok': True" in str(outcome.value)
        async with hosting_here(desk.settings, (telegram_door,), desk.said.append):
            desk.telegram.state.message(ADA, "hello")
            await desk.until(lambda: desk.messages() == [(str(ADA), "hello")], seconds=30)
            async with at_terminal(desk.settings()) as runtime:
                for tool in ("telegram_door.start", "telegram_door.stop", "telegram_door.noted"):
                    assert isinstance(await runtime.call(tool, {}), Refused | Failed), tool

    with_desk(tmp_path, main)


def test_what_it_declares_is_what_the_document_says() -> None:
    place = next(SEEDS.glob("003_*.txt"), None)
    if place is None:
        pytest.skip("the document is not here")
    document = place.read_text(encoding="utf-8").partition("## Telegram Skill")[2]
    (id,) = re.findall(r"^- `(@[^`]+)`$", document, re.MULTILINE)
    assert id == SKILL_ID
    source = (
        Path(catalog_here.__code__.co_filename).parents[1] / "bundled" / SKILL / "__init__.py"
    ).read_text()
    for line in re.findall(r"`(\w+): (\[.*?\]|true)`", document):
        name, given = line
        assert f'"{name}": {given.replace("true", "True")}' in source, line
    for operation in re.findall(r"^- `telegram\.(\w+)`", document, re.MULTILINE):
        assert f'"{operation}"' in source
        assert f"async def {operation}(" in source
