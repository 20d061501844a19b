"""Approvers are told of what waits: at once what comes together, once more before it expires, and how it ended; never twice."""

import hashlib
import hmac
import json
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from msgspec.structs import replace

from approval_kit import OWNER, approve, ask, wanted
from loopback import Asked, Listener, reply
from machine import Machine
from metier.config.announce import AnnounceSettings
from metier.config.settings import Settings
from metier.kernel import announce
from metier.kernel.announce import Announcements
from metier.kernel.announce_terminal import TerminalAnnouncer
from metier.kernel.announce_ways import Announcer
from metier.kernel.announce_webhook import HEADER, WebhookAnnouncer
from metier.kernel.announce_words import decided_line
from metier.kernel.delivery_ports import Never, NotNow
from metier.kernel.events import Events
from metier.kernel.store import Store
from metier.model.approval import Approval
from metier.record.approval_clock import moment
from metier.record.approvals import approval_in
from metier.record.database import Database
from metier.record.deciding import decide
from switchboard import PATIENCE


class Chat:
    """One way to people, which fails as it is told."""

    way = "chat"

    def __init__(
        self, *people: str, fails: Callable[[], Exception | None] = lambda: None, at_once: int = 20
    ) -> None:
        self.people = people or ("ada",)
        self.at_once = at_once
        self.poison: dict[str, Exception] = {}
        """By approval: what happens whenever it is told."""
        self.told: list[tuple[str, list[str], bool]] = []
        self.ended: list[tuple[str, str, str, tuple[str, ...]]] = []
        self._fails = fails

    def recipients(self) -> Sequence[str]:
        return self.people

    async def announce(
        self, recipient: str, items: Sequence[Approval], *, reminder: bool
    ) -> Mapping[str, str]:
        if (problem := self._fails()) is not None:
            raise problem
        for each in items:
            if each.id in self.poison:
                raise self.poison[each.id]
        assert all(each.shown is not None for each in items)
        self.told.append((recipient, [each.id for each in items], reminder))
        return {each.id: f"message-{len(self.told)}" for each in items}

    async def decided(self, recipient: str, approval: Approval, references: Sequence[str]) -> None:
        self.ended.append((recipient, approval.id, approval.state, tuple(references)))


class Desk:
    """A real record, and announcements of what waits in it."""

    def __init__(self, machine: Machine) -> None:
        machine.state.mkdir(mode=0o700, exist_ok=True)
        self.home = str(machine.state)
        self.database = Database.open(machine.settings().database)
        self.settings: Settings = replace(machine.settings(), announce=AnnounceSettings(batch_seconds=0.1))
        self.calls = 0

    def asks(self, *, ago: float = 0.0) -> str:
        """A request that waits for 900 seconds, and does so since `ago`."""
        self.calls += 1
        return ask(self.database, wanted(call_id=f"call_{self.calls}"), now=moment(time.time() - ago))

    def expire(self, approval: str) -> None:
        """As if its time had come."""
        with self.database.transaction() as connection:
            connection.execute("UPDATE approval SET expires_at = ? WHERE id = ?", (time.time() - 1, approval))

    @asynccontextmanager
    async def announcing(self, *announcers: Announcer) -> AsyncGenerator[Events]:
        store, events = Store(self.home), Events()
        announcements = Announcements(store, self.database, events, lambda: self.settings)
        for each in announcers:
            announcements.add(each)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(announcements.run)
            await anyio.lowlevel.checkpoint()
            yield events
            tasks.cancel_scope.cancel()
        store.close()


async def until(events: Events, holds: Callable[[], bool]) -> None:
    with anyio.fail_after(PATIENCE):
        while not holds():
            events.emit("approvals.waiting")
            await anyio.sleep(0.02)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setattr("metier.kernel.announce._FIRST_PAUSE", 0.05)
    made = Desk(Machine(tmp_path))
    yield made
    made.database.close()


def test_what_comes_together_is_told_at_once_and_to_everybody(desk: Desk) -> None:
    chat = Chat("ada", "bob")

    async def main() -> None:
        async with desk.announcing(chat) as events:
            ids = [desk.asks() for _ in range(3)]
            await until(events, lambda: len(chat.told) == 2)
        assert [(who, sorted(told), again) for who, told, again in chat.told] == [
            ("ada", sorted(ids), False),
            ("bob", sorted(ids), False),
        ]

    anyio.run(main)


