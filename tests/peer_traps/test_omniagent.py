"""Where a loader of SKILL.md and its sandbox went wrong elsewhere: hyphens, silence, hosts by part of a text, fuel nobody counts."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from loopback import Listener, World, reply
from machine import Machine, write_skill
from metier.catalog.catalog import Catalog
from metier.model.outcome import Completed, Failed, Outcome
from metier.sandbox.egress import Egress
from metier.sandbox.reply import Answer, Denied
from phone import Phone, amber_skill


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setenv("HOME", str(made.home))
    return made


@pytest.fixture
def listener() -> Iterator[Listener]:
    made = Listener(lambda _asked: reply())
    yield made
    made.close()


def shown(catalog: Catalog, name: str) -> str:
    (status,) = [each.shown for each in catalog.listed if each.name == name]
    return status


# --- hyphens


HYPHENS = """---
name: rulers
description: Draws rules --- of any length --- and says "---" aloud.
metadata:
  note: |
    ---
    not the end
  openclaw: {"requires": {"bins": ["ruler"]}}
---
# Rulers

---
name: other
description: Another one.
---
The last line.
"""


def test_hyphens_inside_a_value_or_in_the_text_cut_nothing(machine: Machine) -> None:
    folder = machine.skills / "rulers"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(HYPHENS)
    listed = machine.catalog().get("rulers")
    assert listed is not None
    assert listed.skill is not None
    assert listed.skill.description == 'Draws rules --- of any length --- and says "---" aloud.'
    assert listed.skill.requirements.binaries == ("ruler",), "what stands behind the hyphens counts"
    assert listed.shown == "unavailable"
    machine.program("ruler")
    assert shown(machine.catalog(), "rulers") == "usable"
    read = machine.metier("call", "read_skill", '{"name": "rulers"}').stdout
    assert "# Rulers" in read
    assert "The last line." in read
    assert "bins" not in read, "nothing of the head is taken for instructions"
    assert "requires" not in HYPHENS.split("---", 2)[1], "cut at the first hyphens, it would need nothing"


# --- silence


BROKEN = {
    "no-fence": b"# Only a text\n",
    "not-closed": b"---\nname: not-closed\ndescription: Never ends.\n",
    "no-description": b"---\nname: no-description\n---\nText.\n",
    "not-a-map": b"---\n- one\n- two\n---\n",
    "not-text": b"---\nname: not-text\ndescription: \xff\xfe\n---\n",
    "twice": b"---\nname: twice\nname: thrice\ndescription: Two names.\n---\n",
    "empty": b"",
}


def test_every_skill_that_cannot_be_loaded_is_shown_with_its_reason(machine: Machine) -> None:
    write_skill(machine.skills / "good")
    for name, data in BROKEN.items():
        (machine.skills / name).mkdir()
        (machine.skills / name / "SKILL.md").write_bytes(data)
    told = machine.json("skills", "check", "--json", check=1)
    by_folder = {Path(each["folder"]).name: each for each in told["skills"]}
    assert by_folder["good"]["status"] == "usable"
    for name in BROKEN:
        assert by_folder[name]["status"] == "broken", name
        errors = [found for found in by_folder[name]["diagnostics"] if found["severity"] == "error"]
        assert errors, name
        assert all(found["message"] for found in errors)
    listing = machine.metier("skills", "list").stdout
    assert all(name in listing for name in BROKEN)


# --- hosts


HOST = "api.example"
MISLEADING = [
    f"http://evil.example/{HOST}",
    f"http://evil.example/?next=http://{HOST}/",
    f"http://evil.example/#{HOST}",
    f"http://{HOST}.evil.example/",
    f"http://not{HOST}/",
    f"http://x.{HOST}/",
    f"http://{HOST}:8080/",
    f"https://{HOST}/",
]


@pytest.mark.parametrize("url", MISLEADING)
def test_a_url_that_only_contains_the_granted_host_goes_nowhere(listener: Listener, url: str) -> None:
    world = World()
    for name in (HOST, "evil.example", f"{HOST}.evil.example", f"not{HOST}", f"x.{HOST}"):
        world.put(name, listener)
    assert HOST in url, "a look for the host somewhere in the text would let it pass"
    assert isinstance(_asked(world.egress(f"http://{HOST}"), url), Denied)
    assert (listener.connections, world.lookups) == (0, [])
    assert isinstance(_asked(world.egress(f"http://{HOST}"), f"http://{HOST}/a"), Answer)


@pytest.mark.parametrize("url", [f"http://{HOST}@evil.example/", f"http://{HOST}\\@evil.example/"])
def test_a_url_with_the_granted_host_before_another_one_goes_nowhere(listener: Listener, url: str) -> None:
    world = World()
    for name in (HOST, "evil.example"):
        world.put(name, listener)
    assert not isinstance(_asked(world.egress(f"http://{HOST}"), url), Answer)
    assert (listener.connections, world.lookups) == (0, [])


def test_no_host_named_means_no_host_at_all(listener: Listener) -> None:
    world = World()
    world.put(HOST, listener)
    assert isinstance(_asked(world.egress(), f"http://{HOST}/"), Denied)
    assert (listener.connections, world.lookups) == (0, [])


def test_a_skill_that_asks_for_the_network_and_was_given_no_host_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    phone = Phone(tmp_path, monkeypatch)
    handler = "module.exports = async () => ({ success: true, message: 'ran' });"
    phone.install("out", amber_skill("out", handler, permissions={"network": True}))
    phone.install("home", amber_skill("home", handler, permissions={"network": False}))
    catalog = phone.machine.catalog()
    assert (shown(catalog, "out"), shown(catalog, "home")) == ("unavailable", "usable")
    (why,) = [each.why for each in catalog.listed if each.name == "out"]
    assert "host" in why
    assert not isinstance(phone.call("out", {}), Completed)


def _asked(egress: Egress, url: str) -> object:
    async def main() -> object:
        async with egress:
            return await egress.request("GET", url)

    return anyio.run(main)


# --- fuel


def _counting(**limits: Any) -> str:
    tools = [
        {
            "name": name,
            "description": "Runs.",
            "effect": "read",
            "risk": "low",
            "parameters": {
                "type": "object",
                "properties": {each: {"type": "integer"} for each in takes},
                "required": takes,
            },
            "limits": {"timeout": 20, **limits},
            "entry": {"kind": "wasm", "path": "m.wasm", "function": name},
        }
        for name, takes in (("spin", []), ("add", ["x", "y"]))
    ]
    block = json.dumps({"metier": {"tools": tools}})
    return f"---\nname: counter\ndescription: Counts.\nmetadata: {block}\n---\n"


@pytest.mark.slow
def test_fuel_that_a_skill_is_given_is_counted_and_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wasmtime")
    from wasm_guests import NUMBERS

    phone = Phone(tmp_path, monkeypatch)
    phone.install("counter", {"SKILL.md": _counting(fuel=50_000)})
    (phone.machine.skills / "counter" / "m.wasm").write_bytes(NUMBERS)
    spun = phone.call("counter/spin", {})
    assert isinstance(spun, Failed), spun
    assert spun.code == "out_of_fuel"
    assert _fuel(spun) == 50_000
    added = phone.call("counter/add", {"x": 2, "y": 40})
    assert isinstance(added, Completed), added
    assert added.value == 42
    assert 0 < _fuel(added) < 50_000, "what it took is told, and never nothing"


def _fuel(outcome: Outcome) -> int:
    assert isinstance(outcome, Completed | Failed)
    assert outcome.run is not None
    assert outcome.run.fuel is not None
    return outcome.run.fuel


# --- always


@pytest.mark.parametrize(("always", "status"), [("true", "usable"), ("false", "unavailable")])
def test_a_skill_that_is_always_there_is_there_without_what_it_names(
    machine: Machine, always: str, status: str
) -> None:
    block = f'{{"openclaw": {{"always": {always}, "requires": {{"bins": ["nowhere"], "env": ["NOWHERE"]}}}}}}'
    write_skill(machine.skills / "tea", metadata=block)
    assert shown(machine.catalog(), "tea") == status
    other = block.replace('"requires"', '"os": ["win32"], "requires"')
    write_skill(machine.skills / "tea", metadata=other)
    assert shown(machine.catalog(), "tea") == "unavailable", "on the systems it is for"
