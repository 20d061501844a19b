"""Hears what happens and has the triggers fired that it sets off: messages and events in the host, tool calls wherever they are made.

Nothing in here can loosen what the gate decides: a trigger can have something else done before, after or in place of a call, and the
call that it makes is judged like any other.
"""

import logging
import math
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol, final

import anyio
from anyio import to_thread
from msgspec import Struct

from metier.catalog.catalog import Catalog
from metier.errors import MetierError
from metier.gate.principals import TRIGGERED
from metier.kernel.calling import Calls
from metier.kernel.events import OURS, Events, Happened
from metier.kernel.firing import Ended, Firing, chat_of
from metier.kernel.store import Store
from metier.kernel.trigger import ConditionTrigger, EventTrigger, ToolTrigger
from metier.kernel.trigger_match import Occasion, Phase, means, set_off, wanted
from metier.kernel.trigger_occasion import RECEIVED, concerns, of_event, of_tool
from metier.kernel.trigger_store import KeptTrigger, all_triggers
from metier.model.call import ValidCall
from metier.model.outcome import Completed, Failed, Refused
from metier.model.text import one_line

KINDS: Final = ("message", "event", "tool")
HEARTBEAT: Final = "heartbeat_check"
_BEAT: Final = 60.0
_GLANCE: Final = 2.0
_WORKERS: Final = 8
"""For each kind of occasion: what a skill sets off does not hold up people's messages."""
_MOST_OPEN: Final = 10_000
_MOST_OF_ONE: Final = 1_000
"""Occasions of one source that may wait at one time."""
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
class _Due(Struct, frozen=True):
    occasion: Occasion
    parent: str | None = None
    by: tuple[str, str] = ("", "")


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
    ) -> None:
        self._store = store
        self._events = events
        self._owner = owner
        self._inbox = inbox
        self._firing = Firing(store=store, events=events, calls=calls, catalog=catalog, skill_of=skill_of)
        self._kept: tuple[KeptTrigger, ...] = ()
        self._on_tools = False
        self._waiting: dict[str, deque[_Due]] = {kind: deque() for kind in KINDS}
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
        self._kept = tuple(await to_thread.run_sync(all_triggers, self._store))
        self._on_tools = any(each.enabled and isinstance(each.trigger, ToolTrigger) for each in self._kept)

    def forget(self, id: str) -> None:
        """It was removed."""
        self._firing.forget(id)

    async def watch(self) -> None:
        """In every process: notice what others set up, and fire what is set off. Until cancelled."""
        async with anyio.create_task_group() as tasks:
            for kind in KINDS:
                for _ in range(_WORKERS):
                    tasks.start_soon(self._work, kind)
            seen = -1
            while True:
                try:
                    now = await to_thread.run_sync(self._store.changes)
                    if now != seen:
                        await self.load()
                        seen = now
                except MetierError as error:
                    _log.warning("triggers cannot be read: %s", error.message)
                await anyio.sleep(_GLANCE)

    async def run(self) -> None:
        """In the host, beside `watch`: messages, events and the heartbeat. Until cancelled.

        It hears from its first step on, before it waits for anything: a message that nobody keeps counts as handled. So `load` comes before.
        """
        with self._events.listening(self._heard):
            while True:
                await anyio.sleep(_BEAT)
                if any(map(_beats, self._kept)):
                    self._events.emit(HEARTBEAT, {})

    async def drain(self, seconds: float) -> None:
        """Wait until what was set off has fired, for so long at the most. For a process that is about to end."""
        if self._open.total():
            self._idle = anyio.Event()
            with anyio.move_on_after(seconds):
                await self._idle.wait()

    async def before(self, valid: ValidCall) -> Refused | None:
        """Fire what fires before a call, or in its place. Never raises but for cancellation."""
        if not self._on_tools or not concerns(valid):
            return None
        try:
            if valid.call.approval is None:  # else it was fired when the call was first made
                await self._fire_all(self._due(valid, "before"))
        except MetierError as error:  # what comes before a call does not decide about it
            _log.warning("triggers before %s: %s", valid.tool.name, error.message)
        due = self._due(valid, "instead")
        hit = await self._hit(due)
        if not hit:
            return None
        try:
            ended = await self._firing.fire(hit[0], due.occasion, parent=due.parent)
        except MetierError as error:
            ended = Ended(fired=False, said=error.message)
        # How that call ended is for who set the trigger up; who asked for this one may be somebody else.
        became = f"it has made its own call ({ended.call_id})" if ended.fired else "it did not fire this time"
        return Refused(
            call_id=valid.call.id,
            code="replaced",
            reasons=(f"{_in_place(hit[0], valid)}; {became}",),
            remedy="`metier triggers show` says what it does; its owner can disable it",
        )

    def after(self, valid: ValidCall, outcome: Completed | Failed) -> None:
        """Fire what fires after a call. Takes it at once."""
        if self._on_tools and concerns(valid):
            due = self._due(valid, "after", outcome)
            if any(self._may(each, due) for each in self._kept):
                self._put(due)

    def would(self, occasion: Occasion) -> list[KeptTrigger]:
        """What an occasion would set off. Blocks."""
        return set_off(all_triggers(self._store), occasion)

    def _heard(self, happened: Happened) -> None:
        chains = self._firing.chains
        depth, rounds = happened.depth, 0
        if happened.source != OURS:
            rounds = self._firing.guesses.behind(f"skill:{happened.source}")
        elif isinstance(told := happened.payload, dict) and happened.name != RECEIVED:
            depth = max(depth, chains.behind(str(told.get("principal"))))
            depth = max(depth, chains.behind(chat_of(told.get("channel"), told.get("chat"))))
        occasion = of_event(happened, depth, rounds)
        if not any(_cares(each, occasion) for each in self._kept):
            return
        if occasion.message and self._inbox is not None:
            self._inbox.keep(occasion.message)
        self._put(_Due(occasion, occasion.call or None))

    def _put(self, due: _Due) -> None:
        kind, counted = due.occasion.kind, due.occasion.counted
        if self._open[counted] >= _MOST_OF_ONE or self._open.total() >= _MOST_OPEN:
            # A message that is left out here was kept, and is told again after the next start.
            self._dropped += 1
            if math.log2(self._dropped).is_integer():
                _log.error("%d occasions for triggers were left out: too much happens at once", self._dropped)
            return
        self._open[counted] += 1
        self._waiting[kind].append(due)
        self._ready[kind].release()

    async def _work(self, kind: str) -> None:
        while True:
            await self._ready[kind].acquire()
            due = self._waiting[kind].popleft()
            try:
                await self._fire_all(due)
                if due.occasion.message and self._inbox is not None:
                    await self._inbox.mark_handled(due.occasion.message)
            except MetierError as error:  # a message is not marked, so it is told again after the next start
                _log.warning("triggers for %s: %s", one_line(due.occasion.name, 60), error.message)
            except Exception:  # noqa: BLE001  one occasion that fails must not keep all others from being heard
                _log.exception("triggers for %s failed", one_line(due.occasion.name, 60))
            finally:
                self._open -= Counter((due.occasion.counted,))
                if not self._open.total() and self._idle is not None:
                    self._idle.set()

    async def _fire_all(self, due: _Due) -> None:
        """Fire what is set off.

        Raises:
            StateError: when one could not be fired because the file cannot be used; the others were.
        """
        trouble: MetierError | None = None
        for each in await self._hit(due):
            try:
                ended = await self._firing.fire(each, due.occasion, parent=due.parent)
            except MetierError as error:
                trouble = error
                continue
            trigger = each.trigger
            if (
                ended.fired
                and due.occasion.kind != "tool"
                and trigger is not None
                and trigger.timing == "instead"
            ):
                break  # it stands in place of those after it
        if trouble is not None:
            raise trouble

    async def _hit(self, due: _Due) -> list[KeptTrigger]:
        some = [each for each in self._kept if self._may(each, due)]
        return await to_thread.run_sync(set_off, some, due.occasion) if some else []

    def _may(self, kept: KeptTrigger, due: _Due) -> bool:
        """Whether it is worth a closer look, and about something that who set it up may know of."""
        if due.occasion.kind != "tool":
            return _cares(kept, due.occasion)
        return _on_tool(kept, due.occasion.name, due.occasion.phase, due.by, self._owner)

    def _due(self, valid: ValidCall, phase: Phase, outcome: Completed | Failed | None = None) -> _Due:
        principal = valid.call.principal
        by = (principal.id, principal.on_behalf_of or "")
        depth = max(map(self._firing.chains.behind, by))
        rounds = self._firing.guesses.behind(principal.id)
        return _Due(of_tool(valid, phase, outcome, depth, rounds), valid.call.id, by)


