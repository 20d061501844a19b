"""Supervisors: what they count, what binds them and what binds their runs, and that an end of theirs is nobody's guilt."""

import os
import signal
import time
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest

from jobs import command, ending, place, python, shell
from metier.model.guarantee import Guarantee
from metier.model.job import Job, Report
from metier.model.skill import Limits
from metier.sandbox.bubblewrap import Bubblewrap
from metier.sandbox.ending import outcome_of
from metier.sandbox.glance import Glance
from metier.sandbox.kept import LEAST_PYTHON_MB, Kept
from metier.sandbox.landlock import Landlock
from metier.sandbox.native import NativeSandbox
from metier.sandbox.process import Tree
from metier.sandbox.python import PythonSandbox
from metier.sandbox.wall import Ended, Policy, Program
from other_user import run_as_user

Wall = Bubblewrap | Landlock
walls = pytest.mark.parametrize("kind", [Bubblewrap, Landlock])
WATCHED = frozenset({Guarantee.VIOLATIONS_SEEN})


class Inside:
    def __init__(self, wall: Wall) -> None:
        self.wall = wall
        self._native, self._code = NativeSandbox(wall), PythonSandbox(wall)

    async def __call__(self, job: Job) -> Report:
        return await (self._native if self._native.takes(job) else self._code).run(job)

    @property
    def supervisors(self) -> list[Kept]:
        pool: Any = self.wall._pool
        return [*pool._busy, *(kept for waiting in pool._idle.values() for kept in waiting)]


def behind(kind: type[Wall], work: Callable[[Inside], Awaitable[Any]]) -> Any:
    async def go() -> Any:
        inside = Inside(kind())
        try:
            return await work(inside)
        finally:
            await inside.wall.aclose()

    return anyio.run(go)


def one(kind: type[Wall], job: Job) -> Report:
    return behind(kind, lambda inside: inside(job))


def pid_of(kept: Kept) -> int:
    """The supervisor itself: behind bubblewrap it is the child of the first process there."""
    pid, ours = kept.run_below
    for _ in range(ours - 1):
        pid = int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
    return pid


def limit_of(pid: int, name: str) -> str:
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    return next(line for line in lines if line.startswith(name))[len(name) :].split()[1]


def written_here(file: Path, size: int) -> int:
    """What the kernel counts for us when we write as much ourselves: nothing on a file system in memory."""
    count = lambda: int(Path("/proc/self/io").read_text().partition("\nwrite_bytes:")[2].split()[0])  # noqa: E731
    before = count()
    file.write_bytes(b"x" * size)
    return count() - before


@walls
def test_bytes_written_to_a_disk_are_counted_and_those_of_orphans_too(
    kind: type[Wall], tmp_path: Path
) -> None:
    size = 4 << 20
    if written_here(tmp_path / "ours", size) < size:
        pytest.skip("writes to this file system are counted nowhere")
    write = f"head -c {size} /dev/zero"
    line = f"rm -f a b; {write} > a; ({write} > b &); while test $(stat -c %s b || echo 0) -lt {size}; do :; done"

    cwd = os.path.realpath(tmp_path)

    async def work(inside: Inside) -> list[Ended]:
        nothing = os.open(os.devnull, os.O_RDWR)
        policy = Policy(places=(place(tmp_path, writable=True),))
        program = Program(
            argv=("/bin/bash", "-c", line), cwd=cwd, stdout=nothing, stderr=nothing, supervised=True
        )  # fmt: skip
        try:
            return [await (await inside.wall.start(policy, program)).wait() for _ in range(2)]
        finally:
            os.close(nothing)

    for ended in behind(kind, work):
        assert ended.exit_code == 0
        assert 2 * size <= ended.written < 4 * size, "each run has its own count"


@walls
def test_orphans_that_have_ended_do_not_use_up_the_processes_of_a_run(kind: type[Wall]) -> None:
    # bash says so when it cannot fork, and waits longer each time.
    report = one(kind, shell("for i in $(seq 300); do (true &); done; echo ok", needs=WATCHED))
    assert (report.ending, report.stdout, report.stderr) == ("returned", "ok\n", ""), ending(report)


@pytest.mark.slow
def test_orphans_do_not_use_up_the_processes_of_an_ordinary_users_run_either() -> None:
    script = (
        "import anyio\nfrom jobs import shell\nfrom metier.model.guarantee import Guarantee\n"
        "from metier.sandbox.bubblewrap import Bubblewrap\nfrom metier.sandbox.landlock import Landlock\n"
        "from metier.sandbox.native import NativeSandbox\n"
        "async def main():\n"
        "    for wall in (Bubblewrap(), Landlock()):\n"
        "        job = shell('for i in $(seq 300); do (true &); done; echo ok', needs=frozenset({Guarantee.VIOLATIONS_SEEN}))\n"
        "        report = await NativeSandbox(wall).run(job)\n"
        "        print(report.ending, [report.stdout, report.stderr])\n"
        "        await wall.aclose()\n"
        "anyio.run(main)"
    )
    assert run_as_user(script).splitlines() == ["returned ['ok\\n', '']"] * 2


