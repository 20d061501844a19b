"""One process of all that share a state is the host, and the lock goes with it."""

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from contextlib import closing
from fcntl import LOCK_NB, LOCK_SH, flock
from pathlib import Path

import pytest

from metier.errors import StateError
from metier.kernel.host_role import FILE, Holder, HostRole, holder

TAKES = """
import sys, time
from metier.kernel.host_role import HostRole
role = HostRole.try_take(sys.argv[1])
print("taken" if isinstance(role, HostRole) else f"held by {role.pid}", flush=True)
sys.stdin.read()
"""


def other(home: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", TAKES, str(home)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def said(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def ended(process: "subprocess.Popen[str]") -> None:
    process.communicate(timeout=30)


def taken(home: Path) -> HostRole:
    role = HostRole.try_take(str(home))
    assert isinstance(role, HostRole)
    return role


def test_rel_08_of_two_processes_one_is_the_host_and_the_other_is_told_which(tmp_path: Path) -> None:
    first = other(tmp_path)
    try:
        assert said(first) == "taken"
        second = other(tmp_path)
        assert said(second) == f"held by {first.pid}"
        ended(second)
        found = holder(str(tmp_path))
        assert found is not None
        assert (found.pid, time.time() - found.since < 600) == (first.pid, True)
    finally:
        ended(first)
    assert holder(str(tmp_path)) is None


def test_rel_08_a_host_that_was_killed_leaves_the_role_free(tmp_path: Path) -> None:
    first = other(tmp_path)
    assert said(first) == "taken"
    first.send_signal(signal.SIGKILL)
    ended(first)
    assert holder(str(tmp_path)) is None
    taken(tmp_path).release()


def test_rel_08_without_the_lock_a_written_name_would_keep_everybody_out(tmp_path: Path) -> None:
    """What the killed one wrote is still there; it is the lock that tells."""
    first = other(tmp_path)
    assert said(first) == "taken"
    first.kill()
    ended(first)
    assert str(first.pid) in (tmp_path / FILE).read_text(encoding="utf-8")
    assert isinstance(HostRole.try_take(str(tmp_path)), HostRole)


def test_the_role_is_not_had_twice_in_one_process(tmp_path: Path) -> None:
    role = taken(tmp_path)
    again = HostRole.try_take(str(tmp_path))
    assert isinstance(again, Holder)
    assert str(again) == f"process {os.getpid()}"
    role.release()
    role.release()
    taken(tmp_path).release()


def test_who_only_looks_keeps_nobody_from_taking_it(tmp_path: Path) -> None:
    taken(tmp_path).release()
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            holder(str(tmp_path))

    looking = [threading.Thread(target=look) for _ in range(3)]
    for each in looking:
        each.start()
    try:
        for _ in range(50):
            taken(tmp_path).release()
    finally:
        done.set()
        for each in looking:
            each.join()


def test_who_looks_at_the_same_time_as_another_is_not_told_that_there_is_a_host(tmp_path: Path) -> None:
    taken(tmp_path).release()
    with (tmp_path / FILE).open("rb") as other:
        flock(other, LOCK_SH | LOCK_NB)  # as another process has it while it looks
        assert holder(str(tmp_path)) is None
        assert isinstance(HostRole.try_take(str(tmp_path)), Holder), "control: that is a lock"
    role = taken(tmp_path)
    assert holder(str(tmp_path)) is not None
    role.release()


def test_the_lock_is_this_users_alone_and_no_link_is_followed(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        role = taken(tmp_path)
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
    role.release()
    (tmp_path / FILE).unlink()
    (tmp_path / "elsewhere").write_text("mine", encoding="utf-8")
    (tmp_path / FILE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateError, match="ordinary file"):
        HostRole.try_take(str(tmp_path))
    with pytest.raises(StateError):
        holder(str(tmp_path))
    assert (tmp_path / "elsewhere").read_text(encoding="utf-8") == "mine"


def test_a_lock_that_others_could_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE).touch()
    (tmp_path / FILE).chmod(0o666)
    with pytest.raises(StateError, match="others can write"):
        HostRole.try_take(str(tmp_path))
    (tmp_path / FILE).chmod(0o600)
    taken(tmp_path).release()


def test_what_is_written_into_the_lock_decides_nothing(tmp_path: Path) -> None:
    role = taken(tmp_path)
    for text in (b"", b"\xff\xfe", b'{"pid": "x"}', b"[" * 5000, b'{"pid": 1}'):
        with closing(os.fdopen(os.open(tmp_path / FILE, os.O_WRONLY | os.O_TRUNC), "wb")) as file:
            file.write(text)
        assert isinstance(HostRole.try_take(str(tmp_path)), Holder)
        assert isinstance(holder(str(tmp_path)), Holder)
    role.release()
    assert holder(str(tmp_path)) is None


def test_a_lock_whose_file_was_removed_is_noticed(tmp_path: Path) -> None:
    role = taken(tmp_path)
    assert role.in_place()
    (tmp_path / FILE).unlink()
    assert not role.in_place()
    second = taken(tmp_path)
    assert second.in_place()
    assert not role.in_place()
    second.release()
    role.release()
    assert not role.in_place()


def test_a_program_that_the_host_starts_does_not_inherit_the_role(tmp_path: Path) -> None:
    role = taken(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, close_fds=False
    ) as child:
        role.release()
        taken(tmp_path).release()
        assert child.stdin is not None
        child.stdin.close()
