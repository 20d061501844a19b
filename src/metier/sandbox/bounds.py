"""Stops a run that takes more memory or disk than it may, where the kernel does not.

The kernel's limit on a process counts what it may write, not what it holds, so we look how much each of the run's
processes holds. Its temporary folder has a size of its own. For granted folders nobody keeps count: only when the file system
they lie on has lost more since the run began than a run may take, or the run wrote more, do we ask whose doing it was. It was the
run's if both are so, or if as much lies in those folders that was made or changed since: who wrote it cannot always be told.
Whoever else writes to the same disk, in folders of his own, does not end it; and whoever makes room there meanwhile hides nothing.
"""

import os
import time
from collections import deque
from typing import Final, final

import anyio
from anyio import to_thread

from metier.model.job import Fault, LifeBounds
from metier.sandbox.beat import BEAT, on_beat
from metier.sandbox.grown import Grown, Moment
from metier.sandbox.limits import ENGINE_RESIDENT_MB, TABLES_SHARE
from metier.sandbox.wall import Cut, Ended, Look, Policy, Running

BYTES_MOST: Final = 1 << 30
FILES_MOST: Final = 65_536
LOOK_SECONDS: Final = 0.05
LIFE_LOOK_SECONDS: Final = 2.0
"""How long nobody looks at a life that does nothing. While it does something it is looked at like any other."""
LIFE_DAY_SECONDS: Final = 86_400.0
"""What a life writes is counted anew so often: it may go on for months, and so do those who write beside it."""
_IDLE_SHARE: Final = 0.05
"""Of the processor: whoever takes less between two looks is looked at less often."""
_MOST_SEEN: Final = 30
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
        life: LifeBounds | None = None,
    ) -> None:
        self._running = running
        self._processor = ProcessorTime(life) if life is not None else None
        engine = ENGINE_RESIDENT_MB if policy.bare_heap else 0
        memory = (policy.memory_mb + engine) << 20
        self._memory_most = memory + memory // TABLES_SHARE
        granted = [place.path for place in policy.places if place.writable]
        self._folders = [*granted, *running.shared_folders]
        self._bytes_most = bytes_most
        self._files_most = files_most
        self._count_anew(0)

    @property
    def why(self) -> Fault | None:
        """What there is to say of it besides, where it was over."""
        return self._processor.why if self._processor is not None else None

    def _count_anew(self, written: int) -> None:
        """From now on, when it has written so much."""
        self._began = Moment()
        self._used = self._now()
        self._written = self._searched = written
        self._since = time.monotonic()

    async def until_over(self) -> Cut:
        """Returns when the run has taken more than it may, with what it was."""
        cut: Cut = ""
        searching = False
        async with anyio.create_task_group() as tasks:

            async def search(suspected: tuple[bool, bool], written: int) -> None:
                nonlocal cut, searching
                if await self._is_its_doing(suspected, written):
                    cut = "out_of_disk"
                searching = False

            while not cut:
                look = self._running.look()
                lost = self._lost()
                cut = self._over(look, lost)
                suspected = self._suspected(lost, look.written)
                if any(suspected) and not searching:
                    # Beside us: through many folders it takes a while, in which memory must be looked at.
                    searching = True
                    tasks.start_soon(search, suspected, look.written)
                self._began.note()
                pause = LOOK_SECONDS
                if self._processor is not None:
                    pause = self._processor.pause(look.seconds)
                    cut = cut or ("out_of_fuel" if self._processor.why else "")
                    if time.monotonic() - self._since > LIFE_DAY_SECONDS and not searching:
                        self._count_anew(look.written)
                if not cut:
                    await anyio.sleep(pause)
            tasks.cancel_scope.cancel()
        return cut

    async def was_over(self, ended: Ended) -> bool:
        """Whether a run that has ended filled the disk: a quick one may have come and gone between two looks."""
        lost = self._lost()
        suspected = self._suspected(lost, ended.written)
        if not any(suspected):
            return False
        if lost[0] and ended.written - self._written > self._bytes_most:
            return True
        with anyio.move_on_after(LAST_LOOK_SECONDS):
            return await self._is_its_doing(suspected, ended.written)
        return False

    def _over(self, look: Look, lost: tuple[bool, bool]) -> Cut:
        """What can be told at a glance."""
        if look.resident > self._memory_most:
            return "out_of_memory"
        if any(_files(state) > self._files_most for state in look.disks):
            return "out_of_disk"
        return "out_of_disk" if lost[0] and look.written - self._written > self._bytes_most else ""

    def _suspected(self, lost: tuple[bool, bool], written: int) -> tuple[bool, bool]:
        """Whether it may have taken too many bytes, or made too many files."""
        return lost[0] or written - self._searched > self._bytes_most, lost[1]

    async def _is_its_doing(self, suspected: tuple[bool, bool], written: int) -> bool:
        """Whether as much lies in the run's folders as it is suspected of."""
        before = self._now()
        going = True
        processes = self._running.look().processes

        def is_over(grown: Grown) -> bool:
            large, many = grown.size > self._bytes_most, grown.files > self._files_most
            return (suspected[0] and large) or (suspected[1] and many) or grown.hidden

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
            # It was somebody else, or it took away again what it wrote; look again when it is as much more.
            self._used, self._searched = before, written
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


@final
class ProcessorTime:
    """How much of the processor a life takes, and how often it is worth looking."""

    def __init__(self, bounds: LifeBounds) -> None:
        self._bounds = bounds
        self._seen: deque[tuple[float, float]] = deque()
        """When it was looked at, and what it had taken by then: as far back as the window goes, and one before."""
        self._pause = LOOK_SECONDS
        self._last = 0.0
        self.why: Fault | None = None

    def pause(self, taken: float) -> float:
        """Note what it has `taken` by now: how long to wait before the next look."""
        now, window = time.monotonic(), self._bounds.cpu_window
        idle = taken - self._last < _IDLE_SHARE * self._pause
        self._last = taken
        self._pause = min(2 * self._pause, LIFE_LOOK_SECONDS) if idle else LOOK_SECONDS
        if not self._seen or now - self._seen[-1][0] >= window / _MOST_SEEN:
            self._seen.append((now, taken))
        while len(self._seen) > 1 and now - self._seen[1][0] >= window:
            self._seen.popleft()
        seconds, used = now - self._seen[0][0], taken - self._seen[0][1]
        if seconds >= window and used > self._bounds.cpu_share * seconds:
            message = f"It used {used:.1f} s of processor time in the last {seconds:.1f} s"
            self.why = Fault(name="TooBusy", message=message)
        pause = min(self._pause, window / 2)
        return on_beat(pause) if pause > BEAT else pause


def _files(state: os.statvfs_result) -> int:
    return state.f_files - state.f_ffree