@walls
def test_what_an_orphan_used_is_the_runs(kind: type[Wall]) -> None:
    # The orphan has ended, and was waited for, before the run has.
    source = (
        "import os, time\nr, w = os.pipe()\n"
        "if os.fork() == 0:\n"
        "    if os.fork() == 0:\n"
        "        hog = bytearray(64 << 20)\n"
        "        while time.process_time() < 0.3: pass\n"
        "    os._exit(0)\n"
        "os.wait(); os.close(w); os.read(r, 1); time.sleep(0.1)\nresult = 1"
    )
    usage = one(kind, python(source)).usage
    assert usage.cpu_seconds > 0.3
    assert usage.memory_bytes > 64 << 20


@walls
def test_a_run_has_no_signal_blocked(kind: type[Wall]) -> None:
    code = one(kind, python("import signal\nresult = list(signal.pthread_sigmask(signal.SIG_BLOCK, ()))"))
    assert code.value == [], ending(code)
    program = one(kind, command("grep", "SigBlk", "/proc/self/status", needs=WATCHED))
    if kind is Bubblewrap:  # without namespaces there is no /proc inside
        assert set(program.stdout.split()[1]) == {"0"}, ending(program)


@walls
def test_what_binds_a_run_does_not_bind_its_supervisor(kind: type[Wall]) -> None:
    source = (
        "import resource as r\n"
        "result = [r.getrlimit(each)[1] for each in (r.RLIMIT_CPU, r.RLIMIT_NOFILE, r.RLIMIT_DATA)]"
    )
    small = Limits(timeout=10.0, memory_mb=32)

    async def work(inside: Inside) -> list[Any]:
        code = await inside(python(source, limits=small))
        [kept] = inside.supervisors
        seen = [limit_of(pid_of(kept), name) for name in ("Max cpu time", "Max open files", "Max data size")]
        # Time for a program that has begun to be put below what is set after its start.
        line = "sleep 0.3; ulimit -Ht; ulimit -Hn; ulimit -Hd"
        return [code.value, seen, await inside(shell(line, needs=WATCHED, limits=small))]

    code, seen, program = behind(kind, work)
    assert code == [301, 256, 32 << 20]
    assert program.stdout.split() == ["301", "256", str(32 << 10)], ending(program)
    assert seen[0] == "unlimited"
    assert int(seen[1]) > 1_000, "what is under way in sockets is counted for all programs of a user together"
    assert int(seen[2]) >= 96 << 20


HOG = (
    "import socket, time\nkept = []\n"
    "try:\n"
    "    while True:\n"
    "        a, b = socket.socketpair(); kept += [a, b]; a.setblocking(False)\n"
    "        try:\n"
    "            while True: socket.send_fds(a, [b'x'], [0] * 253)\n"
    "        except BlockingIOError: pass\n"
    "except OSError: pass\n"
    "import os; os.mkdir('full'); time.sleep(60)"
)


@pytest.mark.slow
def test_descriptors_under_way_in_one_run_do_not_keep_others_from_starting() -> None:
    script = (
        "import os, anyio\nfrom jobs import place, python, shell\n"
        "from metier.model.guarantee import Guarantee\nfrom metier.model.skill import Limits\n"
        "from metier.sandbox.bubblewrap import Bubblewrap\nfrom metier.sandbox.landlock import Landlock\n"
        "from metier.sandbox.native import NativeSandbox\nfrom metier.sandbox.python import PythonSandbox\n"
        "async def main():\n"
        "    for wall in (Bubblewrap(), Landlock()):\n"
        "        here = os.path.realpath(wall.name); os.mkdir(here)\n"
        "        async with anyio.create_task_group() as tasks:\n"
        f"            hog = python({HOG!r}, places=(place(here, writable=True),), cwd=here, limits=Limits(timeout=60.0))\n"
        "            tasks.start_soon(PythonSandbox(wall).run, hog)\n"
        "            with anyio.fail_after(10):\n"
        "                while not os.path.exists(here + '/full'): await anyio.sleep(0.02)\n"
        "            for memory in (256, 100):\n"
        "                report = await PythonSandbox(wall).run(python('result = 1', limits=Limits(memory_mb=memory)))\n"
        "                print(report.ending)\n"
        "            watched = shell('true', needs=frozenset({Guarantee.VIOLATIONS_SEEN}))\n"
        "            print((await NativeSandbox(wall).run(watched)).ending)\n"
        "            tasks.cancel_scope.cancel()\n"
        "        await wall.aclose()\n"
        "anyio.run(main)"
    )
    assert run_as_user(script).split() == ["returned"] * 6


