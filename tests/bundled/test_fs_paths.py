"""fs_read and fs_write reach what they may and nothing else, whatever a path looks like and whatever lies on its way.

The code is run here without the sandbox around it: what holds here holds by itself.
"""

import ctypes
import errno
import fcntl
import os
import socket
import stat
import threading
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from core_desk import Told, code_of
from metier.gate.named_checks import check_problem
from metier.model.ground import Ground
from metier.model.workspace import CODE, IDENTITY

READ, WRITE = code_of("fs_read"), code_of("fs_write")
SECRET = "nobody's business\n"
SIDES = pytest.mark.parametrize("act", ["read", "write", "overwrite"])


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    made = Path(os.path.realpath(tmp_path)) / "workspace"
    for name in (
        "memory",
        "persona",
        "logs",
        "out",
        "etc",
        "docs",
        "brain",
        "packages",
        "apps",
        "node_modules",
    ):
        (made / name).mkdir(parents=True)
    (made / "memory" / "notes.md").write_text("tea\n")
    (made.parent / "secret").write_text(SECRET)
    return made


def read(workspace: Path, path: object) -> dict[str, Any]:
    return READ.execute({"path": path}, Told(workspace))


def write(workspace: Path, path: object, content: str = "new", **more: Any) -> dict[str, Any]:
    return WRITE.execute({"path": path, "content": content, **more}, Told(workspace))


def refused(workspace: Path, act: str, path: object) -> str:
    """Why one of the two skills does nothing with a path."""
    before = listing(workspace.parent)
    if act == "read":
        answer = read(workspace, path)
    else:
        answer = write(workspace, path, "overwritten", overwrite=act == "overwrite")
    assert answer["success"] is False, answer
    assert listing(workspace.parent) == before
    assert (workspace.parent / "secret").read_text() == SECRET
    assert SECRET.strip() not in answer["error"]
    return answer["error"]


def listing(top: Path) -> list[tuple[str, int]]:
    return sorted((str(each), each.lstat().st_size) for each in top.rglob("*"))


def test_a_file_is_read_and_written_by_either_kind_of_path(workspace: Path) -> None:
    for path in ("memory/notes.md", str(workspace / "memory" / "notes.md")):
        answer = read(workspace, path)
        assert (answer["success"], answer["content"], answer["size"]) == (True, "tea\n", 4)
        assert answer["modified"].endswith("Z")
    for path in ("out/a/b.md", str(workspace / "out" / "c.md")):
        answer = write(workspace, path, "é")
        assert answer == {"success": True, "path": os.path.join(workspace, path), "size": 2}
        assert Path(answer["path"]).read_text() == "é"
        assert stat.S_IMODE(Path(answer["path"]).stat().st_mode) == 0o600
    assert stat.S_IMODE((workspace / "out" / "a").stat().st_mode) == 0o700


def test_an_existing_file_is_left_alone_without_the_word_for_it(workspace: Path) -> None:
    assert "already" in refused(workspace, "write", "memory/notes.md")
    assert write(workspace, "memory/notes.md", "x", overwrite=False)["success"] is False
    assert write(workspace, "memory/notes.md", "x", overwrite=True)["success"] is True
    assert (workspace / "memory" / "notes.md").read_text() == "x"
    assert write(workspace, "memory/other.md", "x", overwrite=True)["success"] is True


@pytest.mark.parametrize("folder", ["persona", "etc", "docs"])
def test_what_may_be_read_only_is_never_written(workspace: Path, folder: str) -> None:
    (workspace / folder / "x").write_text("I am")
    assert read(workspace, f"{folder}/x")["content"] == "I am"
    refused(workspace, "write", f"{folder}/y")
    refused(workspace, "overwrite", f"{folder}/x")


# --- out of the folders


@SIDES
@pytest.mark.parametrize("folder", ["memory", "persona", "logs", "out", "etc", "docs"])
def test_fs_01_no_dots_lead_out_of_any_folder(workspace: Path, folder: str, act: str) -> None:
    for path in (
        f"{folder}/../../secret",
        f"{workspace}/{folder}/../../secret",
        f"{folder}/./a/../../../secret",
    ):
        refused(workspace, act, path)
    assert (workspace / folder / "../../secret").read_text() == SECRET


