"""A host with its Telegram door, in this process: everything real, and a Telegram of our own writing at the other end."""

import os
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from metier.catalog.here import owner
from metier.config.load import load
from metier.config.settings import Settings
from metier.doors.telegram.api import shown_by
from metier.doors.telegram.configured import SKILL
from metier.doors.telegram.door import Telegram
from metier.kernel.calling import Calls
from metier.kernel.operation import Asked
from metier.kernel.store import Store
from metier.model.approval import Approval
from metier.model.call import Principal
from metier.model.digest import Json
from metier.model.outcome import Pending
from metier.model.role import Registered
from metier.record.approvals import approvals_in
from metier.record.audit import AuditLog
from metier.record.chain import Record
from metier.record.database import Database
from metier.record.principals import add_principal
from metier.runtime import at_terminal, hosting_here
from metier.testing.bot_api import BotApiServer
from metier.testing.bot_api_methods import BotState, Sent

ADA, BEN, CAL, EVE = 1001, 1002, 1003, 6666
SECRET = "webhook-secret_of-16-or-more"
SHOWN = shown_by(BotApiServer().token, SECRET)
"""What Telegram shows with what it brings for the usual bot."""
ITS_SKILL = Principal(id=f"skill:{SKILL}", kind="skill", on_behalf_of=owner())


