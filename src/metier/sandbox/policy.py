"""A job in a wall's words."""

from collections.abc import Sequence
from typing import Final

from metier.model.job import Job, Place
from metier.sandbox.wall import Policy

FILE_MB: Final = 256


def policy_of(
    job: Job,
    more: Sequence[Place] = (),
    *,
    programs: tuple[str, ...] | None = None,
    bare_heap: bool = False,
) -> Policy:
    """What a wall lets through for this job, and for whatever else its backend needs to run it."""
    own = [Place(path=path) for path in (job.bundle, *job.packages) if path]
    return Policy(
        places=tuple(sorted({*job.places, *own, *more})),
        network=bool(job.permissions.hosts),
        memory_mb=job.limits.memory_mb,
        processes=job.limits.processes,
        file_mb=FILE_MB,
        programs=programs,
        bare_heap=bare_heap,
    )
