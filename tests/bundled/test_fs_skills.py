"""fs_read and fs_write as they ship: called by an agent, asked about, approved, and run in a real sandbox."""

import hashlib
import json
import os
import stat
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from core_desk import BUNDLED, DECIDER, Desk, code_of, value, why
from machine import approve_all
from metier.host.call_log import read_log
from metier.model.approval import StandingGrant
from metier.model.outcome import Completed, Failed, Outcome, Pending, Refused
from metier.record.deciding import decide
from metier.record.standing import proposed_grant

SECRET = "nobody's business"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no wall for Python code here")


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    made = Desk(tmp_path, monkeypatch)
    yield made
    made.close()


def test_the_skills_are_there_trusted_by_the_release_and_each_is_one_folder(desk: Desk) -> None:
    found = {skill.name: skill for skill in desk.runtime.skills}
    for name in ("fs_read", "fs_write", "shell_safe"):
        skill = found[name]
        assert (skill.status, skill.source, skill.dialect) == ("active", "bundled", "metahuman")
        assert skill.location == str(BUNDLED / name)
        listed = desk.runtime.catalog.get(name)
        assert listed is not None
        assert (listed.shown, listed.diagnostics) == ("usable", ())


@pytest.mark.parametrize("name", ["fs_read", "fs_write", "shell_safe"])
def test_code_and_manifest_name_the_same_folders(name: str) -> None:
    manifest = json.loads((BUNDLED / name / f"{name}.json").read_bytes())
    assert tuple(each.rstrip("/") for each in manifest["allowedDirectories"]) == code_of(name).FOLDERS


def test_a_workspace_is_made_when_something_in_it_is_granted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(tmp_path, monkeypatch)
    try:
        for each in desk.workspace.iterdir():
            each.rmdir()
        desk.workspace.rmdir()
        assert "not there" in why(desk.call("fs_read", path="docs/x.md"))
        names = {"memory", "persona", "logs", "out", "etc", "docs", "brain"}
        assert {each.name for each in desk.workspace.iterdir()} == names
        for folder in (desk.workspace, *desk.workspace.iterdir()):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    finally:
        desk.close()


def test_a_file_is_read_at_once_and_what_is_told_has_the_shape_of_the_document(desk: Desk) -> None:
    (desk.workspace / "memory" / "notes.md").write_text("tea\n")
    for path in ("memory/notes.md", str(desk.workspace / "memory" / "notes.md")):
        told = value(desk.call("fs_read", path=path))
        assert told.keys() == {"success", "content", "size", "modified"}
        assert (told["success"], told["content"], told["size"]) == (True, "tea\n", 4)


def test_a_file_is_written_when_somebody_agreed_and_not_before(desk: Desk) -> None:
    pending = desk.call("fs_write", path="out/a/report.md", content="done")
    assert isinstance(pending, Pending)
    place = desk.workspace / "out" / "a" / "report.md"
    assert not place.exists()
    assert desk.shown(pending).replaces == ""
    assert value(desk.approve(pending)) == {"success": True, "path": str(place), "size": 4}
    assert place.read_text() == "done"
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert (place.stat().st_uid, place.stat().st_nlink) == (os.getuid(), 1)


def test_an_existing_file_is_refused_without_the_word_and_stays(desk: Desk) -> None:
    place = desk.workspace / "out" / "x"
    place.write_text("old")
    assert "already" in why(desk.approved("fs_write", path="out/x", content="new"))
    assert place.read_text() == "old"


def test_who_is_asked_sees_what_is_replaced(desk: Desk) -> None:
    place = desk.workspace / "out" / "x"
    place.write_text("old")
    pending = desk.call("fs_write", path="out/x", content="new", overwrite=True)
    digest = hashlib.sha256(b"old").hexdigest()
    assert desk.shown(pending).replaces == f"replaces 'out/x': 3 bytes, sha256:{digest}"
    assert isinstance(pending, Pending)
    printed = desk.machine.metier("approvals", "show", pending.approval_id).stdout
    assert f"replaces 'out/x': 3 bytes, sha256:{digest}" in printed
    assert value(desk.approve(pending))["size"] == 3
    assert place.read_text() == "new"


