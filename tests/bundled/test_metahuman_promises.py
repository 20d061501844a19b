"""What MetaHuman's document promises of its manifests and its five skills, each asked of the whole runtime."""

import json
import os
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from core_desk import Desk, value, why
from machine import Machine, approve_all
from metier.config.settings import Window
from metier.dialects.metahuman import compile_skill
from metier.model.outcome import Failed, Refused
from metier.model.skill import Tool

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no wall for Python code here")

READ_FROM = ("memory", "persona", "logs", "out", "etc", "docs")
WRITTEN_TO = ("memory", "out", "logs")
NEITHER = ("brain", "packages", "apps", "node_modules", "other")
MANIFEST: dict[str, Any] = {
    "id": "tea",
    "name": "Tea",
    "description": "Pours tea.",
    "category": "fs",
    "inputs": {},
    "outputs": {},
    "risk": "low",
    "cost": "free",
    "minTrustLevel": "observe",
    "requiresApproval": False,
}


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    made = Desk(tmp_path, monkeypatch)
    yield made
    made.close()


def put(folder: Path, code: str, **fields: Any) -> str:
    """A skill in a folder that it may share with others; its tool."""
    about = MANIFEST | fields
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{about['id']}.json").write_text(json.dumps(about))
    (folder / f"{about['id']}.py").write_text(code)
    return f"{about['id']}/execute"


def tool_of(**fields: Any) -> Tool:
    compiled = compile_skill(json.dumps(MANIFEST | fields).encode(), manifest="tea.json")
    assert compiled.skill is not None, compiled.diagnostics
    return compiled.skill.tools[0]


# --- the manifest


@pytest.mark.parametrize("risk", ["low", "medium", "high"])
def test_each_of_the_three_risks_is_taken_as_it_is(risk: str) -> None:
    assert tool_of(risk=risk).risk == risk


@pytest.mark.parametrize("cost", ["free", "cheap", "expensive"])
def test_each_of_the_three_costs_is_taken_as_it_is(cost: str) -> None:
    assert tool_of(cost=cost).cost == cost


def test_an_output_without_a_description_or_a_type_does_not_pass_in_silence() -> None:
    def codes(output: dict[str, Any]) -> list[str]:
        text = json.dumps(MANIFEST | {"outputs": {"poured": output}}).encode()
        return [note.code for note in compile_skill(text, manifest="tea.json").diagnostics]

    assert codes({"type": "number", "description": "Millilitres"}) == []
    assert codes({"type": "number"}) == ["missing_field"]
    assert codes({"description": "Millilitres"}) == ["bad_outputs"]


def test_two_skills_of_one_id_are_never_both_there(desk: Desk) -> None:
    for folder, said in (
        (desk.machine.skills, "first"),
        (desk.machine.home / ".agents" / "skills", "second"),
    ):
        put(folder, f"def execute(inputs):\n    return {{'success': True, 'said': {said!r}}}\n")
    assert [skill.name for skill in desk.runtime.skills].count("tea") == 1
    assert value(desk.call("tea/execute"))["said"] == "first"
    first, second = [each for each in desk.runtime.catalog.listed if each.name == "tea"]
    assert (first.shadowed_by, second.shadowed_by) == ("", first.folder)


REACHES = """
def execute(inputs, context):
    def could(path, mode):
        try:
            with open(context.workspace + "/" + path, mode) as file:
                return bool(file.write("x") if "w" in mode else file.read())
        except OSError:
            return False
    paths = ["memory/x", "docs/x", "persona/x", "brain/x", "x", "../secret"]
    return {"success": True, "read": [path for path in paths if could(path, "r")],
            "written": [path for path in paths if could(path + "-new", "w")]}
"""


