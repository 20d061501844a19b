"""XBot contracts: who a skill is, its settings, its capabilities and its hooks, and what is refused."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metier.dialects.code_exports import exported
from metier.dialects.compiled import Compiled
from metier.dialects.names import name_problem
from metier.dialects.xbot import of_contract, plain_name
from metier.model.permission import OWN_FOLDER, PermissionSet
from metier.model.skill import Skill
from metier.sandbox.deno_where import find_engine
from metier.sandbox.protocol import Missing

ROOT = Path(__file__).parents[2]
SEEDS = ROOT.parent / "shared" / "seeds"
EXAMPLE = ROOT / "examples" / "xbot-doorbell"
TELEGRAM = "@xpell/agent-skill-telegram"


def contract(**changed: Any) -> dict[str, Any]:
    """A contract about which nothing is to be said, with other fields; `...` leaves one out."""
    fields: dict[str, Any] = {
        "id": "kettle",
        "version": "1.0.0",
        "has_on_enable": True,
        "has_on_disable": False,
    }
    return {key: value for key, value in (fields | changed).items() if value is not ...}


def read(fields: dict[str, Any]) -> Compiled:
    return of_contract(fields, manifest="package.json", location="/skills/kettle", source="installed")


def skill_of(**changed: Any) -> Skill:
    compiled = read(contract(**changed))
    assert compiled.skill is not None, compiled.diagnostics
    return compiled.skill


def codes(compiled: Compiled) -> list[str]:
    return [note.code for note in compiled.diagnostics]


def refusal(**changed: Any) -> str:
    """The words of the one error there is."""
    compiled = read(contract(**changed))
    assert (compiled.skill, compiled.dialect) == (None, "xbot")
    (error,) = [note for note in compiled.diagnostics if note.severity == "error"]
    assert error.code == "bad_export"
    return error.message


def field(key: str = "volume", kind: Any = "number", **more: Any) -> dict[str, Any]:
    return {"key": key, "label": key.title(), "type": kind} | more


def schema_of(*fields: Any, **more: Any) -> dict[str, Any]:
    found = skill_of(settings={"schema": {"fields": [*fields]}, **more}).settings_schema
    assert found is not None
    jsonschema_rs.validator_for(found)
    return found


def test_a_contract_needs_an_id_a_version_and_a_function_that_enables_it() -> None:
    compiled = read(contract())
    assert compiled.diagnostics == ()
    assert compiled.skill == Skill(
        name="kettle",
        key="kettle",
        description="",
        dialect="xbot",
        version="1.0.0",
        source="installed",
        location="/skills/kettle",
        manifest="package.json",
        hooks=("onEnable",),
    )
    assert "no `id`" in refusal(id=...)
    assert "no `version`" in refusal(version=...)
    assert "onEnable" in refusal(has_on_enable=False)
    assert "onEnable" in refusal(has_on_enable=...)


@pytest.mark.parametrize("value", ["true", 1, [], "yes"])
@pytest.mark.parametrize("key", ["has_on_disable", "legacy"])
def test_what_should_be_yes_or_no_and_is_neither_refuses_the_skill(key: str, value: Any) -> None:
    assert key in refusal(**{key: value})


@pytest.mark.parametrize("value", [None, 1, "", "  ", "1\u200b.0", "1" * 101, ["1.0"]])
def test_a_version_that_cannot_be_read_refuses_the_skill(value: Any) -> None:
    assert "`version`" in refusal(version=value)


def test_name_and_description_may_be_left_out_and_one_stands_in_for_the_other() -> None:
    both = skill_of(name="Kettle", description="Boils.")
    assert (both.description, both.extra) == ("Boils.", {"name": "Kettle"})
    assert skill_of(name="Kettle").description == "Kettle"
    assert "`name`" in refusal(name=5)
    assert "`description`" in refusal(description={})
    assert codes(read(contract(description="B\u200boils."))) == ["hidden_characters"]
    assert codes(read(contract(description="b" * 1025))) == ["long_description"]


def test_both_functions_of_its_life_are_its_hooks() -> None:
    assert skill_of(has_on_disable=True).hooks == ("onEnable", "onDisable")


@pytest.mark.parametrize(
    ("identity", "name"),
    [
        (TELEGRAM, "xpell-agent-skill-telegram"),
        ("xpell-agent-skill-echo", "xpell-agent-skill-echo"),
        ("my_package", "my_package"),
        ("@a/b.c", "a-b.c"),
    ],
)
def test_an_id_becomes_a_plain_name_and_is_kept_as_the_key(identity: str, name: str) -> None:
    skill = skill_of(id=identity)
    assert (skill.name, skill.key) == (name, identity)
    assert plain_name(identity) == name
    assert name_problem(name) == ""


@pytest.mark.parametrize(
    "identity",
    [
        "", 5, None, ["kettle"], "a/b", "@a", "@a/", "@/b", "@a/b/c", "../x", "@../x", "@a/..", ".", "..", "a b", "a\nb", "ä",
        "x" * 201, "con", "k\u200bettle", "a\\b", "@@a/b", "-x",
    ],
)  # fmt: skip
def test_an_id_that_is_no_name_of_a_package_is_refused(identity: Any) -> None:
    assert "id" in refusal(id=identity)


def test_declared_operations_and_channels_are_asked_for_by_their_names() -> None:
    skill = skill_of(
        capabilities={"kernel_ops": ["channels.configure", "conv.list_threads"], "channels": ["door"]}
    )
    assert skill.permissions == PermissionSet(
        reads=OWN_FOLDER.reads,
        operations=frozenset({"channels.configure", "conv.list_threads"}),
        channels=frozenset({"door"}),
    )
    assert not skill.asks_network
    for nothing in ({}, {"kernel_ops": []}, None, {"kernel_ops": None, "channels": []}):
        assert skill_of(capabilities=nothing).permissions == OWN_FOLDER


@pytest.mark.parametrize(
    "name",
    ["*", "channels.*", "*.send", "channels", ".", "a.b.c", "a. b", "", 5, None, "a.b\n", "a/b.c", "ä.b"],
)
def test_an_operation_that_is_not_one_operation_refuses_the_skill(name: Any) -> None:
    assert "kernel_ops" in refusal(capabilities={"kernel_ops": ["a.b", name]})


@pytest.mark.parametrize("name", ["*", "", "a b", "a.b", 5, "door\u200b", {"id": "door"}])
def test_a_channel_that_is_no_plain_name_refuses_the_skill(name: Any) -> None:
    assert "channels" in refusal(capabilities={"channels": [name]})


@pytest.mark.parametrize(
    "given",
    [[], "all", True, {"kernel_ops": "a.b"}, {"channels": {"a": 1}}, {"kernel_ops": ["a.b"] * 501},
     {"network": "true"}, {"network": 1}, {"network": ["example.com"]}],
)  # fmt: skip
def test_capabilities_of_another_shape_refuse_the_skill(given: Any) -> None:
    assert refusal(capabilities=given)


def test_network_asks_the_operator_for_hosts_and_names_none() -> None:
    skill = skill_of(capabilities={"network": True})
    assert skill.asks_network
    assert skill.permissions.hosts == frozenset()
    assert not skill_of(capabilities={"network": False}).asks_network
    assert not skill_of(capabilities={}).asks_network


def test_the_old_form_has_no_capabilities_and_a_word_of_deprecation() -> None:
    compiled = read({"id": "kettle", "legacy": True})
    assert codes(compiled) == ["legacy_skill"]
    assert compiled.skill is not None
    assert "deprecated" in compiled.diagnostics[0].message
    assert (compiled.skill.hooks, compiled.skill.permissions) == (("registerSkill",), OWN_FOLDER)
    given = {"kernel_ops": ["channels.configure"], "channels": ["door"], "network": True}
    declared = skill_of(legacy=True, capabilities=given)
    assert (declared.permissions, declared.asks_network) == (OWN_FOLDER, False)
    assert declared.extra == {"legacy": True, "capabilities": given}
    assert skill_of(capabilities=given).asks_network, "the same declared in the new form is asked for"


def test_each_type_of_field_becomes_a_schema_that_takes_such_values_and_no_others() -> None:
    options = [{"label": "Soft", "value": "soft"}, {"label": "Three", "value": 3}]
    kinds: dict[str, tuple[dict[str, Any], list[Any], list[Any]]] = {
        "string": ({}, ["x", ""], [1, True, None, []]),
        "number": ({}, [1, 2.5], ["1", True, None]),
        "boolean": ({}, [True, False], [0, "true", None]),
        "select": ({"options": options}, ["soft", 3], ["hard", "3", None]),
        "string_list": ({}, [[], ["a"]], ["a", [1], {}]),
    }
    for kind, (more, good, bad) in kinds.items():
        validator = jsonschema_rs.validator_for(schema_of(field("tone", kind, **more)))
        assert [value for value in good if not validator.is_valid({"tone": value})] == [], kind
        assert [value for value in bad if validator.is_valid({"tone": value})] == [], kind


def test_label_help_and_placeholder_are_kept_for_a_form_and_the_order_too() -> None:
    fields = [field("b", "string", help="Which", placeholder="x"), field("a")]
    found = skill_of(settings={"schema": {"title": "Kettle", "fields": fields}}).settings_schema
    assert found == {
        "type": "object",
        "title": "Kettle",
        "properties": {
            "b": {"title": "B", "type": "string", "description": "Which", "x-placeholder": "x"},
            "a": {"title": "A", "type": "number"},
        },
    }
    assert [*found["properties"]] == ["b", "a"]  # type: ignore[arg-type]


def test_a_dotted_key_is_a_place_inside_an_object() -> None:
    found = schema_of(field("polling.timeout"), field("polling.mode", "string"), field("a.b.c"))
    polling = found["properties"]["polling"]
    assert polling["type"] == "object"
    assert polling["properties"].keys() == {"timeout", "mode"}
    assert found["properties"]["a"]["properties"]["b"]["properties"]["c"]["type"] == "number"


def test_what_is_secret_by_its_field_or_by_its_path_is_marked() -> None:
    found = schema_of(
        field("token", "string", secret=True),
        field("oauth.client", "string"),
        field("oauth.key", "string"),
        field("open", "string", secret=False),
        sensitive=["oauth.key", "hidden.deep.one", "extra"],
    )["properties"]
    marked = (found["token"], found["oauth"]["properties"]["key"], found["extra"])
    assert all(each["x-secret"] is True for each in marked)
    assert found["hidden"]["properties"]["deep"]["properties"]["one"] == {"x-secret": True}
    for each in (found["open"], found["oauth"], found["oauth"]["properties"]["client"]):
        assert "x-secret" not in each


def test_a_secret_inside_a_value_or_a_whole_object_hides_all_of_it() -> None:
    found = schema_of(field("text", "string"), field("a.b"), field("a.c"), sensitive=["text.part", "a"])
    assert found["properties"]["text"]["x-secret"] is True
    assert found["properties"]["a"]["x-secret"] is True
    same = schema_of(sensitive=["a.a"])["properties"]["a"]
    assert same == {"type": "object", "properties": {"a": {"x-secret": True}}}


def test_defaults_are_kept_and_those_of_secrets_are_not() -> None:
    given = {
        "schema": {"fields": [field("token", "string", secret=True), field("pin", "string", secret=True)]},
        "sensitive": ["oauth.key", "flat.key", "list.key"],
        "defaults": {
            "token": "t0p", "pin": "", "volume": 3, "oauth": {"key": "k", "client": "c"}, "flat.key": "f", "list": ["l"],
        },
    }  # fmt: skip
    compiled = read(contract(settings=given))
    assert compiled.skill is not None
    assert compiled.skill.extra["settings"] == {
        "defaults": {"pin": "", "volume": 3, "oauth": {"client": "c"}}
    }
    assert codes(compiled) == ["secret_default"] * 4
    assert "t0p" not in repr(compiled)
    plain = skill_of(settings={"defaults": {"token": "t0p"}})
    assert plain.extra["settings"] == {"defaults": {"token": "t0p"}}, "what is not secret is kept"
    assert plain.settings_schema is None


@pytest.mark.parametrize(
    "given",
    [
        [],
        "x",
        {"defaults": []},
        {"schema": []},
        {"schema": {}},
        {"schema": {"fields": {}}},
        {"schema": {"title": 5, "fields": []}},
        {"schema": {"fields": [5]}},
        {"schema": {"fields": [{"label": "L", "type": "string"}]}},
        {"schema": {"fields": [field("a b")]}},
        {"schema": {"fields": [field("a..b")]}},
        {"schema": {"fields": [field(".a")]}},
        {"schema": {"fields": [field("__proto__")]}},
        {"schema": {"fields": [field("a.constructor.b")]}},
        {"schema": {"fields": [field(".".join("abcdefghi"))]}},
        {"schema": {"fields": [field("a", "integer")]}},
        {"schema": {"fields": [field("a", None)]}},
        {"schema": {"fields": [field("a", ["string"])]}},
        {"schema": {"fields": [field("a"), field("a")]}},
        {"schema": {"fields": [field("a"), field("a.b")]}},
        {"schema": {"fields": [field("a.b"), field("a")]}},
        {"schema": {"fields": [field("a", secret="yes")]}},
        {"schema": {"fields": [field("a", secret=1)]}},
        {"schema": {"fields": [field("a", secret=0)]}},
        {"schema": {"fields": [field("a", "select")]}},
        {"schema": {"fields": [field("a", "select", options=[])]}},
        {"schema": {"fields": [field("a", "select", options=[{"label": "A", "value": 1}] * 2)]}},
        {"schema": {"fields": [field(f"a{number}") for number in range(201)]}},
        {"sensitive": "token"},
        {"sensitive": ["a"] * 201},
        {"sensitive": [5]},
        {"sensitive": ["a..b"]},
        {"sensitive": ["*"]},
        {"sensitive": ["accounts[0].token"]},
        {"sensitive": [""]},
    ],
)
def test_settings_that_cannot_be_understood_refuse_the_skill(given: Any) -> None:
    assert "settings" in refusal(settings=given)


def test_an_option_needs_a_label_and_a_value() -> None:
    for option in ("soft", {"value": 1}, {"label": "A"}, {"label": 5, "value": 1}):
        good = {"label": "Soft", "value": "soft"}
        assert "option" in refusal(
            settings={"schema": {"fields": [field("a", "select", options=[good, option])]}}
        )


@pytest.mark.parametrize(
    "settings",
    [
        {"schema": {"fields": [field("actor", "string")]}},
        {"schema": {"fields": [field("film.actor", "string")]}},
        {"sensitive": ["actor"]},
        {"defaults": {"actor": "Tom"}},
        {"defaults": {"film.actor": "Tom"}},
        {"defaults": {"films": [{"actor": "Tom"}]}},
    ],
)
def test_a_setting_of_a_name_that_operations_throw_away_is_said_when_the_skill_is_read(settings: Any) -> None:
    compiled = read(contract(settings=settings))
    assert codes(compiled) == ["lost_setting"]
    assert '"actor" cannot be set' in compiled.diagnostics[0].message
    assert codes(read(contract(settings={"schema": {"fields": [field("actors", "string")]}}))) == []


def test_a_field_without_a_label_is_shown_by_its_key() -> None:
    compiled = read(contract(settings={"schema": {"fields": [{"key": "a", "type": "string", "help": 5}]}}))
    assert codes(compiled) == ["field_text", "field_text"]
    assert compiled.skill is not None
    assert compiled.skill.settings_schema == {
        "type": "object",
        "properties": {"a": {"title": "a", "type": "string"}},
    }


def test_what_is_not_known_is_kept_and_said() -> None:
    more = {"intents": [{"intent_id": "x"}], "actions": []}
    compiled = read(
        contract(
            **more,
            capabilities={"gpu": True},
            settings={"layout": "wide", "schema": {"fields": [field("a", rows=3)]}},
        )
    )
    assert compiled.skill is not None
    assert compiled.skill.extra == {**more, "capabilities": {"gpu": True}, "settings": {"layout": "wide"}}
    assert codes(compiled) == ["unknown_field"] * 5
    assert compiled.skill.permissions == OWN_FOLDER


def _document() -> str:
    try:
        (found,) = SEEDS.glob("003_*.txt")
    except ValueError:
        pytest.skip("the documents this is tested against do not lie beside the project")
    return found.read_text(encoding="utf-8")


def test_the_echo_skill_of_the_document_is_understood() -> None:
    import pyjson5

    (code,) = re.findall(r"```ts\n(export const skill = \{[\s\S]*?)```", _document())
    assert "skill" in exported(code.encode())
    data, _, function = code.removeprefix("export const skill = ").partition("async onEnable")
    skill = skill_of(**pyjson5.decode(data + "}"), has_on_enable=function.startswith("(ctx)"))
    assert (skill.name, skill.version) == ("xpell-agent-skill-echo", "0.1.0-alpha.0")
    assert skill.permissions.plain() == {"reads": ["{baseDir}"], "operations": ["channels.configure"]}
    assert skill.hooks == ("onEnable",)


def test_the_capabilities_of_the_documents_telegram_skill_are_understood() -> None:
    import pyjson5

    (part,) = re.findall(r"Declared capabilities:\n\n((?:- .+\n)+)", _document())
    given = pyjson5.decode("{" + ",".join(re.findall(r"`(.+)`", part)) + "}")
    skill = skill_of(id=TELEGRAM, capabilities=given)
    assert skill.permissions.plain() == {
        "reads": ["{baseDir}"],
        "channels": ["telegram"],
        "operations": ["channels.route_inbound_message", "channels.send_message", "conv.list_threads"],
    }
    assert skill.asks_network


def test_the_form_that_is_deprecated_is_seen_in_the_code() -> None:
    assert "registerSkill" in exported(b"export function registerSkill(ctx) {}")
    assert "registerSkill" in exported(b"exports.registerSkill = async (ctx) => {};")


def test_the_example_exports_a_contract_about_which_nothing_is_to_be_said(tmp_path: Path) -> None:
    engine = find_engine()
    if isinstance(engine, Missing):
        pytest.skip("there is no engine here that runs JavaScript")
    entry = EXAMPLE / json.loads((EXAMPLE / "package.json").read_bytes())["main"]
    assert "skill" in exported(entry.read_bytes())
    probe = tmp_path / "probe.mjs"
    probe.write_text(
        f"import {{ skill }} from {json.dumps(entry.as_uri())};\n"
        "const has = (name) => typeof skill[name] === 'function';\n"
        "console.log(JSON.stringify({ ...skill, has_on_enable: has('onEnable'), has_on_disable: has('onDisable') }));\n",
        encoding="utf-8",
    )
    environment = {"DENO_DIR": str(tmp_path / "deno"), "DENO_NO_UPDATE_CHECK": "1", "PATH": os.defpath}
    argv = [engine.path, "run", "--no-prompt", "--no-remote", "--no-config", str(probe)]
    found = subprocess.run(argv, capture_output=True, env=environment, timeout=30, check=True)
    compiled = read(json.loads(found.stdout))
    assert compiled.diagnostics == ()
    skill = compiled.skill
    assert skill is not None
    assert (skill.name, skill.key) == ("metier-examples-doorbell", "@metier-examples/doorbell")
    assert skill.hooks == ("onEnable", "onDisable")
    assert skill.permissions.operations == {"channels.configure", "channels.route_inbound_message"}
    assert skill.settings_schema is not None
    assert jsonschema_rs.validator_for(skill.settings_schema).is_valid(skill.extra["settings"]["defaults"])  # type: ignore[index,call-overload]
    camera: Any = skill.settings_schema["properties"]["camera"]["properties"]  # type: ignore[index,call-overload]
    assert camera["pin"]["x-secret"] is True
    assert camera["token"]["x-secret"] is True


def test_what_holds_no_json_is_refused_before_it_is_read() -> None:
    for odd in ({"id": "kettle", "x": float("nan")}, {"id": "k\ud800"}, {"id": {"a": 2**60}}):
        assert codes(read(odd)) == ["bad_export"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)


def _object(*names: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from([*names, "other"]), JSON, max_size=4)


@settings(max_examples=150, deadline=None)
@given(
    _object(*contract(legacy=1, name=1, description=1, settings=1, capabilities=1)),
    _object("kernel_ops", "channels", "network"),
    _object("defaults", "schema", "sensitive"),
    st.lists(_object("key", "label", "type", "help", "secret", "options", "placeholder"), max_size=3),
)
def test_whatever_is_exported_there_is_a_skill_or_an_error(
    changed: dict[str, Any], capabilities: dict[str, Any], kept: dict[str, Any], fields: list[dict[str, Any]]
) -> None:
    named = [field(f"f{at}", "string") | each for at, each in enumerate(fields)]
    for tried in (
        changed,
        contract() | changed,
        contract(capabilities=capabilities, settings=kept),
        contract(settings={**kept, "schema": {"fields": named}}),
    ):
        compiled = read(tried)
        failed = any(note.severity == "error" for note in compiled.diagnostics)
        assert failed == (compiled.skill is None)