@SIDES
def test_fs_02_a_path_from_the_root_lies_in_the_workspace_or_is_refused(workspace: Path, act: str) -> None:
    for path in (str(workspace.parent / "secret"), "/etc/passwd", "/", "//etc/passwd", str(workspace)):
        refused(workspace, act, path)
    assert (workspace.parent / "secret").read_text() == SECRET


@SIDES
def test_fs_03_a_folder_whose_name_begins_alike_is_another_folder(workspace: Path, act: str) -> None:
    (workspace / "memory-evil").mkdir()
    (workspace / "memory-evil" / "x").write_text(SECRET)
    beside = workspace.parent / "workspace-evil" / "memory"
    beside.mkdir(parents=True)
    (beside / "x").write_text(SECRET)
    for path in ("memory-evil/x", str(workspace / "memory-evil" / "x"), str(beside / "x")):
        refused(workspace, act, path)
    assert str(workspace / "memory-evil" / "x").startswith(str(workspace / "memory")), (
        "to compare texts is no check"
    )


# --- links


def test_fs_04_a_link_at_the_end_is_not_read_through(workspace: Path) -> None:
    link = workspace / "memory" / "link"
    for target in (workspace.parent / "secret", "../../secret", workspace / "memory" / "notes.md"):
        link.symlink_to(target)
        assert "link" in refused(workspace, "read", "memory/link")
        assert link.read_text(), "one that follows it reads it"
        link.unlink()


@pytest.mark.parametrize("act", ["write", "overwrite"])
def test_fs_05_a_link_at_the_end_is_not_written_through(workspace: Path, act: str) -> None:
    link = workspace / "memory" / "link"
    link.symlink_to(workspace.parent / "secret")
    refused(workspace, act, "memory/link")
    assert link.is_symlink()
    link.write_text("changed")
    assert (workspace.parent / "secret").read_text() == "changed", "one that follows it changes it"


@SIDES
def test_fs_06_a_folder_on_the_way_that_is_a_link_is_not_entered(workspace: Path, act: str) -> None:
    (workspace / "memory" / "up").symlink_to(workspace.parent)
    (workspace / "memory" / "deep").mkdir()
    (workspace / "memory" / "deep" / "up").symlink_to("../../..")
    for path in ("memory/up/secret", "memory/deep/up/secret", "memory/up/workspace/memory/notes.md"):
        assert "link" in refused(workspace, act, path)
    assert (workspace / "memory" / "up" / "secret").read_text() == SECRET


@SIDES
def test_fs_07_links_in_a_row_and_in_a_circle_are_refused(workspace: Path, act: str) -> None:
    memory = workspace / "memory"
    (memory / "a").symlink_to("b")
    (memory / "b").symlink_to("c")
    (memory / "c").symlink_to(workspace.parent / "secret")
    (memory / "round").symlink_to("about")
    (memory / "about").symlink_to("round")
    for path in ("memory/a", "memory/round", "memory/round/x"):
        refused(workspace, act, path)
    assert (memory / "a").read_text() == SECRET


@pytest.mark.parametrize("act", ["write", "overwrite"])
def test_fs_08_nothing_is_made_by_way_of_a_link_to_nothing(workspace: Path, act: str) -> None:
    outside = workspace.parent / "new"
    (workspace / "out" / "link").symlink_to(outside)
    (workspace / "out" / "folder").symlink_to(workspace.parent / "none")
    refused(workspace, act, "out/link")
    refused(workspace, act, "out/folder/x")
    assert not outside.exists()
    (workspace / "out" / "link").write_text("x")
    assert outside.exists(), "one that follows it makes it"


def exchange(one: bytes, other: bytes) -> int:
    """Each gets the other's name, in one step."""
    here, both = -100, 2
    return ctypes.CDLL(None).renameat2(here, one, here, other, both)


def swapping(workspace: Path, work: Callable[[], None]) -> None:
    """Do `work` while a folder is a real one and a link to the outside by turns."""
    (workspace.parent / "evil").mkdir()
    (workspace.parent / "evil" / "x").write_text(SECRET)
    place, link = workspace / "out" / "sub", workspace / "out" / "link"
    place.mkdir()
    (place / "x").write_text("mine")
    link.symlink_to(workspace.parent / "evil")
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            assert exchange(os.fsencode(place), os.fsencode(link)) == 0

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        work()
    finally:
        over.set()
        thread.join()


