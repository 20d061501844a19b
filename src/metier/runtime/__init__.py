"""Opens everything and wires it: `state` on the disk, the `sandboxes` (only there concrete backends are named), and the
calls of an agent (here) and of the owner (`own`).

`Runtime` is the public API for people who build agents; `metier.blocking` has the same for code without a loop.
"""

import logging
import os
import secrets
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final, final

import anyio
from anyio import CapacityLimiter, to_thread
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from metier.catalog.catalog import Catalog
from metier.catalog.here import owner
from metier.catalog.listed import Listed
from metier.catalog.watch import changes
from metier.config.load import load
from metier.config.settings import Settings
from metier.disclosure import toolcalls
from metier.disclosure.prompt import Body, Wanted, prompt
from metier.disclosure.schemas import Shape, shaped
from metier.errors import MetierError
from metier.hooks import Bootstrap, Hooks
from metier.host.running import Running
from metier.kernel.lives import with_lives
from metier.model import strictjson
from metier.model.call import Call, Principal
from metier.model.digest import Json
from metier.model.hook import BootstrapFile
from metier.model.outcome import Failed, Outcome, Pending, Refused
from metier.model.skill import Answer, Skill, Tool
from metier.pipeline import House, run
from metier.record.approvals import stored_call
from metier.record.deciding import expire_due
from metier.record.recorder import Recorder
from metier.record.turn import Busy
from metier.record.writer import Writer
from metier.runtime.asked import MOST_CALLS, name_of, not_asked
from metier.runtime.guard import guard
from metier.runtime.housing import Housing
from metier.runtime.inner import Inner
from metier.runtime.kernel_here import KernelHere, Needs
from metier.runtime.modules import Modules
from metier.runtime.readable import readable
from metier.runtime.sandboxes import Sandboxes
from metier.runtime.state import OWN_TOOLS, Seen, State
from metier.runtime.waiting import decided, not_taken_up
from metier.telemetry import Telemetry

if TYPE_CHECKING:
    from metier.runtime.hosting import Hosting
    from metier.runtime.kernel_here import MakeDoor

_DRAIN_SECONDS: Final = 30.0
"""How long a program that ends waits for what its calls set off."""
_log: Final = logging.getLogger("metier.runtime")