def test_a_restart_announces_nothing_twice(desk: Desk) -> None:
    first, second = Chat(), Chat()

    async def main() -> None:
        desk.asks()
        async with desk.announcing(first) as events:
            await until(events, lambda: len(first.told) == 1)
        later = desk.asks()
        async with desk.announcing(second) as events:
            await until(events, lambda: len(second.told) == 1)
        assert second.told == [("ada", [later], False)]

    anyio.run(main)


def test_somebody_is_told_how_it_ended_wherever_it_was_decided(desk: Desk) -> None:
    chat = Chat()

    async def main() -> None:
        yes, no = desk.asks(), desk.asks()
        async with desk.announcing(chat) as events:
            await until(events, lambda: len(chat.told) == 1)
        approve(desk.database, yes)  # while the host was down
        async with desk.announcing(chat) as events:
            await until(events, lambda: len(chat.ended) == 1)
            decide(desk.database, no, by=OWNER, decision="deny")
            await until(events, lambda: len(chat.ended) == 2)
        assert chat.ended == [
            ("ada", yes, "approved", ("message-1",)),
            ("ada", no, "denied", ("message-1",)),
        ]
        async with desk.announcing(chat) as events:
            new = desk.asks()
            await until(events, lambda: len(chat.told) == 2)
        assert (chat.told[1][1], len(chat.ended)) == ([new], 2), "and that not twice either"

    anyio.run(main)


def test_what_is_decided_before_it_was_announced_is_not_announced(desk: Desk) -> None:
    chat = Chat()

    async def main() -> None:
        approve(desk.database, desk.asks())
        async with desk.announcing(chat) as events:
            waiting = desk.asks()
            await until(events, lambda: len(chat.told) == 1)
        assert chat.told == [("ada", [waiting], False)]

    anyio.run(main)


def test_one_is_reminded_once_before_it_expires_and_told_when_it_did(desk: Desk) -> None:
    chat = Chat()

    async def main() -> None:
        late = desk.asks(ago=800)
        desk.asks()
        async with desk.announcing(chat) as events:
            await until(events, lambda: len(chat.told) == 2)
            desk.expire(late)
            await until(events, lambda: bool(chat.ended))
        assert [told for told in chat.told if told[2]] == [("ada", [late], True)], "the other one has time"
        assert chat.ended == [("ada", late, "expired", ("message-1", "message-2"))], (
            "of the reminder it is known too where it stands"
        )

    anyio.run(main)


def test_nobody_is_reminded_where_the_operator_does_not_want_it(desk: Desk) -> None:
    chat = Chat()
    desk.settings = replace(desk.settings, announce=AnnounceSettings(batch_seconds=0, remind_minutes=0))

    async def main() -> None:
        late = desk.asks(ago=899 - PATIENCE)
        async with desk.announcing(chat) as events:
            await until(events, lambda: bool(chat.told))
            desk.expire(late)
            await until(events, lambda: bool(chat.ended))
        assert [again for _, _, again in chat.told] == [False]

    anyio.run(main)


def test_a_way_that_fails_is_tried_again_and_holds_up_no_other(desk: Desk) -> None:
    problems: list[Exception] = [NotNow(0, "busy"), ZeroDivisionError(), NotNow(0, "busy")]
    fails, works = Chat(fails=lambda: problems.pop() if problems else None), Chat()
    works.way = "other"

    async def main() -> None:
        desk.asks()
        async with desk.announcing(fails, works) as events:
            await until(events, lambda: len(works.told) == 1)
            await until(events, lambda: len(fails.told) == 1)
        assert problems == []

    anyio.run(main)


def test_who_can_never_be_told_is_not_told_again_and_the_others_are(desk: Desk) -> None:
    tried: list[int] = []

    def never() -> Exception:
        tried.append(1)
        return Never("the chat is gone")

    gone, works = Chat(fails=never), Chat()
    works.way = "other"

    async def main() -> None:
        desk.asks()
        async with desk.announcing(gone, works) as events:
            await until(events, lambda: bool(works.told) and bool(tried))
            for _ in range(10):
                events.emit("approvals.waiting")
                await anyio.sleep(0.02)
        assert (len(tried), gone.ended) == (1, [])

    anyio.run(main)


