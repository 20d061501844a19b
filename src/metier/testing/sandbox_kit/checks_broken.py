"""Behaviour 59: whatever served a run that broke is gone with it, and the next run gets something new that works."""

# ruff: noqa: ASYNC110, ASYNC240
# What happens outside tells nobody, so it is looked at again and again.

import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import anyio

from metier.model.guarantee import Guarantee
from metier.model.job import Place, Report
from metier.testing.sandbox_kit import leftovers
from metier.testing.sandbox_kit.bench import Bench
from metier.testing.sandbox_kit.checks_kill import fewer, warmed_look
from metier.testing.sandbox_kit.checks_time import GRACE
from metier.testing.sandbox_kit.checks_walls import CALLS

_WAYS: Final = ("stay", "crash", "cancel", "violate", "memory", "orphan")
"""Its time is up; it ends itself; the call is given up; it does what is forbidden; it takes more memory than it has;
whoever serves it is killed, as an operator may or a machine without memory, and it has a process in another session."""
_SEEN_BY: Final = {"violate": Guarantee.VIOLATIONS_SEEN, "memory": Guarantee.MEMORY_EXACT}
_MEMORY_MB: Final = 96
_SEEN_SECONDS: Final = 0.3
"""A run goes on for so long before whoever serves it is killed: a backend may have to look to know what belongs to it."""


async def a_broken_guest_is_never_used_again(bench: Bench) -> None:
    shared = bench.folder("shared")
    crashed = await bench.bare("break_itself", {"crash": True}, cwd=shared)
    control = await bench.control("look_for_mark", {"leave": False, "own": True}, cwd=shared)
    bench.prove(crashed.exit_code != 0 and bool(control["files"]), control)
    meet = bench.folder("meet")
    granted: dict[str, Any] = {"places": (Place(path=meet, writable=True),), "memory_mb": _MEMORY_MB}
    before = await warmed_look(bench, still=1.0, **granted)
    for how in _WAYS if bench.guest.has_processes else _WAYS[:2]:
        if how == "violate" and "system_calls" in bench.guest.absent:
            continue  # behaviour 50 has it try, and be refused
        if how == "orphan" and Guarantee.TREE_KILLED not in bench.promises:
            continue
        await _Breaking(bench, how, meet, granted).run()
        said = await bench.value("look_for_mark", {"leave": False}, **granted)
        bench.expect("fresh", said["files"] == [] and not said["module"], f"{how}: {said}")
    await fewer(bench, before, "survivors")


class _Breaking:
    """One run that breaks, and a look at what serves it meanwhile: it holds a file open by which it is found."""

    def __init__(self, bench: Bench, how: str, meet: str, granted: Mapping[str, Any]) -> None:
        self._bench = bench
        self._how = how
        self._meet = meet
        self._granted = granted
        self._params: dict[str, Any] = {
            "how": how,
            "crash": how == "crash",
            "call": CALLS["unshare"],
            "mb": _MEMORY_MB * 3 // 4,
        }
        self._served: dict[int, str] = {}

    async def run(self) -> None:
        for limit in (0.4, 1.6, 6.4) if self._how == "stay" else (10.0,):
            await self._run(limit)
            if self._served or not self._bench.guest.has_processes:
                break  # else the machine is so busy that it was ended before it had begun
        if not self._may_go_on():
            await self._thrown_away()

    async def _run(self, limit: float) -> None:
        bench, report = self._bench, Report(ending="timed_out")
        if not bench.guest.has_processes:
            report = await bench.run("break_itself", self._params, timeout=limit)
        else:
            params = {**self._params, "meet": self._meet}
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._see, tasks.cancel_scope)
                report = await bench.run("break_itself", params, timeout=limit, **self._granted)
                tasks.cancel_scope.cancel()
            for name in os.listdir(self._meet):
                os.unlink(os.path.join(self._meet, name))
        bench.expect("broken", report.ending != "returned", report)

    async def _see(self, scope: anyio.CancelScope) -> None:
        ready = os.path.join(self._meet, "ready")
        while not os.path.exists(ready):
            await anyio.sleep(0.01)
        self._served = leftovers.serving(ready)
        self._bench.file(self._meet, "go", "")
        if self._how == "cancel":
            scope.cancel()
        if self._how == "orphan":
            await anyio.sleep(_SEEN_SECONDS)
            servants = leftovers.directly_above(ready)
            self._served |= leftovers.serving(ready)
            self._bench.need("servant", servants != {}, "nobody was seen to have started the run")
            for pid in servants or ():  # where we started it ourselves there is nobody in between
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _may_go_on(self) -> bool:
        """Whether only the run came to its end: it ended itself, or did what nobody promised to see."""
        if self._how in _SEEN_BY:
            return _SEEN_BY[self._how] not in self._bench.promises
        return self._how == "crash" or not self._bench.guest.has_processes

    async def _thrown_away(self) -> None:
        self._bench.need("guest", bool(self._served), f"{self._how}: nobody was seen to serve the run")
        give_up = time.monotonic() + GRACE
        while (left := leftovers.alive(self._served)) and time.monotonic() < give_up:
            await anyio.sleep(0.02)
        self._bench.expect("thrown_away", not left, f"{self._how}: {left} of {sorted(self._served)} go on")
