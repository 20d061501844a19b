"""What is asked of code that lives: operations, over the wire on which it asks us.

Ids are our own, counted up, and an answer counts once, to what is open. One that comes too late is known and dropped: its
id stays open until then, and is one of the few that may be. One that nobody waits for any more has the time it was given, like any
other; after that the life hangs, and who asks next is told so. A life has no end by itself, so it is held to a pace instead of a total.
"""

import math
import time
from collections.abc import Awaitable, Callable
from typing import Final, final

import anyio

from metier.model.digest import Json
from metier.model.job import Fault
from metier.model.ports import Answered, NotAnswered
from metier.sandbox.wire_message import MOST_BYTES, Error, Result, Unfit, operate_line

MOST_OPEN: Final = 32
OUTPUT_BYTES: Final = 65_536
"""How much of what a life says is kept at the most: its last words, for it may go on for months."""
PER_SECOND: Final = 1_000.0
BURST: Final = 4_000.0
"""Messages that it may begin in a second, and in a row."""
_MESSAGE_BYTES: Final = 4_096
"""Each so many bytes count as a message."""
HUNG: Final = "Hung"
"""The name of what is said in place of an answer where the life has to be started anew."""
GONE: Final = NotAnswered(name="Gone", message="It is over, and answers nothing any more")


@final
class Pace:
    """How fast the messages of a life are read. What comes faster waits, and so in the end does who sends it."""

    def __init__(self) -> None:
        self._left = BURST
        self._counted_at = time.monotonic()

    def rest(self, begun: int, size: int) -> float:
        """Seconds to wait after `begun` messages of its own and `size` bytes altogether."""
        now = time.monotonic()
        self._left = min(BURST, self._left + (now - self._counted_at) * PER_SECOND)
        self._counted_at = now
        self._left -= begun + size / _MESSAGE_BYTES
        return max(0.0, -self._left / PER_SECOND)


@final
class _Awaited:
    """An answer that is on its way. Perhaps nobody waits for it any more."""

    __slots__ = ("answer", "come", "until")

    def __init__(self) -> None:
        self.come = anyio.Event()
        self.answer: Answered | NotAnswered = GONE
        self.until = math.inf
        """When it has to have come, where who waited for it went away before that."""


@final
class Asking:
    """What was asked of one life and is not answered yet. Belongs to the loop of its wire."""

    def __init__(self, post: Callable[[bytes], None], room: Callable[[], Awaitable[None]]) -> None:
        """`post` sends a line; `room` returns when one may be sent."""
        self._post = post
        self._room = room
        self._open: dict[int, _Awaited] = {}
        self._last = 0
        self._over = False

    async def operate(self, params: dict[str, Json], seconds: float) -> Answered | NotAnswered:
        """Have it do one thing."""
        if self._over:
            return GONE
        began = time.monotonic()
        if any(each.until <= began for each in self._open.values()):
            return NotAnswered(name=HUNG, message="It never answered what was asked of it before")
        if len(self._open) >= MOST_OPEN:
            message = f"It has {MOST_OPEN} things to do already; ask again when it has done some"
            return NotAnswered(name="Busy", message=message)
        number = self._last + 1
        line = operate_line(number, params)
        if line is None:
            return NotAnswered(name="InvalidRequest", message="The parameters are not plain JSON")
        if len(line) > MOST_BYTES:
            return NotAnswered(
                name="TooLarge", message=f"The parameters are larger than {MOST_BYTES:,} bytes"
            )
        self._last = number
        awaited = self._open[number] = _Awaited()
        sent = False
        try:
            with anyio.move_on_after(seconds):
                await self._room()
                if not self._over:
                    sent = True
                    self._post(line)
                    await awaited.come.wait()
                return awaited.answer
        except anyio.get_cancelled_exc_class():
            awaited.until = began + seconds
            raise
        finally:
            if not sent:  # it was never told, so no answer is owed
                self._open.pop(number, None)
        return NotAnswered(name="TimedOut", message=f"It did not answer within {seconds:g} s")

    def take(self, number: int, said: Result | Error | Unfit) -> bool:
        """Hand an answer to whoever waits for it. False where none was owed: it is forged."""
        awaited = self._open.pop(number, None)
        if awaited is None:
            return False
        awaited.answer = _answer(said)
        awaited.come.set()
        return True

    def end(self) -> None:
        """Nothing more will be answered."""
        self._over = True
        for awaited in self._open.values():
            awaited.come.set()
        self._open.clear()


def _answer(said: Result | Error | Unfit) -> Answered | NotAnswered:
    match said:
        case Result(value=value):
            return Answered(value=value)
        case Error(fault=Fault(name=name, message=message)):
            return NotAnswered(name=name, message=message)
        case Unfit(why=why):
            return NotAnswered(name="BadResult", message=f"What it returned is not plain JSON: {why}")
