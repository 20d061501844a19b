"""What the core skills stand on: how they are found, where the workspace lies, what `exec` gives back, what is replaced."""

import json
import os
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from approval_kit import TOOL, wanted
from machine import Machine
from metier.catalog.discover import Found, discover
from metier.config.settings import Root
from metier.dialects import metahuman
from metier.gate.around import around
from metier.gate.replaced import MOST_BYTES, may_replace, replaced, replaced_line
from metier.host.exec import Exec
from metier.model.call import ValidCall
from metier.model.digest import Json
from metier.model.entry import Command, PythonHandler
from metier.model.ground import Ground
from metier.model.guarantee import needed
from metier.model.job import Job, Place, Report
from metier.model.permission import PermissionSet
from metier.model.ports import Answered, NotAnswered
from metier.model.protected_names import protected_part
from metier.model.skill import Limits
from metier.sandbox.job_binaries import real_programs
from metier.sandbox.job_operator_programs import meant
from metier.sandbox.job_places import WORKSPACE_FOLDERS, make_workspace, places, told_workspace
from metier.sandbox.native_line import Line, line_of

MANIFEST: dict[str, Any] = {
    "id": "brew",
    "name": "Brew",
    "description": "Makes tea.",
    "category": "fs",
    "inputs": {},
    "outputs": {},
    "risk": "high",
    "cost": "cheap",
    "minTrustLevel": "supervised_auto",
    "requiresApproval": True,
}


# --- how a skill with a folder of its own is found


def found_in(folder: Path) -> list[Found]:
    root = Root(path=str(folder), kind="user", trusted=True)
    return [
        each for each in discover(root, {}, allowlist_required=False, searched=[]) if isinstance(each, Found)
    ]


def written(folder: Path, name: str = "brew") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps({**MANIFEST, "id": name}))
    (folder / f"{name}.py").write_text("def execute(inputs):\n    return {'success': True}\n")


def test_a_manifest_that_is_named_like_its_folder_has_it_for_itself(tmp_path: Path) -> None:
    written(tmp_path / "brew")
    (tmp_path / "brew" / "leaves.py").write_text("KIND = 'green'\n")
    [one] = found_in(tmp_path)
    assert (one.folder, one.manifest) == (str(tmp_path / "brew"), "brew.json")


def test_where_several_share_a_folder_each_is_its_own_files(tmp_path: Path) -> None:
    written(tmp_path / "brew")
    written(tmp_path / "brew", "pour")
    folders = {each.folder for each in found_in(tmp_path)}
    assert folders == {str(tmp_path / "brew" / "brew.json"), str(tmp_path / "brew" / "pour.json")}


def test_a_file_that_is_named_like_its_folder_and_is_something_else_makes_no_skill(tmp_path: Path) -> None:
    (tmp_path / "brew").mkdir()
    (tmp_path / "brew" / "brew.json").write_text("{}")
    (tmp_path / "brew" / "brew.py").write_text("")
    assert found_in(tmp_path) == []


# --- the workspace


def test_a_workspace_has_its_folders_and_what_is_there_is_left_alone(tmp_path: Path) -> None:
    place = tmp_path / "workspace"
    make_workspace(str(place))
    assert {each.name for each in place.iterdir()} == set(WORKSPACE_FOLDERS)
    (place / "docs").rmdir()
    (place / "docs").symlink_to(tmp_path)
    (place / "etc").chmod(0o750)
    make_workspace(str(place))
    assert (place / "docs").is_symlink()
    assert (place / "etc").stat().st_mode & 0o777 == 0o750


def test_a_workspace_that_is_reached_by_a_link_further_up_is_used_where_it_really_lies(
    tmp_path: Path,
) -> None:
    real = Path(os.path.realpath(tmp_path)) / "real"
    real.mkdir()
    (tmp_path / "way").symlink_to(real)
    ground = Ground(workspace=str(tmp_path / "way" / "workspace"))
    granted = PermissionSet(reads=frozenset({"{workspace}/docs"}))
    found = places(granted, ground, bundle="")
    assert isinstance(found, tuple)
    assert [place.path for place in found] == [str(real / "workspace" / "docs")]
    assert told_workspace(granted, ground) == {"workspace": str(real / "workspace")}


def test_only_who_was_granted_something_in_the_workspace_is_told_where_it_lies() -> None:
    ground = Ground(workspace="/somewhere")
    assert told_workspace(PermissionSet(reads=frozenset({"/srv", "{baseDir}"})), ground) == {}


