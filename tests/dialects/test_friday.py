"""A friday skill as a whole: its fields, where it came from, what it may be given."""

import json
from pathlib import Path
from typing import Any

import pytest
import ryaml

from metier.dialects.compiled import Compiled
from metier.dialects.friday import compile_skill
from metier.dialects.friday_bound import RIGHTS
from metier.dialects.manifest import compile_manifest, instructions
from metier.model.entry import Command, HttpRequest, InlineCode
from metier.model.permission import BASE_DIR, OWN_FOLDER
from metier.model.skill import Skill, Source

ROOT = Path(__file__).parents[2]
SEED = next((ROOT.parent / "shared" / "seeds").glob("004_*.txt"), None)
CODE = {"id": "add", "type": "code", "language": "python", "code": "result = 1"}
HTTP = {"id": "ask", "type": "http", "method": "GET", "url": "https://api.example.com/v1"}
SHELL = {"id": "count", "type": "shell", "command": "wc -l"}


def written(**more: Any) -> dict[str, Any]:
    return {"id": "desk", "description": "Keeps a desk.", "instructions": "Be tidy.", **more}


def compiled(
    fields: dict[str, Any], *, source: Source = "user", manifest: str = "skill.json", folder: str = "desk"
) -> Compiled:
    text = json.dumps(fields) if manifest.endswith(".json") else ryaml.dumps(fields)
    return compile_skill(text.encode(), folder=folder, manifest=manifest, location="/there", source=source)


def skill_of(fields: dict[str, Any], **more: Any) -> Skill:
    found = compiled(fields, **more)
    assert found.skill is not None, [note.message for note in found.diagnostics]
    return found.skill


def codes(found: Compiled, severity: str = "error") -> list[str]:
    return [note.code for note in found.diagnostics if note.severity == severity]


def test_a_skill_of_instructions_alone_is_fine_and_may_read_its_own_folder_only() -> None:
    found = compiled(written())
    assert found.diagnostics == ()
    skill = found.skill
    assert skill is not None
    assert (skill.name, skill.description, skill.dialect, skill.manifest) == (
        "desk",
        "Keeps a desk.",
        "friday",
        "skill.json",
    )
    assert (skill.location, skill.source, skill.status, skill.tools) == ("/there", "user", "active", ())
    assert skill.permissions == OWN_FOLDER


def test_the_words_of_the_document_each_have_their_place() -> None:
    skill = skill_of(
        written(
            name="The desk",
            triggerPatterns=["tidy (up|now", "desk"],
            dependencies=["calendar", "mail"],
            provides=["order"],
            version="2.1",
            actions=[CODE, HTTP, SHELL],
        )
    )
    assert skill.extra == {"name": "The desk"}
    assert skill.triggers == ("tidy (up|now", "desk"), (
        "also what is no regular expression: nobody compiles it"
    )
    assert (skill.depends_on, skill.provides, skill.version) == (("calendar", "mail"), ("order",), "2.1")
    assert [tool.name for tool in skill.tools] == ["desk/add", "desk/ask", "desk/count"]
    assert [type(tool.entry) for tool in skill.tools] == [InlineCode, HttpRequest, Command]
    assert {tool.skill for tool in skill.tools} == {"desk"}
    assert {tool.permission for tool in skill.tools} == {"skills:execute"}
    assert skill.permissions.plain() == {
        "binaries": ["wc"],
        "reads": [BASE_DIR],
        "hosts": ["api.example.com"],
    }
    assert skill.requirements.binaries == ("wc",)


def test_instructions_are_read_from_the_file_when_somebody_asks() -> None:
    fields = written(instructions="Be tidy.\n\n{{x}} stays")
    for manifest, data in (("skill.json", json.dumps(fields)), ("skill.yaml", ryaml.dumps(fields))):
        assert instructions(data.encode(), manifest) == "Be tidy.\n\n{{x}} stays"


