"""The one process that runs what lives, waits and fires by itself: it serves the line to the others, and keeps its background tasks going.

A task that fails is begun again, later each time; it ends neither the host nor another task.
"""

import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias, final

import anyio
from anyio import TASK_STATUS_IGNORED, to_thread
from anyio.abc import TaskStatus

from metier.catalog.here import owner
from metier.errors import MetierError
from metier.kernel.events import Events
from metier.kernel.host_line_server import DoIt, serve
from metier.kernel.host_line_words import Background, HostStatus
from metier.kernel.host_role import HostRole
from metier.kernel.operation import OperationError
from metier.model.text import one_line
from metier.record.database import Database
from metier.record.host_marks import host_began, host_over
from metier.sandbox.beat import on_beat

Task: TypeAlias = Callable[[], Awaitable[None]]
"""Runs until it is cancelled. One that returns had nothing more to do."""

FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0
WELL_SECONDS: Final = 120.0
"""What ran so long was well, so its next failure is the first one again."""
LOOK_SECONDS: Final = 1.0
"""So long there may be two where somebody removed the lock of the first."""
_log: Final = logging.getLogger("metier.host")


@final
class Hosting:
    """Of a process that holds the role."""

    def __init__(
        self,
        role: HostRole,
        *,
        do: DoIt,
        database: Database,
        events: Events,
        tasks: Mapping[str, Task],
        first: str = "",
        last: Task | None = None,
    ) -> None:
        """
        Args:
            do: does an operation for another process, whose call was judged and recorded there.
            tasks: what runs in the background, by a name for people.
            first: the one of them that brings up what is to be done; it is ended before the others.
            last: finishes what was begun for it. While that goes on nobody else is the host, so nothing is done twice.
        """
        self._role = role
        self._do = do
        self._database = database
        self.events = events
        """What happens here."""
        self._tasks = tasks
        self._first = first
        self._first_scope = anyio.CancelScope()
        self._first_over = anyio.Event()
        self._last = last
        self._lost = False
        self._states = {name: Background(name=name, state="running") for name in tasks}
        self._end = anyio.Event()
        self._why = "its process ended"
        self.told = False
        """Whether somebody asked this one to end, as `metier host stop` does: he wants no other in its place here."""
        self.ended = anyio.Event()
        """Set once the role was given back."""

    def end(self, why: str = "it was told to") -> None:
        """Give the role back, soon. Nothing that was switched on is switched off by it."""
        if not self._end.is_set():
            self._why = why
        self._end.set()

    def status(self) -> HostStatus:
        """What runs here."""
        return HostStatus(
            pid=os.getpid(),
            since=self._role.since,
            version=_version(),
            background=tuple(self._states.values()),
        )

    async def run(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Until cancelled, or asked to end, or somebody took the lock's file away. The role is given back last.

        Raises:
            StateError: when the line cannot be served.
        """
        began = False
        try:
            async with anyio.create_task_group() as tasks:
                await tasks.start(self._serve)
                await to_thread.run_sync(self._begun)
                began = True
                for name, task in self._tasks.items():
                    tasks.start_soon(
                        self._first_going if name == self._first else self._kept_going, name, task
                    )
                tasks.start_soon(self._watch)
                task_status.started()
                await self._end.wait()
                if self._last is not None and not self._lost:
                    await self._finish(self._last)
                tasks.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            if len(group.exceptions) == 1:
                raise group.exceptions[0] from None
            raise
        finally:
            if began:
                with anyio.CancelScope(shield=True):
                    await to_thread.run_sync(self._over)
            self._role.release()
            self.ended.set()

    def _begun(self) -> None:
        host_began(self._database, by=owner(), process=os.getpid())

    def _over(self) -> None:
        try:
            host_over(self._database, by=owner(), process=os.getpid(), why=self._why)
        except MetierError as error:  # it ends all the same
            _log.warning("that the host ended could not be recorded: %s", error.message)

    async def _serve(self, *, task_status: TaskStatus[None]) -> None:
        await serve(
            self._role,
            do=self._do,
            database=self._database,
            events=self.events,
            status=self.status,
            end=self._told_to,
            task_status=task_status,
        )

    def _told_to(self, process: int) -> None:
        self.told = True
        self.end(f"process {process} asked for it")

    async def _watch(self) -> None:
        """A lock whose file is gone keeps no second host from beginning, so there must not be a first one either."""
        while True:
            await anyio.sleep(on_beat(LOOK_SECONDS))
            if not await to_thread.run_sync(self._role.in_place):
                self._lost = True
                _log.error("somebody removed host.lock, so another host can begin: this one ends")
                self.end("somebody removed host.lock, so another host can begin")

    async def _first_going(self, name: str, task: Task) -> None:
        with self._first_scope:
            try:
                await self._kept_going(name, task)
            finally:
                self._first_over.set()

    async def _finish(self, last: Task) -> None:
        if self._first in self._tasks:
            self._first_scope.cancel()
            await self._first_over.wait()  # it may be about to tell one more
        try:
            await last()
        except Exception:  # noqa: BLE001  the role is given back whatever fails
            _log.exception("what was under way could not be finished")

    async def _kept_going(self, name: str, task: Task) -> None:
        failures = 0
        while True:
            began = anyio.current_time()
            try:
                await task()
            except Exception as error:  # noqa: BLE001  whatever it is, it is not the end of the others
                if anyio.current_time() - began > WELL_SECONDS:
                    failures = 0
                failures += 1
                pause = min(FIRST_PAUSE * 2 ** (failures - 1), LONGEST_PAUSE)
                _log.exception("%s failed, and is begun again in %g s", name, pause)
                said = _said(error)
                self._set(name, Background(name=name, state="waiting", error=said, failures=failures))
                await anyio.sleep(pause)
                self._set(name, Background(name=name, state="running", error=said, failures=failures))
            else:
                self._set(name, Background(name=name, state="done", failures=failures))
                return

    def _set(self, name: str, state: Background) -> None:
        self._states[name] = state


def _version() -> str:
    """Of what was installed when this process began to run it, as far as that is known."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("metier")
    except PackageNotFoundError:
        return ""


def _said(error: Exception) -> str:
    """For whoever asks how it goes. The text of an error that is not ours may hold anything."""
    if isinstance(error, MetierError | OperationError):
        return one_line(str(error), 300)
    return "something broke that should not have; the host's log has the details"
