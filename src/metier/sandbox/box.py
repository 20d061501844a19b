"""One bubblewrap sandbox from start to end: the process, who it runs as, its limits, and that nothing is left of it."""

import json
import os
import resource
import select
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, final

import anyio
from msgspec import Struct

from metier.model.job import Place
from metier.sandbox import bwrap_line
from metier.sandbox.cgroup import Group
from metier.sandbox.glance import Glance
from metier.sandbox.kept import around, surroundings
from metier.sandbox.lend import Lending, Tenant
from metier.sandbox.limits import kernel_limits
from metier.sandbox.mounts import Holding
from metier.sandbox.process import Process, Tree, start, tree, two_pipes, until_ended
from metier.sandbox.supervisor import BY_SUPERVISOR
from metier.sandbox.wall import OUT, Look, Policy, WallError

BUILD_SECONDS: Final = 10.0
END_SECONDS: Final = 0.5
LOOK_SECONDS: Final = 0.05
_LISTED: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@final
class Inside(Struct, frozen=True, kw_only=True):
    """What is started in a box, as the first program there."""

    command: Sequence[str]
    environment: Mapping[str, str]
    cwd: str = ""
    stdin: int | None = None
    stdout: int | None = None
    stderr: int | None = None
    keep: tuple[int, ...] = ()
    alone: bool = False
    filter: bytes = b""
    """A system call filter put on it by bubblewrap; empty when it puts on its own."""


