"""What people would use instead of Metier's sandboxes, each doing its least: start, run next to nothing, end.

`--peers DIR` names a folder with `node_modules` (sandbox-runtime, pyodide) and `venv` (smolagents) in it. Programs on
the path and packages of this interpreter are found too. A peer that is not there is named with the reason.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from metier.sandbox.deno_where import Engine, find_engine
from sandbox_rounds import Turn

SMOLAGENTS = """
import sys, time
from smolagents import LocalPythonExecutor
print("ready", flush=True)
for _ in sys.stdin:
    start = time.perf_counter()
    executor = LocalPythonExecutor(additional_authorized_imports=[])
    executor.send_tools({})
    executor.send_variables({"params": {"a": 1}})
    found = executor("result = params['a'] + 1\\nresult").output
    print(time.perf_counter() - start if found == 2 else "wrong", flush=True)
"""
"""It runs code in the process of its caller, so it is timed in there: a process that waits, a new executor a call."""

PYODIDE = """
import {{ loadPyodide }} from "{pyodide}/pyodide.mjs";
const python = await loadPyodide({{ indexURL: "{pyodide}/" }});
python.globals.set("params", python.toPy({{ a: 1 }}));
python.runPython("result = params['a'] + 1");
console.log(python.globals.get("result"));
"""

IMAGE = "busybox"


class Absent(Exception):
    """A peer cannot be timed here; the text says why."""


class Peer(NamedTuple):
    """One of them, with what it can do and every how many rounds it is timed."""

    name: str
    about: str
    every: int
    prepare: Callable[[str], Callable[[], float]]
    """From the folder of peers to a function that runs it once and gives the seconds. Raises Absent."""

    def turn(self, once: Callable[[], float]) -> Turn:
        async def run() -> float:
            return once()

        return Turn(self.name, run, self.every)


def timed(argv: list[str], printed: str = "", given: str = "", **environment: str) -> Callable[[], float]:
    """A whole process, timed from outside."""

    def once() -> float:
        start = time.perf_counter()
        done = subprocess.run(
            argv, input=given, capture_output=True, text=True, timeout=60, env={**os.environ, **environment}
        )
        seconds = time.perf_counter() - start
        if done.returncode or done.stdout.strip() != printed:
            said = (done.stderr or done.stdout).strip() or "nothing"
            raise Absent(f"it failed and said: {said[-160:]}")
        return seconds

    once()
    return once


def srt(folder: str) -> Callable[[], float]:
    beside = os.path.join(folder, "node_modules", ".bin", "srt")
    program = beside if os.path.exists(beside) else shutil.which("srt")
    if program is None:
        raise Absent("not installed: npm install @anthropic-ai/sandbox-runtime")
    return timed([program, "/bin/true"])


def pyodide(folder: str) -> Callable[[], float]:
    package = os.path.abspath(os.path.join(folder, "node_modules", "pyodide"))
    if not os.path.isdir(package):
        raise Absent("not installed: npm install pyodide")
    engine = find_engine()
    if not isinstance(engine, Engine):
        raise Absent(f"there is no Deno to run it: {engine.why}")
    text = PYODIDE.format(pyodide=package)
    flags = ["--no-prompt", "--quiet", "--no-config", "--no-lock", "--no-remote", "--no-npm"]
    return timed([engine.path, "run", *flags, f"--allow-read={package}", "-"], "2", text, NO_COLOR="1")


def docker(folder: str) -> Callable[[], float]:
    program = shutil.which("docker") or shutil.which("podman")
    if program is None:
        raise Absent("not installed")
    asked = subprocess.run([program, "image", "inspect", IMAGE], capture_output=True, text=True)
    if asked.returncode:
        said = asked.stderr.strip().splitlines()
        raise Absent(f"no engine answers, or it has no image {IMAGE}: {said[0][:120] if said else ''}")
    return timed([program, "run", "--rm", "--network=none", IMAGE, "true"])


def smolagents(folder: str) -> Callable[[], float]:
    beside = os.path.join(folder, "venv", "bin", "python")
    child = subprocess.Popen(
        [beside if os.path.exists(beside) else sys.executable, "-c", SMOLAGENTS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        bufsize=1,
    )
    _children.append(child)
    assert child.stdin and child.stdout
    if child.stdout.readline() != "ready\n":
        raise Absent("not installed: pip install smolagents")
    ask, answer = child.stdin, child.stdout

    def once() -> float:
        ask.write("go\n")
        said = answer.readline().strip()
        if said in ("", "wrong"):
            raise Absent("it gave the wrong result")
        return float(said)

    once()
    return once


_children: "list[subprocess.Popen[str]]" = []

PEERS = (
    Peer("smolagents", "LocalPythonExecutor: no sandbox, a subset of Python, in process", 1, smolagents),
    Peer("srt", "sandbox-runtime, /bin/true", 4, srt),
    Peer("docker", f"docker run {IMAGE} true", 4, docker),
    Peer("pyodide", "Python in Deno, from start to result", 8, pyodide),
)


@contextmanager
def found(folder: str) -> Iterator[tuple[list[tuple[Peer, Turn]], dict[str, str]]]:
    """Those that run here, and why the others do not."""
    turns: list[tuple[Peer, Turn]] = []
    absent: dict[str, str] = {}
    try:
        for peer in PEERS:
            try:
                turns.append((peer, peer.turn(peer.prepare(folder))))
            except (Absent, OSError, subprocess.SubprocessError) as error:
                absent[peer.name] = str(error)
        yield turns, absent
    finally:
        for child in _children:
            assert child.stdin and child.stdout
            child.stdin.close()
            child.wait()
            child.stdout.close()
        _children.clear()
