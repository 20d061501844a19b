"""What a skill that lives is told of what happens, where a module of it has a method `onEvent` (in Python `on_event`).

It hears what skills emit, and of our own events those that carry nothing private, and of these no more than which skill they are
about. Nobody waits for it: events queue for each skill alone, are told one after the other, and what finds its queue full is dropped
and counted. An event that others set off is told no further once too many lie behind it.
"""

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, final

import anyio
from msgspec.structs import replace

from metier.kernel.events import OURS, Happened
from metier.kernel.firing_rate import DEEPEST
from metier.model.digest import Json

MOST_WAITING: Final = 256
_ABOUT_SKILLS: Final = frozenset(
    {"skills.enabled", "skills.disabled", "skills.failed", "skill_installed", "skill_uninstalled"}
)
_SETTINGS: Final = "settings.skill.updated"
_PLAIN: Final = frozenset({"heartbeat_check"})
HARMLESS: Final = _ABOUT_SKILLS | _PLAIN
"""Those of our own events that carry nothing private."""
_log: Final = logging.getLogger("metier.residents")


def told_to(skill: str, happened: Happened) -> Happened | None:
    """The event as `skill` may hear it; None where it may not, or where it came round too often."""
    if happened.depth >= DEEPEST:
        return None
    if happened.source != OURS:
        return happened
    if happened.name in _PLAIN:
        return replace(happened, payload={})
    about = _skill_in(happened.payload)
    if happened.name in _ABOUT_SKILLS or (happened.name == _SETTINGS and about == skill):
        return replace(happened, payload={"skill": about})  # why one failed is not for others
    return None


@final
class Hearing:
    """The events that wait for one life. Belongs to one loop."""

    def __init__(self, skill: str) -> None:
        self._skill = skill
        self._waiting: deque[Happened] = deque()
        self._some = anyio.Event()
        self.wanted = False
        """Whether anybody in there listens."""
        self._deaf = False
        self.dropped = 0

    def take(self, happened: Happened) -> None:
        """Something happened. Never waits."""
        heard = told_to(self._skill, happened) if self.wanted and not self._deaf else None
        if heard is None:
            return
        if len(self._waiting) >= MOST_WAITING:
            self.lost("it is slower than what happens")
            return
        self._waiting.append(heard)
        self._some.set()

    def lost(self, why: str) -> None:
        """It was not told of something."""
        self.dropped += 1
        if self.dropped == 1:
            _log.warning("the skill %s is not told of some events: %s", self._skill, why)

    def end(self, why: str) -> None:
        """It is told nothing more in this life."""
        self._deaf = True
        self._waiting.clear()
        _log.warning("the skill %s hears of no events until it is started anew: %s", self._skill, why)

    async def run(self, tell: Callable[[Happened], Awaitable[None]]) -> None:
        """Have it told of one after the other, until cancelled."""
        while True:
            await self._some.wait()
            self._some = anyio.Event()
            while self._waiting:
                await tell(self._waiting.popleft())


def _skill_in(payload: Json) -> str:
    about = payload.get("skill") if isinstance(payload, dict) else None
    return about if isinstance(about, str) else ""
