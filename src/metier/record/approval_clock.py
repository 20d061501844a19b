"""When a request, or a decision, is over: by the clock on the wall and by the one that nobody can set.

Whichever says so first is right. After a restart only the wall remains. A wall clock that shows a time before the request
was made has been set back, and then nothing is taken on its word.
"""

import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, final

from msgspec import Struct

BACK_SECONDS: Final = 60.0
"""How far clocks are set back in good faith."""
_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"


@final
class Moment(Struct, frozen=True, kw_only=True):
    """One moment, as both clocks have it."""

    wall: float
    """Unix seconds."""
    boot: str
    """Which start of the machine `running` counts from; empty where that cannot be told."""
    running: float
    """Seconds since then, sleep included."""

    @property
    def text(self) -> str:
        """As records have it."""
        return datetime.fromtimestamp(self.wall, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@final
class Term(Struct, frozen=True, kw_only=True):
    """From when to when something holds."""

    began: str
    """As records have it."""
    expires_at: float
    boot: str
    deadline: float
    """In seconds of that start of the machine."""


def moment(wall: "float | Moment | None" = None) -> Moment:
    """This moment; with `wall` for what the clock on the wall shows. A moment is itself."""
    if isinstance(wall, Moment):
        return wall
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return Moment(wall=time.time() if wall is None else wall, boot=_boot(), running=time.clock_gettime(clock))


def term(now: Moment, seconds: float) -> Term:
    """What begins now and holds for `seconds`."""
    return Term(began=now.text, expires_at=now.wall + seconds, boot=now.boot, deadline=now.running + seconds)


def is_over(given: Term, now: Moment) -> bool:
    """Whether it no longer holds. What cannot be understood does not hold."""
    try:
        began = datetime.fromisoformat(given.began).timestamp()
    except (ValueError, OverflowError):
        return True
    holds = given.expires_at > now.wall >= began - BACK_SECONDS
    return not holds or (given.boot == now.boot and not now.running < given.deadline)


@lru_cache(maxsize=1)
def _boot() -> str:
    try:
        with open(_BOOT_ID, encoding="ascii") as file:
            return file.read(64).strip()
    except (OSError, ValueError):
        return ""
