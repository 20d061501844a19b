"""What the operator gives to a program, as real things of this machine, or why it cannot be given."""

import os
import stat
from pathlib import Path
from typing import Any

import anyio
import pytest

from metier.model.ground import Ground
from metier.model.job import Place, ProgramGrant
from metier.model.program import OperatorProgram
from metier.sandbox.egress import Egress
from metier.sandbox.job_operator_programs import granted_programs
from metier.sandbox.job_places import NoPlace
from metier.sandbox.kept import around, surroundings
from metier.sandbox.reply import Failed, Violation


@pytest.fixture
def top(tmp_path: Path) -> Path:
    real = Path(os.path.realpath(tmp_path))
    (real / "state").mkdir(mode=0o700)
    return real


def given(top: Path, environ: dict[str, str] | None = None, **more: Any) -> ProgramGrant | NoPlace:
    program = OperatorProgram(**{"file": "/usr/bin/true", **more})
    ground = Ground(
        state=str(top / "state"), workspace=str(top / "state/workspace"), programs={"tool": program}
    )
    found = granted_programs(["tool", "other"], ground, environ or {})
    if isinstance(found, NoPlace):
        return found
    assert found.keys() <= {"tool"}, "nothing that he did not name"
    return found.get("tool", ProgramGrant(file=""))


def granted(top: Path, *args: Any, **more: Any) -> ProgramGrant:
    found = given(top, *args, **more)
    assert isinstance(found, ProgramGrant), found
    return found


def test_a_folder_of_the_workspace_is_made_for_the_program_that_writes_there(top: Path) -> None:
    found = granted(top, writes=frozenset({"{workspace}/calendar/mine"}))
    folder = top / "state/workspace/calendar/mine"
    status = folder.stat()
    assert stat.S_IMODE(status.st_mode) == 0o700
    assert found.places == (
        Place(path=str(folder), writable=True, device=status.st_dev, inode=status.st_ino),
    )


def test_a_link_in_the_place_of_that_folder_is_not_followed(top: Path) -> None:
    elsewhere = top / "elsewhere"
    elsewhere.mkdir()
    workspace = top / "state/workspace"
    workspace.mkdir(mode=0o700)
    (workspace / "calendar").symlink_to(elsewhere)
    found = given(top, writes=frozenset({"{workspace}/calendar"}))
    assert isinstance(found, NoPlace)
    assert "a link leads" in found.reason
    (workspace / "calendar").unlink()
    assert granted(top, writes=frozenset({"{workspace}/calendar"})).places, "without the link it is fine"


@pytest.mark.parametrize("reads", ["/proc", "{workspace}/..", "/dev"])
def test_what_no_run_may_read_is_not_given_to_a_program_either(top: Path, reads: str) -> None:
    reads = reads if reads != "{workspace}/.." else str(top / "state")
    assert isinstance(given(top, reads=frozenset({reads})), NoPlace)
    assert granted(top, reads=frozenset({"/usr/share"})).places


def test_variables_are_those_that_were_named_and_nothing_else_of_the_operators(top: Path) -> None:
    environ = {"TZ": "UTC", "TOKEN": "hunter22", "MODE": "theirs"}
    found = granted(
        top,
        environ,
        env=frozenset({"TZ", "NOT_SET"}),
        environment={"MODE": "fixed", "WHERE": "{workspace}/calendar"},
    )
    assert found.environment == {
        "TZ": "UTC",
        "MODE": "fixed",
        "WHERE": str(top / "state/workspace/calendar"),
    }


def test_the_time_zone_is_the_one_that_he_gives_it_and_no_other_variable_of_the_sandbox_is() -> None:
    ours = {**surroundings("/tmp/run"), "TZ": "UTC"}
    theirs = {"TZ": "Asia/Tokyo", "MODE": "fixed", **dict.fromkeys(ours.keys() - {"TZ"}, "theirs")}
    assert around(theirs, ours) == {**ours, "TZ": "Asia/Tokyo", "MODE": "fixed"}
    assert around({}, ours) == ours


def test_a_file_that_is_missing_or_that_others_can_change_is_no_program(top: Path) -> None:
    file = top / "tool"
    assert granted(top, file=str(file)).file == ""
    file.write_text("#!/bin/sh\n")
    assert granted(top, file=str(file)).file == "", "it cannot be run"
    file.chmod(0o755)
    assert granted(top, file=str(file)).file == str(file)
    link = top / "link"
    link.symlink_to(file)
    assert granted(top, file=str(link)).file == str(file), "the real file behind it"
    file.chmod(0o757)
    assert granted(top, file=str(file)).file == ""


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("dav.example.com", ""),
        ("http://127.0.0.1:5232", "http://127.0.0.1:5232"),
        ("http://localhost:5232", "http://localhost:5232"),
        ("192.168.1.20:8443", "https://192.168.1.20:8443"),
        ("[::1]:5232", "https://[::1]:5232"),
    ],
)
def test_a_service_of_the_operators_own_is_reached_as_exactly_that_one(
    top: Path, host: str, origin: str
) -> None:
    found = granted(top, hosts=frozenset({host}))
    assert (found.hosts, found.own_origin) == ({host}, origin)


@pytest.mark.parametrize(
    "hosts",
    [
        {"http://192.168.1.20"},
        {"169.254.169.254"},
        {"http://169.254.169.254"},
        {"metadata.google.internal"},
        {"http://127.0.0.1:5232", "dav.example.com"},
        {"http://127.0.0.1:5232", "http://127.0.0.1:5233"},
        {"dav.example.com/path"},
    ],
    ids=lambda each: " and ".join(sorted(each)),
)
def test_net_07_what_nobody_may_reach_is_refused_with_the_name_of_the_program(
    top: Path, hosts: set[str]
) -> None:
    found = given(top, hosts=frozenset(hosts))
    assert isinstance(found, NoPlace)
    assert found.code == "not_runnable"
    assert "'tool'" in found.reason


def test_a_tunnel_to_a_service_of_the_operators_own_goes_there_and_nowhere_else() -> None:
    async def reached(own: str, place: str) -> Any:
        async with Egress(hosts=frozenset(), own=own) as egress:
            return await egress.connect(place)

    gone = anyio.run(reached, "https://127.0.0.1:9", "127.0.0.1:9")
    assert isinstance(gone, Failed), "it was tried, and nobody listens there"
    assert gone.code == "connect_failed"
    for own, place in (
        ("https://127.0.0.1:9", "127.0.0.1:10"),
        ("https://127.0.0.1:9", "localhost:9"),
        ("http://127.0.0.1:9", "127.0.0.1:9"),
    ):
        assert isinstance(anyio.run(reached, own, place), Violation), (own, place)


def test_only_a_service_of_the_operators_own_is_asked_in_the_words_of_calendars() -> None:
    async def asked(egress: Egress, url: str) -> Any:
        async with egress:
            return await egress.request("PROPFIND", url)

    own = anyio.run(asked, Egress(hosts=frozenset(), own="http://127.0.0.1:9"), "http://127.0.0.1:9/")
    assert isinstance(own, Failed)
    assert own.code == "connect_failed"
    skills = anyio.run(asked, Egress(hosts=frozenset({"dav.example.com"})), "https://dav.example.com/")
    assert isinstance(skills, Failed)
    assert skills.code == "invalid_request"
