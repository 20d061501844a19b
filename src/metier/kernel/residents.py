"""The skills that live here: which shall, and one keeper for each. Only the process that holds the host role has any."""

import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar, final

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from metier.catalog.catalog import Catalog
from metier.catalog.listed import Listed
from metier.catalog.xbot_shipped import SHIPPED
from metier.config.settings import Settings
from metier.dialects.xbot import plain_name
from metier.errors import MetierError
from metier.kernel.behalf import Behalf, Since, never
from metier.kernel.events import Events
from metier.kernel.modules import Modules
from metier.kernel.operation import OperationError
from metier.kernel.resident_keeper import Keeper, Live, Patience
from metier.kernel.resident_life import DISABLE_SECONDS, Resident
from metier.kernel.resident_words import SettingsOfSkills, Words
from metier.kernel.skill_record import Life, all_down, all_start, fares, kept_names, let_go, lives, wish
from metier.kernel.store import Store
from metier.model.skill import Skill
from metier.model.text import one_line

_ABOUT_TO_BEGIN: Final = 10.0
"""Seconds that a process may take from being the host to being able to start skills."""
NO_HOST: Final = "no host runs here, so nothing lives; start `metier host`"
USUAL: Final = Patience()
_AT_ONCE: Final = 4
"""So many are started at the same time."""
_MOST_WAITED: Final = 60.0
_log: Final = logging.getLogger("metier.residents")
T = TypeVar("T")


