"""The checks that MetaHuman manifests name, against a real disk with links in it."""

import os
from pathlib import Path
from typing import Any

import pytest

from metier.catalog.catalog import Catalog
from metier.gate.checked_paths import from_root, needed_least
from metier.gate.validate import validate
from metier.model.call import Call, Principal, ValidCall
from metier.model.entry import Operation
from metier.model.ground import Ground
from metier.model.outcome import Refused
from metier.model.permission import PermissionSet
from metier.model.skill import Check, Tool


class Place:
    """A workspace with something beside it."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.workspace = top / "workspace"
        for folder in ("memory/episodic", "out", "logs", "persona", "brain/agents", "memory-other"):
            (self.workspace / folder).mkdir(parents=True)
        self.outside = top / "outside"
        self.outside.mkdir()
        (self.outside / "secret.txt").write_text("hunter2")
        (self.workspace / "memory" / "a.txt").write_text("tea")
        (self.workspace / "memory" / "link").symlink_to(self.outside)
        (self.workspace / "memory" / "link.txt").symlink_to(self.outside / "secret.txt")
        (self.workspace / "out" / "to-brain").symlink_to(self.workspace / "brain")
        (self.workspace / "linked").symlink_to(self.outside)

    def asked(
        self, check: Check, value: Any, *, ground: Ground | None = None, **granted: Any
    ) -> ValidCall | Refused:
        tool = Tool(
            name="t",
            description="",
            parameters={"properties": {"v": {}}},
            checks={"v": check},
            permissions=PermissionSet(**{name: frozenset(each) for name, each in granted.items()}),
            entry=Operation(module="m", operation="o"),
        )
        call = Call(id="c", principal=Principal(id="agent:a", kind="agent"), tool="t", arguments={"v": value})
        where = ground or Ground(workspace=str(self.workspace))
        return validate(call, tools={"t": tool}, catalog=Catalog(by_name={}), ground=where)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


READS = ("{workspace}/memory", "{workspace}/out")


def passes(answer: ValidCall | Refused) -> bool:
    if isinstance(answer, ValidCall):
        return True
    assert answer.code == "invalid_arguments"
    assert answer.reasons[0].startswith("argument 'v' ")
    return False


@pytest.mark.parametrize(
    "path",
    ["memory/a.txt", "memory", "memory/", "./memory/a.txt", "out/new.txt", "memory//a.txt", "memory/x/y/z"],
)
def test_a_path_in_a_folder_the_tool_may_read_passes(place: Place, path: str) -> None:
    assert passes(place.asked("isWithinAllowedDirectory", path, reads=READS))
    absolute = str(place.workspace / path)
    answer = place.asked("isWithinAllowedDirectory", absolute, reads=READS)
    assert isinstance(answer, ValidCall)
    spelled = os.path.normpath(path)
    assert answer.arguments == {"v": spelled}, "one file has one spelling"
    tool, ground = answer.tool, Ground(workspace=str(place.workspace))
    assert from_root(tool, answer.arguments, ground) == {"v": absolute}, "what was checked is what runs"


@pytest.mark.parametrize(
    "path",
    [
        "", ".", "/", "..", "memory/..", "memory/../persona", "memory/../../outside/secret.txt", "memory/../memory/a.txt",
        "persona/me.json", "memory-other/a", "memoryx", "~", "~/memory", "~root/x", "memory/link/secret.txt", "memory/link",
        "memory/link.txt", "/etc/passwd", "file:///etc/passwd", "Memory/a.txt", "{workspace}/memory/a.txt", "linked/x",
        "x" * 5_000, "memory/" + "x/" * 5_000, "out/to-brain/agents", "\\memory\\a.txt", "\u202ememory/a.txt",
    ],
    ids=lambda path: ascii(path[:40]),
)  # fmt: skip
def test_every_other_path_is_refused(place: Place, path: str) -> None:
    assert not passes(place.asked("isWithinAllowedDirectory", path, reads=READS))


def test_the_plain_comparison_of_beginnings_would_let_them_out(place: Place) -> None:
    """The control: what a test of the first letters, without the disk, takes for inside."""
    root = str(place.workspace / "memory")
    for path in ("memory/../../outside/secret.txt", "memory-other/a", "memory/link.txt"):
        assert os.path.join(place.workspace, path).startswith(root)
    assert (place.workspace / "memory" / "link.txt").read_text() == "hunter2"


def test_a_granted_folder_that_is_a_link_grants_nothing(place: Place) -> None:
    for path in ("linked/secret.txt", str(place.outside / "secret.txt")):
        assert not passes(place.asked("isWithinAllowedDirectory", path, reads=("{workspace}/linked",)))
    inside = str(place.outside / "secret.txt")
    assert passes(place.asked("isWithinAllowedDirectory", inside, reads=(str(place.outside),)))


def test_the_skills_own_folder_cannot_be_named_by_an_argument(place: Place) -> None:
    assert not passes(place.asked("isWithinAllowedDirectory", "{baseDir}/x", reads=("{baseDir}",)))
    assert not passes(place.asked("isWithinAllowedDirectory", "x", reads=("{baseDir}",)))


@pytest.mark.parametrize("check", ["isWithinAllowedDirectory", "isWriteAllowed", "isValidAgent"])
def test_where_no_workspace_is_known_nothing_passes(place: Place, check: Check) -> None:
    (place.workspace / "brain" / "agents" / "memory.ts").write_text("")
    for value in ("memory", "memory/a.txt", str(place.workspace / "memory")):
        answer = place.asked(check, value, ground=Ground(), reads=READS, writes=READS)
        assert not passes(answer)


def test_a_workspace_below_a_link_is_the_real_one(place: Place) -> None:
    (place.top / "home").symlink_to(place.workspace)
    ground = Ground(workspace=str(place.top / "home"))
    assert passes(place.asked("isWithinAllowedDirectory", "memory/a.txt", ground=ground, reads=READS))
    linked = str(place.top / "home" / "memory" / "a.txt")
    assert passes(place.asked("isWithinAllowedDirectory", linked, ground=ground, reads=READS))
    assert not passes(place.asked("isWithinAllowedDirectory", "persona/x", ground=ground, reads=READS))


def test_writing_is_asked_of_what_may_be_written_and_not_of_what_may_be_read(place: Place) -> None:
    assert passes(place.asked("isWriteAllowed", "out/new.txt", writes=READS))
    assert not passes(place.asked("isWriteAllowed", "out/new.txt", reads=READS))
    assert not passes(place.asked("isWriteAllowed", "logs/new.txt", writes=READS))
    assert not passes(place.asked("isWriteAllowed", "memory/link/new.txt", writes=READS))


@pytest.mark.parametrize(
    "path",
    ["persona/core.json", "brain/agents/x.ts", "brain", "persona", "out/to-brain/agents/x.ts", "Brain/x", "PERSONA/x", "./brain/x"],
)  # fmt: skip
def test_persona_and_brain_are_never_written_whatever_was_granted(place: Place, path: str) -> None:
    everything = ("{workspace}", str(place.workspace), "/")
    assert not passes(place.asked("isWriteAllowed", path, writes=everything))
    assert passes(place.asked("isWriteAllowed", "memory/brain/x", writes=everything)), (
        "further down it is a name like any"
    )


def test_code_of_the_workspace_is_not_read_whatever_was_granted(place: Place) -> None:
    everything = ("{workspace}", str(place.workspace), "/")
    for path in ("brain/agents/x.ts", "out/to-brain/x", str(place.workspace / "brain")):
        assert not passes(place.asked("isWithinAllowedDirectory", path, reads=everything))
    for path in ("persona/x", "memory/brain/x"):
        assert passes(place.asked("isWithinAllowedDirectory", path, reads=everything))


@pytest.mark.parametrize("name", [".git/hooks/x", "sub/.git/config", "SKILL.md", "a/.Claude/x", ".git. /x"])
def test_fs_25_a_protected_name_is_one_in_every_folder_that_was_granted(place: Place, name: str) -> None:
    writes = (str(place.outside), "{workspace}/out")
    for folder in (str(place.outside), "out"):
        answer = place.asked("isWriteAllowed", f"{folder}/{name}", writes=writes)
        assert isinstance(answer, Refused)
        assert "run or believed" in answer.reasons[0]
        assert passes(place.asked("isWriteAllowed", f"{folder}/git/x", writes=writes))


@pytest.mark.parametrize(
    ("there", "path"),
    [
        (("HEAD", "objects", "refs"), "config"),
        (("HEAD", "objects", "refs"), "hooks/post-checkout"),
        (("objects", "refs"), "HEAD"),
        (("objects", "refs"), "head"),
        (("HEAD", "objects"), "refs/x"),
        (("HEAD",), "commondir"),
    ],
)
def test_fs_25_a_folder_does_not_become_a_repository(place: Place, there: tuple[str, ...], path: str) -> None:
    for name in there:
        (place.workspace / "out" / "a" / name).mkdir(parents=True)
    answer = place.asked("isWriteAllowed", f"out/a/{path}", writes=READS)
    assert isinstance(answer, Refused)
    assert "repository" in answer.reasons[0]
    assert passes(place.asked("isWriteAllowed", f"out/b/{path}", writes=READS))


def test_a_call_cannot_do_without_the_folders_its_paths_lie_in(place: Place) -> None:
    ground = Ground(workspace=str(place.workspace))

    def least(check: Check, **arguments: Any) -> frozenset[str]:
        answer = place.asked(check, arguments.get("v", "out/x"), reads=READS, writes=READS)
        assert isinstance(answer, ValidCall)
        return needed_least(answer.tool, arguments, ground).writes

    assert least("isWriteAllowed", v="out/x") == {"{workspace}/out"}
    assert least("isWriteAllowed", v=str(place.workspace / "memory" / "x")) == {"{workspace}/memory"}
    assert least("isWriteAllowed") == set(READS), "nobody knows what is written when it is left out"
    assert least("isWithinAllowedDirectory", v="out/x") == set(READS)


def test_an_agent_is_a_file_of_that_name_in_the_agents_folder(place: Place) -> None:
    agents = place.workspace / "brain" / "agents"
    (agents / "organizer.ts").write_text("")
    (agents / "reflector.test.ts").write_text("")
    (agents / "folder").mkdir()
    (agents / "linked.ts").symlink_to(place.outside / "secret.txt")
    assert passes(place.asked("isValidAgent", "organizer"))
    for name in (
        "organizer.ts", "Organizer", "reflector", "reflector.test", "folder", "linked", "nobody", "", "../agents/organizer",
        "organizer;ls", "organizer ", "organizer\n", "-organizer", "*", "x" * 65,
    ):  # fmt: skip
        assert not passes(place.asked("isValidAgent", name)), name


def test_without_an_agents_folder_or_behind_a_link_there_are_no_agents(place: Place) -> None:
    agents = place.workspace / "brain" / "agents"
    agents.rmdir()
    assert not passes(place.asked("isValidAgent", "organizer"))
    (place.outside / "organizer.ts").write_text("")
    agents.symlink_to(place.outside)
    assert not passes(place.asked("isValidAgent", "organizer"))


def test_a_program_is_named_exactly_as_it_was_allowed(place: Place) -> None:
    allowed = ("git", "ls", "g++")
    for name in allowed:
        assert passes(place.asked("isWhitelisted", name, binaries=allowed))
    for name in (
        "/usr/bin/git", "./git", "git status", "git;ls", "git|sh", "git\n", "Git", "rm", "", "gi", "git\t", "$(git)", "`git`",
        "git&", "g*", "git\\", "-git", "~/git", "git>x", "\u0261it",
    ):  # fmt: skip
        assert not passes(place.asked("isWhitelisted", name, binaries=allowed)), name
    odd = ("/usr/bin/git", "git status", "a;b")
    for name in odd:
        assert not passes(place.asked("isWhitelisted", name, binaries=odd)), (
            "a path or line is no name, also when listed"
        )
    assert not passes(place.asked("isWhitelisted", "git"))


CHECKS: list[Check] = ["isWithinAllowedDirectory", "isWriteAllowed", "isValidAgent", "isWhitelisted"]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("value", [None, 7, True, ["memory/a.txt"], {"path": "memory/a.txt"}], ids=repr)
def test_what_is_no_text_passes_no_check(place: Place, check: Check, value: Any) -> None:
    answer = place.asked(check, value, reads=READS, writes=READS, binaries=("git",))
    assert isinstance(answer, Refused)
    assert answer.reasons == ("argument 'v' must be a text",)


@pytest.mark.parametrize("check", CHECKS)
def test_an_argument_that_may_be_left_out_is_checked_only_when_it_is_there(
    place: Place, check: Check
) -> None:
    tool = Tool(
        name="t",
        description="",
        parameters={"properties": {"v": {"type": "string"}}},
        checks={"v": check},
        entry=Operation(module="m", operation="o"),
    )
    call = Call(id="c", principal=Principal(id="agent:a", kind="agent"), tool="t", arguments={})
    assert isinstance(validate(call, tools={"t": tool}, catalog=Catalog(by_name={})), ValidCall)


def test_a_refusal_cannot_disturb_the_message(place: Place) -> None:
    for check in CHECKS:
        answer = place.asked(check, "\u202e/etc\u200b\n" + "x" * 3_000)
        assert isinstance(answer, Refused)
        assert answer.reasons[0].isprintable()
        assert len(answer.reasons[0]) < 400