def test_without_an_id_the_folder_gives_the_name() -> None:
    fields = written(name="A Desk")
    del fields["id"]
    assert skill_of(fields, folder="my-desk").name == "my-desk"


def test_json_and_yaml_give_the_same_skill() -> None:
    shell = {
        **SHELL,
        "id": "two",
        "command": "grep -- '{{q}}' a.txt",
        "cwd": "notes",
        "requireApproval": True,
    }
    fields = written(
        name="The desk",
        tools=[
            {"name": "two", "description": "Two", "parameters": {"properties": {"q": {}}, "required": ["q"]}}
        ],
        triggerPatterns=["a", "b"],
        actions=[CODE, HTTP, shell],
        provides=["x"],
        allowedPermissions=["skills:execute"],
        enabled=True,
        source="ai_proposed",
        status="active",
        odd={"a": [1, 2.5, None]},
    )
    left, right, short = (
        compiled(fields, manifest=name) for name in ("skill.json", "skill.yaml", "skill.yml")
    )
    assert left.skill is not None
    assert right.skill is not None
    assert left.skill.manifest != right.skill.manifest
    for other in (right, short):
        assert other.skill is not None
        assert [(note.code, note.message) for note in other.diagnostics] == [
            (note.code, note.message) for note in left.diagnostics
        ]
        for name in Skill.__struct_fields__:
            if name != "manifest":
                assert getattr(other.skill, name) == getattr(left.skill, name), name


@pytest.mark.parametrize("data", [b"{}", b'{"id": "desk", "description": "d", "name": "n"}'])
def test_a_file_with_neither_actions_instructions_nor_patterns_is_no_friday_skill(data: bytes) -> None:
    found = compile_manifest(data, folder="desk", manifest="skill.json", files=list)
    assert found.skill is None
    assert codes(found) == ["not_friday"]
    assert found.dialect == "friday"


@pytest.mark.parametrize("mark", ["actions", "instructions", "triggerPatterns"])
def test_each_of_the_three_makes_it_one(mark: str) -> None:
    fields = {"id": "desk", "description": "d", mark: "x" if mark == "instructions" else []}
    assert skill_of(fields).dialect == "friday"


@pytest.mark.parametrize(
    ("data", "code"),
    [(b"[]", "not_a_map"), (b"{", "bad_json"), (b"\xff", "not_utf8"), (b'{"id":1,"id":2}', "bad_json")],
)
def test_what_cannot_be_read_is_refused_under_the_folders_name(data: bytes, code: str) -> None:
    found = compile_skill(data, folder="desk", manifest="skill.json", location="", source="user")
    assert (found.skill, codes(found), found.name) == (None, [code], "desk")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", 7),
        ("id", "../x"),
        ("id", "a/b"),
        ("id", "x" * 201),
        ("id", "a\u200bb"),
        ("name", ["x"]),
        ("name", "x" * 201),
        ("description", ""),
        ("description", None),
        ("description", {"a": 1}),
        ("description", "x" * 2_001),
        ("instructions", 5),
        ("instructions", "x" * 8_001),
        ("tools", {"name": "x"}),
        ("tools", ["x"]),
        ("tools", [{}]),
        ("tools", [{"name": "x"}, {"name": "x"}]),
        ("tools", [{"name": "x", "parameters": []}]),
        ("tools", [{"name": "x", "parameters": {"type": "string"}}]),
        ("tools", [{"name": "x", "parameters": {"properties": []}}]),
        ("tools", [{"name": "x", "parameters": {"required": "x"}}]),
        ("tools", [{"name": "x", "parameters": {}, "inputSchema": {}}]),
        ("tools", [{"name": "x", "description": "d" * 2_001}]),
        ("triggerPatterns", "x"),
        ("triggerPatterns", [5]),
        ("triggerPatterns", [""]),
        ("triggerPatterns", ["x" * 501]),
        ("dependencies", {}),
        ("dependencies", ["../x"]),
        ("dependencies", [True]),
        ("provides", "x"),
        ("provides", ["a\nb"]),
        ("requireApproval", "true"),
        ("requireApproval", 1),
        ("requireApproval", None),
        ("allowedPermissions", "skills:execute"),
        ("allowedPermissions", [None]),
        ("enabled", "false"),
        ("enabled", 0),
        ("enabled", None),
        ("source", "bundled"),
        ("source", "workspace"),
        ("source", "me"),
        ("source", ["user"]),
        ("status", "broken"),
        ("status", "ACTIVE"),
        ("status", True),
        ("actions", {}),
        ("actions", [[]]),
        ("actions", [CODE] * 101),
        ("version", []),
        ("version", True),
        ("useWhen", "x" * 501),
        ("doNotUseWhen", "x" * 501),
        ("successCriteria", "x" * 301),
        ("emergencyStopProcedure", "x" * 1_001),
    ],
)
def test_a_field_with_a_bad_value_refuses_the_skill_with_a_reason(field: str, value: Any) -> None:
    assert compiled(written()).skill is not None
    found = compiled(written(**{field: value}))
    assert found.skill is None
    assert codes(found)
    assert all(note.message and note.line for note in found.diagnostics if note.severity == "error")


