"""Which sandbox runs a job: the first that keeps every promise the job needs, or none at all.

There is no step down. Where one promise is missing the answer names it, with what would add it here.
"""

from collections.abc import Sequence
from typing import Final, final

from msgspec import Struct

from metier.model.guarantee import MEANING, Guarantee
from metier.model.job import Job
from metier.sandbox.protocol import Sandbox

LOOK: Final = "`metier doctor` shows what each sandbox can promise on this machine"


@final
class Unavailable(Struct, frozen=True, kw_only=True):
    """No sandbox here can run the job as it has to be run."""

    reasons: tuple[str, ...]
    remedy: str
    lacking: frozenset[Guarantee] = frozenset()
    """What the closest one does not promise; all that is needed when none takes the job."""


def select(job: Job, sandboxes: Sequence[Sandbox]) -> Sandbox | Unavailable:
    """The first of `sandboxes`, quickest first, that takes `job` and promises all it needs. Blocking: it may try things out."""
    nearest: _Candidate | None = None
    for sandbox in sandboxes:
        if not sandbox.takes(job):
            continue
        lacking = job.needs - sandbox.guarantees()
        if not lacking:
            return sandbox
        candidate = _Candidate(sandbox, lacking)
        if nearest is None or candidate.distance < nearest.distance:
            nearest = candidate
    if nearest is None:
        reason = f"no sandbox of this installation runs this kind of entry: {kind_of(job)}"
        return Unavailable(reasons=(reason,), remedy=LOOK, lacking=job.needs)
    return nearest.explained()


def kind_of(job: Job) -> str:
    """The entry's kind as it is written down, and its language where it has one."""
    language = getattr(job.entry, "language", "")
    return f"{type(job.entry).__struct_config__.tag}" + (f" in {language}" if language else "")


@final
class _Candidate:
    """A sandbox that would take the job, and what it lacks for it."""

    def __init__(self, sandbox: Sandbox, lacking: frozenset[Guarantee]) -> None:
        self._sandbox = sandbox
        self._lacking = lacking
        self._causes = [each for each in sandbox.missing() if not lacking.isdisjoint(each.costs)]

    @property
    def distance(self) -> tuple[bool, int]:
        """How far it is from running the job: first come those that something the machine could have would mend."""
        mendable = self._lacking <= frozenset[Guarantee]().union(*(each.costs for each in self._causes))
        return not mendable, len(self._causes) if mendable else len(self._lacking)

    def explained(self) -> Unavailable:
        promises = "; ".join(MEANING[each] for each in Guarantee if each in self._lacking)
        return Unavailable(
            reasons=(
                f"the sandbox {self._sandbox.name!r} cannot promise this here: {promises}",
                *(f"missing: {each.what} ({each.why})" for each in self._causes),
            ),
            remedy="; ".join(dict.fromkeys(each.remedy or LOOK for each in self._causes)) or LOOK,
            lacking=self._lacking,
        )