def test_what_can_never_be_told_keeps_nothing_else_from_being_told(desk: Desk) -> None:
    chat = Chat(at_once=1)

    async def main() -> None:
        first, second, third = desk.asks(), desk.asks(), desk.asks()
        chat.poison[first] = Never("nobody takes a message like that")
        async with desk.announcing(chat) as events:
            await until(events, lambda: len(chat.told) == 2)
            approve(desk.database, first)
            approve(desk.database, second)
            await until(events, lambda: bool(chat.ended))
        assert {told[0] for _, told, _ in chat.told} == {second, third}
        assert [(id, state) for _, id, state, _ in chat.ended] == [(second, "approved")]

    anyio.run(main)


def test_what_fails_again_and_again_comes_last_and_holds_up_no_other(desk: Desk) -> None:
    chat = Chat(at_once=1)

    async def main() -> None:
        stuck = desk.asks()
        chat.poison[stuck] = ZeroDivisionError()
        late = desk.asks(ago=800)
        async with desk.announcing(chat) as events:
            await until(events, lambda: [late] in [told for _, told, again in chat.told if again])
            later = desk.asks()
            await until(events, lambda: [later] in [told for _, told, _ in chat.told])
            chat.poison.clear()
            await until(events, lambda: [stuck] in [told for _, told, _ in chat.told])

    anyio.run(main)


def test_more_than_one_announcement_holds_are_told_one_after_the_other(desk: Desk) -> None:
    chat = Chat(at_once=2)

    async def main() -> None:
        ids = [desk.asks() for _ in range(23)]
        async with desk.announcing(chat) as events:
            await until(events, lambda: sum(len(told) for _, told, _ in chat.told) == 23)
        assert sorted(id for _, told, _ in chat.told for id in told) == sorted(ids)
        assert max(len(told) for _, told, _ in chat.told) == 2

    anyio.run(main)


def test_an_event_of_a_skill_that_calls_itself_ours_wakes_nobody(desk: Desk) -> None:
    announcements = Announcements(Store(desk.home), desk.database, events := Events(), lambda: desk.settings)
    announcements.add(Chat())
    poked: list[str] = []
    announcements._ways[0].poke = lambda: poked.append("poked")  # pyright: ignore[reportPrivateUsage]

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(announcements.run)
            await anyio.lowlevel.checkpoint()
            await anyio.lowlevel.checkpoint()
            events.emit("approvals.waiting", source="some-skill")
            assert poked == []
            events.emit("approvals.waiting")
            assert poked == ["poked"]
            tasks.cancel_scope.cancel()

    anyio.run(main)


def test_the_terminal_gets_a_line_without_arguments_and_with_what_to_do(desk: Desk) -> None:
    said: list[str] = []
    terminal = TerminalAnnouncer(lambda: desk.settings, said.append)

    async def main() -> None:
        id = desk.asks()
        async with desk.announcing(terminal) as events:
            await until(events, lambda: len(said) == 1)
            approve(desk.database, id)
            await until(events, lambda: len(said) == 2)
        assert said == [
            f"1 call waits for your word: notes/remove (high risk) by agent:a, {id}. `metier approvals list` shows them.",
            f"{id} was approved by human:owner.",
        ]
        assert "/notes" not in said[0].replace("notes/", "")

    anyio.run(main)
    desk.settings = replace(desk.settings, announce=AnnounceSettings(terminal=False))
    assert terminal.recipients() == ()


def test_apr_31_of_a_call_that_was_begun_no_more_is_said_than_that(desk: Desk) -> None:
    id = desk.asks()
    approve(desk.database, id)
    with desk.database.reading() as connection:
        found = approval_in(connection, id)
    assert found is not None
    assert decided_line(replace(found, state="spent")) == f"{id} was approved by {OWNER.id}, and was begun."
    assert decided_line(found) == f"{id} was approved by {OWNER.id}."


def test_a_webhook_is_posted_signed_and_without_arguments_and_tried_again(desk: Desk) -> None:
    answers = [reply("503 Busy"), reply("500 Oops")]
    listener = Listener(lambda _asked: answers.pop() if answers else reply())
    url = f"http://127.0.0.1:{listener.port}/hook?room=1"
    announce = AnnounceSettings(webhook=url, secret="announce_key", batch_seconds=0)
    desk.settings = replace(desk.settings, announce=announce)
    webhook = WebhookAnnouncer(lambda: desk.settings, {"announce_key": "the shared secret"}.get)

    def posted() -> list[Asked]:
        return [each for each in listener.asked if each.body]

    async def main() -> None:
        id = desk.asks()
        async with desk.announcing(webhook) as events:
            await until(events, lambda: len(posted()) == 3 and not answers)
            approve(desk.database, id)
            await until(events, lambda: len(posted()) == 4)
        last, end = posted()[2:]
        said = json.loads(last.body)
        assert (said["event"], [each["id"] for each in said["items"]]) == ("approvals.waiting", [id])
        assert "arguments" not in said["items"][0]
        assert json.loads(end.body)["items"][0]["state"] == "approved"
        assert last.target == "/hook?room=1"
        at, _, signature = last.headers[HEADER.lower()].removeprefix("t=").partition(",v1=")
        made = hmac.new(b"the shared secret", f"{at}.".encode() + last.body, hashlib.sha256).hexdigest()
        assert signature == made
        assert not [each for each in listener.asked if b"the shared secret" in each.raw + each.body]

    try:
        anyio.run(main)
    finally:
        listener.close()


