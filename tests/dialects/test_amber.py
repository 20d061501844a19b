"""Amber's dialect: a SKILL.md whose `metadata.amber` brings one function for a voice agent."""

import json
import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metier.dialects import amber
from metier.dialects.compiled import Compiled
from metier.dialects.draft import Draft
from metier.dialects.frontmatter import Document
from metier.dialects.skill_md import compile_skill
from metier.model.confirmation_flag import parameters_of
from metier.model.entry import PythonHandler, ScriptHandler
from metier.model.permission import BASE_DIR, PermissionSet
from metier.model.skill import Skill, Tool
from metier.model.text import hidden

ROOT = Path(__file__).parents[2]
SEEDS = ROOT.parent / "shared" / "seeds"
EXAMPLE = ROOT / "examples" / "amber-weather-note"

BLOCK: dict[str, Any] = {
    "capabilities": ["read", "act"],
    "confirmation_required": True,
    "confirmation_prompt": "Shall I water the plants?",
    "timeout_ms": 3000,
    "permissions": {
        "local_binaries": ["pump"],
        "telegram": False,
        "openclaw_action": False,
        "network": False,
    },
    "function_schema": {
        "name": "water_plants",
        "description": "Water  the plants.\nAsk the caller first.",
        "parameters": {
            "type": "object",
            "properties": {"room": {"type": "string"}, "litres": {"type": "number", "maximum": 5}},
            "required": ["room"],
        },
    },
}
GONE = object()


def changed(**fields: Any) -> dict[str, Any]:
    """The block with some fields replaced, or taken out."""
    return {key: value for key, value in {**BLOCK, **fields}.items() if value is not GONE}


def function(**fields: Any) -> dict[str, Any]:
    made = {**BLOCK["function_schema"], **fields}
    return changed(function_schema={key: value for key, value in made.items() if value is not GONE})


def permitted(**fields: Any) -> dict[str, Any]:
    return changed(permissions=fields)


def compiled(
    block: Any, head: str = "name: garden\ndescription: Looks after the plants.\n", more: Any = None
) -> Compiled:
    metadata = json.dumps({"amber": block, **(more or {})})
    return compile_skill(f"---\n{head}metadata: {metadata}\n---\n# Garden\n".encode(), folder="garden")


def skill_of(block: Any, **more: Any) -> Skill:
    found = compiled(block, **more)
    assert found.skill is not None, found.diagnostics
    return found.skill


def tool_of(block: Any) -> Tool:
    (tool,) = skill_of(block).tools
    return tool


def codes(found: Compiled) -> list[str]:
    return [each.code for each in found.diagnostics]


def test_every_field_of_the_block_has_its_place_in_the_tool() -> None:
    skill = skill_of(BLOCK, head="name: garden\nversion: 1.2.0\ndescription: Looks after the plants.\n")
    assert (skill.dialect, skill.name, skill.version, skill.description) == (
        "amber",
        "garden",
        "1.2.0",
        "Looks after the plants.",
    )
    (tool,) = skill.tools
    assert (tool.name, tool.outward, tool.skill) == ("garden/water_plants", "water_plants", "garden")
    assert tool.description == BLOCK["function_schema"]["description"]
    assert tool.parameters == BLOCK["function_schema"]["parameters"]
    assert (tool.answer, tool.sanitize, tool.audience) == ("amber", True, "model")
    assert (tool.effect, tool.risk, tool.minimum_trust, tool.approval) == (
        "act",
        "medium",
        "supervised_auto",
        "policy",
    )
    assert tool.confirmation == "Shall I water the plants?"
    assert tool.limits.timeout == 3.0
    assert tool.permissions == PermissionSet(binaries=frozenset({"pump"}), reads=frozenset({BASE_DIR}))
    assert tool.entry == ScriptHandler(path="handler.js", language="javascript")
    assert skill.permissions == tool.permissions
    assert skill.requirements.binaries == ("pump",)
    assert not skill.asks_network
    assert not compiled(BLOCK).diagnostics


def test_the_block_may_be_written_as_yaml_and_means_the_same() -> None:
    text = """---
name: garden
description: Looks after the plants.
metadata:
  amber:
    capabilities: [read, act]
    confirmation_required: true
    confirmation_prompt: Shall I water the plants?
    timeout_ms: 3000
    permissions:
      local_binaries:
        - pump
      telegram: false
      openclaw_action: false
      network: false
    function_schema:
      name: water_plants
      description: "Water  the plants.\\nAsk the caller first."
      parameters:
        type: object
        properties:
          room: {type: string}
          litres: {type: number, maximum: 5}
        required: [room]
---
"""
    assert compile_skill(text.encode(), folder="garden").skill == skill_of(BLOCK)


