"""Every real skill through `metier skills lint --json`, as somebody would check a larger set."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from machine import Machine

SEED_FIXTURES = {
    "npm-openclaw/skills/sonoscli/SKILL.md": "sonoscli",
    "npm-openclaw/skills/github/SKILL.md": "github",
    "peterskoett+self-improving-agent/self-improving-agent/SKILL.md": "self-improving-agent",
}


@pytest.fixture(scope="module")
def linted(corpus: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    machine = Machine(tmp_path_factory.mktemp("machine"))
    for name in corpus.bins:
        machine.program(name)
    done = subprocess.run(
        [str(Path(sys.executable).with_name("metier")), "skills", "lint", ".", "--json"],
        cwd=corpus.root,
        env=machine.environ,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1  # some have no description
    assert b"Traceback" not in done.stderr
    return {each["path"].removeprefix("./"): each for each in json.loads(done.stdout)}


def test_every_file_is_loaded_or_refused_with_line_and_reason(
    corpus: Any, linted: dict[str, dict[str, Any]]
) -> None:
    assert linted.keys() == {row["path"] for row in corpus.oracle}
    for each in linted.values():
        errors = [found for found in each["diagnostics"] if found["severity"] == "error"]
        assert (each["status"] == "broken") == bool(errors)
        assert all(found["line"] and found["message"] for found in errors), each["path"]


def test_rel_21_every_file_openclaw_loads_is_loaded_with_the_same_meaning(
    corpus: Any, linted: dict[str, dict[str, Any]]
) -> None:
    """The blocks `clawdis` and `moltbot`, which OpenClaw no longer reads, are the one deliberate difference."""
    differ: list[str] = []
    for row in corpus.oracle:
        if "error" in row:
            continue
        each = linted[row["path"]]
        assert each["status"] != "broken", each
        metadata = each["metadata"]
        if metadata is not None:
            metadata = {key: value for key, value in metadata.items() if key != "extra"}
        ours = (each["name"], each["description"], metadata, each["status"] == "usable")
        if ours != (row["name"], row["description"], row.get("metadata"), row["eligible"]):
            differ.append(row["path"])
    deliberate = [path for path in differ if _has_old_block(Path(corpus.root, path))]
    assert differ == deliberate
    assert len(deliberate) == 8


def _has_old_block(path: Path) -> bool:
    head = path.read_text(encoding="utf-8").split("\n---", 2)[0]
    return ("clawdis" in head or "moltbot" in head) and "openclaw" not in head.replace("openclaw/", "")


@pytest.mark.parametrize("path", SEED_FIXTURES)
def test_the_skills_the_source_design_names_as_fixtures_load(
    linted: dict[str, dict[str, Any]], path: str
) -> None:
    assert linted[path]["status"] in ("usable", "unavailable")
    assert linted[path]["name"] == SEED_FIXTURES[path]