# --- programs


def test_cmd_31_each_name_of_a_file_that_is_many_programs_is_a_program_of_its_own(tmp_path: Path) -> None:
    """Whoever was given one of them has not been given the others, by whatever path they ask."""
    machine = Machine(Path(os.path.realpath(tmp_path)))
    machine.program("busybox")
    for name in ("ls", "cat", "sh"):
        (machine.bin / name).symlink_to("busybox")
    found = real_programs(["ls", "cat"], str(machine.bin))
    assert found == dict.fromkeys(["cat", "ls"], str(machine.bin / "busybox"))
    for asked_for, started in (
        ("ls", "ls"),
        ("cat", "cat"),
        (f"{machine.bin}/ls", "ls"),
        (f"{machine.bin}/cat", "cat"),
        (f"{machine.bin}/sh", "cat"),
    ):
        entry = Command(argv=(asked_for,))
        job = Job(
            call_id="c",
            entry=entry,
            arguments={},
            binaries=found,
            permissions=PermissionSet(binaries=frozenset(found)),
            limits=Limits(),
            needs=needed(entry, network=False),
        )
        name = meant(asked_for, job)
        assert name == started
        line = line_of(replace(job, entry=Command(argv=(name, "x"))))
        assert isinstance(line, Line)
        assert (line.argv, line.called) == ((str(machine.bin / "busybox"), "x"), f"{machine.bin}/{started}")


# --- exec


def asked(
    params: dict[str, Json], report: Report, *granted: Path
) -> tuple[Answered | NotAnswered, list[Job]]:
    jobs: list[Job] = []
    entry = PythonHandler(path="x.py")
    job = Job(
        call_id="c",
        entry=entry,
        arguments={},
        places=tuple(Place(path=str(each)) for each in granted),
        binaries={"ls": "/usr/bin/ls"},
        permissions=PermissionSet(binaries=frozenset({"ls"})),
        limits=Limits(),
        needs=needed(entry, network=False),
    )

    async def run(nested: Job) -> Report:
        jobs.append(nested)
        return report

    return anyio.run(Exec(job, run).answer, params), jobs


DONE = Report(ending="returned", stdout="out", stderr="err", exit_code=0)


def test_all_of_an_end_is_given_to_who_asks_for_it() -> None:
    answer, _ = asked({"argv": ["ls"], "whole": True}, DONE)
    assert answer == Answered(value={"stdout": "out", "stderr": "err", "exit_code": 0, "truncated": False})
    failed = Report(ending="exited", stdout="some", stderr="no", exit_code=2)
    answer, _ = asked({"argv": ["ls"], "whole": True}, failed)
    assert answer == Answered(value={"stdout": "some", "stderr": "no", "exit_code": 2, "truncated": False})
    answer, _ = asked({"argv": ["ls"]}, failed)
    assert isinstance(answer, NotAnswered)


def test_what_did_not_come_to_its_own_end_is_an_error_also_then() -> None:
    for report in (
        Report(ending="timed_out"),
        Report(ending="signalled", signal=9),
        Report(ending="out_of_memory"),
    ):
        answer, _ = asked({"argv": ["ls"], "whole": True}, report)
        assert isinstance(answer, NotAnswered)


@pytest.mark.parametrize(
    "text", ["x" * 2_000_000, "\x01" * 1_000_000, "x" * 400_000 + "\x01" * 600_000, "😀" * 500_000]
)
def test_streams_that_are_too_long_are_cut_and_that_is_said(text: str) -> None:
    answer, _ = asked(
        {"argv": ["ls"], "whole": True}, Report(ending="returned", stdout=text, stderr=text, exit_code=0)
    )
    assert isinstance(answer, Answered)
    assert isinstance(answer.value, dict)
    assert answer.value["truncated"] is True
    assert len(json.dumps(answer.value, ensure_ascii=False).encode()) < 1_000_000
    assert len(str(answer.value["stdout"])) > 50_000


def test_a_program_starts_where_it_is_told_to_within_what_was_granted(tmp_path: Path) -> None:
    top = Path(os.path.realpath(tmp_path))
    (top / "mine" / "sub").mkdir(parents=True)
    (top / "other").mkdir()
    (top / "mine" / "link").symlink_to("sub")
    for folder in (top / "mine", top / "mine" / "sub"):
        answer, jobs = asked({"argv": ["ls"], "cwd": str(folder)}, DONE, top / "mine")
        assert isinstance(answer, Answered)
        assert jobs[0].cwd == str(folder)
        assert jobs[0].entry == Command(argv=("ls",))
    odd = ["other", "mine/link", "mine/none", "mine/../other", "mine/sub/..", ""]
    for path in (*(str(top / each) for each in odd), "mine", "", "/", f"{top}/mine\0"):
        answer, jobs = asked({"argv": ["ls"], "cwd": path}, DONE, top / "mine")
        assert isinstance(answer, NotAnswered), path
        assert (answer.name, jobs) == ("InvalidRequest", [])