def _cares(kept: KeptTrigger, occasion: Occasion) -> bool:
    """Whether a message or an event could set it off. Costs next to nothing: no pattern is matched."""
    match kept.trigger:
        case None | ToolTrigger():
            return False
        case EventTrigger() as trigger:
            return (
                kept.enabled
                and means(trigger.sources, occasion.source)
                and wanted(occasion.name, trigger.events)
            )
        case ConditionTrigger() as trigger:
            return kept.enabled and means(trigger.sources, occasion.source)
        case _:
            return kept.enabled and occasion.kind == "message"


def in_place_of(kept: Sequence[KeptTrigger], valid: ValidCall, owner: str) -> str:
    """What stands in place of a call, in a sentence; empty where nothing does. For who explains a call that is not made."""
    by = (valid.call.principal.id, valid.call.principal.on_behalf_of or "")
    if not concerns(valid):
        return ""
    hit = (each for each in kept if _on_tool(each, valid.tool.name, "instead", by, owner))
    return next((_in_place(each, valid) for each in hit), "")


def _in_place(kept: KeptTrigger, valid: ValidCall) -> str:
    return f"the trigger {one_line(kept.name, 60)!r} ({kept.id}) stands in place of {valid.tool.name!r}"


def _on_tool(kept: KeptTrigger, tool: str, phase: Phase, by: tuple[str, str], owner: str) -> bool:
    """Whether a call of `tool` by those sets it off: never what it does itself, and only what who set it up may know of."""
    trigger = kept.trigger
    if not kept.enabled or not isinstance(trigger, ToolTrigger) or f"{TRIGGERED[0]}{kept.id}" in by:
        return False
    mine = kept.owner == owner or kept.owner in by
    return mine and phase in trigger.phases and wanted(tool, trigger.tool_names)


def _beats(kept: KeptTrigger) -> bool:
    """Whether it wants to hear of the heartbeat."""
    trigger = kept.trigger
    listens = isinstance(trigger, EventTrigger) and wanted(HEARTBEAT, trigger.events)
    return kept.enabled and (listens or isinstance(trigger, ConditionTrigger))
