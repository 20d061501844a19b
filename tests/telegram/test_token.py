"""The token stands in every address the bot asks, and nowhere else."""

import base64
import logging
import os
from pathlib import Path

import msgspec
import pytest

from metier.doors.telegram import polling
from metier.kernel.delivery_ports import Never
from metier.kernel.operation import OperationError
from metier.model.digest import Json
from metier.testing.bot_api import BotApiServer
from telegram_desk import ADA, ITS_SKILL, SECRET, SHOWN, Desk, asked, status, with_desk


def found_in(text: str, token: str) -> bool:
    """Whether a text has the token, plain or a little disguised."""
    secret = token.partition(":")[2]
    ways = (
        token,
        secret,
        secret[::-1],
        base64.b64encode(token.encode()).decode().rstrip("="),
        token.encode().hex(),
    )
    return any(each in text for each in ways)


def everything_kept(home: Path) -> str:
    """Every byte below a folder."""
    said: list[str] = []
    for folder, _, names in os.walk(home):
        said += [(Path(folder) / name).read_bytes().decode("latin-1") for name in names]
    return "\n".join(said)


@pytest.mark.slow
def test_tg_09_no_log_error_status_record_or_file_of_ours_has_the_token(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polling, "_pause", lambda _failures: 0.05)
    said: list[str] = []

    async def main(desk: Desk) -> None:
        caplog.set_level(logging.DEBUG)
        telegram = desk.telegram
        async with desk.running() as door:
            telegram.state.message(ADA, "hello")
            echo = f'{{"ok": false, "error_code": 500, "description": "no /bot{telegram.token}/getUpdates"}}'
            telegram.garble(echo.encode())
            telegram.garble(f"no json: {telegram.token}".encode())
            telegram.garble(echo.replace(f"{telegram.state.bot}:", "").encode())  # the half that is secret
            telegram.fail(1)
            telegram.cut(1)
            await desk.until(lambda: desk.messages())
            said.append(str(status(door)))
            telegram.state.message(ADA, "again")
            await desk.until(lambda: len(desk.messages()) == 2)
            telegram.state.blocked.add(ADA)
            with pytest.raises(Never) as never:
                await door.connector.send(str(ADA), "x", key="k", reply_to=None)
            said.append(never.value.why)
        async with desk.running() as door:
            telegram.token = "1:another-token-of-this-bot"
            desk.telegram.cut(1)
            await desk.until(lambda: status(door)["state"] == "error", seconds=10)
            said.append(str(status(door)))
            with pytest.raises(OperationError) as refused:
                await door.set_webhook(asked("set_webhook"))
            said.append(refused.value.message)
        said.append(everything_kept(desk.home))

    token = BotApiServer().token
    with_desk(tmp_path, main)
    whole = "\n".join([*said, *(record.getMessage() for record in caplog.records), caplog.text])
    assert len(whole) > 10_000
    assert not found_in(whole, token)
    assert found_in(f"{whole} /bot{token}/getMe", token), "it would have been found"


def test_tg_09_no_log_error_status_record_or_file_of_ours_has_the_secret_of_the_webhook(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    said: list[str] = []

    async def main(desk: Desk) -> None:
        caplog.set_level(logging.DEBUG)
        honest = desk.telegram.answer

        def echoes(path: str, kind: str, data: bytes) -> tuple[int, bytes] | None:
            if not path.endswith("setWebhook"):
                return honest(path, kind, data)
            why = f"bad secret {SECRET}, shown as {SHOWN}, {'x' * 50} that is {SECRET.encode().hex()}"
            return 400, msgspec.json.encode({"ok": False, "error_code": 400, "description": why})

        desk.telegram.answer = echoes  # pyright: ignore[reportAttributeAccessIssue]
        desk.telegram.state.message(ADA, "forwarded")
        update = desk.telegram.state.waiting[0]
        desk.values["mode"] = "webhook"
        desk.more = f'listen = "127.0.0.1:0"\n{desk.more}'
        async with desk.running() as door:
            await desk.until(lambda: status(door)["state"] == "error")
            said.append(str(status(door)))
            with pytest.raises(OperationError) as refused:
                await door.set_webhook(asked("set_webhook"))
            assert "refuses setWebhook" in refused.value.message
            said.append(refused.value.message)
            assert desk.calls is not None
            given: dict[str, Json] = {"update": update, "secret_token": SHOWN}
            said.append(str(await desk.calls.call(ITS_SKILL, "telegram_door.handle_webhook_update", given)))
        assert "telegram_door.handle_webhook_update" in {each.tool for each in desk.records()}
        said.append(everything_kept(desk.home))

    with_desk(tmp_path, main)
    whole = "\n".join([*said, *(record.getMessage() for record in caplog.records), caplog.text])
    for piece in (SHOWN, SHOWN[:12], SECRET, SECRET[:12], SECRET.encode().hex(), SECRET.encode().hex()[:24]):
        assert piece not in whole
    assert "bad secret" in whole, "it would have been found"


@pytest.mark.parametrize("bad", ["", "a b", "x/../y", "tok\r\nen", "1:ключ"])
def test_tg_09_what_is_no_token_is_asked_nowhere_and_not_repeated(tmp_path: Path, bad: str) -> None:
    async def main(desk: Desk) -> None:
        desk.secrets["bot_token"] = bad
        async with desk.hosting() as door:
            try:
                await door.start(asked("start"))
                await desk.until(lambda: status(door)["state"] == "error")
                said = str(status(door)["error"])
            except OperationError as problem:
                said = problem.message
            assert "token" in said
            assert not bad or bad not in said
            assert desk.telegram.asked == []

    with_desk(tmp_path, main)
