"""Whose messages the webhook could not take in, so that Telegram brings them again: for `telegram.status`. Telegram gives up after a day, and
says so to nobody; so what it did not bring again by then is no longer waited for."""

import time
from collections.abc import Callable
from typing import Final, final

GIVEN_UP: Final = 86_400.0
_MOST: Final = 1_000
_EVERYBODY: Final = 0


@final
class Held:
    """Belongs to one loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._by: dict[int, tuple[float, str]] = {}
        """By person, or for everybody: when it was last brought, and why it was not taken in."""

    @property
    def waits(self) -> str:
        """Why something waits; empty when nothing does."""
        self._by = {who: held for who, held in self._by.items() if self._clock() - held[0] < GIVEN_UP}
        why = next((why for _, why in self._by.values()), "")
        return f"what came in waits at Telegram: {why}" if why else ""

    def kept_out(self, user: int, why: str, *, alone: bool) -> None:
        """Something of his could not be taken in; `alone`, for a reason that keeps nobody else's."""
        if len(self._by) < _MOST:
            self._by[user if alone else _EVERYBODY] = (self._clock(), why)

    def taken_in(self, user: int, *, stored: bool) -> None:
        """Something of his was taken in; `stored`, as everybody's messages are."""
        self._by.pop(user, None)
        if stored:
            self._by.pop(_EVERYBODY, None)
