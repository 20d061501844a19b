"""Supervisors that wait for work behind a wall, and the runs in them.

A supervisor goes back to wait only after a run that ended by itself and did nothing forbidden; after a kill, a
violation or a lack of memory its wall comes down with it, and the next run gets a new one.
"""

import os
import socket
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import Final, TypeAlias, final

import anyio
from msgspec.structs import replace

from metier.sandbox.cgroup import Group
from metier.sandbox.glance import Glance
from metier.sandbox.process import tree
from metier.sandbox.remains import Remains
from metier.sandbox.supervisor import Supervisor, Under
from metier.sandbox.unbroken import unbroken
from metier.sandbox.wall import OUT, Code, Ended, Look, NoRoomError, Policy, Program, Take, WallError

IDLE_MOST: Final = 8
"""Each takes about ten megabytes."""
LEAST_PYTHON_MB: Final = 16
"""An interpreter begins with less, and then cannot so much as import what it was given."""

NAMED: Final = ".programs"
"""The folder in a run's temporary one that its PATH is, where it has a PATH of its own."""
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

Key: TypeAlias = tuple[Policy, bool]
"""What it lets through, and whether it runs Python code."""


@final
class Kept:
    """A supervisor with the wall around it."""

    def __init__(
        self,
        key: Key,
        supervisor: Supervisor,
        *,
        temporary: str,
        shares_disk: bool,
        run_below: tuple[int, int],
        group: Group | None,
        tear_down: Callable[[], Awaitable[None]],
        still_fits: Callable[[], bool] = lambda: True,
        remains: Remains | None = None,
    ) -> None:
        self.key: Final = key
        self.supervisor: Final = supervisor
        self.temporary: Final = temporary
        """Its temporary folder, as programs inside call it."""
        self.shares_disk: Final = shares_disk
        """Whether that folder lies on a disk of the host."""
        self.run_below: Final = run_below
        """A process, and how many generations from it on are our own; what lies below is the run's."""
        self.group: Final = group
        self.still_fits: Final = still_fits
        """Whether the limits it was made with are still what its policy says."""
        self.remains: Final = remains
        """What was seen of its runs, where they could outlive it."""
        self._tear_down = tear_down
        self._ending = False

    async def end(self) -> None:
        """Once; also when several want it."""
        if self._ending:
            return
        self._ending = True
        self.supervisor.close()
        await unbroken(self._end)

    async def _end(self) -> None:
        await self._tear_down()
        if self.group is not None:
            await anyio.to_thread.run_sync(self.group.remove)

    @property
    def ended(self) -> bool:
        return self._ending

    def surroundings(self) -> dict[str, str]:
        """The variables every program expects; none of them is the host's."""
        more = surroundings(self.temporary)
        if self.supervisor.port:
            url = f"http://127.0.0.1:{self.supervisor.port}"
            more |= dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), url)
            more["NODE_USE_ENV_PROXY"] = "1"  # without it Node knows of no proxy, and finds no way out
        return more


@final
class Pool:
    """The supervisors of one wall."""

    def __init__(self, build: Callable[[Policy, bool], Awaitable[Kept]]) -> None:
        self._build = build
        self._idle: OrderedDict[Key, list[Kept]] = OrderedDict()
        self._busy: set[Kept] = set()
        self._closed = False

    async def start(self, policy: Policy, program: Program) -> "Supervised":
        """Start a program in a supervisor."""
        request: dict[str, object] = {
            "file": program.argv[0],
            "argv": [program.called or program.argv[0], *program.argv[1:]],
            "files": program.files,
            "named": program.named,
        }
        given = (program.stdin, program.stdout, program.stderr)
        environment = program.environment
        return await self._begin((policy, False), request, environment, program.cwd, given, program.take)

    async def fork(self, policy: Policy, code: Code) -> "Supervised":
        """Start Python code in a supervisor."""
        if policy.memory_mb < LEAST_PYTHON_MB:
            raise WallError(
                f"Python itself does not fit into its memory limit of {policy.memory_mb} MB; "
                f"the least that works is {LEAST_PYTHON_MB} MB"
            )
        request: dict[str, object] = {"packages": list(code.packages)}
        given = (-1, code.stdout, code.stderr, code.bridge)
        return await self._begin((policy, True), request, {}, code.cwd, given, code.take)

    async def give_back(self, kept: Kept) -> None:
        """After a run: keep the supervisor if it is as good as new, and not more of them than we may."""
        self._busy.discard(kept)
        surplus = [kept]
        if kept.supervisor.usable and not self._closed:
            self._idle.setdefault(kept.key, []).append(kept)
            self._idle.move_to_end(kept.key)
            surplus = []
        while sum(map(len, self._idle.values())) > IDLE_MOST:
            taken = self._take(next(iter(self._idle)))
            surplus += [taken] if taken else []
        if surplus:  # only now: while one ends, others come and go
            await unbroken(partial(_end_all, surplus))

    async def aclose(self) -> None:
        """End those that wait, and those that work: their runs end as killed."""
        self._closed = True
        every = [*self._busy, *(kept for waiting in self._idle.values() for kept in waiting)]
        self._busy.clear()
        self._idle.clear()
        await unbroken(partial(_end_all, every))

    async def _begin(
        self,
        key: Key,
        request: dict[str, object],
        environment: dict[str, str],
        cwd: str,
        descriptors: Sequence[int],
        take: Take | None,
    ) -> "Supervised":
        request["cwd"] = cwd
        request["identity"] = _identity(cwd)
        # Before anything is taken: where no descriptor is left, this is what fails.
        nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        try:
            kept = await self._fit(key) or await self._build(*key)
            self._busy.add(kept)
            request["environment"] = around(environment, kept.surroundings())
            if request.get("named") is not None:
                request["environment"]["PATH"] = f"{kept.temporary}/{NAMED}"
            given = [nothing if each < 0 else each for each in descriptors]
            return Supervised(self, kept, await self._hand_over(kept, request, given), take)
        finally:
            os.close(nothing)

    async def _hand_over(self, kept: Kept, request: dict[str, object], descriptors: Sequence[int]) -> Under:
        try:
            kept.supervisor.forget_connections()
            under = await kept.supervisor.run(request, descriptors)
            if self._closed:
                raise WallError("the sandboxes are being closed")
        except BaseException:
            await self._drop(kept)
            raise
        return under

    async def _fit(self, key: Key) -> Kept | None:
        """One that waits and still lives."""
        while kept := self._take(key):
            self._busy.add(kept)
            try:
                if kept.still_fits() and await kept.supervisor.is_free():
                    return kept
            except BaseException:  # whoever waited for it has gone
                await self._drop(kept)
                raise
            await self._drop(kept)
        return None

    async def _drop(self, kept: Kept) -> None:
        self._busy.discard(kept)
        await kept.end()

    def _take(self, key: Key) -> Kept | None:
        waiting = self._idle.get(key)
        if not waiting:
            return None
        kept = waiting.pop()
        if not waiting:
            del self._idle[key]
        return kept


