"""The modules as one runtime uses them: nothing of them is imported, opened or run before somebody needs it.

Needed are they by a call of an operation, by whatever is kept for them (a trigger counts in every process), and by the host.
"""

import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias, final

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup, TaskStatus
from msgspec import Struct

from metier.catalog.catalog import Catalog
from metier.catalog.here import owner
from metier.config.settings import Settings
from metier.hooks import Hooks
from metier.host.running import Running
from metier.model.call import Call, Cause, Principal, Surroundings
from metier.model.digest import Json
from metier.model.outcome import Failed, Outcome
from metier.model.ports import OperationFunction
from metier.model.skill import Tool
from metier.pipeline import House
from metier.record.database import Database
from metier.runtime.inner import Inner, made_for
from metier.runtime.sandboxes import Sandboxes

if TYPE_CHECKING:
    from metier.kernel.host_role import HostRole
    from metier.kernel.operators import Desk
    from metier.kernel.triggers import Triggers
    from metier.runtime.hosting import Hosting
    from metier.runtime.kernel import Kernel
    from metier.runtime.kernel_parts import Door, Parts
    from metier.runtime.state import Seen, State

    MakeDoor: TypeAlias = Callable[[Parts], Door]

_FILE: Final = "kernel.db"
_OURS: Final = frozenset(
    {
        *("skills", "settings", "secrets", "channels", "conv", "triggers", "schedules"),
        *("runtime", "grants", "principals", "policy", "audit"),
    }
)
"""Modules that are there before anything is kept for one."""
_log: Final = logging.getLogger("metier.runtime")
_NO_SURROUNDINGS: Final = Surroundings()


@final
class Needs(Struct, frozen=True, kw_only=True):
    """What modules need of the runtime they belong to."""

    run: Callable[[Call], Awaitable[Outcome]]
    house: Callable[[], House]
    settings: Callable[[], Settings]
    catalog: Callable[[], Catalog]
    refresh: Callable[[], Awaitable[None]]
    reload: Callable[[], Awaitable[None]]
    take_up: Callable[[str], Awaitable[Outcome]]
    inner: Inner
    running: Running
    sandboxes: Sandboxes
    database: Database
    state: "State"
    seen: "Callable[[], Seen]"
    """What a call that begins now is judged by."""
    tasks: TaskGroup
    hooks: Hooks


