"""A job in a wall's words."""

from collections.abc import Sequence
from typing import Final

from metier.model.job import Job, Place
from metier.sandbox.wall import Policy

FILE_MB: Final = 256
LIFE_CPU_SECONDS: Final = 315_360_000
"""Ten years: what lives is held to a share of the processor (`bounds`), and the kernel counts no shares."""


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
        cpu_seconds=cpu_seconds(job),
        programs=programs,
        bare_heap=bare_heap,
    )


def cpu_seconds(job: Job) -> int:
    """How much of the processor the kernel lets the job have."""
    return LIFE_CPU_SECONDS if job.life is not None else Policy().cpu_seconds
