"""The benchmark of the console: it looks at every page there is, and fails where one takes too long. How long they take: `make console`."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from metier.doors.http.console.routes import PAGES

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "console.py"
SMALL = ("--json", "--skills", "200", "--records", "1000", "--pending", "20")


@pytest.fixture
def program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmark_console", PROGRAM)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


KNOWN = dict.fromkeys(
    ("approval", "over", "last_approvals", "last_skills", "seq", "call", "thread", "day"), "1"
)


def test_every_page_has_an_address_and_one_that_was_forgotten_is_an_error(program: ModuleType) -> None:
    assert set(program.PATHS) == {page.path for page in PAGES}
    names = [name for name, _, _ in program.addresses(KNOWN)]
    assert len(names) == len(set(names))
    del program.PATHS["/channels"]
    with pytest.raises(SystemExit, match="/channels"):
        list(program.addresses(KNOWN))


def test_an_address_of_a_page_that_is_gone_is_an_error(program: ModuleType) -> None:
    program.PATHS["/gone"] = {"gone": "/gone"}
    with pytest.raises(SystemExit, match="no such page: /gone"):
        list(program.addresses(KNOWN))


def measured(folder: Path, *more: str) -> tuple[int, dict[str, Any]]:
    line = [sys.executable, str(PROGRAM), *SMALL, *more]
    done = subprocess.run(line, capture_output=True, text=True, encoding="utf-8", timeout=150, cwd=folder)
    assert done.stdout, done.stderr[-4_000:]
    return done.returncode, json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.timeout(320)
def test_all_pages_are_measured_and_one_that_is_over_the_limit_fails(
    tmp_path: Path, program: ModuleType
) -> None:
    status, found = measured(tmp_path, "--limit-ms", "60000")
    assert (status, found["over_limit"]) == (0, [])
    assert set(found["pages"]) == {name for name, _, _ in program.addresses(KNOWN)}
    assert all(each["ever_ms"] > 0 and each["first_ms"] > 0 for each in found["pages"].values())
    status, found = measured(tmp_path, "--limit-ms", "0", "--only", "around", "policy")
    assert (status, found["over_limit"]) == (1, ["around", "policy"])