@pytest.mark.parametrize(
    "params", [{"cwd": 7}, {"cwd": ["/"]}, {"whole": 1}, {"whole": "yes"}, {"env": {}}, {"shell": True}]
)
def test_other_words_are_refused(params: dict[str, Json]) -> None:
    answer, jobs = asked({"argv": ["ls"], **params}, DONE)
    assert isinstance(answer, NotAnswered)
    assert jobs == []


# --- what is replaced


def act(tmp_path: Path, **arguments: Json) -> ValidCall:
    tool = replace(
        TOOL,
        checks={"path": "isWriteAllowed"},
        permissions=PermissionSet(
            writes=frozenset({"{workspace}/out"}), reads=frozenset({"{workspace}/out"})
        ),
    )
    return wanted({"path": "out/x", **arguments}, tool=tool, cwd=None).valid


def test_only_the_very_word_for_it_replaces_something(tmp_path: Path) -> None:
    assert may_replace(act(tmp_path, overwrite=True))
    for other in (False, None, 1, "true", []):
        assert not may_replace(act(tmp_path, overwrite=other))
    assert not may_replace(act(tmp_path))


def test_what_is_lost_is_measured_and_said(tmp_path: Path) -> None:
    ground = Ground(workspace=str(tmp_path))
    (tmp_path / "out").mkdir()
    call = act(tmp_path, overwrite=True)
    assert replaced(call, ground) == {"path": None}
    assert replaced_line(call, {"path": None}) == ""
    (tmp_path / "out" / "x").write_text("old")
    found = replaced(call, ground)
    assert isinstance(found, dict)
    assert "3 bytes, sha256:" in replaced_line(call, found)
    before = around(call, lambda _names: {}, {}, ground)
    (tmp_path / "out" / "x").write_text("OLD")
    assert around(call, lambda _names: {}, {}, ground) != before
    assert replaced(act(tmp_path), ground) == {}


def test_what_cannot_be_measured_cannot_be_asked_about(tmp_path: Path) -> None:
    ground = Ground(workspace=str(tmp_path))
    (tmp_path / "out").mkdir()
    place, call = tmp_path / "out" / "x", act(tmp_path, overwrite=True)
    os.mkfifo(place)
    assert "regular file" in str(around(call, lambda _names: {}, {}, ground))
    place.unlink()
    place.symlink_to("/etc/passwd")
    assert "regular file" in str(around(call, lambda _names: {}, {}, ground))
    place.unlink()
    with place.open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    assert "too many" in str(around(call, lambda _names: {}, {}, ground))


def test_a_folder_of_the_workspace_that_is_named_is_that_folder_and_no_other(tmp_path: Path) -> None:
    ground = Ground(workspace=str(tmp_path))
    (tmp_path / "out" / "x").mkdir(parents=True)
    call = act(tmp_path)
    before = around(call, lambda _names: {}, {}, ground)
    assert around(call, lambda _names: {}, {}, ground) == before
    os.rename(tmp_path / "out" / "x", tmp_path / "out" / "y")
    (tmp_path / "out" / "x").mkdir()
    assert around(call, lambda _names: {}, {}, ground) != before


# --- names, and the folders of a shell skill


@pytest.mark.parametrize(
    "path", ["a/.git/x", ".GIT", "x/Skill.MD", "．git", "a/.git.", "a/.git ", "metier.toml"]
)
def test_a_protected_name_is_one_in_every_spelling(path: str) -> None:
    assert protected_part(path)
    assert not protected_part("a/git/x.md")


def test_the_folders_of_a_shell_skill_are_only_read() -> None:
    for category, writes in (("shell", set()), ("fs", {"{workspace}/docs"})):
        text = json.dumps({**MANIFEST, "category": category, "allowedDirectories": ["docs/"]}).encode()
        skill = metahuman.compile_skill(text, manifest="brew.json").skill
        assert skill is not None
        assert skill.tools[0].permissions.reads == {"{workspace}/docs"}
        assert skill.tools[0].permissions.writes == writes
