"""What XBot's document promises of settings and of where a skill is looked for, beyond what one field at a time shows."""

import json
from pathlib import Path
from typing import Any

import pytest

from machine import Machine
from metier.catalog.listed import Listed
from metier.dialects.xbot import of_contract
from metier.model.skill import Skill

CONTRACT = "export const skill = { id: 'kettle', version: '1.0.0', onEnable() {} };\n"
FIELD = {"key": "volume", "label": "Volume", "type": "number"}


def skill_of(**fields: Any) -> Skill:
    given = {"id": "kettle", "version": "1.0.0", "has_on_enable": True, **fields}
    compiled = of_contract(given, manifest="package.json", location="/skills/kettle", source="installed")
    assert compiled.skill is not None, compiled.diagnostics
    assert compiled.diagnostics == ()
    return compiled.skill


# --- settings


@pytest.mark.parametrize(
    ("settings", "schema", "kept"),
    [
        (None, None, None),
        ({}, None, None),
        ({"defaults": {"volume": 3}}, None, {"defaults": {"volume": 3}}),
        ({"schema": {"fields": [FIELD]}}, {"volume": {"title": "Volume", "type": "number"}}, None),
        ({"sensitive": ["token"]}, {"token": {"x-secret": True}}, None),
    ],
)
def test_defaults_schema_and_sensitive_can_each_be_left_out(settings: Any, schema: Any, kept: Any) -> None:
    skill = skill_of() if settings is None else skill_of(settings=settings)
    found = skill.settings_schema
    assert (found and found["properties"]) == schema
    assert skill.extra.get("settings") == kept


def test_a_field_that_says_all_it_can_is_kept_whole() -> None:
    options = [{"label": "Soft", "value": "soft"}, {"label": "Three", "value": 3}]
    more = {"type": "select", "help": "How it rings", "placeholder": "choose", "secret": True}
    found = skill_of(settings={"schema": {"fields": [{**FIELD, **more, "options": options}]}}).settings_schema
    assert found is not None
    assert found["properties"] == {
        "volume": {
            "title": "Volume",
            "oneOf": [{"const": "soft", "title": "Soft"}, {"const": 3, "title": "Three"}],
            "description": "How it rings",
            "x-placeholder": "choose",
            "x-secret": True,
        }
    }
    bare = skill_of(settings={"schema": {"fields": [FIELD]}}).settings_schema
    assert bare == {"type": "object", "properties": {"volume": {"title": "Volume", "type": "number"}}}


def test_each_capability_can_be_left_out_and_brings_only_itself() -> None:
    given = {"kernel_ops": ["channels.configure"], "channels": ["door"], "network": True}
    for word in (*given, None):
        only = {word: given[word]} if word else {}
        skill = skill_of(capabilities=only)
        assert (skill.permissions.operations == {"channels.configure"}) == (word == "kernel_ops")
        assert (skill.permissions.channels == {"door"}) == (word == "channels")
        assert skill.asks_network == (word == "network")


# --- where a skill is looked for


def package(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "package.json").write_text(
        json.dumps({"name": "kettle", "version": "1.0.0", "main": "index.js"})
    )
    (folder / "index.js").write_text(CONTRACT)
    return folder


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine on which one package is allowed and enabled, and both ways to find it are open."""
    made = Machine(tmp_path)
    names = ["kettle"]
    resolve = {"node_modules": True, "local_paths": ["packages/kettle"]}
    skills = {"allow": names, "enabled": names, "resolve": resolve}
    (made.project / "agent.config.json").write_text(json.dumps({"skills": skills}))
    return made


def kettles(machine: Machine) -> list[Listed]:
    return [each for each in machine.catalog().listed if each.name == "kettle"]


@pytest.mark.parametrize(
    "place",
    [
        "project/kettle",
        "project/packages/other",
        "project/packages/deeper/kettle",
        "project/packages/node_modules/kettle",
        "project/node_modules/pot/node_modules/kettle",
        "project/node_modules/@kettle/kettle",
        "project/lib/node_modules/kettle",
        "node_modules/kettle",
        "home/node_modules/kettle",
        "home/.node_modules/kettle",
        "home/.node_libraries/kettle",
        "home/.metier/node_modules/kettle",
        "home/.metier/skills/kettle",
        "project/skills/kettle",
    ],
)
def test_a_package_that_lies_anywhere_else_is_not_found(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    elsewhere = package(tmp_path / place)
    monkeypatch.setenv("NODE_PATH", str(elsewhere.parent))
    monkeypatch.setenv("PYTHONPATH", str(elsewhere.parent))
    monkeypatch.syspath_prepend(str(elsewhere.parent))
    monkeypatch.chdir(elsewhere.parent)
    assert kettles(machine) == []
    there = package(machine.project / "packages" / "kettle")
    assert [each.folder for each in kettles(machine)] == [str(there)]


def test_a_python_package_that_no_distribution_names_is_not_found(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "path" / "kettle"
    folder.mkdir(parents=True)
    text = "skill = {'id': 'kettle', 'version': '1.0.0', 'on_enable': lambda ctx: None}\n"
    (folder / "__init__.py").write_text(text)
    monkeypatch.syspath_prepend(str(folder.parent))
    assert kettles(machine) == []
    here = machine.project / "packages" / "kettle"
    here.mkdir(parents=True)
    (here / "__init__.py").write_text(text)
    assert [each.folder for each in kettles(machine)] == [str(here)]
