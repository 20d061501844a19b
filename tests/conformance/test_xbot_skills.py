"""What XBot's document promises of skills beyond the example: what they say, what they reach, and where they come from."""

import ast
import json
import urllib.request
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import metier
from household import KETTLE, Household, alive, kettle, loaded, trusted
from loopback import Listener, reply
from machine import Machine
from metier.host.call_log import read_log

SOURCE = Path(metier.__file__).parent


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def test_a_skill_logs_at_four_levels_and_at_no_other(tmp_path: Path) -> None:
    saying = KETTLE.replace(
        "    async def die(self, params, meta): os._exit(3)\n",
        """    async def die(self, params, meta):
        for level in ('debug', 'info', 'warn', 'error'):
            await self._ctx.log(level, 'hello', {'level': level})
        try: await self._ctx.log('loud', 'hello')
        except Exception as error: return error.name
""",
    )
    machine = kettle(tmp_path, saying)

    async def act(house: Household) -> None:
        await loaded(house)
        assert await house.ask("kettle.die") == "InvalidRequest"

    alive(machine, act)
    (file,) = (machine.state / "calls").glob("*.jsonl")
    log = read_log(str(machine.state), file.stem)
    assert log is not None
    said: Any = [each.entry for each in log.lines]
    levels = ["debug", "info", "warn", "error"]
    assert said == [{"level": each, "message": "hello", "meta": {"level": each}} for each in levels]
    assert {each.skill for each in log.lines} == {"kettle"}


REACHING = """
class Reach {
  name = "reach";
  async out(params: any) {
    const tries: Record<string, () => Promise<unknown>> = {
      url: () => import(`${params.at}/x.mjs`), npm: () => import("npm:chalk"), jsr: () => import("jsr:@std/path"),
      fetch: () => fetch(`${params.at}/x.mjs`), connect: () => (globalThis as any).Deno.connect({ port: params.port }),
    };
    const reached: string[] = [];
    for (const [name, attempt] of Object.entries(tries)) {
      try { await attempt(); reached.push(name); } catch { /* refused */ }
    }
    return reached;
  }
}
export const skill = { id: "reach", version: "1.0.0", onEnable(ctx: any) { ctx.registerModule(new Reach()); } };
"""


def test_a_package_of_node_modules_lives_and_without_network_it_reaches_and_installs_nothing(
    tmp_path: Path,
) -> None:
    machine = Machine(tmp_path)
    folder = machine.project / "node_modules" / "reach"
    folder.mkdir(parents=True)
    left = machine.project / "installed"
    said = {
        "name": "reach",
        "version": "1.0.0",
        "type": "module",
        "main": "index.ts",
        "scripts": {"postinstall": f"touch {left}", "preinstall": f"touch {left}"},
        "dependencies": {"chalk": "*"},
    }
    (folder / "package.json").write_text(json.dumps(said), encoding="utf-8")
    (folder / "index.ts").write_text(REACHING, encoding="utf-8")
    skills = {"allow": ["reach"], "enabled": ["reach"], "resolve": {"node_modules": True}}
    (machine.project / "agent.config.json").write_text(json.dumps({"skills": skills}), encoding="utf-8")
    trusted(machine, "reach")
    served = reply(body=b"export default 1\n", Content_Type="text/javascript", Connection="close")
    with closing(Listener(lambda _asked: served)) as server:

        async def act(house: Household) -> None:
            await loaded(house, "reach")
            at = f"http://127.0.0.1:{server.port}"
            assert await house.ask("reach.out", at=at, port=server.port) == []

        alive(machine, act)
        assert server.connections == 0
        assert not left.exists()
        assert sorted(each.name for each in (machine.project / "node_modules").iterdir()) == ["reach"]
        with urllib.request.urlopen(
            f"http://127.0.0.1:{server.port}/x.mjs"
        ) as answer:  # it is there for others
            assert answer.status == 200


def runs_text(tree: ast.AST) -> list[int]:
    """Where Python is told to run a text."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("eval", "exec", "compile")
    ]


def test_no_operation_runs_a_text_as_code() -> None:
    """What runs code is a sandbox, and what runs inside of it; no module of ours, and nothing around it."""
    files = [
        path
        for room in ("kernel", "runtime", "gate", "host", "doors")
        for path in (SOURCE / room).rglob("*.py")
    ]
    assert len(files) > 50
    assert {str(path): runs_text(ast.parse(path.read_text(encoding="utf-8"))) for path in files} == {
        str(path): [] for path in files
    }
    assert runs_text(ast.parse("x = eval('1')\nexec(compile(a, b, c))")) == [1, 2, 2]


def test_a_text_that_is_code_is_a_text_for_every_operation(tmp_path: Path) -> None:
    code = "__import__('os').system('touch /tmp/never')"

    async def act(house: Household) -> None:
        await loaded(house)
        assert (await house.ask("kettle.boil", text=code))["boiled"] == {"text": code}
        assert await house.ask("kettle.keep", key=code, value=code) == code
        assert (await house.no("skills.call", module=code, op="boil"))[0] == "invalid_arguments"

    alive(kettle(tmp_path), act)
