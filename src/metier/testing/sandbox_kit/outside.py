"""Runs a program without any wall: the control of every attack."""

import os
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import anyio
import msgspec

from metier.sandbox.capture import Capture
from metier.sandbox.process import in_starter, start
from metier.testing.sandbox_kit.guest import Bare

KEPT = 4 << 20


async def outside(
    argv: Sequence[str], *, cwd: str, seconds: float, environment: Mapping[str, str], stdin: bytes = b""
) -> Bare:
    """Run it as whoever we are, with our file system, our network and this environment.

    `stdin` is at most what a pipe holds; nothing means the null device.
    """
    line = ["/bin/sh", "-c", 'cd "$1" && shift && exec "$@"', "sh", cwd or "/", *argv]
    began = time.monotonic()
    with Capture(KEPT) as out, Capture(KEPT) as err, _input(stdin) as given:
        begin = partial(
            start, line, stdin=given, stdout=out.theirs, stderr=err.theirs, environment=environment
        )
        child = await in_starter(begin)
        out.close_theirs()
        err.close_theirs()
        code: int | None = None
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(out.run)
                tasks.start_soon(err.run)
                with anyio.move_on_after(seconds):
                    code = await child.wait()
                tasks.cancel_scope.cancel()
        finally:
            child.signal()
            child.reap()
        out.finish()
        err.finish()
        taken = time.monotonic() - began
    value = last_line(out.data)
    return Bare(value=value, exit_code=code, stdout=out.data, stderr=err.data, seconds=taken)


@contextmanager
def _input(data: bytes) -> Generator[int | None]:
    if not data:
        yield None
        return
    theirs, ours = os.pipe()
    try:
        os.write(ours, data)
        os.close(ours)
        yield theirs
    finally:
        os.close(theirs)


def last_line(data: bytes) -> Any:
    """What a program said in JSON at its end; None when it said nothing of the kind."""
    lines = data.splitlines()
    try:
        return msgspec.json.decode(lines[-1]) if lines else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
