"""What is begun with skills that live is done to its end, whoever goes away; and what was taken back from one counts at once."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from household import (
    AGENT,
    KETTLE,
    OWNER,
    POT,
    Household,
    alive,
    configured,
    kettle,
    loaded,
    python_package,
    records,
    trusted,
)
from machine import Machine
from metier.catalog.here import owner
from metier.kernel.host_line import HostLine
from metier.kernel.host_role import HostRole, holder
from metier.kernel.operation import OperationError
from metier.kernel.residents import NO_HOST
from metier.model.outcome import Completed, Failed, Refused
from metier.runtime import Runtime
from metier.runtime.as_owner import call_as_owner

NET = KETTLE.replace("'kernel_ops': ['locks.open']", "'network': True, 'kernel_ops': []")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("METIER_HOME", raising=False)


def written(machine: Machine, name: str, text: str) -> None:
    machine.state.mkdir(mode=0o700, exist_ok=True)
    (machine.state / name).write_text(text, encoding="utf-8")
    (machine.state / name).chmod(0o600)


def begun(machine: Machine) -> int:
    events = [each.event for each in records(machine) if each.tool == "skills.live"]
    return events.count("skill_execution_started")


def test_who_goes_away_while_all_are_started_anew_has_them_all_started(tmp_path: Path) -> None:
    slow = KETTLE.replace("    ctx.emit('kettle.goodbye')", "    await asyncio.sleep(0.5)")

    async def act(house: Household) -> None:
        await loaded(house, "kettle", "pot")
        with anyio.move_on_after(0.2) as gone:
            await house.residents.reload_enabled(owner())
        assert gone.cancelled_caught
        with anyio.fail_after(30):
            while [each.name for each in house.heard].count("skills.enabled") < 4:
                await anyio.sleep(0.02)
        await loaded(house, "kettle", "pot")
        assert (await house.ask("pot.boil"))["boiled"] == {}

    alive(kettle(tmp_path, slow, pot=POT), act)


def test_who_goes_away_while_he_enables_a_skill_has_it_enabled(tmp_path: Path) -> None:
    async def act(house: Household) -> None:
        private: Any = house.residents
        reached, go_on = anyio.Event(), anyio.Event()

        class Slow:
            def __getattr__(self, name: str) -> Any:
                return getattr(house.living, name)

            async def reload(self) -> None:
                reached.set()
                await go_on.wait()
                await house.living.reload()

        private._live = Slow()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(house.residents.enable, "kettle", owner())
            await reached.wait()
            tasks.cancel_scope.cancel()
        go_on.set()
        await loaded(house)

    alive(kettle(tmp_path, enabled=False), act)


def test_one_that_is_started_anew_is_not_said_to_live_before_it_does(tmp_path: Path) -> None:
    slow = KETTLE.replace("    ctx.register_module", "    await asyncio.sleep(2)\n    ctx.register_module")

    async def act(house: Household) -> None:
        await loaded(house)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(house.residents.reload_enabled, owner())
            with anyio.fail_after(20):
                while house.modules.of("kettle"):
                    await anyio.sleep(0.01)
            record = await house.until("kettle", lambda record: record["status"] != "loaded")
            assert "being started" in record["error"]

    alive(kettle(tmp_path, slow), act)


def test_without_a_host_nothing_is_enabled_or_started_anew(tmp_path: Path) -> None:
    async def act(house: Household) -> None:
        for asked in (
            house.residents.enable("kettle", owner()),
            house.residents.reload_enabled(owner()),
            house.residents.init_on_boot(),
        ):
            with pytest.raises(OperationError, match=NO_HOST[:20]):
                await asked

    alive(kettle(tmp_path), act, boot=False)


def test_rel_08_who_gave_the_host_role_back_does_nothing_as_the_host_any_more(tmp_path: Path) -> None:
    machine = kettle(tmp_path)
    place = {"project": str(machine.project), "home": str(machine.state)}

    async def lives(runtime: Runtime) -> None:
        with anyio.fail_after(30):
            while True:
                found = await call_as_owner(runtime, "skills.info", {"skill_id": "kettle"})
                assert isinstance(found, Completed), found
                assert isinstance(found.value, dict)
                if found.value["status"] == "loaded":
                    return
                await anyio.sleep(0.05)

    async def main() -> None:
        async with Runtime.open(**place, watch=False, host=True) as first:
            await lives(first)
            await HostLine(str(machine.state)).end()
            with anyio.fail_after(30):
                while first.is_host:
                    await anyio.sleep(0.02)
            assert holder(str(machine.state)) is None
            nobody = await call_as_owner(first, "skills.disable", {"skill_id": "kettle"})
            assert isinstance(nobody, Failed)
            assert "metier host" in nobody.message
            async with Runtime.open(**place, watch=False, host=True) as second:
                assert (first.is_host, second.is_host) == (False, True)
                await lives(second)
                assert isinstance(await call_as_owner(first, "kettle.boil", {}), Completed)
                ended = await call_as_owner(first, "skills.disable", {"skill_id": "kettle"})
                assert isinstance(ended, Completed), ended
                assert isinstance(await call_as_owner(second, "kettle.boil", {}), Refused), (
                    "it is ended there"
                )
        role = HostRole.try_take(str(machine.state))
        assert isinstance(role, HostRole)
        role.release()

    anyio.run(main)


def test_cap_12_a_host_that_was_taken_back_is_not_open_to_a_life_that_goes_on(tmp_path: Path) -> None:
    machine = Machine(tmp_path)

    def granted(*hosts: str) -> None:
        written(machine, "metier.toml", f"[skills.entries.kettle]\nhosts = {json.dumps(hosts)}\n")

    granted("a.example.com", "b.example.com")
    python_package(machine, "kettle", NET)
    configured(machine, "kettle", enabled=["kettle"])
    trusted(machine, "kettle")

    async def act(house: Household) -> None:
        await loaded(house)
        assert begun(machine) == 1
        written(machine, "metier.toml", (machine.state / "metier.toml").read_text() + "# nothing else\n")
        await house.ask("kettle.boil")  # this reads it
        await anyio.sleep(0.5)  # some looks
        assert begun(machine) == 1, "control: what is no change of what it has ends nothing"
        granted("a.example.com")
        await house.ask("skills.list")
        with anyio.fail_after(30):
            while begun(machine) < 2:
                await anyio.sleep(0.05)
        await loaded(house)
        skill = house.runtime.catalog.get("kettle")
        assert skill is not None
        assert skill.skill is not None
        assert skill.skill.permissions.hosts == {"a.example.com"}
        assert "skills.failed" not in [each.name for each in house.heard], "that is no death"

    alive(machine, act)


def test_a_rule_that_denies_a_skill_everything_ends_its_life_and_one_that_concerns_others_does_not(
    tmp_path: Path,
) -> None:
    machine = kettle(tmp_path)

    def denied(skill: str) -> None:
        written(
            machine,
            "policy.toml",
            f'[[rule]]\ndecision = "deny"\nbecause = "not to run"\nskill = "{skill}"\n',
        )

    async def act(house: Household) -> None:
        await loaded(house)
        denied("pot")
        await house.ask("skills.list")
        await anyio.sleep(0.5)  # some looks
        assert (await house.ask("kettle.boil"))["boiled"] == {}
        denied("kettle")
        await house.ask("skills.list")
        record = await house.until("kettle", lambda record: "not to run" in (record["error"] or ""))
        assert record["status"] == "error"
        assert house.modules.of("kettle") == ()
        (machine.state / "policy.toml").unlink()
        machine.metier("policy", "forget")
        await loaded(house)

    alive(machine, act)
    assert begun(machine) == 2


def test_a_budget_that_is_used_up_ends_no_life(tmp_path: Path) -> None:
    machine = kettle(tmp_path)
    written(machine, "metier.toml", "[budgets.principal]\ncalls = 6\nseconds = 3600\n")

    async def act(house: Household) -> None:
        with anyio.fail_after(20):  # without a call
            while not house.modules.of("kettle"):
                await anyio.sleep(0.02)
        outcome: Any = None
        with anyio.fail_after(20):
            while not isinstance(outcome, Refused):
                outcome = await house.call(OWNER, "kettle.boil", {})
        assert outcome.code == "budget_exceeded"
        machine.metier("principals", "add", "human:ann", "--role", "viewer")  # everything is judged anew
        await anyio.sleep(0.5)
        assert house.modules.of("kettle") == ("kettle",)

    alive(machine, act)
    assert begun(machine) == 1


@pytest.mark.parametrize("unattended", [True, False])
def test_who_asks_by_way_of_skills_call_is_as_unattended_as_he_is(tmp_path: Path, unattended: bool) -> None:
    machine = kettle(tmp_path)
    written(machine, "policy.toml", '[[rule]]\ndecision = "ask"\nbecause = "first"\ntool = "kettle.boil"\n')
    machine.metier("trust", "set", "bounded_auto")

    async def act(house: Household) -> None:
        await loaded(house)
        asked = {"module": "kettle", "op": "boil", "params": {}}
        outcome = await house.call(AGENT, "skills.call", asked, unattended=unattended)
        assert isinstance(outcome, Failed), outcome
        assert isinstance(outcome.value, dict)
        assert outcome.value["code"] == ("approval_required" if unattended else "pending_approval")

    alive(machine, act)
