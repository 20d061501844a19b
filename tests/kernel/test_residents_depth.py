"""How deep the calls of a skill that lives are: as deep as the operation that asks, not as deep as anything that went on lately."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from household import KETTLE, Household, alive, configured, kettle, loaded, script_package, trusted
from machine import Machine
from metier.gate.validate import MAX_DEPTH


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


PYTHON = """
import asyncio, threading
class Deep:
    name = 'deep'
    def __init__(self, ctx):
        self._ctx = ctx
        self._go = asyncio.Event()
        self._later = None
    async def inner(self, params, meta): return 'here'
    async def outer(self, params, meta):
        await self._ctx.emit('deep.outer')
        return await self._ctx.execute('deep', 'inner')
    async def down(self, params, meta):
        if params['n'] == 0:
            await self._ctx.emit('deep.bottom')
            if params.get('hold'):
                self._go.set()
                await asyncio.sleep(params['hold'])
            return 0
        return 1 + await self._ctx.execute('deep', 'down', {**params, 'n': params['n'] - 1})
    async def beside(self, params, meta):
        await self._go.wait()
        await self._ctx.emit('deep.beside')
        return await self._ctx.execute('deep', 'inner')
    async def later(self, params, meta):
        async def after():
            await asyncio.sleep(0.05)
            await self._ctx.emit('deep.later')
            await self._ctx.execute('deep', 'inner', {'late': True})
        self._later = asyncio.ensure_future(after())
async def on_enable(ctx):
    ctx.register_module(Deep(ctx))
    await ctx.emit('deep.enabled')
skill = {'id': 'deep', 'version': '1.0.0', 'on_enable': on_enable}
"""
SCRIPT = """
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
class Deep {
  name = 'deep';
  #ctx;
  #go = null;
  #gone = new Promise((resolve) => { this.#go = resolve; });
  constructor(ctx) { this.#ctx = ctx; }
  async inner() { return 'here'; }
  async outer() {
    await this.#ctx.emit('deep.outer');
    return await this.#ctx.execute('deep', 'inner');
  }
  async down(params) {
    if (params.n === 0) {
      await this.#ctx.emit('deep.bottom');
      if (params.hold) {
        this.#go();
        await sleep(params.hold * 1000);
      }
      return 0;
    }
    return 1 + await this.#ctx.execute('deep', 'down', { ...params, n: params.n - 1 });
  }
  async beside() {
    await this.#gone;
    await this.#ctx.emit('deep.beside');
    return await this.#ctx.execute('deep', 'inner');
  }
  async later() {
    setTimeout(async () => {
      await this.#ctx.emit('deep.later');
      await this.#ctx.execute('deep', 'inner', { late: true });
    }, 50);
  }
}
export const skill = { id: 'deep', version: '1.0.0', async onEnable(ctx) {
  ctx.registerModule(new Deep(ctx));
  await ctx.emit('deep.enabled');
} };
"""


def python(top: Path) -> Machine:
    return kettle(top, deep=PYTHON)


def script(top: Path) -> Machine:
    machine = Machine(top)
    script_package(machine, "deep", SCRIPT, main="index.js")
    configured(machine, "deep", enabled=["deep"])
    trusted(machine, "deep")
    return machine


both = pytest.mark.parametrize("made", [python, script])


def depths(house: Household, name: str) -> list[int]:
    """How deep the calls of an operation were."""
    return [depth for each, depth in house.depths if each == name]


def told(house: Household, name: str) -> list[int]:
    """How many firings lay behind the events of a name."""
    return [each.depth for each in house.heard if each.name == name]


@both
def test_honest_calls_in_a_row_are_no_deeper_than_each_of_them_is(made: Any, tmp_path: Path) -> None:
    async def act(house: Household) -> None:
        await loaded(house, "deep")
        for _ in range(2 * MAX_DEPTH):
            assert await house.ask("deep.outer") == "here"
        assert depths(house, "deep.outer") == [0] * (2 * MAX_DEPTH)
        assert depths(house, "deep.inner") == [1] * (2 * MAX_DEPTH)
        assert set(told(house, "deep.outer") + told(house, "deep.enabled")) == {0}

    alive(made(tmp_path), act)


@both
def test_one_that_is_deep_makes_nobody_else_deep_and_goes_no_deeper_than_anybody(
    made: Any, tmp_path: Path
) -> None:
    async def act(house: Household) -> None:
        await loaded(house, "deep")
        assert await house.ask("deep.down", n=MAX_DEPTH) == MAX_DEPTH
        assert depths(house, "deep.down") == [*range(MAX_DEPTH + 1)]
        assert told(house, "deep.bottom") == [0], "how deep a call lies is no firing"
        assert "deep at most" in (await house.no("deep.down", n=MAX_DEPTH + 1))[1]
        async with anyio.create_task_group() as tasks:  # at the same time, and not one of the other's
            tasks.start_soon(lambda: house.ask("deep.down", n=MAX_DEPTH, hold=0.5))
            assert await house.ask("deep.beside") == "here"
        assert depths(house, "deep.inner") == [1]

    alive(made(tmp_path), act)


@both
def test_what_goes_on_after_its_operation_counts_as_of_the_deepest_that_is_under_way(
    made: Any, tmp_path: Path
) -> None:
    async def act(house: Household) -> None:
        await loaded(house, "deep")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: house.ask("deep.down", n=4, hold=1.0))
            with anyio.fail_after(10):
                while not told(house, "deep.bottom"):
                    await anyio.sleep(0.01)
            await house.ask("deep.later")
            with anyio.fail_after(10):
                while not depths(house, "deep.inner"):
                    await anyio.sleep(0.01)
        assert depths(house, "deep.inner") == [5]
        await house.ask("deep.later")  # and where nothing is under way it is as from the top
        with anyio.fail_after(10):
            while len(depths(house, "deep.inner")) < 2:
                await anyio.sleep(0.01)
        assert depths(house, "deep.inner")[1] == 1
        assert told(house, "deep.later") == [0, 0]

    alive(made(tmp_path), act)


def test_cap_07_a_skill_that_names_an_operation_it_does_not_do_counts_as_of_the_deepest(
    tmp_path: Path,
) -> None:
    """The line is open to the code of the skill, so it can say anything."""
    lying = KETTLE.replace(
        "    async def die(self, params, meta): os._exit(3)\n",
        "    async def die(self, params, meta):\n"
        "        from python_life import INSIDE\n"
        "        INSIDE.set(params['for'])\n"
        "        if params['n'] == 0: return 0\n"
        "        return 1 + await self._ctx.execute('kettle', 'die', {**params, 'n': params['n'] - 1})\n",
    )

    async def act(house: Household) -> None:
        await loaded(house)
        assert await house.ask("kettle.die", n=3, **{"for": "call_x"}) == 3  # it does so at all
        for claimed in ("call_x", "", None, 7):
            assert "deep at most" in (await house.no("kettle.die", n=MAX_DEPTH + 1, **{"for": claimed}))[1]

    alive(kettle(tmp_path, lying), act)
