"""A host that is killed (kill -9) in the middle of a firing: a schedule is not done twice, a message is not lost."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from firing_kit import OWNER, Book, Desk, do, no_skills
from metier.kernel.events import Events
from metier.kernel.schedules import Schedules
from metier.kernel.store import Store

TESTS = Path(__file__).resolve().parent.parent
SCHEDULE = """
import os, signal, sys, time
from datetime import UTC, datetime
from pathlib import Path
import anyio
from firing_kit import OWNER, Book, do, no_skills
from metier.kernel.events import Events
from metier.kernel.schedules import Schedules
from metier.kernel.store import Store

async def killed(made):
    print(made.tool, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    book = Book()
    book.answer = killed
    store = Store(str(Path(sys.argv[1]) / "home"))
    schedules = Schedules(store=store, events=Events(), calls=book, catalog=no_skills, owner=OWNER)
    at = datetime.fromtimestamp(time.time() + 0.5, UTC).isoformat()
    schedule = {"name": "once", "type": "once", "timestamp": at, "tool": "a/b"}
    await do(schedules.module(), "create", OWNER, {"schedule": schedule})
    with anyio.fail_after(30):
        await schedules.run()

anyio.run(main)
"""
MESSAGE = """
import os, signal, sys
from pathlib import Path
import anyio
from firing_kit import Desk

async def killed(made):
    print(made.tool, flush=True)
    if made.tool == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)
    return "fine"

async def main():
    desk = Desk(Path(sys.argv[1]))
    desk.book.answer = killed
    await desk.create(name="n", type="message", patterns=["x"], tool="a/b", contextTemplate="{{result}}")
    async with desk.running():
        await desk.message("x", 5)

anyio.run(main)
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def dies(script: str, *given: str) -> list[str]:
    """Run it until it is killed. The calls that it had begun."""
    done = subprocess.run(
        [sys.executable, "-c", script, *given],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    return done.stdout.split()


@pytest.mark.anyio
async def test_a_schedule_that_was_begun_when_the_host_was_killed_is_not_done_again(tmp_path: Path) -> None:
    assert dies(SCHEDULE, str(tmp_path)) == ["a/b"]
    store, book = Store(str(tmp_path / "home")), Book()
    schedules = Schedules(store=store, events=Events(), calls=book, catalog=no_skills, owner=OWNER)
    shown: dict[str, Any] = {}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(schedules.run)
        with anyio.fail_after(20):
            while "cut off" not in shown.get("last_outcome", ""):
                shown = await do(schedules.module(), "get", OWNER, {"id": "once"})
                await anyio.sleep(0.05)
        await anyio.sleep(0.2)
        tasks.cancel_scope.cancel()
    assert book.made == []
    assert shown["status"] == "over"


@pytest.mark.anyio
@pytest.mark.parametrize("at", ["a/b", "channels.send_message"])
async def test_a_message_whose_host_was_killed_is_handled_by_the_next_under_the_same_key(
    tmp_path: Path, at: str
) -> None:
    begun = dies(MESSAGE, str(tmp_path), at)
    assert begun[-1] == at
    desk = Desk(tmp_path)
    id = (await desk.do("get", id="n"))["id"]
    async with desk.running():
        await desk.message("x", 5)
        await desk.message("x", 5)
    assert desk.book.tools == ["a/b", "channels.send_message"]
    assert desk.book.made[-1].arguments["key"] == f"{id}:5", (
        "so that a reply which was sent already is not sent again"
    )
    assert desk.inbox.handled == [5, 5]
