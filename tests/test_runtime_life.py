"""A runtime that is open for long: what changes around it, and who goes away."""

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from machine import Machine, write_skill
from metier import Completed, Refused, Runtime

pytestmark = pytest.mark.slow


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.delenv("METIER_HOME", raising=False)
    return made


async def soon(reached: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Whether it becomes true, without waiting longer than it takes."""
    with anyio.move_on_after(seconds):
        while not reached():
            await anyio.sleep(0.05)
        return True
    return False


def test_a_file_name_that_is_not_utf8_does_not_reach_the_program(machine: Machine) -> None:
    skill = write_skill(machine.skills / "one")

    async def main() -> bool:
        async with Runtime.open(project=str(machine.project)) as metier:
            os.mkdir(os.fsencode(machine.skills) + b"/odd-\xff")
            with open(os.fsencode(skill) + b"/f\xff", "wb"):
                pass
            write_skill(machine.skills / "two")
            return await soon(lambda: metier.catalog.get("two") is not None)

    assert anyio.run(main)


def test_a_link_in_a_root_leads_the_watch_nowhere(machine: Machine) -> None:
    write_skill(machine.project / "skills/one")
    (machine.project / "skills/everything").symlink_to("/")

    async def main() -> list[str]:
        async with Runtime.open(project=str(machine.project)) as metier:
            return metier.catalog.folders()

    began = time.monotonic()
    folders = anyio.run(main)
    assert time.monotonic() - began < 30  # following the link took minutes
    inside = str(machine.top)
    assert [folder for folder in folders if not folder.startswith(inside) and "bundled" not in folder] == []


def test_a_skill_switched_off_in_the_configuration_cannot_be_used_from_the_next_call_on(
    machine: Machine,
) -> None:
    write_skill(machine.skills / "one")

    async def main() -> tuple[object, object, object]:
        async with Runtime.open(project=str(machine.project), watch=False) as metier:
            before = await metier.call("read_skill", {"name": "one"})
            config = machine.state / "metier.toml"
            config.write_text('[skills]\ndisabled = ["one"]\n', encoding="utf-8")
            off = await metier.call("read_skill", {"name": "one"})
            config.write_text("[skills\n", encoding="utf-8")
            return before, off, await metier.call("read_skill", {"name": "one"})

    before, off, broken = anyio.run(main)
    assert isinstance(before, Completed)
    assert isinstance(off, Refused)
    assert off.code == "skill_disabled"
    assert isinstance(broken, Refused)
    assert broken.code == "setup_unusable"


def test_callers_who_go_away_leave_no_call_without_an_outcome(machine: Machine) -> None:
    write_skill(machine.skills / "one")

    async def main() -> int:
        cancelled = 0
        async with Runtime.open(project=str(machine.project), watch=False) as metier:
            for number in range(60):
                task = asyncio.ensure_future(metier.call("read_skill", {"name": "one"}))
                await asyncio.sleep(0.0005 * (number % 12))
                cancelled += task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        return cancelled

    assert anyio.run(main) > 5
    found = json.loads(machine.metier("audit", "verify", "--json").stdout)
    assert found["ok"]
    assert list(found["open_intents"]) == []


def test_the_loop_is_free_while_the_record_is_busy(machine: Machine) -> None:
    import sqlite3

    async def main() -> tuple[float, object]:
        worst = 0.0
        async with Runtime.open(project=str(machine.project), watch=False) as metier:
            await metier.call("read_skill", {"name": "writing-skills"})
            other = sqlite3.connect(machine.state / "state.db", isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            outcomes: list[object] = []

            async def call() -> None:
                outcomes.append(await metier.call("read_skill", {"name": "writing-skills"}))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call)
                tasks.start_soon(call)
                for _ in range(20):
                    began = time.monotonic()
                    await anyio.sleep(0.02)
                    worst = max(worst, time.monotonic() - began)
                other.execute("ROLLBACK")
                other.close()
        return worst, outcomes

    worst, outcomes = anyio.run(main)
    assert worst < 1.0
    assert [type(outcome) for outcome in outcomes] == [Completed, Completed]  # type: ignore[attr-defined]


def test_what_is_switched_off_leaves_the_prompt_without_a_call(machine: Machine) -> None:
    write_skill(machine.skills / "one")

    async def main() -> bool:
        async with Runtime.open(project=str(machine.project)) as metier:
            assert "one" in metier.prompt()
            (machine.state / "metier.toml").write_text('[skills]\ndisabled = ["one"]\n', encoding="utf-8")
            return await soon(lambda: "<name>\none\n" not in metier.prompt())

    assert anyio.run(main)


def test_a_call_after_closing_is_refused_as_a_value(machine: Machine) -> None:
    async def main() -> object:
        async with Runtime.open(project=str(machine.project), watch=False) as metier:
            kept = metier
        return await kept.call("read_skill", {"name": "writing-skills"})

    outcome = anyio.run(main)
    assert isinstance(outcome, Refused)
    assert outcome.code == "setup_unusable"


def test_a_name_of_a_tool_that_does_not_exist_is_not_in_the_chain(machine: Machine) -> None:
    calls = [{"id": "1", "type": "function", "function": {"name": "sk-CANARY", "arguments": "{bad"}}]

    async def main() -> None:
        async with Runtime.open(project=str(machine.project), watch=False) as metier:
            await metier.handle(calls)

    anyio.run(main)
    assert "CANARY" not in machine.metier("audit", "tail", "--json").stdout
