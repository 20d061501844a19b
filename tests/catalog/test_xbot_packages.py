"""XBot packages: which are looked at, where from, and that reading one gives its code nothing."""

import base64
import hashlib
import json
import os
import shutil
import sysconfig
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from machine import Machine
from metier import Runtime
from metier.catalog.bundle import BundleStore
from metier.catalog.discover import Noted
from metier.catalog.listed import Listed
from metier.dialects import package_file
from metier.doors.cli import metier
from metier.gate.situation import Situation
from metier.model.call import ValidCall
from metier.runtime import probing

EXAMPLE = Path(__file__).parents[2] / "examples" / "xbot-doorbell"
DOORBELL = "@metier-examples/doorbell"
NAME = "metier-examples-doorbell"
CONTRACT = "export const skill = { id: 'kettle', version: '1.0.0', onEnable() {} };\n"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setenv("HOME", str(made.home))
    return made


def package(folder: Path, text: str = CONTRACT, **fields: Any) -> Path:
    """A package in `folder`; it is called kettle unless told otherwise."""
    folder.mkdir(parents=True, exist_ok=True)
    said = {"name": "kettle", "version": "1.0.0", "main": "index.js"} | fields
    given = {key: value for key, value in said.items() if value is not None}
    (folder / "package.json").write_text(json.dumps(given), encoding="utf-8")
    (folder / "index.js").write_text(text, encoding="utf-8")
    return folder


def configured(machine: Machine, *names: str, enabled: Any = None, **resolve: Any) -> None:
    """The project's own file, in XBot's words."""
    skills = {"allow": names, "enabled": names if enabled is None else enabled, "resolve": resolve}
    (machine.project / "agent.config.json").write_text(json.dumps({"skills": skills}), encoding="utf-8")


def found(machine: Machine) -> list[Listed]:
    """What does not lie in a root."""
    roots = {root.path for root in machine.settings().roots}
    return [each for each in machine.catalog().listed if each.root.path not in roots]


def notes(machine: Machine) -> list[str]:
    return [note.problem.code for note in machine.catalog().notes]


def trusted(machine: Machine, name: str) -> Listed:
    machine.metier("skills", "trust", name, "--yes", check=None)
    (each,) = [each for each in found(machine) if each.name == name and not each.shadowed_by]
    return each


def opened(machine: Machine) -> None:
    async def main() -> None:
        async with Runtime.open(project=str(machine.project), home=str(machine.state), watch=False):
            pass

    anyio.run(main)


def read(machine: Machine) -> list[Path]:
    return sorted(machine.state.glob("bundles/*/probe.json"))


def test_without_configuration_nothing_is_looked_for(machine: Machine) -> None:
    package(machine.project / "node_modules" / "kettle")
    assert (found(machine), notes(machine)) == ([], [])
    configured(machine, node_modules=True)
    assert (found(machine), notes(machine)) == ([], [])
    configured(machine, "kettle")  # node_modules is not switched on
    assert (found(machine), notes(machine)) == ([], ["package_missing"])


@pytest.mark.slow
@pytest.mark.parametrize("resolve", [{"node_modules": True}, {"local_paths": ["packages/bell"]}])
def test_a_contract_is_read_once_the_package_is_trusted_and_never_before(
    machine: Machine, resolve: dict[str, Any]
) -> None:
    shutil.copytree(EXAMPLE, machine.project / "packages" / "bell")
    shutil.copytree(EXAMPLE, machine.project / "node_modules" / DOORBELL)
    configured(machine, DOORBELL, **resolve)
    opened(machine)
    (waiting,) = found(machine)
    assert (waiting.name, waiting.shown, waiting.probe) == (NAME, "pending_approval", True)
    assert read(machine) == []
    each = trusted(machine, NAME)
    assert (each.shown, each.probe, len(read(machine))) == ("usable", False, 1)
    skill = each.skill
    assert skill is not None
    assert (skill.dialect, skill.version, skill.key) == ("xbot", "0.2.0", DOORBELL)
    assert skill.permissions.operations == {"channels.configure", "channels.route_inbound_message"}
    assert skill.permissions.channels == {"door"}
    assert skill.hooks == ("onEnable", "onDisable")
    assert skill.settings_schema is not None
    assert skill.tools == ()
    shown = machine.metier("skills", "info", NAME).stdout
    assert "xbot" in shown
    assert "channels.configure" in shown
    assert "Tells the owner who is at the door." in machine.metier("skills", "list").stdout


