"""An office for schedules: a real store, a book of the calls that were made, and a clock that can be set."""

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio
import pytest

from firing_kit import OWNER, Book, do, no_skills
from metier.kernel import schedule_attempts, schedule_rounds, schedule_store, schedules
from metier.kernel.events import Events
from metier.kernel.operation import Module, OperationError
from metier.kernel.schedule_notice import NOTIFY
from metier.kernel.schedules import Schedules
from metier.kernel.store import Store
from metier.model.call import Principal
from metier.model.digest import Json
from metier.model.outcome import Completed, Failed, Outcome


class Wall:
    """A clock that a test can set."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def time(self) -> float:
        return time.time() + self.ahead


def set_wall(monkeypatch: pytest.MonkeyPatch) -> Wall:
    """The clock that schedules look at from now on."""
    made = Wall()
    for module in (schedule_rounds, schedules, schedule_attempts, schedule_store):
        monkeypatch.setattr(module, "time", made)
    return made


class Posting(Book):
    """Writes every call down, and has webhooks posted as the pipeline would."""

    def __init__(self, module: Callable[[], Module]) -> None:
        super().__init__()
        self._module = module

    async def call(self, principal: Principal, tool: str, arguments: dict[str, Json], **more: Any) -> Outcome:
        outcome = await super().call(principal, tool, arguments, **more)
        if tool != NOTIFY or not isinstance(outcome, Completed):
            return outcome
        try:
            value = await do(self._module(), "notify", principal.id, arguments)
        except OperationError as error:
            return Failed(call_id=outcome.call_id, code="reported", message=f"{error.code}: {error.message}")
        return Completed(call_id=outcome.call_id, value=value)


class Office:
    def __init__(self, top: Path) -> None:
        self.store = Store(str(top / "home"))
        self.book = Posting(lambda: self.schedules.module())
        self.events = Events()
        self.posted: list[tuple[str, dict[str, Json]]] = []
        self.schedules = Schedules(
            store=self.store,
            events=self.events,
            calls=self.book,
            catalog=no_skills,
            owner=OWNER,
            webhooks=self,
        )

    async def webhook(self, url: str, payload: dict[str, Json]) -> str:
        self.posted.append((url, payload))
        return "" if "good" in url else "the webhook answered with 500"

    async def do(self, operation: str, by: str = OWNER, **arguments: Json) -> Any:
        return await do(self.schedules.module(), operation, by, arguments)

    async def create(self, by: str = OWNER, **schedule: Json) -> str:
        made = await self.do(
            "create", by=by, schedule={"name": f"s{time.monotonic_ns()}", "tool": "a/b", **schedule}
        )
        return made["id"]

    async def get(self, id: str) -> dict[str, Any]:
        return await self.do("get", id=id)

    async def until(self, count: int) -> None:
        """So many firings came to their end."""
        with anyio.fail_after(20):
            while True:
                with self.store.reading() as connection:
                    (number,) = connection.execute(
                        "SELECT count(*) FROM firing WHERE ended_at IS NOT NULL"
                    ).fetchone()
                if number >= count:
                    return
                await anyio.sleep(0.02)

    async def looked(self, times: int = 3) -> None:
        """The host looked at all of them so often, and everything it began is done."""
        for _ in range(times):
            self.schedules._watch.poke()  # pyright: ignore[reportPrivateUsage]
            await anyio.sleep(0.2)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.schedules.run)
            await anyio.wait_all_tasks_blocked()
            yield
            tasks.cancel_scope.cancel()


def minutes(count: int) -> dict[str, Json]:
    return {"type": "interval", "intervalMs": count * 60_000}


def seconds_until(row: dict[str, Any]) -> float:
    return datetime.fromisoformat(row["next_due"]).timestamp() - time.time()
