"""The cases that `sandbox.py` times: jobs that go through the real backends, as `execute` would hand them over."""

import json
import os
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NamedTuple

import anyio

import sandbox_guests as guests
from metier.config.load import load as load_settings
from metier.model.digest import Json
from metier.model.entry import Command, Entry, InlineCode, ScriptHandler, WasmModule
from metier.model.guarantee import needed
from metier.model.job import Job, Place, Report
from metier.model.permission import PermissionSet
from metier.model.ports import Answered, NotAnswered
from metier.model.skill import Limits
from metier.runtime.sandboxes import make_sandboxes
from metier.sandbox.protocol import Sandbox
from metier.sandbox.select import Unavailable, select
from sandbox_rounds import Turn

TRUE = os.path.realpath("/bin/true")
PRACTICE = 4


class Case(NamedTuple):
    """One of ours."""

    name: str
    limit: float
    """The most it may take, in starts of /bin/true."""
    job: Callable[[], Job]
    """Makes the job; not timed."""
    value: Json
    """The right result."""

    async def run(self, sandbox: Sandbox) -> float:
        """Seconds for one call. Raises NotRight where it did not do what it is timed for."""
        job = self.job()
        start = time.perf_counter()
        report = await sandbox.run(job)
        seconds = time.perf_counter() - start
        if report.ending != "returned" or report.value != self.value:
            raise NotRight(f"{self.name} ended as {told(report)}")
        return seconds


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


class Machine(NamedTuple):
    """Sandboxes as the runtime makes them, and folders to grant."""

    sandboxes: Sequence[Sandbox]
    places: Places

    def choose(self, job: Job) -> Sandbox | str:
        """The one a call of this job would run in, or why there is none."""
        found = select(job, self.sandboxes)
        return "; ".join(found.reasons) if isinstance(found, Unavailable) else found


@asynccontextmanager
async def machine() -> AsyncIterator[Machine]:
    """Closed, and its folders removed, afterwards."""
    # Not where temporary folders usually are: that is where a run has its own.
    with tempfile.TemporaryDirectory(prefix="metier-bench-", dir="/var/tmp") as top:
        home = os.path.join(top, "home")
        settings = load_settings(home=home, project=top, environ={"HOME": home})
        async with anyio.create_task_group() as tasks:
            sandboxes, walls = make_sandboxes(settings, tasks)
            try:
                yield Machine(sandboxes, Places(top))
            finally:
                for each in (*sandboxes, *walls):
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


def compiled(text: str) -> bytes:
    """A module from its text; nothing where the engine is not installed, and then no sandbox takes it."""
    try:
        from wasmtime import wat2wasm
    except ImportError:
        return b""
    return bytes(wat2wasm(text))


def cases(on: Machine) -> list[Case]:
    """All of them, the ones that leave something starting behind them last."""
    new = on.places.new
    folder, bundle, granted = (
        new(),
        new(handler_js=guests.HANDLER),
        new(answer_json=json.dumps(guests.ANSWER)),
    )
    modules = new(tiny_wasm=compiled(guests.TINY), program_wasm=compiled(guests.PROGRAM))
    tiny = job(WasmModule(path="tiny.wasm", function="add"), bundle=modules, arguments={"a": 1, "b": 2})
    program = job(
        WasmModule(path="program.wasm"),
        bundle=modules,
        arguments={"a": 1},
        places=(Place(path=granted),),
        cwd=granted,
    )
    exited: Json = {"stdout": "", "stderr": "", "exit_code": 0}
    found: Json = {"success": True, "found": "[]"}
    return [
        Case("native_warm", 5, lambda: command(folder), exited),
        Case("native_cold", 9, lambda: command(new()), exited),
        Case("python", 10, python, 2),
        Case("wasm_wasi", 2, lambda: program, guests.ANSWER),
        Case("wasm_tiny", 0.7, lambda: tiny, 3),
        Case("javascript_warm", 6, lambda: handler(bundle), found),
        Case("javascript_cold", 60, lambda: handler(new(handler_js=guests.HANDLER)), found),
    ]


async def ready(case: Case, on: Machine) -> Turn | str:
    """The case after a few untimed runs, so that what is kept warm is warm; or why it cannot be timed here."""
    sandbox = on.choose(case.job())
    if isinstance(sandbox, str):
        return sandbox
    try:
        for _ in range(PRACTICE):
            await case.run(sandbox)
    except NotRight as error:
        return str(error)
    return Turn(case.name, partial(case.run, sandbox))


def told(report: Report) -> str:
    """An ending in a few words."""
    fault = report.fault
    said = f"{fault.name}: {fault.message}" if fault else (report.stderr or str(report.value))
    return f"{report.ending} ({said[-300:]})"
