"""Opens everything and wires it. The only module that names concrete backends.

`Runtime` is the public API for people who build agents; `SyncRuntime` is the same for code without a loop.
"""

import logging
import os
import secrets
import time
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Final, final

import anyio
from anyio import from_thread, to_thread

from metier.catalog.bundle import BundleStore
from metier.catalog.catalog import Catalog, Listed
from metier.catalog.catalog import load as load_catalog
from metier.catalog.here import environment_here
from metier.catalog.hold import bind, declared_by, hold
from metier.catalog.journal import tell
from metier.catalog.watch import changes
from metier.config.load import load
from metier.config.settings import Settings
from metier.dialects import frontmatter
from metier.disclosure import toolcalls
from metier.disclosure.prompt import Body, Wanted, prompt
from metier.disclosure.read_skill import TOOL as READ_SKILL
from metier.disclosure.read_skill import read_skill
from metier.disclosure.schemas import Names, Shape, shaped
from metier.errors import BundleError, MetierError
from metier.gate.situation import Situation, look
from metier.model import strictjson
from metier.model.call import ApprovedCall, Bytes, Call, Principal, ValidCall
from metier.model.digest import Json
from metier.model.outcome import Completed, Failed, Outcome, Refused
from metier.model.ports import OperationFunction
from metier.model.skill import Skill, Tool
from metier.pipeline import House, run
from metier.record.audit import AuditLog
from metier.record.database import Database
from metier.record.recorder import Recorder
from metier.record.trust import Trusts, TrustStore

_log: Final = logging.getLogger("metier.runtime")


@final
class _State:
    """What is kept on disk, opened once."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.database = Database.open(settings.database)
        self.trust = TrustStore(self.database)
        self.bundles = BundleStore(settings.bundles)
        self.log = AuditLog(self.database, payloads=settings.audit.payloads)

    def body(self, listed: Listed) -> str | None:
        """The instructions of a skill from its snapshot; using it for the first time binds it to its bytes."""
        held = hold(listed, trust=self.trust, bundles=self.bundles, now_ns=time.time_ns())
        if held.bytes is None or held.broken or held.refusal:
            return None
        snapshot = self.bundles.open(held.bytes.digest)
        if snapshot is None or (held.bytes.first_use and not self.bind(listed, held.bytes, by=_owner())):
            return None
        data = snapshot.read(listed.manifest)
        return None if data is None else frontmatter.body(data)

    def bind(self, listed: Listed, found: Bytes, *, by: str) -> bool:
        """Bind a skill to the bytes of its first use."""
        snapshot = self.bundles.open(found.digest)
        declared = declared_by(snapshot, listed.manifest, folder=listed.folder) if snapshot else None
        if declared is None:
            return False
        return bind(listed, declared, found, trust=self.trust, how="first_use", by=by)


@final
class _Operations:
    """The operations of Metier's own modules, for the catalog one call started with."""

    def __init__(self, state: _State, catalog: Catalog) -> None:
        self._state = state
        self._catalog = catalog

    def find(self, module: str, operation: str) -> OperationFunction | None:
        return {("skills", "read"): self._read_skill}.get((module, operation))

    def _read_skill(self, approved: ApprovedCall) -> Completed | Failed:
        valid, found = approved.authorized.valid, approved.authorized.bytes
        listed = self._catalog.get(valid.skill.name) if valid.skill else None
        if valid.skill is None or listed is None or found is None:
            return Failed(call_id=valid.call.id, code="internal", message="the call names no skill")
        snapshot = self._state.bundles.open(found.digest)
        if snapshot is None:
            raise BundleError("the snapshot this call was judged with is gone", remedy="Call again")
        if found.first_use and not self._state.bind(listed, found, by=valid.call.principal.id):
            return Failed(
                call_id=valid.call.id,
                code="interrupted",
                message="the skill was bound to other bytes meanwhile",
            )
        path = valid.arguments.get("path")
        return read_skill(valid.call.id, valid.skill, snapshot, path if isinstance(path, str) else None)


