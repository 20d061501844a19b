"""What only the host does is judged and recorded by the process that asks, and done by the host; with real runtimes on both sides."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from metier.model.outcome import Completed, Failed, Outcome
from metier.runtime import Runtime
from metier.runtime.as_owner import call_as_owner

HOST = """
import sys, anyio
from metier.runtime import Runtime

async def main():
    async with Runtime.open(home=sys.argv[1], project=sys.argv[2], host=True) as runtime:
        print("host" if runtime.is_host else "no host", flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


def host_of(top: Path) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-c", HOST, str(top / "state"), str(top / "project")],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "HOME": str(top)},
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "host"
    return process


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "project").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def host(top: Path) -> "Iterator[subprocess.Popen[str]]":
    with host_of(top) as process:
        yield process
        process.kill()


def asked(top: Path, tool: str, arguments: dict[str, object] | None = None) -> tuple[Outcome, list[str]]:
    """How a call of the owner's ends in this process, and what the record says of it."""

    async def main() -> Outcome:
        async with Runtime.open(home=str(top / "state"), project=str(top / "project")) as runtime:
            assert not runtime.is_host
            return await call_as_owner(runtime, tool, arguments or {})  # type: ignore[arg-type]

    outcome = anyio.run(main)
    from metier.record.audit import AuditLog
    from metier.record.database import Database

    with Database.open(str(top / "state" / "state.db")) as database:
        events = [each.event for each in AuditLog(database).tail(10, call_id=outcome.call_id)]
    return outcome, events


def test_what_only_the_host_does_is_done_by_it_and_recorded_by_who_asked(
    top: Path, host: "subprocess.Popen[str]"
) -> None:
    outcome, events = asked(top, "skills.reload_enabled")
    assert isinstance(outcome, Completed), outcome
    assert events == ["skill_execution_started", "skill_executed"]
    assert isinstance(outcome.value, dict)
    assert json.dumps(outcome.value)


def test_without_a_host_the_call_fails_and_says_what_to_start(top: Path) -> None:
    outcome, events = asked(top, "skills.reload_enabled")
    assert isinstance(outcome, Failed)
    assert "metier host" in outcome.message
    assert events == ["skill_execution_started", "skill_execution_error"]


def test_what_the_store_alone_answers_needs_no_host(top: Path) -> None:
    outcome, _ = asked(top, "skills.list")
    assert isinstance(outcome, Completed)


def test_a_host_that_is_killed_leaves_the_next_runtime_the_role(top: Path) -> None:
    with host_of(top) as first:
        first.send_signal(signal.SIGKILL)
    with host_of(top) as second:
        outcome, _ = asked(top, "skills.reload_enabled")
        assert isinstance(outcome, Completed)
        second.kill()
