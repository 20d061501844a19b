"""Closed addresses and skills that live: whoever thinks of one itself is disabled, whoever was told one is only refused."""

from pathlib import Path

import anyio
import pytest

from household import Household, alive, configured, records, script_package, trusted
from machine import Machine
from metier.kernel.skill_record import lives

METADATA = "http://169.254.169.254/latest/meta-data"
SKILL = """
class Net {
  name = "net";
  operations = ["get", "look", "kept", "keep"];
  constructor(ctx: any) { this.ctx = ctx; }
  ctx: any;
  async get(params: any) {
    try { return (await fetch(params.url)).status; } catch (error: any) { return String(error.message); }
  }
  async look() { return await this.get({ url: "http://169.254." + "169.254/latest/meta-data" }); }
  async keep(params: any) { await this.ctx.state_set("url", params.url); }
  async kept() { return await this.get({ url: await this.ctx.state_get("url") }); }
}
export const skill = { id: "net", version: "1", capabilities: {}, async onEnable(ctx: any) {
  const net = new Net(ctx);
  ctx.registerModule(net);
  if (EARLY) await net.look();
} };
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def networked(tmp_path: Path, *, early: bool = False) -> Machine:
    machine = Machine(tmp_path)
    script_package(machine, "net", SKILL.replace("EARLY", "true" if early else "false"))
    configured(machine, "net", enabled=("net",))
    trusted(machine, "net")
    return machine


async def until(house: Household, status: str) -> None:
    with anyio.fail_after(30):
        while lives(house.store).get("net") is None or lives(house.store)["net"].status != status:
            await anyio.sleep(0.02)


def violated(machine: Machine) -> bool:
    return "violation" in [each.code for each in records(machine) if each.tool == "skills.live"]


def test_a_life_that_was_told_of_a_closed_address_is_refused_it_and_lives_on(tmp_path: Path) -> None:
    machine = networked(tmp_path)

    async def act(house: Household) -> None:
        await until(house, "loaded")
        assert "no skill may connect to it" in await house.ask("net.get", url=METADATA)
        await house.ask("net.keep", url="http://127.0.0.1:8080/")
        assert "no skill may connect to it" in await house.ask("net.kept")
        assert lives(house.store)["net"].status == "loaded"

    alive(machine, act)
    assert not violated(machine)


def test_what_a_life_finds_in_its_state_was_told_to_an_earlier_one(tmp_path: Path) -> None:
    machine = networked(tmp_path)

    async def first(house: Household) -> None:
        await until(house, "loaded")
        await house.ask("net.keep", url=METADATA)

    async def second(house: Household) -> None:
        await until(house, "loaded")
        assert "no skill may connect to it" in await house.ask("net.kept")

    alive(machine, first)
    alive(machine, second)
    assert not violated(machine)


@pytest.mark.parametrize(
    "early", [True, False], ids=["while it is enabled", "when it is asked for something"]
)
def test_a_life_that_comes_up_with_a_closed_address_is_disabled_like_a_run(
    tmp_path: Path, early: bool
) -> None:
    machine = networked(tmp_path, early=early)

    async def act(house: Household) -> None:
        if not early:
            await until(house, "loaded")
            await house.no("net.look")
        with anyio.fail_after(30):
            while "what no skill may ever do" not in lives(house.store)["net"].error:
                await anyio.sleep(0.02)
        assert lives(house.store)["net"].status == "disabled"

    alive(machine, act)
    assert violated(machine)
