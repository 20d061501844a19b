"""What skills that live may ask for, register and tell, and what they cannot."""

import json
import time
from pathlib import Path
from typing import Any

import anyio
import pytest

from household import (
    AGENT,
    KETTLE,
    POT,
    QUICK,
    Household,
    alive,
    configured,
    kettle,
    loaded,
    locks,
    python_package,
    records,
    trusted,
)
from machine import Machine
from metier.host.call_log import MOST_BYTES, CallLog, read_log


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


# --- what it may ask for


def test_cap_04_a_privileged_operation_takes_a_declaration_of_exactly_its_name(tmp_path: Path) -> None:
    own, opened = locks()

    async def act(house: Household) -> None:
        await loaded(house, "kettle", "pot")
        assert (await house.ask("kettle.ask", module="locks", op="open"))["open"] is True  # declared
        for operation in ("Open", "open ", "open\u200b", " open", "OPEN"):
            refused = await house.ask("kettle.ask", module="locks", op=operation)
            assert refused["refused"][0] in ("E_AGENT_FORBIDDEN", "E_SKILLS_BAD_MODULE", "unknown_tool")
        assert (await house.ask("pot.ask", module="locks", op="open"))["refused"][0] == "E_AGENT_FORBIDDEN"
        assert (await house.ask("pot.ask", module="locks", op="look"))["open"] is True  # not privileged
        assert (await house.no("locks.open", AGENT))[0] == "forbidden"
        assert (await house.info("pot"))["status"] == "loaded"  # to try is no violation
        assert opened == ["skill:kettle", "skill:pot"]

    alive(kettle(tmp_path, pot=POT), act, own)


REACHING = KETTLE.replace(
    "    async def die(self, params, meta): os._exit(3)\n",
    "    async def die(self, params, meta):\n"
    "        import sys, gc\n"
    "        found = []\n"
    "        for name in ('metier', 'metier.kernel.capability', 'metier.kernel.modules'):\n"
    "            try: __import__(name); found.append(name)\n"
    "            except ImportError: pass\n"
    "        found += [n for n in sys.modules if n.startswith('metier')]\n"
    "        found += [type(o).__name__ for o in gc.get_objects() if type(o).__name__ in ('Capability', 'Modules', 'House')]\n"
    "        for path in params['paths']:\n"
    "            try: open(path, 'rb').close(); found.append(path)\n"
    "            except OSError: pass\n"
    "        Kettle.boil = lambda self, params, meta: {'boiled': 'mine'}\n"
    "        return found\n",
)


def test_cap_05_a_skill_that_reaches_for_our_internals_finds_none(tmp_path: Path) -> None:
    machine = kettle(tmp_path, REACHING, pot=POT)
    paths = [str(machine.state / name) for name in ("kernel.db", "state.db")]

    async def act(house: Household) -> None:
        await loaded(house, "kettle", "pot")
        assert await house.ask("kettle.die", paths=paths) == []
        # What it changed of itself is its own matter, and nobody else's.
        assert (await house.ask("pot.boil"))["boiled"] == {}

    alive(machine, act)
    assert [Path(path).exists() for path in paths] == [True, True]  # they were there


def test_cap_05_outside_of_a_sandbox_the_same_code_finds_them(tmp_path: Path) -> None:
    space: dict[str, Any] = {}
    exec(compile(REACHING, "reaching.py", "exec"), space)  # noqa: S102  the skill as it is written, in our own process
    file = tmp_path / "kernel.db"
    file.write_bytes(b"")

    async def main() -> Any:
        return await space["Kettle"](None).die({"paths": [str(file)]}, {})

    found = anyio.run(main)
    assert "metier.kernel.capability" in found
    assert str(file) in found


LEGACY = """
from types import SimpleNamespace
capabilities = {'kernel_ops': ['locks.open']}
class Old:
    name = 'old'
    def __init__(self, ctx): self._ctx = ctx
    async def ask(self, params, meta):
        try:
            return await self._ctx.execute(params['module'], params['op'], params.get('params', {}))
        except Exception as error:
            return {'refused': [error.name, str(error)]}
async def register_skill(ctx):
    ctx.registerModule(Old(ctx))
"""


