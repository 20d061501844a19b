"""Control groups: limits for many processes together. Those that need a real group are skipped where none can be made."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from metier.sandbox import cgroup
from metier.sandbox.cgroup import Group, Groups, Layout, find, layouts

MIB = 1 << 20
FOUND = find()
needs_groups = pytest.mark.skipif(
    FOUND is None, reason="no control group can be made here: needs root or delegation"
)


def within(seconds: float, so: Callable[[], bool]) -> bool:
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        if so():
            return True
        time.sleep(0.01)
    return so()


HERE = os.stat("/proc/self/ns/pid").st_ino


def left_behind() -> list[str]:
    """Folders of this process's groups, whatever hierarchy they are in."""
    with open("/proc/self/cgroup") as ours, open("/proc/self/mountinfo") as mounts:
        folders = {folder for layout in layouts(ours.read(), mounts.read()) for folder in layout.folders}
    mark = f"metier-{HERE}-{os.getpid()}-"
    return [entry for folder in folders for entry in os.listdir(folder) if entry.startswith(mark)]


@pytest.fixture
def groups() -> Groups:
    assert FOUND is not None
    return FOUND


@pytest.fixture
def group(groups: Groups) -> Iterator[Group]:
    made = groups.make("test", memory_bytes=64 * MIB, processes=8)
    yield made
    assert made.remove()
    assert left_behind() == []


def start(group: Group, code: str) -> "subprocess.Popen[str]":
    """Python code that begins only when it is in the group."""
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", f"import os, signal, sys\nsys.stdin.readline()\n{code}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    try:
        group.attach(process.pid)
        process.stdin.write("go\n")
        process.stdin.flush()
    except BaseException:
        process.kill()
        process.wait()
        raise
    return process


def output(process: "subprocess.Popen[str]") -> str:
    try:
        return process.communicate(timeout=30)[0]
    finally:
        process.kill()
        process.wait()


@needs_groups
def test_looking_for_a_place_leaves_nothing() -> None:
    assert find() is not None
    assert left_behind() == []


@needs_groups
def test_processes_that_together_need_too_much_memory_are_stopped(group: Group) -> None:
    code = """
for _ in range(4):
    if os.fork() == 0:
        held = bytearray(30 << 20)
        signal.pause()
ended = [os.waitstatus_to_exitcode(os.wait()[1])]
print(ended)
"""
    process = start(group, code)
    assert process.stdout is not None
    assert process.stdout.readline() == "[-9]\n"
    assert group.ran_out_of_memory()
    assert not group.ran_out_of_memory()
    group.kill()
    output(process)


@needs_groups
def test_the_same_memory_is_to_be_had_outside_a_group(groups: Groups) -> None:
    roomy = groups.make("roomy", memory_bytes=512 * MIB, processes=8)
    try:
        process = start(roomy, "held = [bytearray(30 << 20) for _ in range(4)]\nprint('held')")
        assert output(process) == "held\n"
        assert not roomy.ran_out_of_memory()
        assert 120 * MIB < roomy.peak_bytes() < 300 * MIB
    finally:
        assert roomy.remove()


@needs_groups
def test_the_peak_can_begin_anew(group: Group) -> None:
    assert output(start(group, "held = bytearray(40 << 20)\nprint('held')")) == "held\n"
    assert group.peak_bytes() > 40 * MIB
    group.reset_peak()
    assert group.peak_bytes() < 30 * MIB


@needs_groups
def test_processes_beyond_the_limit_cannot_be_started(group: Group) -> None:
    code = """
started = 0
try:
    for _ in range(20):
        if os.fork() == 0:
            signal.pause()
        started += 1
except BlockingIOError:
    pass
print(started, flush=True)
signal.pause()
"""
    process = start(group, code)
    assert process.stdout is not None
    assert process.stdout.readline() == "7\n"
    group.kill()
    output(process)


DAEMONS = """
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            print(os.getpid(), flush=True)
            while True:
                signal.pause()
        os._exit(0)
os.wait(), os.wait(), os.wait()
"""


def gone(pid: int) -> bool:
    """Not running any more; its parent may not have asked for it yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


@needs_groups
@pytest.mark.parametrize("at_once", [True, False])
def test_killing_a_group_ends_daemons_that_left_their_parents(groups: Groups, at_once: bool) -> None:
    layout = groups._layout
    if at_once and not layout.kill:
        pytest.skip("version 2 is not mounted, so there is no cgroup.kill")
    if not at_once and layout.unified:
        pytest.skip("in version 2 cgroup.kill is always there")
    place = groups if at_once else Groups(Layout(memory=layout.memory, pids=layout.pids, unified=False))
    group = place.make("daemons", memory_bytes=64 * MIB, processes=16)
    process = start(group, DAEMONS)
    try:
        assert process.stdout is not None
        pids = [int(process.stdout.readline()) for _ in range(3)]
        process.wait(timeout=30)
        assert not any(gone(pid) for pid in pids)
        group.kill()
        assert all(within(1, lambda pid=pid: gone(pid)) for pid in pids)
    finally:
        assert group.remove()
        output(process)
    assert left_behind() == []


@needs_groups
def test_a_fork_bomb_is_killed_without_cgroup_kill(groups: Groups) -> None:
    layout = groups._layout
    if layout.unified:
        pytest.skip("in version 2 cgroup.kill is always there")
    place = Groups(Layout(memory=layout.memory, pids=layout.pids, unified=False))
    group = place.make("bomb", memory_bytes=128 * MIB, processes=24)
    code = """
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print("begun", flush=True)
while True:
    try:
        if os.fork() == 0 and os.getpid() % 3 == 0:
            os._exit(0)
    except OSError:
        pass