def test_nothing_is_posted_unsigned(desk: Desk) -> None:
    listener = Listener(lambda _asked: reply())
    announce = AnnounceSettings(webhook=f"http://127.0.0.1:{listener.port}/", secret="gone", batch_seconds=0)
    desk.settings = replace(desk.settings, announce=announce)
    webhook = WebhookAnnouncer(lambda: desk.settings, lambda _name: None)

    async def main() -> None:
        with pytest.raises(NotNow, match="cannot be had"):
            await webhook.announce("x", [], reminder=False)

    try:
        anyio.run(main)
        assert listener.connections == 0
    finally:
        listener.close()


def test_a_webhook_leads_to_no_place_where_clouds_keep_secrets(desk: Desk) -> None:
    async def main() -> None:
        for url in ("http://169.254.169.254/latest", "http://93.184.216.34/plain"):
            desk.settings = replace(desk.settings, announce=AnnounceSettings(webhook=url, secret="key"))
            webhook = WebhookAnnouncer(lambda: desk.settings, lambda _name: "value")
            with pytest.raises(NotNow):
                await webhook.announce("x", [], reminder=False)

    anyio.run(main)


def test_an_end_that_cannot_be_told_keeps_nothing_new_from_anybody(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(announce, "_FIRST_PAUSE", 3_600.0)
    monkeypatch.setattr(announce, "_LONGEST_PAUSE", 3_600.0)
    chat, tried = Chat("ada"), list[str]()

    async def decided(_recipient: str, approval: Approval, _references: Sequence[str]) -> None:
        tried.append(approval.id)
        raise NotNow(0, "that message cannot be changed")

    chat.decided = decided

    async def main() -> None:
        async with desk.announcing(chat) as events:
            first = desk.asks()
            await until(events, lambda: len(chat.told) == 1)
            approve(desk.database, first)
            await until(events, lambda: tried == [first])
            second = desk.asks()
            await until(events, lambda: len(chat.told) == 2)
            assert chat.told[1] == ("ada", [second], False)
            assert tried == [first], "it is tried again after its own pause"

    anyio.run(main)


def test_after_another_webhook_how_it_ended_is_posted_once_and_after_none_nowhere(desk: Desk) -> None:
    got: list[tuple[str, str]] = []

    def answer(asked: Asked) -> bytes:
        got.append((asked.target, json.loads(asked.body)["event"]))
        return reply()

    listener = Listener(answer)

    def to(path: str) -> None:
        url = f"http://127.0.0.1:{listener.port}{path}" if path else ""
        given = AnnounceSettings(webhook=url, secret="k", batch_seconds=0)
        desk.settings = replace(desk.settings, announce=given)

    to("/old")
    hook = WebhookAnnouncer(lambda: desk.settings, {"k": "the shared secret"}.get)

    def open_rows() -> int:
        store = Store(desk.home)
        with store.reading() as connection:
            (many,) = connection.execute("SELECT count(*) FROM announced WHERE done = 0").fetchone()
        store.close()
        return int(many)

    async def main() -> None:
        async with desk.announcing(hook) as events:
            first = desk.asks()
            await until(events, lambda: len(got) == 1)
            to("/new")
            await until(events, lambda: len(got) == 2)
            approve(desk.database, first)
            await until(events, lambda: len(got) == 3 and open_rows() == 0)
            second = desk.asks()
            await until(events, lambda: len(got) == 4)
            to("")
            approve(desk.database, second)
            await until(events, lambda: open_rows() == 0)
        listener.close()
        assert got == [
            ("/old", "approvals.waiting"),
            ("/new", "approvals.waiting"),
            ("/new", "approvals.decided"),
            ("/new", "approvals.waiting"),
        ]

    anyio.run(main)