@pytest.mark.parametrize("change", ["other bytes", "same length", "gone", "appeared", "a link"])
def test_a_file_that_changed_since_it_was_shown_voids_the_approval(desk: Desk, change: str) -> None:
    place = desk.workspace / "out" / "x"
    if change != "appeared":
        place.write_text("old")
    pending = desk.call("fs_write", path="out/x", content="new", overwrite=True)

    def meanwhile() -> None:
        if change == "other bytes":
            place.write_text("older")
        elif change in ("same length", "appeared"):
            place.write_text("OLD")
        else:
            place.unlink()
            if change == "a link":
                place.symlink_to("y")

    outcome = desk.approve(pending, meanwhile)
    assert isinstance(outcome, Refused), outcome
    assert outcome.code in ("approval_void", "invalid_arguments")
    assert (outcome.code == "approval_void") or change == "a link"
    assert not place.exists() or place.read_text() in ("older", "OLD")


def test_what_may_replace_a_file_is_asked_each_time_whatever_was_granted(desk: Desk) -> None:
    pending = desk.call("fs_write", path="out/x", content="new")
    assert isinstance(pending, Pending)
    grant = proposed_grant(
        desk.shown(pending), "always", approval=pending.approval_id, by=DECIDER.id, any_arguments=True
    )
    assert isinstance(grant, StandingGrant)
    with desk.database() as database:
        decide(database, pending.approval_id, by=DECIDER, decision="approve", scope="always", grant=grant)
    assert isinstance(desk.runtime.resume(pending.approval_id), Completed)
    assert isinstance(desk.call("fs_write", path="out/y", content="new"), Completed), (
        "nobody is asked any more"
    )
    assert isinstance(desk.call("fs_write", path="out/y", content="newer", overwrite=True), Pending)
    assert (desk.workspace / "out" / "y").read_text() == "new"


@pytest.mark.parametrize("path", ["out/x/", "out/x/.", "./out//x", "{}/out/x//./"])
def test_fs_17_another_spelling_shows_what_is_lost_and_binds_to_it_all_the_same(
    desk: Desk, path: str
) -> None:
    place = desk.workspace / "out" / "x"
    place.write_text("old")
    pending = desk.call("fs_write", path=path.format(desk.workspace), content="new", overwrite=True)
    digest = hashlib.sha256(b"old").hexdigest()
    assert desk.shown(pending).replaces == f"replaces 'out/x': 3 bytes, sha256:{digest}"
    outcome = desk.approve(pending, lambda: place.write_text("other"))
    assert isinstance(outcome, Refused), outcome
    assert (outcome.code, place.read_text()) == ("approval_void", "other")


def test_what_lies_below_a_file_cannot_be_asked_about(desk: Desk) -> None:
    (desk.workspace / "out" / "x").write_text("old")
    outcome = desk.call("fs_write", path="out/x/y", content="new", overwrite=True)
    assert isinstance(outcome, Refused)
    assert "no folder" in " ".join(outcome.reasons)


