"""A host in a process of its own, to be killed, or to have a terminal or groups that ours has not.

It opens the backend, runs `echo` and says `warm`, then runs the acts it was given, all at once, and prints what each
said. With a terminal or groups it does them bare as well, and tells that last: what it has is nobody else's.
"""

import fcntl
import importlib.util
import os
import shutil
import sys
import tempfile
import termios
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, final

import anyio
import msgspec

from metier.sandbox import cgroup
from metier.sandbox.capture import Capture
from metier.sandbox.process import Process, in_starter, start
from metier.testing.sandbox_kit import leftovers
from metier.testing.sandbox_kit.backend import Backend
from metier.testing.sandbox_kit.bench import Bench, KitFailure

_BEGIN_SECONDS: Final = 30.0


@final
class HostProcess:
    """The other host, seen from here."""

    def __init__(self, process: Process, output: Capture, errors: Capture) -> None:
        self._process = process
        self._output = output
        self._errors = errors
        self.pid: Final = process.pid

    async def running(self) -> None:
        """Until its acts are under way, and there are no more processes of it than a moment ago."""
        await self._said(b"warm\n")
        seen, since, give_up = leftovers.below(self.pid), time.monotonic(), time.monotonic() + 5
        while time.monotonic() < min(since + 0.3, give_up):
            await anyio.sleep(0.02)
            now = leftovers.below(self.pid)
            if now != seen:
                seen, since = now, time.monotonic()

    async def answers(self) -> list[Any]:
        """What its acts said, once it has ended."""
        with anyio.fail_after(_BEGIN_SECONDS):
            code = await self._process.wait()
        self._output.finish()
        self._errors.finish()
        if code != 0:
            raise KitFailure(f"the other host failed: {self._errors.data.decode(errors='replace')[-2000:]}")
        return [msgspec.json.decode(line) for line in self._output.data.splitlines()[1:]]

    def kill(self) -> None:
        self._process.signal()

    async def _said(self, word: bytes) -> None:
        give_up = time.monotonic() + _BEGIN_SECONDS
        while word not in self._output.data:
            if time.monotonic() > give_up:
                raise KitFailure(
                    f"the other host did not begin: {self._errors.data.decode(errors='replace')[-2000:]}"
                )
            await anyio.sleep(0.02)


@asynccontextmanager
async def started(
    bench: Bench,
    acts: Sequence[str],
    params: Sequence[Mapping[str, Any]],
    folder: str,
    *,
    terminal: int | None = None,
    groups: Sequence[int] = (),
) -> AsyncGenerator[HostProcess]:
    """Start one with the backend of the bench. It is gone afterwards. Only root can put it in `groups`."""
    bench.need(
        "elsewhere", bool(bench.backend.elsewhere), "the backend does not say how another process opens it"
    )
    asked = msgspec.json.encode([list(acts), list(params), terminal is not None, list(groups)]).decode()
    argv = [sys.executable, "-m", __name__, bench.backend.elsewhere, folder, asked, __file__]
    temporary = tempfile.mkdtemp(prefix="metier-kit-host-")
    os.chmod(temporary, 0o755)  # noqa: S103  a sandbox may run as a user of its own
    environment = {
        "TMPDIR": temporary,
        "PATH": os.environ.get("PATH", ""),
        "HOME": folder,
        "PYTHONPATH": os.pathsep.join(each for each in sys.path if each),  # the code under test, and no other
    }
    with Capture(1 << 20) as output, Capture(1 << 20) as errors:
        begin = partial(
            start, argv, stdin=terminal, stdout=output.theirs, stderr=errors.theirs, environment=environment
        )
        process = await in_starter(begin)
        output.close_theirs()
        errors.close_theirs()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(output.run)
                tasks.start_soon(errors.run)
                yield HostProcess(process, output, errors)
                tasks.cancel_scope.cancel()
        finally:
            process.signal()
            process.reap()
            shutil.rmtree(temporary, ignore_errors=True)
            control = cgroup.find()
            if control is not None:
                control.sweep()


def load(elsewhere: str) -> Backend:
    """The backend that a `file.py:function` stands for."""
    path, _, function = elsewhere.rpartition(":")
    sys.path.append(os.path.dirname(path))  # it may have neighbours that it needs
    spec = importlib.util.spec_from_file_location("kit_backend", path)
    if spec is None or spec.loader is None:
        raise KitFailure(f"{path} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made = getattr(module, function)()
    if not isinstance(made, Backend):
        raise KitFailure(f"{elsewhere} gives no backend")
    return made


async def _main(
    elsewhere: str, folder: str, acts: Sequence[str], params: Sequence[Mapping[str, Any]], *, bare: bool
) -> None:
    backend = load(elsewhere)
    state = os.path.join(folder, "state")
    os.mkdir(state)
    opened = backend.open(state)
    try:
        bench = Bench(opened.sandbox, backend, folder)
        await bench.value("echo")
        os.write(1, b"warm\n")
        async with anyio.create_task_group() as tasks:
            for act, given in zip(acts, params, strict=True):
                tasks.start_soon(_one, bench, act, given)
        for act, given in zip(acts, params, strict=True) if bare else ():
            told = {"bare": (await bench.bare(act, given)).value}
            os.write(1, msgspec.json.encode(told) + b"\n")
    finally:
        await opened.aclose()


async def _one(bench: Bench, act: str, params: Mapping[str, Any]) -> None:
    report = await bench.run(act, params, timeout=60.0)
    said = {"ending": report.ending, "said": bench.guest.said(report)}
    os.write(1, msgspec.json.encode(said) + b"\n")


def main() -> None:
    elsewhere, folder, asked, expected = sys.argv[1:]
    if __file__ != expected:
        raise KitFailure(f"another Metier would be judged: {__file__} instead of {expected}")
    acts, params, terminal, groups = msgspec.json.decode(asked)
    if terminal:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    if groups:
        os.setgroups(groups)
    anyio.run(partial(_main, elsewhere, folder, acts, params, bare=terminal or bool(groups)))


if __name__ == "__main__":
    main()