@pytest.mark.slow
def test_fs_09_a_folder_that_is_swapped_for_a_link_all_the_time_is_never_left(workspace: Path) -> None:
    ends: dict[str, int] = {}

    def work() -> None:
        for number in range(10_000):
            answer = read(workspace, "out/sub/x")
            end = str(answer.get("content", answer.get("error")))
            ends[end] = ends.get(end, 0) + 1
            if number % 20 == 0:
                write(workspace, "out/sub/x", "mine", overwrite=True)

    swapping(workspace, work)
    assert sum(ends.values()) == 10_000
    assert SECRET not in ends
    assert {"mine"} < set(ends), "it was met both ways"
    assert (workspace.parent / "evil" / "x").read_text() == SECRET
    assert [each.name for each in (workspace.parent / "evil").iterdir()] == ["x"]


def test_fs_09_one_that_looks_first_and_opens_by_name_later_is_led_out(workspace: Path) -> None:
    place = workspace / "out" / "sub"
    place.mkdir()
    (place / "secret").write_text("mine")
    assert os.path.realpath(place / "secret").startswith(str(workspace / "out"))
    os.rename(place, workspace / "out" / "other")
    place.symlink_to(workspace.parent)
    assert (place / "secret").read_text() == SECRET
    refused(workspace, "read", "out/sub/secret")


@pytest.mark.parametrize("with_what", ["link", "pipe"])
def test_fs_09_a_file_that_is_swapped_after_it_was_looked_at_is_not_read(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, with_what: str
) -> None:
    place, look = workspace / "out" / "x", READ.require_plain
    looks: list[os.stat_result] = []

    def swapped(status: os.stat_result) -> None:
        look(status)
        looks.append(status)
        if len(looks) == 1:
            place.unlink()
            place.symlink_to(workspace.parent / "secret") if with_what == "link" else os.mkfifo(place)

    place.write_text("mine")
    assert read(workspace, "out/x")["content"] == "mine"
    monkeypatch.setattr(READ, "require_plain", swapped)
    answer = read(workspace, "out/x")
    assert answer["success"] is False
    assert "link" in answer["error"] or "not a regular file" in answer["error"]
    if with_what == "link":
        assert place.read_text() == SECRET, "by its name it would have been"


