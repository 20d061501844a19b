"""What a run takes of memory and disk, as seen from outside."""

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from jobs import place
from metier.sandbox import bounds, grown, process
from metier.sandbox.bounds import Bounds
from metier.sandbox.grown import Grown, Moment, outermost
from metier.sandbox.wall import Ended, Look, Policy
from other_user import run_as_user

MiB = 1 << 20


class Fixed:
    """A run that is looked at and takes what we say."""

    def __init__(self, look: Callable[[], Look] = Look) -> None:
        self.look = look
        self.shared_folders: list[str] = []
        self.proxy = None

    async def wait(self) -> Ended:
        return Ended()

    async def kill(self) -> Ended:
        return Ended()

    def left(self) -> int:
        return -1

    def strike(self) -> Ended | None:
        return None


def write(path: Path, size: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(b"x" * size)
        file.flush()
        os.fsync(file.fileno())
    return path


def bounded(folder: Path, *, look: Callable[[], Look] = Look, **most: int) -> Bounds:
    return Bounds(Policy(places=(place(folder, writable=True),)), Fixed(look), **most)


def was_over(watch: Bounds, **ended: int) -> bool:
    async def ask() -> bool:
        return await watch.was_over(Ended(**ended))

    return anyio.run(ask)


def until_over(watch: Bounds, seconds: float = 1.0) -> str:
    async def ask() -> str:
        with anyio.move_on_after(seconds):
            return await watch.until_over()
        return ""

    return anyio.run(ask)


# --- The disk ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def quiet(tmp_path: Path) -> Iterator[Path]:
    """A folder where nobody else clears away at the same time what we have just filled."""
    if not os.path.isdir("/dev/shm"):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def test_res_10_what_lies_in_a_granted_folder_counts_whoever_wrote_it(quiet: Path) -> None:
    mine, theirs = quiet / "mine", quiet / "theirs"
    mine.mkdir()
    watch = bounded(mine, bytes_most=8 * MiB)
    write(theirs / "file", 16 * MiB)
    assert not was_over(watch), "what others write elsewhere is not the run's"
    watch = bounded(mine, bytes_most=8 * MiB)
    write(mine / "deep" / "er" / "file", 16 * MiB)
    assert was_over(watch)
    assert until_over(watch, 10.0) == "out_of_disk"


def test_res_10_room_that_others_make_at_the_same_time_hides_nothing_of_what_a_run_took(quiet: Path) -> None:
    mine, theirs = quiet / "mine", quiet / "theirs"
    mine.mkdir()
    theirs_file = write(theirs / "file", 32 * MiB)
    watch = bounded(mine, look=lambda: Look(written=16 * MiB), bytes_most=8 * MiB)
    write(mine / "file", 16 * MiB)
    theirs_file.unlink()
    assert was_over(watch, written=16 * MiB)
    assert until_over(watch, 10.0) == "out_of_disk"


def test_who_takes_away_again_what_he_wrote_took_nothing(quiet: Path) -> None:
    mine = quiet / "mine"
    mine.mkdir()
    watch = bounded(mine, look=lambda: Look(written=16 * MiB), bytes_most=8 * MiB)
    write(mine / "file", 16 * MiB).unlink()
    assert not was_over(watch, written=16 * MiB)
    assert until_over(watch, 0.5) == ""


def test_what_was_there_before_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grown, "MARGIN_NS", 20_000_000)
    old = write(tmp_path / "old", 8 * MiB)
    late = old.stat().st_ctime_ns + 2 * grown.MARGIN_NS
    while write(tmp_path / "apart" / "clock", 1).stat().st_ctime_ns < late:  # files have coarse times
        pass
    shutil.rmtree(tmp_path / "apart")
    seen = Grown(Moment())
    seen.look([str(old)], enough=lambda _: False)
    assert (seen.size, seen.files) == (0, 0)
    write(tmp_path / "new", MiB)
    os.link(tmp_path / "new", tmp_path / "new again")
    seen.look([str(tmp_path), str(old)], enough=lambda _: False)
    assert seen.files == 2
    assert MiB <= seen.size < 2 * MiB, "two names of one file take its room once"


