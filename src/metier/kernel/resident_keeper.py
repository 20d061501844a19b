"""Keeps one skill alive: starts it when it may live, says why it does not, and starts it anew when it died.

A skill that dies by itself is started again after a while that doubles each time, and stays down after too many deaths in a row.
One that cannot be enabled is tried a few times; one for which the machine has no room, again and again. One that may not live (it
was disabled, broke the rules, lost its trust, everything was stopped, who started it was revoked) is not tried at all until it may.
One that is not what is trusted and granted now any more is ended, and what is begins.
"""

import logging
import time
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias, final

import anyio
from anyio import to_thread
from msgspec import Struct
from msgspec.structs import replace

from metier.errors import MetierError
from metier.kernel.behalf import Behalf
from metier.kernel.channel_rows import names_of, remove
from metier.kernel.operation import OperationError
from metier.kernel.resident_life import Resident
from metier.kernel.resident_words import SettingsOfSkills, Words
from metier.kernel.skill_record import STARTING, Status, fares, forget_modules
from metier.kernel.store import Store
from metier.model.job import LifeBounds
from metier.model.outcome import Completed, Failed, Outcome, Pending, Refused
from metier.model.skill import Skill
from metier.sandbox.beat import on_beat

_log: Final = logging.getLogger("metier.residents")
Made: TypeAlias = Callable[[Skill, Behalf], Resident]
_LONGEST: Final = 500
_MOST_DOUBLED: Final = 30
_NOT_ITS_OWN: Final = frozenset({"busy", "not_started", "internal", "unrecorded"})
"""How a life ends that did not begin for want of something of ours or the machine's: nothing of the skill ran."""
_LONGEST_WORDS: Final = 300
Tell: TypeAlias = Callable[[str], None]


@final
class Patience(Struct, frozen=True, kw_only=True):
    """How long things are waited for, in seconds, and how often they are tried."""

    first: float = 1.0
    longest: float = 300.0
    refused: float = 30.0
    """After the gate said no. Each such no is recorded, so it is asked rarely."""
    longest_refused: float = 3_600.0
    well: float = 600.0
    """Who lived so long is no longer dying in a row."""
    deaths: int = 8
    failures: int = 4
    """So often it is tried to enable it."""
    look: float = 2.0
    """How often it is looked whether it may live again, and whether it still is what may live."""


class Live(Protocol):
    """How lives are made. Handed in by the runtime."""

    async def problem(self, skill: str, behalf: Behalf) -> tuple[Status, str] | None:
        """Why the skill may not live now on behalf of that person, as far as that is known without asking the gate; None where
        nothing is in the way."""
        ...

    def known(self, skill: str) -> Skill | None:
        """The skill of this name."""
        ...

    async def live(self, resident: Resident) -> Outcome:
        """Make the call of a life: it lasts as long as the skill lives."""
        ...

    async def outdated(self, resident: Resident) -> str:
        """Why this life is not of what is trusted now, or lived for somebody who may not have it any more; empty where it is well."""
        ...

    def end(self, call_id: str, by: str) -> None:
        """End the run of a call."""
        ...

    async def reload(self) -> None:
        """What was enabled, trusted or changed counts from now on."""
        ...


