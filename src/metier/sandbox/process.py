"""The only place that starts a process.

Every process is started by one thread that lives as long as the program. That is no matter of taste: a child that
asks to die with its parent dies with the *thread* that started it, and a root host changes that thread's identity
and mount namespace for each start (`metier.sandbox.lend`), which must touch no other thread.
"""

import os
import resource
import select
import signal
import subprocess  # noqa: TID251  this is the one place
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar, final

import anyio
from msgspec import Struct

from metier.sandbox.capture import Capture, Feed
from metier.sandbox.one_memory import one_memory
from metier.sandbox.unbroken import unbroken

T = TypeVar("T")

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_lock: Final = threading.Lock()
_starter: ThreadPoolExecutor | None = None


def _submit(work: Callable[[], T]) -> "Future[T]":
    global _starter  # one thread for the whole program, made when first needed
    with _lock:
        if _starter is None:
            _starter = ThreadPoolExecutor(1, thread_name_prefix="metier-starter")
        return _starter.submit(work)


async def in_starter(work: Callable[[], T], undo: Callable[[T], object] | None = None) -> T:
    """Run `work` in the thread that starts processes. It is not cancelled halfway: what it started is returned.

    Where the caller is cancelled all the same, as the loop underneath can, `undo` ends what was started, in that thread.
    The caller is held until then: `work` uses descriptors that are the caller's to close.
    """
    with _Bell() as bell:
        future = bell.rung_by(work)
        try:
            await bell.until_done(future)
        except BaseException:
            # The thread does one thing after the other, so when this is done `work` is.
            undone = bell.rung_by(partial(_undo, future, undo))
            await unbroken(partial(bell.until_done, undone))
            raise
        return future.result()


def _undo(future: "Future[T]", undo: Callable[[T], object] | None) -> None:
    if undo is not None and future.exception() is None:
        undo(future.result())


@final
class _Bell:
    """Rung by the starter for a loop that may have gone away meanwhile. A descriptor, and no call into the loop: whoever
    is done must not wait for a loop that may be waiting for it."""

    def __init__(self) -> None:
        self._descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._lock = threading.Lock()

    def __enter__(self) -> "_Bell":
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            os.close(self._descriptor)
            self._descriptor = -1

    def rung_by(self, work: Callable[[], T]) -> "Future[T]":
        """Have `work` done, and be rung after it."""
        future = _submit(work)
        future.add_done_callback(self._ring)
        return future

    async def until_done(self, future: "Future[T]") -> None:
        with anyio.CancelScope(shield=True):
            while not future.done():
                await anyio.wait_readable(self._descriptor)
                os.eventfd_read(self._descriptor)

    def _ring(self, _: object) -> None:
        with self._lock:
            if self._descriptor >= 0:  # once closed, its number may be anybody's
                os.eventfd_write(self._descriptor, 1)


def in_starter_now(work: Callable[[], T]) -> T:
    """As `in_starter`, for code without a loop."""
    return _submit(work).result()


@final
class Process:
    """A child of ours, held by its pidfd so that no other process is ever meant by mistake."""

    def __init__(self, popen: "subprocess.Popen[bytes]") -> None:
        self._popen = popen
        self.pid: Final = popen.pid
        self._pidfd = os.pidfd_open(popen.pid)

    def signal(self, number: int = signal.SIGKILL) -> None:
        """Send a signal, unless it has ended."""
        if self._pidfd >= 0:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def has_ended(self, within: float = 0.0) -> bool:
        """Whether it is over, or is so within so many seconds; blocks for them."""
        waiting = select.poll()
        if self._pidfd >= 0:
            waiting.register(self._pidfd, select.POLLIN)
        return self._pidfd < 0 or bool(waiting.poll(within * 1000))

    async def wait(self) -> int:
        """Its exit code, or minus the signal that ended it."""
        if self._pidfd >= 0:
            await until_ended(self._pidfd)
        return self.reap()

    def reap(self) -> int:
        """As `wait`, for a process that has ended or is about to; blocks otherwise."""
        code = self._popen.wait()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
        return code


async def until_ended(pidfd: int) -> None:
    """Until the process held by `pidfd` has ended. Several may wait: a loop watches a descriptor for one only."""
    waiting = select.poll()
    waiting.register(pidfd, select.POLLIN)
    while not waiting.poll(0):
        try:
            await anyio.wait_readable(pidfd)
        except (anyio.BusyResourceError, anyio.ClosedResourceError):
            await anyio.sleep(0.002)


@final
class Tree(Struct, frozen=True):
    """What a run's processes take, as far as the kernel tells us."""

    seconds: float
    """Of the processor, those that were waited for included."""
    largest: int
    """Bytes of memory the largest had at its peak."""
    resident: int
    """Bytes that the one that holds most holds now: of its own, swapped out, or of the kernel's to find them again.
    Mapped files are left out."""
    written: int
    """Bytes written to disks. What a child wrote that nobody waited for is in nobody's count."""
    processes: tuple[int, ...] = ()
    """Those of the run, as we see them."""
    since: tuple[int, ...] = ()
    """When each of them began, in ticks of the kernel's clock: a number alone may be another's later."""