@pytest.mark.parametrize(
    ("folders", "risk", "read", "written"),
    [
        (["memory/"], "low", ["memory/x"], []),
        (["memory/", "docs/"], "low", ["memory/x", "docs/x"], []),
        (["docs/"], "high", ["docs/x"], ["docs/x"]),
        (["docs/", "persona/"], "high", ["docs/x", "persona/x"], ["docs/x"]),
    ],
)
def test_code_reaches_the_folders_its_manifest_names_and_no_others(
    desk: Desk, folders: list[str], risk: str, read: list[str], written: list[str]
) -> None:
    for path in ("memory/x", "docs/x", "persona/x", "brain/x", "x", "../secret"):
        (desk.workspace / path).write_text("nobody's business")
    told = value(desk.approved(put(desk.machine.skills, REACHES, allowedDirectories=folders, risk=risk)))
    assert (told["read"], told["written"]) == (read, written)


RUNS = """
def execute(inputs, context):
    try:
        return {"success": True, "said": context.exec(inputs["argv"]).wait()}
    except context.Error as error:
        return {"success": False, "error": error.name}
"""


def test_code_has_the_commands_run_that_its_manifest_names_and_no_others(desk: Desk) -> None:
    shell = {
        "category": "shell",
        "risk": "high",
        "inputs": {"argv": {"type": "array", "required": True, "description": "What to run"}},
    }
    lines = (["cat", "--version"], ["/usr/bin/cat", "--version"], ["wc", "--version"])
    for number, argv in enumerate(lines):
        only_echo = put(desk.machine.skills, RUNS, id=f"tea{number}", **shell, commandWhitelist=["echo"])
        desk.runtime.reload()
        assert value(desk.approved(only_echo, argv=["echo", "tea"]))["said"] == "tea\n"
        assert why(desk.approved(only_echo, argv=argv)) == "PermissionDenied"
    more = put(desk.machine.skills, RUNS, id="pot", **shell, commandWhitelist=["echo", "cat", "wc"])
    desk.runtime.reload()
    for argv in lines:
        assert value(desk.approved(more, argv=argv))["said"]


# --- fs_read and fs_write


def test_a_file_is_told_with_its_size_in_bytes_and_the_time_it_was_changed(desk: Desk) -> None:
    place = desk.workspace / "memory" / "note.md"
    place.write_text("grüße\n", encoding="utf-8")
    when = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
    os.utime(place, (0, when.timestamp()))
    told = value(desk.call("fs_read", path=str(place)))
    assert (told["content"], told["size"]) == ("grüße\n", 8)
    assert datetime.fromisoformat(told["modified"]) == when


def test_files_are_read_below_the_six_folders_and_nowhere_else(desk: Desk) -> None:
    for folder in (*READ_FROM, *NEITHER):
        (desk.workspace / folder / "deep").mkdir(parents=True)
        (desk.workspace / folder / "deep" / "x").write_text(folder)
    (desk.workspace / "x").write_text("at the top")
    for folder in READ_FROM:
        assert value(desk.call("fs_read", path=f"{folder}/deep/x"))["content"] == folder
    for path in (*(f"{folder}/deep/x" for folder in NEITHER), "x"):
        for spelled in (path, str(desk.workspace / path)):
            outcome = desk.call("fs_read", path=spelled)
            assert isinstance(outcome, Refused), (spelled, outcome)


def test_files_are_written_below_the_three_folders_and_nowhere_else(desk: Desk) -> None:
    for folder in NEITHER:
        (desk.workspace / folder).mkdir(exist_ok=True)
    for folder in WRITTEN_TO:
        assert value(desk.approved("fs_write", path=f"{folder}/made", content="x"))["size"] == 1
    for folder in (*(set(READ_FROM) - set(WRITTEN_TO)), *NEITHER):
        for spelled in (f"{folder}/made", str(desk.workspace / folder / "made")):
            outcome = desk.call("fs_write", path=spelled, content="x")
            assert isinstance(outcome, Refused), (spelled, outcome)
    assert {each.parent.name for each in desk.workspace.rglob("made")} == set(WRITTEN_TO)


# --- search_index