@pytest.mark.parametrize(
    ("capabilities", "effect", "risk", "trust"),
    [
        (["read"], "read", "low", "observe"),
        (["act"], "act", "medium", "supervised_auto"),
        (["read", "act"], "act", "medium", "supervised_auto"),
        (["act", "act"], "act", "medium", "supervised_auto"),
    ],
)
def test_who_can_act_is_judged_as_acting(capabilities: list[str], effect: str, risk: str, trust: str) -> None:
    tool = tool_of(changed(capabilities=capabilities))
    assert (tool.effect, tool.risk, tool.minimum_trust) == (effect, risk, trust)


def test_who_may_use_the_network_is_of_high_risk() -> None:
    assert tool_of(permitted(network=True)).risk == "high"
    assert tool_of(permitted(network=False)).risk == "medium"


def test_who_may_run_an_interpreter_is_of_high_risk() -> None:
    assert tool_of(permitted(local_binaries=["python3.12"])).risk == "high"


@pytest.mark.parametrize(
    ("flag", "risk"), [("telegram", "medium"), ("openclaw_action", "medium"), ("network", "high")]
)
def test_who_may_send_acts_even_where_its_capabilities_hide_it(flag: str, risk: str) -> None:
    block = {**permitted(**{flag: True}), "capabilities": ["read"]}
    tool = tool_of(block)
    assert (tool.effect, tool.risk, tool.minimum_trust) == ("act", risk, "supervised_auto")
    assert tool.confirmation == "Shall I water the plants?"
    assert codes(compiled(block)) == ["counts_as_act"]


PERMITTED: list[tuple[dict[str, Any], dict[str, list[str]]]] = [
    ({}, {}),
    ({"telegram": True}, {"channels": ["operator"]}),
    ({"openclaw_action": True}, {"operations": ["gateway.post"]}),
    ({"local_binaries": ["jq", "g++", "7z", "jq"]}, {"binaries": ["7z", "g++", "jq"]}),
    ({"local_binaries": [], "telegram": False, "openclaw_action": False, "network": False}, {}),
    ({"network": True}, {}),
]


@pytest.mark.parametrize(("written", "given_"), PERMITTED)
def test_a_permission_is_given_when_it_is_declared_and_never_otherwise(
    written: dict[str, Any], given_: dict[str, list[str]]
) -> None:
    skill = skill_of(permitted(**written))
    assert skill.tools[0].permissions.plain() == {"reads": [BASE_DIR], **given_}
    assert skill.permissions == skill.tools[0].permissions
    assert skill.asks_network is written.get("network", False)


@pytest.mark.parametrize("permissions", [GONE, None, {}])
def test_no_permissions_at_all_means_its_own_folder_and_nothing_else(permissions: Any) -> None:
    assert skill_of(changed(permissions=permissions)).permissions.plain() == {"reads": [BASE_DIR]}


@pytest.mark.parametrize("binaries", [[], GONE])
def test_cap_09_a_list_of_binaries_that_is_empty_or_absent_permits_none(binaries: Any) -> None:
    block = permitted() if binaries is GONE else permitted(local_binaries=binaries)
    skill = skill_of(block)
    assert not skill.permissions.binaries
    assert not skill.requirements.binaries


@pytest.mark.parametrize(
    "name",
    [
        "*", "**", "/usr/local/bin/ical-query", "./pump", "../pump", "bin/pump", "..", ".", "", " ", "pump ", "a b", "a,b", "-rf",
        "pump;id", "pump\n", "pu\u200bmp", "рump", "$PATH", "~pump", "a\\b", "x" * 129, None, 5, True, ["pump"], {"name": "pump"},
    ],
)  # fmt: skip
def test_cap_09_a_star_a_path_or_any_other_thing_that_is_no_plain_name_refuses_the_skill(name: Any) -> None:
    found = compiled(permitted(local_binaries=["pump", name]))
    assert found.skill is None
    (error,) = [each for each in found.diagnostics if each.severity == "error"]
    assert error.code == "bad_field" and "local_binaries" in error.message


def test_cap_09_an_absolute_path_is_refused_with_the_way_out() -> None:
    found = compiled(permitted(local_binaries=["/usr/local/bin/pump"]))
    assert "[binaries] in metier.toml" in found.diagnostics[0].message


