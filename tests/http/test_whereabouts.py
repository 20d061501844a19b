"""Where a server of a state is found: the one that serves, for as long as it does, and nowhere that somebody else wrote down."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from metier.doors.http.whereabouts import FILE, Whereabouts, decide_at, whereabouts

ONE, TWO = "http://127.0.0.1:1001", "http://127.0.0.1:1002"


def test_of_several_servers_the_first_is_found_and_after_it_the_next(tmp_path: Path) -> None:
    home = str(tmp_path)
    assert whereabouts(home) == ""
    first, second = Whereabouts(home, ONE), Whereabouts(home, TWO)
    try:
        assert (first.said, second.said) == (True, False)
        assert whereabouts(home) == ONE
        second.say()
        first.say()
        assert whereabouts(home) == ONE, "it stays the one that is found"
        first.take_back()
        assert whereabouts(home) == ""
        second.say()
        assert (second.said, whereabouts(home)) == (True, TWO)
    finally:
        first.take_back()
        second.take_back()
    assert whereabouts(home) == ""


def test_who_took_it_back_does_not_say_it_again(tmp_path: Path) -> None:
    server = Whereabouts(str(tmp_path), ONE)
    server.take_back()
    server.take_back()
    server.say()
    assert not server.said
    assert whereabouts(str(tmp_path)) == ""


def test_an_address_that_nobody_serves_is_not_believed(tmp_path: Path) -> None:
    code = (
        "import os, sys\nfrom metier.doors.http.whereabouts import Whereabouts\n"
        f"assert Whereabouts(sys.argv[1], {ONE!r}).said\nos._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, timeout=50)
    assert (tmp_path / FILE).read_text() == ONE, "control: it was killed before it could take it back"
    assert whereabouts(str(tmp_path)) == ""
    assert decide_at(str(tmp_path), "apr_1") == ""
    server = Whereabouts(str(tmp_path), "http://h:1")
    try:
        assert whereabouts(str(tmp_path)) == "http://h:1", "nothing is left of a longer one"
    finally:
        server.take_back()


def test_who_only_looks_keeps_no_server_from_being_found(tmp_path: Path) -> None:
    server = Whereabouts(str(tmp_path), ONE)
    server.take_back()
    for _ in range(20):
        assert whereabouts(str(tmp_path)) == ""
    again = Whereabouts(str(tmp_path), TWO)
    try:
        assert again.said
    finally:
        again.take_back()


def test_no_link_is_followed_and_the_file_is_this_users_alone(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("mine", encoding="utf-8")
    (tmp_path / FILE).symlink_to(tmp_path / "elsewhere")
    server = Whereabouts(str(tmp_path), ONE)
    assert not server.said
    assert whereabouts(str(tmp_path)) == ""
    assert (tmp_path / "elsewhere").read_text(encoding="utf-8") == "mine"
    (tmp_path / FILE).unlink()
    old = os.umask(0)
    try:
        server.say()
    finally:
        os.umask(old)
        server.take_back()
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600


def test_a_program_that_the_server_starts_does_not_keep_it_found(tmp_path: Path) -> None:
    server = Whereabouts(str(tmp_path), ONE)
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, close_fds=False
    ) as child:
        server.take_back()
        other = Whereabouts(str(tmp_path), TWO)
        assert other.said
        other.take_back()
        assert child.stdin is not None
        child.stdin.close()


@pytest.mark.parametrize("written", [b"", b"\xff\xfe", b"x" * 5_000])
def test_what_stands_there_breaks_nobody(tmp_path: Path, written: bytes) -> None:
    server = Whereabouts(str(tmp_path), ONE)
    try:
        (tmp_path / FILE).write_bytes(written)
        assert len(whereabouts(str(tmp_path))) <= 400
    finally:
        server.take_back()


def test_a_request_has_its_page_on_the_server_that_is_found(tmp_path: Path) -> None:
    server = Whereabouts(str(tmp_path), ONE)
    try:
        found = decide_at(str(tmp_path), "apr_1")
    finally:
        server.take_back()
    assert found.startswith(f"{ONE}/")
    assert found.endswith("apr_1")