@final
class Runtime:
    """Skills behind one gate, for a program that drives an agent. Make one with `Runtime.open`."""

    def __init__(self, state: _State, catalog: Catalog, trusts: Trusts, principal: Principal) -> None:
        self._state = state
        self._catalog = catalog
        self._trusts = trusts
        self._version = state.database.data_version()
        self._principal = principal
        self._tools: Mapping[str, Tool] = {READ_SKILL.name: READ_SKILL}
        self._recorder = Recorder(state.log)

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
    ) -> "AsyncGenerator[Runtime]":
        """Open the catalog and the record.

        Args:
            roots: folders to look for skills in, before the usual ones.
            config: the operator's configuration file instead of the usual one.
            home: state folder instead of `~/.metier`.
            project: folder whose own skills count; the working directory by default.
            watch: see changed, new and removed skills while open.

        Raises:
            MetierError: when configuration or state cannot be used.
        """
        settings = load(config=config, home=home, project=project, roots=tuple(roots))
        async with _opened(settings, "agent:library") as runtime:
            if not watch:
                yield runtime
                return
            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(runtime._follow)
                    yield runtime
                    tasks.cancel_scope.cancel()
            except BaseExceptionGroup as group:
                if len(group.exceptions) == 1:
                    raise group.exceptions[0] from None  # the caller's own error, as he raised it
                raise

    @property
    def skills(self) -> list[Skill]:
        """The skills that can be used here and now."""
        return self._catalog.usable()

    @property
    def catalog(self) -> Catalog:
        """Everything that was found, with the reasons for what cannot be used."""
        return self._catalog

    async def call(self, tool: str, arguments: Json = None) -> Outcome:
        """Call a tool through the whole gate. Refusals and failures are values, not exceptions."""
        await self._refresh()
        return await run(self._call(tool, {} if arguments is None else arguments), self._house())

    def prompt(self, message: str | None = None, *, system: str = "", full: bool = False) -> str:
        """The text that tells a model which skills there are.

        Args:
            message: what the user said; only a large catalog is searched by it.
            system: your own system prompt, put first.
            full: the instructions themselves instead of a list to read from.
        """
        wanted = Wanted(message=message, full=full, system=system if full else "")
        made = prompt(self._catalog, self._state.settings, wanted, body=self._state.body)
        if full or not system:
            return made.text
        return f"{system}\n\n{made.text}" if made.text else system

    def tools(self, shape: Shape) -> list[dict[str, Json]]:
        """The tools a model can call, in a provider's shape."""
        return shaped(self._tools.values(), shape)

    async def handle(self, tool_calls: object) -> list[dict[str, Json]]:
        """Answer a provider's own tool calls with its own result messages, in the same order.

        Args:
            tool_calls: a list of tool calls, or the message or response that holds them.
        """
        await self._refresh()
        asked = toolcalls.parse(tool_calls, loads=strictjson.loads)
        house = self._house()
        internal = Names.of(self._tools.values()).internal
        outcomes: list[Outcome | None] = [None] * len(asked)

        async def one(index: int, each: toolcalls.Asked) -> None:
            call = self._call(internal.get(each.name, each.name), each.arguments)
            if each.problem is not None:
                refused = Refused(call_id=call.id, code="invalid_arguments", reasons=(each.problem,))
                outcomes[index] = await self._recorder.refused(call, refused)
            else:
                outcomes[index] = await run(call, house)

        async with anyio.create_task_group() as tasks:
            for index, each in enumerate(asked):
                tasks.start_soon(one, index, each)
        return toolcalls.results(asked, [outcome for outcome in outcomes if outcome is not None])

    async def reload(self) -> None:
        """Look at every root again. Calls that are under way keep the catalog they started with."""
        self._version = self._state.database.data_version()
        self._catalog, self._trusts = await to_thread.run_sync(_look_around, self._state)

    async def _refresh(self) -> None:
        """See what other processes changed: trust given or taken elsewhere counts from the next call on."""
        version = self._state.database.data_version()
        if version == self._version:
            return
        self._version = version
        if self._state.trust.all() != self._trusts:
            await self.reload()

    async def _follow(self) -> None:
        async for _ in changes([root.path for root in self._state.settings.roots]):
            try:
                await self.reload()
            except MetierError as error:
                _log.warning("the skills could not be loaded again, so the last ones stay: %s", error)

    def _call(self, tool: str, arguments: Json) -> Call:
        return Call(
            id=f"call_{secrets.token_hex(12)}", principal=self._principal, tool=tool, arguments=arguments
        )

    def _house(self) -> House:
        catalog, state = self._catalog, self._state

        async def look_now(valid: ValidCall) -> Situation:
            return await to_thread.run_sync(
                lambda: look(valid, catalog=catalog, trust=state.trust, bundles=state.bundles)
            )

        return House(
            tools=self._tools,
            catalog=catalog,
            look=look_now,
            operations=_Operations(state, catalog),
            recorder=self._recorder,
        )


