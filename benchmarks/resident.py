"""What a skill that lives costs: one operation of it, beside a bare line of JSON to the same kind of process and back; and doing nothing.

    python benchmarks/resident.py [--rounds N] [--idle SECONDS] [--json]

An operation goes from `operate` through our wire into a sandbox, to a method of the skill's module, and back. What it stands beside is
what people would write instead: a child without any wall that reads a line of JSON and writes one, asked from the same event loop. The
gate and the record are not in here; `pipeline.py` has those.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any

import anyio

from metier.model.entry import PythonHandler, ScriptHandler
from metier.model.guarantee import needed
from metier.model.job import Job
from metier.model.permission import PermissionSet
from metier.model.ports import Answered, NotAnswered, Operate
from metier.model.skill import Limits
from metier.sandbox.bubblewrap import Bubblewrap
from metier.sandbox.deno import DenoSandbox
from metier.sandbox.deno_where import Engine, find_engine
from metier.sandbox.protocol import Sandbox
from metier.sandbox.python import PythonSandbox

ROUNDS = 2_000
PRACTICE = 200
IDLE_SECONDS = 20.0
RESIDENTS = 20
MOST_OVER = 3.0
MOST_IDLE = 2.0
ASKED: dict[str, Any] = {
    "module": "echo",
    "op": "say",
    "params": {"text": "hello", "to": [1, 2, 3]},
    "meta": {},
}
PYTHON = """
class Echo:
    name = "echo"
    async def say(self, params, meta):
        return params

class Skill:
    id, version = "echo", "1.0.0"
    def on_enable(self, ctx):
        ctx.register_module(Echo())

skill = Skill()
"""
SCRIPT = """
class Echo { name = "echo"; async say(params: any) { return params; } }
export const skill = { id: "echo", version: "1.0.0", onEnable(ctx: any) { ctx.registerModule(new Echo()); } };
"""
BARE_PYTHON = """
import json, sys
for line in sys.stdin.buffer:
    asked = json.loads(line)
    sys.stdout.buffer.write(json.dumps({"id": asked["id"], "result": asked["params"]["params"]}).encode() + b"\\n")
    sys.stdout.buffer.flush()