@pytest.mark.slow
@pytest.mark.parametrize("swapped", [False, True])
def test_what_another_file_of_the_package_said_is_not_kept_as_its_contract(
    machine: Machine, swapped: bool
) -> None:
    """The manifest names another file when it is looked up what to run, and is as it was trusted when its bytes are taken."""
    folder = package(machine.project / "node_modules" / "kettle")
    (folder / "other.js").write_text(CONTRACT.replace("onEnable() {}", "capabilities: { network: true }"))
    configured(machine, "kettle", node_modules=True)
    assert trusted(machine, "kettle").shown == "usable"
    manifest, told = folder / "package.json", []
    as_trusted = manifest.read_text(encoding="utf-8")
    (kept,) = read(machine)
    kept.unlink()
    machine.metier("stop")

    async def main() -> None:
        async with Runtime.open(
            project=str(machine.project), home=str(machine.state), watch=False
        ) as runtime:
            machine.metier("resume")
            (unread,) = [each for each in runtime.catalog.listed if each.probe and each.name == "kettle"]
            house = runtime._engine.house()  # pyright: ignore[reportPrivateUsage]

            async def look(valid: ValidCall) -> Situation:
                manifest.write_text(as_trusted, encoding="utf-8")
                return await house.look(valid)

            if swapped:
                manifest.write_text(as_trusted.replace("index.js", "other.js"), encoding="utf-8")
            bundles = BundleStore(machine.settings().bundles)
            told.append(await probing.probe([unread], replace(house, look=look), bundles))

    anyio.run(main)
    assert told == [not swapped]
    assert len(read(machine)) == (0 if swapped else 1)


def test_the_first_place_that_has_it_counts_and_the_second_is_shown(machine: Machine) -> None:
    package(machine.project / "node_modules" / "kettle")
    package(machine.project / "packages" / "kettle")
    configured(machine, "kettle", node_modules=True, local_paths=["packages/kettle"])
    first, second = found(machine)
    assert first.folder == str(machine.project / "node_modules" / "kettle")
    assert second.shadowed_by == first.folder


@pytest.mark.slow
def test_what_is_allowed_but_not_enabled_is_listed_and_never_run(machine: Machine) -> None:
    package(machine.project / "node_modules" / "kettle")
    configured(machine, "kettle", enabled=[], node_modules=True)
    (each,) = found(machine)
    assert (each.shown, "enabled" in each.why) == ("disabled", True)
    machine.metier("skills", "trust", "kettle", "--yes", check=None)
    opened(machine)
    assert read(machine) == []
    assert found(machine)[0].shown == "disabled"


def test_what_is_enabled_but_not_allowed_is_not_even_opened(machine: Machine) -> None:
    folder = package(machine.project / "node_modules" / "kettle")
    (folder / "package.json").write_text("not JSON", encoding="utf-8")
    configured(machine, enabled=["kettle"], node_modules=True, local_paths=[])
    assert (found(machine), notes(machine)) == ([], ["not_allowlisted"])
    configured(machine, "kettle", node_modules=True)
    assert [each.shown for each in found(machine)] == ["broken"]


def test_the_operator_and_the_project_must_both_allow(machine: Machine) -> None:
    for name in ("kettle", "pot", "pan"):
        package(machine.project / "node_modules" / name, name=name)
    configured(machine, "kettle", "pot", node_modules=True)
    machine.state.mkdir(exist_ok=True)
    own = '[xbot]\nallow = ["kettle", "pan"]\nenabled = ["kettle", "pan"]\n'
    (machine.state / "metier.toml").write_text(own, encoding="utf-8")
    assert [each.name for each in found(machine)] == ["kettle"]
    (machine.project / "agent.config.json").unlink()
    assert found(machine) == []  # nobody switched node_modules on
    resolve = "[xbot.resolve]\nnode_modules = true\n"
    (machine.state / "metier.toml").write_text(own + resolve, encoding="utf-8")
    assert [each.name for each in found(machine)] == ["kettle", "pan"]
    assert not any(each.root.trusted for each in found(machine))


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"skills": []}', '{"skills": {"allow": "kettle"}}', '{"skills": {"alow": ["kettle"]}}',
     '{"skills": {"allow": ["kettle"], "enabled": ["kettle"], "resolve": {"network": true}}}'],
)  # fmt: skip
def test_a_file_that_cannot_be_understood_allows_nothing(machine: Machine, text: str) -> None:
    package(machine.project / "node_modules" / "kettle")
    machine.state.mkdir(exist_ok=True)
    own = '[xbot]\nallow = ["kettle"]\nenabled = ["kettle"]\n[xbot.resolve]\nnode_modules = true\n'
    (machine.state / "metier.toml").write_text(own, encoding="utf-8")
    assert [each.name for each in found(machine)] == ["kettle"]
    (machine.project / "agent.config.json").write_text(text, encoding="utf-8")
    assert found(machine) == []
    assert any("agent.config.json" in warning for warning in machine.settings().warnings)