@pytest.mark.parametrize(
    ("field", "most"),
    [
        ("name", 200),
        ("description", 2_000),
        ("instructions", 8_000),
        ("useWhen", 500),
        ("successCriteria", 300),
    ],
)
def test_a_text_may_be_as_long_as_the_document_says(field: str, most: int) -> None:
    assert skill_of(written(**{field: "x" * most}))


def test_a_hundred_actions_are_taken() -> None:
    assert len(skill_of(written(actions=[{**CODE, "id": f"a{at}"} for at in range(100)])).tools) == 100


def test_fields_of_later_versions_are_kept_without_a_word_and_strange_ones_with_one() -> None:
    later: dict[str, Any] = {
        "useWhen": "a",
        "doNotUseWhen": "b",
        "successCriteria": "c",
        "mcpToolsAllowed": ["x"],
        "routing": "fuzzy",
        "autonomyLevel": "L1",
        "outputSchema": {"type": "object"},
        "linkedWorkflowId": "w",
        "emergencyStopProcedure": "d",
        "usageCount": 3,
        "invokedCount": 2,
    }
    quiet = compiled(written(**later, version=3))
    assert quiet.diagnostics == ()
    assert quiet.skill is not None
    assert quiet.skill.extra == later
    assert quiet.skill.version == "3"
    found = compiled(written(colour="red"))
    assert codes(found, "info") == ["unknown_field"]
    assert found.skill is not None
    assert found.skill.extra == {"colour": "red"}


def test_a_version_in_yaml_is_taken_as_it_is_written() -> None:
    data = b"id: desk\ndescription: d\nversion: 1.10 # ten\ninstructions: x\n"
    found = compile_skill(data, folder="desk", manifest="skill.yaml", location="", source="user")
    assert found.skill is not None
    assert found.skill.version == "1.10"


# Standing


