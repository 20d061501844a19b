"""The line to the host: what it does for others, for whom, and what happens when somebody goes away."""

import logging
import os
import signal
import socket
import stat
import struct
from contextlib import closing
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from msgspec.structs import replace

from host_line_kit import Desk, gone, host_elsewhere
from metier.errors import NoHost, StateError
from metier.kernel.events import Happened
from metier.kernel.host_line import HostLine
from metier.kernel.host_line_server import MOST_CLIENTS, MOST_STRANGERS
from metier.kernel.host_line_words import (
    BUSY,
    FORBIDDEN,
    INTERRUPTED,
    MOST_BYTES,
    NOT_JSON,
    TIMEOUT,
    TOO_LARGE,
)
from metier.kernel.host_role import HostRole
from metier.kernel.operation import Asked, OperationError
from metier.model.digest import Json


async def refused(desk: Desk, asked: Asked) -> OperationError:
    with pytest.raises(OperationError) as error:
        await desk.line.do(asked)
    return error.value


def test_an_operation_of_a_recorded_call_is_done_by_the_host(tmp_path: Path) -> None:
    desk = Desk(tmp_path)

    async def main() -> None:
        async with desk.serving():
            asked, _ = desk.announced()
            assert await desk.line.do(asked) == {"said": {"text": "hello"}}

    anyio.run(main)
    (done,) = desk.done
    assert (done.module, done.operation, done.surroundings.session) == ("echo", "say", "s1")


def test_a_call_that_nobody_recorded_is_not_done_whoever_has_the_key(tmp_path: Path) -> None:
    desk = Desk(tmp_path)

    async def main() -> None:
        async with desk.serving():
            assert (await refused(desk, desk.asked("call_made_up"))).code == FORBIDDEN
            for odd in ("", "call_\N{SNOWMAN}", "call_\udfff"):
                assert (await refused(desk, desk.asked(odd))).code in (FORBIDDEN, NOT_JSON)
            assert desk.done == []
            asked, _ = desk.announced()  # and with it on the record it is
            await desk.line.do(asked)

    anyio.run(main)
    assert len(desk.done) == 1


def test_who_asks_and_for_what_is_taken_from_the_record_and_from_nobodys_word(tmp_path: Path) -> None:
    desk = Desk(tmp_path)

    async def main() -> None:
        async with desk.serving():
            asked, _ = desk.announced("echo.say", principal="agent:other")
            claims = Asked(
                call_id=asked.call_id,
                principal=asked.principal,
                module="secrets",
                operation="reveal",
                arguments=asked.arguments,
            )
            await desk.line.do(claims)

    anyio.run(main)
    (done,) = desk.done
    assert (done.module, done.operation) == ("echo", "say")
    assert (done.principal.id, done.principal.kind, done.principal.on_behalf_of) == (
        "agent:other",
        "agent",
        "human:me",
    )
    assert done.principal.roles == done.principal.capabilities == frozenset()


def test_whose_module_is_asked_must_be_the_one_that_the_record_announces(tmp_path: Path) -> None:
    desk = Desk(tmp_path)

    async def main() -> None:
        async with desk.serving():
            for announced, claimed in (("", "kettle"), ("kettle", ""), ("kettle", "pot")):
                asked, _ = desk.announced(skill=announced)
                assert "another skill" in (await refused(desk, replace(asked, skill=claimed))).message
            asked, _ = desk.announced(skill="kettle")
            await desk.line.do(replace(asked, skill="kettle"))
            # What the code of a skill asks for is recorded under its own name.
            asked, _ = desk.announced(skill="pot", principal="skill:pot")
            await desk.line.do(replace(asked, skill="kettle"))

    anyio.run(main)
    assert [each.skill for each in desk.done] == ["kettle", "kettle"]


@pytest.mark.parametrize("payloads", ["hashes", "redacted", "full"])
def test_other_arguments_than_the_recorded_ones_are_refused(tmp_path: Path, payloads: str) -> None:
    desk = Desk(tmp_path, payloads=payloads)  # type: ignore[arg-type]
    arguments: dict[str, Json] = {
        "to": "me",
        "text": "é",
        "list": [1, {"deep": None}],
        "password": "p4ssw0rd",
    }

    async def main() -> None:
        async with desk.serving():
            asked, _ = desk.announced(arguments=arguments)
            other = desk.asked(asked.call_id, arguments={**arguments, "to": "everybody"})
            assert "other arguments" in (await refused(desk, other)).message
            assert desk.done == []
            await desk.line.do(asked)

    anyio.run(main)
    assert desk.done[0].arguments == arguments


