"""How long the command line takes to start, as multiples of a Python that does nothing.

    python benchmarks/start.py [--json]

Measured from outside, with the `metier` command beside this interpreter and its output in a pipe. All byte code is
compiled into a folder of its own first, for Python's library too, whatever this machine does about byte code.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable

from measure import alternate, make_tree

SKILLS = 60
ROUNDS = 20


def runner(command: list[str], environment: dict[str, str], folder: str) -> Callable[[], bytes]:
    """A job that runs the command to its end and gives what it printed."""

    def run() -> bytes:
        done = subprocess.run(command, env=environment, cwd=folder, capture_output=True)
        if done.returncode:
            sys.exit(f"{' '.join(command)} failed:\n{done.stderr.decode(errors='replace')}")
        return done.stdout

    return run


def measured(metier: str, folder: str) -> dict[str, float]:
    """Best seconds of each command; `folder` becomes the user's home and holds nothing but the skills."""
    home = os.path.join(folder, ".metier")
    make_tree(os.path.join(home, "skills"), SKILLS)
    project = os.path.join(folder, "project")
    os.mkdir(project)
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "METIER"))
    }
    environment |= {
        "HOME": folder,
        "METIER_HOME": home,
        "PYTHONPYCACHEPREFIX": os.path.join(folder, "bytecode"),
    }
    run = {
        "python": runner([sys.executable, "-c", "pass"], environment, project),
        "click": runner([sys.executable, "-c", "import click"], environment, project),
        "help": runner([metier, "--help"], environment, project),
        "list": runner([metier, "skills", "list"], environment, project),
    }
    for job in run.values():
        job()
    lines = len(run["list"]().splitlines())
    if lines < SKILLS:
        sys.exit(
            f"metier skills list shows {lines} lines for {SKILLS} skills, so its time would mean nothing."
        )
    cache = os.path.join(home, "cache")
    if not os.path.isdir(cache):
        sys.exit(
            "metier skills list left no cache behind, so the first and the later runs would be the same."
        )

    best = dict.fromkeys((*run, "list_first"), float("inf"))
    for _ in range(ROUNDS):
        for name, seconds in alternate(run, 1).items():
            best[name] = min(best[name], seconds)
        shutil.rmtree(cache)
        first = alternate({"list_first": run["list"]}, 1)  # and writes the cache for the next round
        best["list_first"] = min(best["list_first"], first["list_first"])
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one flat object, name to number")
    given = parser.parse_args()
    metier = os.path.join(os.path.dirname(sys.executable), "metier")
    if not os.path.exists(metier):
        sys.exit(
            f"There is no {metier}. Install Metier for this interpreter: {sys.executable} -m pip install -e ."
        )
    with tempfile.TemporaryDirectory() as folder:
        seconds = measured(metier, os.path.realpath(folder))
    python = seconds.pop("python")
    if given.json:
        print(json.dumps({f"{name}_over_python": round(each / python, 3) for name, each in seconds.items()}))
        return
    names = {
        "click": 'python -c "import click"',
        "help": "metier --help",
        "list": f"metier skills list ({SKILLS} skills)",
        "list_first": "  the same without a cache",
    }
    print(f"{'':32}{'ms':>8}{'× python':>10}")
    print(f"{'python -c pass':32}{python * 1e3:>8.1f}{1:>10.2f}")
    for name, each in seconds.items():
        print(f"{names[name]:32}{each * 1e3:>8.1f}{each / python:>10.2f}")


if __name__ == "__main__":
    main()
