"""Long polling: Telegram is asked what happened, and answers once something did. There is no timer: each answer is the moment to ask again.

How far everything was taken in is kept, so that a restart begins there. What is told twice all the same is taken in once: by its number
here, and by the number of its message where it is stored.

A server that does not know a number so high tells what it has from the beginning. So an answer in which everything is older than what was
asked for says that it counts anew: its numbers hold, and ours no more.
"""

import logging
import random
import re
import time
from collections.abc import Callable
from typing import Final, final

import anyio
import msgspec
from anyio import to_thread

from metier.doors.telegram.api import BotApi, Trouble
from metier.doors.telegram.configured import Configured
from metier.doors.telegram.inbound import Inbound
from metier.doors.telegram.update import HIGHEST, WANTED, Update, read
from metier.doors.telegram.window import Window
from metier.kernel.telegram_cursor import Cursor, in_time

MOST: Final = 100
_SPARE: Final = 10.0
_LONGEST_PAUSE: Final = 60.0
_LOOK: Final = 2.0
"""Seconds between two questions while something waits at Telegram, which answers at once then: whoever presses a button meanwhile is heard
so soon."""
_PASSED_AFTER: Final = 3
"""So often one update is asked for alone that cannot be read, before it is passed over."""
_FIRST: Final = re.compile(
    rb'\s*\{\s*"ok"\s*:\s*true\s*,\s*"result"\s*:\s*\[\s*\{\s*"update_id"\s*:\s*([1-9]\d{0,18})\s*,'
)
_RANDOM: Final = random.SystemRandom()
_log: Final = logging.getLogger("metier.telegram")


@final
class Polling:
    """One bot, asked until this is cancelled."""

    def __init__(
        self,
        api: BotApi,
        cursor: Cursor,
        inbound: Inbound,
        configured: Callable[[], Configured],
        told: Callable[[str], None],
    ) -> None:
        """`told` hears how it fares: empty for well."""
        self._api = api
        self._cursor = cursor
        self._inbound = inbound
        self._configured = configured
        self._told = told
        self._window = self._empty()
        self._at_once = MOST
        self._offset, self._heard = 0, 0.0
        """The first update that was not taken in, and when something was last told."""
        self._unread = (0, 0)
        """The update that could not be read even alone, and how often."""
        self._anew = 0
        """So many answers in a row said that it is counted anew."""

    async def run(self) -> None:
        """Ask for ever.

        Raises:
            Trouble: when asking is in vain: `unauthorized` or `unusable`.
        """
        self._offset, self._heard = await to_thread.run_sync(self._cursor.read)
        failures = 0
        while True:
            self._forget()
            try:
                updates = await self._asked()
            except Trouble as trouble:
                if trouble.kind in ("unauthorized", "unusable"):
                    raise
                failures += 1
                self._told(trouble.message)
                if trouble.kind == "unreadable":
                    await self._pass(trouble)
                await anyio.sleep(trouble.seconds or _pause(failures))
                continue
            failures = 0
            self._forget()  # it may have become too old while the question was open
            await self._take(updates)
            self._told(self._window.waits)
            if self._anew:
                await anyio.sleep(
                    _pause(self._anew)
                )  # else who counts anew each time is asked without a pause
            elif any(each.update in (self._offset, 0) for each in updates):
                await anyio.sleep(_LOOK)  # what was not confirmed comes at once again

    def _empty(self) -> Window:
        return Window(self._inbound, lambda tries: _pause(tries))

    def _forget(self) -> None:
        if not in_time(self._heard, _now()):
            self._offset = 0

    async def _asked(self) -> list[Update]:
        seconds = self._configured().poll_seconds
        found = await self._api.ask_for(
            list[msgspec.Raw],
            "getUpdates",
            {
                "offset": self._offset or None,
                "limit": self._at_once,
                "timeout": seconds,
                "allowed_updates": [*WANTED],
            },
            seconds=seconds + _SPARE,
        )
        return sorted((read(each, self._api.bot) for each in found), key=lambda each: each.update)

    async def _take(self, updates: list[Update]) -> None:
        """Take in what was not before."""
        self._at_once = min(MOST, 2 * self._at_once)  # else what waits would hide all that is behind it
        self._heard = _now() if updates else self._heard
        numbers = [each.update for each in updates if each.update]
        self._anew = self._anew + 1 if numbers and max(numbers) < self._offset else 0
        if self._anew:
            _log.warning(
                "Telegram was asked from update %d on and tells %d: it counts anew", self._offset, numbers[0]
            )
            self._offset, self._window = 0, self._empty()
        new = [each for each in updates if each.update >= self._offset or not each.update]
        reached = await self._window.take(new)
        if reached > self._offset:
            await self._reached(reached)

    async def _reached(self, offset: int) -> None:
        self._offset, self._heard, self._at_once = offset, _now(), MOST
        await to_thread.run_sync(self._cursor.write, offset, self._heard)

    async def _pass(self, trouble: Trouble) -> None:
        """What cannot be read is asked for alone. What cannot be read even so, time and again, and says itself that it is an update, is
        passed over by its own number. Nothing else is: an answer that is no answer says nothing of what it should have told."""
        first = _FIRST.match(trouble.began)
        number = int(first[1]) if first is not None else 0
        if self._at_once > 1 or not max(self._offset, 1) <= number < HIGHEST:
            self._at_once = 1
            return
        last, times = self._unread
        self._unread = (number, times + 1 if number == last else 1)
        if self._unread[1] >= _PASSED_AFTER:
            await self._inbound.note(f"update {number} was passed over: {trouble.message}", 0, 0)
            await self._reached(number + 1)


def _now() -> float:
    """By the clock on the wall: the other one stands still while a machine sleeps."""
    return time.time()


def _pause(failures: int) -> float:
    longest = min(_LONGEST_PAUSE, 0.5 * 2 ** min(failures, 10))
    return longest / 2 + _RANDOM.uniform(0, longest / 2)