def test_fs_10_the_unfinished_file_lies_in_the_folder_that_was_opened(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, evil = workspace / "out" / "sub", workspace.parent / "evil"
    place.mkdir()
    evil.mkdir()

    def swapped(_size: int) -> str:
        os.rename(place, workspace / "out" / "moved")
        place.symlink_to(evil)
        return "draft"

    monkeypatch.setattr(WRITE.secrets, "token_hex", swapped)
    assert write(workspace, "out/sub/x", "text")["success"] is True
    assert list(evil.iterdir()) == []
    assert [each.name for each in (workspace / "out" / "moved").iterdir()] == ["x"]
    (place / "x").write_text("text")
    assert [each.name for each in evil.iterdir()] == ["x"], "by name it would have gone there"


def test_fs_11_a_file_with_a_second_name_is_not_replaced(workspace: Path) -> None:
    name = workspace / "out" / "same"
    os.link(workspace.parent / "secret", name)
    assert "second name" in refused(workspace, "overwrite", "out/same")
    assert name.stat().st_nlink == 2
    name.write_text("changed")
    assert (workspace.parent / "secret").read_text() == "changed", (
        "written to in place it changes under both names"
    )


# --- what is no file of the workspace


@SIDES
@pytest.mark.parametrize(
    "path", ["/proc/self/root{}/secret", "/proc/1/root{}/secret", "/proc/self/cwd/../secret"]
)
def test_fs_12_the_names_of_proc_lead_nowhere(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, path: str, act: str
) -> None:
    monkeypatch.chdir(workspace)
    named = path.format(workspace.parent)
    refused(workspace, act, named)
    (workspace / "memory" / "link").symlink_to(named)
    refused(workspace, act, "memory/link")
    assert Path(named.replace("/1/", "/self/")).read_text() == SECRET


@SIDES
@pytest.mark.parametrize("path", ["/proc/self/environ", "/proc/self/fd/0", "/dev/fd/0", "/dev/stdin"])
def test_fs_13_what_the_process_itself_holds_cannot_be_had(workspace: Path, path: str, act: str) -> None:
    refused(workspace, act, path)
    (workspace / "out" / "link").symlink_to(path)
    refused(workspace, act, "out/link")
    assert os.path.lexists("/proc/self/environ")
    assert Path("/proc/self/environ").read_bytes()


@pytest.mark.parametrize("path", ["/proc/self/mem", "/proc/sys/kernel/core_pattern"])
def test_fs_14_neither_memory_nor_kernel_can_be_written(workspace: Path, path: str) -> None:
    for act in ("write", "overwrite"):
        refused(workspace, act, path)
        (workspace / "out" / "link").symlink_to(path)
        refused(workspace, act, "out/link")
        (workspace / "out" / "link").unlink()
    open("/proc/self/mem", "r+b").close()


@SIDES
@pytest.mark.parametrize("path", ["memory/ok\0../x", "\0", "memory/notes.md\0"])
def test_fs_15_a_nul_is_refused_before_anything_is_opened(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, path: str, act: str
) -> None:
    opened: list[object] = []
    real = os.open

    def noted(*given: Any, **more: Any) -> int:
        opened.append(given)
        return real(*given, **more)

    monkeypatch.setattr(os, "open", noted)
    run = READ if act == "read" else WRITE
    answer = run.execute({"path": path, "content": "", "overwrite": act == "overwrite"}, Told(workspace))
    assert (answer["success"], opened) == (False, [])
    assert read(workspace, "memory/notes.md")["success"] is True
    assert opened, "what is opened is noted"


@SIDES
@pytest.mark.parametrize(
    "path",
    [
        "memory/" + "x" * 256,
        "memory/" + "é" * 128,
        "memory/" + "x/" * 5000 + "y",
        "memory/" + "a/" * 100 + "y",
    ],
)
def test_fs_16_a_path_that_is_too_long_or_too_deep_is_an_answer(workspace: Path, path: str, act: str) -> None:
    assert "too long" in refused(workspace, act, path)
    longest = "out/" + "x" * 255
    assert write(workspace, longest)["success"] is True


def test_fs_17_dots_and_slashes_that_change_nothing_change_nothing(workspace: Path) -> None:
    (workspace / "memory" / "link").symlink_to("notes.md")
    (workspace / "memory" / "sub").mkdir()
    for path in (
        "memory//notes.md",
        "./memory/./notes.md",
        "memory/notes.md/",
        f"{workspace}//memory/notes.md/.",
    ):
        assert read(workspace, path)["content"] == "tea\n"
        refused(workspace, "write", path)
    for path in (
        "memory/link/",
        "memory//link",
        "./memory/link/.",
        "memory/sub/",
        "memory/sub/.",
        "memory/",
        "memory/.",
    ):
        for act in ("read", "write", "overwrite"):
            refused(workspace, act, path)
    refused(workspace, "read", "memory/sub/..")


@pytest.mark.parametrize(
    "path",
    [
        "memory\\..\\..\\secret",
        "C:\\secret",
        "\\\\host\\share",
        "\\??\\C:\\x",
        "memory/..\\..\\secret",
        "memory/C:x",
    ],
)
def test_fs_18_a_backslash_is_a_letter_like_any_other(workspace: Path, path: str) -> None:
    refused(workspace, "read", path)
    (workspace / "memory" / "a\\b").write_text("literal")
    assert read(workspace, "memory/a\\b")["content"] == "literal"
    assert write(workspace, "out/..\\x", "y")["path"].endswith("/out/..\\x")
    assert (workspace / "out" / "..\\x").read_text() == "y"


@SIDES
@pytest.mark.parametrize(
    "path",
    ["%2e%2e/secret", "memory/%2e%2e/%2e%2e/secret", "memory%2f..%2f..%2fsecret", "%252e%252e%252fsecret"],
)
def test_fs_19_what_is_encoded_is_never_decoded(workspace: Path, path: str, act: str) -> None:
    if act == "read" or not path.startswith("memory/"):
        refused(workspace, act, path)
    (workspace / "memory" / "%2e%2e").write_text("literal")
    assert read(workspace, "memory/%2e%2e")["content"] == "literal"
    assert ".." in unquote(unquote(path)), "decoded it would lead out"


def test_fs_19_overlong_bytes_are_no_dots(workspace: Path) -> None:
    path = b"memory/\xc0\xae\xc0\xae/secret".decode("utf-8", "surrogateescape")
    refused(workspace, "read", path)
    refused(workspace, "write", path)


def protects(path: str, workspace: Path) -> str:
    """What the named check of fs_write says of a path."""
    from metier.dialects.manifest import compile_manifest

    folder = Path(WRITE.__file__ or "").parent
    data = (folder / "fs_write.json").read_bytes()
    found = compile_manifest(
        data, folder="fs_write", manifest="fs_write.json", files=lambda: {"fs_write.py", "fs_write.json"}
    )
    assert found.skill is not None
    return check_problem(found.skill.tools[0], {"path": path}, Ground(workspace=str(workspace)))


@pytest.mark.parametrize(
    "path",
    [
        "．．／secret",
        "memory／..／..／secret",
        "memory∕..∕secret",
        "ｂｒａｉｎ/x",
        "bra\u0069\u0307n/x",
        "ｍｅｍｏｒｙ/notes.md",
    ],
)
def test_fs_20_another_form_of_a_name_is_not_that_name(workspace: Path, path: str) -> None:
    for act in ("read", "write", "overwrite"):
        refused(workspace, act, path)
    assert unicodedata.normalize("NFKC", "ｂｒａｉｎ") == "brain"
    for name in ("．ｇｉｔ", "\uff0egit", ".ﬁle/../.git", "SKILL_MANIFEST．json"):
        assert protects(f"memory/{name}/x", workspace)
    assert not protects("memory/plain/x", workspace)


@pytest.mark.parametrize(
    "path", ["BRAIN/x", "Brain/x", "Memory/notes.md", "PERSONA/x", "OUT/x", "Node_Modules/x"]
)
def test_fs_21_letter_case_opens_nothing(workspace: Path, path: str) -> None:
    for act in ("read", "write", "overwrite"):
        refused(workspace, act, path)
    assert protects(path, workspace)
    plain = path.partition("/")[0]
    assert plain not in CODE | IDENTITY, (
        "letter by letter it is no name of such a folder, and a disk may think otherwise"
    )
    for name in (".GIT/hooks/x", ".Git/config", "skill_manifest.JSON", "Metier.toml"):
        assert protects(f"memory/{name}", workspace), name


def special(place: Path, kind: str) -> None:
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    elif kind == "device":
        try:
            os.mknod(place, stat.S_IFCHR | 0o600, os.makedev(1, 5))  # endless zeros
        except PermissionError:
            pytest.skip("only root makes a device")
    else:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(place))