@final
class Runtime:
    """Skills behind one gate, for a program that drives an agent. Make one with `Runtime.open`."""

    def __init__(self, state: State, seen: Seen, principal: Principal, tasks: TaskGroup) -> None:
        self._state = state
        self._seen = seen
        self._principal = principal
        self._tasks = tasks
        self._closed = False
        self._recorder = Recorder(state.log, Writer(state.database), tools=self._known)
        self._sandboxes = Sandboxes(seen.settings, tasks)
        self._running = Running()
        self._inner = Inner(self._run, tasks)
        self._modules = Modules(self._inner, self._sandboxes, self._running, state.trust.all)
        self._reading = anyio.Lock()
        self._limiter = CapacityLimiter(2)
        """Threads for looking at the state, which nobody else can use up."""
        self._telemetry = Telemetry.of(seen.settings)
        self._hooks = Hooks(self._house, state.bundles, _owner(), tasks)
        self._kernel = KernelHere(
            Needs(
                run=self._run,
                house=self._house,
                settings=lambda: self._seen.settings,
                catalog=lambda: self._seen.catalog,
                refresh=self._refresh,
                reload=self.reload,
                take_up=lambda approval: self._resume(approval, of=None),
                inner=self._inner,
                running=self._running,
                sandboxes=self._sandboxes,
                database=state.database,
                tasks=tasks,
                hooks=self._hooks,
            )
        )
        self._housing = Housing(
            state=state,
            recorder=self._recorder,
            sandboxes=self._sandboxes,
            inner=self._inner,
            running=self._running,
            modules=self._modules,
            kernel=self._kernel,
            hooks=self._hooks,
        )

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        *,
        roots: Sequence[str] = (),
        config: str | None = None,
        home: str | None = None,
        project: str | None = None,
        watch: bool = True,
        host: bool = False,
    ) -> "AsyncGenerator[Runtime]":
        """Open the catalog and the record.

        Args:
            roots: folders to look for skills in, before the usual ones.
            config: the operator's configuration file instead of the usual one.
            home: state folder instead of `~/.metier`.
            project: folder whose own skills count; the working directory by default.
            watch: see changed, new and removed skills while open.
            host: be the one process of this state that runs skills that live, channels, triggers and schedules, unless another
                is that already (`is_host` tells).

        Raises:
            MetierError: when configuration or state cannot be used.
        """
        project = project or os.getcwd()  # the program may go elsewhere while it is open

        def settings() -> Settings:
            return load(config=config, home=home, project=project, roots=tuple(roots))

        async with _opened(settings, "agent:library", watch=watch) as runtime:
            if host:
                await runtime._kernel.host((), _log.info)
            yield runtime

    @property
    def is_host(self) -> bool:
        """Whether this is the process that runs skills that live, channels, triggers and schedules."""
        return self._kernel.hosting is not None

    @property
    def skills(self) -> list[Skill]:
        """The skills that can be used here and now."""
        return self._seen.catalog.usable()

    @property
    def catalog(self) -> Catalog:
        """Everything that was found, with the reasons for what cannot be used."""
        return self._seen.catalog

    async def call(
        self, tool: str, arguments: Json = None, *, wait: float = 0.0, unattended: bool = False
    ) -> Outcome:
        """Call a tool through the whole gate. Refusals and failures are values, not exceptions.

        Args:
            wait: seconds to wait for somebody's word, where it takes one. What is still `Pending` then stays so, and
                holds nothing; `resume` takes it up once it is approved.
            unattended: nobody is there to be asked.
        """
        named = self._seen.internal(name_of(tool))
        made = self._call(named, {} if arguments is None else arguments, unattended=unattended)
        outcome = await self._run(made)
        if not isinstance(outcome, Pending) or wait <= 0:
            return outcome
        return await self.wait_for(outcome, wait)

    async def wait_for(self, pending: Pending, seconds: float) -> Outcome:
        """How a pending call ends, if it is decided within `seconds`; else `pending` again."""
        return await decided(pending, seconds, database=self._state.database, resume=self.resume)

    async def resume(self, approval_id: str) -> Outcome:
        """Run a call of this runtime's that was approved, once: the stored one, through every stage, with today's rights."""
        return await self._resume(approval_id, of=self._principal.id)

    async def _resume(self, approval_id: str, *, of: str | None) -> Outcome:
        """`of`: whose call it must be; None where it was approved here, whoever asked."""
        approval_id = name_of(approval_id)
        stored = await to_thread.run_sync(stored_call, self._state.database, approval_id)
        if stored is None or of not in (None, stored.principal.id):
            return await to_thread.run_sync(not_taken_up, self._state.database, approval_id, of)
        return await self._run(stored)

    async def bootstrap(self, files: Sequence[BootstrapFile] = (), *, session: str = "main") -> Bootstrap:
        """An agent starts: the hooks of trusted skills are asked what they would add to its files. `prompt` shows it.

        Args:
            files: what the agent is started with. No hook changes any of it.
            session: whose start it is, as hooks are told it.

        Raises:
            MetierError: when configuration or state cannot be used.
        """
        if self._closed:
            return Bootstrap(given=tuple(files), problems=("this runtime is closed, so no hook was asked",))
        await self._refresh()
        return await self._hooks.bootstrap(files, session)

    def prompt(
        self,
        message: str | None = None,
        *,
        system: str = "",
        full: bool = False,
        bootstrap: Bootstrap | None = None,
    ) -> str:
        """The text that tells a model which skills there are.

        Args:
            message: what the user said; only a large catalog is searched by it.
            system: your own system prompt, put first.
            full: the instructions themselves instead of a list to read from. This reads the disk: in an event loop,
                call it in a thread.
            bootstrap: what `bootstrap()` gave when the agent started; what skills added stands after `system`.
        """
        if bootstrap is not None and (added := bootstrap.text(self._seen.catalog.by_name)):
            system = f"{system}\n\n{added}" if system else added
        wanted = Wanted(message=message, full=full, system=system)
        return prompt(self._seen.catalog, self._seen.settings, wanted, body=self._body).text

    def _body(self, listed: Listed) -> str | None:
        return readable(self._state, self._seen, self._principal, listed)

    @property
    def _offered(self) -> list[Tool]:
        """What a model is shown: our own tools, and those of skills that can be used here and now."""
        skills = (skill for skill in self._seen.catalog.usable() if skill.model_may_invoke)
        own = (tool for tool in OWN_TOOLS.values() if self._seen.scripts or not tool.as_subject)
        return [*own, *(tool for skill in skills for tool in skill.tools)]

    def _known(self, name: str) -> bool:
        return name in self._kernel.tools(self._seen.tools)

    def tools(self, shape: Shape) -> list[dict[str, Json]]:
        """The tools a model can call, in a provider's shape."""
        return shaped(self._offered, shape)

    async def handle(self, tool_calls: object) -> list[dict[str, Json]]:
        """Answer a provider's own tool calls with its own result messages, in the same order.

        Args:
            tool_calls: a list of tool calls, or the message or response that holds them. At most 128 of one message run.
        """
        # In a thread: there may be megabytes of JSON in it.
        asked = await to_thread.run_sync(lambda: toolcalls.parse(tool_calls, loads=strictjson.loads))
        seen = self._seen
        outcomes: dict[int, Outcome] = {}
        answers: dict[int, Answer] = {}

        async def one(index: int, each: toolcalls.Asked) -> None:
            call = self._call(seen.internal(each.name), each.arguments)
            tool = seen.tools.get(call.tool)
            answers[index] = tool.answer if tool is not None else "value"
            outcomes[index] = await self._run(call, not_asked(call, index, each.problem))

        async with anyio.create_task_group() as tasks:
            for index, each in enumerate(asked[:MOST_CALLS]):
                tasks.start_soon(one, index, each)
                await checkpoint()  # others get their turn between any two
        for index, each in enumerate(asked[MOST_CALLS:], start=MOST_CALLS):
            await one(index, each)
        every = range(len(asked))
        return toolcalls.results(
            asked, [outcomes[index] for index in every], [answers[index] for index in every]
        )

    async def reload(self) -> None:
        """Read the configuration and look at every root again. Calls under way keep the catalog they started with.

        Raises:
            MetierError: when configuration or state cannot be used; what was loaded before stays.
        """
        before = self._seen.catalog
        seen = self._seen = await to_thread.run_sync(self._state.look, limiter=self._limiter)
        self._kernel.changed(before, seen.catalog)
        off = {name for name, listed in seen.catalog.by_name.items() if listed.shown == "disabled"}
        for name in off | seen.trusts.disabled.keys() | seen.trusts.revoked:
            self._running.stop(name)
        await self._read_code()

    async def _read_code(self) -> None:
        """Skills that exist only as code are read by running them, those that may be."""
        if not any(
            each.probe and each.shown == "unavailable" for each in self._seen.catalog.by_name.values()
        ):
            return
        from metier.runtime.probing import probe, waiting  # most installations have none

        async with self._reading:  # whoever comes second finds them read
            unread = waiting(tuple(self._seen.catalog.by_name.values()))
            if unread and await probe(unread, self._house(), self._state.bundles):
                self._seen = await to_thread.run_sync(self._state.look, limiter=self._limiter)

    async def _run(self, call: Call, refused: Refused | None = None) -> Outcome:
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

        if self._closed:
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
        try:
            await self._refresh()
            await self._kernel.ready(call.tool, self._seen.tools)
        except MetierError as error:
            refused = Refused(
                call_id=call.id, code="setup_unusable", reasons=(error.message,), remedy=error.remedy
            )
        if refused is not None:
            return await self._recorder.refused(call, refused)
        with self._inner.under(call):
            outcome = await self._telemetry.observed(run)(call, self._house())
        self._kernel.happened(call, outcome)
        return outcome

    async def _refresh(self) -> None:
        """What other processes and the operator changed counts from the next call on."""
        seen = self._seen
        try:
            if self._state.is_as_seen(seen):
                return
        except Busy:
            pass
        current = await to_thread.run_sync(self._state.up_to_date, seen, limiter=self._limiter)
        if current is None:
            await self.reload()
        elif self._seen is seen:
            self._seen = current

    async def _follow(self) -> None:
        async def stale() -> bool:
            try:
                return (
                    await to_thread.run_sync(self._state.up_to_date, self._seen, limiter=self._limiter)
                    is None
                )
            except MetierError:  # whoever calls something is told; looking at skills must not end the program
                return False

        async for _ in changes(lambda: self._seen.catalog.folders(), stale):
            try:
                await self.reload()
            except (MetierError, OSError) as error:
                _log.warning("the skills could not be loaded again, so the last ones stay: %s", error)

    def _call(self, tool: str, arguments: Json, *, unattended: bool = False) -> Call:
        return Call(
            id=f"call_{secrets.token_hex(12)}",
            principal=self._principal,
            tool=tool,
            arguments=arguments,
            unattended=unattended,
        )

    def _house(self) -> House:
        return self._housing.house(self._seen)