"""
BARE_SCRIPT = """
const decoder = new TextDecoder(), encoder = new TextEncoder(), piece = new Uint8Array(65536);
let rest = "";
for (let got; (got = await Deno.stdin.read(piece)) !== null;) {
  const lines = (rest + decoder.decode(piece.subarray(0, got))).split("\\n");
  rest = lines.pop();
  for (const line of lines) {
    const asked = JSON.parse(line);
    Deno.stdout.writeSync(encoder.encode(JSON.stringify({ id: asked.id, result: asked.params.params }) + "\\n"));
  }
}
"""


class Host:
    """Takes whatever a skill says."""

    async def ask(self, method: str, params: dict[str, Any]) -> Answered | NotAnswered:
        return Answered()


class Resident:
    """A skill that lives."""

    def __init__(self) -> None:
        self.begun = anyio.Event()
        self.report: object = None
        self._operate: Operate | None = None

    def ready(self, operate: Operate) -> None:
        self._operate = operate
        self.begun.set()

    async def once(self) -> None:
        if self._operate is None:
            raise RuntimeError(f"it does not live: {self.report}")
        answer = await self._operate(ASKED, 60.0)
        if answer != Answered(value=ASKED["params"]):
            raise RuntimeError(f"it did not answer as it should: {answer}")


class Bare:
    """A child that answers a line of JSON with one, and nothing around it."""

    def __init__(self, argv: list[str]) -> None:
        self._ours, theirs = socket.socketpair()
        with theirs:
            self._child = subprocess.Popen(argv, stdin=theirs.fileno(), stdout=theirs.fileno())
        self._asked = 0

    def close(self) -> None:
        self._ours.close()
        self._child.wait()

    async def once(self) -> None:
        """From the loop, as everything that serves more than one has to."""
        self._ours.setblocking(False)
        self._ours.send(self._line())
        data = b""
        while not data.endswith(b"\n"):
            await anyio.wait_readable(self._ours)
            data += self._ours.recv(65_536)
        self._check(data)

    async def once_blocking(self) -> None:
        """With nobody else to serve."""
        self._ours.setblocking(True)
        self._ours.send(self._line())
        data = b""
        while not data.endswith(b"\n"):
            data += self._ours.recv(65_536)
        self._check(data)

    def _line(self) -> bytes:
        self._asked += 1
        return json.dumps({"id": self._asked, "method": "operate", "params": ASKED}).encode() + b"\n"

    def _check(self, data: bytes) -> None:
        if json.loads(data) != {"id": self._asked, "result": ASKED["params"]}:
            raise RuntimeError("the bare child did not answer as it should")


def lay(folder: Path) -> None:
    """The same skill in both languages."""
    folder.mkdir()
    (folder / "skill.py").write_text(PYTHON)
    (folder / "skill.ts").write_text(SCRIPT)


@asynccontextmanager
async def resident(sandbox: Sandbox, folder: Path) -> AsyncGenerator[Resident]:
    """One of the kind that `sandbox` runs."""
    lay(folder)
    entry = (
        PythonHandler(path="skill.py", life=True)
        if isinstance(sandbox, PythonSandbox)
        else ScriptHandler(path="skill.ts", language="typescript", life=True)
    )
    life = Resident()
    job = Job(
        call_id="call_bench",
        entry=entry,
        arguments={},
        bundle=str(folder),
        permissions=PermissionSet(),
        limits=Limits(),
        needs=needed(entry, network=False),
        life=life,
        host=Host(),
    )

    async def live() -> None:
        life.report = await sandbox.run(job)
        life.begun.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(live)
        await life.begun.wait()
        yield life
        tasks.cancel_scope.cancel()


async def timed(turns: Mapping[str, Callable[[], Awaitable[None]]], rounds: int) -> dict[str, float]:
    """Median seconds of each, by turns, so that whatever else the machine does meets all of them."""
    found: dict[str, list[float]] = {name: [] for name in turns}
    for number in range(PRACTICE + rounds):
        for name, turn in turns.items():
            began = time.perf_counter()
            await turn()
            if number >= PRACTICE:
                found[name].append(time.perf_counter() - began)
    return {name: median(each) for name, each in found.items()}


def processor_seconds() -> float:
    """What this process and everything below it has taken of the processor so far."""
    total, todo = 0, [os.getpid()]
    while todo:
        pid = todo.pop()
        try:
            for thread in os.listdir(f"/proc/{pid}/task"):
                total += int(Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()[0])
                todo += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return total / 1e9


async def idle(sandboxes: list[Sandbox], folder: Path, seconds: float) -> float:
    """Percent of one core that this host and its residents take while nothing happens."""
    async with AsyncExitStack() as stack:
        for number in range(RESIDENTS):
            sandbox = sandboxes[number % len(sandboxes)]
            each = await stack.enter_async_context(resident(sandbox, folder / f"idle{number}"))
            await each.once()
        await anyio.sleep(3)  # until it is looked at as seldom as it ever is
        before, began = processor_seconds(), time.perf_counter()
        await anyio.sleep(seconds)
        return 100 * (processor_seconds() - before) / (time.perf_counter() - began)


async def measured(folder: Path, rounds: int, idle_seconds: float) -> dict[str, float]:
    figures: dict[str, float] = {}
    wall, engine = Bubblewrap(), find_engine()
    sandboxes: dict[str, tuple[Sandbox, list[str]]] = {
        "": (PythonSandbox(wall), [sys.executable, "-c", BARE_PYTHON])
    }
    if isinstance(engine, Engine):
        argv = [engine.path, "run", "--no-prompt", "--quiet", str(folder / "bare.mjs")]
        sandboxes["deno_"] = DenoSandbox(wall, cache=str(folder / "cache")), argv
    try:
        for name, (sandbox, argv) in sandboxes.items():
            bare = Bare(argv)
            async with resident(sandbox, folder / f"timed{name}") as life:
                turns = {"resident": life.once, "pipe": bare.once, "blocking": bare.once_blocking}
                found = await timed(turns, rounds)
            bare.close()
            figures[f"{name}resident_over_pipe"] = found["resident"] / found["pipe"]
            figures[f"{name}resident_over_blocking_pipe"] = found["resident"] / found["blocking"]
            figures |= {f"{name}{each}_us": seconds * 1e6 for each, seconds in found.items()}
        if idle_seconds:
            kinds = [sandbox for sandbox, _ in sandboxes.values()]
            figures["idle_percent"] = await idle(kinds, folder, idle_seconds)
    finally:
        for sandbox, _ in sandboxes.values():
            await sandbox.aclose()
        await wall.aclose()
    return {name: round(figure, 3) for name, figure in figures.items()}


def table(figures: dict[str, float], rounds: int) -> str:
    lines = [f"{rounds} rounds, medians", "", f"{'':28}{'× bare':>9}{'limit':>8}{'µs':>9}"]
    for shown, name in (("Python", ""), ("TypeScript", "deno_")):
        if f"{name}pipe_us" in figures:
            lines += [
                f"{shown + ', bare, from a loop':28}{1:>9.2f}{'':>8}{figures[f'{name}pipe_us']:>9.0f}",
                f"{shown + ', bare, blocking':28}{figures[f'{name}blocking_us'] / figures[f'{name}pipe_us']:>9.2f}"
                f"{'':>8}{figures[f'{name}blocking_us']:>9.0f}",
                f"{shown + ', one that lives':28}{figures[f'{name}resident_over_pipe']:>9.2f}"
                f"{MOST_OVER:>8g}{figures[f'{name}resident_us']:>9.0f}",
            ]
    if "idle_percent" in figures:
        line = f"{RESIDENTS} that do nothing, and their host: {figures['idle_percent']:.2f} % of a core (limit {MOST_IDLE:g})"
        lines += ["", line]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help=f"how many ({ROUNDS})")
    parser.add_argument(
        "--idle",
        type=float,
        default=IDLE_SECONDS,
        metavar="SECONDS",
        help=f"how long nothing happens ({IDLE_SECONDS:g})",
    )
    parser.add_argument("--json", action="store_true", help="print one flat object, name to figure")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as top:
        folder = Path(top).resolve()
        (folder / "bare.mjs").write_text(BARE_SCRIPT)
        figures = anyio.run(measured, folder, given.rounds, given.idle)
    print(json.dumps(figures) if given.json else table(figures, given.rounds))


if __name__ == "__main__":
    main()
