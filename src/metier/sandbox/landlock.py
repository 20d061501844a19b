"""The wall where there is no bubblewrap: Landlock, a system call filter, limits, and a supervisor that sweeps.

It keeps files, sockets and signals apart, but it has no namespaces: that a file exists can be found out, other
processes can be counted, and there is no network of its own to give out. It does not promise those.
"""

import errno
import os
import socket
import sys
import tempfile
import time
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Final, final

import anyio
from anyio import to_thread

from metier.model.guarantee import Guarantee
from metier.sandbox.bubblewrap import GUEST, supervisor_command
from metier.sandbox.cgroup import Group, Groups
from metier.sandbox.guest import confine, syscall_filter
from metier.sandbox.guest.aftermath import empty
from metier.sandbox.kept import Kept, Pool
from metier.sandbox.limits import OWN_MB, kernel_limits
from metier.sandbox.mounts import check_place, check_same, loaders, system_files, system_folders
from metier.sandbox.openreal import open_real
from metier.sandbox.process import Process, end_now, in_starter, start, tree
from metier.sandbox.protocol import Missing
from metier.sandbox.remains import Remains
from metier.sandbox.supervisor import Setup, Supervisor
from metier.sandbox.unbroken import unbroken
from metier.sandbox.wall import Code, Policy, Program, Running, WallError

ABI: Final = 6
"""The first that keeps a run from signalling its supervisor, without which nobody could promise to sweep."""
PROMISES: Final = frozenset(Guarantee) - {
    Guarantee.EXISTENCE,
    Guarantee.NETWORK_BY_GRANT,
    Guarantee.PROCESSES_HIDDEN,
    Guarantee.MEMORY_EXACT,
}
LATELY_SECONDS: Final = 0.5
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EMLINK, errno.ENOMEM)
_DEVICES: Final = ("/dev/null", "/dev/urandom")


_numbers: Final = count()


@final
class Landlock:
    """The wall. Make one for the whole program, and `aclose` it."""

    def __init__(self, *, groups: Groups | None = None) -> None:
        self._groups = groups
        self._pool = Pool(self._raise)
        self._tasks = _Tasks()

    @property
    def name(self) -> str:
        return "landlock"

    def guarantees(self) -> frozenset[Guarantee]:
        exact = {Guarantee.MEMORY_EXACT} if self._groups is not None else frozenset[Guarantee]()
        return (PROMISES | exact) - frozenset[Guarantee]().union(*(each.costs for each in self.missing()))

    def missing(self) -> tuple[Missing, ...]:
        everything = frozenset(Guarantee)
        if not syscall_filter.SUPPORTED:
            what = f"Linux on x86-64 (this is {os.uname().machine})"
            return (Missing(what=what, why="no system call filter for it yet", remedy="", costs=everything),)
        if (abi := confine.landlock_abi()) < ABI:
            why = f"this kernel has {f'version {abi}' if abi else 'none, or it is switched off'}"
            remedy = "Use a kernel of 6.12 or newer with Landlock in its list of security modules"
            return (Missing(what=f"Landlock {ABI}", why=why, remedy=remedy, costs=everything),)
        if os.geteuid() == 0 and self._groups is None:
            return (
                Missing(
                    what="a control group of our own",
                    why="the kernel does not count root's processes, and no group could be made to do so",
                    remedy="Run Metier as an ordinary user",
                    costs=frozenset({Guarantee.PROCESSES_BOUNDED, Guarantee.MEMORY_EXACT}),
                ),
            )
        return ()

    async def start(self, policy: Policy, program: Program) -> Running:
        _check(policy)
        return await self._pool.start(policy, program)

    async def fork(self, policy: Policy, code: Code) -> Running:
        _check(policy)
        return await self._pool.fork(policy, code)

    async def aclose(self) -> None:
        await self._pool.aclose()

    async def _raise(self, policy: Policy, python: bool) -> Kept:
        if policy.network:
            raise WallError("without namespaces no run can be given a network of its own")
        lent = _open(policy)
        try:
            return await self._raise_around(lent, policy, python)
        finally:
            for descriptor in lent:
                os.close(descriptor)

    async def _raise_around(self, lent: list[int], policy: Policy, python: bool) -> Kept:
        temporary = _own_folder()
        remains = Remains(temporary)
        sockets: list[socket.socket] = []
        group: Group | None = None
        process: Process | None = None
        try:
            sockets += socket.socketpair()
            ours, theirs = sockets
            group = self._group(policy)
            command = supervisor_command(theirs.fileno())
            process = await in_starter(partial(start, command, keep=(theirs.fileno(),)), undo=end_now)
            if group is not None:
                with suppress(ProcessLookupError):  # it ended at once, and the next step says so
                    group.attach(process.pid)
            supervisor = Supervisor(process, ours)
            theirs.close()
            tasks = self._tasks.now()
            await supervisor.prepare(_setup(policy, temporary, python, tasks), lent)
        except BaseException:
            for each in sockets:
                each.close()
            try:
                if process is not None:
                    await unbroken(partial(_tear_down, process, temporary, remains))
                else:
                    os.rmdir(temporary)
            finally:
                if group is not None:
                    group.remove()
            raise
        return Kept(
            (policy, python),
            supervisor,
            temporary=temporary,
            shares_disk=True,
            run_below=(process.pid, 1),
            group=group,
            tear_down=partial(_tear_down, process, temporary, remains),
            still_fits=lambda: abs(self._tasks.lately() - tasks) <= policy.processes // 2,
            remains=remains,
        )

    def _group(self, policy: Policy) -> Group | None:
        if self._groups is None:
            return None
        name = f"{os.getpid()}-l{next(_numbers)}"
        try:
            return self._groups.make(
                name, memory_bytes=(policy.memory_mb + OWN_MB) << 20, processes=policy.processes + 4
            )
        except OSError as error:
            raise WallError(f"no control group could be made: {error.strerror}") from None


