"""A trigger fires: a call like any other, by `agent:trigger/ID` on behalf of who set it up, and what is said of it afterwards.

The gate judges it as it judges every agent: who lost his right, or a skill that lost its trust, fires nothing, and the refusal is on
the record. What is not even tried (too often, too deep, the skill it came with is gone) is said where the trigger is listed.
"""

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Final, final

import anyio
from anyio import to_thread
from msgspec import Struct

from metier.catalog.catalog import Catalog
from metier.errors import MetierError
from metier.gate.principals import TRIGGERED
from metier.kernel import trigger_store
from metier.kernel.calling import Calls
from metier.kernel.events import Events
from metier.kernel.firing_rate import DEEPEST, MOST_ROUNDS, Guesses, Rates
from metier.kernel.firing_store import begun, earlier, ended
from metier.kernel.store import Store
from metier.kernel.trigger import AnyTrigger, MessageTrigger
from metier.kernel.trigger_match import Occasion
from metier.kernel.trigger_store import KeptTrigger
from metier.kernel.trigger_template import TooMuch, filled, plain
from metier.model.call import Cause, Principal, Surroundings
from metier.model.digest import Json
from metier.model.outcome import Completed, Failed, Outcome, Pending, Refused
from metier.model.text import one_line

MOST_ATTEMPTS: Final = 3
"""Of handling one message that ends with the host being killed."""
SEND: Final = "channels.send_message"
_ROLES: Final = frozenset({"agent"})
_AGAIN: Final = 60.0
"""Seconds in which the same reason is written down once."""
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
    ) -> None:
        self._store = store
        self._events = events
        self._calls = calls
        self._catalog = catalog
        self._skill_of = skill_of
        self._rates = Rates()
        self._noted: dict[str, tuple[str, float]] = {}
        self._latest = 0.0
        self.guesses = Guesses()
        """Which skills work for firings."""

    async def fire(self, kept: KeptTrigger, occasion: Occasion, *, parent: str | None = None) -> Ended:
        """Fire it for this occasion, unless something speaks against it.

        Raises:
            StateError: when kernel.db cannot be read or written.
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
        why = self._against(kept, trigger, occasion, tries)
        if why:
            await self._note(kept, f"not fired: {why}")
            return Ended(fired=False, said=why)
        instead_of = occasion.message if trigger.timing == "instead" else 0
        number = await to_thread.run_sync(
            partial(begun, self._store, kept.id, due, tries + 1, instead_of=instead_of)
        )
        if not number:
            return Ended(fired=False, said="it was just disabled or removed, or somebody else fires it")
        cause = occasion.chain
        skills = self._working(trigger.called)
        self.guesses.begin(skills, occasion.rounds + 1)
        try:
            result = await self._do(kept, trigger, occasion, parent, cause)
        finally:
            self.guesses.end(skills, occasion.rounds + 1)
        await to_thread.run_sync(ended, self._store, "trigger", kept.id, number, result.said, result.call_id)
        self._events.emit(
            "triggers.fired",
            {
                "trigger": kept.id,
                "name": trigger.name,
                "outcome": result.said,
                "call_id": result.call_id,
                "context": result.context,
            },
            cause=cause,
        )
        return result

    def forget(self, id: str) -> None:
        """It was removed."""
        self._rates.forget(id)
        self._noted.pop(id, None)

    def _against(self, kept: KeptTrigger, trigger: AnyTrigger, occasion: Occasion, tries: int) -> str:
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
        if tries:
            return ""  # it was counted when it was first tried
        return self._rates.refused(
            kept.id,
            occasion.counted,
            cooldown=trigger.cooldown_ms / 1_000,
            per_minute=trigger.per_minute,
            last_fired=kept.last_fired,
        )

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
                trigger.called,
                arguments if isinstance(arguments, dict) else {},
                seconds=trigger.timeout_ms / 1_000,
                parent=parent,
                surroundings=surroundings,
                cause=cause,
            )
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
            said += ", sent" if isinstance(sent, Completed) else f"; the text was not sent: {told_of(sent)}"
        if missing:
            said += f"; nothing was there for {', '.join(sorted(missing))}"
        context = text if trigger.context_template else ""
        return Ended(fired=True, said=said, call_id=call_id, context=context)

    def _working(self, tool: str) -> tuple[str, ...]:
        """The skill that works for a call of `tool`."""
        skill, slash, _ = tool.rpartition("/")
        if not slash:
            skill = self._skill_of(tool.partition(".")[0])
        return (f"skill:{skill}",) if skill else ()

    async def _note(self, kept: KeptTrigger, why: str) -> None:
        """Said where it is listed; not once for each message of a flood."""
        text, at = self._noted.get(kept.id, ("", 0.0))
        if text == why and time.monotonic() - at < _AGAIN:
            return
        self._noted[kept.id] = (why, time.monotonic())
        _log.warning("trigger %s: %s", kept.id, why)
        await to_thread.run_sync(trigger_store.said, self._store, kept.id, why)


def firing_principal(id: str, owner: str) -> Principal:
    """What fires by itself, for who set it up."""
    return Principal(id=id, kind="agent", on_behalf_of=owner, roles=_ROLES)


async def bounded_call(
    calls: Calls,
    principal: Principal,
    tool: str,
    arguments: dict[str, Json],
    *,
    seconds: float,
    parent: str | None = None,
    surroundings: Surroundings,
    cause: Cause | None = None,
) -> Outcome:
    """How the call ended; it is ended itself once its time is up."""
    try:
        with anyio.fail_after(seconds):
            return await calls.call(
                principal,
                tool,
                arguments,
                parent=parent,
                surroundings=surroundings,
                unattended=True,
                cause=cause,
            )
    except TimeoutError:
        return Failed(
            call_id="", code="timed_out", message=f"it took longer than {seconds:g} s and was ended"
        )
    except MetierError as error:
        return Failed(call_id="", code="internal", message=error.message)


def told_of(outcome: Outcome) -> str:
    """How a call ended, in one line."""
    match outcome:
        case Completed():
            return "completed"
        case Pending():
            return f"waits for an approval ({outcome.approval_id})"
        case Refused():
            return f"refused ({outcome.code}): {one_line('; '.join(outcome.reasons), 200)}"
        case Failed():
            return f"failed ({outcome.code}): {one_line(outcome.message, 200)}"


def results_of(outcome: Outcome) -> dict[str, Json]:
    """What templates can say of it."""
    if isinstance(outcome, Completed):
        return {"result": outcome.value, "outcome": "completed", "error": ""}
    word = (
        "pending" if isinstance(outcome, Pending) else "refused" if isinstance(outcome, Refused) else "failed"
    )
    return {"result": "", "outcome": word, "error": told_of(outcome)}


def _text(trigger: AnyTrigger, around: dict[str, Json], missing: set[str], *, good: bool) -> str:
    """What is to be sent. Nothing of a failure is told to a chat unless the template asks for it."""
    template = trigger.context_template
    if (
        not good
        and "{{error" not in template.replace(" ", "")
        and "{{outcome" not in template.replace(" ", "")
    ):
        return ""
    return plain(filled(template, around, missing)) if template else plain(around.get("result"))


def _where(trigger: AnyTrigger, occasion: Occasion) -> tuple[str, str] | None:
    """Channel and chat."""
    if trigger.send_to is not None:
        return trigger.send_to.channel, trigger.send_to.chat
    if isinstance(trigger, MessageTrigger) and trigger.replies and occasion.chat:
        return occasion.channel, occasion.chat
    return None
