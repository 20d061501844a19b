"""Everything that is open at once, and how one call goes through it, whoever asks: state, sandboxes, kernel, hooks.

A door or a `Runtime` adds who asks. There is one engine for each process and state.
"""

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar, final

import anyio
from anyio import CapacityLimiter, to_thread
from anyio.abc import TaskGroup
from msgspec.structs import replace

from metier.catalog.here import owner
from metier.catalog.watch import changes
from metier.config.settings import Settings
from metier.errors import MetierError
from metier.gate.reachable import TAKES_AWAY
from metier.hooks import Hooks
from metier.host.running import Running
from metier.kernel.lives import with_lives
from metier.model.call import Call, Principal
from metier.model.outcome import Failed, Outcome, Refused
from metier.pipeline import House, run
from metier.record.approvals import stored_call
from metier.record.deciding import expire_due
from metier.record.recorder import Recorder
from metier.record.turn import Busy
from metier.record.writer import Writer
from metier.runtime.asked import name_of
from metier.runtime.guard import guard
from metier.runtime.housing import Housing
from metier.runtime.inner import Inner
from metier.runtime.kernel_here import KernelHere, Needs
from metier.runtime.mcp_servers import McpServers
from metier.runtime.modules import Modules
from metier.runtime.one_look import OneLook
from metier.runtime.sandboxes import Sandboxes
from metier.runtime.state import Seen, State
from metier.runtime.unusable import Unusable, without_places
from metier.runtime.waiting import Words, not_taken_up
from metier.telemetry import Telemetry

_Told = TypeVar("_Told", bound=Outcome)
_OF_THIS_MACHINE: Final = frozenset({"setup_unusable", "record_unavailable"})
"""Refusals whose reasons name files."""
_DRAIN_SECONDS: Final = 30.0
"""How long a program that ends waits for what its calls set off."""
_log: Final = logging.getLogger("metier.runtime")


