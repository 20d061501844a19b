"""How long it takes from a folder of skills to the text a model is shown, as multiples of merely reading the files.

    python benchmarks/load.py [--skills N | --root DIR] [--sizes 1000,5000,20000] [--json]

Everything is measured in one run on one machine, so the ratios mean something and the milliseconds do not.
Peers that are installed (`pip install metier[bench]`) are put into the same table.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from itertools import count
from typing import Any, NamedTuple

from measure import Tree, alternate, found_tree, make_tree, peak_mb, reset_peak
from metier.catalog.catalog import Catalog
from metier.catalog.here import catalog_here
from metier.config.load import load as load_settings
from metier.disclosure.prompt import Made, Wanted, prompt
from peers import PEERS

HERE = os.path.dirname(os.path.abspath(__file__))


class Times(NamedTuple):
    """Seconds, and how many skills the text shows."""

    read: float
    cold: float
    warm: float
    loaded: int
    shown: int


def load(root: str, home: str) -> tuple[Catalog, Made]:
    """The whole way: configuration, catalog, text for all skills. Writes the cache when there is none in `home`."""
    settings = load_settings(home=home, project=home, roots=(root,), environ={"HOME": home})
    catalog = catalog_here(settings)
    return catalog, prompt(catalog, settings, Wanted(budget=0, most=0, include_unavailable=True), body=None)


def read(manifests: list[str]) -> int:
    """What nobody can do without."""
    total = 0
    for path in manifests:
        with open(path, "rb") as file:
            total += len(file.read())
    return total


def timed(tree: Tree) -> Times:
    """Best times over the same tree; every cold load has a home that did not exist before."""
    with tempfile.TemporaryDirectory() as homes:
        numbers = count()
        home = ""

        def cold() -> object:
            nonlocal home
            home = os.path.join(homes, str(next(numbers)))
            return load(tree.root, home)

        jobs = {"read": lambda: read(tree.manifests), "cold": cold, "warm": lambda: load(tree.root, home)}
        best = alternate(jobs, rounds=max(5, min(40, 40_000 // len(tree.manifests))))
        catalog, made = load(tree.root, home)
    root = os.path.realpath(tree.root)
    ours = [each.name for each in catalog.listed if each.root.path == root and each.skill is not None]
    shown = len(set(ours) & set(made.names))
    return Times(best["read"], best["cold"], best["warm"], len(ours), shown)


def memory_of(root: str) -> float:
    """Megabytes that a cold load adds at its peak, in a process that has loaded one skill before."""
    with tempfile.TemporaryDirectory() as small, tempfile.TemporaryDirectory() as home:
        os.mkdir(os.path.join(small, "one"))
        with open(os.path.join(small, "one", "SKILL.md"), "w") as file:
            file.write("---\nname: one\ndescription: One skill.\n---\nDo one thing.\n")
        load(small, home)
        reset_peak()
        before = peak_mb()
        kept = load(root, home)
        grown = peak_mb() - before
        del kept
    return grown


def child(program: str, *arguments: str) -> dict[str, Any]:
    """What a program of this folder prints as JSON; its failure is a result too."""
    command = [sys.executable, os.path.join(HERE, program), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, timeout=600, check=True)
        return json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return {"problem": f"{type(error).__name__}: {error}"[:200]}


def measured(tree: Tree) -> tuple[dict[str, float], list[str]]:
    """The figures for programs, and the lines for people."""
    times = timed(tree)
    memory = child("load.py", "--memory-of", tree.root)
    if "problem" in memory:
        sys.exit(f"The memory could not be measured: {memory['problem']}")
    kind = "real" if tree.real else "made-up (no corpus found)"
    figures = {"cold_over_read": times.cold / times.read, "warm_over_read": times.warm / times.read}
    figures |= {"memory_mb": memory["memory_mb"], "skills": times.loaded}
    lines = [
        f"{len(tree.manifests):,} {kind} skills; metier loaded {times.loaded:,} and shows {times.shown:,} of them",
        "",
        f"{'':24}{'ms':>9}{'× read':>9}{'× cold':>9}{'skills':>9}",
    ]
    for name, seconds in (
        ("read every SKILL.md", times.read),
        ("metier, cold", times.cold),
        ("metier, warm", times.warm),
    ):
        shown = f"{len(tree.manifests) if seconds is times.read else times.loaded:>9,}"
        lines.append(_row(name, seconds, times) + shown)
    for name, (package, _) in PEERS.items():
        peer = child("peers.py", name, tree.root)
        if "problem" in peer:
            lines.append(f"{package:24}{peer['problem']}")
            continue
        figures[f"{name}_over_metier"] = peer["seconds"] / times.cold
        lines.append(_row(f"{package} {peer['version']}", peer["seconds"], times) + f"{peer['skills']:>9,}")
    lines += ["", f"memory growth of a cold load: {memory['memory_mb']:.1f} MB"]
    return figures, lines


def _row(name: str, seconds: float, times: Times) -> str:
    return f"{name:24}{seconds * 1e3:>9.1f}{seconds / times.read:>9.2f}{seconds / times.cold:>9.2f}"


def grown(sizes: list[int]) -> tuple[dict[str, float], list[str]]:
    """The same for trees of several sizes, a skill each in microseconds."""
    figures: dict[str, float] = {}
    lines = ["", f"{'µs a skill':24}{'read':>9}{'cold':>9}{'warm':>9}"]
    for size in sizes:
        with tempfile.TemporaryDirectory() as root:
            times = timed(make_tree(root, size))
        figures[f"us_per_skill_{size}"] = times.cold / size * 1e6
        each = (f"{seconds / size * 1e6:>9.1f}" for seconds in times[:3])
        lines.append(f"{size:>8,} skills{'':9}" + "".join(each))
    return figures, lines


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of skills")
    return int(text)


def _several(text: str) -> list[int]:
    return [_positive(part) for part in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--skills", type=_positive, default=1000, metavar="N", help="how many skills (1000)")
    parser.add_argument("--root", metavar="DIR", help="measure this folder instead of one made for it")
    parser.add_argument(
        "--sizes",
        type=_several,
        default=[],
        metavar="N,N,…",
        help="also trees of these sizes, to see whether it is linear",
    )
    parser.add_argument("--json", action="store_true", help="print one flat object, name to number")
    parser.add_argument("--memory-of", metavar="DIR", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.memory_of:
        print(json.dumps({"memory_mb": memory_of(given.memory_of)}))
        return
    with tempfile.TemporaryDirectory() as root:
        tree = found_tree(given.root) if given.root else make_tree(root, given.skills)
        if not tree.manifests:
            sys.exit(f"There is no SKILL.md below {tree.root}, so there is nothing to measure.")
        figures, lines = measured(tree)
    if given.sizes:
        more, table = grown(given.sizes)
        figures |= more
        lines += table
    rounded = {name: round(figure, 3) for name, figure in figures.items()}
    print(json.dumps(rounded) if given.json else "\n".join(lines))


if __name__ == "__main__":
    main()
