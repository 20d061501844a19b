"""Who tried to sign in and was not let in, in the log: they are not on the record, because anybody could fill that with them. So many
lines a minute, and then how many more there were. Nothing that somebody typed is in it, which may be a password."""

import logging
import time
from typing import Final, final

from metier.model.text import one_line

MOST: Final = 20
"""Lines in one minute."""
_SECONDS: Final = 60.0
_log: Final = logging.getLogger("metier.http")


@final
class Failures:
    """Belongs to one loop."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._lines = 0
        self._more = 0

    def say(self, way: str, address: str, why: str) -> None:
        """`way`: the path that was tried; `why`: in words of ours."""
        now = time.monotonic()
        if now - self._since >= _SECONDS:
            if self._more:
                _log.warning("signing in failed %d more times in that minute", self._more)
            self._since, self._lines, self._more = now, 0, 0
        if self._lines >= MOST:
            self._more += 1
            return
        self._lines += 1
        _log.warning("signing in failed: %s from %s: %s", way, one_line(address, 60), one_line(why, 300))
