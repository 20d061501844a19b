"""Acts at one step of a piece of work: there a task of it is suspended, and may be cancelled."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from typing import Any

import anyio


async def cancelled_at(
    step: int, work: Callable[[], Awaitable[object]], look: Callable[[], int], *, natively: bool, waking: bool
) -> tuple[int, int]:
    """How many steps were taken, and what `look` saw when the work was cancelled; 0 when it was not."""
    seen = [0]
    scope = anyio.CancelScope()

    def cancel() -> None:
        seen.append(look())
        if natively:
            task.cancel()
        else:
            scope.cancel()

    async def inside() -> None:
        with scope:
            assert await work()

    loop = asyncio.get_running_loop()
    steps = Steps(step, cancel, waking=waking)
    loop.set_task_factory(steps.task)
    try:
        task = loop.create_task(inside())
        await asyncio.wait([task])
    finally:
        loop.set_task_factory(None)
    with suppress(asyncio.CancelledError):
        task.result()
    return steps.taken, max(seen)


class Steps:
    """Counts the steps of all tasks that are started meanwhile, and acts at one of them."""

    def __init__(self, at: int, act: Callable[[], None], *, waking: bool) -> None:
        self.taken = 0
        self._at = at
        self._act = act
        self._waking = waking

    def task(self, loop: Any, work: Coroutine[Any, Any, Any], **more: Any) -> asyncio.Task[Any]:
        async def counted() -> Any:
            return await Counted(work, self)

        return asyncio.Task(counted(), loop=loop, **more)

    def step(self, waits_for: Any) -> None:
        self.taken += 1
        if self.taken != self._at:
            return
        if self._waking and waits_for is not None:
            waits_for.add_done_callback(lambda _: self._act())  # before the task hears of it
        else:
            asyncio.get_running_loop().call_soon(self._act)


class Counted:
    def __init__(self, work: Coroutine[Any, Any, Any], steps: Steps) -> None:
        self._work = work
        self._steps = steps

    def __await__(self) -> Generator[Any, Any, Any]:
        go: Callable[[Any], Any] = self._work.send
        given: Any = None
        while True:
            try:
                waits_for = go(given)
            except StopIteration as end:
                return end.value
            self._steps.step(waits_for)
            try:
                given = yield waits_for
                go = self._work.send
            except BaseException as problem:  # noqa: BLE001  handed on to the work
                given, go = problem, self._work.throw
