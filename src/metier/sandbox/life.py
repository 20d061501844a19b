"""What differs where a job lives, the same for both languages."""

import math
from collections.abc import Callable
from typing import final

from msgspec.structs import replace

from metier.model.digest import Json
from metier.model.job import Fault, Job, LifeBounds
from metier.model.ports import Answered, Lives, NotAnswered, Operate
from metier.sandbox.wire_life import OUTPUT_BYTES


def lasts(job: Job) -> float:
    """Seconds it may take."""
    return math.inf if job.life is not None else job.limits.timeout


def kept_bytes(job: Job) -> int:
    """How much of its output is kept."""
    most = job.limits.output_bytes
    return min(most, OUTPUT_BYTES) if job.life is not None else most


def bounds_of(job: Job) -> LifeBounds | None:
    """What it is held to instead of a time limit; None where it has one."""
    return job.life_bounds if job.life is not None else None


def in_words(lives: Lives | None, words: Callable[[Fault], Fault]) -> Lives | None:
    """The same, with what the code says of its errors put into `words` that may be shown."""
    return None if lives is None else _InWords(lives, words)


def without_places(job: Job) -> Callable[[Fault], Fault]:
    """Words that do not say where on this machine the skill lies."""

    def words(fault: Fault) -> Fault:
        if not job.bundle:
            return fault
        return Fault(name=fault.name, message=fault.message.replace(job.bundle, "{baseDir}"))

    return words


@final
class _InWords:
    def __init__(self, lives: Lives, words: Callable[[Fault], Fault]) -> None:
        self._lives = lives
        self._words = words

    def ready(self, operate: Operate) -> None:
        async def operated(params: dict[str, Json], seconds: float) -> Answered | NotAnswered:
            answer = await operate(params, seconds)
            if isinstance(answer, Answered):
                return answer
            said = self._words(Fault(name=answer.name, message=answer.message))
            return replace(answer, name=said.name, message=said.message)

        self._lives.ready(operated)
