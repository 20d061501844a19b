"""What Amber's document promises of loading: the manifest as it is written, the folder it lies in, and what reaches a model."""

import json
from pathlib import Path
from typing import Any

import pytest

from machine import Machine
from metier.catalog.listed import Listed
from metier.dialects.manifest import instructions
from metier.dialects.skill_md import compile_skill
from metier.disclosure.schemas import shaped
from metier.model.entry import ScriptHandler
from phone import amber_skill

RETURNS = "module.exports = async () => ({ success: true });\n"
BODY = "\n# Kettle\n\nBoils *water*.\n\n---\n\n- not `metadata: {}`\n"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def put(root: Path, name: str, files: dict[str, str]) -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    for file, text in files.items():
        (folder / file).write_text(text, encoding="utf-8")
    return folder


def listed(machine: Machine, name: str) -> Listed:
    (found,) = [each for each in machine.catalog().listed if each.name == name]
    return found


def described(description: str) -> dict[str, Any]:
    """The function as a model of OpenAI's is shown it."""
    function = {
        "name": "boil",
        "description": description,
        "parameters": {"type": "object", "properties": {}},
    }
    text = amber_skill("kettle", "", function_schema=function)["SKILL.md"]
    skill = compile_skill(text.encode(), folder="kettle").skill
    assert skill is not None
    (shown,) = shaped(skill.tools, "openai")
    made = shown["function"]
    assert isinstance(made, dict)
    return made


def test_a_manifest_is_frontmatter_with_one_line_of_json_and_a_body_in_markdown() -> None:
    head = amber_skill("kettle", "", timeout_ms=1234)["SKILL.md"]
    (line,) = [each for each in head.splitlines() if each.startswith("metadata: ")]
    assert json.loads(line.removeprefix("metadata: "))["amber"]["timeout_ms"] == 1234
    data = (head + BODY).encode()
    found = compile_skill(data, folder="kettle")
    assert found.skill is not None and not found.diagnostics
    assert (found.skill.dialect, found.skill.name, found.skill.version) == ("amber", "kettle", "1.0.0")
    assert found.skill.tools[0].limits.timeout == 1.234
    assert instructions(data, "SKILL.md").strip() == BODY.strip()


@pytest.mark.parametrize(
    "description",
    [
        "Boil  water.\nIMPORTANT: ask 'Shall I?' first\tand wait.",
        "Kocht „Wasser“ – bitte nur nach einem Ja. ☕ {braces} <tags> `code` \\n",
        "x" * 1_024,
    ],
    ids=["lines", "signs", "long"],
)
def test_the_description_of_a_function_reaches_a_model_as_the_manifest_has_it(description: str) -> None:
    assert described(description)["description"] == description


def test_every_subfolder_is_a_skill_with_the_block_of_its_own_manifest(machine: Machine) -> None:
    root = machine.project / "amber-skills"
    limits = {"kettle": 1500, "teapot": 2500}
    for name, limit in limits.items():
        put(root, name, amber_skill(name, RETURNS, timeout_ms=limit))
    put(root, "notes", {"README.md": "no skill"})
    found = {each.name: each for each in machine.catalog().listed if each.root.path == str(root)}
    assert sorted(found) == sorted(limits)
    for name, each in found.items():
        assert each.skill is not None and each.skill.dialect == "amber"
        (tool,) = each.skill.tools
        assert (tool.name, tool.outward, tool.limits.timeout) == (f"{name}/{name}", name, limits[name] / 1000)


def test_a_loaded_skill_has_its_manifest_its_handler_and_its_path(machine: Machine) -> None:
    folder = put(machine.skills, "kettle", amber_skill("kettle", RETURNS))
    each = listed(machine, "kettle")
    assert each.shown == "usable"
    assert (each.folder, each.manifest) == (str(folder), "SKILL.md")
    assert each.skill is not None
    assert (each.skill.location, each.skill.version, each.skill.description) == (
        str(folder),
        "1.0.0",
        "Does it.",
    )
    (tool,) = each.skill.tools
    assert tool.entry == ScriptHandler(path="handler.js", language="javascript")


def test_a_manifest_without_a_handler_beside_it_is_reported_and_not_loaded(machine: Machine) -> None:
    folder = put(machine.skills, "kettle", {"SKILL.md": amber_skill("kettle", "")["SKILL.md"]})
    each = listed(machine, "kettle")
    assert (each.shown, each.skill) == ("broken", None)
    assert "handler.js" in each.why
    (folder / "handler.js").write_text(RETURNS, encoding="utf-8")
    assert listed(machine, "kettle").shown == "usable", "control: it was the handler that was missing"


def test_the_network_has_to_be_asked_for_and_is_then_the_hosts_that_the_operator_names(
    machine: Machine,
) -> None:
    for name, permissions in {"asks": {"network": True}, "not": {"network": False}, "silent": {}}.items():
        put(machine.skills, name, amber_skill(name, RETURNS, permissions=permissions))
    each = listed(machine, "asks")
    assert (each.shown, [missing.type for missing in each.missing]) == ("unavailable", ["hosts"])
    assert each.skill is not None and not each.skill.permissions.hosts
    named = "".join(
        f'[skills.entries.{name}]\nhosts = ["tea.example"]\n' for name in ("asks", "not", "silent")
    )
    (machine.state / "metier.toml").write_text(named, encoding="utf-8")
    reach = {}
    for name in ("asks", "not", "silent"):
        each = listed(machine, name)
        assert each.shown == "usable" and each.skill is not None
        reach[name] = (each.skill.permissions.hosts, each.skill.tools[0].permissions.hosts)
    assert reach["asks"] == ({"tea.example"}, {"tea.example"})
    assert reach["not"] == reach["silent"] == (frozenset(), frozenset()), (
        "nobody gets what he did not ask for"
    )
