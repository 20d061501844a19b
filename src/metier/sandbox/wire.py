"""The host's side of the bridge: JSON-RPC 2.0 over two descriptors, one line a message.

The host asks one thing, `run`; the guest answers it once, and meanwhile asks what it likes. Its requests are
answered side by side, each by the `Host` of this very call. Of code that lives the host asks more (`wire_life`). Everything is bounded: messages, requests at once and
altogether, text kept, answers not fetched, and the time it takes to read what it says. A message that our own runner
inside would not have written ends the run as a violation. A `Wire` is made inside the running loop and serves one run;
the descriptors stay the caller's, who closes them afterwards.
"""

import os
import time
from codecs import getincrementaldecoder
from collections.abc import Callable
from typing import Final, Literal, TypeAlias, final

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup
from msgspec import Struct

from metier.model.digest import Json
from metier.model.job import Event, Fault
from metier.model.ports import Answered, Host, Lives, NotAnswered
from metier.sandbox.wire_life import OUTPUT_BYTES, Asking, Pace
from metier.sandbox.wire_lines import Lines, SharedLines
from metier.sandbox.wire_message import (
    MOST_BYTES,
    RUN_ID,
    Asked,
    Error,
    Forged,
    Message,
    Result,
    Unfit,
    answer_line,
    error_line,
    read_line,
    run_line,
)
from metier.sandbox.wire_out import Outgoing
from metier.sandbox.wire_text import Events, Kept

MOST_AT_ONCE: Final = 32
MOST_REQUESTS: Final = 10_000
MOST_LOGGED: Final = 67_108_864
"""Bytes of log messages; a guest that makes more only wants to keep the host busy."""
_PIECE: Final = 262_144
_LARGE: Final = 65_536
"""A message beyond this is read in a thread: everybody else's calls are on the loop."""
_NOTICED: Final = 0.005
_REST: Final = 1.0
"""Whose messages took more than so many seconds to read is read again after so many times that, so that no run takes
more than half of the loop's time."""
_ENVELOPE: Final = 64
"""Bytes around a result: key, id and the like do not count as output."""


@final
class Returned(Struct, frozen=True, kw_only=True):
    """The code ran to its end and this came back."""

    value: Json
    size: int = 0
    """Bytes of it as it came."""


@final
class Raised(Struct, frozen=True, kw_only=True):
    """The code ran and ended in an error of its own."""

    fault: Fault


@final
class Broken(Struct, frozen=True, kw_only=True):
    """No answer that could be taken: the guest must be ended."""

    problem: Literal["forged_message", "violation", "closed", "too_large", "bad_result", "late"]
    """The first two are violations and stand in `Wire.violations`. `closed`: it ended without an answer.
    `bad_result`: what it returned is not plain JSON. `too_large`: it went over a cap. `late`: it was not enabled in time."""
    detail: str


End: TypeAlias = Returned | Raised | Broken


