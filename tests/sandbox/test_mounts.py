"""Which folder goes where: no mount point ever lies in a folder that came from outside."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from jobs import place
from metier.model.job import Place
from metier.sandbox import bwrap_line
from metier.sandbox.mounts import PIECES, Holding
from metier.sandbox.wall import WallError


def flatten(places: Sequence[Place]) -> tuple[Place, ...]:
    """The places as they are mounted, with what is held for each checked."""
    with Holding(places) as held:
        for each in held:
            there, kept = os.stat(each.place.path), os.fstat(each.descriptor)
            assert (there.st_dev, there.st_ino) == (kept.st_dev, kept.st_ino)
        return tuple(each.place for each in held)


def test_places_side_by_side_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    places = (place(tmp_path / "a"), place(tmp_path / "b", writable=True))
    assert flatten(places) == places


def test_a_read_grant_inside_a_write_grant_adds_nothing(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    outer = place(tmp_path, writable=True)
    assert flatten((outer, place(tmp_path / "in"))) == (outer,)


def test_the_same_place_granted_twice_is_given_once_with_both_rights(tmp_path: Path) -> None:
    assert flatten((place(tmp_path), place(tmp_path, writable=True))) == (place(tmp_path, writable=True),)


def test_a_write_grant_inside_a_read_grant_is_given_around_it_piece_by_piece(tmp_path: Path) -> None:
    (tmp_path / "out" / "deep").mkdir(parents=True)
    (tmp_path / "notes").write_text("n")
    (tmp_path / "more").mkdir()
    (tmp_path / "link").symlink_to("/etc")
    inner = place(tmp_path / "out" / "deep", writable=True)
    (tmp_path / "out" / "beside").write_text("b")
    found = flatten((place(tmp_path), inner))
    top = os.path.realpath(tmp_path)
    assert {each.path: each.writable for each in found} == {
        f"{top}/notes": False,
        f"{top}/more": False,
        f"{top}/out/beside": False,
        f"{top}/out/deep": True,
    }
    for each in found:
        others = [other.path for other in found if other is not each]
        assert not any(each.path.startswith(other + "/") for other in others), "one lies below another"


def test_a_folder_with_too_many_entries_is_refused_in_pieces_and_taken_whole(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    for number in range(PIECES + 1):
        (tmp_path / f"f{number}").touch()
    assert flatten((place(tmp_path),)) == (place(tmp_path),)
    with pytest.raises(WallError, match="too many entries"):
        flatten((place(tmp_path), place(tmp_path / "out", writable=True)))


def test_no_link_is_followed_on_the_way_to_a_place(tmp_path: Path) -> None:
    (tmp_path / "real" / "in").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    assert os.stat(tmp_path / "link" / "in")  # by name it is there
    with pytest.raises(WallError, match="cannot be opened"):
        flatten((Place(path=f"{os.path.realpath(tmp_path)}/link/in"),))


def test_descriptors_are_closed_also_when_a_place_is_refused(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for path in ("/nonexistent", "/etc/localtime/x"):
        with pytest.raises(WallError):
            Holding((place(tmp_path), Place(path=path)))
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    "path", ["/", "/proc", "/proc/1", "/dev/shm", "/sys", "relative", "/a/../b", "/a/", "/a//b"]
)
def test_what_no_run_can_have_is_refused(path: str) -> None:
    with pytest.raises(WallError):
        flatten((Place(path=path),))


def test_the_machines_own_programs_cannot_be_granted_for_writing() -> None:
    with pytest.raises(WallError, match="belongs to the machine"):
        flatten((Place(path="/usr/bin", writable=True),))


def test_the_temporary_folder_never_lies_above_a_granted_one() -> None:
    assert bwrap_line.temporary_for((Place(path="/home/u"),)) == "/tmp"
    assert bwrap_line.temporary_for((Place(path="/tmp/x"),)) == "/var/tmp"
    assert bwrap_line.temporary_for((Place(path="/tmp/x"), Place(path="/var/tmp"))) == "/run/tmp"
    with pytest.raises(WallError):
        bwrap_line.temporary_for(tuple(Place(path=path) for path in bwrap_line.TEMPORARY))


def test_the_options_are_exactly_these(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bwrap_line, "_machine", lambda _network, _alone: ("--ro-bind", "/usr", "/usr"))
    words = bwrap_line.options(
        places=[(Place(path="/w", writable=True), 7), (Place(path="/r"), 8)],
        temporary="/tmp",
        temporary_bytes=1024,
        environment={"A": "--bind"},
        cwd="/w",
        extra=["--seccomp", "9"],
    )
    assert words == [
        "--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts",
        "--unshare-cgroup-try", "--uid", "1000", "--gid", "1000", "--hostname", "sandbox",
        "--cap-drop", "ALL", "--die-with-parent", "--new-session", "--clearenv", "--seccomp", "9",
        "--setenv", "A", "--bind", "--ro-bind", "/usr", "/usr", "--proc", "/proc",
        "--dev-bind", "/dev/null", "/dev/null", "--dev-bind", "/dev/urandom", "/dev/urandom",
        "--symlink", "urandom", "/dev/random",
        "--symlink", "/proc/self/fd/0", "/dev/stdin", "--symlink", "/proc/self/fd/1", "/dev/stdout",
        "--symlink", "/proc/self/fd/2", "/dev/stderr", "--symlink", "/proc/self/fd", "/dev/fd",
        "--symlink", "/tmp", "/dev/shm",
        "--size", "1024", "--perms", "0700", "--tmpfs", "/tmp", "--perms", "0700", "--dir", "/tmp/out",
        "--bind-fd", "7", "/w", "--ro-bind-fd", "8", "/r", "--remount-ro", "/", "--chdir", "/w",
    ]  # fmt: skip


def test_bubblewrap_is_taken_only_from_where_root_alone_can_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bwrap_line, "WHERE", (str(fake), "bwrap"))
    tmp_path.chmod(0o777)
    assert bwrap_line.find() is None
