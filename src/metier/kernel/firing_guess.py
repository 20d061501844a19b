"""What may have been set off by a firing, where nobody says so. What is known need not be guessed (`Call.cause`).

Who works for a firing may tell something for it meanwhile, or right after: a skill its events, and a chat on a skill's channel a
message (a connector that brings back what was sent there). A message counts from when it was taken in: one that waited for its turn
was there before. Belongs to one loop.
"""

import time
from collections import OrderedDict
from typing import Final, final

from msgspec import Struct

_MOST: Final = 4_096
RIGHT_AFTER: Final = 0.2
"""Seconds for which what a skill tells by itself counts as set off by the firing that had it work."""
RIGHT_AFTER_SENDING: Final = 1.0
"""The same for a chat: what was sent there has to be brought back first."""


@final
class _Work(Struct, kw_only=True):
    rounds: int
    began: float
    ended: float | None = None


@final
class Guesses:
    """Who works for firings, by `skill:NAME` or `chat:CHANNEL/CHAT`."""

    def __init__(self) -> None:
        self._under_way: dict[str, list[_Work]] = {}
        self._ended: OrderedDict[str, _Work] = OrderedDict()

    def begin(self, who: frozenset[str], rounds: int) -> dict[str, _Work]:
        """A firing begins behind which so many lie, and these work for it. For `end`."""
        works = {each: _Work(rounds=rounds, began=time.monotonic()) for each in who}
        for each, work in works.items():
            self._under_way.setdefault(each, []).append(work)
        return works

    def end(self, works: dict[str, _Work]) -> None:
        """It ends."""
        for each, work in works.items():
            left = [other for other in self._under_way[each] if other is not work]
            if left:
                self._under_way[each] = left
            else:
                del self._under_way[each]
            work.ended = time.monotonic()
            self._ended[each] = work
            self._ended.move_to_end(each)
            if len(self._ended) > _MOST:
                self._ended.popitem(last=False)

    def still(self, who: str) -> None:
        """What its last firing had it do was done only now: a message waited to be sent."""
        if (work := self._ended.get(who)) is not None:
            work.ended = time.monotonic()

    def behind(self, who: str, *, age: float = 0.0) -> int:
        """How many firings may lie behind what `who` did `age` seconds ago."""
        then = time.monotonic() - max(age, 0.0)
        after = RIGHT_AFTER_SENDING if who.startswith("chat:") else RIGHT_AFTER
        some = [*self._under_way.get(who, ())]
        if (last := self._ended.get(who)) is not None:
            some.append(last)
        counted = (
            each.rounds
            for each in some
            if each.began <= then and (each.ended is None or then <= each.ended + after)
        )
        return max(counted, default=0)


def chat_key(channel: str, chat: str) -> str:
    """For a chat."""
    return f"chat:{channel}/{chat}"