@pytest.mark.slow
def test_other_programs_of_the_same_user_do_not_use_up_the_processes_of_a_run() -> None:
    script = (
        "import threading, anyio\nfrom jobs import python, shell\n"
        "from metier.sandbox.landlock import LATELY_SECONDS, Landlock\n"
        "from metier.sandbox.native import NativeSandbox\nfrom metier.sandbox.python import PythonSandbox\n"
        "FORKS = 'import os\\nfor _ in range(40):\\n    if os.fork() == 0: os.read(0, 1); os._exit(0)\\n"
        "while True:\\n    try: os.wait()\\n    except ChildProcessError: break\\nresult = 1'\n"
        "async def main():\n"
        "    wall, over = Landlock(), threading.Event()\n"
        "    async def both():\n"
        "        first = await PythonSandbox(wall).run(python(FORKS))\n"
        "        second = await NativeSandbox(wall).run(shell('true; true'))\n"
        "        return [first.ending, second.ending]\n"
        "    print(*await both())\n"
        "    try:\n"
        "        for _ in range(120): threading.Thread(target=over.wait).start()\n"
        "        print(*[each not in ('stopped', 'signalled', 'not_started') for each in await both()])\n"
        "        await anyio.sleep(LATELY_SECONDS)\n"
        "        print(*await both())\n"
        "    finally:\n"
        "        over.set()\n"
        "    await wall.aclose()\n"
        "anyio.run(main)"
    )
    assert run_as_user(script).splitlines() == ["returned returned", "True True", "returned returned"]


@walls
@pytest.mark.parametrize("code", [False, True])
def test_a_supervisor_that_dies_is_no_violation_of_the_skill(kind: type[Wall], code: bool) -> None:
    job = python("import time\ntime.sleep(5)") if code else shell("sleep 5", needs=WATCHED)

    async def work(inside: Inside) -> tuple[Report, Report]:
        found: list[Report] = []

        async def run() -> None:
            found.append(await inside(job))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            with anyio.fail_after(20):
                while not (inside.supervisors and inside.supervisors[0]._ending is False):
                    await anyio.sleep(0.01)
            await anyio.sleep(0.2)
            os.kill(pid_of(inside.supervisors[0]), signal.SIGKILL)
        return found[0], await inside(python("result = 1"))

    report, after = behind(kind, work)
    outcome = outcome_of(job, report, sandbox="test")
    assert (report.ending, report.violations, outcome.code) == ("signalled", (), "crashed"), ending(report)
    assert after.value == 1


@walls
def test_too_little_memory_for_python_itself_is_refused_with_what_would_do(kind: type[Wall]) -> None:
    async def work(inside: Inside) -> list[Report]:
        sizes = (1, LEAST_PYTHON_MB - 1, LEAST_PYTHON_MB)
        source = "import json, re, dataclasses\nresult = 1"
        return [await inside(python(source, limits=Limits(timeout=10.0, memory_mb=size))) for size in sizes]

    *little, enough = behind(kind, work)
    for report in little:
        assert report.ending == "not_started"
        assert (
            report.fault is not None
            and f"the least that works is {LEAST_PYTHON_MB} MB" in report.fault.message
        )
    assert enough.value == 1, ending(enough)


@walls
def test_a_program_that_needs_little_memory_has_a_supervisor_all_the_same(kind: type[Wall]) -> None:
    report = one(kind, shell("echo ok", needs=WATCHED, limits=Limits(timeout=10.0, memory_mb=4)))
    assert report.stdout == "ok\n", ending(report)


@walls
def test_a_run_that_closes_its_temporary_folder_does_not_take_its_supervisor_along(kind: type[Wall]) -> None:
    async def work(inside: Inside) -> bool:
        await inside(python("import os\nos.chmod(os.environ['TMPDIR'], 0)\nresult = 1"))
        [before] = inside.supervisors
        after = await inside(python("import os\nresult = oct(os.stat(os.environ['TMPDIR']).st_mode)"))
        assert after.value == "0o40700", ending(after)
        return inside.supervisors == [before]

    assert behind(kind, work)


def test_a_long_look_is_taken_by_somebody_else_and_not_too_often() -> None:
    looks: list[float] = []

    def see() -> Tree:
        looks.append(time.monotonic())
        time.sleep(0.05)
        return Tree(0.0, 0, len(looks), 0)

    glance = Glance(see)
    assert glance.now().resident == 1, "the first is taken on the spot: nobody knows yet how long it takes"
    longest = 0.0
    until = time.monotonic() + 1.0
    while time.monotonic() < until:
        began = time.monotonic()
        seen = glance.now()
        longest = max(longest, time.monotonic() - began)
        time.sleep(0.005)
    assert longest < 0.04, "whoever asks does not wait for it"
    assert 2 <= seen.resident <= 6, "and yet it is told of it"
    assert min(later - earlier for earlier, later in pairwise(looks)) > 0.2


def test_a_short_look_is_as_new_as_it_can_be() -> None:
    count = iter(range(1, 100))
    glance = Glance(lambda: Tree(0.0, 0, next(count), 0))
    assert [glance.now().resident for _ in range(5)] == [1, 2, 3, 4, 5]
