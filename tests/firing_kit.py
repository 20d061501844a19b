"""A desk for triggers and schedules: a real store, real events, and a book of the calls that were made."""

import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
from msgspec import Struct

from metier.catalog.catalog import Catalog
from metier.kernel.calling import NO_SURROUNDINGS
from metier.kernel.events import Events
from metier.kernel.operation import Asked, Module
from metier.kernel.store import Store
from metier.kernel.triggers import Triggers
from metier.model.call import Call, Cause, Principal, Surroundings, ValidCall
from metier.model.digest import Json
from metier.model.entry import Command
from metier.model.outcome import Completed, Failed, Outcome, Refused
from metier.model.permission import PermissionSet
from metier.model.skill import Tool

OWNER = "human:me"
NO_CAUSE = Cause()


class Made(Struct, frozen=True, kw_only=True):
    """One call that was asked for."""

    principal: Principal
    tool: str
    arguments: dict[str, Json]
    parent: str | None
    surroundings: Surroundings
    unattended: bool
    call_id: str
    cause: Cause


class Book:
    """Makes no call: writes it down, and answers as it is told to."""

    def __init__(self) -> None:
        self.made: list[Made] = []
        self.answer: Callable[[Made], Awaitable[Json | Failed | Refused]] | None = None

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
        made = Made(
            principal=principal,
            tool=tool,
            arguments=arguments,
            parent=parent,
            surroundings=surroundings,
            unattended=unattended,
            call_id=id or f"call_{len(self.made) + 1}",
            cause=cause or self.cause_of(parent or ""),
        )
        self.made.append(made)
        answer = await self.answer(made) if self.answer is not None else "done"
        if isinstance(answer, Failed | Refused):
            return answer
        return Completed(call_id=made.call_id, value=answer)

    def cause_of(self, call_id: str) -> Cause:
        return next((each.cause for each in self.made if each.call_id == call_id), Cause())

    @property
    def tools(self) -> list[str]:
        return [each.tool for each in self.made]


class Kept:
    """Keeps messages as channels do."""

    def __init__(self) -> None:
        self.kept: list[int] = []
        self.handled: list[int] = []

    def keep(self, message: int) -> None:
        self.kept.append(message)

    async def mark_handled(self, message: int) -> None:
        self.handled.append(message)


def no_skills() -> Catalog:
    return Catalog(by_name={})


class Desk:
    """Triggers over a store of their own."""

    def __init__(self, top: Path, catalog: Callable[[], Catalog] = no_skills) -> None:
        self.store = Store(str(top / "home"))
        self.events = Events()
        self.book = Book()
        self.inbox = Kept()
        self.triggers = Triggers(
            store=self.store,
            events=self.events,
            calls=self.book,
            catalog=catalog,
            owner=OWNER,
            inbox=self.inbox,
            skill_of={"echo": "echo-skill"}.get,  # type: ignore[arg-type]
            cause_of=self.book.cause_of,
        )

    async def do(self, operation: str, by: str = OWNER, **arguments: Json) -> Any:
        return await do(self.triggers.module(), operation, by, arguments)

    async def create(self, by: str = OWNER, **trigger: Json) -> str:
        made = await self.do("create", by=by, trigger={"name": f"t{time.monotonic_ns()}", **trigger})
        return made["id"]

    async def message(self, text: str, number: int = 1, chat: str = "7") -> None:
        """One comes in, and everything it sets off is done."""
        self.events.emit(
            "channels.message.received",
            {"channel": "chat", "thread": 1, "message": number, "chat": chat, "author": "anna", "text": text},
        )
        await self.triggers.drain(30)

    async def happens(self, name: str, payload: Json = None, **how: Any) -> None:
        """An event, and everything it sets off."""
        self.events.emit(name, payload, **how)
        await self.triggers.drain(30)

    def running(self) -> "Running":
        return Running(self.triggers)


class Running:
    """Triggers as they run in a host."""

    def __init__(self, triggers: Triggers) -> None:
        self._triggers = triggers
        self._tasks = anyio.create_task_group()

    async def __aenter__(self) -> None:
        await self._triggers.load()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._triggers.watch)
        self._tasks.start_soon(self._triggers.run)
        await anyio.wait_all_tasks_blocked()

    async def __aexit__(self, *_: object) -> None:
        self._tasks.cancel_scope.cancel()
        await self._tasks.__aexit__(None, None, None)


async def do(module: Module, operation: str, by: str, arguments: dict[str, Json]) -> Any:
    principal = Principal(id=by, kind="human")
    asked = Asked(
        call_id="call_asked",
        principal=principal,
        module=module.name,
        operation=operation,
        arguments=arguments,
    )
    return await module.operations[operation].does(asked)


def valid_call(
    tool: str, *, by: str = "agent:cli", behalf: str = OWNER, cause: Cause = NO_CAUSE, **changed: Any
) -> ValidCall:
    """A call of a skill's tool, as far as triggers see it."""
    made = Tool(
        name=tool, description="", parameters={"type": "object"}, entry=Command(argv=("true",)), **changed
    )
    call = Call(
        id="call_outer",
        principal=Principal(id=by, kind="agent", on_behalf_of=behalf),
        tool=tool,
        arguments={"x": "y"},
        cause=cause,
    )
    return ValidCall(call=call, tool=made, arguments={"x": "y"}, skill=None, permissions=PermissionSet())