@final
class Engine:
    """Make one with `opened`."""

    def __init__(self, state: State, seen: Seen, tasks: TaskGroup) -> None:
        self.state: Final = state
        self.seen = seen
        """The newest look at what is on the disk. A call keeps the one it began with."""
        self.closed = False
        self._tasks = tasks
        self.recorder = Recorder(state.log, Writer(state.database), tools=self._known)
        self.running = Running()
        self._servers = McpServers(state.bundles, seen.settings.bundles, self.running)
        self.sandboxes = Sandboxes(seen.settings, tasks, self._servers)
        self.running.on_stop.append(self.sandboxes.stop)
        self.words = Words()
        self.inner = Inner(self.run, tasks)
        self.modules = Modules(self.inner, self.sandboxes, self.running, state.trust.all)
        self._reading = anyio.Lock()
        self._looking = anyio.Lock()
        self._limiter = CapacityLimiter(2)
        """Threads for looking at the state, which nobody else can use up."""
        self._one_look = OneLook(self._as_of_now)
        self._setup = Unusable(
            _log,
            "configuration or state cannot be used, so calls are refused, and the skills that were loaded stay",
            "configuration and state can be used again",
        )
        self._modules = Unusable(
            _log,
            "what modules keep cannot be used, so calls are refused",
            "what modules keep can be used again",
        )
        self.telemetry = Telemetry.of(seen.settings)
        self.hooks = Hooks(self.house, state.bundles, owner_here(), tasks)
        self.kernel = KernelHere(
            Needs(
                run=self.run,
                house=self.house,
                settings=lambda: self.seen.settings,
                catalog=lambda: self.seen.catalog,
                refresh=self.refresh,
                reload=self.reload,
                take_up=lambda approval: self.resume(approval, of=None),
                inner=self.inner,
                running=self.running,
                sandboxes=self.sandboxes,
                database=state.database,
                state=state,
                seen=lambda: self.seen,
                tasks=tasks,
                hooks=self.hooks,
            )
        )
        self.housing = Housing(
            state=state,
            recorder=self.recorder,
            sandboxes=self.sandboxes,
            inner=self.inner,
            running=self.running,
            modules=self.modules,
            kernel=self.kernel,
            hooks=self.hooks,
        )

    async def run(self, call: Call, refused: Refused | None = None) -> Outcome:
        """One call in a task of its own: a caller who goes away cancels the call, but never its record.

        Args:
            refused: why it is not even asked about; then that is all that happens, on the record.
        """
        ended = anyio.Event()
        scope = anyio.CancelScope()
        outcome: Outcome = Failed(
            call_id=call.id, code="interrupted", message="the runtime was closed meanwhile"
        )

        async def work() -> None:
            nonlocal outcome
            try:
                with scope:
                    outcome = await self._judge(call, refused)
            except Exception:  # noqa: BLE001  the library's own door: one broken call must not end the program
                _log.exception("call %s broke Metier", call.id)
                outcome = Failed(
                    call_id=call.id, code="internal", message="a fault of Metier; its log has the details"
                )
            finally:
                ended.set()

        if self.closed:
            return Refused(
                call_id=call.id,
                code="setup_unusable",
                reasons=("this runtime is closed",),
                remedy="Open another",
            )
        self._tasks.start_soon(work)
        try:
            await ended.wait()
        finally:
            scope.cancel()
        return outcome

    async def _judge(self, call: Call, refused: Refused | None) -> Outcome:
        async def ready() -> None:
            await self.kernel.ready(call.tool, self.seen.tools)

        for unusable, made_ready in ((self._setup, self.refresh), (self._modules, ready)):
            try:
                await made_ready()
                unusable.over()
            except MetierError as error:
                unusable.because(error)
                if unusable is self._setup and call.tool in TAKES_AWAY:
                    continue  # it can only end something, and is judged by what was loaded before
                refused = Refused(
                    call_id=call.id, code="setup_unusable", reasons=(error.message,), remedy=error.remedy
                )
                refused = self._told(refused)
                break
        if refused is not None:
            return self._told(await self.recorder.refused(call, refused))
        with self.inner.under(call):
            outcome = self._told(await self.telemetry.observed(run)(call, self.house()))
        self.kernel.happened(call, outcome)
        return outcome

    async def resume(self, approval_id: str, *, of: str | None) -> Outcome:
        """`of`: whose call it must be; None where it was approved here, whoever asked."""
        approval_id = name_of(approval_id)
        stored = await to_thread.run_sync(stored_call, self.state.database, approval_id)
        if stored is None or of not in (None, stored.principal.id):
            return await to_thread.run_sync(not_taken_up, self.state.database, approval_id, of)
        return await self.run(replace(stored, by_decider=of is None))

    async def reload(self) -> None:
        """Read the configuration and look at every root again. Calls under way keep the catalog they started with.

        Raises:
            MetierError: when configuration or state cannot be used; what was loaded before stays.
        """
        async with self._looking:
            await self._look()
        await self.read_code()

    async def _look(self) -> None:
        """One after the other: a look that is older must not take the place of a newer one, and what changed is told once."""
        before = self.seen.catalog
        seen = self.seen = await to_thread.run_sync(self.state.look, limiter=self._limiter)
        self.kernel.changed(before, seen.catalog)
        off = {name for name, listed in seen.catalog.by_name.items() if listed.shown == "disabled"}
        for name in off | seen.trusts.disabled.keys() | seen.trusts.revoked:
            self.running.stop(name)

    async def refresh(self) -> None:
        """What other processes and the operator changed counts from the next call on."""
        if self._servers.changed:
            self._servers.changed = False
            await self.reload()
        seen = self.seen
        try:
            if self.state.is_as_seen(seen):
                return
        except Busy:
            pass
        if await self._one_look():
            return
        async with self._looking:
            # Whoever came first may have looked already, and that may be old by now.
            if self.seen is seen or not await self._is_current():
                await self._look()
        await self.read_code()

    async def _as_of_now(self) -> bool:
        """Whether what was loaded is still so; what only came to be known as unchanged is noted."""
        seen = self.seen
        current = await to_thread.run_sync(self.state.up_to_date, seen, limiter=self._limiter)
        if current is not None and self.seen is seen:
            self.seen = current
        return current is not None

    async def _is_current(self) -> bool:
        return await to_thread.run_sync(self.state.up_to_date, self.seen, limiter=self._limiter) is not None

    async def read_code(self) -> None:
        """Skills that exist only as code are read by running them, those that may be."""
        if not any(each.probe and each.shown == "unavailable" for each in self.seen.catalog.by_name.values()):
            return
        from metier.runtime.probing import probe, waiting  # most installations have none

        async with self._reading:  # whoever comes second finds them read
            unread = waiting(tuple(self.seen.catalog.by_name.values()))
            if unread and await probe(unread, self.house(), self.state.bundles):
                async with self._looking:
                    await self._look()

    async def follow(self) -> None:
        async def stale() -> bool:
            try:
                current = await self._is_current()
            except MetierError:  # whoever calls something is told; looking at skills must not end the program
                return False
            if current:
                self._setup.over()
            return not current

        async for _ in changes(lambda: self.seen.catalog.folders(), stale):
            try:
                await self.reload()
            except (MetierError, OSError) as error:
                self._setup.because(error)
            else:
                self._setup.over()

    def _told(self, outcome: _Told) -> _Told:
        """For whoever called, who may be anywhere."""
        if not isinstance(outcome, Refused) or outcome.code not in _OF_THIS_MACHINE:
            return outcome
        settings = self.seen.settings
        return replace(
            outcome,
            reasons=tuple(without_places(each, settings) for each in outcome.reasons),
            remedy=without_places(outcome.remedy, settings),
        )

    def house(self) -> House:
        return self.housing.house(self.seen)

    def _known(self, name: str) -> bool:
        return name in self.kernel.tools(self.seen.tools)


@asynccontextmanager
async def opened(settings: Callable[[], Settings], *, watch: bool) -> AsyncGenerator[Engine]:
    state = await to_thread.run_sync(State, lambda: with_lives(settings()))
    engine: Engine | None = None
    try:
        seen = await to_thread.run_sync(state.look)
        await to_thread.run_sync(sweep, state)
        async with anyio.create_task_group() as tasks:
            engine = Engine(state, seen, tasks)
            tasks.start_soon(guard, state, engine.running, engine.refresh)
            await engine.read_code()
            if watch:
                tasks.start_soon(engine.follow)
            try:
                yield engine
                await engine.kernel.drain(_DRAIN_SECONDS)
                await engine.kernel.give_back()
            finally:
                engine.closed = True
            await engine.hooks.close()
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from None  # the caller's own error, as he raised it
        raise
    finally:
        if engine is not None:
            with anyio.CancelScope(shield=True):
                await engine.sandboxes.aclose()
                engine.modules.close()
                await engine.kernel.aclose()
                await engine.running.settle(state.disable)
        state.database.close()


def owner_here() -> Principal:
    """Who owns this state, as himself."""
    return Principal(id=owner(), kind="human", roles=frozenset({"owner"}))


def sweep(state: State) -> None:
    """Write down which requests are over. They are so all the same where that cannot be written."""
    try:
        expire_due(state.database)
    except MetierError as error:
        _log.warning("what nobody decided in time could not be written down: %s", error)