@asynccontextmanager
async def _opened(
    settings: Callable[[], Settings], principal: str, *, watch: bool
) -> AsyncGenerator[Runtime]:
    state = await to_thread.run_sync(State, lambda: with_lives(settings()))
    runtime: Runtime | None = None
    try:
        seen = await to_thread.run_sync(state.look)
        await to_thread.run_sync(_sweep, state)
        agent = _agent(principal)
        async with anyio.create_task_group() as tasks:
            runtime = Runtime(state, seen, agent, tasks)
            tasks.start_soon(guard, state, runtime._running, runtime._refresh)  # pyright: ignore[reportPrivateUsage]
            await runtime._read_code()  # pyright: ignore[reportPrivateUsage]
            if watch:
                tasks.start_soon(runtime._follow)  # pyright: ignore[reportPrivateUsage]
            try:
                yield runtime
                await runtime._kernel.drain(_DRAIN_SECONDS)  # pyright: ignore[reportPrivateUsage]
            finally:
                runtime._closed = True  # pyright: ignore[reportPrivateUsage]
            await runtime._hooks.close()  # pyright: ignore[reportPrivateUsage]
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from None  # the caller's own error, as he raised it
        raise
    finally:
        if runtime is not None:
            with anyio.CancelScope(shield=True):
                await runtime._sandboxes.aclose()  # pyright: ignore[reportPrivateUsage]
                runtime._modules.close()  # pyright: ignore[reportPrivateUsage]
                await runtime._kernel.aclose()  # pyright: ignore[reportPrivateUsage]
                await runtime._running.settle(state.disable)  # pyright: ignore[reportPrivateUsage]
        state.database.close()


