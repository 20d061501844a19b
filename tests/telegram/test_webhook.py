"""The webhook: only who shows the secret is heard, and before a byte of what he brings is read."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from anyio import to_thread
from anyio.abc import SocketStream

from metier.doors.telegram import bot
from metier.doors.telegram import webhook as webhook_module
from metier.doors.telegram.door import Telegram
from metier.doors.telegram.webhook import HEADER, Webhook
from metier.kernel import conversation_rows
from metier.kernel.operation import OperationError
from metier.testing.bot_api import BotApiServer
from telegram_desk import ADA, SECRET, SHOWN, Desk, asked, status, with_desk

BAD = ["", SECRET, SHOWN[:-1], SHOWN + "x", SHOWN.upper(), "x", "ѕecret", SHOWN.encode().hex()]


@asynccontextmanager
async def served(desk: Desk) -> AsyncIterator[tuple[Telegram, str]]:
    """The bot in its mode webhook, and where that is."""
    probe = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = probe.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610  no Django here
    await probe.aclose()
    desk.values["mode"] = "webhook"
    desk.more = f'listen = "127.0.0.1:{port}"\n{desk.more}'
    async with desk.running() as door:
        await desk.until(lambda: status(door)["state"] == "running")
        yield door, f"http://127.0.0.1:{port}/hook"


async def connected(place: str) -> SocketStream:
    return await anyio.connect_tcp("127.0.0.1", int(place.split(":")[2].split("/")[0]))


async def answer(stream: SocketStream) -> bytes:
    """The head of what comes back."""
    found = b""
    with anyio.fail_after(5):
        while b"\r\n\r\n" not in found:
            found += await stream.receive()
    return found


async def ended(stream: SocketStream, seconds: float = 5.0) -> bool:
    """Whether the other side ends it, after whatever it still says."""
    with anyio.move_on_after(seconds):
        try:
            while True:
                await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return True
    return False


def whole_head(length: int) -> bytes:
    """A request that shows the secret, as far as its body."""
    shown = f"{HEADER.decode()}: {SHOWN}"
    return f"POST /hook HTTP/1.1\r\nHost: x\r\n{shown}\r\nContent-Length: {length}\r\n\r\n".encode()


@asynccontextmanager
async def serving(
    take: Callable[[bytes], Awaitable[None]] | None = None,
) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A webhook by itself, where that is, and what it took in."""
    taken: list[bytes] = []

    async def kept(body: bytes) -> None:
        taken.append(body)

    webhook = Webhook(SHOWN, "/hook", take or kept)
    async with await webhook.listener("127.0.0.1", 0) as listener, anyio.create_task_group() as tasks:
        port = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610  no Django here
        tasks.start_soon(webhook.serve, listener)
        yield f"http://127.0.0.1:{port}/hook", taken
        tasks.cancel_scope.cancel()


async def spoken(place: str, secret: str | None, length: int, body: bytes = b"", more: str = "") -> bytes:
    """What comes back for a request whose body is announced with `length` bytes and sent as far as `body` goes."""
    async with await connected(place) as stream:
        shown = f"{HEADER.decode()}: {secret}\r\n" if secret is not None else ""
        head = f"POST /hook HTTP/1.1\r\nHost: x\r\n{shown}{more}Content-Length: {length}\r\n\r\n"
        await stream.send(head.encode() + body)
        return await answer(stream)


def test_telegram_is_told_the_address_and_the_secret_and_what_it_brings_is_stored_once(
    tmp_path: Path,
) -> None:
    async def main(desk: Desk) -> None:
        async with served(desk) as (_, place):
            assert desk.telegram.state.webhook == {
                "url": "https://bot.example.com/hook",
                "secret_token": SHOWN,
            }
            for count in range(3):
                desk.telegram.state.message(ADA, f"by hook {count}")
            deliver = desk.telegram.deliver
            statuses = await to_thread.run_sync(lambda: deliver(place, times=2))
            assert statuses == [200] * 6
            assert [text for _, text in desk.messages()] == [f"by hook {count}" for count in range(3)]

    with_desk(tmp_path, main)