@pytest.mark.parametrize(
    ("given", "said", "source", "status"),
    [
        ("user", None, "user", "active"),
        ("user", "user", "user", "active"),
        ("user", "marketplace", "installed", "active"),
        ("user", "community", "community", "active"),
        ("user", "ai_proposed", "ai_proposed", "pending_approval"),
        ("user", "ai_learned", "ai_learned", "pending_approval"),
        ("workspace", "user", "workspace", "active"),
        ("installed", "user", "installed", "active"),
        ("community", "user", "community", "active"),
        ("community", "ai_proposed", "community", "pending_approval"),
        ("ai_proposed", "user", "ai_proposed", "pending_approval"),
        ("bundled", None, "bundled", "active"),
        ("bundled", "user", "user", "active"),
    ],
)
def test_a_file_can_only_lower_where_it_came_from(
    given: Source, said: str | None, source: str, status: str
) -> None:
    fields = written() if said is None else written(source=said, status="active", enabled=True)
    skill = skill_of(fields, source=given)
    assert (skill.source, skill.status) == (source, status)
    assert bool(skill.why) == (status != "active")


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"enabled": True, "status": "active"}, "active"),
        ({}, "active"),
        ({"enabled": False}, "disabled"),
        ({"enabled": False, "status": "active"}, "disabled"),
        ({"enabled": True, "status": "disabled"}, "disabled"),
        ({"status": "pending_approval"}, "pending_approval"),
        ({"enabled": False, "status": "pending_approval"}, "disabled"),
        ({"enabled": False, "source": "ai_proposed"}, "disabled"),
        ({"status": "disabled", "source": "ai_learned"}, "disabled"),
    ],
)
def test_the_strictest_status_counts_and_says_why(fields: dict[str, Any], status: str) -> None:
    skill = skill_of(written(**fields))
    assert skill.status == status
    assert bool(skill.why) == (status != "active")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("actions", [CODE]),
        ("triggerPatterns", ["x"]),
        ("triggers", [{"type": "message"}]),
        ("dependencies", ["calendar"]),
        ("requireApproval", True),
        ("requireApproval", False),
    ],
)
def test_what_the_community_may_not_bring_is_refused_by_its_name(field: str, value: Any) -> None:
    assert compiled(written(**{field: value})).skill is not None, "the same of one's own is fine"
    for found in (
        compiled(written(**{field: value}), source="community"),
        compiled(written(**{field: value, "source": "community"})),
        compiled(written(**{field: value, "source": "user"}), source="community"),
    ):
        assert found.skill is None
        assert codes(found) == ["community_brings"]
        assert f"`{field}`" in next(note.message for note in found.diagnostics if note.severity == "error")


def test_what_the_community_leaves_empty_it_does_not_bring() -> None:
    empty = written(actions=[], triggerPatterns=[], dependencies=[])
    assert skill_of(empty, source="community").source == "community"


# What it may be given


@pytest.mark.parametrize("flag", [True, False])
def test_approval_asked_for_by_the_skill_holds_for_every_action(flag: bool) -> None:
    actions = [CODE, {**HTTP, "requireApproval": False}, {**SHELL, "requireApproval": True}]
    tools = skill_of(written(actions=actions, requireApproval=flag)).tools
    assert [tool.approval for tool in tools] == (["always"] * 3 if flag else ["policy", "policy", "always"])


@pytest.mark.parametrize(
    ("allowed", "refused"),
    [
        (None, []),
        (["skills:execute"], []),
        (["skills:execute", "host:api.example.com", "binary:wc", "read:notes", "write:notes"], []),
        (["host:api.example.com", "binary:wc", "read:{workspace}", "write:{workspace}/notes"], []),
        ([], ["add", "ask", "count"]),
        (["skills:create"], ["add", "ask", "count"]),
        (["skills:execute", "host:api.example.com"], ["count"]),
        (["skills:execute", "binary:wc", "read:notes"], ["ask", "count"]),
        (["network"], ["ask", "count"]),
        (["*"], ["ask", "count"]),
        (["host:*", "binary:*"], ["ask", "count"]),
        (["host:example.com", "binary:wc", "read:notes", "write:notes/deep"], ["ask", "count"]),
    ],
)
def test_allowed_permissions_are_an_upper_bound(allowed: list[str] | None, refused: list[str]) -> None:
    fields = written(actions=[CODE, HTTP, {**SHELL, "cwd": "notes"}])
    found = compiled(fields if allowed is None else {**fields, "allowedPermissions": allowed})
    errors = [note for note in found.diagnostics if note.severity == "error"]
    assert {note.code for note in errors} <= {"beyond_allowed"}
    assert [
        name for name in ("add", "ask", "count") if any(f"action {name} " in e.message for e in errors)
    ] == refused
    assert (found.skill is None) == bool(refused)