@final
class Residents:
    """Belongs to one loop."""

    def __init__(
        self,
        live: Live,
        store: Store,
        modules: Callable[[], Modules],
        events: Events,
        catalog: Callable[[], Catalog],
        settings: Callable[[], Settings],
        owner: str,
        prepare: SettingsOfSkills | None = None,
        removed: Callable[[str], Awaitable[None]] | None = None,
        patience: Patience = USUAL,
        since: Since = never,
    ) -> None:
        """`removed` is told the name of a skill that was disabled, so that what else it had is taken away. `since` says when
        somebody was registered."""
        self._live = live
        self._store = store
        self._modules = modules
        self._events = events
        self._catalog = catalog
        self._settings = settings
        self._owner = owner
        self._prepare = prepare
        self._words = Words(prepare)
        self._removed = removed
        self._patience = patience
        self._since = since
        self._tasks: TaskGroup | None = None
        self._begun: anyio.Event | None = None
        """Set once skills can be started; None where this is not about to be the host."""
        self._keepers: dict[str, Keeper] = {}
        self._turns: dict[str, anyio.Lock] = {}
        self._starting = anyio.Semaphore(_AT_ONCE)

    async def run(self) -> None:
        """Every skill that shall live does, until this is cancelled."""
        await self.expect()
        self._modules().keep(await to_thread.run_sync(kept_names, self._store))
        self._keepers = {}
        self._starting = anyio.Semaphore(_AT_ONCE)
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                if self._begun is not None:
                    self._begun.set()
                await self._release()
                await self._start_all()
                await anyio.sleep_forever()
        finally:
            self._tasks = self._begun = None
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(all_down, self._store, NO_HOST)

    async def expect(self) -> None:
        """Say of every skill that shall live that it is being started, before anybody asks."""
        self._begun = self._begun or anyio.Event()
        await to_thread.run_sync(all_start, self._store, await self.wanted())

    def find(self, id: str) -> Listed | None:
        """The skill of this name, or of this id as its contract has it."""
        return found(self._catalog(), id)

    async def changed(self) -> None:
        """The configuration was read again: what it names now lives, and what it names no more has no name kept for it. One that
        was given up is not tried again for this."""
        if self._tasks is None:
            return
        try:
            await self._release()
            for name in await self.wanted():
                await self._begin(name, again=False)
        except (MetierError, OperationError) as error:
            _log.warning("what shall live now could not be found out: %s", error)

    async def wanted(self) -> dict[str, Behalf]:
        """Every skill that shall live, and on whose behalf."""
        return await to_thread.run_sync(wanted, self._settings(), self._store, self._owner)

    async def enable(self, id: str, by: str) -> str:
        """Have a skill live from now on, also after the next start. Gives its name once it is known how that went.

        Raises:
            OperationError: where it cannot be enabled, or did not come to life.
        """
        name, keeper = await self._whole(lambda: self._enable(id, by))
        if keeper is None:
            return name
        with anyio.move_on_after(_MOST_WAITED):  # whoever wants to disable it meanwhile can
            await keeper.settled.wait()
        if keeper.status != "loaded":
            raise OperationError(
                _code(self.find(name)), f"{name} is enabled, but does not live: {keeper.error}"
            )
        return name

    async def _enable(self, id: str, by: str) -> tuple[str, Keeper | None]:
        """Its name, and who keeps it from now on; None where it lives already."""
        await self._live.reload()  # what was written or trusted a moment ago counts
        name = self._known(id).name
        async with self._turn(name):
            behalf = Behalf(by, await to_thread.run_sync(self._since, by))
            kept = (await to_thread.run_sync(lives, self._store)).get(name) or Life(skill=name, enabled=None)
            await to_thread.run_sync(self._wish, name, True, behalf)
            await self._live.reload()
            problem, listed = await self._live.problem(name, behalf), self.find(name)
            if problem is not None and listed is not None and listed.shown == "disabled":
                await to_thread.run_sync(self._wish, name, kept.enabled, Behalf(kept.changed_by, kept.since))
                await self._live.reload()
                raise OperationError("E_SKILLS_DISABLED", f"{name} cannot be enabled: {problem[1]}")
            before = self._keepers.get(name)
            if before is not None and await before.is_current():
                before.behalf = behalf  # it goes on for who started it, for as long as he may
                return name, None
            if before is not None:
                await before.stop(0.0, by)
            return name, self._start(name, behalf)

    async def disable(self, id: str, by: str) -> tuple[str, str]:
        """Have a skill live no longer. Gives its name, and what went wrong while it said goodbye.

        Raises:
            OperationError: where nobody knows it.
        """
        listed = self.find(id)
        kept = await to_thread.run_sync(lives, self._store)
        name = listed.name if listed is not None else plain_name(id)
        if listed is None and name not in kept:
            raise _unknown(id, self._settings())
        said = ""
        with anyio.CancelScope(shield=True):  # who goes away meanwhile leaves nothing half done
            said = await self._disable(name, by)
        self._events.emit("skills.disabled", {"skill": name})
        return name, said

    async def _disable(self, name: str, by: str) -> str:
        async with self._turn(name):
            await to_thread.run_sync(self._wish, name, False, Behalf(by))
            keeper, said = self._keepers.pop(name, None), ""
            if keeper is not None:
                said = await keeper.stop(DISABLE_SECONDS, by)
            self._modules().unregister(name)
            await self._let_go(name)
            if self._removed is not None:
                await self._removed(name)
            await to_thread.run_sync(fares, self._store, name, "disabled", said)
        try:
            await self._live.reload()  # the catalog has it as one that lives until somebody looks
        except MetierError as error:  # it is ended all the same
            _log.warning(
                "%s was ended; what is there now could not be looked at: %s", one_line(name, 80), error
            )
        return said

    async def reload_enabled(self, by: str) -> tuple[list[str], dict[str, str]]:
        """Start everything that shall live anew, from what lies there now. Gives what lives, and why the rest does not."""
        await self._whole(lambda: self._anew(by))
        return await self._settled()

    async def _anew(self, by: str) -> None:
        await self._live.reload()

        async def again(name: str) -> None:
            async with self._turn(name):
                before = self._keepers.pop(name, None)
                if before is not None:
                    await before.stop(DISABLE_SECONDS, by)

        async with anyio.create_task_group() as tasks:
            for name in (*self._keepers,):
                tasks.start_soon(again, name)
        await self._start_all()

    async def init_on_boot(self) -> tuple[list[str], dict[str, str]]:
        """Start everything that shall live and does not. Gives what lives, and why the rest does not."""
        await self._whole(self._start_all)
        return await self._settled()

    async def _settled(self) -> tuple[list[str], dict[str, str]]:
        with anyio.move_on_after(_MOST_WAITED):
            for keeper in (*self._keepers.values(),):
                await keeper.settled.wait()
        well = [name for name, each in self._keepers.items() if each.status == "loaded"]
        ill = {name: each.error for name, each in self._keepers.items() if each.status != "loaded"}
        return well, ill

    async def _whole(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do it to its end, also where who asked goes away meanwhile: nothing is left half done. It ends with the host.

        Raises:
            OperationError: what the work raises; and where there is no host, or it ended meanwhile.
        """
        if self._tasks is None and self._begun is not None:  # who asks a host that has only just become one
            with anyio.move_on_after(_ABOUT_TO_BEGIN):
                await self._begun.wait()
        if self._tasks is None:
            raise OperationError("E_SKILLS_DISABLED", NO_HOST)
        over = anyio.Event()
        done: list[T] = []
        failed: list[Exception] = []

        async def to_its_end() -> None:
            try:
                done.append(await work())
            except Exception as error:  # noqa: BLE001  it is told to who asked, and must not end the others
                failed.append(error)
            finally:
                over.set()

        self._tasks.start_soon(to_its_end)
        await over.wait()
        if failed:
            raise failed[0]
        if not done:
            raise OperationError("E_SKILLS_DISABLED", NO_HOST)
        return done[0]

    async def _start_all(self) -> None:
        for name in await self.wanted():
            await self._begin(name, again=True)

    async def _begin(self, name: str, *, again: bool) -> None:
        """Have it live, if it shall and nobody keeps it. `again`: also where it was given up."""
        async with self._turn(name):
            keeper = self._keepers.get(name)
            if keeper is not None and not (again and keeper.ended.is_set()):
                return
            behalf = (await self.wanted()).get(name)  # somebody may have disabled it a moment ago
            if behalf is not None:
                self._start(name, behalf)

    async def _release(self) -> None:
        """What shall not live has no name kept for it any more, and begins anew once it shall."""
        known = self._modules().keepers() | self._keepers.keys()
        for skill in known - (await self.wanted()).keys():
            async with self._turn(skill):
                if skill in await self.wanted():
                    continue
                if (keeper := self._keepers.get(skill)) is not None and keeper.ended.is_set():
                    del self._keepers[skill]
                await self._let_go(skill)

    async def _let_go(self, skill: str) -> None:
        self._modules().let_go(skill)
        await to_thread.run_sync(let_go, self._store, (skill,))

    def _wish(self, name: str, enabled: bool | None, behalf: Behalf) -> None:
        wish(self._store, name, enabled=enabled, by=behalf.id, since=behalf.since)

    def _start(self, name: str, behalf: Behalf) -> Keeper:
        if self._tasks is None:
            raise OperationError("E_SKILLS_DISABLED", NO_HOST)
        keeper = self._keepers[name] = Keeper(
            name,
            behalf,
            live=self._live,
            store=self._store,
            made=self._made,
            prepare=self._prepare,
            words=self._words,
            tell=lambda event: self._events.emit(event, {"skill": name}),
            starting=self._starting,
            patience=self._patience,
        )
        self._tasks.start_soon(keeper.run)
        return keeper

    def _made(self, skill: Skill, behalf: Behalf) -> Resident:
        return Resident(
            skill, behalf, self._store, self._modules(), self._events, self._live.end, self._words
        )

    def _turn(self, name: str) -> anyio.Lock:
        """Enabling and disabling one skill happen one after the other."""
        return self._turns.setdefault(name, anyio.Lock())

    def _known(self, id: str) -> Listed:
        listed = self.find(id)
        if listed is None:
            raise _unknown(id, self._settings())
        if listed.skill is None or listed.skill.status == "broken":
            raise OperationError("E_SKILLS_BAD_EXPORT", f"{listed.name} cannot be read: {listed.why}")
        if listed.skill.dialect != "xbot":
            raise OperationError(
                "E_SKILLS_BAD_EXPORT", f"{listed.name} is no skill that lives: it has no function onEnable"
            )
        return listed


def found(catalog: Catalog, id: str) -> Listed | None:
    """The skill of this name, or of this id as its contract has it. A name comes first: nobody takes it by calling himself so."""
    listed = catalog.get(id) or catalog.get(plain_name(id)) or broken_in(catalog, plain_name(id))
    if listed is None or listed.skill is None:
        return listed
    # What was not read yet has no id of its own, and is known by the name of its package alone.
    return listed if id in (listed.name, listed.skill.key) or not listed.skill.key else None


def broken_in(catalog: Catalog, name: str) -> Listed | None:
    """The skill of this name where it is there and cannot be read, so that the catalog has none of the name."""
    return next((each for each in catalog.listed if each.name == name and each.shown == "broken"), None)


def wanted(settings: Settings, store: Store, owner: str) -> dict[str, Behalf]:
    """Every skill that shall live, and on whose behalf: what people said comes before the configuration. Blocking."""
    kept = lives(store)
    said = {
        name: Behalf(life.changed_by, life.since) if life.changed_by else Behalf(owner)
        for name, life in kept.items()
        if life.enabled is True
    }
    configured = (settings.xbot.enabled or frozenset()) & ((settings.xbot.allow or frozenset()) | SHIPPED)
    names = {plain_name(each) for each in configured}
    refused = {name for name, life in kept.items() if life.enabled is False}
    return {name: said.get(name) or Behalf(owner) for name in sorted((names | said.keys()) - refused)}


def _unknown(id: str, settings: Settings) -> OperationError:
    shown = one_line(id, 80)
    if id in (settings.xbot.allow or frozenset()):
        return OperationError(
            "E_SKILLS_RESOLVE_FAILED",
            f"{shown} is allowed, but there is no such package; `metier skills check`",
        )
    return OperationError(
        "E_SKILLS_NOT_ALLOWLISTED", f"{shown} is no skill that is allowed here; name it in [xbot] allow"
    )


def _code(listed: Listed | None) -> str:
    waits = listed is not None and (listed.shown == "pending_approval" or listed.probe)
    return "E_SKILLS_NOT_TRUSTED" if waits else "E_SKILLS_ENABLE_FAILED"
