"""Whatever a confined run starts is confined as it is: its children, theirs, and the programs it asks the host for."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from jobs import command, ending, place, python, shell
from machine import Machine
from metier.model.entry import PythonHandler
from metier.model.guarantee import Guarantee
from metier.model.job import Job, Report
from metier.model.outcome import Completed, Failed
from metier.model.permission import PermissionSet
from metier.runtime.own import OwnRun, run_own
from metier.sandbox.bubblewrap import Bubblewrap
from metier.sandbox.landlock import Landlock
from metier.sandbox.native import NativeSandbox
from metier.sandbox.python import PythonSandbox

walls = pytest.mark.parametrize("kind", [Bubblewrap, Landlock])
CHILD = """
import os
def tried():
    try:
        with open(SECRET) as file:
            return file.read()
    except OSError as error:
        return "no"
def child(generations):
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setsid()
        said = tried() if generations == 1 else child(generations - 1)
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    said = os.read(reading, 1000).decode()
    os.close(reading)
    os.wait()
    return said
result = [tried(), child(1), child(3)]
"""


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "outside" / "secret.txt"
    file.parent.mkdir()
    file.write_text("hunter2", encoding="utf-8")
    return file


def one(kind: type[Bubblewrap | Landlock], job: Job) -> Report:
    async def go() -> Report:
        wall = kind()
        try:
            native = NativeSandbox(wall)
            return await (native if native.takes(job) else PythonSandbox(wall)).run(job)
        finally:
            await wall.aclose()

    return anyio.run(go)


def source(secret: Path) -> str:
    return f"SECRET = {str(secret)!r}\n{CHILD}"


@walls
def test_cap_08_children_of_code_are_confined_as_it_is(kind: Any, secret: Path) -> None:
    report = one(kind, python(source(secret)))
    assert report.value == ["no", "no", "no"], ending(report)
    allowed = one(kind, python(source(secret), places=(place(secret.parent),)))
    assert allowed.value == ["hunter2"] * 3, ending(allowed)


def test_cap_08_outside_the_wall_the_same_children_read_it(secret: Path) -> None:
    code = f"{source(secret)}\nimport json; print(json.dumps(result))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == ["hunter2"] * 3


@walls
@pytest.mark.parametrize(
    "line", ["cat {}", "(cat {})", "nohup cat {} & wait", "bash -c 'cat {}'", "setsid cat {}"]
)
def test_cap_08_programs_that_a_program_starts_are_confined_as_it_is(
    kind: Any, secret: Path, line: str
) -> None:
    script = line.format(secret)
    assert subprocess.run(["bash", "-c", script], capture_output=True, text=True).stdout == "hunter2"
    report = one(kind, shell(f"{script} 2>/dev/null || true"))
    assert "hunter2" not in report.stdout, ending(report)
    granted = one(kind, shell(script, places=(place(secret.parent),)))
    assert "hunter2" in granted.stdout, ending(granted)


@walls
def test_cmd_32_a_program_that_needs_no_other_starts_none_whatever_it_is_told(
    kind: Any, secret: Path
) -> None:
    def told(script: str) -> Report:
        asked = command("sed", "-n", script, os.path.realpath(secret), places=(place(secret.parent),))
        return one(kind, replace(asked, needs=asked.needs | {Guarantee.VIOLATIONS_SEEN}))

    control = subprocess.run(["sed", "-n", "1e echo started", secret], capture_output=True, text=True)
    assert control.stdout == "started\n"
    assert told("1e echo started").stdout == ""
    assert told("1p").stdout == "hunter2"


def test_cap_08_a_program_that_code_has_run_for_it_is_confined_as_the_code_is(
    tmp_path: Path, secret: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(Path(os.path.realpath(tmp_path)))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    code = f"""
async def main(params, context):
    try:
        return await context.exec(["cat", {str(os.path.realpath(secret))!r}])
    except Exception as error:
        return type(error).__name__
"""

    def ran(**more: frozenset[str]) -> Completed | Failed:
        wanted = OwnRun(
            name="main.py",
            data=code.encode(),
            entry=PythonHandler(path="main.py"),
            permissions=PermissionSet(binaries=frozenset({"cat"}), **more),
        )
        outcome = anyio.run(run_own, machine.settings(), wanted)
        assert isinstance(outcome, Completed | Failed), outcome
        return outcome

    assert "hunter2" not in str(ran())
    granted = ran(reads=frozenset({str(os.path.realpath(secret.parent))}))
    assert isinstance(granted, Completed), granted
    assert granted.value == "hunter2"
