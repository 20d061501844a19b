"""MCP servers of a test's own: programs on the machine's path, the jobs that ask them, and skills that stand for them."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup

from machine import Machine
from metier import Runtime
from metier.model.digest import Json
from metier.model.entry import McpServer, RemoteTool
from metier.model.guarantee import needed
from metier.model.job import Job, Report
from metier.model.mcp_listing import named, pin_of
from metier.model.permission import PermissionSet
from metier.model.skill import Limits
from metier.sandbox.bubblewrap import Bubblewrap
from metier.sandbox.mcp import McpSandbox, Watch

ODD = Path(__file__).with_name("mcp_servers") / "odd_server.py"
PYTHON = os.path.realpath(sys.executable)
INTERPRETER = os.path.realpath(sys.base_prefix)


def program(folder: Path, name: str = "odd-server", source: Path = ODD) -> str:
    """A server as a program of the machine."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!{PYTHON} -IB\n{source.read_text(encoding='utf-8')}", encoding="utf-8")
    path.chmod(0o755)
    return os.path.realpath(path)


def reads() -> frozenset[str]:
    """What the interpreter itself takes, where the system does not have it."""
    return frozenset() if INTERPRETER == "/usr" else frozenset({INTERPRETER})


def manifest(machine: Machine, name: str = "odd", how: str = "well", **more: Any) -> Path:
    """A skill that stands for a server, and the program it runs."""
    program(machine.bin)
    folder = machine.skills / name
    folder.mkdir(parents=True, exist_ok=True)
    asked = {"reads": sorted(reads()), **more.pop("permissions", {})}
    args = [how, *more.pop("args", ())]
    about = {"description": "Odd.", "command": "odd-server", "args": args, "permissions": asked, **more}
    (folder / "mcp_server.json").write_text(json.dumps(about), encoding="utf-8")
    return folder


class Bench:
    """Asks servers in real sandboxes, without a gate before them."""

    def __init__(self, folder: Path, tasks: TaskGroup, **more: Any) -> None:
        self.wall = Bubblewrap()
        self.secrets: dict[str, str] = {}
        self.file = program(folder / "bin")
        self.sandbox = McpSandbox(self.wall, self.secrets.get, tasks, **more)
        self.listing: dict[str, Json] = {}

    def job(self, how: str, tool: str, arguments: dict[str, Any] | None = None, **more: Any) -> Job:
        from jobs import place

        served = McpServer(argv=("odd-server", how), **more.pop("server", {}))
        found = named(self.listing).get(tool)
        pin = more.pop("pin", None) or (pin_of(found) if found else "")
        entry = RemoteTool(server="odd", tool=tool, reached=served, pin=pin)
        permissions = PermissionSet(binaries=frozenset({"odd-server"}), reads=reads(), **more.pop("may", {}))
        given: dict[str, Any] = {
            "call_id": "call_test",
            "skill": "odd",
            "entry": entry,
            "arguments": arguments or {},
            "places": tuple(place(path) for path in sorted(permissions.reads)),
            "binaries": {"odd-server": self.file},
            "permissions": permissions,
            "limits": Limits(timeout=5.0),
            "needs": needed(entry, network=bool(permissions.hosts)),
        }
        return Job(**{**given, **more})

    async def look(self, how: str = "well", **more: Any) -> Report:
        """Ask for its tools, as trusting does."""
        report = await self.sandbox.run(self.job(how, "", **more))
        if report.ending == "returned" and isinstance(report.value, dict):
            self.listing = report.value
        return report

    async def call(self, tool: str, how: str = "well", **more: Any) -> Report:
        return await self.sandbox.run(self.job(how, tool, more.pop("arguments", None), **more))


def on_a_bench(tmp_path: Path, act: Callable[[Bench], Any], **more: Any) -> None:
    """Run `act`; afterwards no server is left."""

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            bench = Bench(tmp_path, tasks, **more)
            try:
                with anyio.fail_after(50):
                    await act(bench)
            finally:
                with anyio.CancelScope(shield=True):
                    await bench.sandbox.aclose()
                    await bench.wall.aclose()
                tasks.cancel_scope.cancel()

    anyio.run(main)


class Notes:
    """Who is told of servers, and remembers."""

    def __init__(self) -> None:
        self.listings: list[dict[str, Json]] = []
        self.now: set[str] = set()
        self.violations: list[Any] = []

    def listed(self, job: Job, listing: dict[str, Json]) -> None:
        self.listings.append(listing)

    def lives(self, skill: str, *, now: bool) -> None:
        (self.now.add if now else self.now.discard)(skill)

    def violated(self, job: Job, events: Any) -> None:
        self.violations.append(events)


_: type[Watch] = Notes


def opened(machine: Machine, act: Callable[[Runtime], Any]) -> Any:
    """What `act` gives with a runtime of this machine."""
    result: list[Any] = []

    async def main() -> None:
        async with Runtime.open(
            project=str(machine.project), home=str(machine.state), watch=False
        ) as runtime:
            with anyio.fail_after(50):
                result.append(await act(runtime))

    anyio.run(main)
    return result[0]
