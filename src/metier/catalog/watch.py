"""See a changed, new or removed skill within a second, also in a folder that did not exist before.

Only the folders that discovery itself looked into are watched, each without what lies below: a link in one of them
leads the watch nowhere.
"""

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Final

import anyio

SETTLE_MS: Final = 200
"""How long a burst of changes is gathered."""
LOOK_MS: Final = 500
"""How often folders that are not there yet are looked for."""


async def changes(
    folders: Callable[[], Sequence[str]], stale: Callable[[], Awaitable[bool]]
) -> AsyncGenerator[None]:
    """One item for every burst of changes in `folders`, until the caller is cancelled.

    Args:
        folders: what to watch, asked again after every item: a change may bring new folders.
        stale: whether something else changed that counts; asked twice a second.
    """
    from watchfiles import awatch  # pyright: ignore[reportUnknownVariableType]  its filter is loosely typed

    polling = False
    while True:
        wanted = list(folders())
        there = _there(wanted)
        if not there:
            await anyio.sleep(LOOK_MS / 1000)
            if _there(wanted) or await stale():
                yield
            continue
        fresh = True  # what changed between the last look and the start of this watch was reported to nobody
        try:
            # The default filter hides folders that a skill may well have.
            async for found in awatch(
                *there,
                watch_filter=None,
                debounce=SETTLE_MS,
                rust_timeout=LOOK_MS,
                yield_on_timeout=True,
                force_polling=polling,
                recursive=False,
            ):
                if found or fresh or _there(wanted) != there or await stale():
                    yield
                fresh = False
                if list(folders()) != wanted or _there(wanted) != there:
                    break
        except (OSError, RuntimeError, ExceptionGroup):
            # No more watches to be had, a folder that vanished between two looks, a file name that is not UTF-8: the
            # program that uses us must not hear of it.
            polling = True
            await anyio.sleep(LOOK_MS / 1000)
            yield


def _there(folders: Sequence[str]) -> list[str]:
    """The folders that can be watched: stats, far too quick to leave the loop for."""
    return [folder for folder in folders if os.path.isdir(folder) and os.access(folder, os.R_OK | os.X_OK)]
