"""What comes back in Telegram's place may be anything: it ends a question, and never the bot."""

import logging
from collections.abc import Callable
from pathlib import Path

import anyio
import msgspec
import pytest

from metier.doors.telegram import bot, polling
from metier.doors.telegram.api import LONGEST_SILENCE, MOST_BYTES, BotApi, Trouble
from metier.doors.telegram.configured import Configured
from metier.doors.telegram.sending import Sender
from metier.kernel.delivery_ports import Never, NotNow
from metier.testing.bot_api import BotApiServer
from telegram_desk import ADA, Desk, status, with_desk

NONSENSE: list[tuple[int, bytes]] = [
    (200, b""),
    (200, b"<html>Log in to use this network</html>"),
    (200, b"null"),
    (200, b"[]"),
    (200, b'"ok"'),
    (200, b"\xff\xfe\x00"),
    (200, b'{"ok": true}'),
    (200, b'{"ok": true, "result": null}'),
    (200, b'{"ok": true, "result": "yes"}'),
    (200, b'{"ok": true, "result": {"message_id": "seven", "id": []}}'),
    (200, b'{"ok": true, "result": {"message_id": null}}'),
    (200, b'{"ok": "true", "result": []}'),
    (200, b'{"ok": true, "result": ' + b"[" * 5_000 + b"]" * 5_000 + b"}"),
    (200, b'{"ok": false}'),
    (200, b'{"ok": false, "error_code": "400", "description": 7, "parameters": null}'),
    (400, b'{"ok": false, "error_code": 400, "description": "Bad Request"}'),
    (403, b'{"ok": false, "error_code": 403, "description": "Forbidden"}'),
    (429, b'{"ok": false, "error_code": 429, "parameters": {"retry_after": -5}}'),
    (500, b'{"ok": false, "error_code": 500, "parameters": {"retry_after": -1}}'),
    (302, b""),
    (204, b""),
]
Answers = Callable[[str, str, bytes], tuple[int, bytes] | None]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polling, "_pause", lambda _failures: 0.02)
    monkeypatch.setattr(bot, "_AGAIN", 0.05)


def answering(telegram: BotApiServer, answers: Answers) -> None:
    telegram.answer = answers  # pyright: ignore[reportAttributeAccessIssue]


def polls_get(telegram: BotApiServer, status_code: int, body: bytes) -> list[bool]:
    """Every poll is answered with this from now on; gives a list of those that were. The one that is open is ended by a message."""
    honest, polls = telegram.answer, list[bool]()

    def odd(path: str, kind: str, data: bytes) -> tuple[int, bytes] | None:
        if not path.endswith("getUpdates"):
            return honest(path, kind, data)
        polls.append(True)
        return status_code, body

    answering(telegram, odd)
    telegram.state.message(ADA, "ends the open question")
    return polls


