"""One look for everybody who waits for one. Where two hundred calls find the state busy, two hundred looks one after the other would make
the last of them wait for all; they need one, as long as it is not older than the question."""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar, final

import anyio

_T = TypeVar("_T")


class _Look(Generic[_T]):
    """What somebody found, once he did."""

    __slots__ = ("error", "found")

    def __init__(self) -> None:
        self.found: list[_T] = []
        self.error: Exception | None = None


@final
class OneLook(Generic[_T]):
    """Belongs to one loop."""

    def __init__(self, look: Callable[[], Awaitable[_T]]) -> None:
        self._look = look
        self._turn = anyio.Lock()
        self._next: _Look[_T] | None = None
        """The look that has not begun yet: whoever asks now is answered by it."""

    async def __call__(self) -> _T:
        """What is there to see now. Raises what the look raised."""
        mine = self._next
        if mine is None:
            mine = self._next = _Look[_T]()
        async with self._turn:
            if not mine.found and mine.error is None:  # nobody looked for me
                if self._next is mine:
                    self._next = None
                try:
                    mine.found.append(await self._look())
                except Exception as error:
                    mine.error = error
                    raise
        if mine.error is not None:
            raise mine.error
        return mine.found[0]