def test_a_memory_less_alike_than_one_half_is_left_out_unless_it_is_asked_for(desk: Desk) -> None:
    texts = [
        "We bought jasmine tea.",
        "A cup of coffee at noon.",
        "The dentist filled a tooth.",
        "Rain all day.",
    ]
    for number, text in enumerate(texts):
        (desk.workspace / "memory" / f"{number}.json").write_text(json.dumps({"content": text}))

    def alike(**more: Any) -> list[float]:
        told = value(desk.call("search_index", query="jasmine tea", **more))
        return [each["similarity"] for each in told["results"]]

    every = alike(minSimilarity=0)
    assert any(each < 0.5 for each in every)
    assert alike() == alike(minSimilarity=0.5) == [each for each in every if each >= 0.5] != []
    for outside in (-0.1, 1.1):
        assert "minSimilarity" in why(desk.call("search_index", query="tea", minSimilarity=outside))


def test_searches_are_counted_also_where_nobody_set_a_limit(desk: Desk) -> None:
    assert desk.machine.settings().budgets.memory == Window(calls=60, seconds=60)


OPENS = """
def execute(inputs, context):
    found = context.operate("memory.search", {"query": "jasmine tea"}).wait()["count"]
    could = []
    for path in inputs["paths"]:
        try:
            open(path, "rb").read(1)
            could.append(path)
        except OSError:
            pass
    return {"success": True, "found": found, "could": could}
"""


def test_no_skill_opens_a_database_whatever_it_declares(desk: Desk) -> None:
    (desk.workspace / "memory" / "tea.json").write_text(json.dumps({"content": "We bought jasmine tea."}))
    memory = {
        "category": "memory",
        "risk": "medium",
        "inputs": {"paths": {"type": "array", "required": True, "description": "What to open"}},
    }
    tool = put(desk.machine.skills, OPENS, **memory)
    assert value(desk.approved(tool, paths=[]))["found"] == 1
    databases = [str(each) for each in desk.machine.state.rglob("*.db")]
    assert {Path(each).parent == desk.machine.state for each in databases} == {True, False}, "state and index"
    assert all(Path(each).read_bytes() for each in databases)
    assert value(desk.approved(tool, paths=databases)) == {"success": True, "found": 1, "could": []}
    for number, folder in enumerate({str(Path(each).parent) for each in databases}):
        greedy = put(desk.machine.skills, OPENS, id=f"pot{number}", **memory, allowedDirectories=[folder])
        desk.runtime.reload()
        outcome = desk.approved(greedy, paths=databases)
        assert isinstance(outcome, Refused), (folder, outcome)
        assert "state" in " ".join(outcome.reasons)


# --- shell_safe


@pytest.mark.slow
def test_a_command_that_does_not_end_is_stopped_after_thirty_seconds(desk: Desk) -> None:
    program = desk.machine.bin / "pnpm"
    program.write_text("#!/bin/sh\nexec sleep 4711\n")
    program.chmod(0o755)
    desk.level("bounded_auto")
    began = time.monotonic()
    outcome = desk.approved("shell_safe", command="pnpm", args=["--version"])
    took = time.monotonic() - began
    assert isinstance(outcome, Failed), outcome
    assert 28 < took < 45
    assert not sleeping(4711)


def sleeping(seconds: int) -> bool:
    wanted = f"sleep\0{seconds}\0".encode()
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if place.read_bytes() == wanted:
                return True
        except OSError:
            continue  # it ended meanwhile
    return False


# --- how a call comes back


