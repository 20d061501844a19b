"""Settings of skills that live: prepared when they are enabled, read and written by their own code, through the whole gate."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from household import KETTLE, kettle
from machine import Machine
from metier.host.sealed import Sealed
from metier.kernel.store import Store
from metier.model.outcome import Completed
from metier.runtime import Runtime
from metier.runtime.as_owner import call_as_owner
from settings_kit import MASK

TOKEN = "kettle-token-51c7"
DECLARED = """{'defaults': {'strength': 3}, 'schema': {'fields': [
    {'key': 'strength', 'label': 'Strength', 'type': 'number'},
    {'key': 'token', 'label': 'Token', 'type': 'string', 'secret': True}]}}"""
WITH_SETTINGS = KETTLE.replace("['locks.open']", "['settings.set_skill']").replace(
    "skill = {", f"skill = {{'settings': {DECLARED}, "
)
POT = WITH_SETTINGS.replace("kettle", "pot").replace("['settings.set_skill']", "[]")

Ask = Callable[..., Awaitable[Any]]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


async def asked(runtime: Runtime, operation: str, **arguments: Any) -> Any:
    outcome = await call_as_owner(runtime, operation, arguments)
    assert isinstance(outcome, Completed), outcome
    return outcome.value


def hosted(machine: Machine, act: Callable[[Runtime, Ask], Awaitable[None]]) -> None:
    async def main() -> None:
        place = {"project": str(machine.project), "home": str(machine.state)}
        async with Runtime.open(**place, watch=False, host=True) as runtime:
            assert runtime.is_host

            async def ask(skill: str, operation: str, **params: Any) -> Any:
                """Have the code of a skill ask for an operation of the settings, once it lives."""
                with anyio.fail_after(30):
                    while (await asked(runtime, "skills.info", skill_id=skill))["status"] != "loaded":
                        await anyio.sleep(0.05)
                return await asked(runtime, f"{skill}.ask", module="settings", op=operation, params=params)

            await act(runtime, ask)

    anyio.run(main)


def stored(machine: Machine) -> dict[str, str]:
    store = Store(str(machine.state))
    try:
        with store.reading() as connection:
            return dict(connection.execute("SELECT skill, value FROM settings").fetchall())
    finally:
        store.close()


@pytest.mark.slow
def test_enabling_a_skill_reads_its_settings_and_writes_its_defaults_once(tmp_path: Path) -> None:
    machine = kettle(tmp_path, WITH_SETTINGS)

    async def first(_runtime: Runtime, ask: Ask) -> None:
        found = await ask("kettle", "get_skill", skill_id="kettle")
        assert found["settings"] == {"strength": 3}
        assert (await ask("kettle", "set_skill", skill_id="kettle", patch={"strength": 7}))["ok"] is True

    async def again(_runtime: Runtime, ask: Ask) -> None:
        assert (await ask("kettle", "get_skill", skill_id="kettle"))["settings"] == {"strength": 7}

    hosted(machine, first)
    assert stored(machine) == {"kettle": '{"strength":7}'}
    hosted(machine, again)


@pytest.mark.slow
def test_sec_04_a_skill_that_writes_its_own_secret_leaves_it_nowhere_and_never_reads_it(
    tmp_path: Path,
) -> None:
    machine = kettle(tmp_path, WITH_SETTINGS, pot=POT)

    async def act(runtime: Runtime, ask: Ask) -> None:
        assert (await ask("kettle", "set_skill", skill_id="kettle", patch={"token": TOKEN}))["ok"] is True
        found = await ask("kettle", "get_skill", skill_id="kettle", include_masked=True)
        assert (found["settings"]["token"], found["masked"]) == (MASK, {"token": True})
        for skill, operation, about in (
            ("pot", "get_skill", {"skill_id": "kettle"}),
            ("pot", "set_skill", {"skill_id": "kettle", "patch": {"strength": 1}}),
            ("pot", "set_skill", {"skill_id": "pot", "patch": {"strength": 1}}),
            ("kettle", "set_skill", {"skill_id": "pot", "patch": {"strength": 1}}),
            ("kettle", "reset_skill", {"skill_id": "kettle"}),
        ):
            refused = await ask(skill, operation, **about)
            assert "E_AGENT_FORBIDDEN" in refused["refused"][0], refused
        agents = await runtime.call("settings.get_skill", {"skill_id": "kettle"})
        assert not isinstance(agents, Completed)

    hosted(machine, act)
    assert Sealed(str(machine.state)).of_skill("kettle") == {"token": TOKEN}
    # The owner had the kettle's code do it, so what he sent is in his own call; it is the kettle's call that has nothing.
    rows = [json.loads(line) for line in machine.metier("audit", "export").stdout.splitlines()]
    own = [
        row
        for row in rows
        if row["actor"] == "skill:kettle" and row["details"]["tool"] == "settings.set_skill"
    ]
    assert own[0]["details"]["inputs"] == {"skill_id": "kettle", "patch": {"token": MASK}}
    assert TOKEN not in str(own)
    assert TOKEN.encode() not in (machine.state / "kernel.db").read_bytes()