"""
    process = start(group, code)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        assert within(
            10, lambda: len(cgroup._listed([f"{layout.pids}/{name}" for name in left_behind()])) > 10
        )
    finally:
        assert group.remove()
        output(process)
    assert left_behind() == []


@needs_groups
def test_removing_a_group_twice_is_no_error(groups: Groups) -> None:
    group = groups.make("twice", memory_bytes=64 * MIB, processes=4)
    assert group.remove()
    assert group.remove()


@needs_groups
def test_a_process_that_is_gone_cannot_be_attached(group: Group) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    with pytest.raises(ProcessLookupError):
        group.attach(process.pid)


@needs_groups
def test_a_sweep_removes_what_the_dead_left_and_nothing_else(groups: Groups) -> None:
    code = """
from metier.sandbox.cgroup import find
groups = find()
made = groups.make("left", memory_bytes=1 << 24, processes=4)
import os
os._exit(0)
"""
    dead = subprocess.run(
        [sys.executable, "-c", code], check=True, timeout=30, capture_output=True, text=True
    )
    assert dead.stderr == ""
    living = groups.make("living", memory_bytes=64 * MIB, processes=4)
    try:
        assert groups.sweep() >= len(groups._layout.folders)
        assert groups.sweep() == 0
        assert len(left_behind()) == len(groups._layout.folders)
    finally:
        assert living.remove()


@needs_groups
def test_a_namesake_of_a_dead_owner_does_not_keep_its_group(groups: Groups) -> None:
    folder = groups._layout.pids
    stale = f"{folder}/metier-{HERE}-{os.getpid()}-1-stale"
    os.mkdir(stale)
    groups.sweep()
    assert not os.path.exists(stale)


@needs_groups
def test_a_sweep_leaves_a_group_in_which_somebody_lives(groups: Groups) -> None:
    stale = f"{groups._layout.pids}/metier-{HERE}-{os.getpid()}-1-inhabited"
    os.mkdir(stale)
    process = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    try:
        Path(f"{stale}/cgroup.procs").write_text(str(process.pid))
        groups.sweep()
        assert os.path.exists(stale)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert within(2, lambda: groups.sweep() >= 0 and not os.path.exists(stale))


@needs_groups
@pytest.mark.parametrize(("age", "stays"), [(0, True), (7_200, False)])
def test_a_sweep_leaves_the_new_groups_of_other_containers(
    groups: Groups, monkeypatch: pytest.MonkeyPatch, age: int, stays: bool
) -> None:
    theirs = f"{groups._layout.pids}/metier-{HERE + 1}-{os.getpid()}-1-theirs"
    os.mkdir(theirs)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + age)
    try:
        groups.sweep()
        assert os.path.exists(theirs) is stays
    finally:
        if os.path.exists(theirs):
            os.rmdir(theirs)


@needs_groups
@pytest.mark.parametrize("name", ["", "..", "a/b", "-a", "A b", "x" * 200])
def test_a_name_is_no_path(groups: Groups, name: str) -> None:
    with pytest.raises(ValueError, match="plain name"):
        groups.make(name, memory_bytes=MIB, processes=1)


@needs_groups
def test_a_group_that_cannot_be_made_whole_leaves_nothing(groups: Groups, tmp_path: Path) -> None:
    # The second hierarchy is a plain folder: making succeeds there, setting the limit does not.
    broken = Groups(Layout(memory=groups._layout.memory, pids=str(tmp_path), unified=False))
    with pytest.raises(OSError, match=r"pids\.max"):
        broken.make("broken", memory_bytes=MIB, processes=1)
    assert left_behind() == []
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_no_hierarchy_does_not_work(tmp_path: Path) -> None:
    for unified in (False, True):
        place = Layout(memory=str(tmp_path), pids=str(tmp_path), kill=str(tmp_path), unified=unified)
        assert not Groups(place).work()
    assert list(tmp_path.iterdir()) == []


HYBRID_MOUNTS = """\
33 31 0:30 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
34 31 0:31 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
35 31 0:32 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
36 31 0:33 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
UNIFIED_MOUNTS = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"


def test_the_older_kind_is_found_below_where_we_are() -> None:
    [first, *_] = layouts("4:memory:/a/b\n8:pids:/\n3:cpu,cpuacct:/\n0::/\n", HYBRID_MOUNTS)
    assert first == Layout(
        memory="/sys/fs/cgroup/memory/a/b",
        pids="/sys/fs/cgroup/pids",
        kill="/sys/fs/cgroup/unified",
        unified=False,
    )


def test_version_two_is_tried_below_us_and_beside_us_but_never_at_the_top() -> None:
    def places(path: str) -> list[tuple[str, bool]]:
        return [(each.memory, each.beside) for each in layouts(f"0::{path}\n", UNIFIED_MOUNTS)]

    top = "/sys/fs/cgroup"
    assert places("/") == [(top, False)]
    assert places("/one.slice") == [(f"{top}/one.slice", False)]
    assert places("/app.slice/x.service") == [
        (f"{top}/app.slice/x.service", False),
        (f"{top}/app.slice", True),
    ]


def test_a_part_of_the_hierarchy_mounted_alone_is_understood() -> None:
    mounts = "30 23 0:26 /pod/x /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
    assert layouts("0::/pod/x/inner/deep\n", mounts)[0].memory == "/sys/fs/cgroup/inner/deep"
    assert layouts("0::/elsewhere\n", mounts) == ()
    assert layouts("0::/../outside\n", UNIFIED_MOUNTS) == ()


def test_without_any_control_groups_there_is_no_place() -> None:
    assert layouts("", "") == ()
    assert layouts("0::/\n", "22 1 8:1 / / rw - ext4 /dev/root rw\n") == ()
