"""Behaviour 43: no descriptor of the host's is open in a run, as its code sees it and as it is seen from outside."""

# ruff: noqa: ASYNC230
# A file of a test, quick to open.

import os
import socket
from contextlib import ExitStack

import anyio
import anyio.to_thread

from metier.testing.sandbox_kit import leftovers
from metier.testing.sandbox_kit.behaviour import behaviour
from metier.testing.sandbox_kit.bench import Bench
from metier.testing.sandbox_kit.neighbours import held, identities, neighbours


async def only_the_standard_descriptors_are_open(bench: Bench) -> None:
    with ExitStack() as planted, socket.socket(socket.AF_UNIX) as listening:
        opened = planted.enter_context(open(bench.file(bench.folder("state"), "database", "ours")))
        pipe = os.pipe()
        for each in pipe:
            planted.callback(os.close, each)
        ours = (listening.fileno(), opened.fileno(), *pipe)
        for each in ours:
            os.set_inheritable(each, True)
        wanted = identities(ours)
        found = await anyio.to_thread.run_sync(_inherited, wanted)
        bench.prove(len(found) == len(ours), f"a bare child: {found}")
        if not await bench.absent("descriptors"):
            allowed = {0, 1, 2, 3} if bench.guest.bridged else {0, 1, 2}
            for said in (await bench.value("descriptors"), await bench.value("descriptors")):
                bench.expect("standard", set(said) <= allowed, said)
        if bench.guest.has_processes:
            await _seen_from_outside(bench, wanted)


async def _seen_from_outside(bench: Bench, wanted: dict[tuple[int, int], int]) -> None:
    before = leftovers.look().processes
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.run, "sleep", {"seconds": 20})
        found, seen = held(await neighbours(bench, before), wanted)
        # Who may not look at a process that its own code cannot look into either has seen nothing of it.
        bench.need("looked at", seen > 0 or "descriptors" not in bench.guest.absent, "no process of the run")
        bench.expect("ours", not found, found)
        tasks.cancel_scope.cancel()


def _inherited(wanted: dict[tuple[int, int], int]) -> list[str]:
    """What of ours a program has that is simply started."""
    pid = os.posix_spawn("/bin/sleep", ["sleep", "30"], {})
    try:
        return held([pid], wanted)[0]
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


BEHAVIOURS = (behaviour(43, only_the_standard_descriptors_are_open, "LNX-06", "contents"),)
