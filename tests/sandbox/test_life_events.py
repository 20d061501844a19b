"""What a module of a living skill is told of events, on the other side of the wire: in both languages the same."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from lives import Asked, Life, living, python, script
from metier.model.ports import Answered, NotAnswered

PYTHON = """
class Ear:
    name = "ear"
    operations = ["said", "on_event"]
    def __init__(self, ctx): self._ctx, self.heard = ctx, []
    def said(self): return self.heard
    async def on_event(self, name, payload, meta):
        self.heard.append([name, payload, meta])
        await self._ctx.emit("heard", {"name": name})
        await self._ctx.execute("other", "op")
class Broken:
    name = "broken"
    def on_event(self, name): raise ValueError("I hear nothing")
class Deaf:
    name = "deaf"
    def op(self): return 1
def register_skill(ctx):
    for each in (Broken(), Ear(ctx), Deaf()):
        ctx.register_module(each)
"""
SCRIPT = """
class Ear {
  name = "ear";
  operations = ["said", "onEvent"];
  heard: any[] = [];
  ctx: any;
  constructor(ctx: any) { this.ctx = ctx; }
  said() { return this.heard; }
  async onEvent(name: string, payload: any, meta: any) {
    this.heard.push([name, payload, meta]);
    await this.ctx.emit("heard", { name });
    await this.ctx.execute("other", "op");
  }
}
export function registerSkill(ctx: any) {
  ctx.registerModule({ name: "broken", onEvent() { throw new RangeError("I hear nothing"); } });
  ctx.registerModule(new Ear(ctx));
  ctx.registerModule({ name: "deaf", op: () => 1 });
}
"""
BOTH = pytest.mark.parametrize("files", [python(PYTHON), script(SCRIPT)], ids=["python", "typescript"])


def run(body: Callable[[], Awaitable[None]]) -> None:
    anyio.run(body)


async def tell(life: Life, name: str, number: int = 1) -> Answered | NotAnswered:
    told: dict[str, Any] = {"event": name, "payload": {"n": number}, "meta": {"source": "pot"}}
    return await life.operate({**told, "inside": f"event_{number}"})


@BOTH
def test_a_module_says_that_it_listens_and_being_told_is_no_operation(
    files: dict[str, str], tmp_path: Path
) -> None:
    host = Asked()

    async def body() -> None:
        async with living(tmp_path, files, host):
            assert host.of("module.register") == [
                {"name": "broken", "operations": [], "hears": True},
                {"name": "ear", "operations": ["said"], "hears": True},
                {"name": "deaf", "operations": ["op"]},
            ]

    run(body)


@BOTH
def test_each_that_listens_is_told_whatever_another_does_and_what_it_asks_for_is_part_of_that(
    files: dict[str, str], tmp_path: Path
) -> None:
    host = Asked()

    async def body() -> None:
        async with living(tmp_path, files, host) as life:
            for number in (1, 2):
                answer = await tell(life, "water.boils", number)
                assert isinstance(answer, NotAnswered)
                assert answer.message == "I hear nothing"
            meta = {"source": "pot"}
            assert await life.do("said", module="ear") == [
                ["water.boils", {"n": 1}, meta],
                ["water.boils", {"n": 2}, meta],
            ]
            assert [each["for"] for each in host.of("emit")] == ["event_1", "event_2"]
            assert [each["for"] for each in host.of("execute")] == ["event_1", "event_2"]

    run(body)