def _owner() -> str:
    return f"human:uid-{os.getuid()}" if hasattr(os, "getuid") else "human:local"


def _look_around(state: _State) -> tuple[Catalog, Trusts]:
    began = time.perf_counter()
    trusts = state.trust.all()
    catalog = load_catalog(state.settings, trusts=trusts, environment=environment_here(state.settings))
    tell(catalog, seconds=time.perf_counter() - began)
    return catalog, trusts


@asynccontextmanager
async def _opened(settings: Settings, principal: str) -> AsyncGenerator[Runtime]:
    state = await to_thread.run_sync(_State, settings)
    try:
        catalog, trusts = await to_thread.run_sync(_look_around, state)
        agent = Principal(id=principal, kind="agent", on_behalf_of=_owner(), roles=frozenset({"agent"}))
        yield Runtime(state, catalog, trusts, agent)
    finally:
        state.database.close()


def at_terminal(settings: Settings) -> AbstractAsyncContextManager[Runtime]:
    """The runtime behind `metier call`: it acts as an agent would, so what it shows is what an agent would meet."""
    return _opened(settings, "agent:cli")


@contextmanager
def bodies_here(settings: Settings) -> Generator[Body]:
    """Instructions of skills from their snapshots, for a door without a loop."""
    state = _State(settings)
    try:
        yield state.body
    finally:
        state.database.close()


@final
class SyncRuntime:
    """`Runtime` for code without an event loop. Make one with `SyncRuntime.open`."""

    def __init__(self, runtime: Runtime, portal: from_thread.BlockingPortal) -> None:
        self._runtime = runtime
        self._portal = portal

    @classmethod
    @contextmanager
    def open(
        cls,
        *,
        roots: Sequence[str] = (),
        config: str | None = None,
        home: str | None = None,
        project: str | None = None,
        watch: bool = True,
    ) -> "Generator[SyncRuntime]":
        """As `Runtime.open`."""
        with from_thread.start_blocking_portal() as portal:
            opening = Runtime.open(roots=roots, config=config, home=home, project=project, watch=watch)
            with portal.wrap_async_context_manager(opening) as runtime:
                yield cls(runtime, portal)

    @property
    def skills(self) -> list[Skill]:
        """As `Runtime.skills`."""
        return self._runtime.skills

    @property
    def catalog(self) -> Catalog:
        """As `Runtime.catalog`."""
        return self._runtime.catalog

    def call(self, tool: str, arguments: Json = None) -> Outcome:
        """As `Runtime.call`."""
        return self._portal.call(self._runtime.call, tool, arguments)

    def prompt(self, message: str | None = None, *, system: str = "", full: bool = False) -> str:
        """As `Runtime.prompt`."""
        return self._runtime.prompt(message, system=system, full=full)

    def tools(self, shape: Shape) -> list[dict[str, Json]]:
        """As `Runtime.tools`."""
        return self._runtime.tools(shape)

    def handle(self, tool_calls: object) -> list[dict[str, Json]]:
        """As `Runtime.handle`."""
        return self._portal.call(self._runtime.handle, tool_calls)

    def reload(self) -> None:
        """As `Runtime.reload`."""
        self._portal.call(self._runtime.reload)
