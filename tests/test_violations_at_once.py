"""What no skill may ever do ends its run there and then, whatever the run or its caller does besides."""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from jobs import ending, python
from machine import Machine, write_skill
from metier.model.entry import Entry, InlineCode, PythonHandler
from metier.model.job import Event, Report
from metier.model.outcome import Failed, Outcome, Refused
from metier.model.permission import PermissionSet
from metier.pipeline import run
from metier.runtime.own import OwnRun, run_own
from metier.runtime.sandboxes import Sandboxes
from metier.sandbox.bubblewrap import Bubblewrap
from metier.sandbox.landlock import Landlock
from metier.sandbox.python import PythonSandbox
from test_execute import Forge, asked, tool

Kind = type[Bubblewrap] | type[Landlock]
walls = pytest.mark.parametrize("kind", [Bubblewrap, Landlock])
MOUNT = "import ctypes, time\nctypes.CDLL(None).mount(b'none', b'/tmp', b'tmpfs', 0, None)\n"
FOREIGN = {
    "int 0x80": """
import ctypes, mmap
code = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(bytes([0xB8, 21, 0, 0, 0, 0xCD, 0x80, 0xC3]))
call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
""",
    "x32": "import ctypes\ncall = lambda: ctypes.CDLL(None).syscall(0x40000000 + 165, 0, 0, 0, 0, 0)\n",
}


def one(kind: Kind, job: Any) -> Report:
    async def go() -> Report:
        wall = kind()
        try:
            return await PythonSandbox(wall).run(job)
        finally:
            await wall.aclose()

    return anyio.run(go)


@walls
def test_lnx_19_a_forbidden_call_ends_the_run_at_once(kind: Kind) -> None:
    began = time.monotonic()
    report = one(kind, python(MOUNT + "time.sleep(20)\nresult = 'went on'"))
    assert time.monotonic() - began < 10
    assert ([each.detail for each in report.violations], report.value) == (["mount"], None), ending(report)


@walls
@pytest.mark.parametrize("how", FOREIGN)
def test_lnx_19_a_call_by_another_machine_word_is_a_violation_too(kind: Kind, how: str) -> None:
    source = FOREIGN[how] + "import os\nif os.fork() == 0: call(); os._exit(0)\nos.wait()\nresult = 'went on'"
    report = one(kind, python(source))
    assert report.value is None, ending(report)
    assert ["another machine word" in each.detail for each in report.violations] == [True], report.violations


@walls
def test_lnx_19_the_alarm_is_raised_also_when_the_caller_goes_away(kind: Kind) -> None:
    """In the moment between the violation and the report of it."""
    told: list[Event] = []

    async def go() -> None:
        wall = kind()
        try:
            with anyio.CancelScope() as scope:
                # It comes before the report is handed on, so whoever is told of it can still cancel the run.
                def alarm(event: Event) -> None:
                    told.append(event)
                    scope.cancel()

                await PythonSandbox(wall).run(replace(python(MOUNT + "time.sleep(20)"), alarm=alarm))
                await anyio.lowlevel.checkpoint()
                pytest.fail("it was not cancelled")
        finally:
            with anyio.CancelScope(shield=True):
                await wall.aclose()

    anyio.run(go)
    assert [event.detail for event in told] == ["mount"]


# All the way


@pytest.fixture
def forge(tmp_path: Path) -> Iterator[Forge]:
    machine = Machine(tmp_path)
    write_skill(machine.skills / "tea")
    made = Forge(machine)
    made.trusted("tea")
    yield made
    made.database.close()


@asynccontextmanager
async def real(forge: Forge) -> AsyncGenerator[None]:
    async with anyio.create_task_group() as tasks:
        sandboxes = Sandboxes(forge.machine.settings(), tasks)
        forge.sandboxes = list(sandboxes())
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await sandboxes.aclose()
            tasks.cancel_scope.cancel()


def events(forge: Forge) -> list[str]:
    return [each.event for each in forge.records()]


def calling(forge: Forge, entry: Entry, work: Callable[[], Awaitable[Any]]) -> Any:
    async def go() -> Any:
        forge.tool = tool(entry)
        async with real(forge):
            return await work()

    return anyio.run(go)


def test_lnx_19_another_call_of_the_skill_is_refused_a_moment_later(forge: Forge) -> None:
    async def work() -> tuple[Outcome, Outcome]:
        first = await run(asked(), forge.house)
        return first, await run(replace(asked(), id="call_2"), forge.house)

    entry = InlineCode(language="python", source=MOUNT + "time.sleep(20)")
    began = time.monotonic()
    first, second = calling(forge, entry, work)
    assert time.monotonic() - began < 10
    assert isinstance(first, Failed)
    assert first.code == "violation"
    assert isinstance(second, Refused)
    assert second.code == "skill_disabled"
    assert "skill_disabled" in events(forge)


@pytest.mark.parametrize("how", ["return", "raise", "exit"])
def test_lnx_19_a_program_asked_for_and_left_behind_gives_its_skill_away(tmp_path: Path, how: str) -> None:
    """Code has a program do the forbidden thing, and ends as soon as that program tells that it is about to."""
    last = {"return": "return 'fine'", "raise": "raise ValueError('bye')", "exit": "import os; os._exit(0)"}
    source = f"""
import asyncio, os
async def main(params, context):
    asyncio.ensure_future(context.exec(["bash", "-c", "unshare -U true; sleep 20"]))
    await asyncio.sleep(1.0)
    {last[how]}
"""
    entry = PythonHandler(path="main.py")
    machine = Machine(tmp_path / "m")
    permissions = PermissionSet(binaries=frozenset({"bash", "unshare", "sleep"}))
    wanted = OwnRun(name="main.py", data=source.encode(), entry=entry, permissions=permissions)
    outcome = anyio.run(run_own, machine.settings(), wanted)
    assert isinstance(outcome, Failed)
    assert outcome.code == "violation", outcome