def test_a_local_path_stays_inside_the_project(machine: Machine, tmp_path: Path) -> None:
    outside = package(tmp_path / "outside")
    package(machine.project / "inside")
    (machine.project / "link").symlink_to(outside)
    package(tmp_path / "project-beside")  # begins like the project
    for path in (
        "../outside",
        "../project-beside",
        str(outside),
        "link",
        "inside/../../outside",
        str(machine.project / "inside"),
    ):
        configured(machine, "kettle", local_paths=[path])
        assert found(machine) == [], path
        assert "outside" in notes(machine)
    for path in (".", ".."):
        configured(machine, "kettle", local_paths=[path])
        assert found(machine) == [], path
    configured(machine, "kettle", local_paths=["inside"])
    assert [each.name for each in found(machine)] == ["kettle"]


def test_node_modules_stays_inside_the_project_and_a_package_inside_it(
    machine: Machine, tmp_path: Path
) -> None:
    outside = package(tmp_path / "outside" / "kettle")
    modules = machine.project / "node_modules"
    modules.mkdir()
    configured(machine, "kettle", node_modules=True)
    (modules / "kettle").symlink_to(outside)
    assert (found(machine), notes(machine)) == ([], ["outside"])
    (modules / "kettle").unlink()
    package(modules / ".store" / "kettle")
    (modules / "kettle").symlink_to(modules / ".store" / "kettle")
    assert [each.folder for each in found(machine)] == [str(modules / ".store" / "kettle")]
    shutil.rmtree(modules)
    modules.symlink_to(outside.parent)
    assert found(machine) == []
    assert "outside" in notes(machine)


@pytest.mark.parametrize(
    "name", ["../outside", "/etc", "..", ".", "a/b", "@a/../b", "kettle/../pot", "KETTLE", "a\\b", ""]
)
def test_a_name_is_never_a_way_to_somewhere_else(machine: Machine, tmp_path: Path, name: str) -> None:
    package(tmp_path / "outside")
    package(machine.project / "node_modules" / "pot")
    configured(machine, name, node_modules=True)
    assert found(machine) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"main": "../other.js"}, {"main": "/etc/hostname.js"}, {"main": "lib/../../other.js"}, {"main": "file:///x.js"},
        {"main": "https://example.com/x.js"}, {"main": "index.json"}, {"main": "index.wasm"}, {"main": ["index.js"]},
        {"main": "a\\b.js"}, {"main": "././/../x.js"}, {"main": "types.d.ts"}, {"exports": {"require": "./index.js"}}, {"exports": "../other.js"},
        {"exports": {".": {"import": "../other.js"}}}, {"exports": {}}, {"exports": None, "main": "npm:x.js"},
        {"exports": {"./only": "./index.js"}}, {"name": None}, {"name": "../kettle"}, {"name": 1},
    ],
)  # fmt: skip
def test_what_a_package_loads_is_one_of_its_own_files(machine: Machine, fields: dict[str, Any]) -> None:
    package(machine.project / "bell", **fields)
    (machine.project / "other.js").write_text(CONTRACT, encoding="utf-8")
    configured(machine, "kettle", local_paths=["bell"])
    assert [each for each in found(machine) if each.skill is not None] == []
    assert "bad_package" in notes(machine)
    package(machine.project / "bell")
    assert [each.skill is not None for each in found(machine)] == [True]


