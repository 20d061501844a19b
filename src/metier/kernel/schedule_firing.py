"""A schedule fires: calls by `agent:schedule/ID` on behalf of who set it up, tried again where they fail, and then somebody is told."""

import logging
import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, final, get_args

import anyio
from anyio import to_thread
from msgspec.structs import replace

from metier.catalog.catalog import Catalog
from metier.errors import MetierError
from metier.gate.principals import TRIGGERED
from metier.kernel.behalf import Since, never, somebody_else
from metier.kernel.calling import Calls
from metier.kernel.events import Events
from metier.kernel.firing_call import bounded_call, firing_principal, told_of
from metier.kernel.schedule import AnySchedule, Notice
from metier.kernel.schedule_attempts import REMOVED, Attempt, begun, ended
from metier.kernel.schedule_clock import why_not
from metier.kernel.schedule_notice import Teller
from metier.kernel.schedule_store import KeptSchedule
from metier.kernel.store import Store
from metier.kernel.trigger_names import internal
from metier.kernel.trigger_template import TooMuch, filled
from metier.model.call import Cause, Principal, Surroundings
from metier.model.digest import Json
from metier.model.outcome import Completed, Failed, Outcome, RefusalCode, Refused
from metier.model.text import one_line

_FINAL: Final = frozenset({*get_args(RefusalCode), "pending_approval", "E_AGENT_FORBIDDEN"})
_log: Final = logging.getLogger("metier.schedules")


