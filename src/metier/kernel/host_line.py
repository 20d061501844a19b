"""The way to the host, for every other process: what only the host can do is done there, for a call that was judged and recorded here."""

import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final, NoReturn, final

import anyio
from anyio import to_thread
from anyio.streams.buffered import BufferedByteReceiveStream

from metier.errors import NoHost
from metier.kernel.events import Happened
from metier.kernel.host_line_socket import connected, read_key
from metier.kernel.host_line_words import (
    BAD_KEY,
    BAD_LINE,
    BUSY,
    INTERRUPTED,
    MOST_BYTES,
    NOT_JSON,
    TIMEOUT,
    TOO_LARGE,
    Answer,
    Begun,
    Do,
    Done,
    End,
    HostStatus,
    Listen,
    Look,
    Told,
    Wanted,
    Wrong,
    line_of,
    read_answer,
)
from metier.kernel.operation import Asked, OperationError
from metier.model.digest import Json

PATIENCE: Final = 10.0
"""So long the host may take to say that it heard."""
LONGEST: Final = 330.0
"""So long the longest operation may take (300 s), and a little more."""
_GONE: Final = (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError)


@final
class HostLine:
    """Each request is a connection of its own: none waits for another, and who goes away takes his request with him."""

    def __init__(self, home: str) -> None:
        self._home = home

    async def do(self, asked: Asked, *, seconds: float = LONGEST) -> Json:
        """Have the host do it. Its call must have been announced on the record by this process.

        Raises:
            NoHost: when there is none.
            OperationError: as the operation raised it, or because the host refused it, is busy, or went away meanwhile.
        """
        wanted = Do(
            call_id=asked.call_id,
            arguments=asked.arguments,
            skill=asked.skill,
            surroundings=asked.surroundings,
            depth=asked.depth,
            cause=asked.cause,
        )
        deadline = time.monotonic() + seconds
        async with self._asked(wanted) as talk:
            first = await talk.answer(min(PATIENCE, seconds), begun=False)
            if not isinstance(first, Begun):
                _not_done(first)
            done = await talk.answer(deadline - time.monotonic(), begun=True)
        return done.value if isinstance(done, Done) else _not_done(done)

    async def status(self, *, seconds: float = PATIENCE) -> HostStatus:
        """What the host says of itself.

        Raises:
            NoHost: when there is none.
            OperationError: when it does not say it.
        """
        async with self._asked(Look()) as talk:
            answer = await talk.answer(seconds, begun=False)
        return answer if isinstance(answer, HostStatus) else _not_done(answer)

    async def end(self, *, seconds: float = PATIENCE) -> None:
        """Ask the host to give its role back. It has heard when this returns, and is not yet done.

        Raises:
            NoHost, OperationError: as for `status`.
        """
        async with self._asked(End()) as talk:
            answer = await talk.answer(seconds, begun=False)
        if not isinstance(answer, Done):
            _not_done(answer)

    @asynccontextmanager
    async def events(self) -> AsyncGenerator[AsyncIterator[Happened]]:
        """What happens in the host from now on, until it goes away. Who is too slow is cut off, and hears so.

        Raises:
            NoHost, OperationError: as for `status`; the second also later, out of the iterator.
        """
        async with self._asked(Listen()) as talk:
            first = await talk.answer(PATIENCE, begun=False)
            if not isinstance(first, Begun):
                _not_done(first)
            yield talk.told()

    @asynccontextmanager
    async def _asked(self, wanted: Wanted) -> "AsyncGenerator[_Talk]":
        line = line_of(wanted)
        if line is None:
            raise OperationError(NOT_JSON, "this holds what cannot be said in JSON; nothing was done")
        if len(line) > MOST_BYTES:
            raise OperationError(TOO_LARGE, f"this is {len(line):,} bytes, and the host takes {MOST_BYTES:,}")
        key = await to_thread.run_sync(read_key, self._home)
        stream = None
        with anyio.move_on_after(PATIENCE):
            stream = await connected(self._home)
        if stream is None:
            raise _silent()
        async with stream:
            with anyio.move_on_after(PATIENCE) as patience, suppress(*_GONE):  # it may say why before it goes
                await stream.send(key.line() + line)
            if patience.cancelled_caught:
                raise _silent()
            yield _Talk(BufferedByteReceiveStream(stream))


@final
class _Talk:
    """The answers to one request."""

    def __init__(self, heard: BufferedByteReceiveStream) -> None:
        self._heard = heard

    async def answer(self, seconds: float | None, *, begun: bool) -> Answer:
        """The next one.

        Args:
            begun: whether the host said that it began.
        """
        with anyio.move_on_after(seconds):
            try:
                return read_answer(await self._heard.receive_until(b"\n", MOST_BYTES))
            except _GONE:
                if begun:
                    raise OperationError(
                        INTERRUPTED,
                        "the host went away while it did this, so nobody knows how much of it was done; look before you "
                        "do it again",
                    ) from None
                raise OperationError(
                    BUSY, "the host went away, or has too much to do, before it began; nothing was done"
                ) from None
            except (anyio.DelimiterNotFound, *BAD_LINE):
                raise OperationError(
                    INTERRUPTED, "the host answered something that this version does not understand"
                ) from None
        raise _silent()

    async def told(self) -> AsyncIterator[Happened]:
        while True:
            answer = await self.answer(None, begun=True)
            if not isinstance(answer, Told):
                _not_done(answer)
            yield answer.happened


def _silent() -> OperationError:
    return OperationError(TIMEOUT, "the host did not answer in time: it stands still, or has too much to do")


def _not_done(answer: Answer) -> NoReturn:
    match answer:
        case Wrong(code=code) if code == BAD_KEY:
            raise NoHost("the host was started again in this very moment", remedy="Do the same once more")
        case Wrong(code=code, message=message):
            raise OperationError(code, message)
        case _:
            raise OperationError(INTERRUPTED, "the host answered something else than what it was asked")