@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "folder"])
def test_fs_22_what_is_no_regular_file_is_refused_and_nobody_waits(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.chdir(workspace / "memory")  # the path of a socket is short
    special(Path("odd"), kind)
    for act in ("read", "write", "overwrite"):
        assert "regular file" in refused(workspace, act, "memory/odd")


def test_fs_22_one_that_simply_opens_a_pipe_waits(workspace: Path) -> None:
    pipe = workspace / "memory" / "pipe"
    os.mkfifo(pipe)
    thread = threading.Thread(target=pipe.read_bytes, daemon=True)
    thread.start()
    thread.join(0.2)
    assert thread.is_alive()
    pipe.write_bytes(b"")
    thread.join(10)
    assert not thread.is_alive()


def test_fs_23_a_terabyte_of_holes_is_not_read(workspace: Path) -> None:
    with (workspace / "memory" / "huge").open("wb") as file:
        file.truncate(1 << 40)
    assert "bytes" in refused(workspace, "read", "memory/huge")
    with (workspace / "memory" / "huge").open("rb") as file:
        assert file.read(1 << 20) == bytes(1 << 20), (
            "whoever simply reads gets as many zeros as he has room for"
        )


def test_fs_23_a_file_that_grows_while_it_is_read_is_no_way_round_the_limit(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = workspace / "memory" / "notes.md"
    real, count = os.read, 0

    def growing(descriptor: int, size: int) -> bytes:
        nonlocal count
        count += 1
        with place.open("ab") as file:
            file.write(b"x" * 300_000)
        return real(descriptor, size)

    monkeypatch.setattr(os, "read", growing)
    answer = read(workspace, "memory/notes.md")
    assert answer["success"] is False
    assert "grew" in answer["error"]
    assert count < 20
    assert place.stat().st_size > READ.MOST_BYTES, "one that reads to the end gets all of it"


def test_fs_23_the_size_that_is_told_is_the_size_of_what_is_told(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = workspace / "memory" / "notes.md"
    place.write_text("x" * 1000)
    real = os.fstat

    def shrinking(descriptor: int) -> os.stat_result:
        found = real(descriptor)
        os.truncate(place, 10)
        return found

    monkeypatch.setattr(os, "fstat", shrinking)
    answer = read(workspace, "memory/notes.md")
    assert (answer["size"], answer["content"]) == (10, "x" * 10)


# --- zones


@SIDES
@pytest.mark.parametrize("zone", ["brain", "packages", "apps", "node_modules"])
def test_fs_24_the_zones_that_hold_code_are_never_entered(workspace: Path, zone: str, act: str) -> None:
    (workspace / zone / "x").write_text(SECRET)
    (workspace / "memory" / "way").symlink_to(f"../{zone}")
    for path in (f"{zone}/x", f"memory/../{zone}/x", f"{workspace}/{zone}/x", "memory/way/x", f"./{zone}/x"):
        refused(workspace, act, path)
    assert (workspace / "memory" / "way" / "x").read_text() == SECRET
    os.rename(workspace / "logs", workspace / "old")
    (workspace / "logs").symlink_to(zone)
    refused(workspace, act, "logs/x")


@pytest.mark.parametrize(
    "path",
    [
        ".git/hooks/post-checkout",
        ".claude/settings.json",
        "SKILL_MANIFEST.json",
        "a/SKILL.md",
        "a/b/.envrc",
        "metier.toml",
    ],
)
def test_fs_25_what_others_run_or_believe_cannot_be_made_first(workspace: Path, path: str) -> None:
    assert "run or believed" in protects(f"memory/{path}", workspace)
    assert protects(f"{workspace}/out/{path}", workspace)
    assert write(workspace, f"memory/{path}")["success"] is True, "without the check it would be made"


def test_fs_26_no_folder_is_moved_or_replaced(workspace: Path) -> None:
    (workspace / "memory" / "episodic").mkdir()
    for path in ("memory", "memory/episodic", "memory/episodic/", "persona", "."):
        for act in ("write", "overwrite"):
            refused(workspace, act, path)
    os.rename(workspace / "memory" / "episodic", workspace / "memory" / "gone")
    assert not (workspace / "memory" / "episodic").exists(), "whoever may rename moves it"


# --- writing


@pytest.mark.slow
def test_fs_27_of_many_who_make_a_file_at_once_exactly_one_does(workspace: Path) -> None:
    for number in range(20):
        path, ends = f"out/{number}", list[bool]()
        barrier = threading.Barrier(4)

        def make(
            text: str, path: str = path, ends: list[bool] = ends, barrier: threading.Barrier = barrier
        ) -> None:
            barrier.wait(10)
            ends.append(write(workspace, path, text)["success"])

        threads = [threading.Thread(target=make, args=(str(each),)) for each in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(ends) == [False, False, False, True]
    assert sorted(each.name for each in (workspace / "out").iterdir()) == sorted(map(str, range(20)))


def test_fs_27_a_file_that_appears_at_the_last_moment_is_not_replaced(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def appears(_size: int) -> str:
        (workspace / "out" / "x").write_text("first")
        return "draft"

    monkeypatch.setattr(WRITE.secrets, "token_hex", appears)
    for overwrite in (False, True):
        (workspace / "out" / "x").unlink(missing_ok=True)
        assert write(workspace, "out/x", "second", overwrite=overwrite)["success"] is False
        assert [each.name for each in (workspace / "out").iterdir()] == ["x"]
        assert (workspace / "out" / "x").read_text() == "first"


AGREED = {"size": 3, "digest": "sha256:cba06b5736faf67e54b07b561eae94395e774c517a7d910a54369e1263ccfbd4"}
"""To the text `old`."""


class ToldWhat(Told):
    """A handler that is told what somebody agreed to lose."""

    def __init__(self, workspace: Path, agreed: object) -> None:
        super().__init__(workspace)
        self.replaces = {"path": agreed}


@pytest.mark.parametrize(
    ("there", "agreed", "done"),
    [
        ("old", AGREED, True),
        ("OLD", AGREED, False),
        ("older", AGREED, False),
        ("", AGREED, False),
        (None, AGREED, False),
        ("old", None, False),
        (None, None, True),
    ],
)
def test_only_what_was_agreed_to_is_lost(
    workspace: Path, there: str | None, agreed: object, *, done: bool
) -> None:
    place = workspace / "out" / "x"
    if there is not None:
        place.write_text(there)
    told = ToldWhat(workspace, agreed)
    answer = WRITE.execute({"path": "out/x", "content": "new", "overwrite": True}, told)
    assert answer["success"] is done, answer
    assert done or "ask again" in answer["error"]
    left = "new" if done else there
    assert [each.read_text() for each in place.parent.iterdir()] == ([] if left is None else [left])


@pytest.mark.parametrize("becomes", ["other text", "link", "pipe", "nothing"])
def test_what_was_agreed_to_is_looked_at_directly_before_it_is_lost(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, becomes: str
) -> None:
    place = workspace / "out" / "x"
    place.write_text("old")

    def changed(_size: int) -> str:
        place.unlink()
        if becomes == "link":
            place.symlink_to(workspace.parent / "secret")
        elif becomes == "pipe":
            os.mkfifo(place)
        elif becomes == "other text":
            place.write_text("OLD")
        return "draft"

    monkeypatch.setattr(WRITE.secrets, "token_hex", changed)
    inputs = {"path": "out/x", "content": "new", "overwrite": True}
    answer = WRITE.execute(inputs, ToldWhat(workspace, AGREED))
    assert "ask again" in answer["error"]
    assert [each.name for each in place.parent.iterdir()] == ([] if becomes == "nothing" else ["x"])


def test_who_holds_the_folder_is_waited_for_and_not_for_ever(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WRITE, "PATIENCE", 0.05)
    held = os.open(workspace / "out", os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert "holds its folder" in write(workspace, "out/x", "new")["error"]
        assert list((workspace / "out").iterdir()) == []
    finally:
        os.close(held)
    assert write(workspace, "out/x", "new")["success"] is True


def test_a_file_is_made_also_where_a_file_can_have_one_name_only(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused_here(*_names: object, **_more: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused_here)
    assert write(workspace, "out/x", "new")["success"] is True
    assert "already" in write(workspace, "out/x", "newer")["error"]
    assert [(each.name, each.read_text()) for each in (workspace / "out").iterdir()] == [("x", "new")]


def test_fs_28_nothing_of_a_longer_text_is_left_behind_a_shorter_one(workspace: Path) -> None:
    place = workspace / "out" / "x"
    place.write_text("a long text that was there before")
    with place.open("r+") as file:
        file.write("short")
    assert place.read_text() != "short", "written over it in place it is left"
    assert write(workspace, "out/x", "short", overwrite=True)["success"] is True
    assert place.read_text() == "short"


def test_fs_29_mode_and_owner_of_what_was_there_are_not_taken_over(workspace: Path) -> None:
    place = workspace / "out" / "x"
    place.write_text("#!/bin/sh\n")
    place.chmod(0o6755)
    assert write(workspace, "out/x", "text", overwrite=True)["success"] is True
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    other = workspace / "out" / "y"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    other.write_text("text")
    assert stat.S_IMODE(other.stat().st_mode) == 0o755, "written to in place it is kept"


@pytest.mark.parametrize("name", ["a\nb", "\x1b[31mred", "a\u202egpj.exe", "\u2028", "a\rb"])
def test_fs_30_a_name_that_cannot_be_seen_is_not_made_and_not_echoed(workspace: Path, name: str) -> None:
    said = refused(workspace, "write", f"out/{name}")
    assert said.isascii()
    assert said.isprintable()
    said = refused(workspace, "read", f"out/{name}")
    assert said.isprintable()
    (workspace / "out" / name).write_text("others can")
    assert (workspace / "out" / name).exists()


@pytest.mark.parametrize("name", ["-rf", "--help", "😀" * 63, "a b", "'\"`$(id)"])
def test_fs_30_an_odd_name_is_a_name(workspace: Path, name: str) -> None:
    assert write(workspace, f"out/{name}", "x")["success"] is True
    assert (workspace / "out" / name).read_text() == "x"
    assert read(workspace, f"out/{name}")["content"] == "x"


def test_fs_31_a_link_that_waits_at_the_name_of_the_unfinished_file_is_not_followed(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WRITE.secrets, "token_hex", lambda _size: "guessed")
    planted = workspace / "out" / ".guessed.draft"
    planted.symlink_to(workspace.parent / "secret")
    answer = write(workspace, "out/x", "text")
    assert answer["success"] is False
    assert (workspace.parent / "secret").read_text() == SECRET
    assert not (workspace / "out" / "x").exists()
    planted.unlink(missing_ok=True)
    monkeypatch.undo()
    planted.symlink_to(workspace.parent / "secret")
    planted.write_text("x")
    assert (workspace.parent / "secret").read_text() == "x", "one that simply opens it writes through it"


def test_fs_31_no_two_unfinished_files_have_a_name_that_could_be_guessed(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []
    real = os.open

    def noted(path: Any, flags: int, *more: Any, **named: Any) -> int:
        if flags & os.O_CREAT:
            names.append(path)
            assert flags & os.O_EXCL
        return real(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", noted)
    for number in range(20):
        write(workspace, f"out/{number}")
    assert len(set(names)) == 20
    assert min(map(len, names)) > 32


def test_fs_32_a_relative_path_begins_at_the_workspace_wherever_one_stands(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "memory").mkdir(parents=True)
    (elsewhere / "out").mkdir()
    (elsewhere / "memory" / "notes.md").write_text("not this one")
    monkeypatch.chdir(elsewhere)
    assert read(workspace, "memory/notes.md")["content"] == "tea\n"
    assert write(workspace, "out/x")["success"] is True
    assert list((elsewhere / "out").iterdir()) == []
    assert Path("memory/notes.md").read_text() == "not this one"


def test_fs_33_nothing_in_a_path_stands_for_something_else(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(workspace / "memory"))
    for path in (
        "~/notes.md",
        "~root/x",
        "$HOME/notes.md",
        "${HOME}/notes.md",
        "memory/*",
        "memory/note?.md",
        "mem*/notes.md",
    ):
        refused(workspace, "read", path)
    for name in ("~", "$HOME", "${X}", "*"):
        (workspace / "memory" / name).write_text("literal")
        assert read(workspace, f"memory/{name}")["content"] == "literal"
    assert os.path.expanduser("~/notes.md") == str(workspace / "memory" / "notes.md")


# --- what is bad otherwise


@pytest.mark.parametrize("path", [None, 7, [], {}, "", " ", "/", ".", "..", "\ud800"])
def test_what_is_no_path_is_an_answer_too(workspace: Path, path: object) -> None:
    for act in ("read", "write"):
        refused(workspace, act, path)


def test_a_file_that_holds_no_text_is_not_read(workspace: Path) -> None:
    (workspace / "memory" / "picture").write_bytes(b"\x89PNG\xff\xfe")
    assert "UTF-8" in refused(workspace, "read", "memory/picture")
    (workspace / "memory" / "odd").write_text("\x01" * 300_000)
    assert "too long" in refused(workspace, "read", "memory/odd")


def test_a_time_that_no_calendar_has_does_not_matter(workspace: Path) -> None:
    assert READ.moment(0) == "1970-01-01T00:00:00.000Z"
    assert READ.moment(1_760_963_696_789_000_000) == "2025-10-20T12:34:56.789Z"
    assert READ.moment(10**25) == ""


def test_a_disk_that_is_full_leaves_nothing_behind(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        answer = write(workspace, "out/x", "text")
    assert answer == {"success": False, "error": "'out/x' is not written: No space left on device"}
    assert list((workspace / "out").iterdir()) == []
