"""Channels, conversations and deliveries on a real store, with skills that are only names and what they declare."""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from metier.catalog.catalog import Catalog
from metier.catalog.listed import Listed
from metier.config.settings import Root
from metier.kernel.calling import NO_SURROUNDINGS
from metier.kernel.capability import Capability
from metier.kernel.channels import Channels
from metier.kernel.conversation_inbox import Inbox
from metier.kernel.conversation_rows import Message, message_in, messages_in
from metier.kernel.conversations import Conversations
from metier.kernel.deliveries import Deliveries
from metier.kernel.delivery_ports import Connectors
from metier.kernel.events import Events, Happened
from metier.kernel.modules import Modules
from metier.kernel.operation import Asked, OperationError
from metier.kernel.store import Store
from metier.model.call import Cause, Principal, Surroundings
from metier.model.digest import Json
from metier.model.outcome import Completed, Failed, Outcome, Refused
from metier.model.permission import PermissionSet
from metier.model.skill import Skill, Source

OWNER = Principal(id="human:owner", kind="human", roles=frozenset({"owner"}))
HOST = Principal(id="agent:host", kind="agent", on_behalf_of="human:owner")
TELEGRAM = "xpell-agent-skill-telegram"
PATIENCE = 20.0


def skill(name: str) -> Principal:
    return Principal(id=f"skill:{name}", kind="skill", on_behalf_of="human:owner")


def private(tmp_path: Path) -> str:
    """A state folder."""
    made = tmp_path / "state"
    made.mkdir(mode=0o700, exist_ok=True)
    return str(made)