def test_as_many_files_as_were_lost_are_looked_for(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    for name in ("one", "nested/two", "nested/nested/three"):
        write(mine / name, 1)
    seen = Grown(Moment())
    seen.look([str(mine), str(mine / "nested")], enough=lambda _: False)
    assert seen.files == 5, "three files and two folders"
    few = Grown(Moment())
    few.look([str(mine)], enough=lambda found: found.files >= 2)
    assert few.files == 2


def test_a_place_inside_another_is_looked_at_once() -> None:
    assert outermost(["/a/b", "/a", "/ab", "/a/b/c", "/a"]) == ["/a", "/ab"]
    assert outermost(["/", "/a"]) == ["/"]


def test_a_place_may_be_a_file(tmp_path: Path) -> None:
    file = write(tmp_path / "file", MiB)
    seen = Grown(Moment())
    seen.look([str(file), str(tmp_path / "gone")], enough=lambda _: False)
    assert (seen.files, seen.hidden) == (1, False)
    assert seen.size >= MiB


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    write(tmp_path / "apart" / "file", MiB)
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "link").symlink_to(tmp_path / "apart")
    seen = Grown(Moment())
    seen.look([str(mine)], enough=lambda _: False)
    assert seen.files == 1
    assert seen.size < MiB


def test_a_new_folder_nobody_can_look_into_counts(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    for _ in range(20):  # together longer than any path may be
        os.mkdir("d" * 250, dir_fd=folder)
        inner = os.open("d" * 250, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    try:
        seen = Grown(Moment())
        seen.look([str(tmp_path)], enough=lambda _: False)
        assert seen.hidden
    finally:
        shutil.rmtree(tmp_path)


def test_a_new_folder_deeper_than_anyone_goes_is_not_gone_through_and_counts(tmp_path: Path) -> None:
    deep = tmp_path
    for _ in range(grown.DEEPEST + 2):
        deep /= "d"
    deep.mkdir(parents=True)
    seen = Grown(Moment())
    seen.look([str(tmp_path)], enough=lambda _: False)
    assert seen.hidden


def test_a_process_that_has_ended_hides_nothing_from_an_ordinary_user() -> None:
    said = run_as_user(
        "import os, time\nfrom metier.sandbox.grown import Grown, Moment\n"
        "pid = os.fork()\nif pid == 0: os._exit(0)\n"
        "os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)\n"
        "try: os.listdir(f'/proc/{pid}/fd')\nexcept PermissionError: print('not allowed')\n"
        "seen = Grown(Moment())\nseen.look_at_unnamed([pid])\nprint(seen.hidden)"
    )
    assert said.split("\n") == ["not allowed", "False", ""]


@pytest.mark.parametrize(("seconds", "hidden"), [(0.2, "False"), (5.0, "True")])
def test_who_cannot_be_looked_into_for_a_moment_hides_nothing_and_who_stays_so_does(
    seconds: float, hidden: str
) -> None:
    said = run_as_user(
        "import ctypes, os, signal, time\nfrom metier.sandbox.grown import Grown, Moment\n"
        "reads, writes = os.pipe()\npid = os.fork()\n"
        "if pid == 0:\n"
        "    ctypes.CDLL(None).prctl(4, 0)\n"  # it is not dumpable: nobody looks into it
        "    os.write(writes, b'.')\n"
        f"    time.sleep({seconds})\n"
        "    os.execv('/usr/bin/sleep', ['sleep', '20'])\n"
        "os.read(reads, 1)\n"
        "try: os.listdir(f'/proc/{pid}/fd')\nexcept PermissionError: print('not allowed')\n"
        "seen = Grown(Moment())\nseen.look_at_unnamed([pid])\nprint(seen.hidden)\nos.kill(pid, signal.SIGKILL)"
    )
    assert said.split("\n") == ["not allowed", hidden, ""]


def test_what_a_thread_holds_whose_process_seems_to_have_ended_is_counted(tmp_path: Path) -> None:
    script = (
        "import ctypes, os, sys, threading, time\n"
        "def hold():\n"
        "    file = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR); os.unlink(sys.argv[1])\n"
        "    os.write(file, bytes(8 << 20)); print('held', flush=True); time.sleep(60)\n"
        "threading.Thread(target=hold).start()\n"
        "ctypes.CDLL(None).syscall(60 if os.uname().machine == 'x86_64' else 93, 0)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "file")], stdout=subprocess.PIPE
    ) as first:
        try:
            assert first.stdout is not None and first.stdout.readline() == b"held\n"
            while Path(f"/proc/{first.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                time.sleep(0.01)
            seen = Grown(Moment())
            seen.look_at_unnamed([first.pid])
            assert seen.size >= 8 * MiB
        finally:
            first.kill()


@contextmanager
def clock_set(monkeypatch: pytest.MonkeyPatch, seconds: int) -> Iterator[None]:
    """The clock as programs read it; files that are made keep the kernel's time."""
    real = time.time_ns
    with monkeypatch.context() as patched:
        patched.setattr(grown.time, "time_ns", lambda: real() + seconds * 1_000_000_000)
        yield


def test_res_26_files_made_after_the_clock_was_set_back_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with clock_set(monkeypatch, 3600):
        began = Moment()  # as if it had been set back since
    control = time.time_ns() + 3600 * 1_000_000_000
    file = write(tmp_path / "file", MiB)
    assert file.stat().st_ctime_ns < control, "by the clock alone it is older than the run"
    seen = Grown(began)
    seen.look([str(tmp_path)], enough=lambda _: False)
    assert seen.files == 1


def test_res_26_a_clock_set_forward_does_not_hide_what_was_made_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = Moment()
    write(tmp_path / "file", MiB)
    with clock_set(monkeypatch, 3600):
        began.note()
        seen = Grown(began)
        seen.look([str(tmp_path)], enough=lambda _: False)
    assert seen.files == 1


def test_memory_is_watched_while_folders_are_gone_through(
    quiet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, leave = threading.Event(), threading.Event()

    def slowly(self: Grown, places: object, *, enough: Callable[[Grown], bool]) -> None:
        entered.set()
        while not enough(self) and not leave.wait(0.005):
            pass
        ended.set()

    ended = threading.Event()
    monkeypatch.setattr(Grown, "look", slowly)
    mine = quiet / "mine"
    mine.mkdir()

    def look() -> Look:
        return Look((), 1 << 40 if entered.is_set() else 0, 0)

    watch = bounded(mine, look=look, bytes_most=4 * MiB)
    write(mine / "file", 16 * MiB)
    try:
        assert until_over(watch, 10.0) == "out_of_memory"
        assert ended.wait(10.0), "nobody needs the rest, so it is not gone through"
    finally:
        leave.set()


def test_a_run_that_has_ended_is_not_held_up_by_a_folder_without_end(
    quiet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def for_ever(self: Grown, places: object, *, enough: Callable[[Grown], bool]) -> None:
        while not enough(self):
            time.sleep(0.005)

    monkeypatch.setattr(Grown, "look", for_ever)
    monkeypatch.setattr(bounds, "LAST_LOOK_SECONDS", 0.1)
    watch = bounded(quiet, bytes_most=4 * MiB)
    write(quiet / "file", 16 * MiB)
    began = time.monotonic()
    assert not was_over(watch)
    assert time.monotonic() - began < 10


# --- The processes ----------------------------------------------------------------------------------------------------

HOLD = """
import ctypes, mmap, os, sys, threading, time
libc = ctypes.CDLL(None)
def say(): os.write(1, b"x")
def hold(size):
    held = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    held.write(bytes([1]) * size)
    return held
"""


@contextmanager
def holding(source: str) -> Iterator[int]:
    """A process that has done what `source` says, up to where it says so."""
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", HOLD + source], stdout=subprocess.PIPE, stdin=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        try:
            assert child.stdout.read(1) == b"x"
            yield child.pid
        finally:
            child.kill()


WAIT = "say()\nsys.stdin.read()"


@pytest.mark.parametrize("name", ["RssAnon: 0", "RssAnon: x", "VmHWM: 0", "a\nRssAnon: 0", ") R 1 1"])
def test_a_process_cannot_call_itself_small(name: str) -> None:
    with holding(f"held = hold(64 << 20); libc.prctl(15, {name.encode()!r}, 0, 0, 0)\n" + WAIT) as pid:
        called = Path(f"/proc/{pid}/status").read_bytes().split(b"\n")[0]
        assert name.encode().split(b"\n")[-1].split(b":")[0] in called, "the name is really in there"
        seen = process.tree(pid, ours=0)
    assert 64 * MiB <= seen.resident < 128 * MiB
    assert 64 * MiB <= seen.largest < 256 * MiB
    assert 0 <= seen.written < process.UNKNOWN


def test_a_process_whose_first_thread_has_ended_still_counts() -> None:
    source = (
        "def go():\n"
        "    while ') Z' not in open(f'/proc/{os.getpid()}/stat').read(): time.sleep(0.005)\n"
        "    global held; held = hold(64 << 20); say(); sys.stdin.read()\n"
        "threading.Thread(target=go).start()\nlibc.syscall(60, 0)"
    )
    with holding(source) as pid:
        assert b"RssAnon" not in Path(f"/proc/{pid}/status").read_bytes(), "the process itself does not tell"
        assert process.tree(pid, ours=0).resident >= 64 * MiB


def test_page_tables_count_as_memory() -> None:
    source = (
        "held = mmap.mmap(-1, 1 << 36, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, mmap.PROT_READ)\n"
        "for at in range(0, 1 << 35, 1 << 21): held[at]\n"
    )
    with holding(WAIT) as pid:
        little = process.tree(pid, ours=0).resident
    with holding(source + WAIT) as pid:
        much = process.tree(pid, ours=0).resident
    assert much - little >= 48 * MiB, "16,384 tables of four kilobytes"


def test_a_process_that_has_ended_holds_nothing() -> None:
    with holding(
        "child = os.fork()\nif child == 0: held = hold(64 << 20); os._exit(0)\n"
        "os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)\n" + WAIT
    ) as pid:
        [child] = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        assert b"zombie" in Path(f"/proc/{child}/status").read_bytes()
        assert process.tree(int(child), ours=0).resident == 0
    assert process.tree(pid, ours=0) == process.Tree(0.0, 0, 0, 0, ())


def test_who_is_on_the_way_to_become_the_program_has_the_memory_of_the_one_who_starts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run was ended for what its supervisor holds: until it is the program, a child has all of that."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    source = (
        "held = hold(64 << 20)\n"
        f"at = [(os.POSIX_SPAWN_OPEN, 9, {str(gate)!r}, os.O_RDONLY, 0)]\n"  # waits there for whoever writes
        "say(); os.posix_spawn('/bin/sleep', ['sleep', '60'], {}, file_actions=at); sys.stdin.read()"
    )
    with holding(source) as pid:
        child = _first_child(pid)
        assert process.tree(pid, ours=1).resident == 0
        with monkeypatch.context() as without:
            without.setattr(process, "one_memory", lambda _pid, _other: False)
            assert process.tree(pid, ours=1).resident >= 64 * MiB
        with open(gate, "wb"):
            deadline = time.monotonic() + 20
            while Path(f"/proc/{child}/cmdline").read_bytes() != b"sleep\x0060\x00":
                assert time.monotonic() < deadline
            program = process.tree(pid, ours=1)
        assert program.processes == (child,)
        assert 0 < program.resident < 16 * MiB, "from then on it counts for what it is"
        os.kill(child, 9)


def _first_child(pid: int) -> int:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        for task in os.listdir(f"/proc/{pid}/task"):
            if found := Path(f"/proc/{pid}/task/{task}/children").read_text().split():
                return int(found[0])
    raise AssertionError("it has no child")


def test_numbers_that_cannot_be_read_are_more_than_anything_may_have() -> None:
    for text in (b"", b"\nRssAnon:", b"\nRssAnon:\tmuch kB\n", b"Name:\tRssAnon: 0\n"):
        assert process._number(text, b"\nRssAnon:") == process.UNKNOWN
    assert process._number(b"Name:\tRssAnon: 0\nRssAnon:\t  12 kB\n", b"\nRssAnon:") == 12


def test_who_holds_more_than_he_may_is_out_of_memory(tmp_path: Path) -> None:
    policy = Policy(memory_mb=64)

    def over(resident: int) -> str:
        return until_over(Bounds(policy, Fixed(lambda: Look((), resident, 0))), 0.2)

    assert over(64 * MiB) == ""
    assert over(65 * MiB) == "out_of_memory"
    assert over(process.UNKNOWN) == "out_of_memory"
