"""One bubblewrap sandbox from start to end: the process, who it runs as, its limits, and that nothing is left of it."""

import json
import os
import resource
import select
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, final

import anyio
from msgspec import Struct

from metier.model.job import Place
from metier.sandbox import bwrap_line
from metier.sandbox.cgroup import Group
from metier.sandbox.kept import surroundings
from metier.sandbox.lend import Lending, Tenant, check_same
from metier.sandbox.limits import kernel_limits
from metier.sandbox.mounts import flatten
from metier.sandbox.process import Process, start, until_ended, used_by
from metier.sandbox.wall import Policy, WallError

BUILD_SECONDS: Final = 10.0
END_SECONDS: Final = 0.5
LOOK_SECONDS: Final = 0.05


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
    filter: bytes = b""
    """A system call filter put on it by bubblewrap; empty when it puts on its own."""


@final
class Box:
    """Made by `build`. Ended by `end`, which may be called at any time and twice."""

    def __init__(self, process: Process, pid: int, first: int, status: int, temporary: str) -> None:
        self.process: Final = process
        self._temporary = temporary
        self._pid = pid
        self._first = first
        """The pidfd of the first process inside; when that is gone, all of them are."""
        self._status = status
        self.exit_code: int | None = None
        """What the program ended with, if it ever began."""
        self.tenant: Tenant | None = None
        self.group: Group | None = None
        self.cpu_seconds = 0.0
        self.memory_bytes = 0
        """Both as last seen: bubblewrap goes before its first process, so nobody is told when that ends."""

    async def wait(self) -> None:
        """Until its program has ended, and everything with it."""
        pause = 0.01
        while True:
            with anyio.move_on_after(pause) as waited:
                await self.process.wait()
            self._look()
            if not waited.cancelled_caught:
                break
            pause = min(2 * pause, LOOK_SECONDS)
        await self._gone()

    def _look(self) -> None:
        seconds, largest = used_by(self._pid)
        self.cpu_seconds = max(self.cpu_seconds, seconds)
        self.memory_bytes = max(self.memory_bytes, largest)

    async def end(self) -> None:
        """From inside out: when its first process goes, all go with it, and bubblewrap is there to reap that one."""
        with anyio.CancelScope(shield=True):
            if self._first >= 0:
                self._look()
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._first, signal.SIGKILL)
            with anyio.move_on_after(END_SECONDS):
                await self.process.wait()
            self.process.signal()
            await self.process.wait()
            await self._gone()

    def own_disks(self) -> list[os.statvfs_result]:
        """How full its temporary folders are; none while it is being built and when it is over."""
        if self._first < 0:
            return []
        self._look()  # whoever asks this asks it now and then while it runs
        root = f"/proc/{self._pid}/root"
        with suppress(OSError):
            if os.stat(root).st_dev != os.stat("/").st_dev:
                return [os.statvfs(root + self._temporary)]
        return []

    def strike(self) -> tuple[float, int] | None:
        """Kill everything inside, without waiting: processor seconds and largest size so far. None when it has ended."""
        if self._first < 0:
            return None
        self._look()
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._first, signal.SIGKILL)
        return self.cpu_seconds, self.memory_bytes

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
    places = flatten(policy.places)
    temporary = bwrap_line.temporary_for(places)
    said, say = os.pipe()
    blocked, unblock = os.pipe()
    ours = [say, blocked]
    tenant = lending.take() if lending else None
    process: Process | None = None
    first = -1
    try:
        extra = ["--json-status-fd", str(say), "--block-fd", str(blocked)]
        if inside.filter:
            ours.append(_memory_file(inside.filter))
            extra += ["--seccomp", str(ours[-1])]

        def begin(lent: Mapping[str, int] | Mapping[str, str]) -> int:
            nonlocal process, first
            argv = bwrap_line.line(
                bwrap,
                places=[(place, lent[place.path]) for place in places],
                temporary=temporary,
                temporary_bytes=policy.file_mb << 20,
                environment={**inside.environment, **surroundings(temporary)},
                cwd=inside.cwd,
                command=inside.command,
                supervised=not inside.filter,
                network=policy.network,
                extra=extra,
            )
            keep = (*inside.keep, *ours, *(each for each in lent.values() if isinstance(each, int)))
            process = start(argv, stdin=inside.stdin, stdout=inside.stdout, stderr=inside.stderr, keep=keep)
            while ours:
                os.close(ours.pop())
            pid, first = _hold_first(said)
            _limit(pid, policy)  # here, as the same user: root need not have the right to
            return pid

        if lending and tenant:
            pid = lending.start_as(tenant, places, begin)
        else:
            pid = _start_as_we_are(places, begin)
        if group is not None:
            try:
                group.attach(pid)
            except OSError as error:
                raise WallError(f"the sandbox ended before its limits were set: {error.strerror}") from None
        with suppress(BrokenPipeError):  # it could not be built; its end says so
            os.write(unblock, b"\n")
        os.close(unblock)
        unblock = -1
    except BaseException:
        if first >= 0:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(first, signal.SIGKILL)
        if process is not None:
            process.signal()
            process.reap()
        if lending and tenant:
            lending.give_back(tenant)
        for descriptor in (said, unblock, first):
            if descriptor >= 0:
                os.close(descriptor)
        raise
    finally:
        for descriptor in ours:
            os.close(descriptor)
    if process is None:
        raise WallError("bubblewrap was not started")
    box = Box(process, pid, first, said, temporary)
    box.tenant, box.group = tenant, group
    return box


def _start_as_we_are(places: Sequence[Place], begin: Callable[[Mapping[str, int]], int]) -> int:
    opened: dict[str, int] = {}
    try:
        for place in places:
            try:
                opened[place.path] = os.open(place.path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
            except OSError as error:
                raise WallError(f"{place.path} cannot be opened: {error.strerror}") from None
            check_same(place, os.fstat(opened[place.path]))
        return begin(opened)
    finally:
        for descriptor in opened.values():
            os.close(descriptor)


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


def _limit(pid: int, policy: Policy) -> None:
    """Before anything of it runs: bubblewrap waits for our word."""
    try:
        for name, most in kernel_limits(policy).items():
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
