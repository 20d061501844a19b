"""Clearing away that nobody interrupts.

A shield of anyio holds back anyio's own cancelling. A task can also be cancelled by the loop underneath (a time limit of a
web server, a task group of its own), and that breaks through every shield. Only another task is out of its reach.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

T = TypeVar("T")


async def unbroken(work: Callable[[], Awaitable[T]]) -> T:
    """Do `work` to its end. Whoever is cancelled meanwhile is held here until then; a cancelled scope is only felt
    later, as behind any shield."""
    done: list[T] = []

    async def alone() -> None:
        with anyio.CancelScope(shield=True):
            done.append(await work())

    with anyio.CancelScope(shield=True):
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(alone)
        except ExceptionGroup as group:
            raise group.exceptions[0] from None  # as it is, and in no group
    return done[0]
