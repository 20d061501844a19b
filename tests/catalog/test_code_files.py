"""A skill whose tools run files that are not there is no skill, and a second manifest in a folder does not go unsaid."""

import json
import os
import time
from pathlib import Path

import pytest

from machine import Machine, write_skill
from metier.catalog import cache
from metier.catalog.discover import Found, discover
from metier.catalog.listed import Listed


def _metier(folder: Path, kind: str, path: str) -> None:
    tool = {
        "name": "go",
        "description": "Goes.",
        "effect": "read",
        "risk": "low",
        "entry": {"kind": kind, "path": path},
    }
    write_skill(folder, metadata=json.dumps({"metier": {"tools": [tool]}}))


def _only(machine: Machine) -> Listed:
    (found,) = [each for each in machine.catalog().listed if each.root.kind == "user"]
    return found


@pytest.mark.parametrize(
    ("kind", "path"),
    [("python", "go.py"), ("script", "lib/go.js"), ("wasm", "go.wasm")],
    ids=lambda each: each,
)
def test_a_tool_of_our_own_dialect_needs_its_file(machine: Machine, kind: str, path: str) -> None:
    folder = machine.skills / "tea"
    _metier(folder, kind, path)
    assert _only(machine).shown == "broken"
    assert path in _only(machine).why
    (linted,) = machine.json("skills", "lint", str(folder), "--json", check=1)
    assert (linted["status"], linted["diagnostics"][-1]["code"]) == ("broken", "no_code")
    (folder / path).parent.mkdir(exist_ok=True)
    (folder / path).write_text("")
    assert _only(machine).shown != "broken", _only(machine).why
    (folder / path).unlink()
    assert _only(machine).shown == "broken", "though its manifest is the same as before"


def test_where_skills_share_a_folder_the_file_of_another_is_not_its_own(machine: Machine) -> None:
    about = {
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
    machine.skills.mkdir(parents=True)
    for name, code in (("tea", "cup.py"), ("cup", "cup.py")):
        manifest = json.dumps({"id": name, **about, "implementation": code})
        (machine.skills / f"{name}.json").write_text(manifest)
        (machine.skills / f"{name}.py").write_text("def execute(inputs):\n    return {'success': True}\n")
    shown = {each.name: each.shown for each in machine.catalog().listed if each.root.kind == "user"}
    assert shown == {"cup": "usable", "tea": "broken"}
    linted = machine.json("skills", "lint", str(machine.skills), "--json", check=1)
    assert {each["name"]: each["status"] for each in linted} == shown


@pytest.mark.parametrize(
    ("files", "passed_over"),
    [
        (("SKILL.md", "skill.json"), ["skill.json"]),
        (("skill.json", "skill.yaml"), ["skill.yaml"]),
        (("SKILL.md", "skill.yml", "skill.yaml"), ["skill.yaml", "skill.yml"]),
        (("SKILL.md", "notes.json"), []),
        (("skill.json",), []),
    ],
    ids=lambda each: " ".join(each),
)
def test_a_manifest_that_is_passed_over_is_named(
    machine: Machine, files: tuple[str, ...], passed_over: list[str]
) -> None:
    folder = write_skill(machine.skills / "tea")
    if "SKILL.md" not in files:
        (folder / "SKILL.md").unlink()
    for name in files:
        if name.endswith(".json"):
            (folder / name).write_text('{"id": "tea", "description": "Pours.", "instructions": "Pour."}')
        elif name != "SKILL.md":
            (folder / name).write_text("id: tea\ndescription: Pours.\ninstructions: Pour.\nenabled: false\n")
    for _ in range(2):  # read, and remembered
        info = machine.metier("skills", "info", "tea").stdout
        assert ("[other_manifest]" in info) == bool(passed_over)
        assert all(name in info for name in passed_over)
    (linted,) = machine.json("skills", "lint", str(folder), "--json")
    found = [each["message"] for each in linted["diagnostics"] if each["code"] == "other_manifest"]
    assert len(found) == bool(passed_over)
    assert all(name in found[0] for name in passed_over)


def test_code_that_is_no_skill_is_looked_at_once(machine: Machine) -> None:
    machine.skills.mkdir(parents=True)
    code = machine.skills / "tea.js"
    code.write_text("const manifest = {};\nfunction execute() {}\n")
    old = time.time() - 60
    os.utime(code, (old, old))
    settings = machine.settings()
    root = next(each for each in settings.roots if each.path == str(machine.skills))

    def shown() -> list[str]:
        return [each.name for each in machine.catalog().listed if each.root.kind == "user"]

    deadline = time.monotonic() + 20
    while str(code) not in cache.read(settings.cache, root.path) and time.monotonic() < deadline:
        assert shown() == []  # what was written a moment ago is not remembered yet
        time.sleep(0.2)
    (known,) = cache.read(settings.cache, root.path).values()
    assert known.compiled is None
    found = list(discover(root, {str(code): known.signature}, allowlist_required=False, searched=[]))
    assert [each.data for each in found if isinstance(each, Found)] == [None], "it was not opened"
    assert shown() == []
    code.write_text("export const manifest = {};\nexport function execute() {}\n")
    assert shown() == ["tea"], "the control: other bytes are looked at"
