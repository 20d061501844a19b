"""Engine processes that have loaded the runner and wait for their one order.

A process serves one call and is ended with it. A shape that was used twice is likely to be used again, so after a
use one of it is started ahead. Those that wait are bounded in number, the longest unused goes first, and one that
died, grew old or belongs to a folder that has changed is ended, never used.
"""

import os
import select
import time
from collections import OrderedDict
from contextlib import suppress
from functools import partial
from typing import Final, final

import anyio
from msgspec.structs import replace

from metier.sandbox.deno_audit import Audit
from metier.sandbox.deno_plan import Shape
from metier.sandbox.process import two_pipes
from metier.sandbox.unbroken import unbroken
from metier.sandbox.wall import Ended, Look, Program, Running, Take, Wall, WallError

PROCESS_MB: Final = 46
_OLDEST_SECONDS: Final = 300.0
_MOST_SHAPES: Final = 256
_MOST_OF_ONE: Final = 4
_LEAST_MB: Final = 30
"""Less than this no engine holds that has got as far as a skill's code: then it was last seen as it began, or gone."""


@final
class Engine:
    """One process, and our ends of its three streams."""

    def __init__(self, shape: Shape, running: Running, audit: Audit, write_fd: int, read_fd: int) -> None:
        self.shape: Final = shape
        self.audit: Final = audit
        self.write_fd: Final = write_fd
        self.read_fd: Final = read_fd
        self.since: Final = time.monotonic()
        self.take: Take | None = None
        """Who takes what it leaves, once it has its order."""
        self._running = running
        self._ended: Ended | None = None
        self._open = True
        self._hung_up = False

    def is_fit(self) -> bool:
        """Whether it still waits: one that said anything or hung up before its order did not."""
        look = select.poll()
        look.register(self.read_fd, select.POLLIN)
        return not look.poll(0) and time.monotonic() - self.since < _OLDEST_SECONDS

    def look(self) -> Look:
        return self._running.look()

    @property
    def shared_folders(self) -> list[str]:
        return self._running.shared_folders

    @property
    def proxy(self) -> None:
        """It has no network of its own; the bridge is its way out."""
        return

    def left(self) -> int:
        return self._running.left()

    def strike(self) -> Ended | None:
        """End it without waiting. `end` must follow."""
        if self._ended is None and (struck := self._running.strike()) is not None:
            self._ended = _known(struck)
        return self._ended

    async def wait(self) -> Ended:
        """Until it has ended by itself, which it does when we have nothing more to say."""
        if self._ended is None:
            self._hang_up()
            self._ended = _known(await self._running.wait())
        return self._ended

    async def kill(self) -> Ended:
        """End it now. Our ends of its streams stay open for whoever reads them."""
        ended = self._ended
        if ended is None:
            ended = Ended(why="killed")
            with anyio.CancelScope(shield=True):
                ended = _known(await self._running.kill())
            self._ended = ended
        return ended

    async def end(self) -> Ended:
        """Nothing of it is left after this. May be called twice, and is not cancelled halfway."""
        return await unbroken(self._end)

    async def _end(self) -> Ended:
        last = _known(await self._running.kill())
        self._ended = self._ended or last
        self._close()
        return self._ended

    def _close(self) -> None:
        if self._open:
            self._open = False
            self.audit.finish()
            self.audit.close()
            self._hang_up()
            os.close(self.read_fd)

    def _hang_up(self) -> None:
        if not self._hung_up:
            self._hung_up = True
            os.close(self.write_fd)


def _known(ended: Ended) -> Ended:
    """As it ended; its memory only where somebody looked in time, for a wrong number is worse than none."""
    return ended if ended.memory_bytes >= _LEAST_MB << 20 else replace(ended, memory_bytes=0)


async def start(wall: Wall, shape: Shape, *, ahead: bool = False) -> Engine:
    """Start a process; one that is started ahead makes itself ready for more. Raises WallError, with nothing left."""
    audit = Audit(reads=shape.reads, writes=shape.writes, variables=shape.variables)
    engines: list[Engine] = []

    def take(folder: int) -> None:
        for taking in [engine.take for engine in engines if engine.take is not None]:
            taking(folder)

    try:
        their_input, write_fd, read_fd, their_output = two_pipes()
    except BaseException:
        audit.close()
        raise
    program = Program(
        argv=(*shape.argv, "ahead") if ahead else shape.argv,
        environment=shape.environment,
        cwd=shape.cwd,
        stdin=their_input,
        stdout=their_output,
        stderr=audit.theirs,
        alone=True,
        exact_memory=shape.exact_memory,
        take=take,
    )
    try:
        running = await wall.start(shape.policy, program)
    except BaseException:
        audit.close()
        os.close(write_fd)
        os.close(read_fd)
        raise
    finally:
        os.close(their_input)
        os.close(their_output)
    audit.close_theirs()
    engines.append(Engine(shape, running, audit, write_fd, read_fd))
    return engines[0]


@final
class Pool:
    """The waiting ones, most recently used last."""

    def __init__(self, wall: Wall, *, megabytes: int) -> None:
        self._wall = wall
        self._most = megabytes // PROCESS_MB
        self._waiting: OrderedDict[Shape, list[Engine]] = OrderedDict()
        self._uses: OrderedDict[Shape, int] = OrderedDict()
        self._starting = 0
        self._closed = False

    @property
    def waiting(self) -> int:
        return sum(len(engines) for engines in self._waiting.values())

    async def take(self, shape: Shape) -> Engine:
        """A process of this shape that nobody else has. Raises WallError when none can be started."""
        self._count(shape)
        await self._drop([other for other in self._waiting if _is_outdated(other, shape)])
        while engines := self._waiting.get(shape):
            engine = engines.pop()
            if not engines:
                del self._waiting[shape]
            if engine.is_fit():
                return engine
            await engine.end()
        return await start(self._wall, shape)

    async def refill(self, shape: Shape) -> None:
        """After a use: start one ahead where that pays. A failure only means that the next call starts its own."""
        if self._closed or self._uses.get(shape, 0) < 2 or self._most < 1:
            return
        if len(self._waiting.get(shape, ())) + self._starting >= min(_MOST_OF_ONE, self._most):
            return
        while self.waiting + self._starting >= self._most and self._waiting:
            await self._drop([next(iter(self._waiting))])
        self._starting += 1
        try:
            engine = await start(self._wall, shape, ahead=True)
        except WallError:
            return
        finally:
            self._starting -= 1
        if self._closed:
            await engine.end()
            return
        self._waiting.setdefault(shape, []).append(engine)
        self._waiting.move_to_end(shape)

    async def aclose(self) -> None:
        """End all that wait; none is started any more."""
        self._closed = True
        await self._drop(list(self._waiting))

    def _count(self, shape: Shape) -> None:
        self._uses[shape] = self._uses.get(shape, 0) + 1
        self._uses.move_to_end(shape)
        while len(self._uses) > _MOST_SHAPES:
            self._uses.popitem(last=False)

    async def _drop(self, shapes: list[Shape]) -> None:
        gone = [engine for shape in shapes for engine in self._waiting.pop(shape, ())]
        if gone:
            await unbroken(partial(_end_all, gone))


async def _end_all(engines: list[Engine]) -> None:
    for engine in engines:
        with suppress(WallError):
            await engine.end()


def _is_outdated(other: Shape, shape: Shape) -> bool:
    return bool(shape.bundle) and other.bundle == shape.bundle and other.stamp != shape.stamp
