"""Runs a test's script as an ordinary user, where the tests themselves are root's."""

import os
import shutil
import subprocess
import sys
import tempfile

import pytest

NOBODY = 65534


def run_as_user(script: str) -> str:
    """What the script prints, with this package and the tests' own modules to import."""
    here = os.path.dirname(os.path.realpath(__file__))
    source = os.path.join(os.path.dirname(here), "src")
    more = [source, here, *(path for path in sys.path if path.endswith("site-packages"))]
    root = os.geteuid() == 0
    python = _for_everybody() if root else sys.executable
    if python is None:
        pytest.skip(f"no Python {sys.version_info[:2]} here that another user may start")
    with tempfile.TemporaryDirectory(prefix="other-user-") as folder:
        as_user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if root else {}
        if root:
            os.chown(folder, NOBODY, NOBODY)
        done = subprocess.run(
            [python, "-c", f"import sys\nsys.path[:0] = {more!r}\n{script}"], capture_output=True, text=True, cwd=folder,
            env={"HOME": folder, "TMPDIR": folder, "PATH": "/usr/bin:/bin"}, timeout=50, **as_user,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def _for_everybody() -> str | None:
    """A Python of this version that every user can start."""
    wanted = f"import sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]!r})"
    for path in (os.path.realpath(sys.executable), shutil.which("python3", path="/usr/bin")):
        if path is None:
            continue
        try:
            done = subprocess.run(
                [path, "-c", wanted], user=NOBODY, group=NOBODY, capture_output=True, env={}, cwd="/"
            )
        except OSError:
            continue
        if done.returncode == 0:
            return path
    return None
