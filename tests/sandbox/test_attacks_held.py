"""Ways out that somebody found once. Each is closed, and each is tried here as it was found."""

import ctypes
import errno
import fcntl
import os
import signal
import stat
import struct
import tempfile
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from jobs import command, ending, place, python, shell
from metier.model.job import Report
from metier.model.permission import PermissionSet
from metier.model.skill import Limits
from metier.sandbox import process
from metier.sandbox import python as python_backend
from metier.sandbox.bounds import Bounds
from metier.sandbox.bubblewrap import Bubblewrap
from metier.sandbox.landlock import Landlock
from metier.sandbox.native import NativeSandbox
from metier.sandbox.python import PythonSandbox

Wall = Bubblewrap | Landlock
walls = pytest.mark.parametrize("kind", [Bubblewrap, Landlock])
MOUNT = "import ctypes; l = ctypes.CDLL(None)\nmount = lambda: l.mount(b'x', b'/tmp', b'tmpfs', 0, None)\n"


class Inside:
    def __init__(self, wall: Wall) -> None:
        self.wall = wall
        self._native, self._code = NativeSandbox(wall), PythonSandbox(wall)

    async def __call__(self, job: Any) -> Report:
        return await (self._native if self._native.takes(job) else self._code).run(job)


def behind(kind: type[Wall], work: Callable[[Inside], Awaitable[Any]], **more: Any) -> Any:
    async def go() -> Any:
        inside = Inside(kind(**more))
        try:
            return await work(inside)
        finally:
            await inside.wall.aclose()

    return anyio.run(go)


def one(kind: type[Wall], job: Any, **more: Any) -> Report:
    return behind(kind, lambda inside: inside(job), **more)


@walls
def test_a_hundred_refused_sockets_do_not_hide_a_violation(kind: type[Wall]) -> None:
    report = one(kind, python(MOUNT + "for i in range(200): l.socket(i + 3, 1, 0)\nmount(); result = 1"))
    assert [event.detail for event in report.violations] == ["mount"], ending(report)


@walls
def test_a_violation_made_as_the_main_process_ends_is_seen(kind: type[Wall]) -> None:
    source = MOUNT + (
        "import os\nr, w = os.pipe()\n"
        "if os.fork() == 0:\n    os.write(w, b'x')\n    while True: mount()\n"
        "context._bridge.send({'id': 0, 'result': 1}); os.read(r, 1); os._exit(0)"
    )

    async def work(inside: Inside) -> list[Report]:
        return [await inside(python(source)) for _ in range(10)]

    # One whose child did not get to it before it was killed tried nothing; without the guard most are lost.
    assert sum(bool(report.violations) for report in behind(kind, work)) >= 9


@walls
def test_a_variable_of_one_call_is_not_in_the_memory_of_the_next(kind: type[Wall]) -> None:
    secret = "sekret-" + os.urandom(12).hex()
    half = len(secret) // 2
    look = (
        f"import ctypes, gc\nwanted = {secret[:half]!r} + {secret[half:]!r}\nfound = 0\n"
        "for each in gc.get_objects():\n"
        "    if isinstance(each, (dict, list, tuple)):\n"
        "        for part in (each.values() if isinstance(each, dict) else each):\n"
        "            found += isinstance(part, (str, bytes)) and part is not wanted and len(part) >= len(wanted)"
        " and (wanted if isinstance(part, str) else wanted.encode()) in part\n"
        "result = found"
    )

    async def work(inside: Inside) -> tuple[Report, Report]:
        holds = await inside(
            python("import os\nresult = len(os.environ['TOKEN'])", environment={"TOKEN": secret})
        )
        return holds, await inside(python(look))

    first, second = behind(kind, work)
    assert first.value == len(secret)
    assert second.value == 0, ending(second)


def test_nothing_can_be_written_on_the_temporary_folder_itself() -> None:
    leave = (
        "import os\nt = os.environ['TMPDIR']\nos.setxattr(t, 'user.x', b'left'); os.utime(t, (7, 7)); os.chmod(t, 0o555)\n"
        "result = os.listxattr(t)"
    )
    read = "import os\nt = os.environ['TMPDIR']\nresult = [os.listxattr(t), os.stat(t).st_mtime, oct(os.stat(t).st_mode)]"

    async def work(inside: Inside) -> tuple[Report, Report]:
        return await inside(python(leave)), await inside(python(read))

    first, second = behind(Bubblewrap, work)
    assert first.value == ["user.x"], ending(first)
    assert second.value == [[], 0, "0o40700"]