@pytest.mark.parametrize("flag", ["telegram", "openclaw_action", "network"])
@pytest.mark.parametrize("value", ["true", "false", 1, 0, None, [], {}, [True], "yes", 1.0])
def test_a_permission_flag_that_is_no_json_boolean_refuses_the_skill(flag: str, value: Any) -> None:
    found = compiled(permitted(**{flag: value}))
    assert found.skill is None
    assert flag in found.diagnostics[0].message and "write true or false" in found.diagnostics[0].message


@pytest.mark.parametrize("value", [GONE, None, "false", "no", 0, [], {}, True, "true"])
def test_apr_05_an_act_asks_the_caller_unless_its_manifest_says_false(value: Any) -> None:
    assert tool_of(changed(confirmation_required=value)).confirmation == "Shall I water the plants?"


def test_apr_05_an_outright_false_opts_out_of_asking() -> None:
    assert tool_of(changed(confirmation_required=False)).confirmation is None


def test_what_was_meant_by_the_confirmation_flag_is_said_where_it_is_not_plain() -> None:
    assert codes(compiled(changed(confirmation_required=GONE))) == ["confirmation_assumed"]
    assert codes(compiled(changed(confirmation_required="false"))) == ["bad_boolean"]
    assert codes(compiled(changed(confirmation_required=None))) == ["bad_boolean"]
    assert codes(compiled(changed(capabilities=["read"]))) == ["confirmation_unused"]
    assert codes(compiled(changed(confirmation_required=False))) == []


def test_reading_asks_nobody_whatever_the_flag_says() -> None:
    for flag in (True, False, GONE, "true"):
        block = changed(capabilities=["read"], confirmation_required=flag)
        assert tool_of(block).confirmation is None


@pytest.mark.parametrize("prompt", [GONE, "", "  "])
def test_who_asks_without_a_prompt_is_given_words_of_ours(prompt: Any) -> None:
    assert tool_of(changed(confirmation_prompt=prompt)).confirmation == ""


def test_a_schema_that_forgot_the_word_loads_and_models_are_shown_it_all_the_same() -> None:
    tool = tool_of(BLOCK)
    assert "confirmed" not in tool.parameters["properties"]  # pyright: ignore[reportOperatorIssue]
    assert parameters_of(tool)["required"] == ["room", "confirmed"]


@pytest.mark.parametrize(
    ("written", "seconds"), [(1, 0.001), (3000, 3.0), (2500.5, 2.5005), (300_000, 300.0), (1e3, 1.0)]
)
def test_the_time_limit_is_what_the_manifest_says(written: float, seconds: float) -> None:
    assert tool_of(changed(timeout_ms=written)).limits.timeout == pytest.approx(seconds)


def test_a_missing_time_limit_is_five_seconds_and_said() -> None:
    found = compiled(changed(timeout_ms=GONE))
    assert found.skill is not None and found.skill.tools[0].limits.timeout == 5.0
    assert [(each.code, each.severity) for each in found.diagnostics] == [("amber_default", "warning")]


@pytest.mark.parametrize(
    "written", ["3000", 0, -1, 1e9, 300_001, True, False, None, [], {}, 1e400, 10**30, "1e9"]
)
def test_parse_13_a_time_limit_that_is_absurd_or_no_number_refuses_the_skill(written: Any) -> None:
    found = compiled(changed(timeout_ms=written))
    assert found.skill is None
    (error,) = [each for each in found.diagnostics if each.severity == "error"]
    assert "timeout_ms" in error.message and "300,000" in error.message