@final
class Supervised:
    """A run in a supervisor, which goes back when it has ended well."""

    def __init__(self, pool: Pool, kept: Kept, under: Under, take: Take | None = None) -> None:
        self._take = take
        self._pool = pool
        self._kept = kept
        self._under = under
        self._ended: Ended | None = None
        self._back = False
        self.shared_folders: list[str] = [kept.temporary] if kept.shares_disk else []
        self.proxy: socket.socket | None = kept.supervisor.proxy
        pid, ours = kept.run_below
        self._glance = Glance(partial(tree, pid, ours=ours))

    def look(self) -> Look:
        if self._back:
            return Look()
        seen = self._glance.now()
        remains = self._kept.remains
        if remains is not None:
            remains.note(seen)
            if self._kept.supervisor.process.has_ended():
                remains.end_soon()  # whatever of it holds our ends of the run would hold the call
        folders = () if self._kept.shares_disk else self._kept.supervisor.temporary
        disks = tuple(os.fstatvfs(folder) for folder in folders)
        return Look(disks, seen.resident, seen.written, seen.processes, seen.seconds)

    async def wait(self) -> Ended:
        try:
            ended = await self._under.wait()
        except (WallError, NoRoomError):
            await self._give_back()
            raise
        if ended.left and self._ended is None:
            await unbroken(self._taken)
        return await self._close(ended)

    async def _taken(self) -> None:
        """Have what it left taken away, before its supervisor clears up; that waits for our word."""
        kept, take = self._kept.supervisor, self._take
        if take is not None and kept.temporary:
            with suppress(OSError):  # it put something else in the place of the folder
                folder = os.open(OUT, _FOLDER, dir_fd=kept.temporary[0])
                try:
                    await anyio.to_thread.run_sync(take, folder)
                finally:
                    os.close(folder)
        await kept.go_on()

    def left(self) -> int:
        return -1

    async def kill(self) -> Ended:
        if self._back:  # the supervisor may be another run's by now
            return self._ended or Ended(signal=9, why="killed")
        return await unbroken(self._kill)

    async def _kill(self) -> Ended:
        ended = self._ended or Ended(signal=9, why="killed")
        with suppress(WallError, NoRoomError):
            ended = await self._under.kill()
        return await self._close(ended)

    def strike(self) -> Ended | None:
        return None  # its supervisor goes on to serve others, so it has to be waited for

    async def _close(self, ended: Ended) -> Ended:
        if self._ended is None:
            group = self._kept.group
            if group is not None and not self._kept.ended:
                ended = replace(ended, memory_bytes=max(ended.memory_bytes, group.peak_bytes()))
                if group.ran_out_of_memory():
                    ended = replace(ended, why="out_of_memory")
                group.reset_peak()
            if ended.violations or ended.why != "exited":
                self._kept.supervisor.usable = False
            self._ended = ended
        await self._give_back()
        return self._ended

    async def _give_back(self) -> None:
        if not self._back:
            self._back = True
            await self._pool.give_back(self._kept)


async def _end_all(every: Sequence[Kept]) -> None:
    for kept in every:
        await kept.end()


def surroundings(temporary: str) -> dict[str, str]:
    """The variables every program expects; none of them is the host's, but for the time zone."""
    return {
        "HOME": temporary,
        "TMPDIR": temporary,
        "METIER_OUT": f"{temporary}/{OUT}",
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        **_time_zone(),
    }


def around(given: Mapping[str, str], ours: dict[str, str]) -> dict[str, str]:
    """A program's own variables and those every program expects. Ours count, but a time zone the operator gave it does."""
    return {**given, **ours, **{name: given[name] for name in given.keys() & {"TZ"}}}


@cache
def _time_zone() -> dict[str, str]:
    """By name: a variable costs nothing, and the file it stands for would be one more mount."""
    zone = os.path.realpath("/etc/localtime").partition("/zoneinfo/")[2]
    return {"TZ": zone} if zone else {}


def _identity(cwd: str) -> list[int]:
    if not cwd:
        return []
    try:
        found = os.stat(cwd, follow_symlinks=False)
    except OSError as error:
        raise WallError(f"{cwd} cannot be used: {error.strerror}") from None
    return [found.st_dev, found.st_ino]
