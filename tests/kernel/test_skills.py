"""The module `skills`: what it tells, who may do what, and the state that skills keep."""

from pathlib import Path
from typing import Any

import pytest

from household import AGENT, KETTLE, OWNER, Household, alive, configured, kettle, python_package, trusted
from machine import Machine, write_skill
from metier.kernel.operation import OperationError
from metier.kernel.skill_record import MOST_BYTES, MOST_KEYS, lives, registered, state_get, state_set
from metier.kernel.store import Store


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def test_a_skill_is_enabled_asked_and_disabled_and_each_is_told(tmp_path: Path) -> None:
    async def act(house: Household) -> None:
        before = next(each for each in (await house.ask("skills.list"))["skills"] if each["id"] == "kettle")
        assert (before["enabled"], before["status"]) == (False, "disabled")
        after = await house.ask("skills.enable", skill_id="kettle")
        assert (after["enabled"], after["status"], after["error"]) == (True, "loaded", None)
        assert after["modules_registered"] == ["kettle"]
        assert after["capabilities"] == {"kernel_ops": ["locks.open"], "channels": [], "network": False}
        assert (await house.ask("kettle.boil", cups=2))["boiled"] == {"cups": 2}
        assert (await house.ask("skills.call", module="kettle", op="boil", params={"cups": 3}))["boiled"] == {
            "cups": 3
        }
        end = await house.ask("skills.disable", skill_id="kettle")
        assert (end["enabled"], end["status"], end["modules_registered"]) == (False, "disabled", [])
        assert (await house.no("kettle.boil"))[0] == "unknown_tool"
        assert house.removed == ["kettle"]
        names = [(each.name, each.source) for each in house.heard]
        assert names == [
            ("skills.enabled", "metier"),
            ("kettle.goodbye", "kettle"),
            ("skills.disabled", "metier"),
        ]

    alive(kettle(tmp_path, enabled=False), act)


def test_what_was_enabled_lives_again_after_the_next_start_and_what_was_disabled_does_not(
    tmp_path: Path,
) -> None:
    machine = kettle(tmp_path, enabled=False, pot=KETTLE.replace("kettle", "pot"))

    async def enable(house: Household) -> None:
        await house.ask("skills.enable", skill_id="kettle")
        await house.ask("skills.enable", skill_id="pot")
        await house.ask("skills.disable", skill_id="pot")

    async def again(house: Household) -> None:
        assert await house.ask("skills.init_on_boot") == {"loaded": ["kettle"], "failed": {}}
        listed = {each["id"]: each["status"] for each in (await house.ask("skills.list"))["skills"]}
        assert (listed["kettle"], listed["pot"]) == ("loaded", "disabled")

    alive(machine, enable)
    alive(machine, again)


def test_what_the_configuration_enables_lives_from_the_start_until_a_person_disables_it(
    tmp_path: Path,
) -> None:
    machine = kettle(tmp_path)

    async def act(house: Household) -> None:
        await house.until("kettle", lambda record: record["status"] == "loaded")
        await house.ask("skills.disable", skill_id="kettle")

    async def again(house: Household) -> None:
        assert await house.ask("skills.init_on_boot") == {"loaded": [], "failed": {}}

    alive(machine, act)
    alive(machine, again)


def test_only_people_enable_disable_and_reload(tmp_path: Path) -> None:
    async def act(house: Household) -> None:
        await house.ask("skills.enable", skill_id="kettle")
        for operation in ("skills.enable", "skills.disable"):
            assert (await house.no(operation, AGENT, skill_id="kettle"))[0] == "forbidden"
            by_skill = await house.ask(
                "kettle.ask", module="skills", op=operation.partition(".")[2], params={"skill_id": "kettle"}
            )
            assert by_skill["refused"][0] == "E_AGENT_FORBIDDEN"
        for operation in ("skills.reload_enabled", "skills.init_on_boot"):
            assert (await house.no(operation, AGENT))[0] == "forbidden"
        assert (await house.info("kettle"))["status"] == "loaded"

    alive(kettle(tmp_path, enabled=False), act)


