"""A skill as it is written for XBot, with its imports and a dependency of its own: read, trusted and alive."""

import json
from pathlib import Path

import pytest

from household import Household, alive, configured, loaded, script_package, trusted
from machine import Machine

SKILL = """
import { XModule, type XBotSkill, type XCommandData } from "@xpell/node";
import { XBotSkillContext } from "@xpell/agent";
import { loud } from "loudly";

class Horn extends XModule {
  static _name = "horn";
  constructor(private ctx: XBotSkillContext) { super({ _name: Horn._name }); }
  async _blow(command: XCommandData) { return loud(command._params.text); }
}

export const skill: XBotSkill = {
  id: "@me/horn",
  version: "1.0.0",
  description: "Blows.",
  async onEnable(ctx) { ctx.registerModule(new Horn(ctx)); },
};
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def test_a_skill_that_imports_xbots_packages_is_read_and_lives(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    own = script_package(machine, "@me/horn", SKILL) / "node_modules" / "loudly"
    own.mkdir(parents=True)
    (own / "package.json").write_text(json.dumps({"name": "loudly", "type": "module", "main": "index.js"}))
    (own / "index.js").write_text("export const loud = (text) => text.toUpperCase();\n")
    configured(machine, "@me/horn", enabled=["@me/horn"])
    trusted(machine, "me-horn")

    async def act(house: Household) -> None:
        await loaded(house, "me-horn")
        assert await house.ask("horn.blow", text="tea") == "TEA"

    alive(machine, act)
