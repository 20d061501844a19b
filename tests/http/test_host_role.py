"""The host role among servers: there is one host for as long as there is a server that may be it, and nothing is done twice."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from household import kettle, records
from machine import Machine
from metier.doors.telegram.configured import SKILL_ID
from metier.errors import StateError
from metier.kernel.host_role import FILE, HostRole, holder
from metier.kernel.store import Store
from metier.model.outcome import Completed
from metier.runtime import standing_by
from metier.runtime.as_owner import operate
from metier.runtime.hosting import Hosting
from metier.runtime.standing_by import StandingBy
from metier.testing.bot_api import BotApiServer
from serve_kit import House, Premises
from telegram_desk import ADA


class Server:
    """`metier serve`, and what it says."""

    def __init__(self, machine: Machine, *more: str) -> None:
        self.process = subprocess.Popen(
            [str(Path(sys.executable).with_name("metier")), "serve", "--port", "0", "--no-mcp", *more],
            cwd=machine.project,
            env={
                **machine.environ,
                "PATH": f"{machine.bin}:/usr/bin:/bin",
                "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
        )
        self.pid = self.process.pid
        self.lines: list[str] = []
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()
        wait_for(lambda: "Sign in" in self.said, 30)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)

    @property
    def said(self) -> str:
        return "".join(self.lines)

    def ends(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(25) == 0, self.said
        self._reading.join(5)
        assert "Traceback" not in self.said

    def close(self) -> None:
        self.process.kill()
        self.process.wait(20)
        self._reading.join(5)
        if self.process.stdout is not None:
            self.process.stdout.close()


def wait_for(there: Callable[[], bool], seconds: float) -> float:
    began = time.monotonic()
    while not there():
        assert time.monotonic() - began < seconds
        time.sleep(0.02)
    return time.monotonic() - began


@contextmanager
def servers() -> Generator[Callable[..., Server]]:
    made: list[Server] = []

    def serve(machine: Machine, *more: str) -> Server:
        made.append(Server(machine, *more))
        return made[-1]

    try:
        yield serve
    finally:
        for each in made:
            each.close()


def host_of(machine: Machine) -> int:
    found = holder(str(machine.state))
    return found.pid if found is not None else 0


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_rel_08_the_next_server_is_the_host_within_two_seconds_and_does_what_is_due_once(
    tmp_path: Path,
) -> None:
    machine = Machine(tmp_path)
    note = machine.state / "workspace" / "memory" / "note.md"
    note.parent.mkdir(parents=True)
    machine.state.chmod(0o700)
    note.write_text("kept", encoding="utf-8")
    with servers() as serve:
        first, second = serve(machine), serve(machine)
        assert f"process {first.pid} is the host" in second.said
        due = datetime.now(UTC) + timedelta(seconds=9)
        reads = ("--tool", "fs_read/execute", "--arguments", '{"path": "memory/note.md"}')
        machine.metier(
            "schedules", "add", "--name", "once", "--at", due.isoformat(timespec="seconds"), *reads
        )
        first.ends()
        assert wait_for(lambda: host_of(machine) == second.pid, 5) < 2
        wait_for(lambda: "this process is the host now" in second.said, 5)
        wait_for(lambda: "completed" in machine.metier("schedules", "show", "once").stdout, 30)
        time.sleep(1.5)
        firings = machine.json("schedules", "show", "once", "--json")["firings"]
        assert len(firings) == 1, firings
        assert second.said.count("is the host now") == 1
        second.ends()
    assert holder(str(machine.state)) is None


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_rel_08_a_server_that_is_started_at_once_after_the_old_one_was_told_to_end_is_the_host(
    tmp_path: Path,
) -> None:
    machine = Machine(tmp_path)
    with servers() as serve:
        first = serve(machine)
        first.process.send_signal(
            signal.SIGSTOP
        )  # so that it surely still holds the role when the next one looks
        first.process.send_signal(signal.SIGTERM)
        second = serve(machine)
        assert f"process {first.pid} is the host" in second.said
        first.process.send_signal(signal.SIGCONT)
        assert first.process.wait(25) == 0
        assert wait_for(lambda: host_of(machine) == second.pid, 5) < 2
        assert machine.json("host", "status", "--json")["answers"]
        second.ends()


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_server_that_is_no_host_says_that_nothing_is_and_who_comes_and_goes(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    with servers() as serve:
        left_out = serve(machine, "--no-host")
        assert "Nothing is the host" in left_out.said
        other = serve(machine)
        wait_for(lambda: f"process {other.pid} is the host now" in left_out.said, 5)
        other.ends()
        wait_for(lambda: f"process {other.pid}, which was the host, has ended" in left_out.said, 5)
        assert host_of(machine) == 0
        left_out.ends()


def done(machine: Machine, tool: str, **arguments: Any) -> Any:
    """What the host did for the owner, who asks from a process of his own, once there is a host that can."""
    deadline = time.monotonic() + 40
    while True:
        ended = anyio.run(operate, machine.settings(), tool, arguments)
        if isinstance(ended, Completed):
            return ended.value
        assert time.monotonic() < deadline, ended
        time.sleep(0.1)


def came_in(machine: Machine) -> list[str]:
    """What was said to the bot, as it is stored, in order."""
    store = Store(str(machine.state))
    try:
        with store.reading() as connection:
            rows = connection.execute(
                "SELECT text FROM message WHERE direction = 'in' ORDER BY id"
            ).fetchall()
    finally:
        store.close()
    return [str(text) for (text,) in rows]


def lives(machine: Machine) -> list[str]:
    """How the lives of skills began and ended, in order."""
    return [
        "began" if each.event == "skill_execution_started" else "ended"
        for each in records(machine)
        if each.tool == "skills.live" and each.skill == "kettle"
    ]


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_rel_08_the_next_host_has_the_skills_that_live_and_the_bot_and_no_message_is_lost_or_doubled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("METIER_HOME", raising=False)
    machine = kettle(tmp_path)
    with BotApiServer() as telegram, servers() as serve:
        (machine.state / "metier.toml").write_text(f'[telegram]\napi = "{telegram.url}"\n', encoding="utf-8")
        (machine.state / "metier.toml").chmod(0o600)
        first = serve(machine)
        done(machine, "skills.enable", skill_id=SKILL_ID)
        said = {
            "bot_token": telegram.token,
            "admin_chat_ids": [str(ADA)],
            "auto_start": True,
            "polling": {"timeout_sec": 5},
        }
        done(machine, "settings.set_skill", skill_id=SKILL_ID, patch=said)
        done(machine, "telegram.start")
        done(machine, "kettle.keep", key="tea", value="green")
        second = serve(machine)

        sent: list[str] = []
        over = threading.Event()

        def talk() -> None:
            while not over.wait(0.05):
                sent.append(f"word {len(sent)}")
                telegram.state.message(ADA, sent[-1])

        talking = threading.Thread(target=talk, daemon=True)
        talking.start()
        wait_for(lambda: len(came_in(machine)) > 3, 20)
        answers = [f"answer {number}" for number in range(8)]
        for text in answers:
            done(machine, "channels.send_message", channel="telegram", chat_id=str(ADA), text=text)
        first.ends()
        wait_for(lambda: host_of(machine) == second.pid, 5)
        before = len(sent)
        assert done(machine, "kettle.read", key="tea") == "green"
        wait_for(lambda: len(came_in(machine)) > before, 30)
        over.set()
        talking.join(5)
        wait_for(lambda: len(came_in(machine)) >= len(sent), 30)
        wait_for(lambda: len(telegram.texts(ADA)) >= len(answers), 30)
        time.sleep(1)
        assert came_in(machine) == sent
        assert telegram.texts(ADA) == answers
        assert lives(machine) == ["began", "ended", "began"], "one life after the other"
        second.ends()
    assert lives(machine) == ["began", "ended"] * 2


@pytest.fixture
def premises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Premises:
    monkeypatch.setattr(standing_by, "LOOK_SECONDS", 0.05)
    return Premises(tmp_path, monkeypatch)


def stands_by(premises: Premises, act: Callable[[House, list[str]], Any]) -> list[str]:
    """What it said, with a server that stands by while `act` goes on."""
    said: list[str] = []

    async def main() -> None:
        async with premises.serving() as house:
            role = StandingBy(house.engine.kernel, str(premises.machine.state), doors=(), say=said.append)
            await role.begin()
            await role.tell()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(role.run)
                with anyio.fail_after(20):
                    await act(house, said)
                tasks.cancel_scope.cancel()

    anyio.run(main)
    return said


async def became(house: House) -> Hosting:
    return await house.engine.kernel.hosted()


def taken(premises: Premises) -> HostRole:
    role = HostRole.try_take(str(premises.machine.state))
    assert isinstance(role, HostRole)
    return role


def test_who_becomes_the_host_twice_tells_everybody_once(premises: Premises) -> None:
    """Somebody removed the lock: there may be two hosts, so this one ends, and is it again once it surely is the only one."""

    async def act(house: House, said: list[str]) -> None:
        first = await became(house)
        parts: Any = house.engine.kernel._kernel
        ways, listeners = len(parts.parts.announcements._ways), len(first.events._listeners)
        os.unlink(premises.machine.state / FILE)
        await first.ended.wait()
        second = await became(house)
        assert second is not first
        with anyio.fail_after(5):
            while len(second.events._listeners) < listeners:
                await anyio.sleep(0.01)
        await anyio.sleep(0.2)
        assert len(second.events._listeners) == listeners
        assert len(parts.parts.announcements._ways) == ways

    said = stands_by(premises, act)
    assert "is the host no longer" in said[0]
    assert "this process is the host now" in said[1]


def test_what_keeps_it_from_being_the_host_is_said_once_and_it_goes_on_trying(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    role = taken(premises)
    tried = 0
    real = Hosting.run

    async def fails(self: Hosting, **more: Any) -> None:
        nonlocal tried
        tried += 1
        self._role.release()
        self.ended.set()
        raise StateError("not today", remedy="Wait")

    monkeypatch.setattr(Hosting, "run", fails)

    async def act(house: House, said: list[str]) -> None:
        role.release()
        while tried < 3:
            await anyio.sleep(0.02)
        assert house.engine.kernel.hosting is None
        monkeypatch.setattr(Hosting, "run", real)
        hosting = await became(house)
        while not any("the host now" in each for each in said):
            await anyio.sleep(0.02)
        kernel: Any = house.engine.kernel._kernel
        ways = [each._announcer.way for each in kernel.parts.announcements._ways]
        assert len(ways) == len(set(ways)) == 2, ways
        assert hosting.status().background

    said = stands_by(premises, act)
    assert len([each for each in said if "not today" in each]) == 1, said


def test_a_server_that_ends_while_it_becomes_the_host_gives_the_role_back(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    role, begins = taken(premises), anyio.Event()
    real = Hosting.run

    async def slow(self: Hosting, **more: Any) -> None:
        begins.set()
        await anyio.sleep(0.3)
        await real(self, **more)

    monkeypatch.setattr(Hosting, "run", slow)

    async def act(house: House, said: list[str]) -> None:
        role.release()
        await begins.wait()

    began = time.monotonic()
    stands_by(premises, act)
    assert time.monotonic() - began < 10
    assert holder(str(premises.machine.state)) is None


def test_what_happens_from_the_first_moment_of_a_host_on_is_heard_by_who_listens(premises: Premises) -> None:
    heard: list[str] = []
    role = taken(premises)

    async def act(house: House, said: list[str]) -> None:
        house.door.serving.live.happened = lambda event: heard.append(event.name)  # type: ignore[method-assign]
        role.release()
        hosting = await became(house)
        await anyio.sleep(0.3)
        hosting.events.emit("tea.ready", {})

    stands_by(premises, act)
    assert "tea.ready" in heard