@walls
def test_no_program_with_its_owners_rights_is_left_behind(kind: type[Wall], tmp_path: Path) -> None:
    source = (
        "import os\nresult = []\n"
        "for act in (lambda: os.chmod('a', 0o4755), lambda: os.close(os.open('b', os.O_CREAT | os.O_WRONLY, 0o6755)),\n"
        "            lambda: os.mkdir('c', 0o2755), lambda: os.mknod('d', 0o104755),\n"
        "            lambda: os.fchmod(os.open('a', os.O_RDONLY), 0o2755)):\n"
        "    try:\n        act(); result.append('did')\n    except OSError as e:\n        result.append(e.errno)\n"
    )
    (tmp_path / "a").touch()
    report = one(
        kind, python(source, places=(place(tmp_path, writable=True),), cwd=os.path.realpath(tmp_path))
    )
    assert report.ending == "returned", ending(report)
    set_id = stat.S_ISUID | stat.S_ISGID
    assert not [path for path in tmp_path.iterdir() if path.stat().st_mode & set_id]
    os.chmod(tmp_path / "a", 0o4755)  # noqa: S103
    assert (tmp_path / "a").stat().st_mode & set_id, "out here it can be done"


def test_no_variable_stands_on_a_command_line(tmp_path: Path) -> None:
    secret = "sekret-" + os.urandom(8).hex()
    seen: list[bytes] = []

    async def work(inside: Inside) -> Report:
        async with anyio.create_task_group() as tasks:

            async def look() -> None:
                while True:
                    for name in filter(str.isdigit, os.listdir("/proc")):
                        try:
                            seen.append(Path(f"/proc/{name}/cmdline").read_bytes())  # noqa: ASYNC240
                        except OSError:
                            continue
                    await anyio.sleep(0.02)

            tasks.start_soon(look)
            report = await inside(command("sleep", "0.4", environment={"TOKEN": secret}))
            tasks.cancel_scope.cancel()
        return report

    assert behind(Bubblewrap, work).ending == "returned"
    assert any(b"sleep" in line for line in seen)
    assert not any(secret.encode() in line for line in seen)


@walls
def test_memory_made_read_only_still_counts(kind: type[Wall]) -> None:
    source = (
        "import ctypes, mmap\nl = ctypes.CDLL(None); kept = []\n"
        "for _ in range(40):\n"
        "    m = mmap.mmap(-1, 32 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); m.write(b'x' * (32 << 20)); kept.append(m)\n"
        "    a = ctypes.addressof(ctypes.c_char.from_buffer(m)); l.mprotect(ctypes.c_void_p(a), 32 << 20, 1)\n"
        "    import time; time.sleep(0.02)\nresult = 'held it all'"
    )
    report = one(kind, python(source, limits=Limits(timeout=20.0, memory_mb=128)), groups=None)
    assert report.ending == "out_of_memory", ending(report)


def test_what_one_run_leaves_at_the_proxys_door_is_not_the_next_ones() -> None:
    granted = PermissionSet(hosts=frozenset({"api.example.org"}))
    leave = (
        "import os, socket\nport = int(os.environ['http_proxy'].rpartition(':')[2])\n"
        "for _ in range(3):\n    s = socket.create_connection(('127.0.0.1', port)); s.detach()\n"
        "    os.write(s.fileno() if s.fileno() >= 0 else 1, b'')\n"
        "c = socket.create_connection(('127.0.0.1', port))\n"
        "c.sendall(b'GET http://169.254.169.254/ HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')\n"
        "context._bridge.send({'id': 0, 'result': 1}); os._exit(0)"
    )
    wait = "import time; time.sleep(0.3); result = 'innocent'"

    async def work(inside: Inside) -> tuple[Report, Report]:
        return await inside(python(leave, permissions=granted)), await inside(
            python(wait, permissions=granted)
        )

    _, second = behind(Bubblewrap, work)
    assert (second.ending, second.violations) == ("returned", ()), ending(second)


