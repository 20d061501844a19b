"""Skills that live: how they are kept alive, what ends them, and what they can ask for."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from household import KETTLE, OWNER, Household, alive, kettle, loaded, locks, records
from metier.catalog.here import owner
from metier.kernel import resident_life, residents
from metier.kernel.behalf import Behalf
from metier.kernel.resident_keeper import Keeper, Patience
from metier.kernel.resident_words import Words
from metier.kernel.skill_record import lives
from metier.kernel.store import Store
from metier.model.call import Principal
from metier.model.outcome import Failed


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


# --- a life is a call


def test_a_life_is_one_call_and_what_the_skill_asks_for_are_calls_inside_of_it(tmp_path: Path) -> None:
    machine = kettle(tmp_path)
    own, opened = locks()

    async def act(house: Household) -> None:
        await loaded(house)
        await house.ask("kettle.ask", module="locks", op="open")
        life = [each for each in records(machine) if each.tool == "skills.live"]
        assert [(each.event, each.principal, each.skill) for each in life] == [
            ("skill_execution_started", owner(), "kettle")
        ]
        await house.ask("skills.disable", skill_id="kettle")

    alive(machine, act, own)
    assert opened == ["skill:kettle"]
    begun, ended = (each for each in records(machine) if each.tool == "skills.live")
    assert (begun.call_id, ended.event) == (ended.call_id, "skill_executed")
    inner = next(each for each in records(machine) if each.tool == "locks.open")
    assert (inner.parent, inner.principal) == (begun.call_id, "skill:kettle")


def test_who_asks_is_what_the_gate_knows_whatever_is_sent_along(tmp_path: Path) -> None:
    claims = {
        "_ctx": {"kernel_cap": "x", "actor": "root"},
        "actor": "root",
        "deep": [{"kernel_cap": "x", "a": 1}],
    }

    async def act(house: Household) -> None:
        await loaded(house)
        told = await house.ask("kettle.boil", **claims)
        assert told["boiled"] == {"deep": [{"a": 1}]}
        assert told["meta"]["actor"] == owner()
        by_skill = await house.ask("kettle.ask", module="kettle", op="boil", params=claims)
        assert (by_skill["boiled"], by_skill["meta"]["actor"]) == ({"deep": [{"a": 1}]}, "skill:kettle")

    alive(kettle(tmp_path), act)


def test_what_a_module_says_when_it_fails_is_told_and_it_lives_on(tmp_path: Path) -> None:
    async def act(house: Household) -> None:
        await loaded(house)
        assert await house.no("kettle.fail") == ("ValueError", "no water")
        assert (await house.ask("kettle.boil"))["boiled"] == {}
        assert [each.name for each in house.heard] == ["skills.enabled"]

    alive(kettle(tmp_path), act)


# --- what ends a life, and what comes after


def test_one_that_dies_is_started_again_and_who_waited_is_told(tmp_path: Path) -> None:
    async def act(house: Household) -> None:
        await loaded(house)
        code, why = await house.no("kettle.die")
        assert (code, "ended before it answered" in why) == ("E_SKILLS_MODULE_DISABLED", True)
        with anyio.fail_after(20):
            while [each.name for each in house.heard] != [
                "skills.enabled",
                "skills.failed",
                "skills.enabled",
            ]:
                await anyio.sleep(0.02)
        assert (await house.ask("kettle.boil"))["boiled"] == {}

    alive(kettle(tmp_path), act)


def test_one_that_dies_again_and_again_stays_down_until_it_is_enabled_again(tmp_path: Path) -> None:
    dying = KETTLE.replace(
        "    ctx.register_module(Kettle(ctx))\n",
        "    ctx.register_module(Kettle(ctx))\n    asyncio.get_running_loop().call_later(0.05, os._exit, 3)\n",
    )

    async def act(house: Household) -> None:
        record = await house.until("kettle", lambda record: "in a row" in (record["error"] or ""))
        assert (record["status"], record["enabled"], record["modules_registered"]) == ("error", True, [])
        assert [each.name for each in house.heard] == ["skills.enabled", "skills.failed"] * 3
        await house.ask("skills.enable", skill_id="kettle")

    alive(kettle(tmp_path, dying), act, patience=Patience(first=0.02, deaths=3))


def test_the_wait_before_it_is_tried_again_doubles_and_begins_anew_after_a_long_life() -> None:
    from metier.model.outcome import Refused

    class Began:
        fault = ""
        late = False
        began = anyio.Event()

    keeper: Any = Keeper.__new__(Keeper)
    keeper._patience, keeper._deaths, keeper._failures, keeper._refusals = Patience(deaths=99), 0, 0, 0
    died = Failed(call_id="c", code="no_result", message="it ended")
    anyio.run(_set, Began.began)
    waits = [keeper._after(died, Began, 1.0)[1] for _ in range(11)]
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    assert [keeper._after(died, Began, 601.0)[1], keeper._after(died, Began, 1.0)[1]] == [1, 2]
    keeper._patience, Began.late = Patience(), True
    assert [keeper._after(died, Began, 31.0)[1] for _ in range(20)] == [1.0] * 20, (
        "who hangs is never down for good"
    )
    refused = Refused(call_id="c", code="forbidden", reasons=("no",))
    assert [keeper._after(refused, None, 0.0)[1] for _ in range(9)][-1] == 3600
    failed = [keeper._after(died, None, 0.0)[1] for _ in range(4)]
    assert failed == [1, 2, 4, 0]
    keeper._no_room, keeper._refusals = 0, 0
    for code in ("busy", "not_started", "internal"):
        full = Failed(call_id="c", code=code, message="no room")  # type: ignore[arg-type]
        assert keeper._after(full, None, 0.0)[1] > 0
    assert {keeper._after(full, None, 0.0)[1] for _ in range(2_000)} == {8, 16, 32, 64, 128, 256, 300}
    assert {keeper._after(refused, None, 0.0)[1] for _ in range(2_000)} >= {30, 3600}, "however often"


async def _set(event: anyio.Event) -> None:
    event.set()


def test_an_operation_that_does_not_answer_in_time_has_its_skill_started_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resident_life, "OPERATION_SECONDS", 0.3)

    async def act(house: Household) -> None:
        await loaded(house)
        code, why = await house.no("kettle.hang")
        assert (code, "0.3 s" in why) == ("TimedOut", True)
        with anyio.fail_after(20):
            while [each.name for each in house.heard].count("skills.enabled") < 2:
                await anyio.sleep(0.02)
        failed = next(each for each in house.heard if each.name == "skills.failed")
        assert failed.payload == {"skill": "kettle"}  # why is told to people, not to whoever listens
        assert (await house.ask("kettle.boil"))["boiled"] == {}

    alive(kettle(tmp_path), act)


def test_a_skill_that_hangs_on_what_was_given_up_is_started_anew_and_answers_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resident_life, "OPERATION_SECONDS", 0.3)

    async def act(house: Household) -> None:
        await loaded(house)
        told: Any = None
        with anyio.fail_after(20):
            while not isinstance(told, Failed):
                with anyio.move_on_after(0.15):  # whoever asks goes away
                    await house.ask("kettle.hang")
                told = await house.call(OWNER, "kettle.boil", {})
        assert isinstance(told.value, dict)
        assert told.value["code"] == "E_SKILLS_NOT_READY"
        assert "started anew" in told.message
        with anyio.fail_after(20):
            while [each.name for each in house.heard].count("skills.enabled") < 2:
                await anyio.sleep(0.02)
        assert (await house.ask("kettle.boil"))["boiled"] == {}

    alive(kettle(tmp_path), act)


@pytest.mark.anyio
@pytest.mark.parametrize("how", ["cancelled", "raises"])
async def test_a_skill_that_is_ended_right_after_its_turn_came_gives_its_turn_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    reached = anyio.Event()

    async def channels(_keeper: Keeper) -> frozenset[str]:
        reached.set()
        if how == "raises":
            raise RuntimeError("a fault of ours")
        await anyio.sleep_forever()
        return frozenset()

    class Lives:
        async def problem(self, skill: str, behalf: Behalf) -> None:
            del skill, behalf

        def known(self, skill: str) -> object:
            return skill

    monkeypatch.setattr(Keeper, "_channels", channels)
    turns = anyio.Semaphore(1)
    made: Any = Keeper
    keeper: Keeper = made(
        *("kettle", Behalf("human:me")),
        live=Lives(),
        store=Store(str(tmp_path / "home")),
        made=lambda *_: None,
        prepare=None,
        words=Words(None),
        tell=lambda _event: None,
        starting=turns,
        patience=Patience(),
    )
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keeper.run)
            await reached.wait()
            tasks.cancel_scope.cancel()
    assert turns.value == 1


def test_disabling_ends_what_is_asked_of_it_and_does_not_wait_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(residents, "DISABLE_SECONDS", 0.3)
    stubborn = KETTLE.replace("    ctx.emit('kettle.goodbye')", "    await asyncio.sleep(3600)")

    async def act(house: Household) -> None:
        await loaded(house)
        said: list[tuple[str, str]] = []

        async def wait() -> None:
            said.append(await house.no("kettle.hang"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.sleep(0.2)
            await house.ask("skills.disable", skill_id="kettle")
        record = await house.info("kettle")
        assert (record["status"], "onDisable" in record["error"]) == ("disabled", True)
        assert said[0][0] in ("E_SKILLS_MODULE_DISABLED", "interrupted")
        assert [each.name for each in house.heard][-1] == "skills.disabled"

    alive(kettle(tmp_path, stubborn), act)


@pytest.mark.parametrize(
    ("ended", "begun", "status"),
    [
        (("skills", "disable", "kettle"), ("skills", "enable", "kettle"), "disabled"),
        (("skills", "untrust", "kettle"), ("skills", "trust", "kettle", "--yes"), "error"),
        (("stop",), ("resume",), "error"),
    ],
    ids=["disabled", "untrusted", "stopped"],
)
def test_what_operators_end_ends_at_once_is_said_and_lives_again_when_they_let_it(
    ended: tuple[str, ...], begun: tuple[str, ...], status: str, tmp_path: Path
) -> None:
    machine = kettle(tmp_path)

    async def act(house: Household) -> None:
        await loaded(house)
        machine.metier(*ended)
        with anyio.fail_after(10):
            while house.modules.of("kettle"):
                await anyio.sleep(0.02)
        with anyio.fail_after(10):
            while lives(house.store)["kettle"].status != status:
                await anyio.sleep(0.02)
        assert lives(house.store)["kettle"].error
        machine.metier(*begun)
        await loaded(house)
        assert [each.name for each in house.heard] == ["skills.enabled", "skills.enabled"]

    alive(machine, act)


def test_one_that_breaks_the_rules_is_disabled_and_not_started_again(tmp_path: Path) -> None:
    naughty = KETTLE.replace(
        "    async def die(self, params, meta): os._exit(3)\n",
        "    async def die(self, params, meta):\n        import ctypes\n        ctypes.CDLL(None).unshare(0x10000000)\n"
        "        await asyncio.sleep(5)\n",
    )
    machine = kettle(tmp_path, naughty)

    async def act(house: Household) -> None:
        await loaded(house)
        await house.no("kettle.die")
        record = await house.until("kettle", lambda record: record["status"] == "disabled")
        assert "what no skill may ever do" in record["error"]
        await anyio.sleep(0.5)  # longer than it would wait to be started again
        assert [each.name for each in house.heard].count("skills.enabled") == 1
        assert (await house.no("skills.enable", skill_id="kettle"))[0] == "E_SKILLS_DISABLED"

    alive(machine, act)
    assert "violation" in [each.code for each in records(machine) if each.tool == "skills.live"]


def test_who_lost_his_right_has_no_skill_live_on_his_behalf(tmp_path: Path) -> None:
    machine = kettle(tmp_path, enabled=False)
    machine.metier("principals", "add", "human:bob", "--role", "operator")
    bob = Principal(id="human:bob", kind="human")

    async def act(house: Household) -> None:
        await house.ask("skills.enable", bob, skill_id="kettle")
        assert (await house.ask("kettle.ask", module="skills", op="list"))["skills"]
        machine.metier("principals", "revoke", "human:bob")
        refused = await house.ask("kettle.ask", module="skills", op="list")
        assert "revoked" in refused["refused"][1]
        await house.no("kettle.die")
        record = await house.until("kettle", lambda record: "revoked" in (record["error"] or ""))
        assert record["status"] == "error"

    alive(machine, act, patience=Patience(look=3600.0))  # it is refused also before anybody ends it


def test_who_goes_away_while_he_disables_a_skill_leaves_nothing_half_done(tmp_path: Path) -> None:
    slow = KETTLE.replace("    ctx.emit('kettle.goodbye')", "    await asyncio.sleep(0.5)")

    async def act(house: Household) -> None:
        await loaded(house)
        with anyio.move_on_after(0.1) as scope:
            await house.residents.disable("kettle", owner())
        assert scope.cancel_called
        assert house.modules.of("kettle") == ()
        assert (house.removed, lives(house.store)["kettle"].enabled) == (["kettle"], False)
        assert (await house.info("kettle"))["status"] == "disabled"

    alive(kettle(tmp_path, slow), act)


def test_a_skill_can_be_disabled_while_it_is_still_being_enabled(tmp_path: Path) -> None:
    slow = KETTLE.replace("    ctx.register_module(Kettle(ctx))", "    await asyncio.sleep(3600)")

    async def act(house: Household) -> None:
        ended: list[tuple[str, str]] = []

        async def enable() -> None:
            ended.append(await house.no("skills.enable", skill_id="kettle"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(enable)
            running: Any = house.living
            with anyio.fail_after(20):
                while "kettle" not in running._running.skills:
                    await anyio.sleep(0.02)
                await house.ask("skills.disable", skill_id="kettle")
        assert ended[0][0] == "E_SKILLS_ENABLE_FAILED"
        assert (await house.info("kettle"))["enabled"] is False

    alive(kettle(tmp_path, slow, enabled=False), act)
