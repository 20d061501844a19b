"""A trigger fires: a call like any other, by `agent:trigger/ID` on behalf of who set it up, and what is said of it afterwards.

The gate judges it as it judges every agent: who lost his right, or a skill that lost its trust, fires nothing, and the refusal is on
the record. What is not even tried (too often, too deep, the skill it came with is gone) is said where the trigger is listed.
"""

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, final

import anyio
from anyio import to_thread
from msgspec import Struct
from msgspec.structs import replace

from metier.catalog.catalog import Catalog
from metier.errors import StateError
from metier.gate.principals import TRIGGERED
from metier.kernel import trigger_store
from metier.kernel.behalf import Since, somebody_else
from metier.kernel.calling import Calls
from metier.kernel.events import Events
from metier.kernel.firing_call import bounded_call, firing_principal, results_of, told_of, was_judged
from metier.kernel.firing_guess import Guesses, chat_key
from metier.kernel.firing_rate import DEEPEST, MOST_ROUNDS, Often
from metier.kernel.firing_store import begun, earlier, ended, not_begun
from metier.kernel.store import Store
from metier.kernel.store_faults import is_broken
from metier.kernel.trigger import AnyTrigger, MessageTrigger
from metier.kernel.trigger_match import Occasion
from metier.kernel.trigger_names import internal
from metier.kernel.trigger_store import KeptTrigger
from metier.kernel.trigger_template import TooMuch, filled, plain, speaks_of
from metier.model.call import Cause, Surroundings
from metier.model.digest import Json
from metier.model.outcome import Completed
from metier.model.text import one_line

MOST_ATTEMPTS: Final = 3
"""Of handling one message that ends with the host being killed."""
SEND: Final = "channels.send_message"
_AGAIN: Final = 60.0
"""Seconds in which the same reason is written down once."""
_LAST_WORD: Final = 2.0
"""Seconds in which it can be written down that a firing was cut off."""
_CUT_OFF: Final = "cut off: its process ended, or who made the call went away"
_log: Final = logging.getLogger("metier.triggers")


@final
class Ended(Struct, frozen=True, kw_only=True):
    """What became of one firing."""

    fired: bool
    said: str
    call_id: str = ""
    context: str = ""
    """The text that was made of it."""


@final
class _NotJudged(Exception):
    """Nobody said no: the gate could not do its work. `said` is how that call ended."""

    def __init__(self, said: str) -> None:
        super().__init__(said)
        self.said = said


