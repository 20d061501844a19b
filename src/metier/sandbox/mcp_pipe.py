"""An MCP server on its standard input and output: one message a line, both ways, all of it bounded.

What it sends is read as fast as it may come and no faster; what it never reads is not kept for it without end. Each thing we ask has
a number of its own, and is answered once: what nobody asked, or asked long ago, is thrown away, and a server that sends much of that
is ended.
"""

import os
import time
from collections import deque
from collections.abc import Callable
from typing import Final, final

import anyio

from metier.model.digest import Json
from metier.sandbox import mcp_message
from metier.sandbox.mcp_message import Answered, Asks, Erred, Message, Tells, Unknown, Unusable
from metier.sandbox.mcp_peer import LIST_CHANGED, Said, Trouble, unusable
from metier.sandbox.wire_life import Pace
from metier.sandbox.wire_lines import Lines

MOST_OPEN: Final = 32
"""Things that a server has to do at once."""
MOST_GIVEN_UP: Final = 32
"""Things that it was asked and that nobody waits for any more, whose answers are still known as such."""
MOST_WAITING: Final = 64
"""Messages that a server does not take."""
MOST_ODD: Final = 100
"""Lines that are no message, or an answer to nothing. Many servers print a few by mistake."""
_AT_ONCE: Final = 65_536
_UNASKED_REST: Final = 9.0
"""So many times as long as reading took nobody reads on, where nobody asked anything: what a server says of its own accord is worth
a tenth of a processor."""
_LONGEST_REST: Final = 5.0
_PING_SECONDS: Final = 0.8
"""A call that was late waits for this too."""
_OVER: Final = Trouble(kind="gone", message="the server ended")


@final
class _Awaited:
    __slots__ = ("come", "said")

    def __init__(self) -> None:
        self.come = anyio.Event()
        self.said: Said = _OVER


