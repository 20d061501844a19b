"""Opens everything and wires it: `state` on the disk, the `sandboxes` (only there concrete backends are named), and the
calls of an agent (here) and of the owner (`own`).

`Runtime` is the public API for people who build agents; `metier.blocking` has the same for code without a loop.
"""

import logging
import os
import secrets
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final, final

import anyio
from anyio import to_thread
from anyio.lowlevel import checkpoint

from metier.catalog.catalog import Catalog
from metier.catalog.here import owner
from metier.catalog.listed import Listed
from metier.config.load import load
from metier.config.settings import Settings
from metier.disclosure import toolcalls
from metier.disclosure.prompt import Body, Wanted, prompt
from metier.disclosure.schemas import Shape, shaped
from metier.hooks import Bootstrap
from metier.model import strictjson
from metier.model.call import Call, Principal, Surroundings
from metier.model.digest import Json
from metier.model.hook import BootstrapFile
from metier.model.outcome import Outcome, Pending
from metier.model.skill import Answer, Skill, Tool
from metier.runtime.asked import MOST_CALLS, name_of, not_asked
from metier.runtime.engine import Engine, opened
from metier.runtime.readable import readable
from metier.runtime.state import OWN_TOOLS, State
from metier.runtime.waiting import decided

if TYPE_CHECKING:
    from metier.catalog.probed import Probed
    from metier.runtime.hosting import Hosting
    from metier.runtime.kernel_here import MakeDoor

_log: Final = logging.getLogger("metier.runtime")
_NO_SURROUNDINGS: Final = Surroundings()


@final
class Runtime:
    """Skills behind one gate, for a program that drives an agent. Make one with `Runtime.open`."""

    def __init__(
        self, engine: Engine, principal: Principal, surroundings: Surroundings = _NO_SURROUNDINGS
    ) -> None:
        self._engine = engine
        self._principal = principal
        self._surroundings = surroundings

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

        async with opened(settings, watch=watch) as engine:
            if host:
                await engine.kernel.host((), _log.info)
            yield cls(engine, _agent("agent:library"))

    @property
    def is_host(self) -> bool:
        """Whether this is the process that runs skills that live, channels, triggers and schedules."""
        return self._engine.kernel.hosting is not None

    @property
    def skills(self) -> list[Skill]:
        """The skills that can be used here and now."""
        return self._engine.seen.catalog.usable()

    @property
    def catalog(self) -> Catalog:
        """Everything that was found, with the reasons for what cannot be used."""
        return self._engine.seen.catalog

    async def call(
        self, tool: str, arguments: Json = None, *, wait: float = 0.0, unattended: bool = False
    ) -> Outcome:
        """Call a tool through the whole gate. Refusals and failures are values, not exceptions.

        Args:
            wait: seconds to wait for somebody's word, where it takes one. What is still `Pending` then stays so, and
                holds nothing; `resume` takes it up once it is approved.
            unattended: nobody is there to be asked.
        """
        named = self._engine.seen.internal(name_of(tool))
        given: Json = {} if arguments is None else arguments
        made = self._call(named, given, unattended=unattended, waits=wait > 0)
        outcome = await self._engine.run(made)
        if not isinstance(outcome, Pending) or wait <= 0:
            return outcome
        return await self.wait_for(outcome, wait)

    async def wait_for(self, pending: Pending, seconds: float) -> Outcome:
        """How a pending call ends, if it is decided within `seconds`; else `pending` again."""
        engine = self._engine
        return await decided(
            pending, seconds, database=engine.state.database, words=engine.words, resume=self.resume
        )

    async def resume(self, approval_id: str) -> Outcome:
        """Run a call of this runtime's that was approved, once: the stored one, through every stage, with today's rights."""
        return await self._engine.resume(approval_id, of=self._principal.id)

    async def bootstrap(self, files: Sequence[BootstrapFile] = (), *, session: str = "main") -> Bootstrap:
        """An agent starts: the hooks of trusted skills are asked what they would add to its files. `prompt` shows it.

        Args:
            files: what the agent is started with. No hook changes any of it.
            session: whose start it is, as hooks are told it.

        Raises:
            MetierError: when configuration or state cannot be used.
        """
        if self._engine.closed:
            return Bootstrap(given=tuple(files), problems=("this runtime is closed, so no hook was asked",))
        await self._engine.refresh()
        return await self._engine.hooks.bootstrap(files, session)

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
        if bootstrap is not None and (added := bootstrap.text(self._engine.seen.catalog.by_name)):
            system = f"{system}\n\n{added}" if system else added
        wanted = Wanted(message=message, full=full, system=system)
        return prompt(self._engine.seen.catalog, self._engine.seen.settings, wanted, body=self._body).text

    def _body(self, listed: Listed) -> str | None:
        return readable(self._engine.state, self._engine.seen, self._principal, listed)

    @property
    def _offered(self) -> list[Tool]:
        """What a model is shown: our own tools, and those of skills that can be used here and now."""
        skills = (skill for skill in self._engine.seen.catalog.usable() if skill.model_may_invoke)
        own = (tool for tool in OWN_TOOLS.values() if self._engine.seen.scripts or not tool.as_subject)
        return [*own, *(tool for skill in skills for tool in skill.tools)]

    def tools(self, shape: Shape) -> list[dict[str, Json]]:
        """The tools a model can call, in a provider's shape."""
        return shaped(self._offered, shape)

    async def handle(self, tool_calls: object, *, wait: float = 0.0) -> list[dict[str, Json]]:
        """Answer a provider's own tool calls with its own result messages, in the same order.

        Args:
            tool_calls: a list of tool calls, or the message or response that holds them. At most 128 of one message run.
            wait: seconds each of them waits for somebody's word, where it takes one. They wait at the same time.
        """
        # In a thread: there may be megabytes of JSON in it.
        asked = await to_thread.run_sync(lambda: toolcalls.parse(tool_calls, loads=strictjson.loads))
        seen = self._engine.seen
        outcomes: dict[int, Outcome] = {}
        answers: dict[int, Answer] = {}

        async def one(index: int, each: toolcalls.Asked) -> None:
            call = self._call(seen.internal(each.name), each.arguments, waits=wait > 0)
            tool = seen.tools.get(call.tool)
            answers[index] = tool.answer if tool is not None else "value"
            outcome = await self._engine.run(call, not_asked(call, index, each.problem))
            if isinstance(outcome, Pending) and wait > 0:
                outcome = await self.wait_for(outcome, wait)
            outcomes[index] = outcome

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
        await self._engine.reload()

    def _call(
        self, tool: str, arguments: Json, *, unattended: bool = False, waits: bool = False, id: str = ""
    ) -> Call:
        return Call(
            id=id or f"call_{secrets.token_hex(12)}",
            principal=self._principal,
            tool=tool,
            arguments=arguments,
            surroundings=self._surroundings,
            unattended=unattended,
            waits=waits,
        )