@final
class ScheduleFiring:
    """Belongs to one loop."""

    def __init__(
        self,
        *,
        store: Store,
        events: Events,
        calls: Calls,
        catalog: Callable[[], Catalog],
        teller: Teller,
        since: Since = never,
    ) -> None:
        self._store = store
        self._events = events
        self._calls = calls
        self._catalog = catalog
        self._teller = teller
        self._since = since
        self._unwritten: dict[tuple[str, float, int], Attempt] = {}

    async def fire(self, kept: KeptSchedule, schedule: AnySchedule, due: float) -> None:
        """Do what is due and was claimed."""
        told = schedule.notifications
        if why := await self.of_another(kept):  # nobody is told either: that would be done on his behalf
            await self._end(kept, due, f"skipped: {why}", "", ())
            return
        if why := self._against(kept) or why_not(
            schedule.conditions, due, os.environ.get("METIER_ENVIRONMENT", "")
        ):
            await self.skip(kept, schedule, due, why)
            return
        for attempt in range(1, schedule.retry_count + 2):
            outcome = await self.call(kept, schedule, due)
            said = told_of(outcome)
            if attempt > schedule.retry_count or not _worth_another(outcome):
                notices = told.on_success if isinstance(outcome, Completed) else told.on_failure
                await self._end(kept, due, said, outcome.call_id, notices, attempt)
                return
            await self.write(_attempt(kept, due, attempt, said, outcome.call_id, again=True))
            await anyio.sleep(schedule.retry_delay_ms / 1_000)
            stranger = await self.of_another(kept)
            if why := stranger or self._against(kept) or await self._begun(kept, due, attempt + 1):
                if why == REMOVED:
                    return
                notices = () if stranger else told.on_failure
                said = f"not tried again: {why}; before that: {said}"
                await self._end(kept, due, said, outcome.call_id, notices, attempt + 1)
                return

    async def skip(self, kept: KeptSchedule, schedule: AnySchedule, due: float, why: str) -> None:
        """It was due and is not done, and whoever wants to know is told."""
        await self._end(kept, due, f"skipped: {why}", "", schedule.notifications.on_skip)

    async def cut_off(self, kept: KeptSchedule, schedule: AnySchedule, found: Attempt) -> None:
        """It was never known to be over, and whoever wants to know is told."""
        if not await self.of_another(kept):
            await self._tell(kept, found, schedule.notifications.on_failure)

    async def write(self, done: Attempt) -> None:
        """Write down how an attempt ended. Where that cannot be done now it is not lost: see `catch_up`."""
        self._unwritten[done.schedule, done.due, done.number] = done
        await self.catch_up()

    async def catch_up(self) -> None:
        """Write down what could not be written yet. There is little of it: what cannot be claimed in the file is not begun."""
        for key, done in [*self._unwritten.items()]:
            try:
                await to_thread.run_sync(ended, self._store, done)
            except MetierError as error:
                _log.warning("schedule %s: how it went cannot be written yet: %s", key[0], error.message)
                return
            if self._unwritten.get(key) is done:
                del self._unwritten[key]

    async def of_another(self, kept: KeptSchedule) -> str:
        """Why it acts for nobody: its owner is not the one any more who set it up."""
        try:
            since = await to_thread.run_sync(self._since, kept.owner)
        except MetierError as error:
            shown = one_line(kept.owner, 60)
            return (
                f"it cannot be known whether {shown} is still who set it up: {one_line(error.message, 120)}"
            )
        return somebody_else(kept.behalf, since)

    async def call(
        self, kept: KeptSchedule, schedule: AnySchedule, due: float, *, parent: str | None = None
    ) -> Outcome:
        """The one call of an attempt."""
        around: dict[str, Json] = {
            "schedule": {"id": kept.id, "name": schedule.name, "due": _iso(due), "last": kept.last_outcome}
        }
        try:
            arguments = filled(schedule.arguments, around, set())
        except TooMuch as error:
            return Refused(call_id="", code="invalid_arguments", reasons=(str(error),))
        return await bounded_call(
            self._calls,
            _principal(kept),
            internal(self._catalog(), schedule.called),
            arguments if isinstance(arguments, dict) else {},
            seconds=schedule.timeout_ms / 1_000,
            parent=parent,
            surroundings=Surroundings(),
            cause=_cause(kept),
        )

    def _against(self, kept: KeptSchedule) -> str:
        if not kept.skill:
            return ""
        listed = self._catalog().get(kept.skill)
        if listed is not None and listed.shown == "usable":
            return ""
        state = "not there" if listed is None else listed.why or listed.shown
        return f"the skill {one_line(kept.skill, 60)!r} it came with cannot be used: {one_line(state, 120)}"

    async def _begun(self, kept: KeptSchedule, due: float, attempt: int) -> str:
        """Why it must not be tried again."""
        try:
            return await to_thread.run_sync(begun, self._store, kept.id, due, attempt)
        except MetierError as error:
            return f"it cannot be looked at: {one_line(error.message, 120)}"

    async def _end(
        self,
        kept: KeptSchedule,
        due: float,
        said: str,
        call_id: str,
        notices: tuple[Notice, ...],
        attempt: int = 1,
    ) -> None:
        done = _attempt(kept, due, attempt, said, call_id)
        await self.write(done)
        await self._tell(kept, done, notices)

    async def _tell(self, kept: KeptSchedule, done: Attempt, notices: tuple[Notice, ...]) -> None:
        about: dict[str, Json] = {
            "schedule": kept.id, "name": kept.name, "due": _iso(done.due), "outcome": done.said,
            "call_id": done.call_id,
        }  # fmt: skip
        self._events.emit("schedules.fired", {**about, "owner": kept.owner}, cause=_cause(kept))
        if problems := await self._teller.tell(notices, _principal(kept), about, _cause(kept)):
            await self.write(replace(done, said=f"{done.said}; {'; '.join(problems)}"))


def _attempt(
    kept: KeptSchedule, due: float, number: int, said: str, call_id: str, *, again: bool = False
) -> Attempt:
    return Attempt(schedule=kept.id, due=due, number=number, said=said, call_id=call_id, again=again)


def _worth_another(outcome: Outcome) -> bool:
    """Whether to try again can help. What was refused, or waits for somebody's word, further inside is told as a failure of what it
    was inside of, and stays refused."""
    if not isinstance(outcome, Failed) or outcome.code == "violation":
        return False
    code = outcome.value.get("code") if isinstance(outcome.value, dict) else None
    return code not in _FINAL


def _principal(kept: KeptSchedule) -> Principal:
    return firing_principal(f"{TRIGGERED[1]}{kept.id}", kept.owner)


def _cause(kept: KeptSchedule) -> Cause:
    return Cause(firings=1, root=f"the schedule {kept.id}")


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
