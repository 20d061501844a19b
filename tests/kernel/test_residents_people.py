"""A skill lives for somebody: it ends with his right, and an id that is added again brings no life back."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from household import KETTLE, OWNER, Household, alive, configured, kettle, loaded, records
from machine import Machine
from metier.catalog.here import owner
from metier.kernel.resident_keeper import Patience
from metier.kernel.skill_record import lives
from metier.model.call import Principal

BOB = Principal(id="human:bob", kind="human")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("METIER_HOME", raising=False)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = kettle(tmp_path, enabled=False)
    made.metier("principals", "add", BOB.id, "--role", "operator")
    return made


async def gone(house: Household) -> None:
    with anyio.fail_after(20):
        while house.modules.of("kettle"):
            await anyio.sleep(0.02)


def lived_for(machine: Machine) -> list[str]:
    """For whom a life began, one after the other."""
    begun = [each for each in records(machine) if each.event == "skill_execution_started"]
    return [each.principal for each in begun if each.tool == "skills.live"]


@pytest.mark.parametrize("again", ["", "operator", "viewer"])
def test_cap_12_a_life_ends_by_itself_when_who_started_it_is_revoked_whoever_has_his_id_then(
    machine: Machine, again: str
) -> None:
    async def act(house: Household) -> None:
        await house.ask("skills.enable", BOB, skill_id="kettle")
        assert (await house.ask("kettle.boil", cups=1))["boiled"] == {"cups": 1}
        machine.metier("principals", "revoke", BOB.id)
        if again:
            machine.metier("principals", "add", BOB.id, "--role", again)
        await gone(house)
        record = await house.until("kettle", lambda record: "who started it" in (record["error"] or ""))
        assert (record["status"], record["enabled"]) == ("error", True)
        assert ("revoked" if not again else "somebody else" if again == "operator" else "") in record["error"]

    alive(machine, act)
    assert lived_for(machine) == [BOB.id]


def test_cap_12_no_life_of_somebody_who_was_revoked_begins_for_the_next_one_of_his_id(
    machine: Machine,
) -> None:
    async def begin(house: Household) -> None:
        await house.ask("skills.enable", BOB, skill_id="kettle")

    async def another(house: Household) -> None:
        record = await house.until("kettle", lambda record: "registered anew" in (record["error"] or ""))
        assert record["status"] == "error"
        assert lived_for(machine) == [BOB.id]
        await house.ask("skills.enable", BOB, skill_id="kettle")  # this is a word of his own
        assert (await house.info("kettle"))["status"] == "loaded"

    async def still(house: Household) -> None:
        await loaded(house)

    alive(machine, begin)
    machine.metier("principals", "revoke", BOB.id)
    machine.metier("principals", "add", BOB.id, "--role", "operator")
    alive(machine, another)
    alive(machine, still)
    assert lived_for(machine) == [BOB.id] * 3


def test_somebody_else_starts_what_lived_for_one_who_was_revoked_and_it_acts_for_him_at_once(
    machine: Machine,
) -> None:
    async def act(house: Household) -> None:
        await house.ask("skills.enable", BOB, skill_id="kettle")
        machine.metier("principals", "revoke", BOB.id)
        await house.ask("skills.enable", OWNER, skill_id="kettle")
        assert (await house.info("kettle"))["status"] == "loaded"
        assert "intents" in await house.ask("kettle.ask", module="skills", op="list_intents")

    # Nobody looks by himself here: it is the one who enables it that has it end.
    alive(machine, act, patience=Patience(look=3600.0))
    assert lived_for(machine) == [BOB.id, owner()]


def test_who_starts_what_lives_already_has_it_for_the_time_when_the_other_may_not_any_more(
    machine: Machine,
) -> None:
    async def act(house: Household) -> None:
        await house.ask("skills.enable", BOB, skill_id="kettle")
        await house.ask("skills.enable", OWNER, skill_id="kettle")
        assert lived_for(machine) == [BOB.id], "it goes on"
        machine.metier("principals", "revoke", BOB.id)
        with anyio.fail_after(20):
            while lived_for(machine) != [BOB.id, owner()]:
                await anyio.sleep(0.05)
        await loaded(house)

    alive(machine, act)


def test_what_the_configuration_starts_lives_for_the_owner_whoever_is_revoked(tmp_path: Path) -> None:
    machine = kettle(tmp_path)
    machine.metier("principals", "add", BOB.id, "--role", "operator")

    async def act(house: Household) -> None:
        await loaded(house)
        machine.metier("principals", "revoke", BOB.id)
        await anyio.sleep(0.5)  # some looks of the keeper's
        assert (await house.ask("kettle.boil"))["boiled"] == {}

    alive(machine, act)
    assert lived_for(machine) == [owner()]


def test_one_that_was_given_up_is_tried_again_when_it_is_named_anew_and_not_for_any_other_change(
    tmp_path: Path,
) -> None:
    machine = kettle(
        tmp_path, KETTLE.replace("    ctx.register_module(Kettle(ctx))", "    raise OSError('no')")
    )

    async def act(house: Household) -> None:
        private: Any = house.residents
        await house.until("kettle", lambda record: "tried 2 times" in (record["error"] or ""))
        given_up = private._keepers["kettle"]
        with anyio.fail_after(20):
            await given_up.ended.wait()
        await house.residents.changed()
        assert private._keepers["kettle"] is given_up
        for enabled in ([], ["kettle"]):
            configured(machine, "kettle", enabled=enabled)
            await house.runtime.reload()
            await house.residents.changed()
        assert private._keepers["kettle"] is not given_up
        assert lives(house.store)["kettle"].enabled is None, "control: nobody said so by hand"

    alive(machine, act, patience=Patience(first=0.02, failures=2, look=0.1))
