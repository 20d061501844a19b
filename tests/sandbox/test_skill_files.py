"""What a skill brings along: never imported by us, never changed by itself, never swapped under a run."""

import ast
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

from jobs import ending, job, place
from machine import Machine, write_skill
from metier.model.entry import PythonHandler
from metier.model.job import Job, Report
from metier.sandbox import bwrap_line
from metier.sandbox.bubblewrap import Bubblewrap
from metier.sandbox.landlock import Landlock
from metier.sandbox.python import PythonSandbox
from metier.sandbox.wall import Wall

SOURCE = Path(__file__).parents[2] / "src" / "metier"


def run(given: Job, wall: Wall) -> Report:
    async def go() -> Report:
        try:
            return await PythonSandbox(wall).run(given)
        finally:
            await wall.aclose()

    return anyio.run(go)


def test_py_05_nothing_in_the_runtime_revives_objects_from_data() -> None:
    risky = {"pickle", "marshal", "shelve", "dill", "yaml", "jsonpickle"}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            assert not {name.split(".")[0] for name in names} & risky, path


def test_py_06_looking_at_skills_runs_nothing_of_them(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "m")
    mark = tmp_path / "mark"
    folder = write_skill(machine.state / "skills" / "greedy")
    greedy = f"with open({str(mark)!r}, 'w') as file:\n    file.write('was here')\n"
    for name in ("handler.py", "__init__.py", "conftest.py", "sitecustomize.py", "hooks/handler.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(greedy)
    for words in (("list",), ("check",), ("info", "greedy"), ("lint", str(folder)), ("trust", "greedy")):
        machine.metier("skills", *words, check=None)
        assert not mark.exists(), words
    exec(compile(greedy, "handler.py", "exec"))  # noqa: S102  where it is run, it leaves its mark
    assert mark.exists()


@pytest.mark.parametrize("wall", [Bubblewrap, Landlock])
def test_sup_19_a_skill_cannot_change_its_own_files_while_it_runs(tmp_path: Path, wall: type[Wall]) -> None:
    source = (
        "import os, pathlib\n"
        "def main(params, context):\n"
        "    done = []\n"
        "    for act in (lambda: pathlib.Path(__file__).write_text('# more'), lambda: os.unlink(__file__),\n"
        "                lambda: os.rename(__file__, __file__ + '.old'), lambda: os.mkdir(__file__ + '2')):\n"
        "        try:\n            act()\n            done.append('did')\n"
        "        except OSError as error:\n            done.append(error.errno)\n"
        "    return done\n"
    )
    folder = tmp_path / "skill"
    folder.mkdir()
    (folder / "handler.py").write_text(source)
    given = job(PythonHandler(path="handler.py"), bundle=os.path.realpath(folder))
    report = run(given, wall())
    assert isinstance(report.value, list), ending(report)
    assert "did" not in report.value
    assert (folder / "handler.py").read_text() == source
    assert [path.name for path in folder.iterdir()] == ["handler.py"]
    names: dict[str, object] = {"__file__": str(folder / "handler.py")}
    exec(compile(source, "handler.py", "exec"), names)  # noqa: S102
    assert "did" in names["main"](None, None)  # type: ignore[operator]  without the wall it works


WAITING = """import os, time
def main(params, context):
    os.mkdir("ready")
    deadline = time.monotonic() + 20
    while not os.path.exists("go") and time.monotonic() < deadline:
        time.sleep(0.01)
    return open(__file__).read()
"""


def test_sup_10_what_runs_is_the_snapshot_and_not_what_lies_in_the_folder_now(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "m")
    file, shared = tmp_path / "code.py", tmp_path / "shared"
    shared.mkdir()
    file.write_text(WAITING)
    running = subprocess.Popen(
        [Path(sys.executable).with_name("metier"), "run", "--json", str(file), "--allow", f"write={shared}"],
        env=machine.environ,
        cwd=shared,
        stdout=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 20
    while not (shared / "ready").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    file.write_text("def main(params, context):\n    return 'changed'\n")
    (shared / "go").touch()
    said, _ = running.communicate(timeout=30)
    assert json.loads(said)["value"] == WAITING
    assert machine.json("run", "--json", str(file))["value"] == "changed"


def test_lnx_17_no_mask_is_ever_laid_over_a_path() -> None:
    words = bwrap_line.options(
        places=[(place("/etc"), 3)],
        temporary="/tmp",
        temporary_bytes=1,
        environment={},
        cwd="",
    )
    masks = [
        words[number + 2]
        for number, word in enumerate(words)
        if word in ("--ro-bind", "--bind", "--dev-bind", "--ro-bind-data", "--bind-data", "--file")
        and words[number + 1] == "/dev/null"
    ]
    assert masks == ["/dev/null"], "only the null device itself"


@pytest.mark.parametrize("path", ["missing.py", "handler", "../handler.py"])
def test_a_file_that_is_not_there_is_said_without_a_folder_of_the_host(tmp_path: Path, path: str) -> None:
    (tmp_path / "handler").mkdir()
    report = run(job(PythonHandler(path=path), bundle=os.path.realpath(tmp_path)), Bubblewrap())
    assert report.ending == "not_started"
    assert report.fault is not None
    assert "the skill" in report.fault.message
    assert str(tmp_path) not in report.fault.message + report.stderr
