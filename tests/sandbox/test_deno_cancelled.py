"""A JavaScript call that is cancelled at any step leaves nothing open: not even until its sandbox is closed."""

import asyncio
import gc
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from deno_kit import WALLS, inline, job
from metier.sandbox.deno import DenoSandbox
from metier.sandbox.wall import Wall
from stepwise import cancelled_at

MOST_STEPS = 200


def pipes() -> int:
    """An engine has three. What waits behind a wall for the next one has none."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found += os.readlink(f"/proc/self/fd/{name}").startswith("pipe:")
    return found


async def _settled(before: int) -> int:
    """How many more are open, once there are none or after a while: the loop closes some in its next round."""
    give_up = time.monotonic() + 0.5
    while (more := pipes() - before) > 0 and time.monotonic() < give_up:
        gc.collect()
        await asyncio.sleep(0.002)
    return more


async def cancelled_everywhere(sandbox: DenoSandbox, *, natively: bool, waking: bool) -> None:
    async def work() -> bool:
        return (await sandbox.run(job(inline("return 1")))).value == 1

    left: dict[int, int] = {}
    before = most = pipes()
    for step in range(1, MOST_STEPS):
        taken, there = await cancelled_at(step, work, pipes, natively=natively, waking=waking)
        most = max(most, there)
        if more := await _settled(before):
            left[step] = more
        if taken < step:
            break  # it came to its end
    else:
        pytest.fail("a call takes more steps than were tried")
    assert most >= before + 3, "no engine was there at any step: nothing was tried"
    assert left == {}, f"pipes left by step, {waking=}"


@pytest.mark.slow
@pytest.mark.parametrize("natively", [False, True])
@pytest.mark.parametrize("wall", WALLS)
def test_a_javascript_call_cancelled_at_any_step_leaves_no_pipe(
    wall: Callable[[], Wall], natively: bool, tmp_path: Path
) -> None:
    async def work() -> None:
        behind = wall()
        sandbox = DenoSandbox(behind, cache=str(tmp_path / "cache"), pool_mb=0)
        held: Any = sandbox
        try:
            assert (await sandbox.run(job(inline("return 1")))).value == 1
            for waking in (False, True):
                await cancelled_everywhere(sandbox, natively=natively, waking=waking)
            assert not held._struck
            assert not held._under_way
        finally:
            await sandbox.aclose()
            await behind.aclose()

    anyio.run(work)
