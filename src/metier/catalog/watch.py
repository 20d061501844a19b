"""See a changed, new or removed skill within a second, also in a root that did not exist before."""

import os
from collections.abc import AsyncGenerator, Sequence
from typing import Final

import anyio

SETTLE_MS: Final = 200
"""How long a burst of changes is gathered."""
LOOK_MS: Final = 500
"""How often roots that are not there yet are looked for."""


async def changes(roots: Sequence[str]) -> AsyncGenerator[None]:
    """One item for every burst of changes below `roots`, until the caller is cancelled."""
    from watchfiles import awatch  # pyright: ignore[reportUnknownVariableType]  its filter is loosely typed

    polling = False
    while True:
        there = _there(roots)
        if not there:
            await anyio.sleep(LOOK_MS / 1000)
            if _there(roots):
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
            ):
                moved = _there(roots) != there
                if found or moved or fresh:
                    yield
                fresh = False
                if moved:
                    break
        except (OSError, RuntimeError):
            # No more watches to be had, or a root vanished between two looks.
            polling = True
            await anyio.sleep(LOOK_MS / 1000)


def _there(roots: Sequence[str]) -> list[str]:
    """The roots that exist: a few stats, far too quick to leave the loop for."""
    return [root for root in roots if os.path.isdir(root)]
