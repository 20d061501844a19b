"""MetaHuman's trust table with the skills that ship: what their manifests say leads to the same table as the document's."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from core_desk import BUNDLED
from metier.dialects.manifest import compile_manifest
from metier.model.outcome import Completed, Outcome, Pending, Refused
from metier.model.skill import Tool
from metier.model.trust_level import LEVELS, TrustLevel
from parlour import Parlour, tool

TABLE: dict[TrustLevel, tuple[set[str], set[str]]] = {
    "observe": ({"fs_read"}, set()),
    "suggest": ({"fs_read"}, set()),
    "supervised_auto": ({"fs_read", "fs_write"}, {"fs_read"}),
    "bounded_auto": ({"fs_read", "fs_write", "shell_safe"}, {"fs_read"}),
    "adaptive_auto": ({"fs_read", "fs_write", "shell_safe"}, {"fs_read"}),
}
"""At each level: what is there, and what of it runs by itself."""
SKILLS = ("fs_read", "fs_write", "shell_safe")
DOCUMENT: dict[str, dict[str, Any]] = {
    "fs_read": {"risk": "low", "cost": "cheap", "minimum_trust": "observe", "approval": "policy", "effect": "read"},
    "fs_write": {"risk": "high", "cost": "cheap", "minimum_trust": "supervised_auto", "approval": "always", "effect": "act"},
    "shell_safe": {"risk": "high", "cost": "expensive", "minimum_trust": "bounded_auto", "approval": "always", "effect": "act"},
}  # fmt: skip


def shipped(name: str) -> Tool:
    folder = BUNDLED / name
    files = {each.name for each in folder.iterdir()}
    compiled = compile_manifest(
        (folder / f"{name}.json").read_bytes(), folder=name, manifest=f"{name}.json", files=lambda: files
    )
    assert compiled.skill is not None
    assert compiled.diagnostics == ()
    return compiled.skill.tools[0]


def judged(name: str) -> Tool:
    """The tool as the gate judges it, with arguments and an end that need no skill folder."""
    plain, real = tool(name), shipped(name)
    kept = {"risk": real.risk, "cost": real.cost, "minimum_trust": real.minimum_trust, "effect": real.effect}
    return replace(plain, **kept, approval=real.approval)


@pytest.fixture
def parlour(tmp_path: Path) -> Iterator[Parlour]:
    made = Parlour(tmp_path, *map(judged, SKILLS))
    yield made
    made.database.close()


@pytest.mark.parametrize("level", LEVELS)
def test_the_manifests_that_ship_lead_to_the_table_of_the_document(
    parlour: Parlour, level: TrustLevel
) -> None:
    parlour.level = level
    outcomes: dict[str, Outcome] = {name: parlour.call(name) for name in SKILLS}
    there, by_itself = TABLE[level]
    assert {name for name, outcome in outcomes.items() if not isinstance(outcome, Refused)} == there
    assert {name for name, outcome in outcomes.items() if isinstance(outcome, Completed)} == by_itself
    assert {name for name, outcome in outcomes.items() if isinstance(outcome, Pending)} == there - by_itself


@pytest.mark.parametrize("name", SKILLS)
def test_each_manifest_says_what_the_document_says(name: str) -> None:
    real = shipped(name)
    assert {field: getattr(real, field) for field in DOCUMENT[name]} == DOCUMENT[name]
    assert real.limits.timeout == 30.0
    assert (real.name, real.outward, real.skill, real.answer) == (f"{name}/execute", name, name, "metahuman")


def test_each_may_touch_what_the_document_gives_and_no_more() -> None:
    reads = {f"{{workspace}}/{name}" for name in ("memory", "persona", "logs", "out", "etc", "docs")}
    writes = {f"{{workspace}}/{name}" for name in ("memory", "out", "logs")}
    assert shipped("fs_read").permissions.plain() == {"reads": sorted(reads)}
    assert shipped("fs_write").permissions.plain() == {"reads": sorted(writes), "writes": sorted(writes)}
    programs = ["cat", "find", "git", "grep", "ls", "pnpm"]
    assert shipped("shell_safe").permissions.plain() == {"binaries": programs, "reads": sorted(reads)}


def test_inputs_and_outputs_are_those_of_the_document() -> None:
    inputs = {
        "fs_read": ({"path"}, {"path"}),
        "fs_write": ({"path", "content", "overwrite"}, {"path", "content"}),
        "shell_safe": ({"command", "args", "cwd"}, {"command"}),
    }
    outputs = {
        "fs_read": {"content", "size", "modified"},
        "fs_write": {"path", "size"},
        "shell_safe": {"stdout", "stderr", "exitCode"},
    }
    for name in SKILLS:
        manifest = json.loads((BUNDLED / name / f"{name}.json").read_bytes())
        required = {key for key, each in manifest["inputs"].items() if each["required"]}
        assert (set(manifest["inputs"]), required) == inputs[name]
        assert set(manifest["outputs"]) == outputs[name]
    assert shipped("fs_read").checks == {"path": "isWithinAllowedDirectory"}
    assert shipped("fs_write").checks == {"path": "isWriteAllowed"}
    assert shipped("shell_safe").checks == {"command": "isWhitelisted"}
