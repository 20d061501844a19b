"""An MCP server is a stranger in a sandbox: what it is given, what it may say, and what becomes of one that does not behave."""

import json
import os
import time
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_kit import Bench, Notes, on_a_bench
from metier.model.job import Event
from metier.model.mcp_listing import named
from metier.model.skill import Limits
from metier.sandbox import mcp_pipe, mcp_resident

pytestmark = pytest.mark.timeout(60)


def test_a_server_tells_its_tools_is_used_and_lives_on(tmp_path: Path) -> None:
    async def act(bench: Bench) -> None:
        report = await bench.look()
        assert (report.ending, report.fault) == ("returned", None), report.stderr
        assert "echo" in named(bench.listing)
        assert (await bench.call("echo", arguments={"text": "hello"})).value == "hello"
        counts = [json.loads(str((await bench.call("count")).value)) for _ in range(3)]
        assert [each["count"] for each in counts] == [1, 2, 3]
        assert len({each["pid"] for each in counts}) == 1

    on_a_bench(tmp_path, act)


def test_it_is_given_what_was_granted_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OURS", "not-for-servers")
    ours = tmp_path / "ours.txt"
    ours.write_text("private", encoding="utf-8")

    async def act(bench: Bench) -> None:
        await bench.look()
        found = json.loads(str((await bench.call("look", arguments={"text": str(ours)})).value))
        assert found[str(ours)] == "FileNotFoundError"
        assert found["/etc/shadow"] in ("FileNotFoundError", "PermissionError")
        assert "OURS" not in found["environ"]
        # The control: granted, the same file is read, and the variable seen.
        from jobs import place

        seen = await bench.call(
            "look",
            arguments={"text": str(ours)},
            places=(*bench.job("well", "look").places, place(ours)),
            environment={"OURS": "given"},
        )
        found = json.loads(str(seen.value))
        assert (found[str(ours)], found["environ"]["OURS"]) == ("private", "given")

    on_a_bench(tmp_path, act)


def test_a_secret_is_seen_by_the_server_and_masked_in_all_it_gives_back(tmp_path: Path) -> None:
    async def act(bench: Bench) -> None:
        given: dict[str, Any] = {
            "server": {"secret_environment": {"API_TOKEN": "odd_token"}},
            "may": {"secrets": frozenset({"odd_token"})},
        }
        missing = await bench.look(**json_copy(given))
        assert missing.ending == "not_started"
        bench.secrets["odd_token"] = "tok-1234567890"
        await bench.look(**json_copy(given))
        report = await bench.call("secret", **json_copy(given))
        assert report.ending == "returned"
        assert "tok-1234567890" not in str(report)
        assert "••••" in str(report.value)
        # Not granted, it is not there.
        given["may"] = {}
        assert (await bench.call("secret", **given)).ending == "not_started"

    def json_copy(given: dict[str, Any]) -> dict[str, Any]:
        return {"server": dict(given["server"]), "may": dict(given["may"])}

    on_a_bench(tmp_path, act)


def test_what_it_gives_back_becomes_a_value_a_failure_or_a_file(tmp_path: Path) -> None:
    async def act(bench: Bench) -> None:
        await bench.look()
        assert (await bench.call("sum")).value == {"n": 3}
        failed = await bench.call("fail")
        assert (failed.ending, failed.fault and failed.fault.message) == ("raised", "it broke")
        picture = await bench.call("picture", keep=str(tmp_path / "workspace"))
        assert picture.value == {
            "content": [{"type": "text", "text": "a dot"}, {"type": "image", "file": "image-1.png"}]
        }
        [kept] = picture.artifacts
        assert (kept.path, kept.type) == ("out/call_test/image-1.png", "image/png")
        assert (tmp_path / "workspace" / kept.path).read_bytes().startswith(b"\x89PNG")
        link = await bench.call("links")
        assert link.value == {
            "content": [{"type": "resource_link", "uri": "file:///etc/passwd", "name": "p"}]
        }
        assert (await bench.call("odd")).ending == "bad_result"
        small = Limits(timeout=5.0, output_bytes=10)
        assert (await bench.call("echo", arguments={"text": "x" * 100}, limits=small)).ending == "bad_result"

    on_a_bench(tmp_path, act)


def test_what_a_server_asks_of_us_is_refused(tmp_path: Path) -> None:
    async def act(bench: Bench) -> None:
        await bench.look()
        answers = json.loads(str((await bench.call("ask_me")).value))
        assert answers == {
            "s-sampling/createMessage": -32601,
            "s-elicitation/create": -32601,
            "s-roots/list": -32601,
            "s-ping": "result",
        }

    on_a_bench(tmp_path, act)


