"""What lives is what is trusted now: a life ends when its skill is not the one any more that was trusted, and what is trusted begins."""

from pathlib import Path

import anyio
import pytest

from household import KETTLE, QUICK, Household, alive, configured, kettle, loaded, python_package
from machine import Machine
from metier.kernel.skill_record import lives

WHICH = KETTLE.replace("return {'boiled': params, 'meta': meta}", "return 'OLD'")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def changed(machine: Machine) -> None:
    python_package(machine, "kettle", WHICH.replace("'OLD'", "'NEW'"))


def test_a_life_whose_bytes_were_changed_ends_and_lives_again_as_what_is_trusted_then(tmp_path: Path) -> None:
    machine = kettle(tmp_path, WHICH)

    async def act(house: Household) -> None:
        await loaded(house)
        assert await house.ask("kettle.boil") == "OLD"
        changed(machine)
        await house.runtime.reload()  # a host sees it by itself
        record = await house.until("kettle", lambda record: not house.modules.of("kettle"))
        with anyio.fail_after(10):
            while lives(house.store)["kettle"].status == "loaded":
                await anyio.sleep(0.02)
        record = await house.info("kettle")
        assert (record["status"], "trusted" in record["error"]) == ("error", True)
        assert "skills.live" not in machine.metier("calls", "list").stdout
        machine.metier("skills", "trust", "kettle", "--yes")
        await loaded(house)
        assert await house.ask("kettle.boil") == "NEW"
        # It was nobody's fault, and nothing died.
        assert [each.name for each in house.heard] == ["skills.enabled", "skills.enabled"]

    alive(machine, act)


@pytest.mark.parametrize("by_hand", [True, False], ids=["skills_start", "by_itself"])
def test_what_was_changed_and_trusted_at_once_is_what_lives(by_hand: bool, tmp_path: Path) -> None:
    machine = kettle(tmp_path, WHICH)

    async def act(house: Household) -> None:
        await loaded(house)
        before = lives(house.store)["kettle"].digest
        changed(machine)
        machine.metier("skills", "trust", "kettle", "--yes")
        if by_hand:
            await house.ask("skills.enable", skill_id="kettle")
        else:
            with anyio.fail_after(20):
                while [each.name for each in house.heard].count("skills.enabled") < 2:
                    await anyio.sleep(0.02)
        assert await house.ask("kettle.boil") == "NEW"
        assert lives(house.store)["kettle"].digest not in ("", before)

    alive(machine, act)


def test_a_life_goes_on_when_only_others_changed_or_nothing_did(tmp_path: Path) -> None:
    machine = kettle(tmp_path, WHICH)

    async def act(house: Household) -> None:
        await loaded(house)
        python_package(machine, "pot", KETTLE.replace("kettle", "pot"))
        configured(machine, "kettle", "pot", enabled=["kettle"])
        python_package(machine, "kettle", WHICH)  # written anew, and the same
        await house.runtime.reload()
        await anyio.sleep(5 * QUICK.look)
        assert await house.ask("kettle.boil") == "OLD"
        assert [each.name for each in house.heard] == ["skills.enabled"]

    alive(machine, act)


def test_a_skill_that_was_allowed_a_moment_ago_can_be_enabled(tmp_path: Path) -> None:
    machine = kettle(tmp_path, WHICH)
    configured(machine)  # nothing is allowed

    async def act(house: Household) -> None:
        code, why = await house.no("skills.enable", skill_id="kettle")
        assert (code, "name it in [xbot] allow" in why) == ("E_SKILLS_NOT_ALLOWLISTED", True)
        configured(machine, "kettle")
        await house.ask("skills.enable", skill_id="kettle")
        assert await house.ask("kettle.boil") == "OLD"

    alive(machine, act)