REFUSED: list[tuple[str, Any, str]] = [
    ("no object", None, "metadata.amber is nothing"),
    ("a text", "act", "metadata.amber is a text"),
    ("a list", [BLOCK], "metadata.amber is a list"),
    ("true", True, "metadata.amber is true"),
    ("empty", {}, "capabilities is missing"),
    ("no capabilities", changed(capabilities=GONE), "capabilities is missing"),
    ("null capabilities", changed(capabilities=None), "capabilities is nothing"),
    ("empty capabilities", changed(capabilities=[]), "capabilities says nothing"),
    ("text capabilities", changed(capabilities="read"), "capabilities is a text"),
    ("unknown capability", changed(capabilities=["read", "write"]), 'holds "write"'),
    ("capability in capitals", changed(capabilities=["Act"]), 'holds "Act"'),
    ("capability with an end", changed(capabilities=["act\n"]), 'holds "act"'),
    ("number as capability", changed(capabilities=[1]), "capabilities holds 1"),
    ("permissions no object", changed(permissions=["telegram"]), "permissions is a list"),
    ("permissions a text", changed(permissions="all"), "permissions is a text"),
    ("binaries a text", permitted(local_binaries="jq, curl"), "local_binaries is a text"),
    ("binaries null", permitted(local_binaries=None), "local_binaries is nothing"),
    ("binaries by the thousand", permitted(local_binaries=["x"] * 101), "101 items"),
    ("no function", changed(function_schema=GONE), "name is missing"),
    ("null function", changed(function_schema=None), "function_schema is nothing"),
    ("function a list", changed(function_schema=[]), "function_schema is a list"),
    ("no function name", function(name=GONE), "name is missing"),
    ("null function name", function(name=None), "name is nothing"),
    ("empty function name", function(name=""), 'name is ""'),
    ("blank in the name", function(name="water plants"), "1 to 64 letters"),
    ("slash in the name", function(name="water/plants"), "1 to 64 letters"),
    ("dot in the name", function(name="water.plants"), "1 to 64 letters"),
    ("long name", function(name="x" * 65), "1 to 64 letters"),
    ("line end in the name", function(name="water\n"), "1 to 64 letters"),
    ("unseen in the name", function(name="water\u200b"), "1 to 64 letters"),
    ("Cyrillic in the name", function(name="wаter"), "1 to 64 letters"),
    ("number as name", function(name=7), "1 to 64 letters"),
    ("description no text", function(description=["x"]), "description is a list"),
    ("description null", function(description=None), "description is nothing"),
    ("description empty", function(description=" "), "description is empty"),
    ("description huge", function(description="x" * 8_001), "8,001 characters"),
    ("parameters null", function(parameters=None), "parameters is nothing"),
    ("parameters a text", function(parameters="room"), "parameters is a text"),
    ("parameters without type", function(parameters={"properties": {}}), '"type": "object"'),
    ("parameters a string", function(parameters={"type": "string"}), '"type": "object"'),
    ("parameters two types", function(parameters={"type": ["object", "null"]}), '"type": "object"'),
    ("properties a list", function(parameters={"type": "object", "properties": []}), "properties that are a list"),
    ("a property is a text", function(parameters={"type": "object", "properties": {"a": "string"}}), "it is a text"),
    ("required a text", function(parameters={"type": "object", "required": "room"}), "`required`"),
    ("required numbers", function(parameters={"type": "object", "required": [1]}), "`required`"),
    ("prompt no text", changed(confirmation_prompt=True), "confirmation_prompt is true"),
    ("prompt null", changed(confirmation_prompt=None), "confirmation_prompt is nothing"),
    ("prompt huge", changed(confirmation_prompt="x" * 1_001), "1,001 characters"),
    ("handler no text", changed(handler=5), "handler is a number"),
    ("handler elsewhere", changed(handler="../evil.js"), "inside the skill's folder"),
    ("handler absolute", changed(handler="/tmp/evil.js"), "inside the skill's folder"),
    ("handler dotted", changed(handler="./handler.js"), "inside the skill's folder"),
    ("handler with backslash", changed(handler="a\\b.js"), "backslash"),
    ("handler unseen", changed(handler="a\u202eb.js"), "cannot be seen"),
    ("handler with line end", changed(handler="a.js\n"), "cannot be seen"),
    ("handler with NUL", changed(handler="a\0.js"), "cannot be seen"),
    ("handler a shell script", changed(handler="run.sh"), "end in .js"),
    ("handler without end", changed(handler="handler"), "end in .js"),
    ("handler an end alone", changed(handler=".js"), "end in .js"),
    ("handler empty", changed(handler=""), "1 to 400"),
    ("handler long", changed(handler="x" * 400 + ".js"), "1 to 400"),
    ("handler twice", changed(handler="a.js", entry="a.js"), "both name the file"),
]  # fmt: skip


@pytest.mark.parametrize(("block", "said"), [each[1:] for each in REFUSED], ids=[each[0] for each in REFUSED])
def test_a_block_that_is_incomplete_or_wrong_refuses_the_skill_and_says_what_to_write(
    block: Any, said: str
) -> None:
    found = compiled(block)
    assert found.skill is None
    assert found.dialect == "amber"
    errors = [each for each in found.diagnostics if each.severity == "error"]
    assert [each for each in errors if said in each.message], errors
    for each in errors:
        assert each.line == 4
        assert each.message.startswith("metadata.amber")
        assert not hidden(each.message) and "\n" not in each.message


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"type": "object", "default": 2**53}, "beyond"),
        ({"type": "object", "enum": [0] * 10_001}, "10,000 values"),
        ({"type": "object", "description": "x" * 262_145}, "262,144 bytes"),
    ],
)
def test_a_schema_that_is_far_too_large_refuses_the_skill(parameters: Any, said: str) -> None:
    draft = _draft()
    amber.apply(draft, function(parameters=parameters), "garden")
    assert [each for each in draft.notes if each.severity == "error" and said in each.message]


