"""Hears what happens and has the triggers fired that it sets off: messages and events in the host, what comes after tool calls wherever
they are made (`trigger_around`).
"""

import logging
import math
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol, final

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup
from msgspec.structs import replace

from metier.catalog.catalog import Catalog
from metier.errors import MetierError
from metier.kernel.behalf import Behind, Since
from metier.kernel.calling import Calls
from metier.kernel.events import OURS, Events, Happened
from metier.kernel.firing import Firing
from metier.kernel.firing_guess import chat_key
from metier.kernel.firing_order import fire_in_order
from metier.kernel.firing_store import settled
from metier.kernel.store import Store
from metier.kernel.trigger import ConditionTrigger, EventTrigger, ToolTrigger
from metier.kernel.trigger_around import AroundCalls
from metier.kernel.trigger_match import Due, Occasion, means, set_off, wanted
from metier.kernel.trigger_occasion import SENT, call_in, chat_in, of_event, owner_in
from metier.kernel.trigger_store import KeptTrigger, all_triggers
from metier.model.call import Cause
from metier.model.text import one_line
from metier.sandbox.beat import on_beat

KINDS: Final = ("message", "event", "tool")
HEARTBEAT: Final = "heartbeat_check"
_BEAT: Final = 60.0
_GLANCE: Final = 2.0
_WORKERS: Final = 8
"""For each kind of occasion: what a skill sets off does not hold up people's messages."""
_MOST_OPEN: Final = 10_000
_MOST_OF_ONE: Final = 1_000
"""Occasions of one source that may wait at one time."""
_PAUSE: Final = 5.0
"""Seconds until a message that could not be handled is taken up again, and twice as many each further time."""
_LONGEST_PAUSE: Final = 60.0
LAST_SECONDS: Final = 5.0
"""For what is under way when this process gives the host role back."""
_MOST_FAULTS: Final = 3
"""So often for a fault of ours. What lies in the file or the disk may pass, and is waited for."""
_OF_ITS_OWNER: Final = frozenset({"triggers.fired", "schedules.fired"})
"""What is made of somebody's calls and messages is his: another's trigger does not hear of it."""
_log: Final = logging.getLogger("metier.triggers")


class Inbox(Protocol):
    """Who keeps messages until they are handled."""

    def keep(self, message: int) -> None:
        """We handle it; said while we are told of it."""
        ...

    async def mark_handled(self, message: int) -> None:
        """It is done with."""
        ...