@final
class Firing:
    """Fires triggers. Belongs to one loop."""

    def __init__(
        self,
        *,
        store: Store,
        events: Events,
        calls: Calls,
        catalog: Callable[[], Catalog],
        skill_of: Callable[[str], str],
        since: Since,
    ) -> None:
        self._store = store
        self._events = events
        self._calls = calls
        self._catalog = catalog
        self._skill_of = skill_of
        self._since = since
        self._noted: dict[str, tuple[str, float]] = {}
        self._latest = 0.0
        self.guesses = Guesses()
        """Who works for firings."""

    async def fire(self, kept: KeptTrigger, occasion: Occasion, *, parent: str | None = None) -> Ended:
        """Fire it for this occasion, unless something speaks against it.

        Raises:
            StateError: when kernel.db cannot be read or written, or, for a message, when nobody could judge its call: then nothing was
                done, and it is as if it had never begun.
        """
        trigger = kept.trigger
        if trigger is None:
            return Ended(fired=False, said=kept.problem)
        tries, over = 0, False
        due = self._latest = max(
            time.time(), self._latest + 1e-6
        )  # no two alike: a firing is known by its moment
        if occasion.message:  # the same message may be told twice: after a crash
            due = float(occasion.message)
            tries, over = await to_thread.run_sync(earlier, self._store, kept.id, due)
        if over:
            return Ended(fired=False, said="this message was handled before")
        why = await self._somebody_else(kept) or self._against(kept, occasion, tries)
        if why:
            await self._note(kept, f"not fired: {why}")
            return Ended(fired=False, said=why)
        instead_of = occasion.message if trigger.timing == "instead" else 0
        often = Often(
            source=occasion.counted, cooldown=trigger.cooldown_ms / 1_000, per_minute=trigger.per_minute
        )
        number, why = await to_thread.run_sync(
            partial(begun, self._store, kept.id, due, tries + 1, often, instead_of=instead_of)
        )
        if not number:
            if why:
                await self._note(kept, f"not fired: {why}")
            return Ended(
                fired=False, said=why or "it was just disabled or removed, or somebody else fires it"
            )
        cause = replace(occasion.chain, by=kept.id)
        works = self.guesses.begin(self._working(trigger, occasion), occasion.rounds + 1)
        try:
            result = await self._do(kept, trigger, occasion, parent, cause)
        except anyio.get_cancelled_exc_class():
            if not occasion.message:  # a message is taken up again
                with anyio.move_on_after(_LAST_WORD, shield=True):
                    await to_thread.run_sync(ended, self._store, "trigger", kept.id, number, _CUT_OFF, "")
            raise
        except _NotJudged as error:
            await to_thread.run_sync(not_begun, self._store, number)
            await self._note(kept, f"waits: {error.said}")
            raise StateError(f"nobody could judge the call of the trigger {kept.id}: {error.said}") from None
        finally:
            self.guesses.end(works)
        await to_thread.run_sync(ended, self._store, "trigger", kept.id, number, result.said, result.call_id)
        self._events.emit(
            "triggers.fired",
            {
                "trigger": kept.id,
                "name": trigger.name,
                "owner": kept.owner,
                "outcome": result.said,
                "call_id": result.call_id,
                "context": result.context,
            },
            cause=cause,
        )
        return result

    async def still_theirs(self, some: Sequence[KeptTrigger]) -> list[KeptTrigger]:
        """Those of them whose owner is still the one who set them up; of the others it is said that they do nothing."""
        left: list[KeptTrigger] = []
        for each in some:
            if is_broken(each.owner):  # whose it is cannot be read, so it may still be his
                left.append(each)
            elif why := await self._somebody_else(each):
                await self._note(each, f"not fired: {why}")
            else:
                left.append(each)
        return left

    async def _somebody_else(self, kept: KeptTrigger) -> str:
        return somebody_else(kept.behalf, await to_thread.run_sync(self._since, kept.owner))

    def forget(self, id: str) -> None:
        """It was removed."""
        self._noted.pop(id, None)

    def _against(self, kept: KeptTrigger, occasion: Occasion, tries: int) -> str:
        """Why it is not even tried."""
        if occasion.cause.firings >= DEEPEST:
            return f"{DEEPEST} firings lie behind this already, one having set off the other"
        if occasion.rounds >= MOST_ROUNDS:
            return f"it went round {MOST_ROUNDS} times: what it calls tells what sets it off"
        if kept.skill:
            listed = self._catalog().get(kept.skill)
            if listed is None or listed.shown != "usable":
                state = "not there" if listed is None else listed.why or listed.shown
                return f"the skill {one_line(kept.skill, 60)!r} it came with cannot be used: {one_line(state, 120)}"
        if tries >= MOST_ATTEMPTS:
            return f"handling this message was begun {tries} times and never came to its end"
        return ""

    async def _do(
        self, kept: KeptTrigger, trigger: AnyTrigger, occasion: Occasion, parent: str | None, cause: Cause
    ) -> Ended:
        principal = firing_principal(f"{TRIGGERED[0]}{kept.id}", kept.owner)
        surroundings = Surroundings(
            channel=occasion.channel or None,
            session=f"{occasion.channel}/{occasion.chat}" if occasion.chat else None,
            caller_id=occasion.chat or None,
        )
        around: dict[str, Json] = {**occasion.around, "trigger": {"id": kept.id, "name": trigger.name}}
        missing: set[str] = set()
        call_id, told, good = "", "", True
        if trigger.called:
            try:
                arguments = filled(trigger.arguments, around, missing)
            except TooMuch as error:
                return Ended(fired=True, said=f"refused (invalid_arguments): {error}")
            outcome = await bounded_call(
                self._calls,
                principal,
                internal(self._catalog(), trigger.called),
                arguments if isinstance(arguments, dict) else {},
                seconds=trigger.timeout_ms / 1_000,
                parent=parent,
                surroundings=surroundings,
                cause=cause,
            )
            if occasion.message and not was_judged(outcome):
                raise _NotJudged(told_of(outcome))
            call_id, told = outcome.call_id, told_of(outcome)
            good = isinstance(outcome, Completed)
            around |= results_of(outcome)
        said = told or "completed"
        text = _text(trigger, around, missing, good=good)
        if text and (to := _where(trigger, occasion)):
            key = (
                f"{kept.id}:{occasion.message}"
                if occasion.message
                else f"{kept.id}:{call_id or time.time_ns()}"
            )
            sending: dict[str, Json] = {"channel": to[0], "chat_id": to[1], "text": text, "key": key}
            sent = await bounded_call(
                self._calls,
                principal,
                SEND,
                sending,
                seconds=trigger.timeout_ms / 1_000,
                parent=parent,
                surroundings=surroundings,
                cause=cause,
            )
            if occasion.message and not trigger.called and not was_judged(sent):
                raise _NotJudged(told_of(sent))
            said += ", sent" if isinstance(sent, Completed) else f"; the text was not sent: {told_of(sent)}"
        if missing:
            said += f"; nothing was there for {', '.join(sorted(missing))}"
        context = text if trigger.context_template else ""
        return Ended(fired=True, said=said, call_id=call_id, context=context)

    def _working(self, trigger: AnyTrigger, occasion: Occasion) -> frozenset[str]:
        """Who may tell something for this firing without saying so: the skill whose tool is called, the chat that is sent to, and
        the one a skill brought the message in from."""
        skill, slash, _ = internal(self._catalog(), trigger.called).rpartition("/")
        if not slash:
            skill = self._skill_of(trigger.called.partition(".")[0])
        who = {f"skill:{skill}"} if skill else set[str]()
        if occasion.by_skill:
            who.add(chat_key(occasion.channel, occasion.chat))
        if to := _where(trigger, occasion):
            who.add(chat_key(*to))
        return frozenset(who)

    async def _note(self, kept: KeptTrigger, why: str) -> None:
        """Said where it is listed; not once for each message of a flood."""
        text, at = self._noted.get(kept.id, ("", 0.0))
        if text == why and time.monotonic() - at < _AGAIN:
            return
        self._noted[kept.id] = (why, time.monotonic())
        _log.warning("trigger %s: %s", kept.id, why)
        await to_thread.run_sync(trigger_store.said, self._store, kept.id, why)


def _text(trigger: AnyTrigger, around: dict[str, Json], missing: set[str], *, good: bool) -> str:
    """What is to be sent. Nothing of a failure is told to a chat unless the template asks for it."""
    template = trigger.context_template
    if not good and not speaks_of(template, "error", "outcome"):
        return ""
    return plain(filled(template, around, missing)) if template else plain(around.get("result"))


def _where(trigger: AnyTrigger, occasion: Occasion) -> tuple[str, str] | None:
    """Channel and chat."""
    if trigger.send_to is not None:
        return trigger.send_to.channel, trigger.send_to.chat
    if isinstance(trigger, MessageTrigger) and trigger.replies and occasion.chat:
        return occasion.channel, occasion.chat
    return None
