"""What the tests of skills that live share: the same skill in both languages, a host for it, and a way to have it live a while."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from metier.model.digest import Json
from metier.model.entry import PythonHandler, ScriptHandler
from metier.model.guarantee import needed
from metier.model.job import Event, Job, LifeBounds, Report
from metier.model.permission import PermissionSet
from metier.model.ports import Answered, NotAnswered, Operate
from metier.model.skill import Limits
from metier.sandbox.bubblewrap import Bubblewrap
from metier.sandbox.deno import DenoSandbox
from metier.sandbox.python import PythonSandbox
from metier.sandbox.wall import Wall

PYTHON = """
import asyncio, os, sys, time

class Refused(Exception):
    code = "E_ECHO"

class Echo:
    name = "echo"

    def __init__(self, ctx):
        self._ctx = ctx
        self._both = None
        self._meeting = 0

    async def say(self, params, meta):
        return {"said": params.get("text"), "meta": meta}

    def plain(self, params):
        return params

    async def ask(self, params):
        return await self._ctx.execute(params["module"], params["op"], params.get("params"), {"by": "echo"})

    async def meet(self):
        self._meeting += 1
        while self._meeting < 2:
            await asyncio.sleep(0.005)
        return self._meeting

    async def fail(self, params):
        raise Refused("not today") if params.get("code") else ValueError("it is odd")

    def odd(self):
        return {1, 2}

    def large(self):
        return "x" * 2_000_000

    async def never(self):
        await asyncio.Event().wait()

    def spin(self):
        while True:
            pass

    def leave(self):
        os._exit(3)

    def shout(self, params):
        for _ in range(params["times"]):
            print("x" * 1000)
        print("the last word")
        return None

    def _hidden(self):
        return None

class Skill:
    id = "me/echo"
    version = "1.2.3"

    async def on_enable(self, ctx):
        ctx.register_module(Echo(ctx))

    async def on_disable(self, ctx):
        await ctx.execute("late", "word", {"from": ctx.skill.id})

skill = Skill()
"""
SCRIPT = """
class Refused extends Error { code = "E_ECHO"; }

class Echo {
  name = "echo";
  #ctx: any;
  #meeting = 0;
  constructor(ctx: any) { this.#ctx = ctx; }
  async say(params: any, meta: any) { return { said: params.text, meta }; }
  plain(params: any) { return params; }
  async ask(params: any) { return await this.#ctx.execute(params.module, params.op, params.params, { by: "echo" }); }
  async meet() {
    this.#meeting += 1;
    while (this.#meeting < 2) await new Promise((done) => setTimeout(done, 5));
    return this.#meeting;
  }
  async fail(params: any) { throw params.code ? new Refused("not today") : new RangeError("it is odd"); }
  odd() { return new Set([1, 2]); }
  large() { return "x".repeat(2_000_000); }
  async never() { await new Promise(() => {}); }
  spin() { for (;;); }
  leave() { Deno.exit(3); }
  shout(params: any) {
    for (let n = 0; n < params.times; n++) console.log("x".repeat(1000));
    console.log("the last word");
    return null;
  }
  _hidden() { return null; }
}

export const skill = {
  id: "me/echo",
  version: "1.2.3",
  async onEnable(ctx: any) { ctx.registerModule(new Echo(ctx)); },
  async onDisable(ctx: any) { await ctx.execute("late", "word", { from: ctx.skill.id }); },
};
"""
OPERATIONS = ["ask", "fail", "large", "leave", "meet", "never", "odd", "plain", "say", "shout", "spin"]


class Asked:
    """A host that answers everything and remembers it."""

    def __init__(self, answer: Callable[[str, dict[str, Json]], Json | NotAnswered] | None = None) -> None:
        self.calls: list[tuple[str, dict[str, Json]]] = []
        self._answer = answer

    async def ask(self, method: str, params: dict[str, Json]) -> Answered | NotAnswered:
        self.calls.append((method, params))
        value = self._answer(method, params) if self._answer else None
        return value if isinstance(value, NotAnswered) else Answered(value=value)

    def of(self, method: str) -> list[dict[str, Json]]:
        return [params for name, params in self.calls if name == method]


class Life:
    """A life as its host sees it."""

    def __init__(self) -> None:
        self.begun = anyio.Event()
        self.ended = anyio.Event()
        self.times = 0
        self.report: Report | None = None
        self.alarms: list[Event] = []
        self._operate: Operate | None = None

    def ready(self, operate: Operate) -> None:
        self.times += 1
        self._operate = operate
        self.begun.set()

    async def do(
        self, op: str, module: str = "echo", seconds: float = 20.0, **params: Any
    ) -> Json | NotAnswered:
        """The value of an operation, or why there is none."""
        asked = {"module": module, "op": op, "params": params, "meta": {"who": "test"}}
        answer = await self.operate(asked, seconds)
        return answer.value if isinstance(answer, Answered) else answer

    async def operate(self, asked: dict[str, Any], seconds: float = 20.0) -> Answered | NotAnswered:
        assert self._operate is not None, self.report
        return await self._operate(asked, seconds)

    async def disable(self) -> Report:
        answer = await self.operate({"life": "disable"})
        assert answer == Answered(value=None), answer
        return await self.over()

    async def over(self) -> Report:
        with anyio.fail_after(30):
            await self.ended.wait()
        assert self.report is not None
        return self.report


def python(source: str = PYTHON, **files: str) -> dict[str, str]:
    return {"skill.py": source, **{name.replace("__", "/"): text for name, text in files.items()}}


def script(source: str = SCRIPT, name: str = "skill.ts") -> dict[str, str]:
    return {name: source}


def job(folder: Path, files: dict[str, str], life: Life, host: Asked, **more: Any) -> Job:
    """The job of a skill with these files, of which the first is the contract."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    first = next(iter(files))
    entry = (
        PythonHandler(path=first, life=True, module=more.pop("module", ""))
        if first.endswith(".py")
        else ScriptHandler(
            path=first, language="typescript" if first.endswith(".ts") else "javascript", life=True
        )
    )
    fields: dict[str, Any] = {
        "call_id": "call_1",
        "skill": "echo",
        "entry": entry,
        "arguments": {},
        "bundle": str(folder.resolve()),
        "permissions": PermissionSet(),
        "limits": Limits(),
        "needs": needed(entry, network=False),
        "life": life,
        "host": host,
        "alarm": life.alarms.append,
        "life_bounds": LifeBounds(),
    }
    return Job(**{**fields, **more})


@asynccontextmanager
async def living(
    folder: Path,
    files: dict[str, str],
    host: Asked | None = None,
    *,
    wait: bool = True,
    walled: Callable[[], Wall] = Bubblewrap,
    **more: Any,
) -> AsyncGenerator[Life]:
    """Have the skill live; it is killed in the end where it still does."""
    life = Life()
    made = job(folder / "bundle", files, life, host or Asked(), **more)
    wall = walled()
    is_python = isinstance(made.entry, PythonHandler)
    sandbox = PythonSandbox(wall) if is_python else DenoSandbox(wall, cache=str(folder / "cache"))
    try:
        async with anyio.create_task_group() as tasks:

            async def run() -> None:
                life.report = await sandbox.run(made)
                life.ended.set()
                life.begun.set()

            tasks.start_soon(run)
            with anyio.fail_after(60):
                await (life.begun if wait else life.ended).wait()
            try:
                yield life
            finally:
                tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await sandbox.aclose()
            await wall.aclose()