def told(desk: Desk, name: str, **arguments: Any) -> dict[str, Any]:
    """What a model is sent for a call that it made."""
    call = {"id": "c1", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    (message,) = desk.runtime.handle([call])
    return json.loads(str(message["content"]))


def test_a_caller_gets_success_with_the_outputs_or_the_error(desk: Desk) -> None:
    (desk.workspace / "docs" / "x").write_text("tea")
    good = told(desk, "fs_read", path="docs/x")
    assert (good["success"], good["content"], good["size"]) == (True, "tea", 3)
    for name, arguments in (
        ("fs_read", {"path": "docs/none"}),
        ("fs_read", {"path": "brain/x"}),
        ("fs_read", {}),
        ("fs_write", {"path": "out/x", "content": "x"}),
        ("shell_safe", {"command": "ls"}),
    ):
        bad = told(desk, name, **arguments)
        assert bad["success"] is False, (name, bad)
        assert bad["error"], name


@pytest.mark.parametrize(
    "returned", ["{'success': True, 'words': 3}", "{'success': True, 'outputs': {'words': 3}}"]
)
def test_code_gives_its_outputs_flat_or_under_their_own_name_and_the_caller_sees_no_difference(
    desk: Desk, returned: str
) -> None:
    outputs = {"words": {"type": "number", "description": "How many"}}
    tool = put(desk.machine.skills, f"def execute(inputs):\n    return {returned}\n", outputs=outputs)
    assert value(desk.call(tool)) == told(desk, "tea") == {"success": True, "words": 3}
    wrong = returned.replace("3", "'three'")
    put(desk.machine.skills, f"def execute(inputs):\n    return {wrong}\n", id="pot", outputs=outputs)
    desk.runtime.reload()
    assert isinstance(desk.call("pot/execute"), Failed), "both are checked against what was declared"


# --- a skill of one's own


def test_a_manifest_below_brain_skills_of_the_project_is_found_with_its_code(desk: Desk) -> None:
    folder = desk.machine.project / "brain" / "skills"
    tool = put(folder, "def execute(inputs):\n    return {'success': True, 'said': 'tea'}\n")
    put(folder, "", id="alone")
    (folder / "alone.py").unlink()
    listed = desk.runtime.catalog.get("tea")
    assert listed is not None
    assert (listed.shown, listed.folder) == ("pending_approval", str(folder / "tea.json"))
    assert isinstance(desk.call(tool), Refused)
    desk.machine.metier("skills", "trust", "tea", "--yes")
    desk.runtime.reload()
    assert value(desk.call(tool)) == {"success": True, "said": "tea"}
    assert desk.runtime.catalog.get("alone") is None, "without code beside it there is nothing to run"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "failed"),
    [
        ("", "", []),
        ('len(inputs["text"].split())', "0", ["Words are counted"]),
        ('"required": true', '"required": false', ["A call without its text is refused"]),
    ],
)
def test_what_is_written_from_the_template_is_tried_for_what_it_does_and_what_it_refuses(
    tmp_path: Path, old: str, new: str, failed: list[str]
) -> None:
    machine = Machine(tmp_path)
    written = machine.json("skills", "new", "tea-words", "--dialect", "metahuman", "--json")
    changed = 0
    for file in map(Path, written["files"]):
        text = file.read_text(encoding="utf-8")
        if old and old in text and file.name != "tests.json":
            file.write_text(text.replace(old, new), encoding="utf-8")
            changed += 1
    assert changed == bool(old)
    machine.metier("skills", "trust", "tea-words", "--yes")
    cases = machine.json("skills", "test", "tea-words", "--json", check=1 if failed else 0)
    assert len(cases) == 2
    assert [case["about"] for case in cases if case["problem"]] == failed


# --- what of the workspace is no skill's

SECRET = "nobody's business"


def put_reaching(desk: Desk, folder: Path, path: Path, *, write: bool) -> str:
    """A skill that names a folder from the root, and does one thing in it."""
    act = f"open({str(path)!r}, 'w').write('made')" if write else f"open({str(path)!r}).read()"
    more = {"risk": "high", "requiresApproval": True} if write else {}
    code = f"def execute(inputs):\n    return {{'success': True, 'got': {act}}}\n"
    tool = put(desk.machine.skills, code, allowedDirectories=[str(folder)], **more)
    approve_all(desk.machine.skills)
    return tool


