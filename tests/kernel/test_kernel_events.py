"""What happens is told in the host, whichever process did it; and what a call set off is not cut off by its program's end."""

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner

from machine import Machine, write_skill
from metier.doors.cli import metier as command
from metier.kernel.events import Events, Happened
from metier.kernel.settings_watch import UPDATED, SettingsWatch
from metier.kernel.store import Store
from metier.kernel.trigger import Condition, ConditionTrigger, EventTrigger, MessageTrigger
from metier.kernel.trigger_match import set_off
from metier.kernel.trigger_occasion import RECEIVED, of_event
from metier.kernel.trigger_store import KeptTrigger
from metier.model.outcome import Completed
from metier.runtime import Runtime
from metier.runtime.as_owner import call_as_owner


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.chdir(made.project)
    return made


@asynccontextmanager
async def opened(machine: Machine, **more: Any) -> AsyncGenerator[Any]:
    async with Runtime.open(project=str(machine.project), watch=False, **more) as runtime:
        yield runtime


async def heard(events: list[Happened], wanted: Callable[[Happened], bool]) -> Happened:
    with anyio.fail_after(20):
        while not (found := [each for each in events if wanted(each)]):
            await anyio.sleep(0.02)
    return found[0]


def test_settings_that_another_process_changed_are_told_in_the_host_once(tmp_path: Path) -> None:
    ours, theirs = Store(str(tmp_path)), Store(str(tmp_path))
    events, told = Events(), list[Happened]()

    def put(store: Store, skill: str, at: float) -> None:
        with store.writing() as connection:
            connection.execute("INSERT OR REPLACE INTO settings VALUES (?, '{}', ?, 'x')", (skill, at))

    async def main() -> None:
        with events.listening(told.append):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(SettingsWatch(ours, events, {"own": 1.0}.get).run)
                await anyio.sleep(0.1)
                put(ours, "own", 1.0)
                events.emit(UPDATED, {"skill": "own"})
                put(theirs, "theirs", 1.0)
                await heard(told, lambda each: each.payload == {"skill": "theirs"})
                put(theirs, "theirs", 2.0)
                with anyio.fail_after(20):
                    while len(told) < 3:
                        await anyio.sleep(0.02)
                tasks.cancel_scope.cancel()

    anyio.run(main)
    assert [each.payload for each in told] == [{"skill": "own"}, {"skill": "theirs"}, {"skill": "theirs"}]
    ours.close()
    theirs.close()


def test_what_another_process_changes_is_told_also_after_the_host_itself_changed_the_same(
    tmp_path: Path,
) -> None:
    ours, theirs = Store(str(tmp_path)), Store(str(tmp_path))
    events, told = Events(), list[Happened]()

    def put(store: Store, at: float) -> None:
        with store.writing() as connection:
            connection.execute("INSERT OR REPLACE INTO settings VALUES ('tea', '{}', ?, 'x')", (at,))

    async def main() -> None:
        with events.listening(told.append):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(SettingsWatch(ours, events, {"tea": 1.0}.get).run)
                await anyio.sleep(0.1)
                put(ours, 1.0)
                events.emit(UPDATED, {"skill": "tea"})
                await anyio.sleep(2.0)  # some looks
                put(theirs, 2.0)
                with anyio.fail_after(20):
                    while len(told) < 2:
                        await anyio.sleep(0.02)
                tasks.cancel_scope.cancel()

    anyio.run(main)
    assert [each.payload for each in told] == [{"skill": "tea"}] * 2
    ours.close()
    theirs.close()


def test_a_skill_that_came_is_told_once_however_many_notice_it_at_the_same_time(machine: Machine) -> None:
    config = machine.state / "metier.toml"
    machine.state.mkdir(mode=0o700, exist_ok=True)
    config.write_text("", encoding="utf-8")
    config.chmod(0o600)

    async def main() -> list[Any]:
        async with opened(machine, host=True) as runtime:
            told = list[Happened]()
            with runtime._engine.kernel._kernel.parts.events.listening(told.append):
                write_skill(machine.skills / "tea")
                config.write_text("# changed\n", encoding="utf-8")
                async with anyio.create_task_group() as tasks:
                    for _ in range(8):
                        tasks.start_soon(runtime.call, "read_skill", {"name": "writing-skills"})
            return [each.payload for each in told if each.name == "skill_installed"]

    assert anyio.run(main) == [{"skill": "tea"}]


def test_skills_that_come_and_go_are_told_in_the_host(machine: Machine) -> None:
    async def main() -> list[tuple[str, Any]]:
        async with opened(machine, host=True) as runtime:
            told = list[Happened]()
            with runtime._engine.kernel._kernel.parts.events.listening(told.append):
                folder = machine.skills / "tea"
                write_skill(folder)
                await runtime.reload()
                (folder / "SKILL.md").unlink()
                await runtime.reload()
            return [(each.name, each.payload) for each in told if each.name.startswith("skill_")]

    assert anyio.run(main) == [("skill_installed", {"skill": "tea"}), ("skill_uninstalled", {"skill": "tea"})]


def _message(skill: str) -> Happened:
    about: Any = {"channel": "bell", "chat": "1", "text": "open the door", "message": 1, "skill": skill}
    return Happened(name=RECEIVED, source="metier", payload=about)


@pytest.mark.parametrize(
    ("channels", "skill", "fires"),
    [(None, "", True), (None, "bell-skill", False), (("bell",), "bell-skill", True), (("other",), "", False)],
)
def test_what_a_skill_says_was_said_on_its_channel_sets_off_only_what_names_that_channel(
    channels: tuple[str, ...] | None, skill: str, fires: bool
) -> None:
    trigger = MessageTrigger(name="t", tool="fs_read/execute", patterns=("door",), channels=channels)
    kept = KeptTrigger(
        id="t",
        owner="human:me",
        skill="",
        enabled=True,
        trigger=trigger,
        created_at=0.0,
        last_fired=0.0,
        fired=0,
        last_outcome="",
    )
    assert bool(set_off([kept], of_event(_message(skill)))) is fires


def test_a_skills_channel_is_not_metiers_word_for_event_and_condition_triggers_either() -> None:
    asked = Condition(field="message.text", operator="eq", value="open the door")
    for trigger in (
        EventTrigger(name="t", tool="fs_read/execute", events=(RECEIVED,)),
        ConditionTrigger(name="t", tool="fs_read/execute", conditions=(asked,)),
    ):
        kept = KeptTrigger(
            id="t",
            owner="human:me",
            skill="",
            enabled=True,
            trigger=trigger,
            created_at=0.0,
            last_fired=0.0,
            fired=0,
            last_outcome="",
        )
        assert set_off([kept], of_event(_message(""))), "control: what a door of ours took in"
        assert not set_off([kept], of_event(_message("bell-skill")))


def test_explain_says_what_a_trigger_would_run_instead(machine: Machine) -> None:
    machine.skills.mkdir(parents=True, exist_ok=True)

    async def set_up() -> None:
        async with opened(machine) as runtime:
            made = await call_as_owner(
                runtime,
                "triggers.create",
                {
                    "trigger": {
                        "name": "instead of reading",
                        "type": "tool_use",
                        "toolNames": ["fs_read/execute"],
                        "timing": "instead",
                        "tool": "shell_safe/execute",
                        "arguments": {"command": "ls"},
                    }
                },
            )
            assert isinstance(made, Completed), made

    anyio.run(set_up)
    done = CliRunner().invoke(
        command, ["explain", "fs_read/execute", json.dumps({"path": "memory/x"}), "--json"]
    )
    assert done.exit_code == 3, done.output
    assert "stands in place of" in done.output