def test_only_what_is_allowed_can_be_enabled(tmp_path: Path) -> None:
    machine = kettle(tmp_path, enabled=False)
    write_skill(machine.skills / "notes")
    python_package(machine, "stranger", KETTLE.replace("kettle", "stranger"))

    async def act(house: Household) -> None:
        assert (await house.no("skills.enable", skill_id="stranger"))[0] == "E_SKILLS_NOT_ALLOWLISTED"
        assert (await house.no("skills.enable", skill_id="../kettle"))[0] == "E_SKILLS_NOT_ALLOWLISTED"
        code, why = await house.no("skills.enable", skill_id="notes")
        assert (code, "onEnable" in why) == ("E_SKILLS_BAD_EXPORT", True)
        assert lives(house.store) == {}

    alive(machine, act)


def test_one_that_is_allowed_and_not_there_says_so(tmp_path: Path) -> None:
    machine = kettle(tmp_path, enabled=False)
    configured(machine, "kettle", "gone")

    async def act(house: Household) -> None:
        assert (await house.no("skills.enable", skill_id="gone"))[0] == "E_SKILLS_RESOLVE_FAILED"

    alive(machine, act)


def test_one_that_nobody_trusts_is_not_run_and_says_what_to_do(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    python_package(machine, "kettle", KETTLE)
    configured(machine, "kettle")

    async def act(house: Household) -> None:
        code, why = await house.no("skills.enable", skill_id="kettle")
        assert (code, "metier skills trust" in why) == ("E_SKILLS_NOT_TRUSTED", True)
        record = await house.info("kettle")
        assert (record["enabled"], record["status"]) == (True, "error")
        told = await house.ask("skills.info", AGENT, skill_id="kettle")
        assert (told["status"], "trust" in told["error"]) == ("error", False)  # why is the operator's matter
        machine.metier("skills", "trust", "kettle", "--yes")
        await house.until("kettle", lambda record: record["status"] == "loaded")

    alive(machine, act)


def test_one_that_the_operator_disabled_is_not_enabled_and_stays_as_it_was(tmp_path: Path) -> None:
    machine = kettle(tmp_path, enabled=False)
    machine.metier("skills", "disable", "kettle")

    async def act(house: Household) -> None:
        code, why = await house.no("skills.enable", skill_id="kettle")
        assert (code, "disabled" in why) == ("E_SKILLS_DISABLED", True)
        assert (await house.info("kettle"))["enabled"] is False

    alive(machine, act)


def test_a_skill_is_known_by_its_id_and_by_its_name(tmp_path: Path) -> None:
    from household import script_package

    machine = Machine(tmp_path)
    text = "export const skill = { id: '@me/bell', version: '2.0.0', name: 'Bell', onEnable() {}, intents: [{intent_id: 'ring', title: 'Ring'}], actions: [{id: 'a'}] };\n"
    script_package(machine, "@me/bell", text)
    configured(machine, "@me/bell", enabled=["@me/bell"])
    trusted(machine, "me-bell")

    async def act(house: Household) -> None:
        await house.until("@me/bell", lambda record: record["status"] == "loaded")
        record = await house.info("me-bell")
        assert record == await house.info("@me/bell")
        assert (record["id"], record["name"], record["version"]) == ("@me/bell", "me-bell", "2.0.0")
        assert (record["actions"], record["source"]) == ([{"id": "a"}], "workspace")
        expected = [{"intent_id": "ring", "title": "Ring", "skill_id": "@me/bell"}]
        assert await house.ask("skills.list_intents") == {"intents": expected}
        assert await house.ask("skills.list_intents", skill_id="me-bell") == {"intents": expected}
        assert (await house.no("skills.info", skill_id="@you/bell"))[0] == "E_SKILLS_RESOLVE_FAILED"

    alive(machine, act)


def test_one_that_cannot_be_enabled_says_why_and_is_given_up_after_a_few_tries(tmp_path: Path) -> None:
    broken = KETTLE.replace("    ctx.register_module(Kettle(ctx))", "    raise RuntimeError('no socket')")

    async def act(house: Household) -> None:
        code, why = await house.no("skills.enable", skill_id="kettle")
        assert (code, "no socket" in why) == ("E_SKILLS_ENABLE_FAILED", True)
        record = await house.until("kettle", lambda record: "4 times" in (record["error"] or ""))
        assert (record["status"], record["enabled"]) == ("error", True)
        assert [each.name for each in house.heard] == ["skills.failed"] * 4

    alive(kettle(tmp_path, broken, enabled=False), act)


def test_reloading_starts_everything_anew_from_what_is_trusted_now(tmp_path: Path) -> None:
    machine = kettle(tmp_path)

    async def act(house: Household) -> None:
        await house.until("kettle", lambda record: record["status"] == "loaded")
        before = lives(house.store)["kettle"].digest
        python_package(machine, "kettle", KETTLE.replace("'boiled'", "'cooked'"))
        machine.metier("skills", "trust", "kettle", "--yes")
        assert await house.ask("skills.reload_enabled") == {"loaded": ["kettle"], "failed": {}}
        assert (await house.ask("kettle.boil"))["cooked"] == {}
        assert lives(house.store)["kettle"].digest not in ("", before)

    alive(machine, act)


def test_without_a_host_nothing_is_said_to_live(tmp_path: Path) -> None:
    machine = kettle(tmp_path)

    async def act(house: Household) -> None:
        await house.until("kettle", lambda record: record["status"] == "loaded")
        assert registered(house.store) == {"kettle": ("kettle", registered(house.store)["kettle"][1])}

    alive(machine, act)

    async def later(house: Household) -> None:
        record = await house.info("kettle")
        assert (record["status"], "metier host" in record["error"]) == ("error", True)
        assert registered(house.store) == {}

    alive(machine, later, boot=False)


# --- the state of skills


def test_a_skill_keeps_a_state_of_its_own_that_outlives_it_and_nobody_else_has(tmp_path: Path) -> None:
    machine = kettle(tmp_path, pot=KETTLE.replace("kettle", "pot"))

    async def act(house: Household) -> None:
        await house.until("kettle", lambda record: record["status"] == "loaded")
        await house.until("pot", lambda record: record["status"] == "loaded")
        assert await house.ask("kettle.keep", key="a", value={"b": [1]}) == {"b": [1]}
        assert await house.ask("pot.read", key="a") is None
        by_operation = await house.ask("kettle.ask", module="skills", op="state_get", params={"key": "a"})
        assert by_operation == {"b": [1]}
        await house.ask("skills.reload_enabled")
        assert await house.ask("kettle.read", key="a") == {"b": [1]}
        for by in (OWNER, AGENT):
            assert (await house.no("skills.state_get", by, key="a"))[0] == "E_AGENT_FORBIDDEN"
            assert (await house.no("skills.state_set", by, key="a", value=1))[0] in (
                "E_AGENT_FORBIDDEN",
                "pending",
                "approval_required",
            )

    alive(machine, act)


@pytest.fixture
def store(tmp_path: Path) -> Any:
    made = Store(str(tmp_path / "state"))
    yield made
    made.close()


def test_a_state_is_bounded_in_its_keys_and_its_values(store: Store) -> None:
    state_set(store, "kettle", "a", "x" * (MOST_BYTES - 2))
    for key, value in (("b", "x" * (MOST_BYTES - 1)), ("", 1), ("k" * 257, 1), ("a\n", 1), ("c", "\ud800")):
        with pytest.raises(OperationError, match=r".") as raised:
            state_set(store, "kettle", key, value)
        assert raised.value.code == "E_SKILLS_BAD_PARAMS"
    for number in range(MOST_KEYS - 1):
        state_set(store, "kettle", f"k{number}", number)
    with pytest.raises(OperationError, match="let go"):
        state_set(store, "kettle", "one more", 1)
    state_set(store, "kettle", "k0", "another value of what is there")
    state_set(store, "pot", "one more", 1)
    state_set(store, "kettle", "k0", None)
    state_set(store, "kettle", "one more", 1)
    assert (state_get(store, "kettle", "k0"), state_get(store, "kettle", "one more")) == (None, 1)


def test_a_row_that_cannot_be_read_is_no_end_of_anything(store: Store) -> None:
    state_set(store, "kettle", "a", 1)
    with store.writing() as connection:
        connection.execute("UPDATE skill_state SET value = '{'")
        connection.execute("INSERT INTO module VALUES ('bad', 'kettle', '{'), ('good', 'kettle', '[\"x\"]')")
        connection.execute("INSERT INTO skill_life VALUES ('kettle', 7, 'odd', '', '', 0, '', '')")
    with pytest.raises(OperationError, match="cannot be read"):
        state_get(store, "kettle", "a")
    assert registered(store) == {"good": ("kettle", ("x",))}
    assert (lives(store)["kettle"].enabled, lives(store)["kettle"].status) == (None, "error")
