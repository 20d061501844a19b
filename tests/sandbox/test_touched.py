"""What Python code looked for and could not have is shown to its author."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from jobs import ending, place, python
from metier.model.job import Report
from metier.sandbox.bubblewrap import Bubblewrap
from metier.sandbox.landlock import Landlock
from metier.sandbox.python import PythonSandbox

walls = pytest.mark.parametrize("kind", [Bubblewrap, Landlock])


def run(kind: type[Bubblewrap] | type[Landlock], job: Any) -> Report:
    async def go() -> Report:
        wall = kind()
        try:
            return await PythonSandbox(wall).run(job)
        finally:
            await wall.aclose()

    return anyio.run(go)


@walls
def test_files_it_could_not_have_are_named_and_those_it_had_are_not(
    kind: type[Bubblewrap] | type[Landlock], tmp_path: Path
) -> None:
    granted, other = tmp_path / "granted", tmp_path / "other"
    for folder in (granted, other):
        folder.mkdir()
        (folder / "file").write_text("x")
    source = f"""
import os, json, statistics
def tried(act):
    try: act()
    except OSError: pass
tried(lambda: open({str(granted / "file")!r}).close())
tried(lambda: open({str(other / "file")!r}))
tried(lambda: open({str(other / "new")!r}, "w"))
tried(lambda: os.listdir({str(other)!r}))
tried(lambda: open({str(granted / "file")!r}, "a"))
tried(lambda: open({str(granted / "missing")!r}))
tried(lambda: open("missing"))
tried(lambda: open("missing/too"))
open("mine", "w").write("x"); open("mine").close(); os.mkdir("folder")
result = 1
"""
    report = run(kind, python(source, places=(place(granted),)))
    assert report.value == 1, ending(report)
    assert {(each.kind, each.detail) for each in report.denials} == {
        ("read", str(other / "file")),
        ("write", str(other / "new")),
        ("read", str(other)),
        ("write", str(granted / "file")),
    }
    assert report.violations == ()


@walls
def test_what_it_was_refused_is_told_also_when_it_failed_of_it(
    kind: type[Bubblewrap] | type[Landlock], tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    report = run(kind, python(f"open({str(secret)!r})"))
    assert report.ending == "raised"
    assert [(each.kind, each.detail) for each in report.denials] == [("read", str(secret))]


def test_what_is_not_there_was_refused_to_nobody(tmp_path: Path) -> None:
    source = f"""
import os
names = ["/usr/nofile", "/tmp/nofile", os.path.expanduser("~/.config/x"), {str(tmp_path / "nofile")!r}]
for name in [*names, "/srv/" + "x" * 5000]:
    try: open(name)
    except OSError: pass
result = 1
"""
    report = run(Bubblewrap, python(source))
    assert (report.value, report.denials) == (1, ()), ending(report)


def test_names_that_are_no_text_and_endless_ones_do_no_harm(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / f"{number}").touch()
    source = f"""
for name in [b"/srv/\\xff", "/srv/" + "x" * 5000, "/srv/\\ud800"] + [{str(tmp_path)!r} + f"/{{n}}" for n in range(100)]:
    try: open(name)
    except (OSError, ValueError): pass
class Silent(Exception):
    def __str__(self): raise self
raise Silent
"""
    report = run(Bubblewrap, python(source))
    assert (report.ending, report.fault and report.fault.name) == ("raised", "Silent"), ending(report)
    assert 50 < len(report.denials) <= 64
