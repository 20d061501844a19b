"""Hosts that the operator names for a skill that asks for the network: they are for that skill and no other."""

import json

import pytest

from machine import Machine
from metier.catalog.network import hosts_for
from metier.config.settings import SkillEntry
from metier.model.skill import Skill

HOST = "api.weather.example"


def put(machine: Machine, name: str, **more: object) -> None:
    folder = machine.skills / name
    folder.mkdir(parents=True)
    tool = {"name": "go", "description": "Goes.", "entry": {"kind": "python", "path": "go.py"}}
    block = json.dumps({"metier": {"asks_network": True, "tools": [tool]}, **more})
    (folder / "SKILL.md").write_text(
        f"---\nname: {name}\ndescription: Goes.\nmetadata: {block}\n---\n\nGo.\n"
    )
    (folder / "go.py").write_text("def main(params, context):\n    return 1\n")


@pytest.mark.parametrize("key", ["openclaw", "clawdbot"])
def test_cap_07_hosts_of_another_skill_cannot_be_had_by_naming_it_as_the_settings_key(
    machine: Machine, key: str
) -> None:
    machine.state.mkdir()
    (machine.state / "metier.toml").write_text(f'[skills.entries.weather]\nhosts = ["{HOST}"]\n')
    put(machine, "weather")
    put(machine, "thief", **{key: {"skillKey": "weather"}})
    weather, thief = (machine.catalog().get(name) for name in ("weather", "thief"))
    assert weather is not None and weather.skill is not None
    assert thief is not None and thief.skill is not None
    assert thief.skill.key == "weather"
    assert (thief.shown, thief.hosts, thief.skill.permissions.hosts) == (
        "unavailable",
        frozenset(),
        frozenset(),
    )
    assert (weather.shown, weather.hosts) == ("usable", {HOST})


def test_a_package_is_granted_hosts_under_its_id_or_its_name() -> None:
    package = Skill(
        name="at-home-door", key="@at-home/door", description="", dialect="xbot", asks_network=True
    )
    granted = SkillEntry(hosts=frozenset({HOST}))
    for name in ("@at-home/door", "at-home-door"):
        assert hosts_for(package, {name: granted}) == {HOST}
    assert hosts_for(package, {"door": granted}) == frozenset()