@pytest.mark.slow
def test_what_is_written_without_a_name_counts_against_the_disk(tmp_path: Path) -> None:
    source = (
        "import os, time\nfor i in range(14):\n    f = os.open(f'n{i}', os.O_CREAT | os.O_RDWR); os.unlink(f'n{i}')\n"
        "    for _ in range(10): os.write(f, b'x' * (16 << 20))\n    time.sleep(0.02)\nresult = 'wrote it all'"
    )
    free = os.statvfs(tmp_path)
    if free.f_bavail * free.f_frsize < 8 << 30:
        pytest.skip("less than eight gigabytes are free here")
    given = python(
        source,
        places=(place(tmp_path, writable=True),),
        cwd=os.path.realpath(tmp_path),
        limits=Limits(timeout=40.0),
    )
    assert one(Bubblewrap, given).ending == "out_of_disk"


@walls
def test_a_place_swapped_while_the_sandbox_starts_leads_nowhere(kind: type[Wall], tmp_path: Path) -> None:
    secret, granted, link = tmp_path / "secret", tmp_path / "granted", tmp_path / "link"
    secret.mkdir()
    granted.mkdir()
    (secret / "key").write_text("TOP SECRET")
    (granted / "key").write_text("plain")
    link.symlink_to(secret)
    exchange = ctypes.CDLL(None).renameat2
    going = True

    def swap() -> None:
        while going:
            exchange(-100, os.fsencode(granted), -100, os.fsencode(link), 2)

    given = place(granted)
    source = (
        f"try:\n    result = open({str(granted / 'key')!r}).read()\nexcept OSError as e:\n    result = 'no'"
    )
    swapper = threading.Thread(target=swap)
    swapper.start()
    try:

        async def work(inside: Inside) -> list[Report]:
            more = [
                Limits(timeout=10.0, memory_mb=128 + number) for number in range(12)
            ]  # each a wall of its own
            return [await inside(python(source, places=(given,), limits=limits)) for limits in more]

        reports = behind(kind, work)
    finally:
        going = False
        swapper.join()
    assert "TOP SECRET" not in [report.value for report in reports]


@walls
def test_a_supervisor_that_has_much_to_clear_away_has_told_first(kind: type[Wall]) -> None:
    source = MOUNT + (
        "mount()\nimport os\nos.chdir(os.environ['TMPDIR'])\n"
        "for i in range(5000): os.close(os.open('n' * 240 + str(i), os.O_CREAT | os.O_WRONLY))\nresult = 'done'"
    )
    report = one(kind, python(source, limits=Limits(timeout=20.0, memory_mb=16)))
    assert [event.detail for event in report.violations] == ["mount"], ending(report)


@walls
def test_a_waiting_supervisor_that_died_is_replaced(kind: type[Wall]) -> None:
    async def work(inside: Inside) -> Report:
        await inside(python("result = 1"))
        for kept in [kept for waiting in inside.wall._pool._idle.values() for kept in waiting]:
            kept.supervisor.process.signal()
            await kept.supervisor.process.wait()
        return await inside(python("result = 2"))

    assert behind(kind, work).value == 2


@walls
def test_a_folder_deeper_than_any_path_is_cleared_away(kind: type[Wall], tmp_path: Path) -> None:
    source = "import os\nos.chdir(os.environ['TMPDIR'])\nfor _ in range(1500):\n    os.mkdir('d' * 200); os.chdir('d' * 200)\nresult = 1"

    async def work(inside: Inside) -> tuple[Report, Report]:
        return await inside(python(source)), await inside(
            python("import os\nresult = os.listdir(os.environ['TMPDIR'])")
        )

    first, second = behind(kind, work)
    assert (first.value, second.value) == (1, ["out"]), (ending(first), ending(second))


def test_a_start_that_is_done_at_once_does_not_stop_the_loop() -> None:
    async def work() -> int:
        with anyio.fail_after(5):
            for _ in range(200):
                await process.in_starter(lambda: 1)
            return 1

    assert anyio.run(work) == 1


