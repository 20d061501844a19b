"""The wall of namespaces: bubblewrap, with a second wall of Landlock and a system call filter inside.

A program is either started straight behind it, or by a supervisor that already waits there. The first is quicker
once, the second from then on, and only the second reports forbidden system calls. Both are the same wall.
"""

import os
import socket
import sys
from collections import OrderedDict
from functools import cache, partial
from itertools import count
from typing import Final, final

import anyio
from msgspec.structs import replace

from metier.model.guarantee import Guarantee
from metier.model.job import Place
from metier.sandbox import bwrap_line
from metier.sandbox.box import BUILD_SECONDS, Box, Inside, build
from metier.sandbox.cgroup import Group, Groups
from metier.sandbox.guest import syscall_filter
from metier.sandbox.kept import Kept, Pool
from metier.sandbox.lend import Lending, lending
from metier.sandbox.limits import OWN_MB, kernel_limits
from metier.sandbox.mounts import is_system, loaders, system_folders
from metier.sandbox.process import in_starter, in_starter_now
from metier.sandbox.protocol import Missing
from metier.sandbox.supervisor import Setup, Supervisor
from metier.sandbox.unbroken import unbroken
from metier.sandbox.wall import Code, Ended, Look, Policy, Program, Running, WallError

PROMISES: Final = frozenset(Guarantee) - {Guarantee.MEMORY_EXACT}
GUEST: Final = os.path.dirname(syscall_filter.__file__)
REMEMBERED: Final = 256
_DEVICES: Final = ("/dev/null", "/dev/urandom")
_OURS: Final = 8
"""Processes of our own in a control group: bubblewrap's, the supervisor and its threads."""


_numbers: Final = count()


@final
class Bubblewrap:
    """The wall. Make one for the whole program, and `aclose` it."""

    def __init__(self, *, groups: Groups | None = None) -> None:
        self._groups = groups
        self._bwrap = bwrap_line.find()
        self._lending: Lending | None = None
        self._missing: tuple[Missing, ...] | None = None
        self._pool = Pool(self._raise)
        self._straight: set[Box] = set()
        self._used: OrderedDict[Policy, None] = OrderedDict()

    @property
    def name(self) -> str:
        return "bubblewrap"

    def guarantees(self) -> frozenset[Guarantee]:
        return frozenset(Guarantee) - frozenset[Guarantee]().union(*(each.costs for each in self.missing()))

    def missing(self) -> tuple[Missing, ...]:
        if self._missing is None:
            self._missing = self._try()
        return self._missing

    async def start(self, policy: Policy, program: Program) -> Running:
        needed = program.supervised or program.exact_memory or policy.network
        if needed or (program.again and self._used_before(policy)):
            return await self._pool.start(policy, program)
        inside = Inside(
            command=program.argv,
            environment=program.environment,
            cwd=program.cwd,
            stdin=None if program.stdin < 0 else program.stdin,
            stdout=program.stdout,
            stderr=program.stderr,
            alone=program.alone,
            filter=_filter(),
        )
        box = await in_starter(partial(self._build, policy, inside, None), undo=self._unbuild)
        self._straight.add(box)
        return _Straight(self, box)

    async def fork(self, policy: Policy, code: Code) -> Running:
        return await self._pool.fork(policy, code)

    async def aclose(self) -> None:
        await self._pool.aclose()
        await unbroken(self._put_all_away)
        if self._lending is not None:
            await in_starter(self._lending.rest)

    async def _put_all_away(self) -> None:
        for box in tuple(self._straight):
            await self.put_away(box)

    async def put_away(self, box: Box) -> None:
        """End a box and take back what was lent to it."""
        self._straight.discard(box)
        with anyio.CancelScope(shield=True):
            await box.end()
            self._take_back(box)

    async def _raise(self, policy: Policy, python: bool) -> Kept:
        """A new supervisor behind a wall of this policy."""
        walled = replace(policy, places=(*policy.places, *_own_places()))
        temporary = bwrap_line.temporary_for(walled.places)
        ours, theirs = socket.socketpair()
        group: Group | None = None
        kept: Kept | None = None
        try:
            group = self._group(policy)
            inside = Inside(
                command=supervisor_command(theirs.fileno()), environment={}, keep=(theirs.fileno(),)
            )
            box = await in_starter(partial(self._build, walled, inside, group), undo=self._unbuild)
            kept = Kept(
                (policy, python),
                Supervisor(box.process, ours),
                temporary=temporary,
                shares_disk=False,
                run_below=(box.pid, 2),
                group=group,
                tear_down=partial(self.put_away, box),
            )
            theirs.close()
            await kept.supervisor.prepare(_setup(walled, temporary, python))
        except BaseException:
            if kept is not None:
                await kept.end()
            else:
                ours.close()
                if group is not None:
                    group.remove()
            raise
        finally:
            theirs.close()
        return kept

    def _group(self, policy: Policy) -> Group | None:
        if self._groups is None:
            return None
        name = f"{os.getpid()}-{next(_numbers)}"
        most = policy.processes + _OURS
        try:
            return self._groups.make(name, memory_bytes=(policy.memory_mb + OWN_MB) << 20, processes=most)
        except OSError as error:
            raise WallError(f"no control group could be made: {error.strerror}") from None

    def _build(self, policy: Policy, inside: Inside, group: Group | None) -> Box:
        if self._bwrap is None:
            raise WallError("bubblewrap is not installed")
        if self._lending is None and os.geteuid() == 0:
            self._lending = lending(self._bwrap)
        return build(self._bwrap, policy, inside, self._lending, group)

    def _unbuild(self, box: Box) -> None:
        """For a box that nobody waits for any more. In the starter thread."""
        box.destroy()
        self._take_back(box)

    def _take_back(self, box: Box) -> None:
        if box.tenant is not None and self._lending is not None:
            self._lending.give_back(box.tenant)
            box.tenant = None

    def _used_before(self, policy: Policy) -> bool:
        """A program that calls only once should not wait for a supervisor."""
        before = policy in self._used
        self._used[policy] = None
        self._used.move_to_end(policy)
        if len(self._used) > REMEMBERED:
            self._used.popitem(last=False)
        return before

    def _try(self) -> tuple[Missing, ...]:
        """Find out what holds here by doing it once."""
        everything = frozenset(Guarantee)
        if not syscall_filter.SUPPORTED:
            what = f"Linux on x86-64 (this is {os.uname().machine})"
            return (Missing(what=what, why="no system call filter for it yet", remedy="", costs=everything),)
        if self._bwrap is None:
            return (
                Missing(
                    what="bubblewrap",
                    why="no bwrap that only root can write in " + ", ".join(bwrap_line.WHERE),
                    remedy="apt install bubblewrap    (or dnf, pacman, apk: the package is called bubblewrap)",
                    costs=everything,
                ),
            )
        try:
            in_starter_now(self._try_once)
        except WallError as error:
            return (
                Missing(
                    what="namespaces for ordinary users",
                    why=str(error),
                    remedy="sysctl -w user.max_user_namespaces=10000"
                    "    (Ubuntu: also sysctl -w kernel.apparmor_restrict_unprivileged_userns=0)",
                    costs=everything,
                ),
            )
        if self._groups is None:
            return (
                Missing(
                    what="a control group of our own",
                    why="none could be made below the one this program runs in",
                    remedy="systemd-run --user --scope -p Delegate=yes metier …    (or run as root)",
                    costs=frozenset({Guarantee.MEMORY_EXACT}),
                ),
            )
        return ()

    def _try_once(self) -> None:
        inside = Inside(
            command=("/bin/true",),
            environment={},
            filter=_filter(),
        )
        box = self._build(Policy(), inside, None)
        if not box.process.has_ended(BUILD_SECONDS):
            self._unbuild(box)
            raise WallError(f"bubblewrap did not come to an end in {BUILD_SECONDS:g} s")
        code = box.reap()
        self._take_back(box)
        if code != 0:
            raise WallError(f"bubblewrap ended with {code}")


