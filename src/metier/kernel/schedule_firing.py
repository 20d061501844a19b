"""A schedule fires: calls by `agent:schedule/ID` on behalf of who set it up, tried again where they fail, and then somebody is told."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import final

import anyio
from anyio import to_thread

from metier.catalog.catalog import Catalog
from metier.gate.principals import TRIGGERED
from metier.kernel.calling import Calls
from metier.kernel.events import Events
from metier.kernel.firing import bounded_call, firing_principal, told_of
from metier.kernel.firing_store import ended
from metier.kernel.schedule import AnySchedule, Notice
from metier.kernel.schedule_clock import why_not
from metier.kernel.schedule_notice import Teller
from metier.kernel.schedule_store import KeptSchedule, tried_again
from metier.kernel.store import Store
from metier.kernel.trigger_template import TooMuch, filled
from metier.model.call import Cause, Principal, Surroundings
from metier.model.digest import Json
from metier.model.outcome import Completed, Failed, Outcome, Refused
from metier.model.text import one_line


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
    ) -> None:
        self._store = store
        self._events = events
        self._calls = calls
        self._catalog = catalog
        self._teller = teller

    async def fire(self, kept: KeptSchedule, schedule: AnySchedule, due: float, number: int) -> None:
        """Do what is due, under the firing that was claimed.

        Raises:
            StateError: when kernel.db cannot be written.
        """
        told = schedule.notifications
        if why := self._against(kept) or why_not(
            schedule.conditions, due, os.environ.get("METIER_ENVIRONMENT", "")
        ):
            await self._end(kept, due, number, f"skipped: {why}", "", told.on_skip)
            return
        for attempt in range(1, schedule.retry_count + 2):
            outcome = await self.call(kept, schedule, due)
            said = told_of(outcome)
            failed = isinstance(outcome, Failed) and outcome.code != "violation"
            if not failed or attempt > schedule.retry_count:
                notices = told.on_success if isinstance(outcome, Completed) else told.on_failure
                await self._end(kept, due, number, said, outcome.call_id, notices)
                return
            await to_thread.run_sync(
                ended, self._store, "schedule", kept.id, number, f"{said}; it is tried again", outcome.call_id
            )
            await anyio.sleep(schedule.retry_delay_ms / 1_000)
            if self._against(kept):  # its skill lost its trust meanwhile
                return
            number = await to_thread.run_sync(tried_again, self._store, kept.id, due, attempt + 1)
            if not number:
                return

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
            schedule.called,
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

    async def _end(
        self,
        kept: KeptSchedule,
        due: float,
        number: int,
        said: str,
        call_id: str,
        notices: tuple[Notice, ...],
    ) -> None:
        await to_thread.run_sync(ended, self._store, "schedule", kept.id, number, said, call_id)
        about: dict[str, Json] = {
            "schedule": kept.id, "name": kept.name, "due": _iso(due), "outcome": said, "call_id": call_id,
        }  # fmt: skip
        self._events.emit("schedules.fired", about, cause=_cause(kept))
        if problems := await self._teller.tell(notices, _principal(kept), about, _cause(kept)):
            told = f"{said}; {'; '.join(problems)}"
            await to_thread.run_sync(ended, self._store, "schedule", kept.id, number, told, call_id)


def _principal(kept: KeptSchedule) -> Principal:
    return firing_principal(f"{TRIGGERED[1]}{kept.id}", kept.owner)


def _cause(kept: KeptSchedule) -> Cause:
    return Cause(firings=1, root=f"the schedule {kept.id}")


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
