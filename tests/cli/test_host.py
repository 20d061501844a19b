"""`metier host`: one process runs what lives and waits, says what it runs, and ends when it is told to."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from household import configured, python_package
from machine import Machine
from metier.kernel.host_role import HostRole, holder
from metier.kernel.store import Store
from metier.record.database import Database
from metier.record.stop import stop


class Host:
    """`metier host` in the background, once it serves."""

    def __init__(self, machine: Machine) -> None:
        self.process = subprocess.Popen(
            [str(Path(sys.executable).with_name("metier")), "host"],
            cwd=machine.project,
            env={**machine.environ, "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        assert self.process.stdout is not None
        self.said = [self.process.stdout.readline()]
        while self.said[-1] and not re.match(r"  \w+ schedules?\b", self.said[-1]):
            self.said.append(self.process.stdout.readline())

    def ended(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=30)
        assert "Traceback" not in err, err
        return self.process.returncode, "".join(self.said) + out, err


@pytest.fixture
def host(machine: Machine) -> Iterator[Host]:
    host = Host(machine)
    yield host
    if host.process.poll() is None:
        host.process.kill()
    host.process.communicate(timeout=30)


def test_the_host_says_what_it_runs_and_status_says_the_same(machine: Machine, host: Host) -> None:
    assert f"is the host: process {host.process.pid}" in host.said[0]
    said = machine.metier("host", "status").stdout
    for line in ("skills that live", "channels", "triggers", "schedules"):
        assert line in said
        assert any(line in each for each in host.said)
    found = machine.json("host", "status", "--json")
    assert (found["running"], found["answers"], found["problem"]) == (True, True, "")
    assert found["host"]["pid"] == host.process.pid
    assert {each["state"] for each in found["host"]["background"]} == {"running"}


def test_rel_08_a_second_host_is_told_who_the_first_is_and_does_nothing(machine: Machine, host: Host) -> None:
    said = machine.metier("host", check=5).stderr
    assert f"process {host.process.pid} is the host" in said
    assert "metier host status" in said
    assert "answers" in machine.metier("host", "status", "--json").stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_host_cleanly(machine: Machine, host: Host, number: signal.Signals) -> None:
    began = time.monotonic()
    host.process.send_signal(number)
    status, said, error = host.ended()
    assert time.monotonic() - began < 10
    assert status == 0, error
    assert "The host has ended" in said
    assert holder(str(machine.state)) is None
    assert {"host.sock", "host.key"}.isdisjoint(os.listdir(machine.state))


def test_stop_ends_it_and_says_so_and_there_is_nothing_to_stop_then(machine: Machine, host: Host) -> None:
    assert "has ended" in machine.metier("host", "stop").stdout
    assert host.ended()[0] == 0
    assert "Nothing runs" in machine.metier("host", "stop").stdout
    said = machine.metier("host", "status", check=1).stdout
    assert "`metier host` starts it" in said


def test_rel_08_a_host_that_was_killed_is_followed_by_the_next(machine: Machine, host: Host) -> None:
    host.process.kill()
    host.process.wait(timeout=30)
    assert "`metier host` starts it" in machine.metier("host", "status", check=1).stdout
    second = Host(machine)
    try:
        assert "is the host" in second.said[0]
        assert machine.json("host", "status", "--json")["host"]["pid"] == second.process.pid
    finally:
        second.process.terminate()
        assert second.ended()[0] == 0


@pytest.mark.slow
def test_a_host_that_stands_still_is_said_to_and_not_waited_for(machine: Machine, host: Host) -> None:
    host.process.send_signal(signal.SIGSTOP)
    try:
        said = machine.metier("host", "status", check=1).stdout
        assert f"Process {host.process.pid} is the host, and does not answer" in said
    finally:
        host.process.send_signal(signal.SIGCONT)
    machine.metier("host", "status")


def test_who_reads_what_it_says_may_go_away(machine: Machine, host: Host) -> None:
    assert host.process.stdout is not None
    host.process.stdout.close()
    machine.metier("host", "status")
    machine.metier("host", "stop")
    assert host.process.wait(timeout=30) == 0


def test_status_tells_what_is_kept_without_a_host_too(machine: Machine) -> None:
    store = Store(str(machine.state))
    with store.writing() as connection:
        connection.execute(
            "INSERT INTO skill_life (skill, enabled, status, error, digest, changed_at, changed_by)"
            " VALUES ('tea', 1, 'error', 'it \x1b[31mbroke', '', 0, 'human:x')"
        )
        connection.execute(
            "INSERT INTO schedule (id, owner, skill, enabled, definition, created_at, next_due, last_outcome, missed)"
            " VALUES ('daily', 'human:x', '', 1, '{', 0, 1e300, '', 0)"
        )
    store.close()
    said = machine.metier("host", "status", check=1).stdout
    assert "0 of 1 skill that shall live" in said
    assert "! tea: error: it" in said
    assert "\x1b" not in said
    assert "1 schedule, next daily" in said
    found = machine.json("host", "status", "--json", check=1)
    assert (found["running"], found["about"]["schedules"]) == (False, 1)


def test_status_tells_whether_there_is_a_host_also_where_nothing_else_can_be_read(machine: Machine) -> None:
    machine.state.mkdir(mode=0o700)
    (machine.state / "kernel.db").write_bytes(b"no database at all" * 500)
    (machine.state / "kernel.db").chmod(0o600)
    said = machine.metier("host", "status", check=1).stdout
    assert "Nothing runs as the host" in said
    assert "kernel.db" in said
    assert "kernel.db" in machine.json("host", "status", "--json", check=1)["problem"] + said


def test_nothing_is_restored_under_a_host_that_runs(machine: Machine) -> None:
    copy = str(machine.top / "copy")
    with Database.open(str(machine.state / "state.db")) as database:
        stop(database, by="human:x")
    machine.metier("backup", copy)
    for name in os.listdir(machine.state):
        os.unlink(machine.state / name)
    role = HostRole.try_take(str(machine.state))
    assert isinstance(role, HostRole)
    assert "metier host stop" in machine.metier("restore", copy, check=5).stderr
    role.release()
    machine.metier("restore", copy)


WHICH = """
class Which:
    name = 'which'
    async def one(self, params, meta): return 'OLD'
async def on_enable(ctx): ctx.register_module(Which())
skill = {'id': 'which', 'version': '1.0.0', 'on_enable': on_enable}
"""


@pytest.mark.slow
def test_a_host_that_runs_sees_what_is_allowed_changed_and_trusted_meanwhile(
    machine: Machine, host: Host
) -> None:
    assert any("no skills that live" in each for each in host.said)
    python_package(machine, "which", WHICH)
    configured(machine, "which", enabled=["which"])
    machine.metier("skills", "trust", "which", "--yes")
    assert "✓ which lives" in machine.metier("skills", "start", "which").stdout
    assert "1 of 1 skill that shall live: which" in machine.metier("host", "status").stdout
    assert "OLD" in machine.metier("operate", "which.one").stdout
    python_package(machine, "which", WHICH.replace("OLD", "NEW"))
    machine.metier("skills", "trust", "which", "--yes")
    machine.metier("skills", "start", "which")
    assert "NEW" in machine.metier("operate", "which.one").stdout
    python_package(machine, "which", WHICH.replace("OLD", "BAD"))  # and nobody trusts that
    deadline = time.monotonic() + 20
    while "skills.live" in machine.metier("calls", "list").stdout:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert "0 of 1 skill that shall live" in machine.metier("host", "status").stdout