@pytest.mark.timeout(120)
def test_tg_10_nonsense_in_telegrams_place_ends_no_bot_and_loses_nothing(
    tmp_path: Path, quick: None, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(desk: Desk) -> None:
        caplog.set_level(logging.WARNING)
        telegram, honest = desk.telegram, desk.telegram.answer
        async with desk.running() as door:
            for count, (status_code, body) in enumerate(NONSENSE, 1):
                polls = polls_get(telegram, status_code, body)
                await desk.until(lambda: polls)  # noqa: B023  used up before the next
                telegram.state.message(ADA, f"during {count}")
                before = len(polls)
                await desk.until(lambda: len(polls) > before)  # noqa: B023
                answering(telegram, honest)
                await desk.until(lambda: len(desk.messages()) == 2 * count)  # noqa: B023
            assert status(door)["ignored"] == 0
            await desk.until(lambda: status(door)["state"] == "running")
        assert not [each for each in caplog.records if each.exc_info], "nothing broke"

    with_desk(tmp_path, main)


def test_tg_10_nonsense_for_what_was_sent_is_no_more_than_a_message_that_waits() -> None:
    async def main() -> None:
        with BotApiServer() as telegram:
            api = BotApi(telegram.url, telegram.token)
            await api.meet()
            try:
                for status_code, body in NONSENSE:
                    answering(telegram, lambda _path, _kind, _data, odd=(status_code, body): odd)
                    sender = Sender(lambda: api, lambda: Configured(admins=frozenset({ADA})))
                    with pytest.raises((NotNow, Never)):
                        await sender.send(str(ADA), "hello", key="k", reply_to=None)
            finally:
                await api.close()

    anyio.run(main)


def test_tg_10_a_bot_that_is_begun_amid_nonsense_begins_once_that_is_over(
    tmp_path: Path, quick: None
) -> None:
    async def main(desk: Desk) -> None:
        honest = desk.telegram.answer
        for body in (b'{"ok": true, "result": {"id": "x"}}', b"[1, 2", b'{"ok": true, "result": []}'):
            answering(desk.telegram, lambda _path, _kind, _data, body=body: (200, body))
            async with desk.running() as door:
                await desk.until(lambda: status(door)["state"] == "error")
                answering(desk.telegram, honest)
                await desk.until(lambda: status(door)["state"] == "running")

    with_desk(tmp_path, main)


@pytest.mark.timeout(120)
def test_tg_10_a_refusal_passes_over_no_update(tmp_path: Path, quick: None) -> None:
    async def main(desk: Desk) -> None:
        telegram, honest = desk.telegram, desk.telegram.answer
        async with desk.running():
            telegram.state.message(ADA, "before")
            await desk.until(lambda: len(desk.messages()) == 1 and not telegram.state.waiting)
            for count, code in enumerate((400, 401, 403, 404, 409, 413, 500), 1):
                said = msgspec.json.encode({"ok": False, "error_code": code, "description": "no"})
                refused = polls_get(telegram, code, said)
                await desk.until(lambda: refused)  # noqa: B023  used up before the next
                telegram.state.message(ADA, f"meanwhile {code}")
                most = len(refused) + 3
                await desk.until(lambda: len(refused) > most)  # noqa: B023
                answering(telegram, honest)
                await desk.until(lambda: len(desk.messages()) == 1 + 2 * count)  # noqa: B023

    with_desk(tmp_path, main)


LARGE = b'{"ok":true,"result":[{"update_id":%d,"message":{"text":"' + b"x" * MOST_BYTES + b'"}}]}'
DEEP = b'{"ok":true,"result":[{"update_id":%d,"message":' + b"[" * 50_000 + b"]" * 50_000 + b"}]}"


@pytest.mark.parametrize("before", [True, False], ids=["amid others", "as the first of all"])
@pytest.mark.parametrize("body", [LARGE, DEEP], ids=["large", "deep"])
def test_tg_10_an_update_that_nobody_can_read_is_passed_over_alone_and_on_the_record(
    tmp_path: Path, quick: None, body: bytes, before: bool
) -> None:
    async def main(desk: Desk) -> None:
        telegram, honest = desk.telegram, desk.telegram.answer
        state = telegram.state
        number = 0

        def poisoned(path: str, kind: str, data: bytes) -> tuple[int, bytes] | None:
            found = honest(path, kind, data)
            unreadable = path.endswith("getUpdates") and found is not None and b"poison" in found[1]
            return (200, body % number) if unreadable else found

        answering(telegram, poisoned)
        async with desk.running():
            with state.turn:  # all at once
                if before:
                    state.message(ADA, "before")
                number = state.post({"poison": True})
                state.message(ADA, "after")
            wanted = ["before", "after"] if before else ["after"]
            await desk.until(lambda: [text for _, text in desk.messages()] == wanted)
            noted = [each for each in desk.records() if each.tool == "telegram_door.noted"]
            assert len(noted) == 2, "one note: that it began, and that it ended well"

    with_desk(tmp_path, main)


@pytest.mark.parametrize(
    ("asked", "counts"),
    [(-5, 0.0), (0, 0.0), (7, 7.0), (10**12, LONGEST_SILENCE), (1e300, LONGEST_SILENCE), ("x", 0.0)],
)
@pytest.mark.parametrize(("code", "kind", "least"), [(429, "flood", 1.0), (500, "doubtful", 0.0)])
def test_tg_10_the_silence_telegram_asks_for_has_bounds(
    code: int, kind: str, least: float, asked: object, counts: float
) -> None:
    async def main() -> None:
        said = {"ok": False, "error_code": code, "parameters": {"retry_after": asked}}
        with BotApiServer() as telegram:
            answering(telegram, lambda _path, _kind, _data: (code, msgspec.json.encode(said)))
            api = BotApi(telegram.url, telegram.token)
            try:
                with pytest.raises(Trouble) as trouble:
                    await api.ask("sendMessage", {})
            finally:
                await api.close()
        assert (trouble.value.kind, trouble.value.seconds) == (kind, max(counts, least))

    anyio.run(main)
