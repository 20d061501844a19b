"""Stops a run that fills the disk.

Its temporary folder has a size of its own. For granted folders nobody keeps count, so we look how much the file
system they lie on has lost since the run began; only when that is more than a run may write do we look closer, at
what in the granted folders is newer than the run. Whoever else writes to the same disk then does not end it.
"""

import os
import time
from collections.abc import Iterator
from typing import Final, final

import anyio
from anyio import to_thread

from metier.sandbox.wall import Policy, Running

BYTES_MOST: Final = 1 << 30
FILES_MOST: Final = 65_536
LOOK_SECONDS: Final = 0.1


@final
class Disk:
    """What one run may add. Made when the run begins."""

    def __init__(
        self,
        policy: Policy,
        running: Running,
        *,
        bytes_most: int = BYTES_MOST,
        files_most: int = FILES_MOST,
    ) -> None:
        self._own = running.own_disks
        granted = [place.path for place in policy.places if place.writable]
        self._folders = [*granted, *running.shared_folders]
        self._bytes_most = bytes_most
        self._files_most = files_most
        self._began_ns = time.time_ns()
        self._used = self._now()

    async def until_full(self) -> None:
        """Returns when the run has written more than it may."""
        while not await self.is_full():  # noqa: ASYNC110  nobody tells us
            await anyio.sleep(LOOK_SECONDS)

    async def is_full(self) -> bool:
        """Whether it has. Ask once more when it has ended: a quick one may have come and gone between two looks."""
        if any(_files(state) > self._files_most for state in self._own()):
            return True
        return self._suspicious() and await to_thread.run_sync(self._wrote_too_much)

    def _now(self) -> dict[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}
        for folder in self._folders:
            try:
                state = os.statvfs(folder)
            except OSError:
                continue  # it was taken away, and then nothing can be written there
            found[folder] = ((state.f_blocks - state.f_bfree) * state.f_frsize, _files(state))
        return found

    def _suspicious(self) -> bool:
        for folder, (used, files) in self._now().items():
            before_used, before_files = self._used.get(folder, (used, files))
            if used - before_used > self._bytes_most or files - before_files > self._files_most:
                return True
        return False

    def _wrote_too_much(self) -> bool:
        written = 0
        for files, found in enumerate(self._newer(), 1):
            written += found.st_blocks * 512
            if written > self._bytes_most or files > self._files_most:
                return True
        self._used = self._now()  # it was somebody else; look again when as much more is gone
        return False

    def _newer(self) -> Iterator[os.stat_result]:
        for folder in self._folders:
            for _, folders, names, descriptor in os.fwalk(folder, onerror=None):
                for name in (*folders, *names):
                    try:
                        found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                    except OSError:
                        continue
                    if found.st_ctime_ns >= self._began_ns:
                        yield found


def _files(state: os.statvfs_result) -> int:
    return state.f_files - state.f_ffree
