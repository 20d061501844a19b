"""The sandboxes, and who answers what runs in them. The only module that names concrete backends."""

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, final

from anyio import to_thread
from anyio.abc import TaskGroup

from metier.config.settings import Settings
from metier.model.job import Fault, Job, Report
from metier.model.ports import Caller, Host
from metier.sandbox.protocol import Sandbox
from metier.sandbox.select import Unavailable, select
from metier.sandbox.wall import Wall

if TYPE_CHECKING:
    from metier.host.bridge import Service
    from metier.sandbox.given import Given
    from metier.sandbox.mcp import Watch


@final
class Sandboxes:
    """The sandboxes of one runtime, made when something is first to be run, and who answers what runs in them."""

    def __init__(
        self, settings: Settings, tasks: TaskGroup | None = None, watch: "Watch | None" = None
    ) -> None:
        """What goes on between calls (a process started ahead, one cleared away, an MCP server) goes on in `tasks`; `watch` is told
        of those servers."""
        self._settings = settings
        self._tasks = tasks
        self._watch = watch
        self._made: tuple[Sequence[Sandbox], Sequence[Wall]] | None = None

    def __call__(self) -> Sequence[Sandbox]:
        if self._made is None:
            self._made = make_sandboxes(self._settings, self._tasks, self._watch)
        return self._made[0]

    def stop(self, skill: str) -> None:
        """End what lives of a skill; of all of them where none is named."""
        for each in self._made[0] if self._made is not None else ():
            if (stop := getattr(each, "stop", None)) is not None:
                stop(skill)

    @asynccontextmanager
    async def host(
        self,
        job: Job,
        settings: Settings | None = None,
        caller: Caller | None = None,
        more: "Mapping[str, Service] | None" = None,
        given: "Given | None" = None,
    ) -> AsyncGenerator[Host]:
        """The bridge of one run: open while it runs, and everything is refused once it is over.

        `settings` are those of now, where they may have changed since the sandboxes were made. `caller` makes the calls that
        the code of a skill asks for. `more` is what a skill that lives may ask for besides; its log keeps what was said last. `given` is
        what it was told, where somebody keeps account of that.
        """
        from metier.host.bridge import Bridge
        from metier.host.call_log import CallLog, WriteCallLog
        from metier.host.exec import Exec
        from metier.host.gateway import Post, SendMessage
        from metier.host.gateway_client import GatewayClient
        from metier.host.http import Http
        from metier.host.log import Log
        from metier.host.operation import Operate
        from metier.host.secrets import Secrets, names_of_own_settings, own_settings
        from metier.sandbox.given import given_to
        from metier.sandbox.given_secrets import mask_of

        settings = settings or self._settings
        known, granted = Secrets(settings.secrets, settings.home), job.permissions
        own = own_settings(settings.home, job.skill)
        gateway = GatewayClient(settings.gateway, seconds=job.limits.timeout, home=settings.home)
        rolling = more is not None
        log = CallLog(
            settings.home, job.call_id, job.skill, settings.audit.payloads, rolling=rolling, mask=mask_of(job)
        )
        services: dict[str, Service] = {
            "call": Operate(job.call_id, job.skill, granted, caller, mask_of(job)),
            "exec": Exec(job, self._nested),
            "http": Http(
                granted.hosts,
                lambda name: known.reveal(name) if name in granted.secrets else own(name),
                given=given or given_to(job),
                secrets=granted.secrets | names_of_own_settings(settings.home, job.skill),
            ),
            "log": Log(job.call_id, job.skill, log),
            "call_log.write": WriteCallLog(log),
            "gateway.post": Post(gateway),
            "gateway.send_message": SendMessage(gateway, settings.operator, log),
        }
        if more is not None:
            del services["call"]  # a life has `execute`
            services |= more
        async with Bridge(job.call_id, job.skill, granted, services) as bridge:
            yield bridge

    async def _nested(self, job: Job) -> Report:
        """A program that running code asked for, in a sandbox of its own that keeps what this needs."""
        sandbox = await to_thread.run_sync(select, job, self())
        if isinstance(sandbox, Unavailable):
            fault = Fault(name="SandboxUnavailable", message="; ".join(sandbox.reasons))
            return Report(ending="not_started", fault=fault)
        return await sandbox.run(job)

    async def aclose(self) -> None:
        """End everything that was kept warm."""
        (sandboxes, walls), self._made = self._made or ((), ()), ((), ())
        for each in (*sandboxes, *walls):
            await each.aclose()


def make_sandboxes(
    settings: Settings, tasks: TaskGroup | None = None, watch: "Watch | None" = None
) -> tuple[Sequence[Sandbox], Sequence[Wall]]:
    """Every sandbox there is, quickest first, and the walls they share. What each can promise is found out when asked."""
    from metier.host.secrets import Secrets
    from metier.sandbox import cgroup
    from metier.sandbox.bubblewrap import Bubblewrap
    from metier.sandbox.deno import DenoSandbox
    from metier.sandbox.http import HttpSandbox
    from metier.sandbox.landlock import Landlock
    from metier.sandbox.mcp import McpSandbox
    from metier.sandbox.mcp_remote import McpRemote
    from metier.sandbox.native import NativeSandbox
    from metier.sandbox.python import PythonSandbox
    from metier.sandbox.wasm import WasmSandbox

    groups = cgroup.find()
    if groups is not None:
        groups.sweep()  # of programs that were killed before they could
    walls: tuple[Wall, ...] = (Bubblewrap(groups=groups), Landlock(groups=groups))
    cache = os.path.join(settings.cache, "sandbox")
    reveal = Secrets(settings.secrets, settings.home).reveal
    behind_walls: list[Sandbox] = []
    for wall in walls:
        engine = DenoSandbox(wall, cache=os.path.join(cache, "deno"), tasks=tasks)
        servers = McpSandbox(wall, reveal, tasks, watch)
        behind_walls.extend((NativeSandbox(wall), PythonSandbox(wall), engine, servers))
    inside = WasmSandbox(cache=os.path.join(cache, "wasm"))
    return (HttpSandbox(reveal), McpRemote(reveal, watch), inside, *behind_walls), walls