@pytest.mark.slow
def test_of_two_approvals_to_replace_one_file_exactly_one_is_carried_out(desk: Desk) -> None:
    place = desk.workspace / "out" / "x"
    for _round in range(3):
        place.write_text("old")
        asked = [desk.call("fs_write", path="out/x", content=each, overwrite=True) for each in ("a", "b")]
        ends: dict[str, Outcome] = {}
        with desk.database() as database:
            for each in asked:
                assert isinstance(each, Pending)
                decide(database, each.approval_id, by=DECIDER, decision="approve")
        barrier = threading.Barrier(2)

        def take_up(
            name: str, id: str, barrier: threading.Barrier = barrier, ends: dict[str, Outcome] = ends
        ) -> None:
            barrier.wait(10)
            ends[name] = desk.runtime.resume(id)

        ids = [each.approval_id for each in asked if isinstance(each, Pending)]
        threads = [threading.Thread(target=take_up, args=pair) for pair in zip("ab", ids, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        done = [name for name, end in ends.items() if isinstance(end, Completed)]
        assert [place.read_text()] == done, ends
        (other,) = (end for name, end in ends.items() if name not in done)
        # Whoever is late enough finds it when it is judged, the other when it writes.
        assert "changed since" in why(other) or "another file lies there" in why(other)


def test_a_folder_full_of_folders_is_written_to_like_any_other(desk: Desk) -> None:
    for number in range(2_001):
        (desk.workspace / "out" / f"call_{number}").mkdir()
    for path in ("out/x", "memory/x"):
        assert isinstance(desk.approved("fs_write", path=path, content="x"), Completed)


@pytest.mark.parametrize("name", [".git", "AGENTS.md", "sub/.git"])
def test_what_others_run_stops_writing_to_it_and_not_beside_it(desk: Desk, name: str) -> None:
    (desk.workspace / "memory" / name).mkdir(parents=True)
    for path in ("out/x", "memory/x", "memory/deep/x"):
        assert isinstance(desk.approved("fs_write", path=path, content="x"), Completed)
    outcome = desk.approved("fs_write", path=f"memory/{name}/x", content="x")
    assert isinstance(outcome, Refused)


def test_fs_25_a_repository_that_somebody_left_stops_writing_to_it_and_not_beside_it(desk: Desk) -> None:
    for name in ("objects", "refs"):
        (desk.workspace / "out" / "left" / name).mkdir(parents=True)
    (desk.workspace / "out" / "left" / "HEAD").write_text("ref: refs/heads/main")
    assert isinstance(desk.approved("fs_write", path="out/x", content="x"), Completed)
    assert isinstance(desk.approved("fs_write", path="out/left/x", content="x"), Refused)


def test_fs_25_code_that_is_not_ours_gets_no_folder_with_a_repository_in_it(desk: Desk) -> None:
    folder = desk.machine.skills / "jot"
    folder.mkdir(parents=True)
    for file in (BUNDLED / "fs_write").glob("fs_write.*"):
        text = file.read_text().replace('"id": "fs_write"', '"id": "jot"')
        (folder / file.name.replace("fs_write", "jot")).write_text(text)
    approve_all(desk.machine.skills)
    assert isinstance(desk.approved("jot", path="memory/x", content="x"), Completed)
    (desk.workspace / "memory" / ".git").mkdir()
    outcome = desk.approved("jot", path="memory/y", content="x")
    assert isinstance(outcome, Refused)
    assert outcome.code == "forbidden"


@pytest.mark.parametrize("last", ["HEAD", "objects/x", "refs/a/x", "commondir"])
def test_fs_25_whoever_completes_a_repository_meanwhile_takes_his_file_back(
    tmp_path: Path, last: str
) -> None:
    code = code_of("fs_write")
    (tmp_path / "out").mkdir()
    for name in ("HEAD", "objects/x", "refs/a/x"):
        if name != last and not (last == "commondir" and name == "refs/a/x"):
            code.write(str(tmp_path), ["out", "deep", *name.split("/")], b"x", overwrite=False, agreed={})
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(code.Refused, match="repository"):
        code.write(str(tmp_path), ["out", "deep", *last.split("/")], b"x", overwrite=False, agreed={})
    assert sorted(tmp_path.rglob("*")) == before
    code.write(str(tmp_path), ["out", "deep", "other"], b"x", overwrite=False, agreed={})


def test_fs_25_no_repository_is_made_of_a_folder_piece_by_piece(desk: Desk) -> None:
    for name in ("HEAD", "config", "objects/x"):
        assert isinstance(desk.approved("fs_write", path=f"out/repo/{name}", content="x"), Completed)
    outcome = desk.call("fs_write", path="out/repo/refs/x", content="x")
    assert isinstance(outcome, Refused)
    assert "git takes" in " ".join(outcome.reasons)
    assert isinstance(desk.approved("fs_write", path="out/other/refs/x", content="x"), Completed)


def test_a_home_that_is_reached_by_a_link_is_worked_in_by_either_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(tmp_path, monkeypatch)
    try:
        link = tmp_path / "link"
        link.symlink_to(desk.machine.home)
        monkeypatch.setenv("HOME", str(link))
        (desk.workspace / "docs" / "x").write_text("tea")
        known = link / desk.workspace.relative_to(desk.machine.home)
        for path in ("docs/x", str(known / "docs" / "x"), str(desk.workspace / "docs" / "x")):
            assert value(desk.call("fs_read", path=path))["content"] == "tea"
        assert isinstance(desk.approved("fs_write", path=str(known / "out" / "x"), content="x"), Completed)
        assert (desk.workspace / "out" / "x").read_text() == "x"
    finally:
        desk.close()


def test_fs_02_paths_outside_are_refused_before_anybody_is_asked(desk: Desk) -> None:
    for tool in ("fs_read", "fs_write"):
        for path in (
            "/etc/passwd",
            "../x",
            "memory/../../x",
            "brain/x",
            "/proc/self/environ",
            "~/x",
            "packages/x",
            "",
        ):
            more = {"content": "x"} if tool == "fs_write" else {}
            outcome = desk.call(tool, path=path, **more)
            assert isinstance(outcome, Refused), (tool, path)
            assert outcome.code == "invalid_arguments"


def test_fs_06_a_link_inside_the_workspace_leads_nowhere_in_the_sandbox_either(desk: Desk) -> None:
    (desk.workspace / "brain" / "x").write_text(SECRET)
    (desk.workspace / "memory" / "inner").symlink_to("../docs")
    (desk.workspace / "docs" / "x").write_text("mine")
    (desk.workspace / "memory" / "outer").symlink_to("../brain")
    assert "link" in why(desk.call("fs_read", path="memory/inner/x"))
    assert isinstance(desk.call("fs_read", path="memory/outer/x"), Refused)
    assert value(desk.call("fs_read", path="docs/x"))["content"] == "mine"


def test_fs_24_a_folder_that_became_a_link_to_code_is_not_granted(desk: Desk) -> None:
    (desk.workspace / "brain" / "x").write_text(SECRET)
    (desk.workspace / "logs").rmdir()
    (desk.workspace / "logs").symlink_to("brain")
    outcome = desk.call("fs_read", path="docs/x")
    assert isinstance(outcome, Refused)
    assert "link" in " ".join(outcome.reasons)


@pytest.mark.parametrize(
    "path", ["memory/.git/hooks/x", "out/SKILL_MANIFEST.json", "logs/.Claude/settings.json"]
)
def test_fs_25_a_protected_name_is_refused_before_anybody_is_asked(desk: Desk, path: str) -> None:
    outcome = desk.call("fs_write", path=path, content="x")
    assert isinstance(outcome, Refused)
    assert "run or believed" in " ".join(outcome.reasons)
    assert list((desk.workspace / path.split("/")[0]).iterdir()) == []


def test_fs_29_neither_mode_nor_owner_is_an_argument(desk: Desk) -> None:
    for name in ("mode", "owner", "times", "xattr", "append"):
        outcome = desk.call("fs_write", path="out/x", content="x", **{name: 0o4755})
        assert isinstance(outcome, Refused)
        assert outcome.code == "invalid_arguments"


@pytest.mark.parametrize("name", ["../x", "../../x", "", ".", "..", "a/b", "a\0b", "x" * 200, "-rf"])
def test_fs_34_an_id_that_becomes_a_file_name_is_held_to_a_grammar(desk: Desk, name: str) -> None:
    outcome = desk.call("fs_read", path="docs/x")
    assert isinstance(outcome, Failed)
    assert outcome.call_id.replace("_", "").isalnum()
    (desk.machine.state / "calls").mkdir(mode=0o700, exist_ok=True)
    for path in ("x.jsonl", "calls/good.jsonl"):
        planted = desk.machine.state / path
        planted.write_text('{"at": "", "source": "skill", "skill": "tea", "entry": {}}\n')
        planted.chmod(0o600)
    assert read_log(str(desk.machine.state), "good")
    assert read_log(str(desk.machine.state), name) is None
    assert (desk.machine.state / "calls" / "../x.jsonl").is_file(), (
        "whoever puts it into a path finds that file"
    )


def test_a_call_that_ends_badly_leaves_nothing_behind(desk: Desk) -> None:
    (desk.workspace / "out" / "x").mkdir()
    assert "regular file" in why(desk.approved("fs_write", path="out/x", content="y", overwrite=False))
    assert [each.name for each in (desk.workspace / "out").iterdir()] == ["x"]
    assert isinstance(desk.call("fs_read", path="out/x"), Failed)
    assert isinstance(desk.call("fs_read", path=7), Refused)
    (desk.workspace / "docs" / "x").write_text("y")
    assert isinstance(desk.call("fs_read", path="docs/x"), Completed)
