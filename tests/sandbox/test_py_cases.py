"""Attacks by Python code, by case. The language is no wall; the wall is around it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from kit_backends import bubblewrap_python, holds, landlock_python
from metier.model.entry import InlineCode
from metier.model.job import Report
from metier.testing.sandbox_kit.backend import Backend
from metier.testing.sandbox_kit.bench import Bench
from metier.testing.sandbox_kit.guest import Prepared

Make = Callable[[], Backend]
walls = pytest.mark.parametrize("make", [bubblewrap_python, landlock_python])


def run(make: Make, folder: Path, source: str, *, bundle: str = "", packages: tuple[str, ...] = ()) -> Report:
    async def body() -> Report:
        backend = make()
        opened = backend.open(str(folder))
        try:
            bench = Bench(opened.sandbox, backend, str(folder))
            prepared = Prepared(entry=InlineCode(language="python", source=source), bundle=bundle)
            return await opened.sandbox.run(bench.job(prepared, packages=packages))
        finally:
            await opened.aclose()

    return anyio.run(body)


@walls
def test_py_01_climbing_from_plain_objects_leads_to_the_same_wall(make: Make, tmp_path: Path) -> None:
    holds(53, make, tmp_path)


@walls
def test_py_01_the_interpreter_is_whole_inside(make: Make, tmp_path: Path) -> None:
    source = "result = len(().__class__.__mro__[1].__subclasses__()) > 100 and __import__('os').getpid() > 0"
    assert run(make, tmp_path, source).value is True


FOREIGN = """
import ctypes, os, subprocess
libc, found = ctypes.CDLL(None, use_errno=True), {}
name = FILE.encode()
number = libc.open(name, 0)
found["open"] = os.read(number, 9).decode() if number >= 0 else "refused"
libc.fopen.restype = ctypes.c_void_p
found["fopen"] = "opened" if libc.fopen(name, b"r") else "refused"
found["rename"] = "renamed" if libc.rename(name, name + b".2") == 0 else "refused"
found["system"] = os.system("cat " + FILE + " 2>&1 | grep -q secret")
found["subprocess"] = subprocess.run(["/bin/cat", FILE], capture_output=True, text=True).stdout
result = found
"""


@walls
def test_py_02_files_are_out_of_reach_for_foreign_functions_and_other_programs_too(
    make: Make, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    file = outside / "file"
    file.write_text("secret")
    source = FOREIGN.replace("FILE", repr(str(file)))
    (tmp_path / "run").mkdir()
    report = run(make, tmp_path / "run", source)
    refused = {"open": "refused", "fopen": "refused", "rename": "refused", "subprocess": ""}
    assert isinstance(report.value, dict), report
    assert report.value.pop("system") != 0
    assert report.value == refused
    assert file.read_text() == "secret"
    found: dict[str, Any] = {}
    exec(source, found)  # noqa: S102  the same without a wall
    assert found["result"]["open"] == "secret"
    assert (found["result"]["fopen"], found["result"]["rename"]) == ("opened", "renamed")


@walls
def test_py_02_sockets_are_refused_and_counted_but_are_no_violation(make: Make, tmp_path: Path) -> None:
    report = run(make, tmp_path, "import socket\nsocket.socket()")
    assert report.ending == "raised"
    assert [(each.kind, each.detail) for each in report.denials] == [("socket", "AF_INET")]
    assert report.violations == ()


@walls
def test_py_03_start_up_hooks_in_the_skill_are_not_run(make: Make, tmp_path: Path) -> None:
    holds(45, make, tmp_path)


@walls
def test_py_04_a_module_of_the_skill_never_stands_in_for_a_standard_one(make: Make, tmp_path: Path) -> None:
    shadow = tmp_path / "shadow"
    shadow.mkdir()
    for name in ("json", "asyncio", "os", "statistics"):
        (shadow / f"{name}.py").write_text("raise SystemError('planted')\n")
    (shadow / "own.py").write_text("VALUE = 7\n")
    source = "import json, asyncio, os, statistics, own\nresult = [statistics.mean([1, 3]), own.VALUE]"
    assert run(make, tmp_path, source, bundle=str(shadow)).value == [2, 7]


@walls
def test_py_07_only_plain_data_comes_back(make: Make, tmp_path: Path) -> None:
    holds(34, make, tmp_path)


@walls
def test_py_08_a_package_that_acts_while_it_is_loaded_acts_inside(make: Make, tmp_path: Path) -> None:
    packages, outside = tmp_path / "packages", tmp_path / "outside"
    for folder in (packages / "wheel", outside):
        folder.mkdir(parents=True)
    (outside / "secret").write_text("secret")
    (packages / "wheel.pth").write_text("import os; os.environ['PLANTED'] = '1'\n")
    (packages / "wheel" / "__init__.py").write_text(
        "import ctypes, os\n"
        "libc = ctypes.CDLL(None)  # as the constructor of a native wheel would\n"
        f"OPENED = [libc.open({str(outside / 'secret').encode()!r}, 0), libc.open(b'/etc/shadow', 0)]\n"
        f"OPENED.append(libc.open({str(outside / 'made').encode()!r}, os.O_CREAT | os.O_WRONLY, 0o600))\n"
    )
    source = "import os, wheel\nresult = [wheel.OPENED, os.environ.get('PLANTED')]"
    assert run(make, tmp_path, source, packages=(str(packages),)).value == [[-1, -1, -1], None]
    assert [path.name for path in outside.iterdir()] == ["secret"]
