"""One module to machine code, in a process of its own with a limit on memory and time."""

import json
import math
import sys
import threading
from typing import Final, final

import anyio
from msgspec import Struct

from metier.sandbox.guest import compile_wasm
from metier.sandbox.process import run_limited

COMPILE_SECONDS: Final = 60.0
COMPILE_MB: Final = 2_048
_MOST_CODE: Final = 512 << 20
_FORGIVEN: Final = 600.0
_LOOK: Final = 0.1

SETTINGS: Final[dict[str, bool | int]] = {
    "consume_fuel": True,
    "epoch_interruption": True,
    # Memory that no limit counts: shared between threads, or kept by the engine's own collector.
    "wasm_threads": False,
    "shared_memory": False,
    "wasm_gc": False,
    "wasm_function_references": False,
    "wasm_exceptions": False,
    "wasm_stack_switching": False,
    # The memory limit is for each memory, so there is one.
    "wasm_multi_memory": False,
    "wasm_memory64": False,
    "max_wasm_stack": 512 << 10,
}
"""Of the engine, and therefore part of what machine code is kept under."""


@final
class Refused(Exception):
    """A module that is not run. The text says why, for people, and names no place of the host."""

    def __init__(self, why: str, *, holds: float = math.inf) -> None:
        """`holds`: for how many seconds the same bytes need not be tried again."""
        super().__init__(why)
        self.holds: Final = holds


@final
class NotNow(Exception):
    """Nothing is wrong with the module, but it is not compiled yet. The text says why, for people."""


@final
class Source(Struct, frozen=True, weakref=True):
    """A module as it was read, not compiled yet."""

    data: bytes
    component: bool
    key: str


def compiled(source: Source, packages: str, stopped: threading.Event) -> bytes:
    """Its machine code. Blocks; wasmtime is imported from the folder `packages`.

    Raises:
        Refused: when it cannot be compiled, or not within the limits.
        NotNow: when no process could be started, or `stopped` was set.
    """
    argv = [sys.executable, "-I", "-S", compile_wasm.__file__]
    argv += ["component" if source.component else "module", json.dumps(SETTINGS), packages]
    said = anyio.run(_said, argv, source.data, stopped)
    if isinstance(said, str):
        raise NotNow(said)
    code, out, err = said
    if code == compile_wasm.REFUSED:
        raise Refused(f"it is not valid: {plain_text(err.decode('utf-8', 'replace'))}")
    if code != 0 or not out or len(out) >= _MOST_CODE:
        # That may be the fault of a machine that has too much to do, so it is not held against it for ever.
        raise Refused(
            f"it could not be compiled within {COMPILE_SECONDS:.0f} seconds and {COMPILE_MB} MB; make it smaller",
            holds=_FORGIVEN,
        )
    return out


async def _said(argv: list[str], data: bytes, stopped: threading.Event) -> tuple[int, bytes, bytes] | str:
    """What the process said, or why there was none."""
    said: tuple[int, bytes, bytes] | str = "the sandbox is being closed"
    async with anyio.create_task_group() as tasks:

        async def look() -> None:
            while not stopped.is_set():  # noqa: ASYNC110  a thread sets it
                await anyio.sleep(_LOOK)
            tasks.cancel_scope.cancel()

        tasks.start_soon(look)
        try:
            said = await run_limited(
                argv, stdin=data, seconds=COMPILE_SECONDS, memory_mb=COMPILE_MB, output_bytes=_MOST_CODE
            )
        except OSError as error:
            said = f"its module cannot be compiled now: {error.strerror or 'the machine refused'}; try again later"
        tasks.cancel_scope.cancel()
    return said


def plain_text(text: str) -> str:
    """The point of one of wasmtime's messages, in one line: causes come last, traces and advice are left out."""
    lines = [line.strip() for line in text.splitlines()]
    useful = [line for line in lines if line and not line.startswith(("note:", "Caused by", "0:   0x"))]
    last = next((line for line in reversed(useful) if line[:1].isalpha()), "no reason was given")
    return last.removeprefix("wasm trap: ")[:300]