def test_a_schema_of_forty_levels_refuses_the_skill() -> None:
    deep: Any = {"type": "string"}
    for _ in range(40):
        deep = {"type": "object", "properties": {"a": deep}}
    found = compiled(function(parameters=deep))
    assert found.skill is None and "32 levels" in found.diagnostics[0].message


def test_what_amber_itself_does_without_is_assumed_and_said() -> None:
    found = compiled(function(description=GONE, parameters=GONE))
    assert found.skill is not None
    (tool,) = found.skill.tools
    assert tool.description == "Looks after the plants."
    assert tool.parameters == {"type": "object", "properties": {}}
    assert codes(found) == ["amber_default", "amber_default"]


def test_a_manifest_without_a_name_is_told_that_the_folder_gives_it_one() -> None:
    found = compiled(BLOCK, head="description: Looks after the plants.\n")
    assert found.skill is not None and found.skill.tools[0].name == "garden/water_plants"
    assert codes(found) == ["amber_default"]


@pytest.mark.parametrize("key", ["handler", "entry"])
@pytest.mark.parametrize(
    ("path", "entry"),
    [
        ("handler.py", PythonHandler(path="handler.py")),
        ("src/main.ts", ScriptHandler(path="src/main.ts", language="typescript")),
        ("handler.mjs", ScriptHandler(path="handler.mjs", language="javascript")),
        ("handler.cjs", ScriptHandler(path="handler.cjs", language="javascript")),
        ("my handler.js", ScriptHandler(path="my handler.js", language="javascript")),
    ],
)
def test_the_block_may_name_another_handler(key: str, path: str, entry: Any) -> None:
    assert tool_of(changed(**{key: path})).entry == entry


def test_what_the_dialect_does_not_know_is_kept_and_said_and_permits_nothing() -> None:
    block = {
        **permitted(telegram=True, filesystem=True, hosts=["example.com"]),
        "colour": "green",
        "nothing": None,
    }
    block["function_schema"] = {**block["function_schema"], "strict": True}
    found = compiled(block)
    assert found.skill is not None
    assert found.skill.extra["amber"] == {
        "colour": "green",
        "permissions": {"filesystem": True, "hosts": ["example.com"]},
        "function_schema": {"strict": True},
    }
    assert found.skill.permissions.plain() == {"reads": [BASE_DIR], "channels": ["operator"]}
    (note,) = found.diagnostics
    assert (note.code, note.severity, note.line) == ("unknown_field", "info", 4)
    for name in ('"colour"', '"permissions.filesystem"', '"permissions.hosts"', '"function_schema.strict"'):
        assert name in note.message


def test_unseen_characters_in_what_is_said_aloud_are_pointed_out() -> None:
    found = compiled(changed(confirmation_prompt="Read a file?\u202e"))
    assert found.skill is not None
    assert [each.code for each in found.diagnostics] == ["hidden_characters"]
    assert "U+202E" in found.diagnostics[0].message


def test_a_block_of_openclaw_beside_it_adds_to_the_skill_and_not_to_the_tool() -> None:
    openclaw = {"openclaw": {"requires": {"bins": ["curl"], "env": ["ZONE"]}, "os": ["linux"]}}
    skill = skill_of(BLOCK, more=openclaw)
    assert skill.dialect == "amber"
    assert skill.permissions.binaries == {"pump", "curl"}
    assert skill.tools[0].permissions.binaries == {"pump"}
    assert skill.requirements.binaries == ("curl", "pump")
    assert (skill.requirements.env, skill.requirements.os) == (("ZONE",), ("linux",))


def test_several_mistakes_are_said_at_once() -> None:
    found = compiled(
        {**permitted(telegram="yes", network=1), "capabilities": ["sing"], "timeout_ms": "soon"},
    )
    said = " ".join(each.message for each in found.diagnostics)
    for field in ("telegram", "network", "capabilities", "timeout_ms"):
        assert field in said