@pytest.mark.parametrize(
    ("fields", "entry"),
    [
        ({"main": "lib/a.js"}, "lib/a.js"),
        ({"main": "./lib/a"}, "lib/a.js"),
        ({"main": "a.cjs", "module": "b.mjs"}, "a.cjs"),
        ({"main": "a.js", "exports": "./c.ts"}, "c.ts"),
        ({"exports": {".": {"types": "./x.d.ts", "require": "./r.cjs", "import": "./i.mjs"}}}, "i.mjs"),
        ({"exports": {"require": "./old.js", "default": "./new.js"}}, "new.js"),
        ({"exports": {"types": "./x.d.ts", "import": {"default": "./i.mjs"}}}, "i.mjs"),
        ({}, "index.js"),
    ],
)
def test_which_file_a_package_loads(fields: dict[str, Any], entry: str) -> None:
    read = package_file.read(json.dumps({"name": "kettle", **fields}).encode())
    assert read == package_file.Package(name="kettle", entry=entry)


def test_a_package_must_be_called_what_its_contract_and_its_folder_say(machine: Machine) -> None:
    folder = package(machine.project / "node_modules" / "kettle", name="pot")
    configured(machine, "kettle", "pot", node_modules=True)
    (each,) = found(machine)
    assert (each.shown, '"pot"' in each.why) == ("broken", True)
    package(folder, CONTRACT.replace("'kettle'", "'shell_safe'"))
    each = trusted(machine, "kettle")
    assert (each.shown, "shell_safe" in each.why) == ("broken", True)


LOOKS = """
const tried = {};
const attempt = async (name, act) => { try { await act(); tried[name] = "done" } catch (error) { tried[name] = error.name } };
await attempt("own", () => Deno.readTextFileSync(new URL(import.meta.url)));
await attempt("file", () => Deno.readTextFileSync("/etc/passwd"));
await attempt("environment", () => Deno.env.get("HOME"));
await attempt("network", () => fetch("http://127.0.0.1:9/"));
await attempt("program", () => new Deno.Command("/bin/true").outputSync());
"""


def test_a_skill_is_not_loaded_into_our_own_process_and_may_do_nothing_while_it_is_read(
    machine: Machine,
) -> None:
    text = LOOKS + CONTRACT.replace("version:", "description: JSON.stringify(tried), version:")
    package(machine.project / "bell", text)
    configured(machine, "kettle", local_paths=["bell"])
    skill = trusted(machine, "kettle").skill
    assert skill is not None
    tried = json.loads(skill.description)
    assert tried.pop("own") == "done"
    assert set(tried) == {"file", "environment", "network", "program"}
    assert "done" not in tried.values()


def test_to_declare_the_network_opens_nothing(machine: Machine) -> None:
    text = CONTRACT.replace("version:", "capabilities: { network: true }, version:")
    package(machine.project / "bell", text)
    configured(machine, "kettle", local_paths=["bell"])
    each = trusted(machine, "kettle")
    assert each.shown == "unavailable"
    assert each.skill is not None
    assert (each.skill.asks_network, each.skill.permissions.hosts) == (True, frozenset())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("export const skill = { id: 'kettle', version: '1', capabilities: { kernel_ops: ['*'] }, onEnable() {} };", "*"),
        ("export const skill = { id: 'kettle', version: '1' };", "onEnable"),
        ("export const skill = { id: 'kettle', version: '1', has_on_enable: true };", "onEnable"),
        ("export const other = 1;", "neither"),
        ("export const skill = 1;", "neither"),
        ("throw new Error('no kettle');", "no kettle"),
        ("import '@xpell/other'; export const skill = {};", 'it imports "@xpell/other", which it does not bring'),
        ("export const skill = { id: 'kettle', version: '1', onEnable() {}, settings: { defaults: { a: 1n } } };", "BigInt"),
    ],
)  # fmt: skip
def test_a_package_without_a_contract_is_broken_and_says_why(machine: Machine, text: str, said: str) -> None:
    package(machine.project / "bell", text)
    configured(machine, "kettle", local_paths=["bell"])
    done = machine.metier("skills", "trust", "kettle", "--yes", check=1)
    assert said in done.stderr
    assert [each.shown for each in found(machine)] == ["broken"]