@walls
def test_what_no_program_can_be_given_is_refused_and_never_raised(kind: type[Wall], tmp_path: Path) -> None:
    odd = [
        command("echo", "a\0b"),
        command("echo", "\udcff"),
        command("echo", "x" * 200_000),
        shell("true", environment={"A=B": "x"}),
        python("result = 1", environment={"A": "\udcff"}),
        shell("true", cwd=str(tmp_path / "nowhere")),
    ]

    async def work(inside: Inside) -> list[Report]:
        return [await inside(each) for each in odd for _ in range(2)]

    assert {report.ending for report in behind(kind, work)} == {"not_started"}


def test_the_first_start_and_the_next_see_the_same() -> None:
    async def work(inside: Inside) -> list[Report]:
        return [await inside(command("ls", "-A", "/", "/etc", "/tmp")) for _ in range(3)]

    first, second, third = behind(Bubblewrap, work)
    assert first.ending == second.ending == third.ending == "returned", ending(second)
    names = [set(report.stdout.split()) for report in (first, second, third)]
    assert names[1] == names[2]
    # `out` lies in the temporary folder, which is another one where the supervisor itself lies in this.
    assert names[0] - {"out"} <= names[1], "only where the supervisor itself lies may be there besides"


READ_ONLY = (
    "import ctypes, mmap, time\nl = ctypes.CDLL(None); kept = []\n"
    "def hold(size):\n"
    "    m = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); m.write(b'x' * size); kept.append(m)\n"
    "    l.mprotect(ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(m))), size, 1)\n"
)
UNCOUNTED = {
    "a name that reads like the number": READ_ONLY
    + "l.prctl(15, b'RssAnon: 0')\nfor _ in range(60): hold(8 << 20); time.sleep(0.01)\nresult = 'held it all'",
    "a name that makes the number unreadable": READ_ONLY
    + "l.prctl(15, b'RssAnon: x')\nfor _ in range(60): hold(8 << 20); time.sleep(0.01)\nresult = 'held it all'",
    "a first thread that has ended": READ_ONLY
    + "import os, threading\ndef go():\n    for _ in range(60): hold(8 << 20); time.sleep(0.01)\n"
    "    context._bridge.send({'id': 0, 'result': 'held it all'}); os._exit(0)\n"
    "threading.Thread(target=go).start(); l.syscall(60, 0)",
    "page tables": "import mmap, time\n"
    "m = mmap.mmap(-1, 1 << 40, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, mmap.PROT_READ)\n"
    "for i in range(120_000):\n    m[i << 21]\n    if i % 2_000 == 0: time.sleep(0.01)\nresult = 'held it all'",
}


@pytest.mark.slow
@walls
@pytest.mark.parametrize("how", UNCOUNTED)
def test_memory_that_was_not_counted_once_counts(kind: type[Wall], how: str) -> None:
    given = python(UNCOUNTED[how], limits=Limits(timeout=20.0, memory_mb=64))
    report = one(kind, given, groups=None)
    assert report.ending == "out_of_memory", ending(report)
    roomy = python(UNCOUNTED[how], limits=Limits(timeout=20.0, memory_mb=1024))
    assert one(kind, roomy, groups=None).value == "held it all", "with room for it, it does hold that much"


UNSEEN = {
    "files without a name, by children nobody waits for": "import os, signal\n"
    "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\nkept = []\n"
    "for i in range(30):\n"
    "    f = os.open(f'n{i}', os.O_CREAT | os.O_WRONLY); os.unlink(f'n{i}'); kept.append(f)\n"
    "    if os.fork() == 0: os.write(f, b'x' * (8 << 20)); os._exit(0)\n"
    "    try: os.wait()\n    except ChildProcessError: pass\n"
    "import time; time.sleep(1)\nresult = 'wrote it all'",
    "children nobody waits for": "import os, signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
    "for i in range(30):\n"
    "    if os.fork() == 0:\n"
    "        f = os.open(f'n{i}', os.O_CREAT | os.O_WRONLY); os.write(f, b'x' * (8 << 20)); os._exit(0)\n"
    "    try: os.wait()\n    except ChildProcessError: pass\nresult = 'wrote it all'",
    "a name that makes the number unreadable": "import ctypes, os\nctypes.CDLL(None).prctl(15, b'RssAnon: x')\n"
    "for i in range(30):\n"
    "    f = os.open(f'n{i}', os.O_CREAT | os.O_WRONLY); os.write(f, b'x' * (8 << 20)); os.close(f)\n"
    "result = 'wrote it all'",
}