@final
class _Straight:
    """A program that is the first one in a box of its own."""

    def __init__(self, wall: Bubblewrap, box: Box) -> None:
        self._wall = wall
        self._box = box
        self.shared_folders: list[str] = []
        self.proxy: socket.socket | None = None

    async def wait(self) -> Ended:
        await self._box.wait()
        return await self._ended("exited")

    async def kill(self) -> Ended:
        return await unbroken(self._kill)

    async def _kill(self) -> Ended:
        await self._box.end()
        return await self._ended("killed")

    def look(self) -> Look:
        return self._box.look()

    def left(self) -> int:
        return self._box.left()

    def strike(self) -> Ended | None:
        used = self._box.strike()
        return used and Ended(signal=9, why="killed", cpu_seconds=used[0], memory_bytes=used[1])

    async def _ended(self, why: str) -> Ended:
        await self._wall.put_away(self._box)
        box, code = self._box, self._box.exit_code
        killed = Ended(
            signal=9,
            why="killed",
            cpu_seconds=box.cpu_seconds,
            memory_bytes=box.memory_bytes,
            written=box.written,
        )
        if why == "killed":
            return killed
        if code is None:
            raise WallError("bubblewrap could not build the sandbox; its error output says why")
        # Bubblewrap tells a signal as a shell does.
        number = code - 128 if 128 < code <= 192 else None
        return replace(killed, exit_code=None if number else code, signal=number, why="exited")


def supervisor_command(control: int) -> tuple[str, ...]:
    """Starts the supervisor with the interpreter we run on, isolated from everything of the host."""
    return (os.path.realpath(sys.executable), "-I", "-S", "-B", f"{GUEST}/supervisor.py", str(control))


@cache
def _own_places() -> tuple[Place, ...]:
    """What the supervisor itself is made of."""
    interpreter = os.path.realpath(sys.base_prefix)
    return (Place(path=GUEST), *(() if is_system(interpreter) else (Place(path=interpreter),)))


@cache
def _filter() -> bytes:
    return syscall_filter.program(notify=False, sockets="none", no_metadata=False)


def _setup(policy: Policy, temporary: str, python: bool) -> Setup:
    places = policy.places
    folders = [path for path, link in system_folders() if not link]
    any_program = [*folders, *(place.path for place in places)]
    return Setup(
        read=["/"],  # of a root that holds nothing but what was granted: a first start shows as much
        execute=any_program if policy.programs is None else [*policy.programs, *loaders()],
        write=[*_DEVICES, *(place.path for place in places if place.writable)],
        temporary=[temporary],
        limits=kernel_limits(policy),
        sockets="inet" if policy.network else "none",
        python=python,
    )
