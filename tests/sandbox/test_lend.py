"""Folders that root lends to a sandbox: the run sees what stands there for everybody else."""

import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from jobs import python
from metier.sandbox import bubblewrap, bwrap_line
from metier.sandbox.python import PythonSandbox

# In a mount namespace of its own, for the test needs a mount that nothing else sees.
SCRIPT = """
import os, subprocess, sys
import anyio
from jobs import place, python
from metier.sandbox.bubblewrap import Bubblewrap
from metier.sandbox.landlock import Landlock
from metier.sandbox.python import PythonSandbox

top = sys.argv[1]
subprocess.run(["mount", "-t", "tmpfs", "none", top + "/home/alice"], check=True)
open(top + "/home/alice/mounted", "w").close()

async def listed(wall):
    try:
        job = python(f"import os\\nresult = os.listdir({top!r} + '/home/alice')", places=(place(top + "/home"),))
        return (await PythonSandbox(wall).run(job)).value
    finally:
        await wall.aclose()

for kind in (Bubblewrap, Landlock):
    print(os.listdir(top + "/home/alice"), anyio.run(listed, kind()))
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root lends, and only root mounts")
def test_a_folder_with_a_mount_in_it_shows_what_is_mounted_and_not_what_lies_below(tmp_path: Path) -> None:
    (tmp_path / "home/alice").mkdir(parents=True)
    (tmp_path / "home/alice/covered").touch()
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", sys.executable, "-c", SCRIPT, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=50,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout.splitlines() == ["['mounted'] ['mounted']"] * 2, done.stderr


# What is bound over the real one is seen in this mount namespace only.
HANGING = """
import os, subprocess, sys
import anyio
from metier.sandbox import bwrap_line, lend
from metier.sandbox.bubblewrap import Bubblewrap

subprocess.run(["mount", "--bind", sys.argv[1], bwrap_line.find()], check=True)
lend.TELL_SECONDS = 0.5
before = len(os.listdir("/proc/self/fd"))
wall = Bubblewrap()
print([each.what for each in wall.missing()])
print(wall.missing()[0].why)
print(len(os.listdir("/proc/self/fd")) - before, "descriptors more")
anyio.run(wall.aclose)
"""


@pytest.mark.skipif(
    os.getuid() != 0, reason="only root asks bubblewrap for an identity, and only root mounts"
)
def test_a_bubblewrap_that_hangs_is_waited_for_no_longer_than_it_may_take(tmp_path: Path) -> None:
    hangs = tmp_path / "bwrap"
    hangs.write_text("#!/bin/sh\nexec sleep 40\n")
    hangs.chmod(0o755)
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", sys.executable, "-c", HANGING, str(hangs)],
        capture_output=True,
        text=True,
        timeout=20,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    missing, why, more = done.stdout.splitlines() or [done.stderr, "", ""]
    assert missing == "['namespaces for ordinary users']"
    assert why == "root could not make an identity for a sandbox: bubblewrap said nothing of it for 0.5 s"
    assert more == "0 descriptors more"


# The real one makes the identity; this one only tells of a first process, and stays.
TELLS_AND_HANGS = """#!/usr/bin/python3 -IS
import os, sys, time
if "--info-fd" in sys.argv:
    os.execv("BWRAP", ["bwrap", *sys.argv[1:]])
words = os.read(int(sys.argv[sys.argv.index("--args") + 1]), 1 << 20).split(b"\\0")
os.write(int(words[words.index(b"--json-status-fd") + 1]), b'{"child-pid": %d}\\n' % os.getpid())
time.sleep(40)
"""


@pytest.mark.timeout(20)
def test_a_bubblewrap_that_tells_its_first_process_and_hangs_is_waited_for_no_longer_than_it_may_take(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for each in (tmp_path, *tmp_path.parents[:2]):
        each.chmod(0o755)  # whoever root lends to can start it
    real = bwrap_line.find()
    assert real
    hangs = tmp_path / "bwrap"
    hangs.write_text(TELLS_AND_HANGS.replace("BWRAP", real))
    hangs.chmod(0o755)
    assert not any(each.what.startswith("namespaces") for each in bubblewrap.Bubblewrap().missing())
    monkeypatch.setattr(bwrap_line, "find", lambda: str(hangs))
    monkeypatch.setattr(bubblewrap, "BUILD_SECONDS", 0.5)
    assert bubblewrap.Bubblewrap().missing()  # an identity may be kept from here on
    before = len(os.listdir("/proc/self/fd"))
    missing = bubblewrap.Bubblewrap().missing()
    assert missing[0].why == "bubblewrap did not come to an end in 0.5 s"
    assert len(os.listdir("/proc/self/fd")) == before
    # Two that lend have one place for it, and whoever came first finds there what the second has left.
    monkeypatch.undo()
    wall = bubblewrap.Bubblewrap()
    try:
        assert anyio.run(PythonSandbox(wall).run, python("result = 7")).value == 7
    finally:
        anyio.run(wall.aclose)
