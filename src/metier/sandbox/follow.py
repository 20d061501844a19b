"""Stays with a run until it is over: its time, its disk, its caller's patience."""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final

import anyio

from metier.model.job import Event
from metier.sandbox.bounds import Bounds
from metier.sandbox.wall import Cut, Ended, NoRoomError, Running, WallError

QUICK_SECONDS: Final = 0.005
"""A run that is over by then needs nobody to look after it; its output has room in the pipes."""


async def follow(
    running: Running,
    until: Callable[[], Coroutine[Any, Any, Ended]],
    *,
    seconds: float,
    bounds: Bounds,
    stop: anyio.Event,
    resumable: bool = False,
    at_once: bool = False,
    alarm: Callable[[Event], None] = lambda _event: None,
    beside: Sequence[Callable[[], Coroutine[Any, Any, None]]] = (),
) -> tuple[Ended, Cut]:
    """Wait for `until`, which ends when the run does, with `beside` going on meanwhile, from a moment later on.
    `resumable` is whether `until` may be cancelled and begun again, which saves most runs the company; `at_once` is
    for a run that cannot do without it.

    A run that is out of time or disk, or that `stop` is set for, is killed, and so is one whose caller went away: nothing of it is left when
    this returns or is cancelled. `alarm` is told what it violated, also then. The clock is the monotonic one.

    Raises:
        WallError: the run never began.
        NoRoomError: nor did this one, and it may another time.
    """
    cut: Cut = ""
    ended: Ended | None = None
    trouble: WallError | NoRoomError | None = None
    deadline = anyio.current_time() + seconds
    try:
        if resumable:
            try:
                with anyio.move_on_after(min(QUICK_SECONDS, seconds)):
                    ended = await until()
            except (WallError, NoRoomError) as error:
                trouble = error
                raise
            if ended is not None:
                return ended, await _last_look(ended, bounds)
        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope(deadline=deadline) as time_left:

                async def end_it(why: Callable[[], Awaitable[Cut]]) -> None:
                    nonlocal cut
                    cut = await why()
                    time_left.cancel()

                async def stopped() -> Cut:
                    await stop.wait()
                    return "stopped"

                async def look_after() -> None:
                    if not resumable and not at_once:
                        await anyio.sleep(QUICK_SECONDS)
                    tasks.start_soon(end_it, bounds.until_over)
                    tasks.start_soon(end_it, stopped)
                    for each in beside:
                        tasks.start_soon(each)

                tasks.start_soon(look_after)
                try:
                    ended = await until()
                except (WallError, NoRoomError) as error:
                    trouble = error
            tasks.cancel_scope.cancel()
        if ended is not None and not cut:
            cut = await _last_look(ended, bounds)
    finally:
        if ended is None and trouble is None:
            with anyio.CancelScope(shield=True):
                ended = await running.kill()
                cut = cut or "timed_out"
        for each in ended.violations if ended is not None else ():
            alarm(each)
    if ended is None:
        raise trouble or WallError("the run never began")
    return ended, cut


async def _last_look(ended: Ended, bounds: Bounds) -> Cut:
    """What is to be said of a run that was over before anybody ended it."""
    if await bounds.was_over(ended):
        return "out_of_disk"
    # It said nothing that can be believed. Nor is it known to have done anything forbidden: whoever watched it may
    # have gone for a reason of the machine's.
    return "signalled" if ended.why == "lost" else ""