@final
class Wire:
    """One run over one pair of descriptors."""

    def __init__(
        self,
        read_fd: int,
        write_fd: int,
        *,
        key: str,
        host: Host | None,
        output_bytes: int,
        shared: bool = False,
        alarm: Callable[[Event], None] = lambda _event: None,
        lives: Lives | None = None,
        enable_seconds: float = 30.0,
    ) -> None:
        """`shared`: the code inside can write on `read_fd` too; what it writes there is its output. `alarm` is told of a
        violation at once. `lives` is who is told when a life began, which has `enable_seconds` for it."""
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._key = key
        self._prefix = key.encode("ascii")
        self._host = host
        self._output_bytes = output_bytes
        self._shared = shared
        self._alarm = alarm
        self._lives = lives
        self._enable_seconds = enable_seconds
        self._enabled = False
        self._out = Outgoing(write_fd, self._never_read)
        self._post = self._out.post
        self._asking = Asking(self._out.post, self._out.until_room)
        self._pace = Pace()
        endless = lives is not None
        self._kept = Kept(min(output_bytes, OUTPUT_BYTES) if endless else output_bytes, endless=endless)
        self._decoder = getincrementaldecoder("utf-8")(errors="replace")
        self._denials = Events()
        self._violations = Events()
        self._requests = 0
        self._open: set[int] = set()
        self._at_once = 0
        self._end: End | None = None
        self._reading = anyio.CancelScope()

    @property
    def denials(self) -> tuple[Event, ...]:
        """What the guest asked for and was refused."""
        return self._denials.seen

    @property
    def violations(self) -> tuple[Event, ...]:
        """What no skill may ever try."""
        return self._violations.seen

    @property
    def stdout(self) -> str:
        """What it logged as ordinary output, as far as it was kept."""
        return self._kept.stdout

    @property
    def stderr(self) -> str:
        """What it logged as warnings and errors, as far as it was kept."""
        return self._kept.stderr

    @property
    def truncated(self) -> bool:
        """Whether it logged more than was kept."""
        return self._kept.truncated

    @property
    def logged_bytes(self) -> int:
        """How much it logged altogether, kept or not."""
        return self._kept.made

    async def run(self, params: dict[str, Json]) -> End:
        """Have the guest run, answer what it asks, and say how it ended. Once for each Wire.

        When this returns, also when it is cancelled, nothing is being answered any more.
        """
        os.set_blocking(self._read_fd, False)
        os.set_blocking(self._write_fd, False)
        async with anyio.create_task_group() as group:
            group.start_soon(self._out.run)
            if self._lives is not None:
                group.start_soon(self._until_late)
            first = run_line(params, self._key)
            self._out.make_room(len(first) + MOST_BYTES)
            self._post(first)
            try:
                with self._reading:
                    await self._read_on(group)
            finally:
                self._asking.end()
            group.cancel_scope.cancel()
        return self._end or Broken(problem="closed", detail="It ended without an answer")

    # From the guest

    async def _read_on(self, group: TaskGroup) -> None:
        """Until it is known how the run ended, or nothing more can come."""
        most = len(self._prefix) + 1 + max(MOST_BYTES, self._output_bytes + _ENVELOPE)
        lines = SharedLines(self._prefix, most=most, output=self._printed) if self._shared else Lines(most)
        try:
            while self._end is None and (piece := await self._read()):
                began = time.thread_time()
                whole = list(lines.add(piece))
                spent = time.thread_time() - began
                begun = 0
                for line in whole:
                    message, seconds = await self._message(line)
                    spent += seconds
                    begun += isinstance(message, Asked)
                    self._take(message, len(line) - len(self._prefix), group)
                    if self._reading.cancel_called:
                        return
                if self._end is None and lines.overfull():
                    detail = f"A message is larger than {MOST_BYTES:,} bytes"
                    self._end = Broken(problem="too_large", detail=detail)
                rest = spent * _REST if spent > _NOTICED else 0.0
                if self._lives is not None:
                    rest = max(rest, self._pace.rest(begun, len(piece)))
                if self._end is None and rest > 0:
                    await anyio.sleep(rest)
        finally:
            lines.end()

    async def _message(self, line: bytes) -> tuple[Message, float]:
        """What a line says, and how many seconds it took to read it."""

        def read() -> tuple[Message, float]:
            began = time.thread_time()
            most, lives = self._output_bytes + _ENVELOPE, self._lives is not None
            message = read_line(line, self._prefix, most_result=most, lives=lives)
            return message, time.thread_time() - began

        return read() if len(line) <= _LARGE else await to_thread.run_sync(read)

    async def _read(self) -> bytes:
        """What there is next; nothing when the other side is gone."""
        try:
            while True:
                await anyio.wait_readable(self._read_fd)
                try:
                    return os.read(self._read_fd, _PIECE)
                except BlockingIOError:
                    continue
        except (OSError, anyio.ClosedResourceError):
            return b""

    def _take(self, message: Message, size: int, group: TaskGroup) -> None:
        if self._end is not None and not isinstance(message, Result | Error | Forged):
            return  # it asks after it ended; a second end, or a forged one, still counts
        match message:
            case Forged(why=why):
                self._violate("forged_message", "forged_message", why)
            case Result(id=int(number)) | Error(id=int(number)) | Unfit(what="result", id=int(number)) if (
                number != RUN_ID
            ):
                if not self._asking.take(number, message):
                    why = "an answer to something nobody asked"
                    self._violate("forged_message", "forged_message", why)
            case Result() | Error() if self._end is not None:
                self._violate("forged_message", "forged_message", "a second answer to the one run")
            case Result(value=value):
                self._end = self._returned(value, size)
            case Error(fault=fault, bad_result=True):
                self._end = Broken(problem="bad_result", detail=fault.message)
            case Error(fault=fault):
                self._end = Raised(fault=fault)
            case Unfit(what="result", why=why):
                self._end = Broken(problem="bad_result", detail=f"The result is not plain JSON: {why}")
            case Unfit(what="request", id=int(number), why=why):
                self._post(error_line(number, "InvalidRequest", f"The request is not plain JSON: {why}"))
            case Unfit():
                pass  # a log line with half a character in it; nobody waits for an answer
            case Asked(id=None, method="log", params=params):
                self._log(params)
            case Asked(
                id=None, method="refused", params={"kind": "read" | "write" as kind, "what": str(what)}
            ):
                self._denials.add(kind, what)  # a hint of the interpreter's; see guest/touched.py
            case Asked(id=None, method="ready") if self._lives is not None:
                self._begin(self._lives)
            case Asked():
                self._ask(message, group)

    def _begin(self, lives: Lives) -> None:
        if self._enabled:
            self._violate("forged_message", "forged_message", "a second word that it is ready")
            return
        self._enabled = True
        lives.ready(self._asking.operate)

    async def _until_late(self) -> None:
        await anyio.sleep(self._enable_seconds)
        if not self._enabled and self._end is None:
            detail = f"It was not enabled within {self._enable_seconds:g} s"
            self._end = Broken(problem="late", detail=detail)
            self._reading.cancel()

    def _returned(self, value: Json, size: int) -> Returned | Broken:
        if size > self._output_bytes + _ENVELOPE:
            detail = f"The result is larger than the limit of {self._output_bytes:,} bytes"
            return Broken(problem="too_large", detail=detail)
        return Returned(value=value, size=size)

    def _log(self, params: dict[str, Json]) -> None:
        level, message = params.get("level"), params.get("message")
        if isinstance(message, str):
            end = "" if params.get("open") is True else "\n"
            self._keep(message + end, error=level in ("error", "warn"))

    def _printed(self, data: bytes) -> None:
        self._keep(self._decoder.decode(data), error=False)

    def _keep(self, text: str, *, error: bool) -> None:
        self._kept.add(text, error=error)
        if self._end is None and self._lives is None and self._kept.made > MOST_LOGGED:
            self._end = Broken(problem="too_large", detail=f"It logged more than {MOST_LOGGED:,} bytes")

    # The guest asks

    def _ask(self, asked: Asked, group: TaskGroup) -> None:
        self._requests += 1
        if asked.id is not None and asked.id in self._open:
            self._violate("forged_message", "forged_message", "a request with the id of an open one")
            return
        over = None
        if self._requests > MOST_REQUESTS and self._lives is None:
            over = f"This run made more than {MOST_REQUESTS:,} requests; it gets no further answers"
        elif self._at_once >= MOST_AT_ONCE:
            over = f"More than {MOST_AT_ONCE} requests at once; wait for answers before asking more"
        if over is None:
            self._at_once += 1
            if asked.id is not None:
                self._open.add(asked.id)
            group.start_soon(self._answer, asked)
        elif asked.id is not None:
            self._post(error_line(asked.id, "Busy", over))

    async def _answer(self, asked: Asked) -> None:
        """Ask the host for one answer and post it when the guest has read earlier ones."""
        answer = await self._host_says(asked)
        if isinstance(answer, NotAnswered):
            detail = f"{asked.method}: {answer.message}"
            if answer.kind == "violation":
                self._violate("violation", "host_call", detail)
                return
            if answer.kind == "denied":
                self._denials.add("host_call", detail)
        if asked.id is not None:
            line = answer_line(asked.id, answer)
            await self._out.until_room()
            self._post(line)
            self._open.discard(asked.id)
        self._at_once -= 1

    async def _host_says(self, asked: Asked) -> Answered | NotAnswered:
        if self._host is None:
            return NotAnswered(name="NotFound", message="Nothing can be asked of the host in this run")
        return await self._host.ask(asked.method, asked.params)

    def _violate(self, problem: Literal["forged_message", "violation"], kind: str, detail: str) -> None:
        """Whatever else it said, a violation is how it ended."""
        self._violations.add(kind, detail)
        self._alarm(Event(kind=kind, detail=detail))
        self._end = Broken(problem=problem, detail=detail)
        self._reading.cancel()

    def _never_read(self) -> None:
        detail = "It does not read the answers to what it asks"
        self._end = Broken(problem="too_large", detail=detail)
        self._reading.cancel()
