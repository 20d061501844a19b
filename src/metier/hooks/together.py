"""Several who stand around calls, as one."""

from metier.model.call import ValidCall
from metier.model.outcome import Completed, Failed, Refused
from metier.model.ports import Around
from metier.model.verdict import Decision, Verdict


class _Together:
    """Asked one after the other. Who comes later is not asked about a call that an earlier one refuses."""

    def __init__(self, several: tuple[Around, ...]) -> None:
        self._several = several

    async def before(self, valid: ValidCall) -> Verdict | Refused | None:
        strictest: Verdict | None = None
        for each in self._several:
            said = await each.before(valid)
            if isinstance(said, Refused):
                return said
            if said is not None:
                strictest = said if strictest is None else strictest | said
            if strictest is not None and strictest.decision is Decision.DENY:
                break
        return strictest

    async def begins(self, valid: ValidCall) -> None:
        for each in self._several:
            await each.begins(valid)

    def after(self, valid: ValidCall, outcome: Completed | Failed) -> None:
        for each in self._several:
            each.after(valid, outcome)


def together(*several: Around | None) -> Around | None:
    """Those that are there, as one; None where nobody is."""
    there = tuple(each for each in several if each is not None)
    if len(there) < 2:
        return there[0] if there else None
    return _Together(there)
