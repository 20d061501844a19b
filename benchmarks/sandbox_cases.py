"""The cases that `sandbox.py` times: jobs that go through the real backends, as `execute` would hand them over."""

import json
import os
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import sandbox_guests as guests
from metier.model.digest import Json
from metier.model.entry import Command, Entry, InlineCode, ScriptHandler, WasmModule
from metier.model.guarantee import needed
from metier.model.job import Job, Place, Report
from metier.model.permission import PermissionSet
from metier.model.ports import Answered, NotAnswered
from metier.model.skill import Limits
from metier.sandbox import cgroup
from metier.sandbox.bubblewrap import Bubblewrap
from metier.sandbox.deno import DenoSandbox
from metier.sandbox.native import NativeSandbox
from metier.sandbox.protocol import Sandbox
from metier.sandbox.python import PythonSandbox
from metier.sandbox.wasm import WasmSandbox
from sandbox_rounds import Turn

TRUE = os.path.realpath("/bin/true")
PRACTICE = 4
"""Untimed runs of each case: what is kept warm is warm afterwards."""


class Case(NamedTuple):
    """One of ours. `job` makes the job, outside the timed part."""

    name: str
    limit: float
    """The most it may take, in starts of /bin/true."""
    about: str
    sandbox: Sandbox
    job: Callable[[], Job]
    value: Callable[[Json], bool]
    """Whether the result is the right one."""

    async def run(self) -> float:
        """Seconds for one call. Raises NotRight where it did not do what it is timed for."""
        job = self.job()
        start = time.perf_counter()
        report = await self.sandbox.run(job)
        seconds = time.perf_counter() - start
        if report.ending != "returned" or not self.value(report.value):
            raise NotRight(f"{self.name} ended as {told(report)}")
        return seconds

    def turn(self) -> Turn:
        return Turn(self.name, self.run)


class NotRight(Exception):
    """A run did not end as it should."""


class Answers:
    """Answers whatever a guest asks, at once: the way there and back is what is timed."""

    async def ask(self, method: str, params: dict[str, Json]) -> Answered | NotAnswered:
        return Answered(value="[]" if method == "exec" else None)


class Places:
    """Folders of the host for jobs to be granted, below one that is removed in the end."""

    def __init__(self, top: str) -> None:
        self.top = top
        self._made = 0

    def new(self, **files: str | bytes) -> str:
        """A folder that never was before; `answer_json="…"` becomes answer.json."""
        self._made += 1
        folder = os.path.join(self.top, str(self._made))
        os.mkdir(folder, 0o755)
        for name, content in files.items():
            with open(os.path.join(folder, name.replace("_", ".")), "wb") as file:
                file.write(content.encode() if isinstance(content, str) else content)
        return folder


class Backends(NamedTuple):
    """What the cases run on."""

    native: NativeSandbox
    python: PythonSandbox
    javascript: DenoSandbox
    wasm: WasmSandbox
    places: Places


@asynccontextmanager
async def backends() -> AsyncIterator[Backends]:
    """All of them behind one wall, closed and their folders removed afterwards."""
    # Not where temporary folders usually are: that is where a run has its own.
    with tempfile.TemporaryDirectory(prefix="metier-bench-", dir="/var/tmp") as top:
        wall = Bubblewrap(groups=cgroup.find())
        made = Backends(
            NativeSandbox(wall),
            PythonSandbox(wall),
            DenoSandbox(wall, cache=os.path.join(top, "engine")),
            WasmSandbox(os.path.join(top, "machine-code")),
            Places(top),
        )
        try:
            yield made
        finally:
            for each in (made.native, made.python, made.javascript, made.wasm, wall):
                await each.aclose()


def job(entry: Entry, **more: Any) -> Job:
    given: dict[str, Any] = {"arguments": {}, "limits": Limits(timeout=30.0), "host": Answers(), **more}
    return Job(
        call_id="bench",
        entry=entry,
        permissions=PermissionSet(),
        needs=needed(entry, network=False),
        **given,
    )


def command(folder: str) -> Job:
    place = Place(path=folder, writable=True)
    return job(Command(argv=("true",)), binaries={"true": TRUE}, places=(place,), cwd=folder)


def python() -> Job:
    return job(InlineCode(language="python", source=guests.PYTHON), arguments={"a": 1})


def handler(bundle: str) -> Job:
    entry = ScriptHandler(path="handler.js", language="javascript")
    return job(entry, bundle=bundle, arguments={"from": "today", "to": "tomorrow"})


def cases(on: Backends) -> list[Case]:
    """All of them, the ones that leave something starting behind them last."""
    import wasmtime

    new = on.places.new
    folder, bundle, granted = (
        new(),
        new(handler_js=guests.HANDLER),
        new(answer_json=json.dumps(guests.ANSWER)),
    )
    modules = new(tiny_wasm=wasmtime.wat2wasm(guests.TINY), program_wasm=wasmtime.wat2wasm(guests.PROGRAM))
    tiny = job(WasmModule(path="tiny.wasm", function="add"), bundle=modules, arguments={"a": 1, "b": 2})
    program = job(
        WasmModule(path="program.wasm"),
        bundle=modules,
        arguments={"a": 1},
        places=(Place(path=granted),),
        cwd=granted,
    )
    exited = {"stdout": "", "stderr": "", "exit_code": 0}
    found = {"success": True, "found": "[]"}
    return [
        Case("native_warm", 5, "command", on.native, lambda: command(folder), exited.__eq__),
        Case("native_cold", 9, "command, first", on.native, lambda: command(new()), exited.__eq__),
        Case("python", 10, "Python code", on.python, python, (2).__eq__),
        Case("wasm_wasi", 2, "WASI program", on.wasm, lambda: program, guests.ANSWER.__eq__),
        Case("wasm_tiny", 0.7, "WASM function", on.wasm, lambda: tiny, (3).__eq__),
        Case("javascript_warm", 6, "JavaScript", on.javascript, lambda: handler(bundle), found.__eq__),
        Case(
            "javascript_cold",
            60,
            "JavaScript, first",
            on.javascript,
            lambda: handler(new(handler_js=guests.HANDLER)),
            found.__eq__,
        ),
    ]


async def practised(case: Case) -> str:
    """Run it a few times untimed; the reason why it cannot be timed here, or nothing."""
    missing = case.sandbox.missing()
    if missing and not case.job().needs <= case.sandbox.guarantees():
        return f"{missing[0].what}: {missing[0].why}; {missing[0].remedy}"
    try:
        for _ in range(PRACTICE):
            await case.run()
    except NotRight as error:
        return str(error)
    return ""


def told(report: Report) -> str:
    """An ending in a few words."""
    fault = report.fault
    said = f"{fault.name}: {fault.message}" if fault else (report.stderr or str(report.value))
    return f"{report.ending} ({said[-300:]})"
