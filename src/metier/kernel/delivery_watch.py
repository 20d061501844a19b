"""When to look again: at once where somebody of this process says so, and soon where another process wrote."""

from collections.abc import Callable
from typing import Final, Protocol, final

import anyio
from anyio import to_thread

from metier.errors import MetierError
from metier.sandbox.beat import on_beat

LOOK_SECONDS: Final = 30.0
"""How long nothing is looked at when nobody wrote anything."""
GLANCE_SECONDS: Final = 1.5
"""How often it is asked whether somebody else wrote; that is one number from the file, and costs nothing to speak of."""


class Changing(Protocol):
    """A file of which one can ask whether somebody else wrote into it."""

    def changes(self) -> int: ...


@final
class Watch:
    """Belongs to one loop."""

    def __init__(self, *files: "Changing | Callable[[], int]") -> None:
        self._numbers = [each if callable(each) else each.changes for each in files]
        self._seen: list[int] = []
        """At first nothing, so that what was written while we first looked counts as a change."""
        self._poked = anyio.Event()

    def poke(self) -> None:
        """There is something to look at."""
        self._poked.set()

    async def wait(self, seconds: float) -> None:
        """Come back when there is something to look at, or after `seconds`."""
        with anyio.move_on_after(max(seconds, 0.0)):
            while not self._poked.is_set():
                with anyio.move_on_after(on_beat(GLANCE_SECONDS)):
                    await self._poked.wait()
                now = await to_thread.run_sync(self._look)
                if now != self._seen:
                    self._seen = now
                    break
        if self._poked.is_set():
            self._poked = anyio.Event()

    def _look(self) -> list[int]:
        try:
            return [each() for each in self._numbers]
        except MetierError:  # who looks next is told what is wrong with the file
            return self._seen