def test_allowed_permissions_give_nothing() -> None:
    allowed = ["skills:execute", "host:other.example.com", "binary:sh", "read:/etc", "secret:KEY"]
    skill = skill_of(written(actions=[CODE], allowedPermissions=allowed))
    assert skill.permissions == OWN_FOLDER


@pytest.mark.parametrize(
    "word", ["network", "host:", "host:*", "reads:/x", "read:../x", "skills:run", "Bash(*)"]
)
def test_a_word_that_is_not_understood_allows_nothing_and_is_said(word: str) -> None:
    found = compiled(written(allowedPermissions=[word]))
    assert found.skill is not None
    assert codes(found, "warning") == ["unknown_permission"]


# Tools


def test_the_schema_of_an_action_is_that_of_the_tool_of_its_name() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    for tool in (
        {"name": "add", "description": "Adds.", "parameters": schema},
        {"name": "add", "description": "Adds.", "inputSchema": schema},
        {"name": "add", "description": "Adds.", "input_schema": schema},
        {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": schema}},
    ):
        (made,) = skill_of(written(actions=[CODE], tools=[tool])).tools
        assert (made.description, made.parameters) == ("Adds.", schema)
    (made,) = skill_of(written(actions=[CODE])).tools
    assert made.parameters == {
        "type": "object",
        "properties": {"input": {"type": "object"}},
        "additionalProperties": False,
    }


def test_a_tool_that_no_action_stands_behind_is_kept_and_said() -> None:
    lone = {"name": "web_search", "description": "Elsewhere."}
    found = compiled(written(actions=[CODE], tools=[lone]))
    assert found.skill is not None
    assert found.skill.extra == {"tools": [lone]}
    assert codes(found, "info") == ["tool_without_action"]


def test_what_code_returns_can_have_a_schema() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    tool = {"name": "add", "outputSchema": schema}
    assert skill_of(written(actions=[CODE], tools=[tool])).tools[0].returns == schema
    assert skill_of(written(actions=[{**CODE, "outputSchema": schema}])).tools[0].returns == schema
    other = compiled(written(actions=[HTTP], tools=[{**tool, "name": "ask"}]))
    assert other.skill is not None
    assert other.skill.tools[0].returns is None
    assert other.skill.extra == {"actions": {"ask": {"tools.outputSchema": schema}}}


# The document


@pytest.mark.skipif(SEED is None, reason="the folder of source documents is not beside this one")
def test_the_fields_of_the_documents_interfaces_are_all_read() -> None:
    assert SEED is not None
    text = SEED.read_text(encoding="utf-8")
    actions: list[dict[str, Any]] = [
        {
            "type": "code",
            "language": "javascript",
            "code": "return params.input;",
            "timeoutMs": 30000,
            "memoryLimitMb": 256,
        },
        {
            "type": "http",
            "method": "POST",
            "url": "https://api.example.com/v1/notes",
            "headers": {"Accept": "application/json"},
            "body": '{"a": 1}',
            "timeoutMs": 1000,
            "retryCount": 2,
        },
        {
            "type": "shell",
            "command": "ls -l",
            "timeoutMs": 2000,
            "cwd": "notes",
            "allowedPaths": ["notes"],
        },
    ]
    whole = written(
        name="Desk",
        tools=[],
        triggerPatterns=["desk"],
        actions=actions,
        dependencies=[],
        provides=["order"],
        requireApproval=True,
        allowedPermissions=["skills:execute"],
        enabled=True,
        source="user",
        status="active",
    )
    for fields, interface in zip(
        (*actions, whole), ("CodeAction", "HttpAction", "ShellAction", "Skill"), strict=True
    ):
        body = text.partition(f"interface {interface} {{")[2].partition("\n}")[0]
        assert body
        for field in fields:
            assert f"  {field}:" in body or f"  {field}?:" in body, (interface, field)
        named = [line.strip().partition(":")[0].rstrip("?") for line in body.splitlines() if ":" in line]
        assert {name for name in named if name.isidentifier()} <= fields.keys(), interface
    assert all(right in text for right in RIGHTS)
    found = compiled(whole)
    assert found.skill is not None
    assert set(codes(found, "info")) == {"action_unnamed"}
    assert [tool.name for tool in found.skill.tools] == ["desk/code-1", "desk/http-2", "desk/shell-3"]
    assert not {"code", "http", "shell"} & found.skill.extra.keys()


def test_the_example_is_read_without_a_finding() -> None:
    file = ROOT / "examples" / "friday-reading-list" / "skill.yaml"
    found = compile_manifest(
        file.read_bytes(), folder="friday-reading-list", manifest="skill.yaml", files=list
    )
    assert found.diagnostics == ()
    assert found.skill is not None
    assert [type(tool.entry) for tool in found.skill.tools] == [InlineCode, HttpRequest, Command]
    assert [(tool.effect, tool.risk, tool.approval) for tool in found.skill.tools] == [
        ("act", "high", "policy"),
        ("read", "low", "policy"),
        ("act", "high", "always"),
    ]
    assert found.skill.permissions.plain() == {
        "binaries": ["wc"],
        "hosts": ["openlibrary.org"],
        "reads": [BASE_DIR, "{workspace}/docs/books"],
        "writes": ["{workspace}/docs/books"],
    }


@pytest.mark.parametrize("value", ["", "  ", None], ids=repr)
@pytest.mark.parametrize("key", ["status", "source"])
def test_a_word_that_says_nothing_is_no_word_for_the_usual(key: str, value: str | None) -> None:
    found = compiled(written(**{key: value}))
    assert found.skill is None
    (said,) = found.diagnostics
    assert said.code == "bad_field"
    assert f"`{key}` says nothing" in said.message
    assert compiled(written()).skill is not None, "the control: left out it is the usual"


def test_a_bound_that_is_null_is_not_no_bound() -> None:
    found = compiled(written(actions=[CODE], allowedPermissions=None))
    assert (found.skill, codes(found)) == (None, ["bad_field"])
    found = compiled(written(actions=[{**SHELL, "cwd": "docs", "allowedPaths": None}]))
    assert (found.skill, codes(found)) == (None, ["bad_field"])
    assert compiled(written(actions=[CODE, SHELL])).skill is not None, "the control: nobody has to write them"


def test_nothing_of_a_tool_that_is_wrapped_is_dropped() -> None:
    inner = {"name": "add", "description": "Adds.", "parameters": {"type": "object"}, "colour": "red"}
    tool = {"type": "function", "strict": True, "description": "Other.", "colour": "blue", "function": inner}
    found = compiled(written(actions=[CODE], tools=[tool]))
    assert found.skill is not None
    assert found.skill.tools[0].description == "Adds."
    assert found.skill.extra["actions"] == {
        "add": {
            "tools.type": "function",
            "tools.strict": True,
            "tools.description": "Other.",
            "tools.colour": "blue",
            "tools.function.colour": "red",
        }
    }
    assert codes(found, "info") == ["unknown_field"]


@pytest.mark.parametrize(
    ("manifest", "text"),
    [
        ("skill.json", '{"id": "desk", "description": "d", "instructions": "i", "version": 1.10}'),
        ("skill.yaml", "id: desk\ndescription: d\ninstructions: i\nversion: 1.10\n"),
    ],
)
def test_a_version_is_taken_as_it_is_written_in_json_and_in_yaml(manifest: str, text: str) -> None:
    found = compile_skill(text.encode(), folder="desk", manifest=manifest, location="", source="user")
    assert found.skill is not None
    assert found.skill.version == "1.10"
