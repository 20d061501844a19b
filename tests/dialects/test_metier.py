"""Our own dialect: a SKILL.md whose `metadata.metier` brings tools, with everything that can be said about one."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metier.dialects import metier
from metier.dialects.compiled import Compiled
from metier.dialects.draft import Draft
from metier.dialects.frontmatter import Document
from metier.dialects.skill_md import compile_skill
from metier.model.entry import (
    Command,
    HttpRequest,
    InlineCode,
    PythonHandler,
    RemoteTool,
    ScriptHandler,
    WasmModule,
)
from metier.model.permission import BASE_DIR, PermissionSet
from metier.model.skill import Limits, Skill, Tool
from metier.model.text import hidden

EXAMPLE = Path(__file__).parents[2] / "examples" / "metier-meeting-cost"

TOOL: dict[str, Any] = {
    "name": "mix",
    "description": "Mix two colours.",
    "parameters": {
        "type": "object",
        "properties": {"first": {"type": "string"}, "second": {"type": "string"}},
        "required": ["first"],
    },
    "returns": {"type": "object", "properties": {"colour": {"type": "string"}}},
    "audience": "model",
    "effect": "act",
    "risk": "high",
    "cost": "cheap",
    "minimum_trust": "bounded_auto",
    "approval": "always",
    "confirmation": "Shall I mix them?",
    "permissions": {
        "binaries": ["convert"],
        "reads": ["{workspace}/in", "/usr/share/colours"],
        "writes": ["{workspace}/out"],
        "hosts": ["api.example.com", "http://plain.example.com:8080"],
        "env": ["PALETTE"],
        "secrets": ["COLOUR_KEY"],
        "operations": ["memory.search"],
        "channels": ["operator"],
    },
    "limits": {"timeout": 12.5, "memory_mb": 64, "fuel": 1000, "output_bytes": 2048, "processes": 3},
    "entry": {"kind": "python", "path": "tools/mix.py", "function": "mix"},
}
PLAIN: dict[str, Any] = {
    "name": "mix",
    "description": "Mix two colours.",
    "parameters": TOOL["parameters"],
    "entry": {"kind": "python", "path": "mix.py"},
}
GONE = object()


def changed(base: dict[str, Any] = PLAIN, **fields: Any) -> dict[str, Any]:
    return {key: value for key, value in {**base, **fields}.items() if value is not GONE}


def compiled(block: Any) -> Compiled:
    metadata = json.dumps({"metier": block})
    text = f"---\nname: paint\ndescription: Mixes colours.\nmetadata: {metadata}\n---\n# Paint\n"
    return compile_skill(text.encode(), folder="paint")


def skill_of(block: Any) -> Skill:
    found = compiled(block)
    assert found.skill is not None, found.diagnostics
    return found.skill


def tool_of(written: Any) -> Tool:
    (tool,) = skill_of({"tools": [written]}).tools
    return tool


def errors(found: Compiled) -> list[str]:
    assert found.skill is None
    said = [each for each in found.diagnostics if each.severity == "error"]
    for each in said:
        assert each.line == 4 and each.code == "bad_field"
        assert (
            each.message.startswith("metadata.metier")
            and not hidden(each.message)
            and "\n" not in each.message
        )
    return [each.message for each in said]


def test_every_field_of_a_tool_can_be_said() -> None:
    found = compiled({"tools": [TOOL]})
    assert found.skill is not None and not found.diagnostics
    assert found.skill.dialect == "metier"
    assert found.skill.tools == (
        Tool(
            name="paint/mix",
            skill="paint",
            description="Mix two colours.",
            parameters=TOOL["parameters"],
            returns=TOOL["returns"],
            effect="act",
            risk="high",
            cost="cheap",
            minimum_trust="bounded_auto",
            approval="always",
            confirmation="Shall I mix them?",
            permissions=PermissionSet(
                binaries=frozenset({"convert"}),
                reads=frozenset({"{workspace}/in", "/usr/share/colours", BASE_DIR}),
                writes=frozenset({"{workspace}/out"}),
                hosts=frozenset({"api.example.com", "http://plain.example.com:8080"}),
                env=frozenset({"PALETTE"}),
                secrets=frozenset({"COLOUR_KEY"}),
                operations=frozenset({"memory.search"}),
                channels=frozenset({"operator"}),
            ),
            limits=Limits(timeout=12.5, memory_mb=64, fuel=1000, output_bytes=2048, processes=3),
            entry=PythonHandler(path="tools/mix.py", function="mix"),
        ),
    )


def test_every_field_a_permission_or_limit_has_is_among_those_that_can_be_said() -> None:
    assert {*TOOL["permissions"]} == {*PermissionSet.__struct_fields__}
    assert {*TOOL["limits"]} == {*Limits.__struct_fields__}


def test_what_is_left_out_is_strict() -> None:
    tool = tool_of(PLAIN)
    assert (tool.effect, tool.risk, tool.minimum_trust) == ("act", "medium", "supervised_auto")
    assert (tool.cost, tool.approval, tool.confirmation, tool.returns) == ("free", "policy", None, None)
    assert tool.permissions.plain() == {"reads": [BASE_DIR]}
    assert (tool.limits, tool.audience, tool.answer, tool.sanitize) == (Limits(), "model", "value", False)
    assert tool_of(changed(parameters=GONE)).parameters == {"type": "object", "properties": {}}
    reading = tool_of(changed(effect="read"))
    assert (reading.risk, reading.minimum_trust) == ("low", "observe")


def _entry(**fields: Any) -> dict[str, Any]:
    return changed(entry=fields)


ENTRIES: list[tuple[dict[str, Any], Any, dict[str, list[str]]]] = [
    ({"kind": "script", "path": "a.js"}, ScriptHandler(path="a.js", language="javascript"), {}),
    (
        {"kind": "script", "path": "lib/a.ts", "language": "typescript", "export": "run", "hook": True},
        ScriptHandler(path="lib/a.ts", language="typescript", export="run", hook=True),
        {},
    ),
    ({"kind": "python", "path": "a.py"}, PythonHandler(path="a.py"), {}),
    ({"kind": "python", "path": "a.py", "function": "go"}, PythonHandler(path="a.py", function="go"), {}),
    ({"kind": "wasm", "path": "a.wasm"}, WasmModule(path="a.wasm"), {}),
    ({"kind": "wasm", "path": "a.wasm", "function": "run"}, WasmModule(path="a.wasm", function="run"), {}),
    (
        {"kind": "command", "argv": ["jq", "-n", "-n", "", "--arg={{first}}", "{{ second }}"], "cwd": BASE_DIR},
        Command(argv=("jq", "-n", "-n", "", "--arg={{first}}", "{{ second }}"), cwd=BASE_DIR),
        {"binaries": ["jq"]},
    ),
    (
        {"kind": "http", "url": "http://api.example.com:8080"},
        HttpRequest(method="GET", url="http://api.example.com:8080"),
        {"hosts": ["http://api.example.com:8080"]},
    ),
    (
        {"kind": "http", "url": "https://api.example.com/mix/{{first}}?with={{second}}"},
        HttpRequest(method="GET", url="https://api.example.com/mix/{{first}}?with={{second}}"),
        {"hosts": ["api.example.com"]},
    ),
    (
        {
            "kind": "http", "method": "POST", "url": "https://api.example.com:8080", "retries": 2,
            "headers": {"Authorization": "Bearer {{secret:COLOUR_KEY}}", "X-First": "{{first}}"},
            "body": {"colours": ["{{first}}", {"and": "{{second}}"}], "many": 2},
        },
        HttpRequest(
            method="POST", url="https://api.example.com:8080", retries=2,
            headers={"Authorization": "Bearer {{secret:COLOUR_KEY}}", "X-First": "{{first}}"},
            body={"colours": ["{{first}}", {"and": "{{second}}"}], "many": 2},
        ),
        {"hosts": ["api.example.com:8080"], "secrets": ["COLOUR_KEY"]},
    ),
    (
        {
            "kind": "http", "method": "PUT", "url": "https://api.example.com:443/",
            "headers": {"Content-Type": "application/x-www-form-urlencoded"}, "body": "a={{first}}&b=1",
        },
        HttpRequest(
            method="PUT", url="https://api.example.com:443/",
            headers={"Content-Type": "application/x-www-form-urlencoded"}, body="a={{first}}&b=1",
        ),
        {"hosts": ["api.example.com"]},
    ),
    ({"kind": "code", "language": "python", "source": "result = 1"}, InlineCode(language="python", source="result = 1"), {}),
    ({"kind": "mcp", "server": "studio", "tool": "mix"}, RemoteTool(server="studio", tool="mix"), {}),
]  # fmt: skip


@pytest.mark.parametrize(("written", "entry", "implied"), ENTRIES)
def test_every_kind_of_entry_can_be_said_and_permits_what_it_names(
    written: dict[str, Any], entry: Any, implied: dict[str, list[str]]
) -> None:
    tool = tool_of(_entry(**written))
    assert tool.entry == entry
    assert tool.permissions.plain() == {"reads": [BASE_DIR], **implied}


@pytest.mark.parametrize(
    ("fields", "risk", "said"),
    [
        ({"effect": "act", "risk": "low"}, "medium", True),
        ({"effect": "act", "risk": "high"}, "high", False),
        ({"effect": "read", "risk": "low"}, "low", False),
        ({"effect": "read", "risk": "medium"}, "medium", False),
        ({"risk": "medium", "permissions": {"writes": ["{workspace}"]}}, "high", True),
        ({"effect": "read", "risk": "low", "entry": {"kind": "code", "language": "python", "source": "1"}}, "high", True),
        ({"effect": "read", "risk": "low", "entry": {"kind": "command", "argv": ["sh", "-c", "id"]}}, "high", True),
        ({"effect": "read", "risk": "low", "entry": {"kind": "command", "argv": ["git", "log", "{{first}}"]}}, "high", True),
        ({"effect": "read", "risk": "low", "entry": {"kind": "command", "argv": ["wc", "{{first}}"]}}, "low", False),
        ({"risk": "medium", "permissions": {"hosts": ["example.com"]}}, "high", True),
    ],
)  # fmt: skip
def test_a_declared_risk_can_only_be_raised_and_a_lower_one_is_said(
    fields: dict[str, Any], risk: str, said: bool
) -> None:
    found = compiled({"tools": [changed(**fields)]})
    assert found.skill is not None and found.skill.tools[0].risk == risk
    assert [(each.code, each.severity) for each in found.diagnostics] == (
        [("risk_raised", "warning")] if said else []
    )
    assert all('tool 1 ("mix")' in each.message and risk in each.message for each in found.diagnostics)


def test_who_asks_for_hosts_that_are_not_known_yet_acts_and_is_of_high_risk() -> None:
    request = {"kind": "http", "method": "GET", "url": "https://a.example/"}
    tools = [PLAIN, changed(name="look", effect="read"), changed(name="ask", effect="read", entry=request)]
    skill = skill_of({"asks_network": True, "tools": tools})
    assert skill.asks_network
    assert [(tool.effect, tool.risk) for tool in skill.tools] == [
        ("act", "high"),
        ("act", "high"),
        ("read", "low"),  # the one request that it can make is known, and only asks
    ]


GATEWAY = {"operations": ["gateway.post"]}
SENDS = {"hosts": ["a.example"]}


@pytest.mark.parametrize(
    ("fields", "risk"),
    [
        ({"permissions": SENDS}, "high"),
        ({"permissions": GATEWAY}, "medium"),
        ({"permissions": {"operations": ["memory.search", "one.nobody_knows"]}}, "medium"),
        ({"permissions": {**SENDS, "binaries": ["curl"]}}, "high"),
        ({"permissions": SENDS, "entry": {"kind": "command", "argv": ["curl", "https://a.example"]}}, "high"),
        ({"permissions": SENDS, "entry": {"kind": "wasm", "path": "a.wasm"}}, "high"),
        ({"entry": {"kind": "http", "method": "POST", "url": "https://a.example/"}}, "high"),
        ({"entry": {"kind": "mcp", "server": "s", "tool": "t"}}, "high"),
    ],
)
def test_who_can_change_something_acts_whatever_it_says(fields: dict[str, Any], risk: str) -> None:
    found = compiled({"tools": [changed(effect="read", risk="low", minimum_trust="observe", **fields)]})
    assert found.skill is not None
    (tool,) = found.skill.tools
    assert (tool.effect, tool.risk, tool.minimum_trust) == ("act", risk, "supervised_auto")
    said = {each.code: each for each in found.diagnostics}
    assert said.keys() == {"counts_as_act", "risk_raised"}
    assert said["counts_as_act"].severity == "warning" and "paint/mix" in said["counts_as_act"].message


@pytest.mark.parametrize(
    "fields",
    [
        {"permissions": {"operations": ["memory.search", "agents.status"]}},
        {"permissions": {"binaries": ["jq"], "reads": ["/srv"], "env": ["TEA"]}},
        {"entry": {"kind": "http", "method": "HEAD", "url": "https://a.example/"}},
        {"entry": {"kind": "command", "argv": ["date"]}},
    ],
)
def test_who_can_only_look_is_taken_at_its_word(fields: dict[str, Any]) -> None:
    found = compiled({"tools": [changed(effect="read", **fields)]})
    assert found.skill is not None and not found.diagnostics
    (tool,) = found.skill.tools
    assert (tool.effect, tool.risk, tool.minimum_trust) == ("read", "low", "observe")


def test_more_findings_than_are_listed_cost_no_tool() -> None:
    many = [changed(name=f"t{'x' * number}z", risk="low") for number in range(60)]
    found = compiled({"tools": many})
    assert found.skill is not None and len(found.skill.tools) == 60
    assert {tool.risk for tool in found.skill.tools} == {"medium"}


@pytest.mark.parametrize(
    ("written", "confirmation"),
    [("Sure?", "Sure?"), (True, ""), (False, None), (GONE, None), (" Sure? ", "Sure?")],
)
def test_a_tool_may_ask_the_caller_in_its_own_words_or_in_ours(
    written: Any, confirmation: str | None
) -> None:
    assert tool_of(changed(confirmation=written)).confirmation == confirmation


def test_the_skill_may_touch_what_any_of_its_tools_may_and_what_is_said_for_all() -> None:
    block = {
        "tools": [
            changed(permissions={"env": ["A"], "reads": ["{workspace}/in/deep"]}),
            changed(name="wash", permissions={"binaries": ["jq"], "reads": ["{workspace}/in"]}),
        ],
        "permissions": {"channels": ["operator"]},
    }
    skill = skill_of(block)
    assert skill.permissions.plain() == {
        "binaries": ["jq"],
        "channels": ["operator"],
        "env": ["A"],
        "reads": [BASE_DIR, "{workspace}/in"],
    }
    assert skill.tools[0].permissions.plain() == {"env": ["A"], "reads": [BASE_DIR, "{workspace}/in/deep"]}


def test_what_the_whole_skill_can_say_has_its_place() -> None:
    settings_schema = {"type": "object", "properties": {"palette": {"type": "string"}}}
    block = {
        "tools": [changed(entry={"kind": "command", "argv": ["convert", "{{first}}"]})],
        "requires": {
            "binaries": ["jq"],
            "any_binaries": ["feh", "eog"],
            "env": ["DISPLAY"],
            "config": ["channels.telegram"],
            "os": ["linux"],
            "always": False,
        },
        "settings": settings_schema,
        "depends_on": ["canvas"],
        "provides": ["colours"],
    }
    skill = skill_of(block)
    needs = skill.requirements
    assert (needs.binaries, needs.any_binaries, needs.env) == (
        ("jq", "convert"),
        ("feh", "eog"),
        ("DISPLAY",),
    )
    assert (needs.config, needs.os, needs.always) == (("channels.telegram",), ("linux",), False)
    assert skill.settings_schema == settings_schema
    assert (skill.depends_on, skill.provides) == (("canvas",), ("colours",))
    # To need something is not to be permitted it.
    assert skill.permissions.plain() == {"binaries": ["convert"], "reads": [BASE_DIR]}


@pytest.mark.parametrize("block", [{}, {"tools": []}])
def test_a_block_without_tools_is_a_skill_without_tools(block: Any) -> None:
    skill = skill_of(block)
    assert skill.tools == () and skill.permissions.plain() == {"reads": [BASE_DIR]}


def test_a_setting_of_a_name_that_operations_throw_away_is_said_when_the_skill_is_read() -> None:
    inner = {"type": "array", "items": {"type": "object", "properties": {"_ctx": {"type": "string"}}}}
    found = compiled(
        {"settings": {"type": "object", "properties": {"actor": {"type": "string"}, "list": inner}}}
    )
    said = [each.message for each in found.diagnostics if each.code == "lost_setting"]
    assert len(said) == 1
    assert '"_ctx", "actor" cannot be set' in said[0]
    assert found.skill is not None, "the skill is of use all the same"


def test_what_the_block_does_not_know_is_kept_and_said() -> None:
    found = compiled({"tools": [PLAIN], "colour": "green"})
    assert found.skill is not None and found.skill.extra["metier"] == {"colour": "green"}
    assert [(each.code, each.severity, each.line) for each in found.diagnostics] == [
        ("unknown_field", "info", 4)
    ]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"aproval": "always"}, '"aproval" is not known here'),
        ({"Risk": "high"}, '"Risk" is not known here'),
        ({"permission": "skills:approve"}, '"permission" is not known here'),
        ({"skill": "other"}, '"skill" is not known here'),
        ({"outward": "read_skill"}, '"outward" is not known here'),
        ({"subject": "first"}, '"subject" is not known here'),
        ({"permissions": {"binary": ["jq"]}}, '"binary" is not known here'),
        ({"limits": {"timeout_ms": 5}}, '"timeout_ms" is not known here'),
        ({"entry": {"kind": "python", "path": "a.py", "main": "x"}}, '"main" is not known here'),
        ({"entry": {"kind": "script", "path": "a.js", "function": "x"}}, '"function" is not known here'),
        ({"entry": {"kind": "wasm", "path": "a.wasm", "memory": 1}}, '"memory" is not known here'),
        ({"entry": {"kind": "command", "argv": ["jq"], "shell": True}}, '"shell" is not known here'),
        (
            {"entry": {"kind": "http", "url": "https://a.example/", "verify": False}},
            '"verify" is not known here',
        ),
        ({"entry": {"kind": "code", "language": "python", "source": "1", "x": 1}}, '"x" is not known here'),
        ({"entry": {"kind": "mcp", "server": "s", "tool": "t", "url": "x"}}, '"url" is not known here'),
    ],
)
def test_parse_12_a_misspelt_field_of_a_tool_refuses_the_skill(fields: dict[str, Any], said: str) -> None:
    (message,) = errors(compiled({"tools": [changed(**fields)]}))
    assert said in message and 'tool 1 ("mix")' in message and "there are " in message


HTTP = {"kind": "http", "url": "https://a.example/"}
BAD_FIELDS: list[tuple[str, Any, str]] = [
    ("name", GONE, "name is missing"),
    ("name", None, "name is nothing"),
    ("name", "", 'name is ""'),
    ("name", "Mix", "lower-case"),
    ("name", "a/b", "lower-case"),
    ("name", "a.b", "lower-case"),
    ("name", "x" * 65, "1 to 64"),
    ("name", "mix\n", "1 to 64"),
    ("name", "mi\u200bx", "1 to 64"),
    ("name", "mіx", "1 to 64"),
    ("name", 5, "name is 5"),
    ("description", GONE, "description is missing"),
    ("description", "", "description is empty"),
    ("description", " \n", "description is empty"),
    ("description", 5, "description is a number"),
    ("description", "x" * 4_001, "4,001 characters"),
    ("parameters", None, "parameters is nothing"),
    ("parameters", [], "parameters is a list"),
    ("parameters", {"type": "array"}, '"type": "object"'),
    ("parameters", {"type": "object", "properties": 1}, "properties that are a number"),
    ("returns", "text", "returns is a text"),
    ("returns", {"maximum": 2**60}, "beyond"),
    ("audience", "operator", "those for operators are Metier's own"),
    ("audience", None, "tools of skills are for models"),
    ("effect", "write", "one of read, act"),
    ("effect", None, "one of read, act"),
    ("effect", ["read"], "one of read, act"),
    ("risk", "none", "one of low, medium, high"),
    ("risk", 0, "one of low, medium, high"),
    ("cost", "dear", "one of free, cheap, expensive"),
    ("minimum_trust", "root", "one of observe, suggest, supervised_auto, bounded_auto, adaptive_auto"),
    ("approval", "never", "one of policy, always"),
    ("approval", True, "one of policy, always"),
    ("approval", None, "one of policy, always"),
    ("confirmation", None, "confirmation is nothing"),
    ("confirmation", "", "confirmation is empty"),
    ("confirmation", 1, "confirmation is a number"),
    ("confirmation", "x" * 1_001, "1,001 characters"),
    ("permissions", None, "permissions is nothing"),
    ("permissions", ["jq"], "permissions is a list"),
    ("permissions", {"binaries": "jq"}, "binaries is a text"),
    ("permissions", {"binaries": ["/bin/sh"]}, "plain name of one program"),
    ("permissions", {"binaries": ["*"]}, "plain name of one program"),
    ("permissions", {"binaries": [".."]}, "plain name of one program"),
    ("permissions", {"binaries": ["a\0b"]}, "binaries holds"),
    ("permissions", {"binaries": [1]}, "binaries holds 1"),
    ("permissions", {"binaries": ["x"] * 101}, "101 items"),
    ("permissions", {"reads": ["memory"]}, "must be absolute or start with"),
    ("permissions", {"reads": ["{home}/x"]}, "must be absolute or start with"),
    ("permissions", {"reads": ["{workspace}/../x"]}, "not in normal form"),
    ("permissions", {"writes": ["/a//b"]}, "not in normal form"),
    ("permissions", {"writes": ["/a/"]}, "not in normal form"),
    ("permissions", {"writes": ["~/x"]}, "must be absolute or start with"),
    ("permissions", {"writes": ["/a\x1b[2J"]}, "cannot be seen"),
    ("permissions", {"writes": ["/" + "x" * 4_096]}, "4,096"),
    ("permissions", {"writes": [""]}, "writes holds"),
    ("permissions", {"hosts": ["*"]}, "one host"),
    ("permissions", {"hosts": ["*.example.com"]}, "one host"),
    ("permissions", {"hosts": ["https://example.com/path"]}, "one host"),
    ("permissions", {"hosts": ["example.com:99999999"]}, "one host"),
    ("permissions", {"hosts": ["user@example.com"]}, "one host"),
    ("permissions", {"hosts": ["EXAMPLE.com"]}, "one host"),
    ("permissions", {"env": ["A-B"]}, "one variable"),
    ("permissions", {"env": ["A=1"]}, "one variable"),
    ("permissions", {"secrets": ["a b"]}, "one secret"),
    ("permissions", {"secrets": ["*"]}, "one secret"),
    ("permissions", {"operations": ["memory"]}, "module.operation"),
    ("permissions", {"operations": ["memory.*"]}, "module.operation"),
    ("permissions", {"channels": ["@someone"]}, "one channel"),
    ("permissions", {"channels": ["*"]}, "one channel"),
    ("limits", None, "limits is nothing"),
    ("limits", [], "limits is a list"),
    ("limits", {"timeout": 0}, "timeout is 0"),
    ("limits", {"timeout": 301}, "at most 300"),
    ("limits", {"timeout": "30"}, "seconds as a number"),
    ("limits", {"timeout": True}, "timeout is true"),
    ("limits", {"memory_mb": 1.5}, "whole number"),
    ("limits", {"memory_mb": -1}, "whole number"),
    ("limits", {"memory_mb": 10**9}, "whole number"),
    ("limits", {"fuel": 0}, "whole number"),
    ("limits", {"fuel": "much"}, "whole number"),
    ("limits", {"output_bytes": None}, "whole number"),
    ("limits", {"processes": 0}, "whole number"),
    ("limits", {"processes": True}, "whole number"),
    ("entry", GONE, "entry is missing"),
    ("entry", None, "entry is nothing"),
    ("entry", "tool.py", "entry is a text"),
    ("entry", {}, "kind is missing"),
    ("entry", {"kind": "shell"}, "one of script, python, wasm, command, http, code, mcp"),
    ("entry", {"kind": ["python"]}, "one of script"),
    ("entry", {"kind": "operation", "module": "trust", "operation": "set"}, "Metier's own"),
    ("entry", {"kind": "python"}, "path is missing"),
    ("entry", {"kind": "python", "path": None}, "path is nothing"),
    ("entry", {"kind": "python", "path": "../x.py"}, "inside the skill's folder"),
    ("entry", {"kind": "python", "path": "/x.py"}, "inside the skill's folder"),
    ("entry", {"kind": "python", "path": "a//x.py"}, "inside the skill's folder"),
    ("entry", {"kind": "python", "path": "./x.py"}, "inside the skill's folder"),
    ("entry", {"kind": "python", "path": "a\\x.py"}, "backslash"),
    ("entry", {"kind": "python", "path": "x\u202e.py"}, "cannot be seen"),
    ("entry", {"kind": "python", "path": "x.js"}, "end in .py"),
    ("entry", {"kind": "python", "path": "x.py", "function": "a b"}, "name of a function"),
    ("entry", {"kind": "python", "path": "x.py", "function": None}, "function is nothing"),
    ("entry", {"kind": "script", "path": "x.py"}, "end in .js"),
    ("entry", {"kind": "script", "path": "x.js", "language": "typescript"}, "says javascript"),
    ("entry", {"kind": "script", "path": "x.js", "language": "coffee"}, "one of javascript, typescript"),
    ("entry", {"kind": "script", "path": "x.js", "export": "a-b"}, "exports the function"),
    ("entry", {"kind": "script", "path": "x.js", "hook": "yes"}, "true or false"),
    ("entry", {"kind": "wasm", "path": "x.wat"}, "end in .wasm"),
    ("entry", {"kind": "wasm", "path": "x.wasm", "function": "a\nb"}, "exported function"),
    ("entry", {"kind": "command"}, "names no program"),
    ("entry", {"kind": "command", "argv": []}, "names no program"),
    ("entry", {"kind": "command", "argv": "ls -l"}, "argv is a text"),
    ("entry", {"kind": "command", "argv": ["/bin/ls"]}, "plain name of one program"),
    ("entry", {"kind": "command", "argv": ["{{first}}"]}, "plain name of one program"),
    ("entry", {"kind": "command", "argv": ["ls", 1]}, "argv holds 1"),
    ("entry", {"kind": "command", "argv": ["ls", "a\0b"]}, "argv holds"),
    ("entry", {"kind": "command", "argv": ["ls", "{{third}}"]}, 'a place for "third"'),
    ("entry", {"kind": "command", "argv": ["ls", "{{first"]}, "braces that name no argument"),
    ("entry", {"kind": "command", "argv": ["sh", "-c", "{{first}}"]}, "could become code"),
    ("entry", {"kind": "command", "argv": ["env", "{{first}}"]}, "could become a program"),
    ("entry", {"kind": "command", "argv": ["sed", "--expression={{first}}", "a"]}, "could become code"),
    ("entry", {"kind": "command", "argv": ["tar", "-x", "--to-command={{first}}"]}, "options that name a program"),
    ("entry", {"kind": "command", "argv": ["ls", "{{secret:KEY}}"]}, "secrets stand at the end of a header only"),
    ("entry", {"kind": "command", "argv": ["ls"], "cwd": "{workspace}"}, "may not read"),
    ("entry", {"kind": "command", "argv": ["ls"], "cwd": "here"}, "must be absolute"),
    ("entry", {"kind": "command", "argv": ["ls"], "cwd": 5}, "cwd is a number"),
    ("entry", {"kind": "http"}, "url is missing"),
    ("entry", {"kind": "http", "url": "ftp://a.example/"}, "https://host/path"),
    ("entry", {"kind": "http", "url": "https://{{first}}/"}, "https://host/path"),
    ("entry", {"kind": "http", "url": "https://a.{{first}}/"}, "https://host/path"),
    ("entry", {"kind": "http", "url": "{{first}}://a.example/"}, "https://host/path"),
    ("entry", {"kind": "http", "url": "https://a.example:{{first}}/"}, "https://host/path"),
    ("entry", {"kind": "http", "url": "https://{{a/b}}.example/"}, "https://host/path"),
    ("entry", {"kind": "http", "url": "https://user:pass@a.example/"}, "https://host/path"),
    ("entry", {"kind": "http", "url": "https://a.example/ b"}, "https://host/path"),
    ("entry", {"kind": "http", "url": "https://a.example\\@b.example/"}, "https://host/path"),
    ("entry", {"kind": "http", "url": "https://A.example/"}, "https://host/path"),
    ("entry", {"kind": "http", "url": "https://bücher.example/"}, "https://host/path"),
    ("entry", {"kind": "http", "url": "https://a.example/\n"}, "https://host/path"),
    ("entry", {"kind": "http", "url": "https://a..example/"}, "host or port"),
    ("entry", {"kind": "http", "url": "https://a.example:70000/"}, "host or port"),
    ("entry", {"kind": "http", "url": "https://a.example/#x"}, "fragment"),
    ("entry", {"kind": "http", "url": "https://a.example/{{third}}"}, 'a place for "third"'),
    ("entry", {"kind": "http", "url": "https://a.example/{{secret:K}}"}, "names the secret K"),
    ("entry", {"kind": "http", "url": "https://a.example/" + "x" * 2_000}, "2,000 are the most"),
    ("entry", {**HTTP, "method": "BREW"}, "one of GET, HEAD"),
    ("entry", {**HTTP, "method": "get"}, "one of GET, HEAD"),
    ("entry", {**HTTP, "headers": []}, "headers is a list"),
    ("entry", {**HTTP, "headers": {"A B": "x"}}, "no name of a header"),
    ("entry", {**HTTP, "headers": {"{{first}}": "x"}}, "no name of a header"),
    ("entry", {**HTTP, "headers": {"A": 1}}, "plain characters"),
    ("entry", {**HTTP, "headers": {"Host": "a.example"}}, "not for a skill to set"),
    ("entry", {**HTTP, "headers": {"Cookie": "a=b"}}, "only as a secret"),
    ("entry", {**HTTP, "url": "http://a.example", "headers": {"A": "{{secret:K}}"}}, "write https://"),
    ("entry", {**HTTP, "headers": {"A": "x\r\nB: y"}}, "plain characters"),
    ("entry", {**HTTP, "headers": {"A": "{{secret:K}} x"}}, "secrets stand at the end"),
    ("entry", {**HTTP, "headers": {"A": "{{secret:K}}{{secret:L}}"}}, "secrets stand at the end"),
    ("entry", {**HTTP, "headers": {"A": "{{secret:}}"}}, "no plain name"),
    ("entry", {**HTTP, "headers": {"A": "{{third}}"}}, 'a place for "third"'),
    ("entry", {**HTTP, "headers": {f"A{number}": "x" for number in range(51)}}, "at most 50"),
    ("entry", {**HTTP, "body": "text with {{first}}"}, "write it as a JSON value"),
    ("entry", {**HTTP, "body": {"{{first}}": 1}}, "keys are fixed"),
    ("entry", {**HTTP, "body": ["{{third}}"]}, 'a place for "third"'),
    ("entry", {**HTTP, "body": ["{{secret:K}}"]}, "names the secret K"),
    ("entry", {**HTTP, "body": "x" * 50_001}, "50,000 bytes"),
    ("entry", {**HTTP, "retries": 4}, "from 0 to 3"),
    ("entry", {**HTTP, "retries": -1}, "from 0 to 3"),
    ("entry", {**HTTP, "retries": "1"}, "from 0 to 3"),
    ("entry", {"kind": "code", "source": "1"}, "language is missing"),
    ("entry", {"kind": "code", "language": "bash", "source": "1"}, "one of javascript, typescript, python"),
    ("entry", {"kind": "code", "language": "python"}, "source is missing"),
    ("entry", {"kind": "code", "language": "python", "source": " "}, "source is empty"),
    ("entry", {"kind": "code", "language": "python", "source": "x" * 65_537}, "65,536 are the most"),
    ("entry", {"kind": "mcp", "server": "a b", "tool": "t"}, "configured the MCP server"),
    ("entry", {"kind": "mcp", "server": "s"}, "tool is missing"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("field", "value", "said"),
    BAD_FIELDS,
    ids=[f"{field}-{number}" for number, (field, _, _) in enumerate(BAD_FIELDS)],
)
def test_a_field_that_is_wrong_refuses_the_skill_and_says_which_tool_what_and_what_to_write(
    field: str, value: Any, said: str
) -> None:
    found = errors(compiled({"tools": [changed(name="look"), changed(**{field: value})]}))
    assert [message for message in found if said in message], found
    assert all(message.startswith("metadata.metier: tool 2") and field in message for message in found)


BAD_BLOCKS: list[tuple[Any, str]] = [
    (None, "metadata.metier is nothing"),
    ("tools", "metadata.metier is a text"),
    ([], "metadata.metier is a list"),
    ({"tools": None}, "tools is nothing"),
    ({"tools": {"mix": PLAIN}}, "tools is an object"),
    ({"tools": ["mix"]}, "tool 1 is a text"),
    ({"tools": [None]}, "tool 1 is nothing"),
    ({"tools": [PLAIN, PLAIN]}, 'easily taken for "mix"'),
    ({"tools": [changed(name="rnix"), changed(name="mix")]}, 'easily taken for "rnix"'),
    ({"tools": [changed(name="a-b"), changed(name="a_b")]}, 'easily taken for "a-b"'),
    ({"tools": [changed(name=f"t{number:03}x") for number in range(101)]}, "100 are the most"),
    ({"permissions": ["jq"]}, "permissions is a list"),
    ({"permissions": {"reads": ["x"]}}, "must be absolute"),
    ({"requires": []}, "requires is a list"),
    ({"requires": {"bins": ["jq"]}}, '"bins" is not known here'),
    ({"requires": {"binaries": ["/bin/jq"]}}, "plain name of one program"),
    ({"requires": {"env": ["A B"]}}, "one variable"),
    ({"requires": {"config": ["a b"]}}, "dotted path"),
    ({"requires": {"os": ["Linux!"]}}, "linux, darwin or win32"),
    ({"requires": {"always": "yes"}}, "true or false"),
    ({"asks_network": "true"}, "true or false"),
    ({"settings": "palette"}, "settings is a text"),
    ({"settings": {"type": "string"}}, '"type": "object"'),
    ({"depends_on": "canvas"}, "depends_on is a text"),
    ({"depends_on": ["../canvas"]}, "lower-case words"),
    ({"provides": [5]}, "provides holds 5"),
]


@pytest.mark.parametrize(("block", "said"), BAD_BLOCKS)
def test_a_block_that_is_wrong_as_a_whole_refuses_the_skill(block: Any, said: str) -> None:
    found = errors(compiled(block))
    assert [message for message in found if said in message], found


def test_a_hundred_tools_are_taken() -> None:
    skill = skill_of(
        {"tools": [changed(name=f"t{'a' * (number // 10)}{'b' * (number % 10)}c") for number in range(100)]}
    )
    assert len(skill.tools) == 100


@pytest.mark.parametrize("permissions", [{"writes": ["{workspace}/out"]}, {"channels": ["operator"]}])
def test_who_says_that_it_only_reads_may_neither_write_nor_send(permissions: Any) -> None:
    (message,) = errors(compiled({"tools": [changed(effect="read", permissions=permissions)]}))
    assert "effect is read" in message
    assert tool_of(changed(effect="act", permissions=permissions)).effect == "act"


def test_a_command_may_start_where_it_may_read_or_write() -> None:
    for kind in ("reads", "writes"):
        written = changed(
            entry={"kind": "command", "argv": ["ls"], "cwd": "{workspace}/a/b"},
            permissions={kind: ["{workspace}/a"]},
        )
        assert tool_of(written).entry == Command(argv=("ls",), cwd="{workspace}/a/b")


def test_a_place_may_name_what_the_schema_takes_from_elsewhere() -> None:
    entry = {"kind": "command", "argv": ["ls", "{{third}}"]}
    for parameters in (
        {"type": "object", "$ref": "#/$defs/x", "$defs": {"x": {"properties": {"third": {}}}}},
        {"type": "object", "additionalProperties": {"type": "string"}},
    ):
        assert tool_of(changed(parameters=parameters, entry=entry)).parameters == parameters


def test_very_many_mistakes_are_not_all_said() -> None:
    found = errors(compiled({"tools": [{"name": "?", "x": 1} for _ in range(100)]}))
    assert 50 <= len(found) <= 60


def test_the_example_loads_without_a_word() -> None:
    found = compile_skill((EXAMPLE / "SKILL.md").read_bytes(), folder=EXAMPLE.name)
    assert found.skill is not None and not found.diagnostics
    tools = {tool.name.rpartition("/")[2]: tool for tool in found.skill.tools}
    assert {name: type(tool.entry) for name, tool in tools.items()} == {
        "cost": PythonHandler,
        "minutes": ScriptHandler,
        "now": Command,
    }
    for tool in tools.values():
        if isinstance(tool.entry, PythonHandler | ScriptHandler):
            assert (EXAMPLE / tool.entry.path).is_file()


KEYS = [
    *TOOL, *TOOL["permissions"], *TOOL["limits"], "tools", "kind", "path", "argv", "cwd", "url", "headers", "body", "language", "source",
    "requires", "settings", "depends_on", "asks_network", "type", "properties", "server", "tool", "method", "retries", "function",
]  # fmt: skip
WORDS = [
    "script",
    "python",
    "wasm",
    "command",
    "http",
    "code",
    "mcp",
    "a.js",
    "a.py",
    "https://a.example/{{x}}",
    "{{",
    "object",
    "{workspace}/a",
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(WORDS),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=5), inner, max_size=6)
    ),
    max_leaves=25,
)


def _apply(block: Any) -> Draft:
    draft = Draft(Document(fields={}, block="name: x\ndescription: d\nmetadata: {}"))
    metier.apply(draft, block, "paint")
    for each in draft.notes:
        assert each.message and not hidden(each.message) and "\n" not in each.message
    if not any(each.severity == "error" for each in draft.notes):
        for tool in draft.words["tools"]:
            assert draft.words["permissions"].covers(tool.permissions)
            assert tool.audience == "model" and tool.skill == "paint"
            assert msgspec.msgpack.decode(msgspec.msgpack.encode(tool), type=Tool) == tool
    return draft


@settings(max_examples=300, deadline=None)
@given(JSON)
def test_whatever_the_block_is_nothing_but_findings_comes_out(block: Any) -> None:
    _apply(block)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from([*TOOL]), JSON)
def test_a_tool_with_one_spoiled_field_is_refused_or_harmless(field: str, value: Any) -> None:
    _apply({"tools": [changed(TOOL, **{field: value})]})


@settings(max_examples=300, deadline=None)
@given(st.sampled_from([entry for entry, _, _ in ENTRIES]), st.sampled_from(KEYS), JSON)
def test_an_entry_with_one_spoiled_field_is_refused_or_harmless(entry: Any, field: str, value: Any) -> None:
    _apply({"tools": [changed(entry={**entry, field: value})]})
