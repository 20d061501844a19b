"""What the host runs in the background: it goes on whatever fails, and ends when it is asked to."""

import logging
import os
import socket
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from metier.errors import NoHost, StateError
from metier.kernel.events import Events
from metier.kernel.host_line import HostLine
from metier.kernel.host_role import FILE, HostRole, holder
from metier.kernel.operation import Asked, OperationError
from metier.model.digest import Json
from metier.record.audit import AuditLog
from metier.record.database import Database
from metier.runtime import hosting
from metier.runtime.hosting import Hosting, Task


async def nothing(asked: Asked) -> Json:
    return None


def made(home: Path, **tasks: Task) -> Hosting:
    role = HostRole.try_take(str(home))
    assert isinstance(role, HostRole)
    database = Database.open(str(home / "state.db"))
    return Hosting(role, do=nothing, database=database, events=Events(), tasks=tasks)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosting, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(hosting, "LOOK_SECONDS", 0.05)


def test_a_task_that_fails_is_begun_again_and_ends_nobody_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    tries = 0
    well = anyio.Event()
    other = 0

    async def fails() -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise StateError("no room on the disk", remedy="Make some")
        if tries == 2:
            raise ValueError("token=canary-1234")
        if tries == 3:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(breaks)
        well.set()
        await anyio.sleep_forever()

    async def breaks() -> None:
        raise OSError("in a task of its own")

    async def steady() -> None:
        nonlocal other
        other += 1
        await anyio.sleep_forever()

    async def main() -> None:
        running = made(tmp_path, fails=fails, steady=steady)
        async with anyio.create_task_group() as tasks:
            await tasks.start(running.run)
            await well.wait()
            found = await HostLine(str(tmp_path)).status()
            states = {each.name: each for each in found.background}
            assert (states["fails"].state, states["fails"].failures) == ("running", 3)
            assert "canary" not in repr(found)
            assert states["steady"].state == "running"
            running.end()
        assert running.ended.is_set()

    anyio.run(main)
    assert (tries, other) == (4, 1)
    assert "no room on the disk" in caplog.text
    assert holder(str(tmp_path)) is None


def test_what_failed_and_waits_is_said_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosting, "FIRST_PAUSE", 60.0)
    failed = anyio.Event()

    async def fails() -> None:
        failed.set()
        raise StateError("no room on the disk", remedy="Make some")

    async def ends() -> None:
        return

    async def main() -> None:
        running = made(tmp_path, polling=fails, once=ends)
        async with anyio.create_task_group() as tasks:
            await tasks.start(running.run)
            await failed.wait()
            await anyio.lowlevel.checkpoint()
            found = {each.name: each for each in (await HostLine(str(tmp_path)).status()).background}
            assert (found["polling"].state, found["polling"].error) == (
                "waiting",
                "no room on the disk. Make some",
            )
            assert found["once"].state == "done"
            await HostLine(str(tmp_path)).end()
            await running.ended.wait()
        assert holder(str(tmp_path)) is None

    anyio.run(main)


def test_a_host_that_is_cancelled_gives_the_role_back(tmp_path: Path) -> None:
    async def main() -> None:
        running = made(tmp_path)
        async with anyio.create_task_group() as tasks:
            await tasks.start(running.run)
            found = holder(str(tmp_path))
            assert found is not None
            assert found.pid == os.getpid()
            tasks.cancel_scope.cancel()

    anyio.run(main)
    assert holder(str(tmp_path)) is None


def test_rel_08_a_host_whose_lock_was_removed_ends_before_there_are_two(tmp_path: Path) -> None:
    async def main() -> None:
        running = made(tmp_path)
        async with anyio.create_task_group() as tasks:
            await tasks.start(running.run)
            os.unlink(tmp_path / FILE)
            with anyio.fail_after(20):
                await running.ended.wait()

    anyio.run(main)


def test_rel_08_a_host_whose_lock_was_removed_leaves_socket_and_key_of_the_next_one_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosting, "LOOK_SECONDS", 3_600.0)  # it notices once the other is there

    async def main() -> None:
        first = made(tmp_path)
        async with anyio.create_task_group() as tasks:
            await tasks.start(first.run)
            os.unlink(tmp_path / FILE)
            second = made(tmp_path)
            await tasks.start(second.run)
            first.end()
            with anyio.fail_after(20):
                await first.ended.wait()
            found = await HostLine(str(tmp_path)).status()
            assert found.pid == os.getpid()
            assert {"host.sock", "host.key"} <= set(os.listdir(tmp_path))
            second.end()
            await second.ended.wait()
        assert {"host.sock", "host.key"}.isdisjoint(os.listdir(tmp_path)), "its own are taken away"

    anyio.run(main)


def test_one_who_holds_the_role_and_cannot_be_reached_is_named_and_nobody_is_told_to_start_another(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        running = made(tmp_path)
        async with anyio.create_task_group() as tasks:
            await tasks.start(running.run)
            for name in ("host.sock", "host.key"):
                os.unlink(tmp_path / name)
                with pytest.raises(NoHost) as caught:
                    await HostLine(str(tmp_path)).status()
                assert f"process {os.getpid()} holds the host role" in caught.value.message
                assert "nothing runs as the host" not in str(caught.value)
            running.end()

    anyio.run(main)


def test_a_host_that_cannot_be_reached_for_another_reason_is_not_said_to_be_none(tmp_path: Path) -> None:
    async def main() -> None:
        running = made(tmp_path)
        async with anyio.create_task_group() as tasks:
            await tasks.start(running.run)
            os.unlink(tmp_path / "host.sock")
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as odd:
                odd.bind(str(tmp_path / "host.sock"))
                with pytest.raises(OperationError) as caught:
                    await HostLine(str(tmp_path)).status()
            assert caught.value.code == "E_HOST_BUSY"
            assert "cannot be reached now: Protocol wrong type for socket" in caught.value.message
            running.end()

    anyio.run(main)


def test_when_a_process_was_the_host_and_who_ended_it_is_on_the_record(tmp_path: Path) -> None:
    async def main() -> None:
        for ends in ("line", "lock", "cancelled"):
            running = made(tmp_path)
            async with anyio.create_task_group() as tasks:
                await tasks.start(running.run)
                if ends == "line":
                    await HostLine(str(tmp_path)).end()
                elif ends == "lock":
                    os.unlink(tmp_path / FILE)
                else:
                    tasks.cancel_scope.cancel()
                with anyio.move_on_after(20, shield=True):
                    await running.ended.wait()

    anyio.run(main)
    with Database.open(str(tmp_path / "state.db")) as database:
        records = AuditLog(database).tail(100)
    assert [record.event for record in records] == ["host_started", "host_ended"] * 3
    assert {(record.principal, record.code) for record in records} == {
        ("agent:host", f"process:{os.getpid()}")
    }
    whys = [record.reasons[0] for record in records if record.event == "host_ended"]
    assert whys[0] == f"process {os.getpid()} asked for it"
    assert "host.lock" in whys[1]
    assert whys[2] == "its process ended"


def test_where_the_line_cannot_be_served_there_is_no_host(tmp_path: Path) -> None:
    (tmp_path / "host.sock").mkdir()

    async def main() -> None:
        running = made(tmp_path)
        async with anyio.create_task_group() as tasks:
            await tasks.start(running.run)

    with pytest.raises(ExceptionGroup) as group:
        anyio.run(main)
    error: BaseException = group.value
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, StateError)
    assert holder(str(tmp_path)) is None