def _owner() -> Principal:
    return Principal(id=owner(), kind="human", roles=frozenset({"owner"}))


def _agent(id: str) -> Principal:
    return Principal(id=id, kind="agent", on_behalf_of=owner(), roles=frozenset({"agent"}))


def _sweep(state: State) -> None:
    """Write down which requests are over. They are so all the same where that cannot be written."""
    try:
        expire_due(state.database)
    except MetierError as error:
        _log.warning("what nobody decided in time could not be written down: %s", error)


@asynccontextmanager
async def hosting_here(
    settings: Callable[[], Settings], doors: "Sequence[MakeDoor]", say: Callable[[str], None]
) -> "AsyncGenerator[Hosting | None]":
    """What `metier host` does; None where another process is the host. `settings` reads them: they change while a host runs."""
    async with _opened(settings, "agent:host", watch=True) as runtime:
        await runtime._kernel.host(doors, say)  # pyright: ignore[reportPrivateUsage]
        yield runtime._kernel.hosting  # pyright: ignore[reportPrivateUsage]


def at_terminal(settings: Settings) -> AbstractAsyncContextManager[Runtime]:
    """The runtime behind `metier call`: it acts as an agent would, so what it shows is what an agent would meet."""
    return _opened(lambda: settings, "agent:cli", watch=False)


@contextmanager
def bodies_here(settings: Settings) -> Generator[Body]:
    """Instructions of skills from their snapshots, for a door without a loop: those that `at_terminal` could read."""
    state = State(lambda: settings)
    try:
        seen, agent = state.look(), _agent("agent:cli")
        yield lambda listed: readable(state, seen, agent, listed)
    finally:
        state.database.close()
