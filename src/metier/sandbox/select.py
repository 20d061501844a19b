"""Which sandbox runs a job: the first that keeps every promise the job needs, or none at all.

There is no step down. Where one promise is missing the answer names it, with what would add it here.
"""

from collections.abc import Sequence
from typing import Final, final

from msgspec import Struct

from metier.model.guarantee import MEANING, Guarantee
from metier.model.job import Job
from metier.sandbox.protocol import Missing, Sandbox

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
    closest: tuple[Sandbox, frozenset[Guarantee]] | None = None
    for sandbox in sandboxes:
        if not sandbox.takes(job):
            continue
        lacking = job.needs - sandbox.guarantees()
        if not lacking:
            return sandbox
        if closest is None or len(lacking) < len(closest[1]):
            closest = (sandbox, lacking)
    if closest is None:
        reason = f"no sandbox of this installation runs this kind of entry: {kind_of(job)}"
        return Unavailable(reasons=(reason,), remedy=LOOK, lacking=job.needs)
    return _explained(*closest)


def kind_of(job: Job) -> str:
    """The entry's kind as it is written down, and its language where it has one."""
    language = getattr(job.entry, "language", "")
    return f"{type(job.entry).__struct_config__.tag}" + (f" in {language}" if language else "")


def _explained(sandbox: Sandbox, lacking: frozenset[Guarantee]) -> Unavailable:
    causes = [each for each in sandbox.missing() if not lacking.isdisjoint(each.costs)]
    promises = "; ".join(MEANING[each] for each in Guarantee if each in lacking)
    return Unavailable(
        reasons=(
            f"the sandbox {sandbox.name!r} cannot promise this here: {promises}",
            *(f"missing: {each.what} ({each.why})" for each in causes),
        ),
        remedy="; ".join(dict.fromkeys(map(_remedy, causes))) or LOOK,
        lacking=lacking,
    )


def _remedy(missing: Missing) -> str:
    return missing.remedy or LOOK