@final
class PipePeer:
    """Belongs to one loop. The descriptor that is read is the caller's to close, once `run` has ended."""

    def __init__(self, reads: int, writes: int, changed: Callable[[], None]) -> None:
        """`changed` is called when the server says that it has other tools now."""
        os.set_blocking(reads, False)
        os.set_blocking(writes, False)
        self._reads = reads
        self._writes = writes
        self._changed = changed
        self._open: dict[int, _Awaited] = {}
        self._given_up: set[int] = set()
        self._last = 0
        self._odd = 0
        self._waiting: deque[bytes] = deque()
        self._more = anyio.Event()
        self._asked = anyio.Event()
        self.why = ""
        """Why it must be ended, as soon as that is known."""
        self.over = False
        self._stopped = anyio.Event()
        self._writing = anyio.CancelScope()

    async def run(self) -> None:
        """Until the server closes its output, or must be ended (`why`)."""
        lines, pace = Lines(mcp_message.MOST_BYTES), Pace()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._write)
            tasks.start_soon(self._until_stopped, tasks.cancel_scope)
            while not self.why:
                await anyio.wait_readable(self._reads)
                try:
                    piece = os.read(self._reads, _AT_ONCE)
                except BlockingIOError:
                    continue
                if not piece:
                    break
                count, began = 0, time.monotonic()
                for line in lines.add(piece):
                    count += 1
                    if self.why:
                        break
                    if line.strip():
                        self._take(await mcp_message.read_aside(line))
                if lines.overfull():
                    self.why = f"it sent a line of more than {mcp_message.MOST_BYTES:,} bytes"
                took = time.monotonic() - began
                await anyio.sleep(pace.rest(count, len(piece)))
                await self._unasked(took)
            tasks.cancel_scope.cancel()
        self.end()

    async def _unasked(self, seconds: float) -> None:
        """Rest after `seconds` of reading, until something is asked."""
        if not self._open:
            self._asked = anyio.Event()
            with anyio.move_on_after(min(_UNASKED_REST * seconds, _LONGEST_REST)):
                await self._asked.wait()

    def finish(self) -> None:
        """Say nothing more to it: it finds its input closed."""
        self._writing.cancel()

    def stop(self, why: str) -> None:
        """Have `run` end now."""
        self.why = self.why or why
        self._stopped.set()

    def end(self) -> None:
        """Nothing more is answered."""
        self.over = True
        self._close()
        for awaited in self._open.values():
            if self.why:
                awaited.said = Trouble(kind="gone", message=self.why)
            awaited.come.set()
        self._open.clear()

    async def ask(self, method: str, params: dict[str, Json], seconds: float) -> Said:
        if self.over or self.why:
            return _OVER
        if len(self._open) >= MOST_OPEN:
            return Trouble(kind="busy", message=f"the server has {MOST_OPEN} things to do already")
        number = self._last = self._last + 1
        line = mcp_message.request(number, method, params)
        if len(line) > mcp_message.MOST_BYTES:
            return Trouble(kind="bad", message="the arguments are larger than a message may be")
        awaited = self._open[number] = _Awaited()
        self._asked.set()
        self._send(line)
        try:
            with anyio.move_on_after(seconds):
                await awaited.come.wait()
        except anyio.get_cancelled_exc_class():
            self._give_up(number)
            raise
        if awaited.come.is_set():
            return awaited.said
        self._give_up(number)
        return Trouble(kind="late", message=f"the server did not answer within {seconds:g} s")

    async def tell(self, method: str, params: dict[str, Json]) -> None:
        self._send(mcp_message.notice(method, params))

    async def hangs(self) -> bool:
        """Whether it does not so much as say that it is there."""
        said = await self.ask("ping", {}, _PING_SECONDS)
        return isinstance(said, Trouble) and said.kind == "late"

    def _close(self) -> None:
        if self._writes >= 0:
            os.close(self._writes)
            self._writes = -1

    def _give_up(self, number: int) -> None:
        """Nobody waits for this any more: the server may stop."""
        if self._open.pop(number, None) is None or self.over:
            return
        self._given_up.add(number)
        self._send(mcp_message.notice("notifications/cancelled", {"requestId": number}))
        if len(self._given_up) > MOST_GIVEN_UP:
            # Most servers do not answer what was cancelled, so the oldest are forgotten: their answers would count as odd.
            self._given_up.discard(min(self._given_up))

    def _take(self, message: Message) -> None:
        match message:
            case Answered(id=number):
                self._answer(number, message.result)
            case Erred(id=number, code=code, message=said):
                self._answer(number, Trouble(kind="error", message=said, code=code))
            case Unusable(id=number, why=why):
                self._answer(number, unusable(why))
            case Asks():
                self._send(mcp_message.reply(message))
            case Tells(method=method):
                if method == LIST_CHANGED:
                    self._changed()
            case Unknown(why=why):
                self._is_odd(why)

    def _answer(self, number: int, said: Said) -> None:
        awaited = self._open.pop(number, None)
        if awaited is not None:
            awaited.said = said
            awaited.come.set()
        elif number in self._given_up:
            self._given_up.discard(number)
        else:
            self._is_odd("an answer to nothing that was asked")

    def _is_odd(self, why: str) -> None:
        self._odd += 1
        if self._odd > MOST_ODD:
            self.why = self.why or f"it sent more than {MOST_ODD} lines that are no message; the last: {why}"

    def _send(self, line: bytes) -> None:
        if self.over:
            return
        if len(self._waiting) >= MOST_WAITING:
            self.why = self.why or f"it does not read what it is sent: {MOST_WAITING} messages wait"
            return
        self._waiting.append(line + b"\n")
        self._more.set()

    async def _until_stopped(self, scope: anyio.CancelScope) -> None:
        await self._stopped.wait()
        scope.cancel()

    async def _write(self) -> None:
        try:
            with self._writing:
                await self._written()
        finally:
            self._close()

    async def _written(self) -> None:
        while True:
            while not self._waiting:
                self._more = anyio.Event()
                await self._more.wait()
            rest = memoryview(self._waiting[0])
            try:
                while rest:
                    await anyio.wait_writable(self._writes)
                    try:
                        rest = rest[os.write(self._writes, rest[:_AT_ONCE]) :]
                    except BlockingIOError:
                        continue
            except BrokenPipeError:
                return  # it reads nothing any more; its end is seen where it is read
            self._waiting.popleft()