@final
class Rounds:
    """Belongs to one loop."""

    def __init__(
        self,
        *,
        store: Store,
        events: Events,
        calls: Calls,
        catalog: Callable[[], Catalog],
        owner: str,
        inbox: Inbox | None,
        skill_of: Callable[[str], str],
        cause_of: Callable[[str], Cause],
        since: Since,
        behind: Behind,
    ) -> None:
        self._store = store
        self._cause_of = cause_of
        self._tasks: TaskGroup | None = None
        self._events = events
        self._inbox = inbox
        self._firing = Firing(
            store=store, events=events, calls=calls, catalog=catalog, skill_of=skill_of, since=since
        )
        self._owner = owner
        self.around = AroundCalls(self._firing, store, owner, behind, self._put, self._fresh)
        self._loading = anyio.Lock()
        self._here = False
        """Whether messages are ours to handle."""
        self._messages: set[anyio.CancelScope] = set()
        """Those that are being handled."""
        self._quiet: anyio.Event | None = None
        self._seen = -1
        self._kept: tuple[KeptTrigger, ...] = ()
        self._waiting: dict[str, deque[Due]] = {kind: deque() for kind in KINDS}
        self._ready = {kind: anyio.Semaphore(0) for kind in KINDS}
        self._open: Counter[str] = Counter()
        """How many occasions wait or are being looked at, by who is counted for them."""
        self._idle: anyio.Event | None = None
        self._dropped = 0

    async def load(self) -> None:
        """Read what is set up. Before the first call, so that what stands in place of a tool does so from the start.

        Raises:
            StateError: when it cannot be read.
        """
        async with self._loading:  # an older look must not take the place of a newer one
            self._kept = tuple(await to_thread.run_sync(all_triggers, self._store))
            self.around.now(self._kept)

    async def _fresh(self) -> None:
        """Notice what others set up. Asked before every call, so it costs next to nothing where nobody wrote.

        Raises:
            StateError: when it cannot be read.
        """
        now = self._store.changes()
        if now != self._seen:
            await self.load()
            self._seen = now

    def forget(self, id: str) -> None:
        """It was removed."""
        self._firing.forget(id)

    async def watch(self) -> None:
        """In every process: notice what others set up, and fire what is set off. Until cancelled."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            for kind in KINDS:
                for _ in range(_WORKERS):
                    tasks.start_soon(self._work, kind)
            while True:
                try:
                    await self._fresh()
                except MetierError as error:
                    _log.warning("triggers cannot be read: %s", error.message)
                except Exception:  # noqa: BLE001  those that were read go on; the next look may tell
                    _log.exception("triggers could not be read")
                await anyio.sleep(on_beat(_GLANCE))

    async def run(self) -> None:
        """In the host, beside `watch`: messages, events and the heartbeat. Until cancelled.

        It hears from its first step on, before it waits for anything: a message that nobody keeps counts as handled. So `load` comes before.
        """
        self._here = True
        with self._events.listening(self._heard):
            while True:
                await anyio.sleep(_BEAT)
                if any(map(_beats, self._kept)):
                    self._events.emit(HEARTBEAT, {})

    async def finish(self) -> None:
        """Do what was begun for messages, for a while; what is not done by then is left to who is the host next, and so is what was not
        begun. Nothing is done for a message once another may do it."""
        self._here = False
        with anyio.move_on_after(LAST_SECONDS):
            await self._none_left()
        for scope in tuple(self._messages):
            scope.cancel()
        await self._none_left()

    async def _none_left(self) -> None:
        if self._messages:
            self._quiet = anyio.Event()
            await self._quiet.wait()

    async def drain(self, seconds: float) -> None:
        """Wait until what was set off has fired, for so long at the most. For a process that is about to end."""
        if self._open.total():
            self._idle = anyio.Event()
            with anyio.move_on_after(seconds):
                await self._idle.wait()

    def would(self, occasion: Occasion) -> list[KeptTrigger]:
        """What an occasion would set off. Blocks."""
        return set_off(all_triggers(self._store), occasion)

    def _heard(self, happened: Happened) -> None:
        known = self._cause_of(call_in(happened))
        cause = happened.cause if happened.cause.root else known
        cause = replace(cause, firings=max(happened.depth, known.firings))
        if known.firings and happened.name == SENT:
            self._firing.guesses.still(chat_key(*chat_in(happened)))
        occasion = of_event(happened, cause)
        occasion = replace(occasion, rounds=self._rounds(occasion))
        among = tuple(each for each in self._kept if self._cares(each, occasion))
        if not among:
            return
        if occasion.message and self._inbox is not None:
            self._inbox.keep(occasion.message)
        self._put(Due(occasion, among, occasion.call or None))

    def _cares(self, kept: KeptTrigger, occasion: Occasion) -> bool:
        """Whether it may be told of it at all, and could be set off."""
        private = occasion.source == OURS and occasion.name in _OF_ITS_OWNER
        if private and kept.owner not in (self._owner, owner_in(occasion)):
            return False
        return _cares(kept, occasion)

    def _rounds(self, occasion: Occasion) -> int:
        """How many firings may lie behind it though nobody says so. Only skills do not say so."""
        guesses = self._firing.guesses
        if occasion.kind == "message":
            key = chat_key(occasion.channel, occasion.chat)
            return guesses.behind(key, age=time.time() - occasion.at) if occasion.by_skill else 0
        return 0 if occasion.source == OURS else guesses.behind(f"skill:{occasion.source}")

    def _put(self, due: Due) -> None:
        kind, counted = due.occasion.kind, due.occasion.counted
        if self._open[counted] >= _MOST_OF_ONE or self._open.total() >= _MOST_OPEN:
            self._dropped += 1
            if math.log2(self._dropped).is_integer():
                _log.error("%d occasions for triggers were left out: too much happens at once", self._dropped)
            self._take_up_later(due)
            return
        self._open[counted] += 1
        self._waiting[kind].append(due)
        self._ready[kind].release()

    def _take_up_later(self, due: Due) -> None:
        """A message stays with us until it is handled; everything else is let go of."""
        if due.occasion.message and self._tasks is not None:
            self._tasks.start_soon(self._again, replace(due, tries=due.tries + 1))

    async def _again(self, due: Due) -> None:
        await anyio.sleep(min(_PAUSE * 2 ** min(due.tries - 1, 8), _LONGEST_PAUSE))
        if self._here:
            self._put(due)

    async def _work(self, kind: str) -> None:
        while True:
            await self._ready[kind].acquire()
            due = self._waiting[kind].popleft()
            try:
                if due.occasion.message:
                    await self._handle(due)
                else:
                    await self._fire(due)
            except MetierError as error:  # the disk is full, or somebody holds the file
                _log.warning("triggers for %s: %s", one_line(due.occasion.name, 60), error.message)
                self._take_up_later(due)
            except Exception:  # noqa: BLE001  one occasion that fails must not keep all others from being heard
                _log.exception("triggers for %s failed", one_line(due.occasion.name, 60))
                if due.tries < _MOST_FAULTS:  # after that it is told again after the next start
                    self._take_up_later(due)
            finally:
                self._open -= Counter((due.occasion.counted,))
                if not self._open.total() and self._idle is not None:
                    self._idle.set()

    async def _fire(self, due: Due) -> bool:
        hit = await to_thread.run_sync(self.around.hit, due)
        return await fire_in_order(self._firing, self._store, hit, due.occasion, due.parent)

    async def _handle(self, due: Due) -> None:
        if not self._here:
            return  # it stays as it came in
        with anyio.CancelScope() as scope:
            self._messages.add(scope)
            try:
                await self._handled(due.occasion.message, decided=await self._fire(due))
            finally:
                self._messages.discard(scope)
                if not self._messages and self._quiet is not None:
                    self._quiet.set()

    async def _handled(self, message: int, *, decided: bool) -> None:
        if self._inbox is not None:
            await self._inbox.mark_handled(message)
        if decided:
            with suppress(MetierError):  # one row stays that nobody asks for any more
                await to_thread.run_sync(settled, self._store, message)


def _cares(kept: KeptTrigger, occasion: Occasion) -> bool:
    """Whether a message or an event could set it off. Costs next to nothing: no pattern is matched."""
    match kept.trigger:
        case None | ToolTrigger():
            return False
        case EventTrigger() as trigger:
            return (
                kept.enabled
                and means(trigger.sources, occasion.whose)
                and wanted(occasion.name, trigger.events)
            )
        case ConditionTrigger() as trigger:
            return kept.enabled and means(trigger.sources, occasion.whose)
        case _:
            return kept.enabled and occasion.kind == "message"


def _beats(kept: KeptTrigger) -> bool:
    """Whether it wants to hear of the heartbeat."""
    trigger = kept.trigger
    listens = isinstance(trigger, EventTrigger) and wanted(HEARTBEAT, trigger.events)
    return kept.enabled and (listens or isinstance(trigger, ConditionTrigger))