@final
class Box:
    """Made by `build`. Ended by `end`, which may be called at any time and twice."""

    def __init__(
        self, process: Process, pid: int, first: int, status: int, unblock: int, temporary: str
    ) -> None:
        self.process: Final = process
        self.pid: Final = pid
        """Of the first process inside, as we see it."""
        self._unblock = unblock
        self._temporary = temporary
        self._first = first
        """The pidfd of the first process inside; when that is gone, all of them are."""
        self._status = status
        self.exit_code: int | None = None
        """What the program ended with, if it ever began."""
        self.tenant: Tenant | None = None
        self.cpu_seconds = 0.0
        self.memory_bytes = 0
        self.written = 0
        """All three as last seen: bubblewrap goes before its first process, so nobody is told when that ends."""
        self._glance = Glance(partial(tree, pid, ours=1))

    def go(self, group: Group | None) -> None:
        """Let its program begin, in `group` where there is one. Raises WallError."""
        try:
            if group is not None:
                group.attach(self.pid)
            with suppress(BrokenPipeError):  # it could not be built; its end says so
                os.write(self._unblock, b"\n")
        except OSError as error:
            raise WallError(f"the sandbox ended before its limits were set: {error.strerror}") from None
        finally:
            os.close(self._unblock)
            self._unblock = -1

    async def wait(self) -> None:
        """Until its program has ended, and everything with it."""
        pause = 0.01
        while True:
            with anyio.move_on_after(pause) as waited:
                await self.process.wait()
            self._see()
            if not waited.cancelled_caught:
                break
            pause = min(2 * pause, LOOK_SECONDS)
        await self._gone()

    def _see(self) -> Tree:
        seen = self._glance.now()
        self.cpu_seconds = max(self.cpu_seconds, seen.seconds)
        self.memory_bytes = max(self.memory_bytes, seen.largest)
        self.written = max(self.written, seen.written)
        return seen

    async def end(self) -> None:
        """From inside out: when its first process goes, all go with it, and bubblewrap is there to reap that one."""
        with anyio.CancelScope(shield=True):
            if self._first >= 0:
                self._see()
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._first, signal.SIGKILL)
            with anyio.move_on_after(END_SECONDS):
                await self.process.wait()
            self.process.signal()
            await self.process.wait()
            await self._gone()

    def look(self) -> Look:
        """Nothing while it is being built and when it is over."""
        if self._first < 0:
            return Look()
        seen, disks, root = self._see(), (), f"/proc/{self.pid}/root"
        with suppress(OSError):
            if os.stat(root).st_dev != os.stat("/").st_dev:
                disks = (os.statvfs(root + self._temporary),)
        return Look(disks, seen.resident, seen.written, seen.processes, seen.seconds)

    def left(self) -> int:
        """A descriptor of the `out` folder inside; -1 while it is being built and when it is over. The one part of the way
        there that a run can replace is the last, and that is not followed."""
        root = f"/proc/{self.pid}/root"
        with suppress(OSError):
            if self._first >= 0 and os.stat(root).st_dev != os.stat("/").st_dev:
                return os.open(f"{root}{self._temporary}/{OUT}", _LISTED)
        return -1

    def strike(self) -> tuple[float, int] | None:
        """Kill everything inside, without waiting: processor seconds and largest size so far. None when it has ended."""
        if self._first < 0:
            return None
        self._see()
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._first, signal.SIGKILL)
        return self.cpu_seconds, self.memory_bytes

    def destroy(self) -> None:
        """End it without a loop, from inside out as well."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._first, signal.SIGKILL)
        waiting = select.poll()
        waiting.register(self._first, select.POLLIN)
        waiting.poll(BUILD_SECONDS * 1000)
        self.process.signal()
        self.reap()

    def reap(self) -> int:
        """Wait for it without a loop, and let go of it; what bubblewrap ended with."""
        code = self.process.reap()
        for descriptor in (self._first, self._status):
            os.close(descriptor)
        self._first = self._status = -1
        return code

    async def _gone(self) -> None:
        if self._first >= 0:
            await until_ended(self._first)
        if self._first >= 0:  # another may have waited along
            os.close(self._first)
            self._first = -1
        if self._status >= 0:
            self.exit_code = _exit_code(_read_now(self._status))
            os.close(self._status)
            self._status = -1


def build(bwrap: str, policy: Policy, inside: Inside, lending: Lending | None, group: Group | None) -> Box:
    """Start a box. Runs in the starter thread; raises WallError with nothing left behind."""
    temporary = bwrap_line.temporary_for(policy.places)
    tenant = lending.take() if lending else None
    try:
        with Holding(policy.places) as held:

            def begin(lent: Mapping[str, str] | None) -> Box:
                # By descriptor; or, lent, by a path of our own that nobody can swap.
                sources = [(each.place, lent[each.place.path] if lent else each.descriptor) for each in held]
                return _Start(bwrap, policy, inside, temporary).begin(sources)

            box = lending.start_as(tenant, held, begin) if lending and tenant else begin(None)
    except BaseException:
        if lending and tenant:
            lending.give_back(tenant)
        raise
    box.tenant = tenant
    try:
        box.go(group)
    except BaseException:
        box.destroy()
        if lending and tenant:
            lending.give_back(tenant)
        raise
    return box


@final
class _Start:
    """The start of one box, up to where bubblewrap waits for our word."""

    def __init__(self, bwrap: str, policy: Policy, inside: Inside, temporary: str) -> None:
        self._bwrap = bwrap
        self._policy = policy
        self._inside = inside
        self._temporary = temporary

    def begin(self, sources: Sequence[tuple[Place, int | str]]) -> Box:
        said, say, blocked, unblock = two_pipes()
        theirs = [say, blocked]
        process: Process | None = None
        first = -1
        try:
            process = self._start(sources, theirs)
            while theirs:
                os.close(theirs.pop())
            pid, first = _hold_first(said)
            # Here, as the same user: root need not have the right to.
            _limit(pid, self._policy, supervised=not self._inside.filter)
            return Box(process, pid, first, said, unblock, self._temporary)
        except BaseException as error:
            if first >= 0:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(first, signal.SIGKILL)
                os.close(first)
            if process is not None:
                process.signal()
                process.reap()
            os.close(said)
            os.close(unblock)
            if isinstance(error, OSError | ValueError):
                why = getattr(error, "strerror", None) or str(error)
                raise WallError(f"the program could not be started: {why}") from None
            raise
        finally:
            for descriptor in theirs:
                os.close(descriptor)

    def _start(self, sources: Sequence[tuple[Place, int | str]], theirs: list[int]) -> Process:
        inside = self._inside
        extra = ["--json-status-fd", str(theirs[0]), "--block-fd", str(theirs[1])]
        if inside.filter:
            theirs.append(_memory_file(inside.filter))
            extra += ["--seccomp", str(theirs[-1])]
        options = bwrap_line.options(
            places=sources,
            temporary=self._temporary,
            temporary_bytes=self._policy.file_mb << 20,
            environment=around(inside.environment, surroundings(self._temporary)),
            cwd=inside.cwd,
            supervised=not inside.filter,
            network=self._policy.network,
            alone=inside.alone,
            extra=extra,
        )
        # Not on the command line, which every user of the machine can read.
        theirs.append(_memory_file(b"".join(os.fsencode(option) + b"\0" for option in options)))
        argv = (self._bwrap, "--args", str(theirs[-1]), "--", *inside.command)
        keep = (*inside.keep, *theirs, *(source for _, source in sources if isinstance(source, int)))
        return start(argv, stdin=inside.stdin, stdout=inside.stdout, stderr=inside.stderr, keep=keep)


def _hold_first(said: int) -> tuple[int, int]:
    """The first process inside: its pid out here, and a hold on it."""
    data = b""
    waiting = select.poll()
    waiting.register(said, select.POLLIN)
    while b"\n" not in data:
        if not waiting.poll(BUILD_SECONDS * 1000) or not (more := os.read(said, 4_096)):
            raise WallError("bubblewrap could not build the sandbox")
        data += more
    try:
        pid = int(json.loads(data.splitlines()[0])["child-pid"])
        return pid, os.pidfd_open(pid)
    except (ValueError, KeyError, OSError) as error:
        raise WallError(f"bubblewrap could not build the sandbox: {error}") from None


def _limit(pid: int, policy: Policy, *, supervised: bool) -> None:
    """Before anything of it runs: bubblewrap waits for our word."""
    try:
        for name, most in kernel_limits(policy).items():
            if supervised and name in BY_SUPERVISOR:
                continue
            kind = getattr(resource, name)
            hard = resource.getrlimit(kind)[1]
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.prlimit(pid, kind, (most, most))
    except OSError as error:
        raise WallError(f"the limits of the sandbox could not be set: {error.strerror}") from None


def _memory_file(data: bytes) -> int:
    descriptor = os.memfd_create("filter", os.MFD_CLOEXEC)
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _read_now(descriptor: int) -> bytes:
    os.set_blocking(descriptor, False)
    data = b""
    with suppress(BlockingIOError):
        while more := os.read(descriptor, 4_096):
            data += more
    return data


def _exit_code(said: bytes) -> int | None:
    for each in said.splitlines():
        with suppress(ValueError, KeyError, TypeError):
            return int(json.loads(each)["exit-code"])
    return None
