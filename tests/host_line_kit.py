"""A host with a real record, in this process or another, and calls that are announced to it."""

import os
import secrets
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from metier.kernel.events import Events
from metier.kernel.host_line import HostLine
from metier.kernel.host_line_server import serve
from metier.kernel.host_line_words import HostStatus
from metier.kernel.host_role import HostRole
from metier.kernel.operation import Asked
from metier.model.call import Principal
from metier.model.digest import Json
from metier.record.audit import AuditLog, Intent
from metier.record.calls import this_process
from metier.record.chain import Act
from metier.record.database import Database
from metier.record.payload import Payloads

WHO = Principal(id="agent:cli", kind="agent", on_behalf_of="human:me", roles=frozenset({"agent"}))


class Desk:
    """A process that judges and records its own calls."""

    def __init__(self, home: Path, payloads: Payloads = "redacted") -> None:
        self.home = str(home)
        self.database = Database.open(str(home / "state.db"))
        self.log = AuditLog(self.database, payloads=payloads)
        self.line = HostLine(self.home)
        self.events = Events()
        self.done: list[Asked] = []
        self.ends = 0

    def announced(
        self,
        tool: str = "echo.say",
        arguments: dict[str, Json] | None = None,
        *,
        call_id: str = "",
        attempt: int = 1,
        process: str | None = None,
        principal: str = WHO.id,
        skill: str = "",
    ) -> tuple[Asked, Intent]:
        """A call whose intent is on the record, and the operation behind it."""
        arguments = {"text": "hello"} if arguments is None else arguments
        call_id = call_id or f"call_{secrets.token_hex(12)}"
        work = self.log.intending(
            Act(
                principal=principal, call_id=call_id, tool=tool, on_behalf_of="human:me", attempt=attempt,
                session="s1", skill=skill,
            ),
            payloads={"arguments": arguments, "permissions": {"operations": [tool]}},
            process=this_process() if process is None else process,
        )  # fmt: skip
        with self.database.transaction() as connection:
            intent = work(connection)
        assert isinstance(intent, Intent)
        return self.asked(call_id, tool, arguments), intent

    def asked(self, call_id: str, tool: str = "echo.say", arguments: dict[str, Json] | None = None) -> Asked:
        module, _, operation = tool.partition(".")
        return Asked(
            call_id=call_id,
            principal=WHO,
            module=module,
            operation=operation,
            arguments={"text": "hello"} if arguments is None else arguments,
        )

    async def echo(self, asked: Asked) -> Json:
        self.done.append(asked)
        return {"said": asked.arguments}

    @asynccontextmanager
    async def serving(self, do: Callable[[Asked], Awaitable[Json]] | None = None) -> AsyncGenerator[HostRole]:
        """The host, here."""
        role = HostRole.try_take(self.home)
        assert isinstance(role, HostRole)
        try:
            async with anyio.create_task_group() as tasks:

                async def work(*, task_status: anyio.abc.TaskStatus[None]) -> None:
                    await serve(
                        role,
                        do=do or self.echo,
                        database=self.database,
                        events=self.events,
                        status=lambda: HostStatus(pid=os.getpid(), since=role.since, version="0"),
                        end=self._ended,
                        task_status=task_status,
                    )

                await tasks.start(work)
                yield role
                tasks.cancel_scope.cancel()
        finally:
            role.release()

    def _ended(self, process: int) -> None:
        assert process == os.getpid()
        self.ends += 1


HOST = """
import sys
sys.path[:0] = [{here!r}]
import anyio
from pathlib import Path
from host_line_kit import Desk

async def do(asked):
    print("doing", asked.call_id, flush=True)
    if asked.operation == "hang":
        await anyio.sleep_forever()
    return asked.arguments

async def main():
    async with Desk(Path(sys.argv[1])).serving(do):
        print("serving", flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


def host_elsewhere(home: Path) -> "subprocess.Popen[str]":
    """A host in a process of its own, once it serves."""
    here = os.path.dirname(os.path.abspath(__file__))
    process = subprocess.Popen(
        [sys.executable, "-c", HOST.format(here=here), str(home)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "serving"
    return process


def gone(host: "subprocess.Popen[str]") -> None:
    """Wait until it is."""
    with host:
        host.wait(timeout=30)
