"""What the benchmarks share: a tree of real skills, and clocks that are fair to every side.

The skills are read from the corpus beside the project. Without it they are made up, with the sizes that
real ones have, and `Tree.real` says so.
"""

import gc
import json
import os
import random
import re
import sys
import tarfile
import time
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, NamedTuple

PROJECT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CORPUS = os.path.normpath(os.path.join(PROJECT, "..", "shared", "corpus"))
OLD_ENOUGH = 2.1
"""Seconds after which a file may be remembered in a cache."""
PROSE = "when the user asks for a report read every file below this folder and write what changed since then"
NAME = re.compile(rb"^name:[^\r\n]*", re.MULTILINE)


class Tree(NamedTuple):
    """Skill folders on disk, all older than two seconds."""

    root: str
    manifests: list[str]
    real: bool


def make_tree(root: str, count: int) -> Tree:
    """Write `count` skills below `root`, each into a folder of its name with one or two more files."""
    known = _from_corpus()
    manifests: list[str] = []
    for index, (name, data) in enumerate(islice(_repeated(known or _made_up(), count), count)):
        folder = os.path.join(root, name)
        manifests.append(_write(folder, "SKILL.md", data))
        _write(folder, "references/notes.md", b"# Notes\n\n" + data[-1000:])
        if index % 2:
            _write(folder, "scripts/run.sh", b"#!/bin/sh\necho done\n")
    time.sleep(OLD_ENOUGH)
    return Tree(root, manifests, bool(known))


def found_tree(root: str) -> Tree:
    """The skills that lie below `root` already, as they are."""
    manifests = [
        os.path.join(folder, "SKILL.md") for folder, _, names in os.walk(root) if "SKILL.md" in names
    ]
    return Tree(root, sorted(manifests), True)


def _from_corpus() -> list[tuple[str, bytes]]:
    """Name and SKILL.md of each skill that loads elsewhere too, every name once, well mixed."""
    try:
        with open(os.path.join(CORPUS, "openclaw-oracle.jsonl"), encoding="utf-8") as lines:
            rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
        with tarfile.open(os.path.join(CORPUS, "skills.tar.xz")) as archive:
            files = {each.name: file.read() for each in archive if (file := archive.extractfile(each))}
    except FileNotFoundError:
        return []
    chosen: dict[str, tuple[str, bytes]] = {}
    for row in rows:
        name, data = str(row.get("name") or ""), files[f"skills/{row['path']}"]
        stated = NAME.search(data)
        if "error" not in row and name and stated and name.encode() in stated[0] and "/" not in name:
            chosen.setdefault(name.casefold(), (name, data))
    known = list(chosen.values())
    random.Random(1).shuffle(known)  # noqa: S311  the same mixture on every machine
    return known


def _made_up() -> list[tuple[str, bytes]]:
    """A hundred skills of realistic sizes: half of them above 4.3 kB, with 300 bytes of frontmatter."""
    dice, words = random.Random(1), PROSE.split()  # noqa: S311
    skills: list[tuple[str, bytes]] = []
    for index in range(100):
        about = " ".join(dice.choices(words, k=48))
        body = " ".join(dice.choices(words, k=int(dice.lognormvariate(0, 0.7) * 780)))
        text = f"---\nname: skill-{index}\ndescription: {about}.\nlicense: MIT\n---\n\n# Skill {index}\n\n{body}\n"
        skills.append((f"skill-{index}", text.encode()))
    return skills


def _repeated(skills: list[tuple[str, bytes]], count: int) -> Iterable[tuple[str, bytes]]:
    yield from skills
    for index in range(len(skills), count):
        name, data = skills[index % len(skills)]
        name = f"{name[:50]}-n{index}"
        yield name, NAME.sub(lambda _, name=name: b"name: " + name.encode(), data, count=1)


def _write(folder: str, name: str, data: bytes) -> str:
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
    return path


def forget() -> None:
    """Empty every cache that Metier's modules keep in memory, so that each run starts as a new process would."""
    for name, module in list(sys.modules.items()):
        if name.startswith("metier"):
            for value in list(vars(module).values()):
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


def alternate(jobs: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The best time of each job in seconds; they take turns, so that a busy moment hits all of them."""
    best = dict.fromkeys(jobs, float("inf"))
    for _ in range(rounds):
        for name, job in jobs.items():
            forget()
            gc.collect()
            start = time.perf_counter()
            result = job()
            best[name] = min(best[name], time.perf_counter() - start)
            del result
    return best


def reset_peak() -> None:
    """Let the peak begin at what is in use now, where the system can do that."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        return


def peak_mb() -> float:
    """The most memory this process has had. Not ru_maxrss on Linux: that begins with the parent's peak."""
    try:
        with open("/proc/self/status") as file:
            return int(file.read().split("VmHWM:")[1].split()[0]) / 1024
    except (OSError, IndexError):
        import resource

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most / (1 << 20 if sys.platform == "darwin" else 1 << 10)
