"""Sandboxes for tests of what stands before and behind them: each promises and reports what it is told to."""

from collections.abc import Awaitable, Callable

from metier.model.guarantee import Guarantee
from metier.model.job import Job, Report
from metier.sandbox.protocol import Missing

EVERYTHING = frozenset(Guarantee)


class Box:
    """A backend that runs nothing and remembers what it was given."""

    def __init__(
        self,
        name: str = "box",
        *,
        promises: frozenset[Guarantee] = EVERYTHING,
        lacks: tuple[Missing, ...] = (),
        report: Report | Callable[[Job], Awaitable[Report]] | None = None,
        takes: Callable[[Job], bool] = lambda job: True,
    ) -> None:
        self.name = name
        self.jobs: list[Job] = []
        self.closed = 0
        self._promises = promises
        self._lacks = lacks
        self._report = report or Report(ending="returned", value="done")
        self._takes = takes

    def takes(self, job: Job) -> bool:
        return self._takes(job)

    def guarantees(self) -> frozenset[Guarantee]:
        return self._promises

    def missing(self) -> tuple[Missing, ...]:
        return self._lacks

    async def run(self, job: Job) -> Report:
        self.jobs.append(job)
        return self._report if isinstance(self._report, Report) else await self._report(job)

    async def aclose(self) -> None:
        self.closed += 1
