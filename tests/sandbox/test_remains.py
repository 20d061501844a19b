"""Behind Landlock alone a run does not outlive whoever supervises it: what was started there ends all the same."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from jobs import ending, python, shell
from metier.model.job import Job, Report
from metier.model.skill import Limits
from metier.sandbox.landlock import Landlock
from metier.sandbox.native import NativeSandbox
from metier.sandbox.process import Tree, tree
from metier.sandbox.python import PythonSandbox
from metier.sandbox.remains import Remains
from other_user import run_as_user

MARK = f"31.4{os.getpid()}"
"""How long the programs of these tests sleep, and by which they are found."""
LONG = Limits(timeout=30.0)
SHELL = f"setsid sleep {MARK} & (setsid sleep {MARK} &) ; env -i sleep {MARK}"
CODE = (
    "import os, time\n"
    f"os.spawnv(os.P_NOWAIT, '/usr/bin/sleep', ['sleep', '{MARK}'])\n"
    f"if os.fork() == 0:\n    os.setsid()\n    os.execve('/usr/bin/sleep', ['sleep', '{MARK}'], {{}})\n"
    "time.sleep(25)"
)


def marked() -> set[int]:
    found: set[int] = set()
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if line.read_bytes().split(b"\0")[:2] == [b"sleep", MARK.encode()]:
                found.add(int(line.parent.name))
        except OSError:
            continue
    return found


async def until(true: Callable[[], bool], seconds: float = 10) -> bool:
    give_up = time.monotonic() + seconds
    while not true() and time.monotonic() < give_up:
        await anyio.sleep(0.01)
    return true()


@pytest.mark.parametrize(("job", "asleep"), [(shell(SHELL, limits=LONG), 3), (python(CODE, limits=LONG), 2)])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_run_ends_with_its_supervisor_where_no_control_group_ends_it(
    job: Job, asleep: int, number: int
) -> None:
    async def work() -> Report:
        wall = Landlock()
        pool: Any = wall._pool
        sandbox = NativeSandbox(wall)
        found: list[Report] = []

        async def run() -> None:
            found.append(await (sandbox if sandbox.takes(job) else PythonSandbox(wall)).run(job))

        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run)
                assert await until(lambda: len(marked()) == asleep), "nothing was tried"
                (kept,) = pool._busy
                with anyio.fail_after(10):
                    while not marked() <= {pid for look in kept.remains._looks for pid, _ in look}:
                        await anyio.sleep(0.01)  # it is looked at twenty times a second
                os.kill(kept.run_below[0], number)
                assert await until(lambda: not marked(), 1.0), f"still there: {marked()}"
            return found[0]
        finally:
            await wall.aclose()
            for pid in marked():
                os.kill(pid, signal.SIGKILL)

    report = anyio.run(work)
    assert report.ending == "signalled", ending(report)


@pytest.mark.slow
def test_a_run_ends_with_a_supervisor_that_hangs() -> None:
    async def work() -> None:
        wall = Landlock()
        pool: Any = wall._pool
        try:
            with anyio.move_on_after(30) as scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(NativeSandbox(wall).run, shell(SHELL, limits=LONG))
                    assert await until(lambda: len(marked()) == 3), "nothing was tried"
                    (kept,) = pool._busy
                    os.kill(kept.run_below[0], signal.SIGSTOP)
                    scope.cancel()
            assert not marked()
        finally:
            await wall.aclose()
            for pid in marked():
                os.kill(pid, signal.SIGKILL)

    anyio.run(work)


def test_an_ordinary_users_run_ends_with_its_supervisor() -> None:
    script = (
        "import os, signal, anyio\n"
        "from jobs import shell\n"
        "from metier.model.skill import Limits\n"
        "from metier.sandbox.landlock import Landlock\n"
        "from metier.sandbox.native import NativeSandbox\n"
        "def asleep(look):\n"
        "    def line(pid):\n"
        "        try:\n"
        "            return open(f'/proc/{pid}/cmdline').read()\n"
        "        except OSError:\n"
        "            return ''\n"
        "    return len(look) == 3 and all(line(pid).startswith('sleep') for pid, _ in look)\n"
        "async def main():\n"
        "    wall = Landlock()\n"
        "    async def run():\n"
        f"        report = await NativeSandbox(wall).run(shell({SHELL!r}, limits=Limits(timeout=30.0)))\n"
        "        print(report.ending)\n"
        "    async with anyio.create_task_group() as tasks:\n"
        "        tasks.start_soon(run)\n"
        "        with anyio.fail_after(10):\n"
        "            while not any(asleep(each) for kept in wall._pool._busy for each in kept.remains._looks):\n"
        "                await anyio.sleep(0.01)\n"
        "        (kept,) = wall._pool._busy\n"
        "        os.kill(kept.run_below[0], signal.SIGKILL)\n"
        "    await wall.aclose()\n"
        "anyio.run(main)"
    )
    try:
        assert run_as_user(script).split() == ["signalled"]
        assert not marked()
    finally:
        for pid in marked():
            os.kill(pid, signal.SIGKILL)


def test_what_has_taken_over_the_number_of_a_process_is_left_alone(tmp_path: Path) -> None:
    sleeping = [sys.executable, "-c", "import time; time.sleep(30)"]
    with subprocess.Popen(sleeping) as other, subprocess.Popen(sleeping) as meant:
        try:
            remains = Remains(str(tmp_path))
            seen = tree(meant.pid, ours=0)
            remains.note(Tree(0.0, 0, 0, 0, (*seen.processes, other.pid), (*seen.since, 1)))
            remains.note(Tree(0.0, 0, 0, 0))  # after that nothing was seen any more
            remains.end()
            assert meant.wait(5) == -signal.SIGKILL
            assert other.poll() is None
        finally:
            for each in (other, meant):
                each.kill()