@pytest.mark.parametrize(
    "text",
    [
        "export function registerSkill(ctx) {}",
        "exports.registerSkill = () => {}; exports.skill = undefined;",
        "export async function registerSkill() {} export const capabilities = { kernel_ops: ['a.b'] };",
    ],
)
def test_the_old_form_is_read_and_has_no_capabilities(machine: Machine, text: str) -> None:
    package(machine.project / "bell", text, name="@old/kettle")
    configured(machine, "@old/kettle", local_paths=["bell"])
    skill = trusted(machine, "old-kettle").skill
    assert skill is not None
    assert (skill.key, skill.hooks, skill.permissions.operations) == (
        "@old/kettle",
        ("registerSkill",),
        frozenset(),
    )


def test_a_class_may_have_its_hooks_as_methods(machine: Machine) -> None:
    text = "class Kettle { id = 'kettle'; version = '1.0.0'; onEnable() {} onDisable() {} }\nexport const skill = new Kettle();"
    package(machine.project / "bell", text)
    configured(machine, "kettle", local_paths=["bell"])
    skill = trusted(machine, "kettle").skill
    assert skill is not None
    assert skill.hooks == ("onEnable", "onDisable")


def test_typescript_with_files_of_its_own_is_read(machine: Machine) -> None:
    text = (
        "import { version } from './lib/version.ts';\nimport type { XBotSkill } from '@xpell/agent-core';\n"
    )
    text += "export const skill: XBotSkill = { id: 'kettle', version, async onEnable(_ctx: unknown) {} };"
    folder = package(machine.project / "bell", main="src/index.ts")
    (folder / "src" / "lib").mkdir(parents=True)
    (folder / "src" / "index.ts").write_text(text, encoding="utf-8")
    (folder / "src" / "lib" / "version.ts").write_text(
        "export const version: string = '2.1.0';", encoding="utf-8"
    )
    configured(machine, "kettle", local_paths=["bell"])
    each = trusted(machine, "kettle")
    assert each.skill is not None, each.why
    assert each.skill.version == "2.1.0"


PYTHON = """
from . import words

class Kettle:
    id = "xbot-kettle"
    version = "1.0.0"
    description = words.ABOUT
    capabilities = {"kernel_ops": ["channels.register"]}

    def on_enable(self, ctx): ...

skill = Kettle()
"""


def python_package(folder: Path, text: str = PYTHON, about: str = "'Boils water.'") -> Path:
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(text, encoding="utf-8")
    (folder / "words.py").write_text(f"ABOUT = {about}\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    "text",
    [
        PYTHON,
        "from xbot_kettle.words import ABOUT\nskill = {'id': 'xbot-kettle', 'version': '1.0.0', 'description': ABOUT,"
        " 'capabilities': {'kernel_ops': ['channels.register']}, 'on_enable': lambda ctx: None}\n",
    ],
)
def test_a_python_package_has_the_same_contract(machine: Machine, text: str) -> None:
    python_package(machine.project / "xbot_kettle", text)
    configured(machine, "xbot-kettle", local_paths=["xbot_kettle"])
    opened(machine)
    assert read(machine) == []
    each = trusted(machine, "xbot-kettle")
    assert each.skill is not None, each.why
    assert (each.skill.description, each.skill.hooks) == ("Boils water.", ("onEnable",))
    assert each.skill.permissions.operations == {"channels.register"}


def test_a_python_package_is_not_imported_into_our_own_process(machine: Machine, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    about = f"'x'\ntry:\n    open({str(mark)!r}, 'w').close()\nexcept OSError as error:\n    ABOUT = type(error).__name__"
    python_package(machine.project / "xbot_kettle", about=about)
    configured(machine, "xbot-kettle", local_paths=["xbot_kettle"])
    each = trusted(machine, "xbot-kettle")
    assert each.skill is not None, each.why
    assert "Error" in each.skill.description
    assert not mark.exists()


def distribution(site: Path, folder: Path, value: str = "xbot_kettle:skill") -> None:
    """Say that an installed distribution brought `folder`."""
    info = site / "xbot_kettle-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: xbot-kettle\nVersion: 1.0\n", encoding="utf-8"
    )
    (info / "entry_points.txt").write_text(f"[metier.skills]\nxbot-kettle = {value}\n", encoding="utf-8")
    lines = []
    for path in sorted(folder.rglob("*.py")):
        data = path.read_bytes()
        value = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{path.relative_to(site)},sha256={value},{len(data)}\n")
    (info / "RECORD").write_text("".join(lines), encoding="utf-8")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this Python finds what was installed."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.setattr(sysconfig, "get_path", lambda _key: str(folder))
    return folder


