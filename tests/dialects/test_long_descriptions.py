"""A tool's description is what makes a model call it, and how. What a model is not told of it is said where the skill is read."""

import json
from typing import Any

import pytest

from metier.dialects.compiled import Compiled
from metier.dialects.manifest import compile_manifest
from metier.disclosure.schemas import shaped
from phone import amber_skill

ENDS = "ALWAYS ASK FIRST."


def compiled(text: str, manifest: str) -> Compiled:
    files = frozenset({"tea.js", "handler.js"})
    return compile_manifest(text.encode(), folder="tea", manifest=manifest, files=lambda: files)


def amber(about: str) -> Compiled:
    schema = {"name": "pour", "description": about, "parameters": {"type": "object", "properties": {}}}
    return compiled(amber_skill("tea", "", function_schema=schema)["SKILL.md"], "SKILL.md")


def metier(about: str) -> Compiled:
    entry = {"kind": "code", "language": "python", "source": "result = 1"}
    tool = {"name": "pour", "description": about, "entry": entry, "effect": "read", "risk": "high"}
    block = json.dumps({"metier": {"tools": [tool]}})
    return compiled(f"---\nname: tea\ndescription: Pours tea.\nmetadata: {block}\n---\n", "SKILL.md")


def friday(about: str) -> Compiled:
    action = {"id": "pour", "type": "code", "language": "python", "code": "result = 1", "description": about}
    fields = {"id": "tea", "description": "Pours tea.", "instructions": "Pour.", "actions": [action]}
    return compiled(json.dumps(fields), "skill.json")


def metahuman(about: str) -> Compiled:
    fields: dict[str, Any] = {
        "id": "tea",
        "name": "Tea",
        "description": about,
        "category": "fs",
        "inputs": {},
        "outputs": {},
        "risk": "low",
        "cost": "free",
        "minTrustLevel": "observe",
        "requiresApproval": False,
    }
    return compiled(json.dumps(fields), "tea.json")


@pytest.mark.parametrize("dialect", [amber, metier, friday, metahuman])
def test_a_description_that_a_model_is_not_told_to_its_end_is_said_to_be_too_long(dialect: Any) -> None:
    long = "x" * (1_025 - len(ENDS)) + ENDS
    found: Compiled = dialect(long)
    assert found.skill is not None, found.diagnostics
    assert ENDS not in json.dumps(shaped(found.skill.tools, "mcp"))
    said = [each.message for each in found.diagnostics if each.code == "long_description"]
    assert len(said) == 1
    assert "1025 characters" in said[0] and "1024" in said[0]
    whole: Compiled = dialect(long[1:])
    assert whole.skill is not None
    assert ENDS in json.dumps(shaped(whole.skill.tools, "mcp"))
    assert "long_description" not in [each.code for each in whole.diagnostics]


def test_characters_that_are_spelled_out_count_as_they_are_told() -> None:
    found = amber("\u200b" * 200)
    assert "long_description" in [each.code for each in found.diagnostics]