@final
class KernelHere:
    """Belongs to one loop."""

    def __init__(self, needs: Needs) -> None:
        self._needs = needs
        self._making = anyio.Lock()
        self._kernel: Kernel | None = None
        self._merged: tuple[Mapping[str, Tool], Mapping[str, Tool], Mapping[str, Tool]] = ({}, {}, {})
        self._doors: Sequence[MakeDoor] = ()
        self._say: Callable[[str], None] = _log.info
        self.hosting: Hosting | None = None
        self._became = anyio.Event()

    async def hosted(self) -> "Hosting":
        """Wait until this process is the host. Nothing of what it does as the host has begun then."""
        while self.hosting is None:
            await self._became.wait()
        return self.hosting

    async def ready(self, tool: str, known: Mapping[str, Tool]) -> None:
        """Make the modules where `tool` may be an operation, or something is kept for them.

        Raises:
            MetierError: when what they keep cannot be used.
        """
        if self._kernel is None:
            may_be_one = tool not in known and tool.partition(".")[0] in _OURS
            if may_be_one or os.path.exists(os.path.join(self._needs.settings().home, _FILE)):  # noqa: ASYNC240
                await self._look(await self._made())
        elif self.hosting is None and tool not in known:
            ours = self._kernel.tools.get(tool)
            if ours is None or ours.skill:
                await self._look(self._kernel)

    async def _look(self, kernel: "Kernel") -> None:
        """The host may know more operations meanwhile, or one as another skill's, which was enabled after we read which are."""
        await kernel.open()
        if kernel.is_behind(self._needs.settings()):
            await self._needs.reload()

    def tools(self, known: Mapping[str, Tool]) -> Mapping[str, Tool]:
        """`known`, and the operations of modules where there are any."""
        if self._kernel is None:
            return known
        before, ours, merged = self._merged
        if before is not known or ours is not self._kernel.tools:
            ours = self._kernel.tools
            merged = {**known, **ours}
            self._merged = (known, ours, merged)
        return merged

    def find(self, module: str, operation: str) -> OperationFunction | None:
        """The function behind an operation of a module."""
        return self._kernel.find(module, operation) if self._kernel is not None else None

    @property
    def triggers(self) -> "Triggers | None":
        """What may be set off by a call of a tool."""
        parts = self._kernel.parts if self._kernel is not None else None
        return parts.triggers if parts is not None else None

    async def drain(self, seconds: float) -> None:
        """Wait a while for what calls of this process set off."""
        if self.triggers is not None:
            await self.triggers.drain(seconds)

    async def give_back(self) -> None:
        """Be no host any more. What comes up from now on is the next one's, and meets nobody who is closing."""
        if self.hosting is not None:
            self.hosting.end("its process ended")
            await self.hosting.ended.wait()

    def changed(self, before: Catalog, now: Catalog) -> None:
        """Tell who listens in the host which skills came and went, have those live that shall now, and seal what became secret in a
        new version."""
        parts = self._kernel.parts if self._kernel is not None else None
        if parts is not None:
            self._needs.tasks.start_soon(parts.settings.seal_anew)
        if self.hosting is None or self._kernel is None or parts is None:
            return
        self._needs.tasks.start_soon(parts.residents.changed)
        for name in sorted(now.by_name.keys() - before.by_name.keys()):
            self._kernel.emit("skill_installed", {"skill": name})
        for name in sorted(before.by_name.keys() - now.by_name.keys()):
            self._kernel.emit("skill_uninstalled", {"skill": name})

    def happened(self, call: Call, outcome: Outcome) -> None:
        """Tell who listens that a call failed."""
        if self.hosting is not None and self._kernel is not None and isinstance(outcome, Failed):
            told: Json = {"call_id": call.id, "code": outcome.code, "principal": call.principal.id}
            self._kernel.emit("error_occurred", told)

    async def host(self, doors: "Sequence[MakeDoor]", say: Callable[[str], None]) -> None:
        """Take the host role and do what goes with it, unless another process has it. Then it may be tried again.

        Raises:
            MetierError: when the state cannot be used; the role is free again then.
        """
        from metier.kernel.host_role import HostRole

        self._doors, self._say = doors, say  # also of modules that are made before the role is free
        role = await to_thread.run_sync(HostRole.try_take, self._needs.settings().home)
        if isinstance(role, HostRole):
            # Who is told to end meanwhile ends as a host does: half a host would give nothing back.
            with anyio.CancelScope(shield=True):
                await self._be_host(role)

    async def _be_host(self, role: "HostRole") -> None:
        from metier.runtime.hosting import Hosting

        try:
            kernel = await self._made()
            parts = await kernel.open()
            await parts.residents.expect()
            hosting = Hosting(
                role,
                do=kernel.do,
                database=self._needs.database,
                events=parts.events,
                tasks=parts.background(),
                first=parts.TELLS,
                last=parts.triggers.finish,
            )
            await kernel.host()
        except BaseException:  # whoever looks at what went wrong would keep the role with it
            role.release()
            raise
        self.hosting = hosting
        self._became.set()
        await self._needs.tasks.start(self._hosted, kernel, hosting)

    async def _hosted(self, kernel: "Kernel", hosting: "Hosting", *, task_status: TaskStatus[None]) -> None:
        """Until the role was given back. Who is the host no longer must not answer as if he were."""
        from metier.runtime.message_hooks import message_listener

        try:
            with hosting.events.listening(message_listener(self._needs.hooks)):
                await hosting.run(task_status=task_status)
        finally:
            self.hosting = None
            self._became = anyio.Event()
            kernel.not_host()

    async def aclose(self) -> None:
        """Let go of what is open."""
        if self._kernel is not None:
            await self._kernel.aclose()

    def _desk(self) -> "Desk":
        """What the operations for operators work with."""
        from metier.kernel.operators import Desk
        from metier.runtime.operators import asked_server, explained_here, hooks_shown

        needs = self._needs
        return Desk(
            database=needs.database,
            owner=owner(),
            settings=needs.settings,
            catalog=needs.catalog,
            refresh=needs.refresh,
            ask=asked_server(needs.house, needs.catalog, needs.settings),
            hooks=hooks_shown,
            end_all=needs.running.stop_all,
            explain=explained_here(needs.state, needs.seen, lambda: self.tools({})),
            hosts=lambda: self.hosting is not None,
        )

    async def _made(self) -> "Kernel":
        async with self._making:
            if self._kernel is not None:
                return self._kernel
            from metier.kernel.events import Events
            from metier.runtime.kernel import Kernel
            from metier.runtime.kernel_parts import Given
            from metier.runtime.living import Living

            needs = self._needs
            living = Living(
                needs.house,
                needs.inner,
                needs.running,
                needs.sandboxes,
                needs.settings,
                needs.refresh,
                needs.reload,
                needs.database,
            )
            given = Given(
                events=Events(),
                calls=Calling(needs.run, needs.inner),
                live=living,
                settings=needs.settings,
                catalog=needs.catalog,
                database=needs.database,
                owner=owner(),
                take_up=needs.take_up,
                say=self._say,
                doors=self._doors,
                cause_of=needs.inner.cause_of,
                desk=self._desk(),
            )
            kernel = Kernel(needs.settings().home, given)
            try:
                parts = await kernel.open()
                await parts.triggers.load()
                await parts.settings.seal_anew()
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await kernel.aclose()
                raise
            needs.tasks.start_soon(parts.triggers.watch)
            self._kernel = kernel
            return kernel


@final
class Calling:
    """Makes the calls of modules."""

    def __init__(self, run: Callable[[Call], Awaitable[Outcome]], inner: Inner) -> None:
        self._run = run
        self._inner = inner

    async def call(
        self,
        principal: Principal,
        tool: str,
        arguments: dict[str, Json],
        *,
        parent: str | None = None,
        surroundings: Surroundings = _NO_SURROUNDINGS,
        unattended: bool = True,
        cause: Cause | None = None,
        id: str = "",
    ) -> Outcome:
        """As `metier.kernel.calling.Calls` has it."""
        depth = self._inner.depth_in(parent) if parent is not None else 0
        cause = cause or self._inner.cause_of(parent or "")
        call = made_for(
            principal, tool, arguments, parent, depth, surroundings, unattended=unattended, cause=cause, id=id
        )
        return await self._run(call)