def _own_folder() -> str:
    try:
        return tempfile.mkdtemp(prefix="metier-run-")
    except OSError as error:
        if error.errno in _FULL:
            raise  # another time there may be room
        where = f" in {os.path.dirname(error.filename)}" if error.filename else ""
        raise WallError(
            f"no temporary folder can be made{where}: {error.strerror}; "
            "start again with TMPDIR set to a folder that can be written to"
        ) from None


async def _tear_down(process: Process, temporary: str, remains: Remains) -> None:
    """The end of its socket makes a supervisor sweep and leave; only then is its folder removed."""
    with anyio.move_on_after(5):
        await process.wait()
    if not process.has_ended():
        remains.note(tree(process.pid, ours=1))  # it hangs, and so does its run
    process.signal()
    if await process.wait() != 0:  # it has not swept
        await to_thread.run_sync(remains.end)
    await to_thread.run_sync(_remove, temporary)


def _remove(folder: str) -> None:
    with suppress(OSError):
        empty(folder)  # as the supervisor does: a run may have nested folders deeper than any path can say
        os.rmdir(folder)


def _open(policy: Policy) -> list[int]:
    """Each place by a descriptor that was looked at: the rules are made for what it stands for, whatever its name means
    by then."""
    opened: list[int] = []
    try:
        for place in policy.places:
            check_place(place)
            opened.append(open_real(place.path))
            check_same(place, os.fstat(opened[-1]))
    except BaseException:
        for descriptor in opened:
            os.close(descriptor)
        raise
    return opened


def _check(policy: Policy) -> None:
    """Before every run: a place that was replaced since is not what was granted."""
    for descriptor in _open(policy):
        os.close(descriptor)


def _setup(policy: Policy, temporary: str, python: bool, tasks: int) -> Setup:
    limits = kernel_limits(policy)
    limits["RLIMIT_NPROC"] += tasks
    own = [GUEST, os.path.realpath(sys.base_prefix)]
    machine = [path for path, _ in system_folders()]
    read = ["/dev/zero", "/dev/random", *system_files(False)]
    execute = [*machine, *own]
    if policy.programs is not None:
        read, execute = [*read, *machine, *own], [*policy.programs, *loaders()]
    return Setup(
        read=read,
        execute=execute,
        write=[*_DEVICES],
        lent=[place.writable for place in policy.places],
        temporary=[temporary],
        limits=limits,
        landlock=True,
        no_metadata=True,
        sweep_by_tree=True,
        drop_capabilities=os.geteuid() == 0,
        python=python,
    )


@final
class _Tasks:
    """How many tasks our user has: without a namespace the kernel counts them with those of a run."""

    def __init__(self) -> None:
        self._found = 0
        self._at = 0.0

    def now(self) -> int:
        ours, found = os.geteuid(), 0
        if ours == 0:
            return 0  # root's are not counted at all
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    if os.stat(f"/proc/{name}").st_uid == ours:
                        found += len(os.listdir(f"/proc/{name}/task"))
                except OSError:
                    continue
        self._found, self._at = found, time.monotonic()
        return found

    def lately(self) -> int:
        """As `now`, or a moment ago: it is asked before every run, and takes longer than many a run."""
        return self._found if time.monotonic() - self._at < LATELY_SECONDS else self.now()
