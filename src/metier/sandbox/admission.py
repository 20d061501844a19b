"""The way into a run, the same for every backend: fit to be run, within the caps, and in its turn.

First come, first served, and not without end: a bounded number runs, a bounded number waits, and nobody waits for
ever. Whatever keeps a job from being started comes back as a report that says so.
"""

import os
from collections.abc import Awaitable, Callable
from typing import Final, final

import anyio
from msgspec.structs import replace

from metier.errors import MetierError
from metier.model.entry import Command, Program, PythonHandler, ScriptHandler
from metier.model.job import Fault, Job, Report
from metier.sandbox.job_limits import bounded
from metier.sandbox.wall import WallError

_MOST_SECONDS: Final = 60.0
"""How long a job waits for its turn."""
MOST_LIVES: Final = 64
"""What lives takes no turn from what ends, and there is no sense in waiting for the turn of one."""


@final
class Admission:
    """The door of one backend. It belongs to the event loop in which it is first used."""

    def __init__(self, at_once: int | None = None, waiting: int = 512) -> None:
        self._at_once = at_once or max(4, 4 * (os.cpu_count() or 1))
        self._most_waiting = waiting
        self._free: anyio.Semaphore | None = None
        self._waiting = 0
        self._lives = 0

    async def run(self, job: Job, run: Callable[[Job], Awaitable[Report]]) -> Report:
        """`run` the job, with limits that are within the caps; or why it was not. Raises nothing but cancellation."""
        limits = bounded(job.limits)
        if isinstance(limits, str):
            return not_started(limits, name="BadLimit")
        if problem := unfit(job):
            return not_started(problem)
        if lives := job.life is not None:
            if self._lives >= MOST_LIVES:
                return busy(f"{MOST_LIVES} skills live here already; disable one")
            self._lives += 1
        elif problem := await self._turn():
            return busy(problem)
        try:
            return await run(replace(job, limits=limits))
        except (WallError, MetierError) as error:
            return not_started(str(error))
        except OSError as error:  # no descriptor, process or room on the disk is to be had now
            return busy(f"{error.strerror or 'the machine refused'}; try again later")
        finally:
            if lives:
                self._lives -= 1
            else:
                self._semaphore().release()

    async def _turn(self) -> str:
        """Have a turn, or say why there is none."""
        if self._waiting >= self._most_waiting:
            return f"{self._at_once} runs are under way and {self._most_waiting} wait; try again later"
        self._waiting += 1
        try:
            with anyio.move_on_after(_MOST_SECONDS) as patience:
                await self._semaphore().acquire()
        finally:
            self._waiting -= 1
        return (
            "no run ended in time to make room for this one; try again later"
            if patience.cancelled_caught
            else ""
        )

    def _semaphore(self) -> anyio.Semaphore:
        if self._free is None:
            self._free = anyio.Semaphore(self._at_once, fast_acquire=True)
        return self._free


def not_started(why: str, *, name: str = "NotStarted") -> Report:
    """The report of a job of which nothing was run."""
    return Report(ending="not_started", fault=Fault(name=name, message=why))


def busy(why: str) -> Report:
    """The report of a job that would be run at another time."""
    return Report(ending="busy", fault=Fault(name="Busy", message=why))


def unfit(job: Job) -> str:
    """What in a job no program could be given; empty when all of it can."""
    entry_lives = isinstance(job.entry, PythonHandler | ScriptHandler) and job.entry.life
    if entry_lives != (job.life is not None):
        return "it lives and nobody is told of it, or the other way round"
    argv = job.entry.argv if isinstance(job.entry, Command) else ()
    argv = job.entry.args if isinstance(job.entry, Program) else argv
    places = [place.path for place in job.places]
    for text in (*argv, *job.environment, *job.environment.values(), job.cwd, job.bundle, *places):
        if "\0" in text:
            return "an argument, a variable or a path holds a NUL"
        try:
            text.encode()
        except UnicodeEncodeError:
            return "an argument, a variable or a path is not text"
    if any(not name or "=" in name for name in job.environment):
        return "the name of a variable is empty or holds ="
    return ""