class Switchboard:
    """Everything that messages go through, in one process."""

    def __init__(self, home: str, *, seconds: float = 5.0) -> None:
        self.store = Store(home)
        self.events = Events()
        self.happened: list[Happened] = []
        self.capability = Capability()
        self.connectors = Connectors()
        self.listed: dict[str, Listed] = {}
        self.made: list[tuple[Principal, str, dict[str, Json], str | None]] = []
        self.forgotten: list[str] = []
        self.refuses: Refused | None = None
        """What a gate says to every call of a skill, while there is one."""
        self.inbox = Inbox(self.store, self.events, patience=seconds)
        self.deliveries = Deliveries(
            self.store,
            self.events,
            self,
            self.connectors,
            OWNER.id,
            skill_of=lambda module: self.modules.owner(module),
            seconds=seconds,
        )
        self.channels = Channels(
            self.store,
            lambda: self.modules,
            lambda: Catalog(by_name=self.listed),
            self.inbox,
            self.deliveries,
        )
        self.conversations = Conversations(self.store, self.channels, self.deliveries, self.forget)
        self.modules = Modules([self.channels.module(), self.conversations.module()], self.capability)
        self._calls = 0

    async def forget(self, thread: int, calls: Any) -> int:
        self.forgotten += calls
        return len(calls)

    def has(
        self,
        name: str,
        *,
        channels: tuple[str, ...] = (),
        modules: dict[str, Callable[[Asked], Awaitable[Json]] | None] | None = None,
        source: Source = "user",
        key: str = "",
    ) -> Principal:
        """A skill that declares these channels and lives with these modules, each with a `send` or without."""
        made = Skill(
            name=name,
            key=key,
            description="A skill.",
            dialect="xbot",
            source=source,
            permissions=PermissionSet(channels=frozenset(channels)),
        )
        root = Root(path="/nowhere", kind="user", trusted=True)
        self.listed[name] = Listed(name=name, folder="/nowhere", root=root, skill=made)
        for module, send in (modules or {}).items():
            self.modules.register(name, module, ["send"] if send else ["say"], send or _silent)
        return skill(name)

    async def ask(self, who: Principal, name: str, **arguments: Any) -> Any:
        """What the operation answers; its call went through the gate."""
        self._calls += 1
        module, _, operation = name.partition(".")
        asked = Asked(
            call_id=f"call_{self._calls}",
            principal=who,
            module=module,
            operation=operation,
            arguments=arguments,
            skill=self.modules.owner(module),
        )
        return await self.modules.do(asked, self.capability)

    async def refused(self, who: Principal, name: str, **arguments: Any) -> str:
        """The code with which it is refused."""
        with pytest.raises(OperationError) as error:
            await self.ask(who, name, **arguments)
        return error.value.code

    async def call(
        self,
        principal: Principal,
        tool: str,
        arguments: dict[str, Json],
        *,
        parent: str | None = None,
        surroundings: Surroundings = NO_SURROUNDINGS,
        unattended: bool = True,
        cause: Cause | None = None,
        id: str = "",
    ) -> Outcome:
        """`Calls`: the operation is done at once, without a gate."""
        self.made.append((principal, tool, arguments, parent))
        module, _, operation = tool.partition(".")
        asked = Asked(
            call_id="call_inner",
            principal=principal,
            module=module,
            operation=operation,
            arguments=arguments,
            skill=self.modules.owner(module),
        )
        if self.refuses is not None and principal.kind == "skill":
            return self.refuses
        if not self.modules.knows(module, operation):
            return Refused(call_id="call_inner", code="unknown_tool", reasons=(f"there is no tool {tool!r}",))
        try:
            return Completed(call_id="call_inner", value=await self.modules.do(asked, self.capability))
        except OperationError as error:
            value: dict[str, Json] = {"code": error.code, "message": error.message}
            return Failed(
                call_id="call_inner",
                code="reported",
                message=f"{error.code}: {error.message}",
                value=value,
            )

    async def came_in(
        self, text: str, *, chat: str = "c", id: str | None = None, channel: str = "telegram"
    ) -> Any:
        """A message that our own door took in."""
        self._calls += 1
        return await self.ask(
            HOST,
            "channels.route_inbound_message",
            channel=channel,
            chat_id=chat,
            message_id=id or f"m{self._calls}",
            author="user",
            text=text,
        )

    async def say(self, text: str, *, chat: str = "c", channel: str = "telegram", **more: Any) -> Any:
        """A message that is to be sent."""
        return await self.ask(
            OWNER, "channels.send_message", channel=channel, chat_id=chat, text=text, **more
        )

    def message(self, id: int) -> Message:
        with self.store.reading() as connection:
            found = message_in(connection, id)
        assert found is not None
        return found

    def thread(self, id: int) -> list[Message]:
        with self.store.reading() as connection:
            return messages_in(connection, id, limit=10_000)

    def named(self, name: str) -> list[Happened]:
        return [each for each in self.happened if each.name == name]

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until it holds; everything that can make it hold is an event of this process."""
        with anyio.fail_after(PATIENCE):
            while not holds():
                await anyio.sleep(0.01)

    @asynccontextmanager
    async def running(self, *, inbox: bool = True) -> AsyncGenerator[None]:
        """As the host runs it."""
        with self.events.listening(self.happened.append):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self.deliveries.run)
                if inbox:
                    tasks.start_soon(self.inbox.run)
                yield
                tasks.cancel_scope.cancel()


class Post:
    """A connector that keeps what it is given, and fails as it is told."""

    def __init__(self, fails: Callable[[str, str], Exception | None] = lambda _chat, _text: None) -> None:
        self.sent: list[tuple[str, str]] = []
        self.tried: list[tuple[str, str]] = []
        self.keys: list[str] = []
        self.at: list[float] = []
        self._fails = fails

    async def send(self, chat: str, text: str, *, key: str, reply_to: str | None) -> str | None:
        self.tried.append((chat, text))
        self.keys.append(key)
        self.at.append(time.monotonic())
        if (problem := self._fails(chat, text)) is not None:
            raise problem
        self.sent.append((chat, text))
        return f"sent-{len(self.sent)}"

    def texts(self, chat: str) -> list[str]:
        return [text for where, text in self.sent if where == chat]


async def _silent(asked: Asked) -> Json:
    return None
