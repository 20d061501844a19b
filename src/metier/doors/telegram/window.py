"""What Telegram tells until it is confirmed: the oldest hundred updates that were not all taken in.

What cannot be taken in now is not confirmed, so Telegram keeps it and tells it again. Meanwhile the rest goes on: a pressed button waits for
nobody's message, and a chat that has to wait holds up no other. What was taken in behind something that waits is known here, so that it
is not taken in twice.
"""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, final

from metier.doors.telegram.inbound import Inbound, Later
from metier.doors.telegram.update import Pressed, Update

MOST_TRIES: Final = 12
"""Of what fails by itself. What others have to lift (a stop, a budget, a full disk) is waited for."""
_log: Final = logging.getLogger("metier.telegram")
_Rest: TypeAlias = tuple[int, float, str]
"""How often it was tried, when it is tried again, and why it waits."""


@final
class Window:
    """Of one bot. Belongs to one loop."""

    def __init__(self, inbound: Inbound, pause: Callable[[int], float]) -> None:
        """`pause` gives the seconds after so many tries."""
        self._inbound = inbound
        self._pause = pause
        self._done: set[int] = set()
        self._tries: dict[int, int] = {}
        """By update."""
        self._rests: dict[str, _Rest] = {}
        """By who has to wait."""

    @property
    def waits(self) -> str:
        """Why something waits; empty when nothing does."""
        why = next((why for _, _, why in self._rests.values()), "")
        return f"what came in waits at Telegram: {why}" if why else ""

    async def take(self, updates: Sequence[Update]) -> int:
        """Take in what can be, in the order of each chat; gives the number to go on from, and 0 where none has a number."""
        new = [each for each in updates if each.update not in self._done]
        began = time.monotonic()
        for each in new:
            if isinstance(each, Pressed):
                await self._try(each, began)
        for each in new:
            if not isinstance(each, Pressed):
                await self._try(each, began)
        numbers = {each.update for each in updates if each.update}
        left = numbers - self._done
        offset = min(left) if left else max(numbers) + 1 if numbers else 0
        self._done = {each for each in self._done if each > offset} if left else set()
        self._tries = {each: tries for each, tries in self._tries.items() if each in left}
        waiting = {who for each in updates if each.update in left for who in _waits_with(each)}
        self._rests = {who: rest for who, rest in self._rests.items() if who in waiting}
        return offset

    async def _try(self, update: Update, began: float) -> None:
        """Take it in, unless it or its chat has to wait. Who came to rest since this round began rests to its end, or what comes after
        would overtake."""
        waits_with = _waits_with(update)
        if any(self._rests[who][1] >= began for who in waits_with if who in self._rests):
            return
        try:
            await self._inbound.take(update)
        except Later as later:
            tries = self._tries[update.update] = self._tries.get(update.update, 0) + 1
            if later.passes or tries < MOST_TRIES:
                who = waits_with[0] if later.alone else waits_with[-1]
                rested = self._rests.get(who, (0, 0.0, ""))[0] + 1
                self._rests[who] = (rested, time.monotonic() + self._pause(rested), str(later))
                return
            _log.error("update %d was given up: %s", update.update, later)
            await self._inbound.note("it could not be taken in and was given up", update.user, 0)
        for who in waits_with:
            self._rests.pop(who, None)
        self._done.add(update.update)


def _waits_with(update: Update) -> tuple[str, ...]:
    """With whom it has to wait: a pressed button with nobody, and a message with its chat or with everybody's."""
    return (f"button {update.update}",) if isinstance(update, Pressed) else (f"chat {update.user}", "all")
