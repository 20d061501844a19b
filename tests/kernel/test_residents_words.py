"""What is said of skills that live: without secrets, to those whom it concerns, and so that it is so."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from household import (
    AGENT,
    KETTLE,
    POT,
    Household,
    alive,
    configured,
    kettle,
    loaded,
    python_package,
)
from metier.kernel import resident_keeper
from metier.kernel.channel_rows import put_channel
from metier.kernel.channel_rules import Channel
from metier.kernel.operation import Asked, Module, module, offered
from metier.kernel.resident_keeper import Patience
from metier.kernel.resident_words import UNSAID, Words
from metier.kernel.skill_record import lives
from metier.kernel.store import Store
from metier.model.digest import Json
from metier.model.job import LifeBounds
from settings_kit import BOT, Desk, bot

TOKEN = "sk-abcdefghijklmnop1234567890abcd"
SAID = f"cannot: token {TOKEN}"
ONCE = Patience(first=0.02, longest=0.1, failures=1, look=0.1)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


# --- secrets in the words of a skill


def test_sec_02_what_looks_like_a_secret_is_hidden_when_a_skill_fails_with_it(tmp_path: Path) -> None:
    raising = f"    raise ValueError({SAID!r})\n"
    enabling = POT.replace("    ctx.register_module(Kettle(ctx))\n", raising)
    working = KETTLE.replace("raise ValueError('no water')", raising.strip())
    machine = kettle(tmp_path, working, pot=enabling)

    async def act(house: Household) -> None:
        record = await house.until("pot", lambda record: "not until it is enabled" in (record["error"] or ""))
        assert "cannot: token ••••" in record["error"]  # the words themselves are there
        assert TOKEN not in str(record)
        assert "cannot" not in str(await house.ask("skills.info", AGENT, skill_id="pot"))
        await loaded(house)
        assert await house.no("kettle.fail") == ("ValueError", "cannot: token ••••••••")
        assert TOKEN not in str(lives(house.store)) + str(house.heard)

    alive(machine, act, patience=ONCE)
    kept = b"".join(each.read_bytes() for each in machine.state.glob("kernel.db*"))
    assert TOKEN.encode() not in kept


def test_sec_02_its_own_secret_settings_are_hidden_in_what_a_skill_says(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "state")
    plain = "hunter in the rye 22"  # nothing that anybody would take for a secret
    desk.set({"bot_token": plain})
    text = f"login failed for {plain} and {plain.encode().hex()}"

    async def main() -> None:
        words = Words(desk.settings)
        assert plain in await Words(None).shown(
            desk.skills[BOT], text, 500
        )  # it takes the settings to know it
        assert await words.shown(desk.skills[BOT], text, 500) == "login failed for •••••••• and ••••••••"
        assert await words.shown(bot(id="@x/other"), text, 500) == text  # another skill's is another's
        for sealed in (tmp_path / "state").rglob("*.age"):
            sealed.write_bytes(b"broken")
        assert await words.shown(desk.skills[BOT], text, 500) == UNSAID

    anyio.run(main)
    desk.close()


# --- what is left of a life that never began


def channels(store: list[Store]) -> Module:
    async def register(asked: Asked) -> Json:
        name = str(asked.arguments["channel"])
        with store[0].writing() as connection:
            put_channel(connection, Channel(name=name, skill="kettle", connector="kettle"), 0.0)
        return {"ok": True}

    given: dict[str, Json] = {"type": "object", "properties": {"channel": {"type": "string"}}}
    return module("channels", offered("channels.register", register, "Registers.", given))


def test_what_a_life_registered_that_never_began_is_gone_and_what_it_had_before_stays(tmp_path: Path) -> None:
    failing = KETTLE.replace(
        "    ctx.register_module(Kettle(ctx))\n",
        "    ctx.register_module(Kettle(ctx))\n"
        "    await ctx.execute('channels', 'register', {'channel': 'new'})\n"
        "    await ctx.execute('channels', 'register', {'channel': 'old'})\n"
        "    await ctx.emit('kettle.registered')\n"
        "    raise ValueError('no water')\n",
    )
    machine = kettle(tmp_path, failing, enabled=False)
    own: list[Store] = []

    async def act(house: Household) -> None:
        own.append(house.store)
        with house.store.writing() as connection:
            put_channel(connection, Channel(name="old", skill="kettle", connector="kettle"), 0.0)
        assert (await house.no("skills.enable", skill_id="kettle"))[0] == "E_SKILLS_ENABLE_FAILED"
        record = await house.until("kettle", lambda record: "not until" in (record["error"] or ""))
        assert "no water" in record["error"]
        assert "kettle.registered" in [each.name for each in house.heard]  # it came so far
        assert house.modules.of("kettle") == ()
        with house.store.reading() as connection:
            assert connection.execute("SELECT name FROM channel").fetchall() == [("old",)]
            assert connection.execute("SELECT name FROM module").fetchall() == []

    alive(machine, act, channels(own), patience=ONCE)


# --- what is said is so


def test_a_skill_that_is_there_and_cannot_be_read_is_said_to_be_that(tmp_path: Path) -> None:
    machine = kettle(tmp_path)

    async def act(house: Household) -> None:
        await loaded(house)
        python_package(machine, "kettle", "def on_enable(\n")
        machine.metier("skills", "trust", "kettle", "--yes", check=None)
        await house.runtime.reload()
        records: list[Any] = (await house.ask("skills.list"))["skills"]
        (record,) = (each for each in records if each["name"] == "kettle")
        assert "SyntaxError" in record["error"]
        record = await house.until("kettle", lambda record: not house.modules.of("kettle"))
        assert "SyntaxError" in record["error"]
        code, why = await house.no("skills.enable", skill_id="kettle")
        assert (code, "SyntaxError" in why) == ("E_SKILLS_BAD_EXPORT", True)
        assert "SyntaxError" not in str(await house.ask("skills.list", AGENT))

    alive(machine, act)


def test_an_enabling_that_never_returns_is_said_to_be_that() -> None:
    """There is no time limit that anybody could raise."""
    from metier.model.outcome import Failed

    late = Failed(call_id="c", code="timed_out", message="ask for less, or raise its time limit")
    why: Any = resident_keeper
    assert why._why(late) == f"onEnable did not return within {LifeBounds().enable_seconds:g} s"


def test_without_a_host_nothing_is_said_to_be_started_or_tried_again(tmp_path: Path) -> None:
    dying = POT.replace("    ctx.register_module(Kettle(ctx))\n", "    raise ValueError('no water')\n")
    machine = kettle(tmp_path, pot=dying)

    async def act(house: Household) -> None:
        await loaded(house)
        await house.until("pot", lambda record: "no water" in (record["error"] or ""))

    alive(machine, act)
    said = machine.metier("skills", "living").stdout
    assert said.count("no host runs here") == 2
    assert "tried again" not in said


def test_a_host_that_begins_says_what_it_starts_and_not_what_an_earlier_one_said(tmp_path: Path) -> None:
    machine = kettle(tmp_path, pot=POT)

    async def first(house: Household) -> None:
        await loaded(house, "kettle", "pot")

    alive(machine, first)
    configured(machine, "kettle", "pot", enabled=["kettle"])

    async def second(house: Household) -> None:
        await house.residents.expect()
        kept = lives(house.store)
        assert (kept["kettle"].status, kept["kettle"].error) == ("disabled", "it is being started")
        assert (kept["pot"].status, kept["pot"].error) == ("disabled", "")

    alive(machine, second, boot=False)