def test_cap_06_a_legacy_skill_lives_without_capabilities_and_it_is_said(tmp_path: Path) -> None:
    own, opened = locks()
    machine = Machine(tmp_path)
    python_package(machine, "old", LEGACY)
    python_package(machine, "kettle", KETTLE)
    configured(machine, "old", "kettle", enabled=["old", "kettle"])
    trusted(machine, "old", "kettle")

    async def act(house: Household) -> None:
        await loaded(house, "old", "kettle")
        record = await house.info("old")
        assert record["capabilities"] == {"kernel_ops": [], "channels": [], "network": False}
        assert "deprecated" in record["warnings"][0]
        assert (await house.ask("old.ask", module="locks", op="open"))["refused"][0] == "E_AGENT_FORBIDDEN"
        assert (await house.ask("old.ask", module="locks", op="look"))["open"] is True
        assert (await house.info("kettle"))["warnings"] == []
        assert (await house.ask("kettle.ask", module="locks", op="open"))["open"] is True

    alive(machine, act, own)
    assert opened == ["skill:old", "skill:kettle"]


def test_cap_07_a_skill_has_nothing_done_by_another_that_it_may_not_do_itself(tmp_path: Path) -> None:
    own, opened = locks()
    friend = KETTLE.replace("kettle", "friend").replace("['locks.open']", "['kettle.ask']")
    through = {"module": "kettle", "op": "ask", "params": {"module": "locks", "op": "open"}}

    async def act(house: Household) -> None:
        await loaded(house, "kettle", "pot", "friend")
        assert (await house.ask("pot.ask", **through))["refused"][0] == "E_AGENT_FORBIDDEN"
        assert opened == []
        # One that was granted that very operation of the other may.
        assert (await house.ask("friend.ask", **through))["open"] is True
        assert opened == ["skill:kettle"]

    alive(kettle(tmp_path, pot=POT, friend=friend), act, own)


def test_cap_07_skills_that_call_each_other_come_to_a_bottom(tmp_path: Path) -> None:
    """Each asks the other before it answers, for ever, if nobody counted."""
    one = KETTLE.replace(
        "    async def die(self, params, meta): os._exit(3)\n",
        "    async def die(self, params, meta): return await self._ctx.execute('OTHER', 'die', {'n': params['n'] + 1})\n",
    ).replace("['locks.open']", "['OTHER.die']")
    kettle_text = one.replace("OTHER", "pot")
    pot_text = one.replace("kettle", "pot").replace("OTHER", "kettle")

    async def act(house: Household) -> None:
        await loaded(house, "kettle", "pot")
        with anyio.fail_after(20):
            why = (await house.no("kettle.die", n=0))[1]
        assert "deep at most" in why
        asked = [each for each in records(house.machine) if each.tool in ("pot.die", "kettle.die")]
        assert 8 <= len({each.call_id for each in asked}) <= 10

    alive(kettle(tmp_path, kettle_text, pot=pot_text), act)


# --- what it registers and tells


TAKEN = ("skills", "Skills", "sk\u0456lls", "metier", "memory", "locks", "pot", "P0t", "a b", "")


def test_a_module_of_a_name_that_is_taken_or_looks_like_one_is_refused(tmp_path: Path) -> None:
    taking = KETTLE.replace(
        "    ctx.register_module(Kettle(ctx))\n",
        f"""    refused = []
    for name in {TAKEN!r}:
        try:
            ctx.register_module(type('Other', (), {{'name': name, 'say': lambda self, params, meta: 'mine'}})())
        except Exception as error:
            refused.append([getattr(error, 'name', type(error).__name__), str(error)])
    Kettle.refused = lambda self, params, meta: refused
    ctx.register_module(Kettle(ctx))
""",
    )
    own, _ = locks()
    machine = kettle(tmp_path, taking, pot=POT)
    configured(machine, "kettle", "pot", enabled=["pot"])

    async def act(house: Household) -> None:
        await loaded(house, "pot")
        await house.ask("skills.enable", skill_id="kettle")
        refused = await house.ask("kettle.refused")
        assert len(refused) == len(TAKEN), refused
        assert {each[0] for each in refused[:-2]} == {"E_SKILLS_MODULE_CONFLICT", "E_SKILLS_BAD_MODULE"}
        assert house.modules.owner("pot") == "pot"
        assert house.modules.of("kettle") == ("kettle",)
        assert (await house.ask("pot.boil"))["boiled"] == {}

    alive(machine, act, own)


def test_a_skill_whose_module_is_refused_does_not_begin_and_says_why(tmp_path: Path) -> None:
    taking = KETTLE.replace("    name = 'kettle'", "    name = 'skills'")

    async def act(house: Household) -> None:
        code, why = await house.no("skills.enable", skill_id="kettle")
        assert (code, "there is a module" in why) == ("E_SKILLS_ENABLE_FAILED", True)

    alive(kettle(tmp_path, taking, enabled=False), act)