def _manifests_of_the_document() -> dict[str, bytes]:
    place = (
        next((each for each in sorted(os.listdir(SEEDS)) if each.startswith("000_")), "")
        if SEEDS.is_dir()
        else ""
    )
    if not place:
        pytest.skip(f"the source documents are not here ({SEEDS})")
    text = (SEEDS / place).read_text(encoding="utf-8")
    blocks = re.findall(r"```yaml\n(---\nname: (?:calendar|send-message)\n.*?)```", text, re.DOTALL)
    return {block.split("\n")[1].removeprefix("name: "): block.encode() for block in blocks}


def test_the_two_manifests_of_the_source_document_load_as_they_stand() -> None:
    manifests = _manifests_of_the_document()
    assert sorted(manifests) == ["calendar", "send-message"]
    for name, data in manifests.items():
        found = compile_skill(data, folder=name)
        assert found.skill is not None and not found.diagnostics, found.diagnostics
        assert (found.skill.version, len(found.skill.tools)) == ("1.0.0", 1)


def test_the_calendar_of_the_source_document_reads_and_acts_with_one_binary_and_asks_nobody() -> None:
    skill = compile_skill(_manifests_of_the_document()["calendar"], folder="calendar").skill
    assert skill is not None
    (tool,) = skill.tools
    assert (tool.name, tool.outward) == ("calendar/calendar_query", "calendar_query")
    assert (tool.effect, tool.confirmation, tool.limits.timeout) == ("act", None, 5.0)
    assert tool.permissions.plain() == {"binaries": ["ical-query"], "reads": [BASE_DIR]}
    assert not skill.asks_network


def test_the_messages_of_the_source_document_are_asked_for_and_go_to_the_operator() -> None:
    skill = compile_skill(_manifests_of_the_document()["send-message"], folder="send-message").skill
    assert skill is not None
    (tool,) = skill.tools
    assert (tool.outward, tool.effect, tool.limits.timeout) == ("send_message", "act", 5.0)
    assert tool.confirmation == "Would you like me to leave that message?"
    assert "confirmed" not in str(tool.parameters)
    assert parameters_of(tool)["required"] == ["message", "confirmed"]
    assert tool.permissions.plain() == {
        "channels": ["operator"],
        "operations": ["gateway.post"],
        "reads": [BASE_DIR],
    }


def test_the_example_loads_without_a_word() -> None:
    found = compile_skill((EXAMPLE / "SKILL.md").read_bytes(), folder=EXAMPLE.name)
    assert found.skill is not None and not found.diagnostics
    (tool,) = found.skill.tools
    assert (tool.name, tool.outward) == ("amber-weather-note/weather_note", "weather_note")
    assert tool.permissions.plain() == {"channels": ["operator"], "reads": [BASE_DIR]}
    assert isinstance(tool.entry, ScriptHandler) and (EXAMPLE / tool.entry.path).is_file()


def _draft() -> Draft:
    return Draft(Document(fields={}, block="name: x\ndescription: d\nmetadata: {}"))


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["act", "read", "a.js"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    *BLOCK,
                    *BLOCK["permissions"],
                    *BLOCK["function_schema"],
                    "handler",
                    "entry",
                    "type",
                    "properties",
                ]
            )
            | st.text(max_size=5),
            inner,
            max_size=6,
        )
    ),
    max_leaves=25,
)


@settings(max_examples=300, deadline=None)
@given(JSON)
def test_whatever_the_block_is_nothing_but_findings_comes_out(block: Any) -> None:
    draft = _draft()
    amber.apply(draft, block, "garden")
    for each in draft.notes:
        assert each.message and not hidden(each.message) and "\n" not in each.message
    if not any(each.severity == "error" for each in draft.notes):
        (tool,) = draft.words["tools"]
        assert tool.effect in ("read", "act") and 0 < tool.limits.timeout <= 300
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(tool), type=Tool) == tool


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([*BLOCK]), JSON)
def test_one_spoiled_field_is_refused_or_harmless(field: str, value: Any) -> None:
    draft = _draft()
    amber.apply(draft, changed(**{field: value}), "garden")
    if not any(each.severity == "error" for each in draft.notes):
        (tool,) = draft.words["tools"]
        whole = PermissionSet(
            binaries=tool.permissions.binaries,
            reads=frozenset({BASE_DIR}),
            channels=frozenset({"operator"}),
            operations=frozenset({"gateway.post"}),
        )
        assert whole.covers(tool.permissions)
        opted_out = field == "confirmation_required" and value is False
        assert tool.confirmation is not None or tool.effect == "read" or opted_out
