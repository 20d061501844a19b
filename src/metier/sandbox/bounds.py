"""Stops a run that takes more memory or disk than it may, where the kernel does not.

The kernel's limit on a process counts what it may write, not what it holds, so we look how much each of the run's
processes holds. Its temporary folder has a size of its own. For granted folders nobody keeps count: only when the file system
they lie on has lost more since the run began than a run may take do we ask whose doing it was. It was the run's if its processes
wrote as much, or if as much lies in those folders that was made or changed since: who wrote it cannot always be told.
Whoever else writes to the same disk, in folders of his own, does not end it.
"""

import os
from typing import Final, final

import anyio
from anyio import to_thread

from metier.sandbox.grown import Grown, Moment
from metier.sandbox.limits import ENGINE_RESIDENT_MB, TABLES_SHARE
from metier.sandbox.wall import Cut, Ended, Look, Policy, Running

BYTES_MOST: Final = 1 << 30
FILES_MOST: Final = 65_536
LOOK_SECONDS: Final = 0.05
LAST_LOOK_SECONDS: Final = 2.0
"""How long we look through the folders of a run that has ended. One that goes on is looked at for as long as it does."""


@final
class Bounds:
    """What one run may take. Made when the run begins."""

    def __init__(
        self,
        policy: Policy,
        running: Running,
        *,
        bytes_most: int = BYTES_MOST,
        files_most: int = FILES_MOST,
    ) -> None:
        self._running = running
        engine = ENGINE_RESIDENT_MB if policy.bare_heap else 0
        memory = (policy.memory_mb + engine) << 20
        self._memory_most = memory + memory // TABLES_SHARE
        granted = [place.path for place in policy.places if place.writable]
        self._folders = [*granted, *running.shared_folders]
        self._bytes_most = bytes_most
        self._files_most = files_most
        self._began = Moment()
        self._used = self._now()

    async def until_over(self) -> Cut:
        """Returns when the run has taken more than it may, with what it was."""
        cut: Cut = ""
        searching = False
        async with anyio.create_task_group() as tasks:

            async def search() -> None:
                nonlocal cut, searching
                if await self._is_its_doing():
                    cut = "out_of_disk"
                searching = False

            while not cut:
                look = self._running.look()
                lost = self._lost()
                cut = self._over(look, lost)
                if any(lost) and not searching:
                    # Beside us: through many folders it takes a while, in which memory must be looked at.
                    searching = True
                    tasks.start_soon(search)
                self._began.note()
                if not cut:
                    await anyio.sleep(LOOK_SECONDS)
            tasks.cancel_scope.cancel()
        return cut

    async def was_over(self, ended: Ended) -> bool:
        """Whether a run that has ended filled the disk: a quick one may have come and gone between two looks."""
        lost = self._lost()
        if not any(lost):
            return False
        if lost[0] and ended.written > self._bytes_most:
            return True
        with anyio.move_on_after(LAST_LOOK_SECONDS):
            return await self._is_its_doing()
        return False

    def _over(self, look: Look, lost: tuple[bool, bool]) -> Cut:
        """What can be told at a glance."""
        if look.resident > self._memory_most:
            return "out_of_memory"
        if any(_files(state) > self._files_most for state in look.disks):
            return "out_of_disk"
        return "out_of_disk" if lost[0] and look.written > self._bytes_most else ""

    async def _is_its_doing(self) -> bool:
        """Whether what was lost lies in the run's folders."""
        before, lost = self._now(), self._lost()
        going = True
        processes = self._running.look().processes

        def is_over(grown: Grown) -> bool:
            many = (lost[0] and grown.size > self._bytes_most) or (lost[1] and grown.files > self._files_most)
            return many or grown.hidden

        def search() -> bool:
            grown = Grown(self._began)
            grown.look_at_unnamed(processes)
            if is_over(grown):
                return True
            grown.look(self._folders, enough=lambda grown: not going or is_over(grown))
            return is_over(grown)

        try:
            over = await to_thread.run_sync(search, abandon_on_cancel=True)
        finally:
            going = False  # the thread ends by itself, and nobody waits for it
        if not over:
            self._used = before  # it was somebody else; look again when as much more is gone
        return over

    def _now(self) -> dict[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}
        for folder in self._folders:
            try:
                state = os.statvfs(folder)
            except OSError:
                continue  # it was taken away, and then nothing can be written there
            found[folder] = ((state.f_blocks - state.f_bfree) * state.f_frsize, _files(state))
        return found

    def _lost(self) -> tuple[bool, bool]:
        """Whether a file system has lost more bytes, or more files, than a run may take."""
        now = self._now()
        before = {folder: self._used.get(folder, found) for folder, found in now.items()}
        return (
            any(now[folder][0] - before[folder][0] > self._bytes_most for folder in now),
            any(now[folder][1] - before[folder][1] > self._files_most for folder in now),
        )


def _files(state: os.statvfs_result) -> int:
    return state.f_files - state.f_ffree