def test_a_call_that_is_given_up_is_cancelled_at_the_server_and_one_that_is_late_does_not_end_it(
    tmp_path: Path,
) -> None:
    async def act(bench: Bench) -> None:
        await bench.look()
        pid = json.loads(str((await bench.call("count")).value))["pid"]
        with anyio.move_on_after(0.5) as given_up:
            await bench.call("sleep")
        assert given_up.cancelled_caught
        late = await bench.call("sleep", limits=Limits(timeout=0.5))
        assert late.ending == "timed_out"
        found = json.loads(str((await bench.call("count")).value))
        assert (found["pid"], len(found["cancelled"])) == (pid, 2)

    on_a_bench(tmp_path, act)


def test_one_that_hangs_is_ended_and_started_anew_with_patience(tmp_path: Path) -> None:
    async def act(bench: Bench) -> None:
        await bench.look()
        assert (await bench.call("hang", limits=Limits(timeout=0.5))).ending == "timed_out"
        with anyio.fail_after(20):
            while bench.sandbox.living:
                await anyio.sleep(0.05)
        report = await bench.call("echo", arguments={"text": "again"})
        assert report.ending == "busy"
        assert "in a row" in str(report.fault)
        await anyio.sleep(1.2)
        assert (await bench.call("echo", arguments={"text": "again"})).value == "again"

    on_a_bench(tmp_path, act)


def test_one_that_dies_during_a_call_fails_that_call_and_says_how(tmp_path: Path) -> None:
    async def act(bench: Bench) -> None:
        await bench.look()
        report = await bench.call("die")
        assert report.ending == "no_result"
        assert "exit code 3" in str(report.fault)
        assert "last words" in str(report.fault)

    on_a_bench(tmp_path, act)


@pytest.mark.parametrize("tool", ["giant", "garbage"])
def test_one_that_floods_its_output_is_ended_and_memory_stays(tool: str, tmp_path: Path) -> None:
    async def act(bench: Bench) -> None:
        await bench.look()
        report = await bench.call(tool)
        assert report.ending == "no_result", report
        words = {"giant": "bytes", "garbage": "no message"}[tool]
        assert words in str(report.fault)

    on_a_bench(tmp_path, act)


def test_a_few_odd_lines_and_forged_answers_change_nothing(tmp_path: Path) -> None:
    async def act(bench: Bench) -> None:
        await bench.look("chatty")
        assert (await bench.call("wrong_ids", "chatty")).value == "right"

    on_a_bench(tmp_path, act)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("dead", "exit code 7"),
        ("old", "1999-01-01"),
        ("toolless", "no tools"),
        ("pages", "pages"),
        ("flood", "does not read"),
    ],
)
def test_one_that_is_of_no_use_is_said_to_be_and_why(how: str, says: str, tmp_path: Path) -> None:
    async def act(bench: Bench) -> None:
        report = await bench.look(how)
        assert report.ending == "not_started"
        assert says in str(report.fault), report.fault

    on_a_bench(tmp_path, act)


def test_huge_and_many_tools_are_left_out_and_said(tmp_path: Path) -> None:
    async def act(bench: Bench) -> None:
        await bench.look("huge_schema")
        assert [*named(bench.listing)] == ["small"]
        assert "huge" in str(bench.listing["left_out"])
        await bench.look("many")
        assert len(named(bench.listing)) == 128
        assert "more than 128" in str(bench.listing["left_out"])

    on_a_bench(tmp_path, act)


def test_inj_06_a_tool_that_is_described_otherwise_than_when_it_was_looked_at_is_not_called(
    tmp_path: Path,
) -> None:
    notes = Notes()

    async def act(bench: Bench) -> None:
        await bench.look()
        assert (await bench.call("echo", arguments={"text": "before"})).value == "before"
        assert (await bench.call("change")).value == "changed"
        report = await bench.call("echo", arguments={"text": "after"})
        assert report.ending == "not_started"
        assert "held back" in str(report.fault)
        # The control: what did not change is called as ever, and with the new pin so is what did.
        assert (await bench.call("count")).ending == "returned"
        bench.listing = notes.listings[-1]
        assert (await bench.call("echo", arguments={"text": "looked at"})).value == "looked at"
        assert "brand_new" in named(notes.listings[-1])

    on_a_bench(tmp_path, act, watch=notes)


