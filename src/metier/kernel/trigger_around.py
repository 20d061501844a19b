"""The triggers around tool calls, in whichever process makes them: what is fired in place of a call, before it and after it.

Nothing in here can loosen what the gate decides: a trigger can have something else done before, after or in place of a call, and the
call that it makes is judged like any other.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final, final

from anyio import to_thread

from metier.errors import MetierError
from metier.gate.principals import TRIGGERED
from metier.kernel.firing import Ended, Firing
from metier.kernel.firing_order import fire_in_order
from metier.kernel.store import Store
from metier.kernel.trigger import ToolTrigger
from metier.kernel.trigger_match import Due, Phase, set_off, wanted
from metier.kernel.trigger_occasion import concerns, of_tool
from metier.kernel.trigger_store import KeptTrigger
from metier.model.call import ValidCall
from metier.model.outcome import Completed, Failed, Refused
from metier.model.text import one_line

_log: Final = logging.getLogger("metier.triggers")


@final
class AroundCalls:
    """For the port `Around`. Belongs to one loop."""

    def __init__(self, firing: Firing, store: Store, owner: str, put: Callable[[Due], None]) -> None:
        """`put` has something fired in the background."""
        self._firing = firing
        self._store = store
        self._owner = owner
        self._put = put
        self._kept: tuple[KeptTrigger, ...] = ()

    def now(self, kept: Sequence[KeptTrigger]) -> None:
        """These are set up."""
        self._kept = tuple(each for each in kept if each.enabled and isinstance(each.trigger, ToolTrigger))

    async def before(self, valid: ValidCall) -> Refused | None:
        """Fire what stands in place of a call, and refuse that. Never raises but for cancellation: where it cannot be found out whether
        something does, the call is refused too."""
        among = self._among(valid, "instead")
        if not among:
            return None
        try:
            due = self._due(valid, "instead", among)
            hit = await to_thread.run_sync(set_off, among, due.occasion)
        except Exception:  # noqa: BLE001  not knowing is a no
            _log.exception("what stands in place of %s could not be found out", valid.tool.name)
            why = f"whether a trigger stands in place of {valid.tool.name!r} could not be found out"
            return Refused(
                call_id=valid.call.id,
                code="setup_unusable",
                reasons=(f"{why}; the log of Metier has the details",),
                remedy="`metier triggers list` says what is set up; disable what is broken",
            )
        if not hit:
            return None
        try:
            ended = await self._firing.fire(hit[0], due.occasion, parent=due.parent)
        except MetierError as error:
            ended = Ended(fired=False, said=error.message)
        except Exception:  # noqa: BLE001  the call is refused all the same
            _log.exception("the trigger %s could not be fired", hit[0].id)
            ended = Ended(fired=False, said="a fault of Metier")
        # How that call ended is for who set the trigger up; who asked for this one may be somebody else.
        became = f"it has made its own call ({ended.call_id})" if ended.fired else "it did not fire this time"
        return Refused(
            call_id=valid.call.id,
            code="replaced",
            reasons=(f"{_in_place(hit[0], valid)}; {became}",),
            remedy="`metier triggers show` says what it does; its owner can disable it",
        )

    async def begins(self, valid: ValidCall) -> None:
        """Fire what fires before a call that runs now. Never raises but for cancellation: it decides nothing about the call."""
        among = self._among(valid, "before")
        if not among:
            return
        try:
            due = self._due(valid, "before", among)
            hit = await to_thread.run_sync(set_off, among, due.occasion)
            await fire_in_order(self._firing, self._store, hit, due.occasion, due.parent)
        except MetierError as error:
            _log.warning("triggers before %s: %s", valid.tool.name, error.message)
        except Exception:  # noqa: BLE001  see above
            _log.exception("triggers before %s failed", valid.tool.name)

    def after(self, valid: ValidCall, outcome: Completed | Failed) -> None:
        """Fire what fires after a call. Takes it at once, and never raises."""
        among = self._among(valid, "after")
        if not among:
            return
        try:
            self._put(self._due(valid, "after", among, outcome))
        except Exception:  # noqa: BLE001  what comes after a call changes nothing of how it ended
            _log.exception("triggers after %s failed", valid.tool.name)

    def _among(self, valid: ValidCall, phase: Phase) -> tuple[KeptTrigger, ...]:
        """Those that have to do with such a call. Costs next to nothing where none is about tools."""
        return _about(self._kept, valid, phase, self._owner) if self._kept else ()

    def _due(
        self,
        valid: ValidCall,
        phase: Phase,
        among: tuple[KeptTrigger, ...],
        outcome: Completed | Failed | None = None,
    ) -> Due:
        rounds = self._firing.guesses.behind(valid.call.principal.id)
        return Due(of_tool(valid, phase, outcome, rounds), among, valid.call.id)


def in_place_of(kept: Sequence[KeptTrigger], valid: ValidCall, owner: str) -> str:
    """What stands in place of a call, in a sentence; empty where nothing does. For who explains a call that is not made."""
    return next((_in_place(each, valid) for each in _about(kept, valid, "instead", owner)), "")


def _in_place(kept: KeptTrigger, valid: ValidCall) -> str:
    return f"the trigger {one_line(kept.name, 60)!r} ({kept.id}) stands in place of {valid.tool.name!r}"


def _about(
    kept: Sequence[KeptTrigger], valid: ValidCall, phase: Phase, owner: str
) -> tuple[KeptTrigger, ...]:
    """Those that a call sets off: none by what it does itself, and only by what who set it up may know of."""
    if not concerns(valid):
        return ()
    tool, principal = valid.tool.name, valid.call.principal
    by = (principal.id, principal.on_behalf_of or "")

    def is_about(each: KeptTrigger) -> bool:
        trigger = each.trigger
        if not each.enabled or not isinstance(trigger, ToolTrigger) or f"{TRIGGERED[0]}{each.id}" in by:
            return False
        mine = each.owner == owner or each.owner in by
        return mine and phase in trigger.phases and wanted(tool, trigger.tool_names)

    return tuple(filter(is_about, kept))
