"""What one occasion sets off is fired one after the other, and who fires `instead` keeps those after him from firing."""

from collections.abc import Sequence

from anyio import to_thread

from metier.errors import MetierError
from metier.kernel.firing import Firing
from metier.kernel.firing_store import none_stands_in, stands_in
from metier.kernel.store import Store
from metier.kernel.trigger_match import Occasion
from metier.kernel.trigger_store import KeptTrigger


async def fire_in_order(
    firing: Firing, store: Store, hit: Sequence[KeptTrigger], occasion: Occasion, parent: str | None
) -> bool:
    """Fire all of `hit`, which are in their order. Whether it was written down who stands in the place of the others, or that nobody does.

    A message may be handled again after a crash, so that is written down before anything fires for which it matters: then who stood in
    their place does so again, also where he may not fire any more.

    Raises:
        StateError: when one could not be fired because the file cannot be used. The others were, unless that one stands in
            their place.
    """
    if (
        occasion.kind == "tool"
    ):  # of a call only one phase is looked at, and what stands in its place is fired alone
        if (trouble := await _tried(firing, hit, occasion, parent)) is not None:
            raise trouble
        return False
    message = occasion.message
    stands = await to_thread.run_sync(stands_in, store, message) if message and hit else None
    first = [each for each in hit if _timing(each) == "before"]
    instead = [each for each in hit if _timing(each) == "instead"]
    last = [each for each in hit if _timing(each) == "after"]
    trouble = await _tried(firing, first, occasion, parent)
    for each in instead:
        if stands in (None, each.id) and (await firing.fire(each, occasion, parent=parent)).fired:
            stands = each.id
            break
    if not stands:
        if instead and last and message and stands is None:
            await to_thread.run_sync(none_stands_in, store, message)
            stands = ""
        trouble = await _tried(firing, last, occasion, parent) or trouble
    if trouble is not None:
        raise trouble
    return stands is not None


async def _tried(
    firing: Firing, some: Sequence[KeptTrigger], occasion: Occasion, parent: str | None
) -> MetierError | None:
    """Fire each of them; what went wrong last."""
    trouble: MetierError | None = None
    for each in some:
        try:
            await firing.fire(each, occasion, parent=parent)
        except MetierError as error:
            trouble = error
    return trouble


def _timing(kept: KeptTrigger) -> str:
    return kept.trigger.timing if kept.trigger is not None else ""
