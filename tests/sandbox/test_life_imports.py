"""What a skill in TypeScript may import by name: XBot's packages are shims of ours, its own packages are its own, the rest is not there."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from lives import Asked, living, script
from metier.model.ports import NotAnswered
from metier.sandbox.deno_imports import import_map
from metier.sandbox.deno_packages import own_packages
from metier.sandbox.deno_plan import GUEST
from sandbox.test_deno_hooks import checked

XBOT = """
import { XModule, XError, _x, _xlog, type XBotSkill, type XCommandData } from "PACKAGE";
import { XBotSkillContext } from "@xpell/agent";

class Connector extends XModule {
  static _name = "connector";
  private ctx: XBotSkillContext;
  constructor(ctx: XBotSkillContext) { super({ _name: "connector" }); this.ctx = ctx; }
  async _send(command: XCommandData) { _xlog.log("sending"); return { said: command._params.text, op: command._op }; }
  async _fail(_command: XCommandData) { throw new XError("E_TG_BAD_PARAMS", "Invalid text"); }
  async _reach(_command: XCommandData) { return _x.execute({ _module: "channels", _op: "configure" }); }
  async _twice(command: XCommandData) { return await this.execute({ _module: "connector", _op: "send", _params: command._params }); }
  override load() { super.load(); }
  helper() { return this.ctx; }
}

export const skill: XBotSkill = {
  id: "me/connector", version: "1.0.0",
  async onEnable(ctx) { ctx.registerModule(new Connector(ctx)); },
};
"""


def run(body: Callable[[], Awaitable[None]]) -> None:
    anyio.run(body)


@pytest.mark.parametrize("package", ["@xpell/agent", "@xpell/core", "@xpell/node"])
def test_a_module_written_for_xbot_lives_as_it_is(package: str, tmp_path: Path) -> None:
    host = Asked()

    async def body() -> None:
        async with living(tmp_path, script(XBOT.replace("PACKAGE", package)), host) as life:
            assert host.of("module.register") == [
                {"name": "connector", "operations": ["send", "fail", "reach", "twice"]}
            ]
            assert await life.do("send", module="connector", text="hi") == {"said": "hi", "op": "send"}
            assert await life.do("twice", module="connector", text="hi") == {"said": "hi", "op": "send"}
            failed = await life.do("fail", module="connector")
            assert isinstance(failed, NotAnswered)
            assert (failed.name, failed.message) == ("E_TG_BAD_PARAMS", "Invalid text")
            reached = await life.do("reach", module="connector")
            assert isinstance(reached, NotAnswered)
            assert (reached.name, "ctx.execute" in reached.message) == ("E_AGENT_FORBIDDEN", True)
            assert host.of("execute") == []

    run(body)


def test_xbots_types_are_those_of_its_contract(tmp_path: Path) -> None:
    text = XBOT.replace("PACKAGE", "@xpell/node").replace(
        "import { XBotSkillContext }", "import type { XBotSkillContext }"
    )
    assert checked(tmp_path, text) == ""
    assert "version" in checked(tmp_path, text.replace(' version: "1.0.0",', ""))


PACKAGES = {
    "node_modules/left/package.json": '{"name": "left", "main": "lib/x"}',
    "node_modules/left/lib/x.js": "module.exports = { left: 1, y: require('./y') }",
    "node_modules/left/lib/y.js": "module.exports = require('@s/common').z",
    "node_modules/@s/common/package.json": '{"name": "@s/common"}',
    "node_modules/@s/common/index.js": "exports.z = 7",
    "node_modules/@s/p/package.json": json.dumps(
        {
            "name": "@s/p",
            "type": "module",
            "exports": {
                ".": {"types": "./i.d.ts", "import": "./i.js"},
                "./sub": "./s.js",
                "./out": "./../../../a.js",
            },
        }
    ),
    "node_modules/@s/p/i.js": 'import l from "left"; export const p = 2 + l.left;',
    "node_modules/@s/p/s.js": "export const s = 3;",
    "node_modules/@xpell/node/package.json": '{"name": "@xpell/node", "type": "module", "main": "index.js"}',
    "node_modules/@xpell/node/index.js": "export class XModule { constructor() { throw new Error('not ours') } }",
}
BRINGS = """
import { p } from "@s/p";
import { s } from "@s/p/sub";
import left from "left";
import { XModule } from "@xpell/node";
class M extends XModule { _all() { return [p, s, left]; } }
export const skill = { id: "t", version: "1", async onEnable(ctx: any) { ctx.registerModule(new M({ _name: "m" })); } };
"""


def test_packages_in_a_skills_own_node_modules_are_found_and_what_has_our_name_is_ours(
    tmp_path: Path,
) -> None:
    async def body() -> None:
        async with living(tmp_path, {**script(BRINGS), **PACKAGES}) as life:
            assert await life.do("all", module="m") == [3, 3, {"left": 1, "y": 7}]

    run(body)


def test_what_a_skill_does_not_bring_is_said_with_what_to_do(tmp_path: Path) -> None:
    async def body() -> None:
        source = BRINGS.replace('"left"', '"lefty"')
        async with living(tmp_path, {**script(source), **PACKAGES}, wait=False) as life:
            report = await life.over()
            assert report.fault is not None
            said = report.fault.message
            assert said.startswith(
                'it imports "lefty", which it does not bring: nothing is fetched here; put'
            )
            assert "deno" not in said and str(tmp_path) not in said

    run(body)


def test_no_package_of_a_skill_stands_for_a_file_of_ours_or_leads_out_of_it(tmp_path: Path) -> None:
    """Without the look at the name, a folder called `file:` would give our own runner's files to the skill."""
    evil = json.dumps({"type": "module", "exports": {".": "./x.js", f".{GUEST}/wire.mjs": "./x.js"}})
    files = {
        "file:/package.json": evil,
        "file:/x.js": "",
        "node:fs/package.json": evil,
        "node:fs/x.js": "",
        "process/package.json": '{"main": "x.js"}',
        "process/x.js": "",
        "out/package.json": '{"type": "module", "main": "../../../secret.js"}',
        "far/package.json": '{"type": "module", "main": "/etc/passwd"}',
        "torn/package.json": "{",
        "good/package.json": '{"type": "module", "exports": "./x.js"}',
        "good/x.js": "",
    }
    (tmp_path / "secret.js").write_text("")
    top = tmp_path / "bundle" / "node_modules"
    for name, text in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
    found = own_packages(str(tmp_path / "bundle"))
    assert {name for name in found if not name.endswith("/")} == {"good", "process"}
    assert not [place for place in found.values() if "secret" in place or "passwd" in place]

    class Job:
        bundle = str(tmp_path / "bundle")
        entry = None

    made: Any = Job
    from urllib.parse import unquote

    kept = json.loads(unquote(import_map(made, GUEST).partition(",")[2]))["imports"]
    assert kept["process"].endswith("/guest/js/node_process.mjs")
    assert kept["good"] == f"file://{top}/good/x.js"


def test_packages_without_end_are_not_all_named(tmp_path: Path) -> None:
    for number in range(300):
        folder = tmp_path / "node_modules" / f"p{number:03}"
        folder.mkdir(parents=True)
        (folder / "package.json").write_text('{"type": "module", "exports": "./x.js"}')
        (folder / "x.js").write_text("")
    found = own_packages(str(tmp_path))
    assert 100 < len(found) <= 256