UNKNOWN: Final = 1 << 62
"""A number the kernel should have told us and did not; more than anything may have."""
_HELD: Final = (b"\nRssAnon:", b"\nRssShmem:", b"\nVmPTE:", b"\nVmSwap:")


def tree(pid: int, *, ours: int) -> Tree:
    """Look at `pid` and all below it; the first `ours` generations are not the run's but our own."""
    seconds, largest, resident, written = 0.0, 0, 0, 0
    processes: list[int] = []
    since: list[int] = []
    todo = [(pid, 0, 0)]
    while todo:
        each, depth, above = todo.pop()
        with suppress(FileNotFoundError, ProcessLookupError):  # it ended while we looked
            threads = os.listdir(f"/proc/{each}/task")
            for thread in threads:  # each has children of its own
                children = _read(each, f"task/{thread}/children").split()
                todo += [(int(child), depth + 1, each) for child in children]
            fields = _read(each, "stat").rpartition(b")")[2].split()
            # Of our own last generation only what it reaped was the run's.
            seconds += sum(map(int, fields[11:15] if depth >= ours else fields[13:15])) / _TICKS
            if depth < ours:
                continue
            processes.append(each)
            since.append(int(fields[19]))
            if depth == ours and one_memory(each, above):  # asked first: a moment later it may be the program
                continue  # it is on its way to become that: what it holds is still our own
            state = _state(each, threads)
            resident = max(resident, sum(_kilobytes(state, name) for name in _HELD) if state else 0)
            largest = max(largest, _kilobytes(state, b"\nVmHWM:") if state else 0)
            try:
                written += _number(_read(each, "io"), b"\nwrite_bytes:")
            except PermissionError:  # for a moment, of a copy of our supervisor; else of one that hides
                written += UNKNOWN
    return Tree(seconds, largest, resident, written, tuple(processes), tuple(since))


def _state(pid: int, threads: Sequence[str]) -> bytes:
    """How a process stands, as one of its threads that has memory tells it: the first may have ended before the
    others. Empty when none has any, as of a process that ends."""
    state = _read(pid, "status")
    for thread in threads:
        if _HELD[0] in state:
            return state
        with suppress(FileNotFoundError, ProcessLookupError):
            state = _read(pid, f"task/{thread}/status")
    return state if _HELD[0] in state else b""


def _read(pid: int, name: str) -> bytes:
    with open(f"/proc/{pid}/{name}", "rb") as file:
        return file.read()


def _kilobytes(state: bytes, name: bytes) -> int:
    return _number(state, name) * 1024


def _number(text: bytes, name: bytes) -> int:
    """By the exact beginning of a line: what a process calls itself stands in one as well, but has no line end."""
    try:
        return int(text.partition(name)[2].split(None, 1)[0])
    except (ValueError, IndexError):
        return UNKNOWN


def start(
    argv: Sequence[str],
    *,
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
    keep: Sequence[int] = (),
    environment: Mapping[str, str] | None = None,
) -> Process:
    """Start a program with no descriptor but those given and, unless said otherwise, no environment.

    Only to be called inside `in_starter`. None as a standard descriptor is the null device.
    """
    nothing = subprocess.DEVNULL
    popen = subprocess.Popen(  # noqa: S603  argv, never a shell
        argv,
        stdin=nothing if stdin is None else stdin,
        stdout=nothing if stdout is None else stdout,
        stderr=nothing if stderr is None else stderr,
        pass_fds=tuple(keep),
        env=dict(environment or {}),
        cwd="/",
        umask=0o022,
    )
    try:
        return Process(popen)
    except BaseException:
        popen.kill()
        popen.wait()
        raise


def two_pipes() -> tuple[int, int, int, int]:
    """Both or none: what is read and written of the first, and of the second."""
    one = os.pipe()
    try:
        return *one, *os.pipe()
    except BaseException:
        for each in one:
            os.close(each)
        raise


def end_now(process: Process) -> None:
    """Kill it and wait for it, without a loop."""
    process.signal()
    process.reap()


async def run_limited(
    argv: Sequence[str], *, stdin: bytes, seconds: float, memory_mb: int, output_bytes: int
) -> tuple[int, bytes, bytes]:
    """Run a program of ours on input nobody vouches for: exit code (minus the signal), output, error output.

    Its limits are in place before it gets the input. It is no sandbox: the program itself is trusted.
    """
    memory = memory_mb << 20
    limits = {
        resource.RLIMIT_DATA: memory,
        resource.RLIMIT_CPU: int(seconds) + 1,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NPROC: 64,
    }
    with Capture(output_bytes) as out, Capture(65_536) as err, Feed(stdin) as feed:
        child = await in_starter(
            lambda: start(argv, stdin=feed.theirs, stdout=out.theirs, stderr=err.theirs), undo=end_now
        )
        code = -9
        try:
            for kind, most in limits.items():
                with suppress(ProcessLookupError):
                    resource.prlimit(child.pid, kind, (most, most))
            async with anyio.create_task_group() as tasks:
                for each in (out, err, feed):
                    tasks.start_soon(each.run)
                with anyio.move_on_after(seconds):
                    await child.wait()
                child.signal()
                code = await child.wait()
                out.finish()
                err.finish()
                tasks.cancel_scope.cancel()
        finally:
            child.signal()
            child.reap()
        return code, out.data, err.data