class Desk:
    """One machine with a host, and what a test looks at."""

    def __init__(self, top: Path, telegram: BotApiServer) -> None:
        self.telegram = telegram
        self.home, self.project = top / "state", top / "project"
        self.home.mkdir(mode=stat.S_IRWXU, exist_ok=True)
        self.project.mkdir(exist_ok=True)
        self.more = (
            f'approvers = {{ "{ADA}" = "{owner()}" }}\n[announce]\nbatch_seconds = 0\nterminal = false'
        )
        """Further lines of metier.toml."""
        self.values: dict[str, Json] = {
            "admin_chat_ids": [str(ADA), str(BEN)],
            "mode": "polling",
            "polling": {"timeout_sec": 5},
            "webhook": {"url": "https://bot.example.com/hook"},
        }
        self.secrets: dict[str, str] = {"bot_token": telegram.token, "webhook.secret_token": SECRET}
        self.door: Telegram | None = None
        self.parts: Any = None
        self.said: list[str] = []
        self.calls: Calls | None = None

    def settings(self) -> Settings:
        written = f'[telegram]\napi = "{self.telegram.url}"\n{self.more}\n'
        place = self.home / "metier.toml"
        if not place.exists() or place.read_text(encoding="utf-8") != written:
            place.write_text(written, encoding="utf-8")
            place.chmod(0o600)
        return load(
            home=str(self.home), project=str(self.project), environ={**os.environ, "HOME": str(self.home)}
        )

    @asynccontextmanager
    async def hosting(self) -> AsyncIterator[Telegram]:
        """The host, with the door whose settings are this desk's."""

        def made(parts: Any) -> Telegram:
            given = parts.given
            self.parts, self.calls = parts, given.calls

            async def values(_skill: str) -> dict[str, Json]:
                return self.values

            async def reveal(_skill: str, path: str) -> str | None:
                return self.secrets.get(path)

            self.door = Telegram(
                store=parts.store,
                events=parts.events,
                calls=given.calls,
                settings=given.settings,
                catalog=given.catalog,
                owner=given.owner,
                values=values,
                reveal=reveal,
                take_up=given.take_up,
                wake=parts.deliveries.wake,
            )
            return self.door

        async with hosting_here(self.settings, (made,), self.said.append) as hosting:
            assert hosting is not None
            assert self.door is not None
            yield self.door

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Telegram]:
        """The same, started."""
        async with self.hosting() as door:
            await door.start(asked("start"))
            await self.until(lambda: status(door)["state"] != "starting")
            yield door

    async def until(self, holds: Callable[[], object], seconds: float = 15.0) -> None:
        """Wait until it holds."""
        with anyio.fail_after(seconds):
            while not holds():
                await anyio.sleep(0.02)

    async def wait(self, seen: Callable[[BotState], object], seconds: float = 15.0) -> None:
        """Wait until the Telegram has seen it."""
        assert await to_thread.run_sync(self.telegram.wait, seen, seconds), "Telegram never saw it"

    def messages(self, direction: str = "in") -> list[tuple[str, str]]:
        """What is stored: chat and text, in order."""
        store = Store(str(self.home))
        try:
            with store.reading() as connection:
                rows = connection.execute(
                    "SELECT thread.chat, message.text FROM message JOIN thread ON thread.id = message.thread"
                    " WHERE message.direction = ? AND thread.channel = 'telegram' ORDER BY message.id",
                    (direction,),
                ).fetchall()
        finally:
            store.close()
        return [(str(chat), str(text)) for chat, text in rows]

    @property
    def database(self) -> str:
        """Of the state, whatever the configuration says."""
        return str(self.home / "state.db")

    def records(self) -> list[Record]:
        with Database.open(self.database) as database:
            return AuditLog(database).tail(10_000)

    def approvers(self, **people: int) -> None:
        """These approve by Telegram, beside Ada, who is the owner: each a person of his own."""
        more = "".join(f', "{number}" = "human:{name}"' for name, number in people.items())
        self.more = self.more.replace(" }\n", f"{more} }}\n", 1)
        self.settings()
        with Database.open(self.database) as database:
            for name in people:
                made = Registered(id=f"human:{name}", kind="human", roles=frozenset({"approver"}))
                assert add_principal(database, made, by=owner(), owner=owner()) == ""

    async def shown(self, content: str = "tea", project: str = "") -> tuple[str, Sent]:
        """A request and the message that shows it to Ada."""
        approval = await self.asked_for(content, project)
        sent = await self.shown_to(ADA, approval)
        await self.until(lambda: self._kept(approval, ADA))
        return approval, sent

    def _kept(self, approval: str, user: int) -> bool:
        """Whether it is kept that he was told of it."""
        with self.parts.store.reading() as connection:
            rows = connection.execute(
                "SELECT 1 FROM announced WHERE approval = ? AND recipient LIKE ?", (approval, f"%{user}")
            ).fetchall()
        return bool(rows)

    async def shown_to(self, user: int, approval: str) -> Sent:
        """The message that shows him a request."""

        def found(state: BotState) -> list[Sent]:
            return [
                each for each in state.sent if each.chat == user and approval in each.text and each.buttons
            ]

        await self.wait(found)
        return found(self.telegram.state)[-1]

    async def pressed(self, user: int, sent: Sent, label: str) -> str:
        """What somebody is answered who presses a button: by its label, or with this as its data."""
        answers = self.telegram.state.answers
        before = len(answers)
        self.telegram.state.press(user, sent, dict(sent.buttons).get(label, label))
        await self.wait(lambda state: len(state.answers) > before)
        return answers[-1][1]

    def begun(self, approval: str) -> int:
        """How often the call of a request was begun."""
        (call,) = {each.call_id for each in self.records() if each.approval == approval}
        return len(
            [
                each
                for each in self.records()
                if each.call_id == call and each.event == "skill_execution_started"
            ]
        )

    async def asked_for(self, content: str = "tea", project: str = "") -> str:
        """An agent wants to write a file, which is asked every time: the id of the request."""
        settings = self.settings()
        if project:
            (self.home.parent / project).mkdir(exist_ok=True)
            settings = load(
                home=str(self.home),
                project=str(self.home.parent / project),
                environ={**os.environ, "HOME": str(self.home)},
            )
        async with at_terminal(settings) as runtime:
            outcome = await runtime.call(
                "fs_write", {"path": f"memory/{len(content)}.md", "content": content}
            )
        assert isinstance(outcome, Pending), outcome
        if self.parts is not None:  # the host would look by itself, a moment later
            self.parts.events.emit("approvals.waiting")
        return outcome.approval_id

    def state(self, approval: str) -> str:
        """What became of a request."""
        return next(each.state for each in self.approvals() if each.id == approval)

    def approvals(self, *, over: bool = True) -> list[Approval]:
        with Database.open(self.database) as database, database.reading() as connection:
            return approvals_in(connection, over=over)


def asked(operation: str, by: Principal = ITS_SKILL, **arguments: Json) -> Asked:
    """As the pipeline would hand it over."""
    return Asked(
        call_id="call_test", principal=by, module="telegram_door", operation=operation, arguments=arguments
    )


def status(door: Telegram) -> dict[str, Any]:
    found = door._status()  # pyright: ignore[reportPrivateUsage]
    assert isinstance(found, dict)
    return found


def with_desk(top: Path, main: Callable[[Desk], Awaitable[None]]) -> None:
    """Run a test that has a desk and a Telegram of its own."""

    async def whole() -> None:
        with BotApiServer() as telegram:
            await main(Desk(top, telegram))

    anyio.run(whole)
