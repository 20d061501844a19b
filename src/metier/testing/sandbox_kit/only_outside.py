"""The controls of a behaviour that a backend has nothing to be tried with.

Where no code of a skill runs, what code could do is still done outside, by a program: it is what is refused.
"""

from typing import NoReturn, final

from msgspec.structs import replace

from metier.model.guarantee import Guarantee
from metier.model.job import Job
from metier.sandbox.protocol import Missing
from metier.testing.sandbox_kit.behaviour import Behaviour
from metier.testing.sandbox_kit.bench import Bench
from metier.testing.sandbox_kit.probes_python import NativeGuest


class _Inside(Exception):
    """The behaviour has come to where it needs a sandbox."""


@final
class _Nowhere:
    """Runs nothing."""

    name = "nowhere"

    def takes(self, job: Job) -> bool:
        return True

    def guarantees(self) -> frozenset[Guarantee]:
        return frozenset()

    def missing(self) -> tuple[Missing, ...]:
        return ()

    async def run(self, job: Job) -> NoReturn:
        raise _Inside

    async def aclose(self) -> None:
        """Nothing is kept."""


async def controls(behaviour: Behaviour, bench: Bench) -> list[str]:
    """What the check of a behaviour proves outside before it first goes inside."""
    backend = replace(bench.backend, guest=NativeGuest())
    alone = Bench(_Nowhere(), backend, bench.folder("outside"))
    try:
        await behaviour.check(alone)
    except* _Inside:
        pass
    return alone.controls
