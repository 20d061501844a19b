"""Stops a run that takes more memory or disk than it may, where the kernel does not.

The kernel's limit on a process counts what it may write, not what it holds, so we look how much each of the run's
processes holds. Its temporary folder has a size of its own. For granted folders nobody keeps count: only when the file system
they lie on has lost more since the run began than a run may write do we ask whose doing it was, by what the run's
processes have written. Whoever else writes to the same disk then does not end it.
"""

import os
import time
from typing import Final, final

import anyio
from anyio import to_thread

from metier.sandbox.limits import ENGINE_RESIDENT_MB
from metier.sandbox.wall import Cut, Ended, Policy, Running

BYTES_MOST: Final = 1 << 30
FILES_MOST: Final = 65_536
LOOK_SECONDS: Final = 0.05
DEEPEST: Final = 100


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
        self._memory_most = (policy.memory_mb + engine) << 20
        granted = [place.path for place in policy.places if place.writable]
        self._folders = [*granted, *running.shared_folders]
        self._bytes_most = bytes_most
        self._files_most = files_most
        self._began_ns = time.time_ns()
        self._used = self._now()

    async def until_over(self) -> Cut:
        """Returns when the run has taken more than it may, with what it was."""
        while True:
            look = self._running.look()
            if look.resident > self._memory_most:
                return "out_of_memory"
            if any(_files(state) > self._files_most for state in look.disks):
                return "out_of_disk"
            if await self._filled(look.written):
                return "out_of_disk"
            await anyio.sleep(LOOK_SECONDS)

    async def was_over(self, ended: Ended) -> bool:
        """Whether a run that has ended filled the disk: a quick one may have come and gone between two looks."""
        return await self._filled(ended.written)

    async def _filled(self, written: int) -> bool:
        more_bytes, more_files = self._lost()
        if more_bytes and written > self._bytes_most:
            return True
        if not more_files:
            return False
        return await to_thread.run_sync(self._made_too_many)

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

    def _made_too_many(self) -> bool:
        found = 0
        for folder in self._folders:
            todo = [(folder, 0)]
            while todo:
                path, depth = todo.pop()
                if depth > DEEPEST:
                    return True  # nobody goes that deep for good, and counting must end
                try:
                    with os.scandir(path) as entries:
                        for entry in entries:
                            found += entry.stat(follow_symlinks=False).st_ctime_ns >= self._began_ns
                            if entry.is_dir(follow_symlinks=False):
                                todo.append((entry.path, depth + 1))
                            if found > self._files_most:
                                return True
                except FileNotFoundError:
                    continue  # it went away meanwhile
                except OSError:
                    return True  # what nobody can look into may hold anything
        self._used = self._now()  # it was somebody else; look again when as much more is gone
        return False


def _files(state: os.statvfs_result) -> int:
    return state.f_files - state.f_ffree
