"""The guest's side of the bridge: requests out, answers in, one line each; and what the host asks of code that lives.

Standard library only: the package is not importable here.
"""

import asyncio
import json
import os
import sys
import threading
import traceback
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any, TypeAlias

    Message: TypeAlias = dict[str, Any]

OURS = os.path.dirname(__file__)
ENCODER = json.JSONEncoder(allow_nan=False, separators=(",", ":"))
AT_ONCE = 32
"""The host answers so many requests at once, and refuses further ones."""


class HostError(Exception):
    """The host did not do what was asked. `name` says why in one word."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class Reply:
    """An answer of the host that may still be on its way: `await` it, or `wait()` for it where nothing is async."""

    def __init__(self, bridge: "Bridge", number: int) -> None:
        self._bridge = bridge
        self._number = number

    def __del__(self) -> None:
        self._bridge.forget(self._number)

    def wait(self) -> object:
        """The answer; raises HostError."""
        return self._bridge.answer(self._number)

    def __await__(self) -> "Generator[Any, None, object]":
        yield from self._bridge.until(self._number).__await__()
        return self._bridge.answer(self._number)


class Bridge:
    """Requests out, answers in, one line each."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._data = b""
        self._number = 0
        self._open: set[int] = set()
        self._answers: dict[int, Message] = {}
        self._expected: dict[int, asyncio.Future[None]] = {}
        self._unread: set[int] = set()
        self._later: deque[bytes] = deque()
        """Requests of code that lives which wait for their turn: it has many parts that know nothing of each other."""
        self._hear: Callable[[Message], None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        """Which reads, of code that lives; other threads of it leave that to this one."""
        self._thread = threading.get_ident()
        self._sending = threading.RLock()
        first: Message = json.loads(self._line())
        self._prefix = first["key"].encode() + b" "
        self.run: Message = first["params"]

    @property
    def is_owed(self) -> bool:
        """Whether a request is without an answer."""
        return bool(self._open)

    def listen(self, loop: asyncio.AbstractEventLoop, hear: "Callable[[Message], None]") -> None:
        """Read whatever comes, for as long as `loop` runs, and have `hear` told what the host asks."""
        self._hear = hear
        self._loop = loop
        loop.add_reader(self._descriptor, self._readable)

    def send(self, message: "Message") -> None:
        self.write(self.line(plain({"jsonrpc": "2.0", **message})))

    def line(self, text: str) -> bytes:
        """A message as the bytes that are sent."""
        return self._prefix + text.encode("utf-8") + b"\n"

    def write(self, line: bytes) -> None:
        left = memoryview(line)
        with self._sending:  # two lines in one are none, and are taken for a forgery
            while left:
                left = left[os.write(self._descriptor, left) :]

    def ask(self, method: str, params: dict[str, object]) -> Reply:
        with self._sending:
            number = self._number + 1
            line = self.line(plain({"jsonrpc": "2.0", "id": number, "method": method, "params": params}))
            if len(line) > self.run["most_message"]:
                raise HostError("TooLarge", f"{method}: the arguments are larger than a message may be")
            self._number = number
            self._open.add(number)
            if self._hear is not None and len(self._open) > AT_ONCE:
                self._later.append(line)
            else:
                self.write(line)
        return Reply(self, number)

    def forget(self, number: int) -> None:
        """Nobody will ask for this answer any more: what lives long must not collect them."""
        if number in self._open:
            self._unread.add(number)
        self._answers.pop(number, None)

    def fewer(self, most: int) -> None:
        """Wait until fewer than so many requests are without an answer."""
        while len(self._open) >= most:
            self._read()

    def answer(self, number: int) -> object:
        if self._loop is not None and threading.get_ident() != self._thread:
            asyncio.run_coroutine_threadsafe(self.until(number), self._loop).result()
        while number not in self._answers:
            self._read()
        if self._hear is not None:
            self._read_rest()
        answer = self._answers.pop(number)
        if "error" in answer:
            raise HostError(answer["error"]["data"]["name"], answer["error"]["message"])
        return answer["result"]

    async def until(self, number: int) -> None:
        """Let other tasks run until an answer is there."""
        loop = asyncio.get_running_loop()
        if self._loop is not None and loop is not self._loop:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.until(number), self._loop))
            return
        if not self._expected and self._hear is None:
            loop.add_reader(self._descriptor, self._readable)
        try:
            while number not in self._answers:
                future = self._expected.setdefault(number, loop.create_future())
                await future
        finally:
            self._expected.pop(number, None)
        if not self._expected and self._hear is None:
            loop.remove_reader(self._descriptor)

    def _readable(self) -> None:
        self._read()
        self._read_rest()

    def _read_rest(self) -> None:
        """What was read along, which makes no descriptor readable."""
        while b"\n" in self._data:
            self._read()

    def _read(self) -> None:
        answer = json.loads(self._line())
        if self._hear is not None and "method" in answer:
            self._hear(answer)
            return
        number = answer["id"]
        with self._sending:
            self._open.discard(number)
            if self._later:
                self.write(self._later.popleft())
        if number in self._unread:
            self._unread.discard(number)
            return
        self._answers[number] = answer
        future = self._expected.get(number)
        if future is not None and not future.done():
            future.set_result(None)

    def _line(self) -> bytes:
        pieces = [self._data]
        while b"\n" not in pieces[-1]:
            pieces.append(os.read(self._descriptor, 65_536))
            if not pieces[-1]:
                os._exit(1)  # the host is gone
        line, _, self._data = b"".join(pieces).partition(b"\n")
        return line


def told(error: BaseException) -> str:
    """What an exception says, also of one that cannot say it."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001  code of the exception's own
        return ""


def plain(value: object) -> str:
    """JSON in ASCII, a byte a character."""
    return ENCODER.encode(value)


def show(error: BaseException) -> None:
    """The traceback without our own frames, for the author of the code."""
    try:
        trace = traceback.TracebackException.from_exception(error, limit=20)
        trace.stack[:] = [frame for frame in trace.stack if os.path.dirname(frame.filename) != OURS]
        sys.stderr.writelines(trace.format())
    except Exception:  # noqa: BLE001  an exception whose own text fails
        sys.stderr.write(type(error).__name__ + "\n")