@pytest.mark.slow
@walls
@pytest.mark.parametrize("how", UNSEEN)
def test_res_10_what_is_written_unseen_counts_against_the_disk(
    kind: type[Wall], how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(most: int) -> Report:
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        monkeypatch.setattr(python_backend, "Bounds", partial(Bounds, bytes_most=most))
        given = python(UNSEEN[how], places=(place(folder, writable=True),), cwd=os.path.realpath(folder))
        return one(kind, replace(given, limits=Limits(timeout=20.0)))

    reports: list[Report] = []
    while len(reports) < 3 and not (reports and reports[-1].ending == "out_of_disk"):
        reports.append(write(48 << 20))  # again, where others cleared away as much at the same time
    assert reports[-1].ending == "out_of_disk", ending(reports[-1])
    assert write(4 << 30).value == "wrote it all", "with room for it, it does write that much"


@walls
def test_room_on_the_disk_cannot_be_reserved_by_a_request_to_the_file(
    kind: type[Wall], tmp_path: Path
) -> None:
    source = (
        "import fcntl, os, struct\nf = os.open('n', os.O_CREAT | os.O_RDWR); result = []\n"
        "for request in (0x40305828, 0x4030582A, 0x40305839):\n"
        "    try: fcntl.ioctl(f, request, struct.pack('hhqqII16x', 0, 0, 0, 64 << 20, 0, 0)); result.append('did')\n"
        "    except OSError as e: result.append(e.errno)"
    )
    given = python(source, places=(place(tmp_path, writable=True),), cwd=os.path.realpath(tmp_path))
    report = one(kind, given)
    assert report.value == [errno.ENOTTY] * 3, ending(report)
    assert (tmp_path / "n").stat().st_blocks == 0
    with (tmp_path / "n").open("r+b") as file:
        fcntl.ioctl(file, 0x40305828, struct.pack("hhqqII16x", 0, 0, 0, 1 << 20, 0, 0))
    assert (tmp_path / "n").stat().st_blocks >= 2048, "out here it can be done"


@walls
def test_a_grant_to_read_does_not_keep_others_from_opening_a_file(kind: type[Wall], tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.write_text("x")
    source = (
        f"import fcntl, os\nf = os.open({str(notes)!r}, os.O_RDONLY)\n"
        "try: fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_WRLCK); result = 'leased'\n"
        "except OSError as e: result = e.errno"
    )
    report = one(kind, python(source, places=(place(tmp_path),)))
    assert report.value == errno.EINVAL, ending(report)
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)  # so is the holder told that somebody waits
    try:
        with notes.open() as file:
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            with pytest.raises(BlockingIOError):
                os.open(notes, os.O_RDONLY | os.O_NONBLOCK)  # out here it can be done
    finally:
        signal.signal(signal.SIGIO, before)


@walls
def test_no_page_of_memory_is_kept_in_a_pipe(kind: type[Wall]) -> None:
    source = (
        "import ctypes, os, struct\nl = ctypes.CDLL(None, use_errno=True)\nr, w = os.pipe()\n"
        "page = ctypes.create_string_buffer(4096)\n"
        "done = l.vmsplice(w, struct.pack('@QQ', ctypes.addressof(page), 1), 1, 0)\n"
        "result = [done, ctypes.get_errno()]"
    )
    assert one(kind, python(source)).value == [-1, errno.ENOSYS]


@walls
def test_a_run_does_not_use_up_the_watches_of_its_user(kind: type[Wall]) -> None:
    source = "import ctypes\nl = ctypes.CDLL(None, use_errno=True)\nresult = [l.inotify_init(), ctypes.get_errno()]"
    assert one(kind, python(source)).value == [-1, errno.ENOSYS]