def test_a_call_of_another_process_is_not_handed_over_by_this_one(tmp_path: Path) -> None:
    desk = Desk(tmp_path)

    async def main() -> None:
        async with desk.serving():
            for process in ("", "1 2 3", f"{os.getpid()} 1 x"):
                asked, _ = desk.announced(process=process)
                assert (await refused(desk, asked)).code == FORBIDDEN

    anyio.run(main)
    assert desk.done == []


def test_a_call_is_done_once_and_another_attempt_of_it_once_more(tmp_path: Path) -> None:
    desk = Desk(tmp_path)

    async def main() -> None:
        async with desk.serving():
            asked, first = desk.announced()
            await desk.line.do(asked)
            assert "done once" in (await refused(desk, asked)).message
            desk.log.outcome(first, "skill_executed")
            assert (await refused(desk, asked)).code == FORBIDDEN  # it has its outcome
            again, _ = desk.announced(call_id=asked.call_id, attempt=2)
            await desk.line.do(again)

    anyio.run(main)
    assert len(desk.done) == 2


def test_what_an_earlier_host_may_have_done_is_not_done_by_the_next(tmp_path: Path) -> None:
    desk = Desk(tmp_path)

    async def main() -> None:
        async with desk.serving():
            asked, _ = desk.announced()
            await desk.line.do(asked)
        async with desk.serving():
            assert "before this host began" in (await refused(desk, asked)).message

    anyio.run(main)
    assert len(desk.done) == 1


def test_calls_that_are_over_are_forgotten_and_those_under_way_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metier.kernel.host_line_announced._REMEMBERED", 3)
    desk = Desk(tmp_path)

    async def main() -> None:
        async with desk.serving():
            kept, _ = desk.announced()
            await desk.line.do(kept)
            for _ in range(5):
                asked, intent = desk.announced()
                await desk.line.do(asked)
                desk.log.outcome(intent, "skill_executed")
            assert "done once" in (await refused(desk, kept)).message

    anyio.run(main)


def talk(home: Path, *lines: bytes) -> bytes:
    """What the host answers to exactly these bytes, until it closes. Blocking."""
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as line:
        line.settimeout(20)
        line.connect(str(home / "host.sock"))
        heard = b""
        try:
            line.sendall(b"".join(lines))
            while part := line.recv(65536):
                heard += part
        except (BrokenPipeError, ConnectionResetError):
            pass
        return heard


async def talked(home: Path, *lines: bytes) -> bytes:
    return await anyio.to_thread.run_sync(lambda: talk(home, *lines))


STATUS = b'{"type":"status"}\n'


def test_the_key_of_an_earlier_start_is_void(tmp_path: Path) -> None:
    desk = Desk(tmp_path)

    async def main() -> None:
        async with desk.serving():
            first = (tmp_path / "host.key").read_bytes()
            assert b'"host"' in await talked(tmp_path, first, b"\n", STATUS)  # it was good
        assert not (tmp_path / "host.key").exists()
        async with desk.serving():
            second = (tmp_path / "host.key").read_bytes()
            assert first != second
            for wrong in (first, b"", second[:-1], second + b"0", second.upper() + b"x", b"\xff" * 64):
                answer = await talked(tmp_path, wrong, b"\n", STATUS)
                assert b"E_HOST_KEY" in answer
                assert second not in answer
            assert b'"host"' in await talked(tmp_path, second, b"\n", STATUS)

    anyio.run(main)