@pytest.mark.parametrize("value", ["xbot_kettle:skill", "xbot_kettle:register_skill", "xbot_kettle"])
def test_an_installed_distribution_is_found_by_its_entry_point_and_nothing_is_imported(
    machine: Machine, site: Path, value: str
) -> None:
    folder = python_package(site / "xbot_kettle", "raise SystemExit('it was imported')\n")
    distribution(site, folder, value)
    assert found(machine) == []
    configured(machine, "xbot-kettle")
    (each,) = found(machine)
    assert (each.name, each.shown, each.probe, each.folder) == (
        "xbot-kettle",
        "pending_approval",
        True,
        str(folder),
    )
    assert each.skill is not None
    assert each.skill.source == "installed"


@pytest.mark.parametrize(
    "value",
    [
        "xbot_kettle.inner:skill",
        "xbot_kettle:other",
        "other_pkg:skill",
        "other_pkg",
        "os:skill",
        "os.path",
        "..:skill",
    ],
)
def test_an_entry_point_names_its_own_package_and_nothing_else(
    machine: Machine, site: Path, value: str
) -> None:
    python_package(site / "other_pkg")
    distribution(site, python_package(site / "xbot_kettle"), value)
    configured(machine, "xbot-kettle")
    assert [each for each in found(machine) if each.skill is not None] == []


def test_the_files_of_a_distribution_may_have_second_names_only_if_its_record_has_them(
    machine: Machine, site: Path, tmp_path: Path
) -> None:
    from metier.catalog.bundle import measure
    from metier.catalog.release import recorded

    folder = python_package(site / "xbot_kettle")
    for path in folder.glob("*.py"):
        os.link(path, tmp_path / path.name)  # as installers do it
    distribution(site, folder)
    configured(machine, "xbot-kettle")
    (each,) = found(machine)
    assert each.skill is not None
    files = measure(each.folder, now_ns=0, hard_links=each.root.hard_links).files
    assert recorded(each.folder, files) == ""
    secret = tmp_path / "secret"
    secret.write_text("not yours", encoding="utf-8")
    os.link(secret, folder / "data.txt")
    files = measure(each.folder, now_ns=0, hard_links=each.root.hard_links).files
    assert "data.txt" in recorded(each.folder, files)
    (folder / "data.txt").unlink()
    (folder / "words.py").write_text("ABOUT = 'changed'\n", encoding="utf-8")
    files = measure(each.folder, now_ns=0, hard_links=each.root.hard_links).files
    assert "words.py" in recorded(each.folder, files)


def trust_here(machine: Machine, monkeypatch: pytest.MonkeyPatch, name: str) -> Result:
    """Trust it in this process, which alone knows of the folder that stands in for the installed one."""
    monkeypatch.chdir(machine.project)
    return CliRunner().invoke(metier, ["skills", "trust", name, "--yes"])


@pytest.mark.parametrize("alone", [False, True])
def test_an_installed_distribution_is_read_where_it_lies_and_only_as_its_record_has_it(
    machine: Machine, site: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, alone: bool
) -> None:
    text = PYTHON.replace("from . import words\n", "").replace("words.ABOUT", "'Boils water.'")
    if alone:
        file = site / "xbot_kettle.py"
        file.write_text(text, encoding="utf-8")
    else:
        file = python_package(site / "xbot_kettle", text) / "__init__.py"
    os.link(file, tmp_path / "stored")
    distribution(site, site)
    configured(machine, "xbot-kettle")
    done = trust_here(machine, monkeypatch, "xbot-kettle")
    assert done.exit_code == 0, done.output
    (each,) = found(machine)
    assert each.skill is not None, each.why
    assert (each.shown, each.skill.description) == ("usable", "Boils water.")
    file.write_text(text.replace("Boils", "Spills"), encoding="utf-8")
    done = trust_here(machine, monkeypatch, "xbot-kettle")
    assert (done.exit_code, "RECORD" in done.output) == (1, True)
    assert found(machine)[0].shown == "pending_approval"


def test_what_else_is_there_to_say_is_said(machine: Machine) -> None:
    configured(machine, "kettle", local_paths=["gone"])
    messages = [note.problem.message for note in machine.catalog().notes if isinstance(note, Noted)]
    assert any('"gone"' in message for message in messages)
    assert any('"kettle"' in message for message in messages)
