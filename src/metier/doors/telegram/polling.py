"""Long polling: Telegram is asked what happened, and answers once something did. There is no timer: each answer is the moment to ask again.

How far everything was taken in is kept, so that a restart begins there. What is told twice all the same is taken in once: by its number
here, and by the number of its message where it is stored.
"""

import logging
import random
import time
from collections.abc import Callable
from typing import Final, final

import anyio
import msgspec
from anyio import to_thread

from metier.doors.telegram.api import BotApi, Trouble
from metier.doors.telegram.configured import Configured
from metier.doors.telegram.inbound import Inbound, Later
from metier.doors.telegram.update import WANTED, Update, read
from metier.kernel.telegram_cursor import FORGOTTEN, Cursor

MOST: Final = 100
_SPARE: Final = 10.0
_LONGEST_PAUSE: Final = 60.0
_MOST_TRIES: Final = 12
"""Of what fails by itself. What others have to lift (a stop, a budget, a full disk) is waited for."""
_log: Final = logging.getLogger("metier.telegram")
_several: Final = msgspec.json.Decoder(list[msgspec.Raw])
_RANDOM: Final = random.SystemRandom()


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
        self._at_once = MOST

    async def run(self) -> None:
        """Ask for ever.

        Raises:
            Trouble: when asking is in vain: `unauthorized` or `unusable`.
        """
        offset = await to_thread.run_sync(self._cursor.read)
        heard, failures = time.monotonic(), 0
        while True:
            if time.monotonic() - heard > FORGOTTEN:
                offset, heard = 0, time.monotonic()
            try:
                updates = await self._asked(offset)
            except Trouble as trouble:
                if trouble.kind in ("unauthorized", "unusable"):
                    raise
                failures += 1
                self._told(trouble.message)
                if trouble.kind == "refused":
                    offset = self._past(offset)
                await anyio.sleep(trouble.seconds or _pause(failures))
                continue
            failures = 0
            self._told("")
            if updates:
                heard = time.monotonic()
                offset = await self._take(updates, offset)

    async def _asked(self, offset: int) -> list[Update]:
        seconds = self._configured().poll_seconds
        raw = await self._api.ask(
            "getUpdates",
            {
                "offset": offset or None,
                "limit": self._at_once,
                "timeout": seconds,
                "allowed_updates": [*WANTED],
            },
            seconds=seconds + _SPARE,
        )
        try:
            return sorted(map(read, _several.decode(raw)), key=lambda each: each.update)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise Trouble("doubtful", "what Telegram says happened cannot be read") from None

    async def _take(self, updates: list[Update], offset: int) -> int:
        """Take in each, in order; gives where to go on."""
        began = offset
        for update in updates:
            if update.update and update.update < offset:
                continue  # it was taken in before
            await self._taken(update)
            offset = max(offset, update.update + 1) if update.update else offset
        if offset != began:
            await to_thread.run_sync(self._cursor.write, offset)
            self._at_once = MOST
        elif any(not each.update for each in updates):
            await anyio.sleep(
                _LONGEST_PAUSE
            )  # what has no number cannot be confirmed, and would come at once again
        return offset

    async def _taken(self, update: Update) -> None:
        failures = 0
        while True:
            try:
                await self._inbound.take(update)
            except Later as later:
                failures += 1
                if not later.passes and failures >= _MOST_TRIES:
                    _log.error("update %d was given up: %s", update.update, later)
                    return
                self._told(f"what came in waits: {later}")
                await anyio.sleep(_pause(failures))
            else:
                return

    def _past(self, offset: int) -> int:
        """What is too large to be taken is taken alone; what is too large even so is passed over."""
        if self._at_once > 1 or not offset:
            self._at_once = 1
            return offset
        return offset + 1


def _pause(failures: int) -> float:
    longest = min(_LONGEST_PAUSE, 0.5 * 2 ** min(failures, 10))
    return longest / 2 + _RANDOM.uniform(0, longest / 2)