@final
class Keeper:
    """Of one skill. Belongs to one loop."""

    def __init__(
        self,
        name: str,
        behalf: Behalf,
        *,
        live: Live,
        store: Store,
        made: Made,
        prepare: SettingsOfSkills | None,
        words: Words,
        tell: Tell,
        starting: anyio.Semaphore,
        patience: Patience,
    ) -> None:
        self.name = name
        self.settled = anyio.Event()
        """It is known how the first try went."""
        self.ended = anyio.Event()
        self.status: Status = "disabled"
        self.error = STARTING
        self.behalf = behalf
        """For whom its next life is; the one under way is for whom it was begun."""
        self._live = live
        self._store = store
        self._made = made
        self._prepare = prepare
        self._words = words
        self._tell = tell
        self._starting = starting
        self._patience = patience
        self._scope = anyio.CancelScope()
        self._stopping = False
        self._resident: Resident | None = None
        self._holds = False
        self._deaths = 0
        self._failures = 0
        self._refusals = 0
        self._no_room = 0

    async def run(self) -> None:
        """Until it is stopped, or given up."""
        try:
            with self._scope:
                await self._fares("disabled", STARTING)  # whatever was said of an earlier life of it
                await self._keep()
        except Exception:  # noqa: BLE001  one skill must not take the others with it
            _log.exception("the skill %s cannot be kept alive", self.name)
            await self._fares("error", "a fault of Metier keeps it from living; the log has the details")
        finally:
            self.settled.set()
            self.ended.set()

    async def is_current(self) -> bool:
        """Whether it lives, and is what is trusted now."""
        resident = self._resident
        if resident is None or not resident.began.is_set() or await self._live.outdated(resident):
            return False
        return resident is self._resident and not resident.outdated

    async def stop(self, seconds: float, by: str) -> str:
        """End it, and let it say goodbye for so long; what went wrong with that. Who goes away meanwhile does not stop that."""
        with anyio.CancelScope(shield=True):
            return await self._stop(seconds, by)
        return ""  # that scope is nobody's to cancel

    async def _stop(self, seconds: float, by: str) -> str:
        self._stopping = True
        resident, said = self._resident, ""
        if resident is not None and resident.began.is_set():
            resident.withdraw()
            said = await resident.disable(seconds)
            with anyio.move_on_after(1.0 if not said else 0.0):
                await self.ended.wait()
        if resident is not None and resident.call_id and not self.ended.is_set():
            self._live.end(resident.call_id, by)
            with anyio.move_on_after(1.0):
                await self.ended.wait()
        self._scope.cancel()
        await self.ended.wait()
        return said

    async def _keep(self) -> None:
        while not self._stopping:
            if await self._may_not():
                await anyio.sleep(self._patience.look)
                continue
            began = time.monotonic()
            outcome, resident = await self._one_life()
            if self._stopping:
                return
            if await self._may_not():  # it was ended from outside, and did not die
                continue
            if resident is not None and resident.outdated:
                await self._fares("disabled", STARTING)
                continue
            if isinstance(outcome, Failed) and resident is not None:  # there may be words of the skill in it
                said = await self._words.shown(resident.skill, outcome.message, _LONGEST_WORDS)
                outcome = replace(outcome, message=said)
            why, wait = self._after(outcome, resident, time.monotonic() - began)
            await self._fares("error", f"{why}; it is tried again in {wait:g} s" if wait else why)
            self._tell("skills.failed")
            self.settled.set()
            if not wait:
                return
            await anyio.sleep(wait)

    async def _may_not(self) -> bool:
        try:
            problem = await self._live.problem(self.name, self.behalf)
        except MetierError as error:
            problem = ("error", error.message)
        if problem is None:
            return False
        if (self.status, self.error) != problem:
            await self._fares(*problem)
        self.settled.set()
        return True

    async def _one_life(self) -> tuple[Outcome | str, Resident | None]:
        skill = self._live.known(self.name)
        if skill is None:
            return "there is no such skill any more", None
        try:
            if self._prepare is not None:
                await self._prepare.prepare(skill)
        except (OperationError, MetierError) as error:
            return f"its settings cannot be used: {error.message}", None
        await self._starting.acquire()
        self._holds = True
        try:
            return await self._begun(skill)
        finally:
            self._let_go()

    async def _begun(self, skill: Skill) -> tuple[Outcome | str, Resident]:
        """The life itself, until it is over. What it leaves behind is put away, however it ended."""
        had = await self._channels()
        resident = self._resident = self._made(skill, self.behalf)
        outcome: Outcome | str = "it was ended before it began"
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._when_ready, resident)
                tasks.start_soon(self._mind, resident)
                tasks.start_soon(resident.hear)
                try:
                    outcome = await self._live.live(resident)
                finally:
                    resident.over()
                tasks.cancel_scope.cancel()
        finally:
            self._resident = None
            self._let_go()
            with anyio.CancelScope(shield=True):
                await self._blocking(forget_modules, self._store, self.name)
                if not resident.began.is_set() and had is not None:
                    await self._blocking(_forget_channels, self._store, self.name, had)
        return outcome, resident

    async def _mind(self, resident: Resident) -> None:
        """End it when it is no longer what is trusted, or who it lives for lost his right."""
        while True:
            await anyio.sleep(on_beat(self._patience.look))
            try:
                why = await self._live.outdated(resident)
            except MetierError:  # what cannot be looked at now is no reason to end a life
                continue
            if why:
                resident.outdated = why
                self._live.end(resident.call_id, "metier")

    def _let_go(self) -> None:
        """The next one may be started."""
        if self._holds:
            self._holds = False
            self._starting.release()

    async def _when_ready(self, resident: Resident) -> None:
        await resident.began.wait()
        self._let_go()
        await self._fares("loaded", "", digest=resident.digest)
        self._tell("skills.enabled")
        self.settled.set()

    def _after(self, outcome: Outcome | str, resident: Resident | None, lived: float) -> tuple[str, float]:
        """Why it does not live, and after how many seconds it is tried again; never where that is zero."""
        patience = self._patience
        why = resident.fault if resident is not None and resident.fault else _why(outcome)
        if isinstance(outcome, Refused | Pending):
            self._refusals += 1
            return why, _doubled(patience.refused, self._refusals, patience.longest_refused)
        self._refusals = 0
        if isinstance(outcome, Failed) and outcome.code in _NOT_ITS_OWN and not _began(resident):
            self._no_room += 1
            return why, _doubled(patience.first, self._no_room, patience.longest)
        self._no_room = 0
        if resident is None or not _began(resident):
            self._failures += 1
            if self._failures >= patience.failures:
                return (
                    f"{why}; it was tried {self._failures} times, and is not until it is enabled again",
                    0.0,
                )
            return why, _doubled(patience.first, self._failures, patience.longest)
        self._failures = 0
        if resident.late:
            # Whoever can make one operation hang must not be able to keep it down for everybody. It hung for so long already that
            # nothing is gained by waiting longer.
            return why, patience.first
        self._deaths = 1 if lived >= patience.well else self._deaths + 1
        if self._deaths >= patience.deaths:
            return (
                f"{why}; it died {self._deaths} times in a row, and stays down until it is enabled again",
                0.0,
            )
        return why, _doubled(patience.first, self._deaths, patience.longest)

    async def _fares(self, status: Status, error: str, digest: str = "") -> None:
        if error:
            error = await self._words.shown(None, error, _LONGEST)
        self.status, self.error = status, error
        await self._blocking(lambda: fares(self._store, self.name, status, error, digest=digest))

    async def _channels(self) -> frozenset[str] | None:
        """Those that it has already; None where that cannot be told."""
        try:
            return await to_thread.run_sync(_channels_of, self._store, self.name)
        except MetierError:
            return None

    async def _blocking(self, function: Callable[..., None], *given: object) -> None:
        """What cannot be written now is no reason to end a life."""
        try:
            await to_thread.run_sync(function, *given)
        except MetierError as error:
            _log.warning("how the skill %s fares could not be written: %s", self.name, error)


def _began(resident: Resident | None) -> bool:
    return resident is not None and resident.began.is_set()


def _doubled(first: float, times: int, longest: float) -> float:
    """How long is waited after it happened so many times in a row."""
    return min(first * 2.0 ** min(times - 1, _MOST_DOUBLED), longest)


def _why(outcome: Outcome | str) -> str:
    match outcome:
        case str():
            return outcome
        case Completed():
            return "it ended by itself"
        case Failed(code="timed_out"):  # nothing else of a life has a time of its own
            return f"onEnable did not return within {LifeBounds().enable_seconds:g} s"
        case Failed(code=code, message=message):
            return f"{code}: {message}"
        case Refused() | Pending():
            remedy = outcome.remedy if isinstance(outcome, Refused) else ""
            return ". ".join(filter(None, ("; ".join(outcome.reasons), remedy)))


def _channels_of(store: Store, skill: str) -> frozenset[str]:
    with store.reading() as connection:
        return names_of(connection, skill)


def _forget_channels(store: Store, skill: str, had: frozenset[str]) -> None:
    """What a life that never began registered is nobody's. What it had before stays: it may begin the next time."""
    with store.writing() as connection:
        for name in names_of(connection, skill) - had:
            remove(connection, name)