@pytest.mark.parametrize("shown", [None, *BAD])
def test_tg_01_a_missing_or_wrong_secret_is_refused_before_the_body_is_read(
    tmp_path: Path, shown: str | None
) -> None:
    async def main() -> None:
        async with serving() as (place, taken):
            # A megabyte is announced and not a byte of it sent: whoever answers cannot have read it.
            assert (await spoken(place, shown, 1_000_000)).startswith(b"HTTP/1.1 401 ")
            twice = f"{HEADER.decode()}: {SHOWN}\r\n"
            assert (await spoken(place, shown or "x", 2, b"{}", twice)).startswith(b"HTTP/1.1 401 ")
            assert taken == []
            assert (await spoken(place, SHOWN, 2, b"{}")).startswith(b"HTTP/1.1 200 "), (
                "the right one is heard"
            )
            assert taken == [b"{}"]

    anyio.run(main)


def test_tg_01_whoever_shows_the_wrong_secret_changes_nothing(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        async with served(desk) as (_, place):
            desk.telegram.state.message(ADA, "from somebody else")
            wrong = await to_thread.run_sync(
                lambda: desk.telegram.deliver(place, secret="not-the-secret-at-all")
            )
            assert wrong == [401]
            assert desk.messages() == []
            assert await to_thread.run_sync(lambda: desk.telegram.deliver(place)) == [200]
            assert desk.messages() == [(str(ADA), "from somebody else")]

    with_desk(tmp_path, main)


@pytest.mark.parametrize(
    "secret", ["", "short", "with a space in it here", "über-lang-genug-und-doch-nicht", "x" * 257]
)
def test_tg_02_without_a_good_secret_the_webhook_does_not_start(tmp_path: Path, secret: str) -> None:
    async def main(desk: Desk) -> None:
        desk.values["mode"] = "webhook"
        desk.secrets["webhook.secret_token"] = secret
        async with desk.hosting() as door:
            with pytest.raises(OperationError, match=r"webhook\.secret_token"):
                await door.start(asked("start"))
            with pytest.raises(OperationError, match=r"webhook\.secret_token"):
                await door.set_webhook(asked("set_webhook"))
            with pytest.raises(OperationError):
                await door.handle_webhook_update(asked("handle", update={}, secret_token=secret))
            assert status(door)["state"] == "stopped"
            assert not desk.telegram.state.webhook

    with_desk(tmp_path, main)
    with pytest.raises(ValueError, match="open to everybody"):
        Webhook("", "/hook", lambda _body: anyio.lowlevel.checkpoint())


def test_tg_02_the_webhook_needs_an_address_with_tls(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        desk.values |= {"mode": "webhook", "webhook": {"url": "http://bot.example.com/"}}
        async with desk.hosting() as door:
            with pytest.raises(OperationError, match=r"webhook\.url"):
                await door.start(asked("start"))

    with_desk(tmp_path, main)


def test_tg_10_what_is_too_large_or_no_http_is_turned_away_and_others_are_served(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        async with served(desk) as (_, place):
            assert (await spoken(place, SHOWN, 2_000_000)).startswith(b"HTTP/1.1 413 ")
            async with await connected(place) as odd:
                await odd.send(b"\x16\x03\x01 nonsense\r\n\r\n")
                assert await ended(odd)
                assert (await spoken(place, SHOWN, 8, b"not json")).startswith(b"HTTP/1.1 200 "), (
                    "taken as nothing"
                )
                desk.telegram.state.message(ADA, "still")
                assert await to_thread.run_sync(lambda: desk.telegram.deliver(place)) == [200]
            assert desk.messages() == [(str(ADA), "still")]

    with_desk(tmp_path, main)


@pytest.mark.parametrize(
    ("begin", "drop"),
    [
        (b"", b""),
        (b"POST /ho", b""),
        (b"POST /hook HTTP/1.1\r\nHost: x\r\nX-Slow: ", b"a"),
        (f"POST /hook HTTP/1.1\r\nHost: x\r\n{HEADER.decode()}: {SHOWN}\r\n".encode(), b"X-A: b\r\n"),
        (whole_head(1_000), b""),
        (whole_head(1_000), b" "),
    ],
    ids=["nothing", "half a line", "drop by drop", "line by line", "no body", "a body drop by drop"],
)
def test_tg_10_whoever_is_slow_is_turned_away_however_he_goes_about_it(
    monkeypatch: pytest.MonkeyPatch, begin: bytes, drop: bytes
) -> None:
    monkeypatch.setattr(webhook_module, "HEAD_SECONDS", 0.3)
    monkeypatch.setattr(webhook_module, "BODY_SECONDS", 0.3)

    async def main() -> None:
        async with serving() as (place, taken):
            async with await connected(place) as slow, anyio.create_task_group() as tasks:
                await slow.send(begin)

                async def drip() -> None:
                    while drop:
                        try:
                            await slow.send(drop)
                        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                            return
                        await anyio.sleep(0.02)

                tasks.start_soon(drip)
                assert await ended(slow)
                tasks.cancel_scope.cancel()
            assert taken == []
            assert (await spoken(place, SHOWN, 2, b"{}")).startswith(b"HTTP/1.1 200 "), (
                "who is quick is heard"
            )

    anyio.run(main)


def test_tg_10_silent_connections_keep_nobody_out_and_who_showed_the_secret_stays() -> None:
    async def main() -> None:
        async with serving() as (place, taken), AsyncExitStack() as open:
            known = await open.enter_async_context(await connected(place))
            await known.send(whole_head(2) + b"{}")
            assert (await answer(known)).startswith(b"HTTP/1.1 200 ")
            silent = [
                await open.enter_async_context(await connected(place))
                for _ in range(2 * webhook_module.MOST_AT_ONCE)
            ]
            assert (await spoken(place, SHOWN, 2, b"{}")).startswith(b"HTTP/1.1 200 ")
            assert await ended(silent[0]), "who was silent longest had to go"
            await known.send(whole_head(2) + b"{}")
            assert (await answer(known)).startswith(b"HTTP/1.1 200 "), "not who had shown the secret"
            assert len(taken) == 3

    anyio.run(main)


def test_tg_10_who_is_being_served_is_not_turned_away_for_another() -> None:
    async def main() -> None:
        go_on = anyio.Event()

        async def take(_body: bytes) -> None:
            await go_on.wait()

        async with serving(take) as (place, _), AsyncExitStack() as open:
            several = [
                await open.enter_async_context(await connected(place))
                for _ in range(webhook_module.MOST_AT_ONCE)
            ]
            for each in several:
                await each.send(whole_head(2) + b"{}")
            with anyio.fail_after(5):
                while True:  # until all are being served, one more is let in
                    async with await connected(place) as one_more:
                        if await ended(one_more, seconds=0.05):
                            break
            go_on.set()
            for each in several[:-1]:
                assert (await answer(each)).startswith(b"HTTP/1.1 200 ")

    anyio.run(main)


def test_tg_01_who_shows_no_secret_is_not_kept_on_the_line() -> None:
    async def main() -> None:
        async with serving() as (place, _), await connected(place) as stranger:
            await stranger.send(b"POST /hook HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
            assert (await answer(stranger)).startswith(b"HTTP/1.1 401 ")
            assert await ended(stranger)

    anyio.run(main)


def test_tg_06_a_message_that_cannot_be_taken_in_now_is_brought_again_and_that_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(desk: Desk) -> None:
        async with served(desk) as (door, place):
            monkeypatch.setattr(conversation_rows, "MOST_RECEIVED", 0)
            desk.telegram.state.message(ADA, "one too many")
            for _ in range(3):
                assert await to_thread.run_sync(lambda: desk.telegram.deliver(place)) == [503]
            assert "waits at Telegram" in status(door)["error"]
            assert len([each for each in caplog.records if "waits" in each.getMessage()]) == 1
            monkeypatch.setattr(conversation_rows, "MOST_RECEIVED", 10_000)
            assert await to_thread.run_sync(lambda: desk.telegram.deliver(place)) == [200]
            assert desk.messages() == [(str(ADA), "one too many")]
            assert status(door)["error"] == ""

    with_desk(tmp_path, main)


def test_tg_06_a_pressed_button_that_is_brought_twice_is_heard_once(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        async with served(desk) as (_, place):
            approval = await desk.asked_for("tea")
            await desk.wait(lambda state: any(each.buttons for each in state.sent))
            sent = desk.telegram.last(ADA)
            desk.telegram.state.press(ADA, sent, dict(sent.buttons)["Deny"])
            assert await to_thread.run_sync(lambda: desk.telegram.deliver(place, times=2)) == [200, 200]
            assert desk.state(approval) == "denied"
            asked_for = [each for each in desk.telegram.asked if each.method == "answerCallbackQuery"]
            assert len(asked_for) == 1
            assert not [each for each in desk.records() if each.tool == "telegram_door.noted"]

    with_desk(tmp_path, main)


def test_an_update_that_a_web_server_forwards_needs_the_secret_and_is_never_a_button(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        state = desk.telegram.state
        state.message(ADA, "forwarded")
        update = state.waiting[0]
        async with desk.hosting() as door:
            for wrong in ("", "not-the-secret-at-all", SHOWN.upper()):
                with pytest.raises(OperationError) as refused:
                    await door.handle_webhook_update(asked("h", update=update, secret_token=wrong))
                assert refused.value.code == "E_AGENT_FORBIDDEN"
            assert desk.messages() == []
            button = {"id": "1", "from": {"id": ADA, "is_bot": False}, "data": "x.o", "chat_instance": "1"}
            button["message"] = {"message_id": 1, "chat": {"id": ADA, "type": "private"}}
            with pytest.raises(OperationError, match="button"):
                await door.handle_webhook_update(
                    asked("h", update={"update_id": 9, "callback_query": button}, secret_token=SHOWN)
                )
            assert await door.handle_webhook_update(asked("h", update=update, secret_token=SHOWN)) == {
                "ok": True
            }
            assert desk.messages() == [(str(ADA), "forwarded")]

    with_desk(tmp_path, main)


def test_the_webhook_can_be_set_and_taken_back_by_itself(tmp_path: Path) -> None:
    async def main(desk: Desk) -> None:
        async with desk.hosting() as door:
            told = await door.set_webhook(asked("set_webhook"))
            assert told == {"ok": True, "url": "https://bot.example.com/hook"}
            assert desk.telegram.state.webhook["secret_token"] == SHOWN
            await door.set_webhook(asked("set_webhook", remove=True))
            assert desk.telegram.state.webhook == {}

    with_desk(tmp_path, main)


def test_tg_01_what_is_brought_for_the_bot_there_was_before_is_not_taken_for_the_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Telegram goes on bringing it to the same address, under numbers that the new bot's messages have too."""
    monkeypatch.setattr(bot, "_LOOK", 0.05)

    async def main(desk: Desk) -> None:
        old, new = desk.telegram, BotApiServer(token="7000000002:AAother-token-of-another-bot-000000000")
        honest = old.answer

        def either(path: str, kind: str, data: bytes) -> tuple[int, bytes] | None:
            return new.answer(path, kind, data) if new.token in path else honest(path, kind, data)

        old.answer = either  # pyright: ignore[reportAttributeAccessIssue]
        async with served(desk) as (door, place):
            desk.secrets["bot_token"] = new.token
            await door.configure(asked("configure"))
            await desk.until(lambda: new.state.webhook and status(door)["state"] == "running")
            assert old.state.webhook["url"] == new.state.webhook["url"]
            old.state.message(ADA, "to the old bot")
            assert await to_thread.run_sync(old.deliver, place) == [401]
            forwarded = {"update": old.state.waiting[0], "secret_token": old.state.webhook["secret_token"]}
            with pytest.raises(OperationError, match="may not be from Telegram"):
                await door.handle_webhook_update(asked("h", **forwarded))
            new.state.message(ADA, "to the new bot")
            assert await to_thread.run_sync(new.deliver, place) == [200]
            assert desk.messages() == [(str(ADA), "to the new bot")]

    with_desk(tmp_path, main)
