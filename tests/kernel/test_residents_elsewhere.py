"""Skills that live in the process that is the host, asked by another process."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from household import POT, configured, kettle
from machine import Machine
from metier import Runtime
from metier.model.outcome import Completed
from metier.record.audit import AuditLog
from metier.record.database import Database
from metier.runtime.as_owner import call_as_owner

ASK = """
import json, sys, anyio, msgspec
from metier.config.load import load
from metier.runtime.as_owner import operate
tool, arguments, project = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
print(msgspec.json.encode(anyio.run(operate, load(project=project), tool, arguments)).decode())
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("METIER_HOME", raising=False)


def elsewhere(machine: Machine, tool: str, **arguments: Any) -> dict[str, Any]:
    """How a call ends that the owner makes in a process of its own."""
    line = [sys.executable, "-c", ASK, tool, json.dumps(arguments), str(machine.project)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False, cwd=machine.project)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_another_process_asks_a_skill_that_lives_in_the_host_and_both_leave_one_record(
    tmp_path: Path,
) -> None:
    machine = kettle(tmp_path)

    async def main() -> None:
        async with Runtime.open(
            project=str(machine.project), home=str(machine.state), watch=False, host=True
        ) as runtime:
            with anyio.fail_after(30):
                while True:
                    found = await call_as_owner(runtime, "skills.info", {"skill_id": "kettle"})
                    assert isinstance(found, Completed), found
                    assert isinstance(found.value, dict)
                    if found.value["status"] == "loaded":
                        break
                    await anyio.sleep(0.05)
            ended = await to_thread.run_sync(lambda: elsewhere(machine, "kettle.boil", cups=2, actor="root"))
            assert ended["outcome"] == "completed", ended
            assert ended["value"]["boiled"] == {"cups": 2}
            assert ended["value"]["meta"]["call_id"] == ended["call_id"]
            stopped = await to_thread.run_sync(
                lambda: elsewhere(machine, "skills.disable", skill_id="kettle")
            )
            assert stopped["value"]["status"] == "disabled", stopped
            gone = await to_thread.run_sync(lambda: elsewhere(machine, "kettle.boil", cups=2))
            assert (gone["outcome"], gone["code"]) == ("refused", "unknown_tool")
        with Database.open(machine.settings().database) as database:
            made = [each.event for each in AuditLog(database).tail(1000) if each.tool == "kettle.boil"]
        assert made == ["skill_execution_started", "skill_executed"], made

    anyio.run(main)


def test_without_a_host_another_process_is_told_so(tmp_path: Path) -> None:
    machine = kettle(tmp_path)
    ended = elsewhere(machine, "skills.enable", skill_id="kettle")
    assert (ended["outcome"], "metier host" in ended["message"]) == ("failed", True)


def test_what_is_named_in_the_configuration_while_the_host_runs_comes_to_life(tmp_path: Path) -> None:
    machine = kettle(tmp_path, pot=POT)
    configured(machine, "kettle", "pot", enabled=["kettle"])

    async def fares(runtime: Runtime, name: str) -> tuple[Any, Any]:
        found = await call_as_owner(runtime, "skills.info", {"skill_id": name})
        assert isinstance(found, Completed), found
        assert isinstance(found.value, dict)
        return found.value["status"], found.value["error"]

    async def main() -> None:
        async with Runtime.open(
            project=str(machine.project), home=str(machine.state), watch=True, host=True
        ) as runtime:
            with anyio.fail_after(60):
                while (await fares(runtime, "kettle"))[0] != "loaded":
                    await anyio.sleep(0.05)
                assert (await fares(runtime, "pot"))[0] == "disabled"
                configured(machine, "kettle", "pot", enabled=["pot"])
                while (await fares(runtime, "pot"))[0] != "loaded":
                    await anyio.sleep(0.05)
                while (await fares(runtime, "kettle"))[0] != "disabled":
                    await anyio.sleep(0.05)

    anyio.run(main)


def test_a_skill_that_was_started_meanwhile_is_known_to_a_process_that_runs_already(tmp_path: Path) -> None:
    machine = kettle(tmp_path, enabled=False)
    place = {"project": str(machine.project), "home": str(machine.state)}

    async def main() -> None:
        async with (
            Runtime.open(**place, watch=False, host=True) as host,
            Runtime.open(**place, watch=False) as other,
        ):
            before = await call_as_owner(other, "skills.info", {"skill_id": "kettle"})
            assert isinstance(before, Completed), before
            await call_as_owner(host, "skills.enable", {"skill_id": "kettle"})
            assert isinstance(await call_as_owner(other, "kettle.boil", {}), Completed)

    anyio.run(main)