@pytest.mark.parametrize("zone", ["brain", "packages", "apps", "node_modules", "docs"])
@pytest.mark.parametrize("whole", [False, True])
def test_no_skill_reads_the_folders_of_code_by_a_path_from_the_root(
    desk: Desk, zone: str, *, whole: bool
) -> None:
    place = desk.workspace / zone
    place.mkdir(exist_ok=True)
    (place / "x").write_text(SECRET)
    outcome = desk.approved(put_reaching(desk, place.parent if whole else place, place / "x", write=False))
    assert (SECRET in str(outcome)) is (zone == "docs"), outcome


@pytest.mark.parametrize("zone", ["brain", "packages", "apps", "persona", "docs"])
def test_no_skill_writes_to_code_or_persona_by_a_path_from_the_root(desk: Desk, zone: str) -> None:
    made = desk.workspace / zone / "made"
    made.parent.mkdir(exist_ok=True)
    outcome = desk.approved(put_reaching(desk, made.parent, made, write=True))
    assert made.exists() is (zone == "docs"), outcome
    assert isinstance(outcome, Refused) is (zone != "docs")


@pytest.mark.parametrize("zone", ["brain", "persona", ".", "docs"])
def test_no_action_of_friday_writes_to_code_or_persona(desk: Desk, zone: str) -> None:
    folder = desk.machine.skills / "desk"
    folder.mkdir(parents=True)
    action = {"id": "do", "type": "shell", "command": "touch made", "cwd": zone}
    about = {"id": "desk", "description": "Keeps a desk.", "instructions": "Be tidy.", "actions": [action]}
    (folder / "skill.json").write_text(json.dumps(about))
    outcome = desk.approved("desk/do")
    assert (desk.workspace / zone / "made").exists() is (zone == "docs"), outcome


@pytest.mark.parametrize("zone", ["brain", "docs"])
def test_no_skill_of_our_own_dialect_reads_code(desk: Desk, zone: str) -> None:
    (desk.workspace / zone / "x").write_text(SECRET)
    folder = desk.machine.skills / "peek"
    folder.mkdir(parents=True)
    tool = {
        "name": "look",
        "description": "Looks.",
        "effect": "read",
        "parameters": {"type": "object", "properties": {}},
        "entry": {"kind": "python", "path": "look.py"},
        "permissions": {"reads": [f"{{workspace}}/{zone}"]},
    }
    block = json.dumps({"metier": {"tools": [tool]}})
    (folder / "SKILL.md").write_text(
        f"---\nname: peek\ndescription: Looks.\nmetadata: {block}\n---\n\nLook.\n"
    )
    (folder / "look.py").write_text(
        f"def main(params, context):\n    return open(context.workspace + '/{zone}/x').read()\n"
    )
    assert (SECRET in str(desk.approved("peek/look"))) is (zone == "docs")


# --- what was checked is what runs


def test_a_path_means_the_same_file_to_the_check_the_approver_and_the_code(desk: Desk) -> None:
    code = "def execute(inputs):\n    open(inputs['path'], 'w').write('new')\n    return {'success': True, 'at': inputs['path']}\n"
    inputs = {
        "path": {"type": "string", "required": True, "description": "Which", "validation": "isWriteAllowed"},
        "overwrite": {"type": "boolean", "required": False, "description": "Whether"},
    }
    more: dict[str, Any] = {"risk": "high", "requiresApproval": True, "allowedDirectories": ["out/"]}
    tool = put(desk.machine.skills, code, inputs=inputs, **more)
    place = desk.workspace / "out" / "x"
    for path in ("out/x", "./out//x/", str(place)):
        place.write_text("old")
        pending = desk.call(tool, path=path, overwrite=True)
        assert desk.shown(pending).replaces.startswith("replaces 'out/x': 3 bytes")
        assert value(desk.approve(pending))["at"] == str(place)
        assert place.read_text() == "new"
        assert [each.name for each in place.parent.iterdir()] == ["x"], "and nothing lies beside it"