def test_an_event_of_a_skill_carries_its_name_whatever_it_says(tmp_path: Path) -> None:
    async def act(house: Household) -> None:
        await loaded(house)
        payload = {"source": "metier", "skill": "pot"}
        await house.ask("kettle.emit", name="settings.skill.updated", payload=payload)
        last = house.heard[-1]
        assert (last.name, last.source, last.payload) == ("settings.skill.updated", "kettle", payload)
        assert last.depth == 0, "nothing was fired"
        bad: Any
        for bad in ({"name": "x" * 200}, {"name": "a b"}, {"name": "a", "payload": "x" * 70_000}):
            assert (await house.no("kettle.emit", **bad))[0] in ("InvalidRequest", "TooLarge")
        assert house.heard[-1] is last

    alive(kettle(tmp_path), act)


def test_events_of_a_skill_are_paced(tmp_path: Path) -> None:
    flooding = KETTLE.replace(
        "    async def die(self, params, meta): os._exit(3)\n",
        "    async def die(self, params, meta):\n        told = refused = 0\n        for n in range(300):\n"
        "            try:\n                await self._ctx.emit('drip', n)\n                told += 1\n"
        "            except Exception as error:\n                assert error.name == 'Busy', error\n                refused += 1\n"
        "        return [told, refused]\n",
    )

    async def act(house: Household) -> None:
        await loaded(house)
        began = time.monotonic()
        told, refused = await house.ask("kettle.die")
        took = time.monotonic() - began
        assert (told + refused, refused > 0) == (300, True) or took > 2
        assert told <= 100 + 50 * took + 1
        assert [each.name for each in house.heard].count("drip") == told

    alive(kettle(tmp_path, flooding), act)


def test_the_log_of_a_life_keeps_what_was_said_last(tmp_path: Path) -> None:
    async def main() -> None:
        log = CallLog(str(tmp_path), "call_1", "kettle", "full", rolling=True)
        for number in range(60):
            assert await log.append({"n": number, "text": "x" * 60_000}) is None
        kept = read_log(str(tmp_path), "call_1")
        assert kept is not None
        entries: Any = [each.entry for each in kept.lines]
        numbers = [each["n"] for each in entries]
        assert numbers == [*range(numbers[0], 60)]
        assert len(numbers) >= 8
        assert (tmp_path / "calls" / "call_1.jsonl").stat().st_size <= MOST_BYTES
        plain = CallLog(str(tmp_path), "call_2", "kettle", "full")
        said = [await plain.append({"text": "x" * 60_000}) for _ in range(20)]
        assert any(each is not None for each in said)  # one of an ordinary call is full at some time

    anyio.run(main)


def test_what_lives_is_known_to_other_processes_by_what_it_registered(tmp_path: Path) -> None:
    async def act(house: Household) -> None:
        await loaded(house)
        with house.store.reading() as connection:
            (row,) = connection.execute("SELECT name, skill, operations FROM module").fetchall()
        assert row[:2] == ("kettle", "kettle")
        assert set(json.loads(row[2])) >= {"boil", "ask"}
        await house.ask("skills.disable", skill_id="kettle")
        with house.store.reading() as connection:
            assert connection.execute("SELECT * FROM module").fetchall() == []

    alive(kettle(tmp_path), act)


def test_one_skill_that_cannot_live_keeps_no_other_from_living(tmp_path: Path) -> None:
    broken = POT.replace("    ctx.register_module(Kettle(ctx))", "    os._exit(1)")

    async def act(house: Household) -> None:
        went = await house.ask("skills.init_on_boot")
        assert (went["loaded"], [*went["failed"]]) == (["kettle"], ["pot"])
        assert (await house.ask("kettle.boil"))["boiled"] == {}

    alive(kettle(tmp_path, pot=broken), act, patience=QUICK)


def test_nobody_asks_a_skill_that_does_not_live(tmp_path: Path) -> None:
    async def act(house: Household) -> None:
        assert (await house.no("skills.call", module="kettle", op="boil"))[0] == "E_SKILLS_BAD_MODULE"
        assert (await house.no("skills.call", module="skills", op="list"))[0] == "E_SKILLS_BAD_MODULE"

    alive(kettle(tmp_path, enabled=False), act)
