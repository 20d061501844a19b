"""The triggers around tool calls, in whichever process makes them: what is fired in place of a call, before it and after it.

Nothing in here can loosen what the gate decides: a trigger can have something else done before, after or in place of a call, and the
call that it makes is judged like any other.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, final

from anyio import to_thread

from metier.errors import MetierError
from metier.kernel.behalf import Behind, by_itself
from metier.kernel.firing import Ended, Firing
from metier.kernel.firing_order import fire_in_order
from metier.kernel.store import Store
from metier.kernel.store_faults import is_broken
from metier.kernel.trigger import ToolTrigger
from metier.kernel.trigger_match import Due, Phase, set_off, wanted
from metier.kernel.trigger_occasion import concerns, names_of, of_tool
from metier.kernel.trigger_store import KeptTrigger
from metier.model.call import Principal, ValidCall
from metier.model.outcome import Completed, Failed, Refused
from metier.model.text import one_line

_log: Final = logging.getLogger("metier.triggers")


@final
class AroundCalls:
    """For the port `Around`. Belongs to one loop."""

    def __init__(
        self,
        firing: Firing,
        store: Store,
        owner: str,
        behind: Behind,
        put: Callable[[Due], None],
        fresh: Callable[[], Awaitable[None]],
    ) -> None:
        """
        Args:
            behind: for whom somebody acts.
            put: has something fired in the background.
            fresh: has `now` told what others set up meanwhile.
        """
        self._firing = firing
        self._store = store
        self._owner = owner
        self._behind = behind
        self._put = put
        self._fresh = fresh
        self._kept: tuple[KeptTrigger, ...] = ()

    def now(self, kept: Sequence[KeptTrigger]) -> None:
        """These are set up."""
        self._kept = tuple(
            each
            for each in kept
            if each.enabled and (isinstance(each.trigger, ToolTrigger) or each.may_replace)
        )

    async def before(self, valid: ValidCall) -> Refused | None:
        """Fire what stands in place of a call, and refuse that. Never raises but for cancellation: where it cannot be found out whether
        something does, the call is refused too."""
        if not concerns(valid):
            return None
        try:
            await self._fresh()  # what somebody set up a moment ago in another process stands there too
            among = about(self._kept, valid, "instead")
            if not among:
                return None
            among = await to_thread.run_sync(self.theirs, among, valid.call.principal)
            among = await self._firing.still_theirs(among)
            due = self._due(valid, "instead", among)
            hit = await to_thread.run_sync(set_off, among, due.occasion)
        except Exception:  # noqa: BLE001  not knowing is a no
            _log.exception("what stands in place of %s could not be found out", valid.tool.name)
            return _not_known(valid, "the log of Metier has the details")
        broken = next((each for each in among if each.trigger is None), None)
        if not hit and broken is not None:
            _log.error("%s is refused: the trigger %s is broken", valid.tool.name, broken.id)
            return _not_known(
                valid, f"the trigger {one_line(broken.id, 60)} may, and is broken: {broken.problem}"
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
        own = f"it has made its own call ({ended.call_id})" if ended.call_id else "it fired"
        became = own if ended.fired else "it did not fire this time"
        return Refused(
            call_id=valid.call.id,
            code="replaced",
            reasons=(f"{_in_place(hit[0], valid)}; {became}",),
            remedy="`metier triggers show` says what it does; its owner can disable it",
        )

    async def begins(self, valid: ValidCall) -> None:
        """Fire what fires before a call that runs now. Never raises but for cancellation: it decides nothing about the call."""
        among = about(self._kept, valid, "before")
        if not among:
            return
        try:
            due = self._due(valid, "before", among)
            hit = await to_thread.run_sync(self.hit, due)
            await fire_in_order(self._firing, self._store, hit, due.occasion, due.parent)
        except MetierError as error:
            _log.warning("triggers before %s: %s", valid.tool.name, error.message)
        except Exception:  # noqa: BLE001  see above
            _log.exception("triggers before %s failed", valid.tool.name)

    def after(self, valid: ValidCall, outcome: Completed | Failed) -> None:
        """Fire what fires after a call. Takes it at once, and never raises."""
        among = about(self._kept, valid, "after")
        if not among:
            return
        try:
            self._put(self._due(valid, "after", among, outcome))
        except Exception:  # noqa: BLE001  what comes after a call changes nothing of how it ended
            _log.exception("triggers after %s failed", valid.tool.name)

    def hit(self, due: Due) -> list[KeptTrigger]:
        """What such an occasion sets off. Blocks."""
        return set_off(self.theirs(due.among, due.by) if due.by is not None else due.among, due.occasion)

    def theirs(self, some: Sequence[KeptTrigger], by: Principal) -> list[KeptTrigger]:
        """Those of them that concern what `by` does. Blocks."""
        return concerned(some, by, self._owner, self._behind)

    def _due(
        self,
        valid: ValidCall,
        phase: Phase,
        among: Sequence[KeptTrigger],
        outcome: Completed | Failed | None = None,
    ) -> Due:
        principal = valid.call.principal
        rounds = self._firing.guesses.behind(principal.id)
        return Due(of_tool(valid, phase, outcome, rounds), tuple(among), valid.call.id, by=principal)


def in_place_of(kept: Sequence[KeptTrigger], valid: ValidCall, owner: str, behind: Behind = by_itself) -> str:
    """What stands in place of a call, in a sentence; empty where nothing does. For who explains a call that is not made. Blocks."""
    found = concerned(about(kept, valid, "instead"), valid.call.principal, owner, behind)
    found.sort(key=lambda each: each.trigger is None)  # what is known to stand there comes first
    return next((_in_place(each, valid) for each in found), "")


def _in_place(kept: KeptTrigger, valid: ValidCall) -> str:
    if kept.trigger is None:
        return f"the trigger {one_line(kept.id, 60)} may stand in place of {valid.tool.name!r}, and is broken: {kept.problem}"
    return f"the trigger {one_line(kept.name, 60)!r} ({kept.id}) stands in place of {valid.tool.name!r}"


def _not_known(valid: ValidCall, why: str) -> Refused:
    return Refused(
        call_id=valid.call.id,
        code="setup_unusable",
        reasons=(f"whether a trigger stands in place of {valid.tool.name!r} could not be found out; {why}",),
        remedy="`metier triggers list` says what is set up; disable or remove what is broken",
    )


def about(kept: Sequence[KeptTrigger], valid: ValidCall, phase: Phase) -> tuple[KeptTrigger, ...]:
    """Those that such a call sets off, whoever makes it: none by what it does itself. Costs next to nothing where none is about tools."""
    if not kept or not concerns(valid):
        return ()
    names = names_of(valid.tool)

    def is_about(each: KeptTrigger) -> bool:
        if not each.enabled or each.id == valid.call.cause.by:
            return False
        if each.trigger is None:
            return phase == "instead" and any(wanted(name, each.may_replace) for name in names)
        trigger = each.trigger
        if not isinstance(trigger, ToolTrigger) or phase not in trigger.phases:
            return False
        return any(wanted(name, trigger.tool_names) for name in names)

    return tuple(filter(is_about, kept))


def concerned(some: Sequence[KeptTrigger], by: Principal, owner: str, behind: Behind) -> list[KeptTrigger]:
    """Those of who stands behind a call, however many do, and those of the owner of the machine: nobody else may know of it. Blocks."""
    near = {by.id, by.on_behalf_of or "", owner}
    if all(each.owner in near for each in some):
        return list(some)
    far = near | set(behind(by))
    return [each for each in some if each.owner in far or is_broken(each.owner)]