def test_cap_03_the_key_of_the_line_is_in_no_log_error_or_print(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    desk = Desk(tmp_path)
    texts: list[str] = []

    async def broken(asked: Asked) -> Json:
        raise ValueError("broken inside: /root/secret/place")

    async def main() -> str:
        async with desk.serving(broken):
            key = (tmp_path / "host.key").read_text(encoding="ascii")
            asked, _ = desk.announced()
            texts.append(str(await refused(desk, asked)))
            texts.append(str(await refused(desk, desk.asked("call_none"))))
            texts.append((await talked(tmp_path, b"x\n", STATUS)).decode())
            texts.append(repr(await desk.line.status()))
            from metier.kernel.host_line_socket import read_key

            texts.append(repr(read_key(str(tmp_path))))
            texts.append(str(read_key(str(tmp_path))))
            return key

    key = anyio.run(main)
    assert "a fault of Metier" in texts[0]
    assert "/root" not in "".join(texts)
    assert "broken inside" in caplog.text  # it is told where the operator looks
    files = b"".join(p.read_bytes() for p in tmp_path.iterdir() if p.is_file())
    for text in (*texts, caplog.text, files.decode("latin-1")):
        assert key not in text
        assert key[:16] not in text


def test_sec_08_socket_and_key_are_this_users_alone_whatever_the_umask(tmp_path: Path) -> None:
    desk = Desk(tmp_path)

    async def main() -> None:
        old = os.umask(0)
        try:
            async with desk.serving():
                for name in ("host.sock", "host.key", "host.lock"):
                    assert stat.S_IMODE((tmp_path / name).lstat().st_mode) == 0o600, name
                assert stat.S_IMODE(os.stat(tmp_path).st_mode) == 0o700
                (tmp_path / "host.key").chmod(0o644)
                with pytest.raises(NoHost, match="nobody else can read"):
                    await desk.line.status()
        finally:
            os.umask(old)
        assert {"host.sock", "host.key"}.isdisjoint(os.listdir(tmp_path))

    anyio.run(main)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_user_is_not_heard_even_where_modes_let_him_in(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from other_user import run_as_user

    desk = Desk(tmp_path)
    script = f"""
import socket
line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
line.settimeout(20)
try:
    line.connect("{tmp_path}/host.sock")
    key = open("{tmp_path}/host.key", "rb").read()
    line.sendall(key + b"\\n" + {STATUS!r})
    print("heard", line.recv(65536))
except OSError as error:
    print("failed", type(error).__name__)
"""

    async def main() -> None:
        async with desk.serving():
            said = await anyio.to_thread.run_sync(run_as_user, script)
            assert "failed PermissionError" in said
            opened = [tmp_path, *tmp_path.parents]
            modes = {each: each.stat().st_mode for each in opened if each.stat().st_uid == 0}
            try:
                for each in modes:
                    each.chmod(modes[each] | 0o055)
                (tmp_path / "host.sock").chmod(0o666)
                (tmp_path / "host.key").chmod(0o644)
                said = await anyio.to_thread.run_sync(run_as_user, script)
            finally:
                for each, mode in modes.items():
                    each.chmod(mode)
            assert "heard b''" in said or "failed" in said
            assert "Permission" not in said  # it was not the modes
            key = (tmp_path / "host.key").read_bytes()
            assert b'"host"' in await talked(tmp_path, key, b"\n", STATUS)  # this user is

    anyio.run(main)
    assert "user 65534 spoke to the host" in caplog.text


def test_what_is_no_request_is_answered_and_the_host_goes_on(tmp_path: Path) -> None:
    desk = Desk(tmp_path)

    async def main() -> None:
        async with desk.serving():
            key = (tmp_path / "host.key").read_bytes() + b"\n"
            for odd in (
                b"\n",
                b"nonsense\n",
                b'{"type":"open"}\n',
                b'{"type":"do","call_id":1}\n',
                b'{"type":"do","call_id":"x","arguments":' + b"[" * 100_000 + b"\n",
                b'{"type":"do","call_id":"x","arguments":{"a":"\xff"}}\n',
            ):
                assert FORBIDDEN.encode() in await talked(tmp_path, key, odd), odd
            assert b'"host"' in await talked(tmp_path, key, STATUS)

    anyio.run(main)


def test_a_line_without_end_is_cut_off(tmp_path: Path) -> None:
    desk = Desk(tmp_path)

    async def main() -> None:
        async with desk.serving():
            key = (tmp_path / "host.key").read_bytes() + b"\n"
            for lines in ((b"k" * 5_000_000,), (key, b" " * (MOST_BYTES + 500_000))):
                answer = await talked(tmp_path, *lines)
                assert answer == b"" or FORBIDDEN.encode() in answer or b"E_HOST_KEY" in answer
            assert await desk.line.status()

    anyio.run(main)


def test_what_is_too_large_is_said_and_what_is_just_not_is_done(tmp_path: Path) -> None:
    desk = Desk(tmp_path)

    async def large(asked: Asked) -> Json:
        return "x" * MOST_BYTES if asked.operation == "say" else "half \ud800"

    async def main() -> None:
        async with desk.serving():
            text = "x" * 1_048_000
            asked, _ = desk.announced(arguments={"text": text})
            assert await desk.line.do(asked) == {"said": {"text": text}}
            more = desk.asked(asked.call_id, arguments={"text": "x" * MOST_BYTES})
            assert (await refused(desk, more)).code == TOO_LARGE
        async with desk.serving(large):
            asked, _ = desk.announced()
            assert (await refused(desk, asked)).code == TOO_LARGE
            assert (await refused(desk, desk.announced("echo.half")[0])).code == NOT_JSON

    anyio.run(main)


def test_many_who_say_nothing_keep_nobody_from_being_heard(tmp_path: Path) -> None:
    desk = Desk(tmp_path)

    async def main() -> None:
        async with desk.serving():
            silent: list[socket.socket] = []
            try:
                for _ in range(4 * MOST_STRANGERS):
                    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                    line.connect(str(tmp_path / "host.sock"))
                    silent.append(line)
                    await anyio.lowlevel.checkpoint()
                asked, _ = desk.announced()
                await desk.line.do(asked)
                silent[0].settimeout(20)
                assert await anyio.to_thread.run_sync(silent[0].recv, 1) == b""  # the first ones had to go
            finally:
                for line in silent:
                    line.close()

    anyio.run(main)


def test_more_clients_than_there_is_room_for_are_told_so_and_a_free_place_is_used(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    begun = 0
    all_begun, go = anyio.Event(), anyio.Event()

    async def waits(asked: Asked) -> Json:
        nonlocal begun
        begun += 1
        if begun == MOST_CLIENTS:
            all_begun.set()
        await go.wait()
        return "done"

    async def main() -> None:
        async with desk.serving(waits):
            async with anyio.create_task_group() as tasks:
                for _ in range(MOST_CLIENTS):
                    tasks.start_soon(desk.line.do, desk.announced()[0])
                await all_begun.wait()
                error = await refused(desk, desk.announced()[0])
                assert (error.code, "nothing was done" in error.message) == (BUSY, True)
                go.set()
            assert await desk.line.do(desk.announced()[0]) == "done"

    anyio.run(main)


def test_who_does_not_take_his_answer_holds_up_nobody(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    finished = anyio.Event()

    async def large(asked: Asked) -> Json:
        finished.set()
        return "x" * 1_000_000

    async def main() -> None:
        async with desk.serving(large):
            asked, _ = desk.announced()
            slow = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            slow.connect(str(tmp_path / "host.sock"))
            key = (tmp_path / "host.key").read_bytes()
            slow.sendall(
                key
                + b'\n{"type":"do","call_id":"%b","arguments":{"text":"hello"}}\n' % asked.call_id.encode()
            )
            await finished.wait()
            assert len(str(await desk.line.do(desk.announced()[0]))) == 1_000_000
            slow.close()

    anyio.run(main)


def test_an_operation_ends_when_who_asked_for_it_goes_away(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    begun, ended = anyio.Event(), anyio.Event()

    async def hangs(asked: Asked) -> Json:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    async def main() -> None:
        async with desk.serving(hangs):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(desk.line.do, desk.announced()[0])
                await begun.wait()
                tasks.cancel_scope.cancel()
            with anyio.fail_after(20):
                await ended.wait()
            assert await desk.line.status()

    anyio.run(main)


def test_an_operation_that_takes_too_long_is_ended_and_said(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    ended = anyio.Event()

    async def hangs(asked: Asked) -> Json:
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    async def main() -> None:
        async with desk.serving(hangs):
            with pytest.raises(OperationError) as error:
                await desk.line.do(desk.announced()[0], seconds=0.3)
            assert error.value.code == TIMEOUT
            with anyio.fail_after(20):
                await ended.wait()

    anyio.run(main)


def test_errors_of_an_operation_arrive_as_they_were_raised(tmp_path: Path) -> None:
    desk = Desk(tmp_path)

    async def fails(asked: Asked) -> Json:
        if asked.operation == "state":
            raise StateError("no room", remedy="Make some")
        raise OperationError("E_SKILLS_NOT_FOUND", "there is no such skill")

    async def main() -> None:
        async with desk.serving(fails):
            error = await refused(desk, desk.announced()[0])
            assert (error.code, error.message) == ("E_SKILLS_NOT_FOUND", "there is no such skill")
            error = await refused(desk, desk.announced("echo.state")[0])
            assert (error.code, error.message) == ("state_unavailable", "no room. Make some")

    anyio.run(main)


def test_without_a_host_it_is_said_what_to_do(tmp_path: Path) -> None:
    desk = Desk(tmp_path)

    async def main() -> None:
        with pytest.raises(NoHost, match="metier host"):
            await desk.line.do(desk.announced()[0])
        async with desk.serving():
            pass
        with pytest.raises(NoHost, match="metier host"):
            await desk.line.status()

    anyio.run(main)


def test_a_host_that_is_killed_in_the_middle_is_an_answer_and_the_next_one_serves(tmp_path: Path) -> None:
    desk = Desk(tmp_path)

    async def main() -> None:
        host = await anyio.to_thread.run_sync(host_elsewhere, tmp_path)
        assert host.stdout is not None
        errors: list[OperationError] = []

        async def ask() -> None:
            errors.append(await refused(desk, desk.announced("echo.hang")[0]))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await anyio.to_thread.run_sync(host.stdout.readline)
            host.send_signal(signal.SIGKILL)
        await anyio.to_thread.run_sync(gone, host)
        assert errors[0].code == INTERRUPTED
        assert (tmp_path / "host.sock").exists()  # it could not clear up
        with pytest.raises(NoHost):
            await desk.line.status()
        async with desk.serving():
            await desk.line.do(desk.announced()[0])

    anyio.run(main)


def test_a_host_that_stands_still_is_an_answer_and_not_a_hang(tmp_path: Path) -> None:
    desk = Desk(tmp_path)

    async def main() -> None:
        host = await anyio.to_thread.run_sync(host_elsewhere, tmp_path)
        try:
            host.send_signal(signal.SIGSTOP)
            with pytest.raises(OperationError) as error:
                await desk.line.do(desk.announced()[0], seconds=0.3)
            assert error.value.code == TIMEOUT
            host.send_signal(signal.SIGCONT)
            assert await desk.line.do(desk.announced()[0]) == {"text": "hello"}
        finally:
            host.kill()
            await anyio.to_thread.run_sync(gone, host)

    anyio.run(main)


def test_a_state_folder_with_a_long_name_works_too(tmp_path: Path) -> None:
    home = tmp_path / ("x" * 120) / ("y" * 120)
    home.mkdir(parents=True, mode=0o700)
    desk = Desk(home)

    async def main() -> None:
        async with desk.serving():
            assert (home / "host.sock").is_socket()
            await desk.line.do(desk.announced()[0])
        assert not (home / "host.sock").exists()

    anyio.run(main)


def test_what_is_no_socket_of_ours_is_not_removed(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    (tmp_path / "host.sock").write_text("mine", encoding="utf-8")

    async def main() -> None:
        with pytest.raises(BaseExceptionGroup) as group:
            async with desk.serving():
                pass
        assert isinstance(group.value.exceptions[0], StateError)

    anyio.run(main)
    assert (tmp_path / "host.sock").read_text(encoding="utf-8") == "mine"
    role = HostRole.try_take(str(tmp_path))
    assert isinstance(role, HostRole)
    role.release()


def test_status_and_end_are_heard(tmp_path: Path) -> None:
    desk = Desk(tmp_path)

    async def main() -> None:
        async with desk.serving() as role:
            found = await desk.line.status()
            assert (found.pid, found.since) == (os.getpid(), role.since)
            assert desk.ends == 0
            await desk.line.end()

    anyio.run(main)
    assert desk.ends == 1


def test_what_happens_is_told_to_who_listens(tmp_path: Path) -> None:
    desk = Desk(tmp_path)

    async def main() -> list[Happened]:
        heard: list[Happened] = []
        async with desk.serving():
            async with desk.line.events() as events:
                desk.events.emit("settings.skill.updated", {"skill": "tea"})
                for odd in ("half \ud800", "x" * MOST_BYTES):
                    desk.events.emit("tea.odd", odd, source="tea")  # cannot be told, and ends nothing
                desk.events.emit("tea.ready", {"cups": 2}, source="tea")
                async for happened in events:
                    heard.append(happened)
                    if len(heard) == 2:
                        break
            desk.events.emit("nobody.listens")
        return heard

    first, second = anyio.run(main)
    assert (first.name, first.source, first.payload) == ("settings.skill.updated", "metier", {"skill": "tea"})
    assert (second.name, second.source) == ("tea.ready", "tea")


def test_who_listens_too_slowly_is_cut_off_and_told_so(tmp_path: Path) -> None:
    desk = Desk(tmp_path)

    async def main() -> OperationError:
        async with desk.serving(), desk.line.events() as events:
            for number in range(2_000):
                desk.events.emit("flood", number)
            with pytest.raises(OperationError) as error:
                async for _ in events:
                    pass
            assert await desk.line.status()
            return error.value

    assert anyio.run(main).code == BUSY


def test_the_other_end_of_the_socket_must_be_this_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(tmp_path)

    async def main() -> None:
        async with desk.serving():
            assert await desk.line.status()
            monkeypatch.setattr("metier.kernel.host_line_socket._UCRED", Strange())
            with pytest.raises(NoHost, match="another user"):
                await HostLine(str(tmp_path)).status()

    anyio.run(main)


class Strange:
    """Says that somebody else is there."""

    size = struct.calcsize("3i")

    def unpack(self, _: bytes) -> tuple[int, int, int]:
        return (1, os.geteuid() + 1, 0)