def _agent(id: str) -> Principal:
    return Principal(id=id, kind="agent", on_behalf_of=owner(), roles=frozenset({"agent"}))


@asynccontextmanager
async def hosting_here(
    settings: Callable[[], Settings], doors: "Sequence[MakeDoor]", say: Callable[[str], None]
) -> "AsyncGenerator[Hosting | None]":
    """What `metier host` does; None where another process is the host. `settings` reads them: they change while a host runs."""
    async with opened(settings, watch=True) as engine:
        await engine.kernel.host(doors, say)
        yield engine.kernel.hosting


@asynccontextmanager
async def at_terminal(settings: Settings) -> AsyncGenerator[Runtime]:
    """The runtime behind `metier call`: it acts as an agent would, so what it shows is what an agent would meet."""
    async with opened(lambda: settings, watch=False) as engine:
        yield Runtime(engine, _agent("agent:cli"))


async def ask_server(settings: Settings, folder: str, digest: str) -> "Probed | str":
    """What the MCP server of a skill tells of its tools, to be looked at by whoever waits for it; otherwise why it told nothing."""
    from metier.runtime.probing import ask  # seldom needed

    async with opened(lambda: settings, watch=False) as engine:
        found = (each for each in engine.seen.catalog.by_name.values() if each.folder == folder)
        listed = next(found, None)
        if listed is None:
            return "another skill has its name"
        return await ask(listed, engine.house(), engine.state.bundles, digest)


@contextmanager
def bodies_here(settings: Settings) -> Generator[Body]:
    """Instructions of skills from their snapshots, for a door without a loop: those that `at_terminal` could read."""
    state = State(lambda: settings)
    try:
        seen, agent = state.look(), _agent("agent:cli")
        yield lambda listed: readable(state, seen, agent, listed)
    finally:
        state.database.close()
