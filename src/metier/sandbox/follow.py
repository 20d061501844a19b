"""Stays with a run until it is over: its time, its disk, its caller's patience."""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, Literal, TypeAlias

import anyio

from metier.sandbox.disk import Disk
from metier.sandbox.wall import Ended, Running, WallError

QUICK_SECONDS: Final = 0.005
"""A run that is over by then needs nobody to look after it; its output has room in the pipes."""

Cut: TypeAlias = Literal["", "timed_out", "out_of_disk", "stopped"]


async def follow(
    running: Running,
    until: Callable[[], Coroutine[Any, Any, Ended]],
    *,
    seconds: float,
    disk: Disk,
    stop: anyio.Event,
    resumable: bool = False,
    beside: Sequence[Callable[[], Coroutine[Any, Any, None]]] = (),
) -> tuple[Ended, Cut]:
    """Wait for `until`, which ends when the run does, with `beside` going on meanwhile, from a moment later on.
    `resumable` is whether `until` may be cancelled and begun again, which saves most runs the company.

    A run that is out of time or disk, or that `stop` is set for, is killed, and so is one whose caller went away: nothing of it is left when
    this returns or is cancelled. The clock is the monotonic one.

    Raises:
        WallError: the run never began.
    """
    cut: Cut = ""
    ended: Ended | None = None
    trouble: WallError | None = None
    deadline = anyio.current_time() + seconds
    try:
        if resumable:
            with anyio.move_on_after(min(QUICK_SECONDS, seconds)):
                ended = await until()
            if ended is not None:
                return ended, "out_of_disk" if await disk.is_full() else ""
        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope(deadline=deadline) as time_left:

                async def end_it(why: Cut, when: Callable[[], Awaitable[object]]) -> None:
                    nonlocal cut
                    await when()
                    cut = why
                    time_left.cancel()

                async def look_after() -> None:
                    if not resumable:
                        await anyio.sleep(QUICK_SECONDS)
                    tasks.start_soon(end_it, "out_of_disk", disk.until_full)
                    tasks.start_soon(end_it, "stopped", stop.wait)
                    for each in beside:
                        tasks.start_soon(each)

                tasks.start_soon(look_after)
                try:
                    ended = await until()
                except WallError as error:
                    trouble = error
            tasks.cancel_scope.cancel()
        if ended is not None and not cut and await disk.is_full():
            cut = "out_of_disk"
    finally:
        if ended is None and trouble is None:
            with anyio.CancelScope(shield=True):
                ended = await running.kill()
                cut = cut or "timed_out"
    if ended is None:
        raise trouble or WallError("the run never began")
    return ended, cut