def test_what_no_skill_may_do_ends_the_server_and_is_told_to_the_call(tmp_path: Path) -> None:
    notes = Notes()
    alarms: list[Event] = []

    async def act(bench: Bench) -> None:
        await bench.look()
        report = await bench.call("mount", alarm=alarms.append)
        with anyio.fail_after(10):
            while bench.sandbox.living:
                await anyio.sleep(0.05)
        assert report.violations or alarms or notes.violations
        assert {each.kind for each in (*report.violations, *alarms)} == {"system_call"}

    on_a_bench(tmp_path, act, watch=notes)


def test_a_server_whose_skill_is_stopped_is_ended_and_nothing_of_it_is_left(tmp_path: Path) -> None:
    notes = Notes()

    async def act(bench: Bench) -> None:
        await bench.look()
        await bench.call("count")
        assert notes.now == {"odd"}
        bench.sandbox.stop("another")
        assert bench.sandbox.living
        began = time.monotonic()
        bench.sandbox.stop("odd")
        with anyio.fail_after(10):
            while bench.sandbox.living:
                await anyio.sleep(0.05)
        assert time.monotonic() - began < 10
        assert notes.now == set()
        assert "odd-server" not in processes()

    on_a_bench(tmp_path, act, watch=notes)


def processes() -> str:
    found: list[str] = []
    for each in os.listdir("/proc"):
        if each.isdigit():
            try:
                with open(f"/proc/{each}/cmdline", "rb") as file:
                    found.append(file.read().decode(errors="replace"))
            except OSError:
                continue
    return "\n".join(line for line in found if "odd-server\0well" in line)


def test_the_number_of_things_a_server_has_to_do_is_bounded(tmp_path: Path) -> None:
    async def act(bench: Bench) -> None:
        await bench.look()
        endings: list[str] = []
        most = Limits(timeout=1.0)

        async def sleep() -> None:
            endings.append((await bench.call("sleep", limits=most)).ending)

        async with anyio.create_task_group() as tasks:
            for _ in range(mcp_pipe.MOST_OPEN + 8):
                tasks.start_soon(sleep)
        assert endings.count("busy") == 8
        assert endings.count("timed_out") == mcp_pipe.MOST_OPEN

    on_a_bench(tmp_path, act)


def test_a_server_reaches_the_granted_host_alone_and_what_it_tried_is_told_to_the_call(
    tmp_path: Path,
) -> None:
    async def act(bench: Bench) -> None:
        may = {"hosts": frozenset({"http://api.example.com"})}
        await bench.look(may=dict(may))
        report = await bench.call("connect", arguments={"text": "http://other.example.com/"}, may=dict(may))
        assert "refused" in str(report.value)
        assert [(each.kind, each.count) for each in report.denials] == [("egress", 1)]
        # Each call is told its own.
        assert (await bench.call("count", may=dict(may))).denials == ()

    on_a_bench(tmp_path, act)


def test_a_server_that_knows_only_the_protocol_without_a_handshake_is_asked_in_its_way(
    tmp_path: Path,
) -> None:
    async def act(bench: Bench) -> None:
        assert (await bench.look("stateless")).ending == "returned"
        assert (await bench.call("echo", "stateless", arguments={"text": "later"})).value == "later"

    on_a_bench(tmp_path, act)


def test_it_is_ended_when_nobody_used_it_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_resident, "IDLE_SECONDS", 0.5)

    async def act(bench: Bench) -> None:
        await bench.look()
        with anyio.fail_after(10):
            while bench.sandbox.living:
                await anyio.sleep(0.05)
        # That is no fault of its own: it is started again at once.
        assert (await bench.call("echo", arguments={"text": "again"})).value == "again"

    on_a_bench(tmp_path, act)


def test_a_flood_of_notices_is_read_at_a_pace_and_the_call_ends_in_time(tmp_path: Path) -> None:
    async def act(bench: Bench) -> None:
        await bench.look()
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await anyio.sleep(0.02)
                ticks += 1

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(tick)
            report = await bench.call("notices", limits=Limits(timeout=1.5))
            tasks.cancel_scope.cancel()
        assert report.ending == "timed_out"
        assert ticks > 20  # everybody else goes on meanwhile

    on_a_bench(tmp_path, act)


def test_inj_06_a_server_that_says_its_tools_changed_and_does_not_tell_them_is_not_believed_any_more(
    tmp_path: Path,
) -> None:
    async def act(bench: Bench) -> None:
        await bench.look()
        assert (await bench.call("mute")).value == "muted"
        for _ in range(2):
            report = await bench.call("echo", arguments={"text": "x"})
            assert report.ending == "no_result"
            assert "list of tools" in str(report.fault)

    on_a_bench(tmp_path, act)
