"""One life of a skill: what it registered, what it is doing, and how it is asked. Ends with the run; the next life is another one."""

import re
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, final

import anyio
from anyio import to_thread
from msgspec.structs import replace

from metier.kernel.behalf import Behalf
from metier.kernel.events import NO_CAUSE, OURS, Events, Happened
from metier.kernel.modules import NOT_READY, Modules
from metier.kernel.operation import Asked, OperationError
from metier.kernel.resident_events import Hearing
from metier.kernel.resident_words import Words
from metier.kernel.skill_record import keep_module, state_get, state_set
from metier.kernel.store import Store
from metier.model.call import Cause
from metier.model.digest import Json
from metier.model.ports import Answered, NotAnswered, Operate
from metier.model.skill import Limits, Skill

OPERATION_SECONDS: Final = 30.0
"""What one operation may take. One that takes longer has its skill started anew."""
DISABLE_SECONDS: Final = 10.0
MODULE_DISABLED: Final = "E_SKILLS_MODULE_DISABLED"
_MOST_EVENTS: Final = 50.0
_BURST: Final = 100.0
_CODE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}", re.ASCII)
_LONGEST_MESSAGE: Final = 500
_MOST_CAUSES: Final = 1_024


@final
class Resident:
    """Belongs to one loop. The sandbox tells it when the skill is ready; its services tell it what the skill asks."""

    def __init__(
        self,
        skill: Skill,
        by: Behalf,
        store: Store,
        modules: Modules,
        events: Events,
        end: Callable[[str, str], None],
        words: Words,
    ) -> None:
        """`end` ends the run of a call, and is told why. `words` hides secrets in what the skill says."""
        self.skill = skill
        self.by = by
        """On whose behalf it lives."""
        self.began = anyio.Event()
        """It was enabled and answers."""
        self.call_id = ""
        self.digest = ""
        """Of the bytes that live."""
        self.fault = ""
        """Why it was ended from here; empty when it was not."""
        self.outdated = ""
        """Why it is not of what is trusted now; empty while it is."""
        self.late = False
        """It was ended because an operation hung."""
        self._store = store
        self._modules = modules
        self._events = events
        self._end = end
        self._words = words
        self._operate: Operate | None = None
        self._open: dict[str, int] = {}
        """How deep each operation is that it does now, by call, and each event that it is told of."""
        self._heard: set[str] = set()
        """Those of them that are events."""
        self._causes: OrderedDict[str, Cause] = OrderedDict()
        """By the last of those that were set off by something: what they are the cause of may come long after they ended."""
        self._hearing = Hearing(skill.name)
        self._told = 0
        self._tokens = _BURST
        self._counted_at = time.monotonic()
        self._over = False

    # --- what the sandbox tells

    def ready(self, operate: Operate) -> None:
        """It was enabled."""
        self._operate = operate
        self.began.set()

    def over(self) -> None:
        """It ended, however it did: what it registered is gone at once."""
        self.withdraw()
        self._operate = None

    def withdraw(self) -> None:
        """Nobody asks it for anything any more, and it registers nothing."""
        self._over = True
        self._modules.unregister(self.skill.name)

    # --- what the skill asks

    def depth_in(self, inside: str) -> int:
        """How deep a call is that it makes now: one deeper than the operation it says that it is part of. That counts only while it
        does that operation; else it may be part of any, and counts as of the deepest."""
        deepest = max(self._open.values(), default=0)
        return self._open.get(inside, deepest) + 1

    def cause_in(self, inside: str) -> Cause:
        """What set off what it does now, as far as it says which operation or event that is part of, also where that ended. Of what
        it says nothing about, only that it worked for a firing a moment ago is known (`Firing.guesses`)."""
        return self._causes.get(inside, NO_CAUSE)

    async def register(
        self, name: str, operations: Sequence[str], *, hears: bool = False
    ) -> NotAnswered | None:
        """Have it answer for a module. What is asked for next finds it there, also before others can know. One that `hears` is told of
        events, and need not answer for anything."""
        if self._over:
            return NotAnswered(name="Gone", message="The life of this skill is over")
        if hears and not operations:
            self._hearing.wanted = True
            return None
        try:
            # Its own time is kept by us: the call must not end before the skill was asked in vain.
            limits = Limits(timeout=OPERATION_SECONDS)
            self._modules.register(self.skill.name, name, tuple(operations), self._does, limits)
        except OperationError as error:
            return NotAnswered(name=error.code, message=error.message)
        self._hearing.wanted = self._hearing.wanted or hears
        skill = self.skill.name
        kept = self._modules.kept_for(skill)
        await to_thread.run_sync(keep_module, self._store, skill, name, tuple(operations), kept)
        return None

    def emit(self, name: str, payload: Json, inside: str) -> NotAnswered | None:
        """Tell everybody, as this skill; `inside` is the operation or the event that it says this is part of."""
        if (
            self.skill.name == OURS
        ):  # no skill is read that is called so; what it told would be taken for our own word
            return NotAnswered(name="Refused", message="A skill of this name tells nobody anything")
        now = time.monotonic()
        self._tokens = min(_BURST, self._tokens + (now - self._counted_at) * _MOST_EVENTS)
        self._counted_at = now
        if self._tokens < 1:
            return NotAnswered(name="Busy", message=f"More than {_MOST_EVENTS:g} events a second; slow down")
        self._tokens -= 1
        cause, depth = self.cause_in(inside), self._firings_in(inside)
        self._events.emit(name, payload, source=self.skill.name, depth=depth, cause=cause)
        return None

    def _firings_in(self, inside: str) -> int:
        """How many firings and events lie behind what it tells now, one having set off the other. How deep a call lies is another
        matter: a person's call may have others made inside of it. What it says to be part of something that it does not do now is
        part of no less than what it is being told of."""
        named = self.cause_in(inside).firings
        if inside in self._open:
            return named
        return max(named, *(self.cause_in(each).firings for each in self._heard), 0)

    def _caused(self, inside: str, cause: Cause) -> None:
        if cause.firings:
            self._causes[inside] = cause
            if len(self._causes) > _MOST_CAUSES:
                self._causes.popitem(last=False)

    async def state_get(self, key: str) -> Answered | NotAnswered:
        """What it kept."""
        try:
            return Answered(value=await to_thread.run_sync(state_get, self._store, self.skill.name, key))
        except OperationError as error:
            return NotAnswered(name=error.code, message=error.message)

    async def state_set(self, key: str, value: Json) -> Answered | NotAnswered:
        """Keep something for it."""
        try:
            await to_thread.run_sync(state_set, self._store, self.skill.name, key, value)
        except OperationError as error:
            return NotAnswered(name=error.code, message=error.message)
        return Answered()

    # --- what it is asked

    async def disable(self, seconds: float = DISABLE_SECONDS) -> str:
        """Have it end by itself; why it did not do so well, where it did not."""
        if self._operate is None:
            return ""
        answer = await self._operate({"life": "disable"}, seconds)
        match answer:
            case NotAnswered(name="TimedOut"):
                return f"onDisable did not return within {seconds:g} s, so it was ended"
            case NotAnswered(name="Gone"):
                return ""
            case NotAnswered(name=name, message=message):
                return await self._words.shown(self.skill, f"onDisable failed: {name}: {message}", 300)
            case Answered():
                return ""

    async def hear(self) -> None:
        """Tell its modules what happens, for as long as it lives."""
        await self.began.wait()
        with self._events.listening(self._hearing.take):
            await self._hearing.run(self._tell)

    async def _tell(self, happened: Happened) -> None:
        """What becomes of it changes nothing for anybody else."""
        operate = self._operate
        if operate is None:
            return
        self._told += 1
        inside = f"event_{self._told}"
        self._open[inside] = happened.depth
        self._heard.add(inside)
        self._caused(inside, replace(happened.cause, firings=happened.depth + 1))
        try:
            meta: dict[str, Json] = {"source": happened.source, "at": happened.at}
            told: dict[str, Json] = {
                "event": happened.name,
                "payload": happened.payload,
                "meta": meta,
                "inside": inside,
            }
            answer = await operate(told, OPERATION_SECONDS)
        finally:
            del self._open[inside]
            self._heard.discard(inside)
        match answer:
            case Answered():
                return
            case NotAnswered(name="Hung"):
                self._hangs()
            case NotAnswered(name="TimedOut"):  # another try would be as late, and take another of its turns
                self._hearing.end(f"it did not take {happened.name} within {OPERATION_SECONDS:g} s")
            case NotAnswered():
                self._hearing.lost(f"it failed on {happened.name}; `metier calls log` of its life says how")

    async def _does(self, asked: Asked) -> Json:
        """One operation of a module that it registered."""
        name = f"{asked.module}.{asked.operation}"
        operate = self._operate
        if operate is None:
            raise OperationError(
                NOT_READY, f"{name}: the skill {self.skill.name} is not ready; `skills.info` says why"
            )
        self._open[asked.call_id] = asked.depth
        self._caused(asked.call_id, asked.cause)
        try:
            # Who asks is what the gate knows, whatever else was sent along.
            meta: dict[str, Json] = {"actor": asked.principal.id, "call_id": asked.call_id}
            if asked.surroundings.channel is not None:
                meta["channel"] = asked.surroundings.channel
            params: dict[str, Json] = {
                "module": asked.module,
                "op": asked.operation,
                "params": asked.arguments,
                "meta": meta,
            }
            answer = await operate(params, OPERATION_SECONDS)
        finally:
            self._open.pop(asked.call_id, None)
        match answer:
            case Answered(value=value):
                return value
            case NotAnswered(name="TimedOut"):
                why = f"{name} did not answer within {OPERATION_SECONDS:g} s"
                self._is_late(why)
                raise OperationError("TimedOut", f"{why}; the skill {self.skill.name} is started anew")
            case NotAnswered(name="Hung"):
                why = self._hangs()
                raise OperationError(
                    NOT_READY,
                    f"{name} was not asked: {why}; the skill {self.skill.name} is started anew, ask again",
                )
            case NotAnswered(name="Gone"):
                raise OperationError(
                    MODULE_DISABLED, f"{name}: the skill {self.skill.name} ended before it answered"
                )
            case NotAnswered(name=code, message=message):
                kept = code if _CODE.fullmatch(code) else "Error"
                raise OperationError(kept, await self._words.shown(self.skill, message, _LONGEST_MESSAGE))

    def _hangs(self) -> str:
        """It never answered something that nobody waits for any more, and that holds one of its turns. Why, in words."""
        why = f"an operation that was given up did not answer within {OPERATION_SECONDS:g} s"
        self._is_late(why)
        return why

    def _is_late(self, why: str) -> None:
        self.late = True
        self.stop(f"{why}, so the skill was started anew")

    def stop(self, why: str) -> None:
        """End it from here."""
        self.fault = self.fault or why
        self._end(self.call_id, "metier")
