"""MetaHuman manifests: every field's way, what is refused, and the manifests of its own document."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from metier.dialects.code_exports import MAX_BYTES, exported
from metier.dialects.compiled import Compiled
from metier.dialects.metahuman import compile_skill, is_code_manifest, of_manifest
from metier.dialects.metahuman_inputs import check_of
from metier.gate.named_checks import check_problem
from metier.gate.schema import problem_with, returned_problem, schema_problem
from metier.model.entry import PythonHandler, ScriptHandler
from metier.model.ground import Ground
from metier.model.permission import PermissionSet
from metier.model.skill import Limits, Skill, Tool

ROOT = Path(__file__).parents[2]
SEEDS = ROOT.parent / "shared" / "seeds"
EXAMPLE = ROOT / "examples" / "metahuman-word-count"

# fmt: off
CORE: dict[str, dict[str, Any]] = {
    "fs_read": {"effect": "read", "risk": "low", "cost": "cheap", "minimum_trust": "observe", "approval": "policy"},
    "fs_write": {"effect": "act", "risk": "high", "cost": "cheap", "minimum_trust": "supervised_auto", "approval": "always"},
    "search_index": {"effect": "read", "risk": "low", "cost": "expensive", "minimum_trust": "observe", "approval": "policy"},
    "run_agent": {"effect": "act", "risk": "medium", "cost": "expensive", "minimum_trust": "supervised_auto", "approval": "always"},
    "shell_safe": {"effect": "act", "risk": "high", "cost": "expensive", "minimum_trust": "bounded_auto", "approval": "always"},
}
# fmt: on


def manifest(**changed: Any) -> dict[str, Any]:
    """A manifest about which nothing is to be said, with other fields; `...` leaves one out."""
    fields: dict[str, Any] = {
        "id": "tea",
        "name": "Tea",
        "description": "Pours tea.",
        "category": "fs",
        "inputs": {"cup": {"type": "string", "required": True, "description": "Which cup"}},
        "outputs": {"poured": {"type": "number", "description": "Millilitres"}},
        "risk": "low",
        "cost": "free",
        "minTrustLevel": "observe",
        "requiresApproval": False,
    }
    return {key: value for key, value in (fields | changed).items() if value is not ...}


def read(fields: Any, name: str = "tea.json") -> Compiled:
    data = fields if isinstance(fields, bytes) else json.dumps(fields, indent=2).encode()
    return compile_skill(data, manifest=name, location="/skills", source="workspace")


def one(compiled: Compiled) -> tuple[Skill, Tool]:
    assert compiled.skill is not None, compiled.diagnostics
    (tool,) = compiled.skill.tools
    return compiled.skill, tool


def tool_of(**changed: Any) -> Tool:
    return one(read(manifest(**changed)))[1]


def codes(compiled: Compiled) -> list[str]:
    return [note.code for note in compiled.diagnostics]


def refusal(compiled: Compiled) -> tuple[str, str]:
    """Code and words of the one error there is."""
    assert compiled.skill is None
    assert compiled.dialect == "metahuman"
    (error,) = [note for note in compiled.diagnostics if note.severity == "error"]
    return error.code, error.message


def an_input(**fields: Any) -> dict[str, Any]:
    return {"cup": {"type": "string", "required": True, "description": "Which cup"} | fields}


def test_a_manifest_is_one_skill_with_one_tool_that_runs_execute_of_the_file_beside_it() -> None:
    compiled = read(manifest(version="1.2"))
    assert compiled.diagnostics == ()
    skill, tool = one(compiled)
    assert skill == Skill(
        name="tea",
        description="Pours tea.",
        dialect="metahuman",
        version="1.2",
        source="workspace",
        location="/skills",
        manifest="tea.json",
        tools=(tool,),
        extra={"category": "fs", "name": "Tea"},
    )
    assert tool == Tool(
        name="tea/execute",
        outward="tea",
        skill="tea",
        description="Pours tea.",
        answer="metahuman",
        parameters={
            "type": "object",
            "properties": {"cup": {"type": "string", "description": "Which cup"}},
            "additionalProperties": False,
            "required": ["cup"],
        },
        returns={
            "type": "object",
            "properties": {"poured": {"type": "number", "description": "Millilitres"}},
        },
        effect="read",
        risk="low",
        minimum_trust="observe",
        entry=PythonHandler(path="tea.py", function="execute"),
    )
    assert tool.limits == Limits(timeout=30)


def _document() -> str:
    try:
        (found,) = SEEDS.glob("002_*.txt")
    except ValueError:
        pytest.skip("the documents this is tested against do not lie beside the project")
    return found.read_text(encoding="utf-8")


def _literal(text: str) -> dict[str, Any]:
    """An object of TypeScript that holds nothing but data and one-line functions, which become text."""
    import pyjson5

    quoted = re.sub(r"(?m)(validation: )(.+)$", lambda found: found[1] + json.dumps(found[2]), text)
    return pyjson5.decode(quoted)


def _document_manifests() -> dict[str, dict[str, Any]]:
    blocks = re.findall(r"```typescript\n(\{\n  id: [\s\S]*?\n\})\n```", _document())
    return {found["id"]: found for found in map(_literal, blocks)}


def test_the_five_manifests_of_the_document_say_exactly_what_its_table_of_trust_says() -> None:
    found = _document_manifests()
    assert set(found) == set(CORE)
    for name, fields in found.items():
        compiled = read(fields, f"{name}.json")
        skill, tool = one(compiled)
        # The one that ships with Metier has agents run, and no other does.
        assert codes(compiled) == (["reserved_operation"] if name == "run_agent" else [])
        assert {word: getattr(tool, word) for word in CORE[name]} == CORE[name]
        assert (skill.name, tool.name, tool.outward) == (name, f"{name}/execute", name)
        assert not skill.asks_network
        assert schema_problem(tool.parameters) == ""


def test_the_five_manifests_of_the_document_touch_only_what_they_list_and_keep_their_checks() -> None:
    tools = {name: one(read(fields, f"{name}.json"))[1] for name, fields in _document_manifests().items()}
    read_below = {"memory", "persona", "logs", "out", "etc", "docs"}
    write_below = ["{workspace}/logs", "{workspace}/memory", "{workspace}/out"]
    assert {name: tool.permissions.plain() for name, tool in tools.items()} == {
        "fs_read": {"reads": sorted(f"{{workspace}}/{each}" for each in read_below)},
        "fs_write": {"reads": write_below, "writes": write_below},
        "search_index": {"operations": ["memory.search"]},
        "run_agent": {"operations": ["agents.run", "agents.status"]},
        "shell_safe": {"binaries": ["cat", "find", "git", "grep", "ls", "pnpm"]},
    }
    assert {name: tool.checks for name, tool in tools.items()} == {
        "fs_read": {"path": "isWithinAllowedDirectory"},
        "fs_write": {"path": "isWriteAllowed"},
        "search_index": {},
        "run_agent": {"agentName": "isValidAgent"},
        "shell_safe": {"command": "isWhitelisted"},
    }
    assert {name: tool.parameters.get("required") for name, tool in tools.items()} == {
        "fs_read": ["path"],
        "fs_write": ["path", "content"],
        "search_index": ["query"],
        "run_agent": ["agentName"],
        "shell_safe": ["command"],
    }
    returned = tools["shell_safe"].returns
    assert returned is not None
    assert returned["properties"].keys() == {"stdout", "stderr", "exitCode"}  # type: ignore[union-attr]


def test_the_skeleton_of_the_document_is_seen_as_code_and_its_manifest_is_a_skill() -> None:
    (code,) = re.findall(r"```typescript\n(// brain/skills/my_skill\.ts[\s\S]*?)```", _document())
    assert is_code_manifest(code.encode())
    (literal,) = re.findall(r"manifest: SkillManifest = (\{[\s\S]*?\n\});", code)
    compiled = of_manifest(
        _literal(literal),
        stem="my_skill",
        manifest="my_skill.ts",
        location="",
        source="user",
        language="typescript",
        path="my_skill.ts",
    )
    skill, tool = one(compiled)
    assert skill.manifest == "my_skill.ts"
    assert tool.entry == ScriptHandler(path="my_skill.ts", language="typescript", export="execute")
    assert (tool.risk, tool.approval, tool.parameters["properties"]) == ("medium", "always", {})


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (manifest(id="coffee"), "both must be the same"),
        (manifest(id="Tea"), "both must be the same"),
        (manifest(id=...), "no `id`"),
        (manifest(id=7), "no `id`"),
        (manifest(category=...), "no `category`"),
        (manifest(inputs=...), "no `inputs`"),
        (manifest(inputs=..., category=...), "no `category` and no `inputs`"),
        ({"name": "tea", "version": "1.0.0", "dependencies": {}}, "no `id`"),
        ({}, "no `id`"),
    ],
)
def test_a_json_file_of_another_kind_is_no_skill_of_this_dialect(fields: Any, why: str) -> None:
    code, message = refusal(read(fields))
    assert code == "not_metahuman"
    assert why in message


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "bad_json"),
        (b"{", "bad_json"),
        (b'{"id": "tea", "id": "tea"}', "bad_json"),
        (b'{"id": NaN}', "bad_json"),
        (b"[]", "not_a_map"),
        (b"\xff", "not_utf8"),
        (b'{"id": "' + b"x" * 300_000 + b'"}', "too_large"),
    ],
)
def test_what_is_no_strict_json_object_is_refused_with_the_reason(data: bytes, code: str) -> None:
    compiled = read(data)
    assert compiled.skill is None
    assert codes(compiled) == [code]
    assert compiled.name == "tea"


def test_a_byte_order_mark_and_foreign_line_ends_change_nothing() -> None:
    plain = json.dumps(manifest(), indent=2)
    assert read(b"\xef\xbb\xbf" + plain.replace("\n", "\r\n").encode()).skill == read(plain.encode()).skill


@pytest.mark.parametrize("name", ["a b", "tea✓", "x" * 65, "-tea", ".tea", "con", "té"])
def test_an_id_that_is_no_plain_name_is_refused(name: str) -> None:
    code, _ = refusal(read(manifest(id=name), f"{name}.json"))
    assert code == "bad_name"


def test_an_id_with_dots_has_no_outward_name_of_its_own() -> None:
    _, tool = one(read(manifest(id="tasks.add"), "tasks.add.json"))
    assert (tool.name, tool.outward) == ("tasks.add/execute", "")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("category", "Fs"),
        ("category", "kitchen"),
        ("category", None),
        ("category", ["fs"]),
        ("risk", "none"),
        ("risk", "LOW"),
        ("risk", None),
        ("risk", 1),
        ("cost", "cheapest"),
        ("cost", 0),
        ("minTrustLevel", "auto"),
        ("minTrustLevel", "Observe"),
        ("minTrustLevel", 2),
        ("requiresApproval", "false"),
        ("requiresApproval", 0),
        ("requiresApproval", []),
        ("allowedDirectories", "memory/"),
        ("allowedDirectories", [7]),
        ("allowedDirectories", None),
        ("commandWhitelist", "ls"),
        ("commandWhitelist", {"ls": True}),
    ],
)
def test_a_value_that_is_no_word_of_its_field_refuses_the_skill_and_names_the_field(
    field: str, value: Any
) -> None:
    code, message = refusal(read(manifest(**{field: value})))
    assert code == "bad_field"
    assert field in message


def test_a_finding_says_on_which_line_of_the_file_it_is() -> None:
    fields = manifest(risk="none", allowedDirectories=["brain/"], author="me")
    lines = json.dumps(fields, indent=2).split("\n")
    found = {note.code: note.line for note in read(fields).diagnostics}
    assert found == {
        code: next(at for at, line in enumerate(lines, 1) if f'"{key}"' in line)
        for code, key in (
            ("bad_field", "risk"),
            ("bad_folder", "allowedDirectories"),
            ("unknown_field", "author"),
        )
    }


@pytest.mark.parametrize("category", ["fs", "memory", "agent", "shell", "network"])
def test_each_category_is_kept_and_only_network_asks_for_hosts(category: str) -> None:
    skill, _ = one(read(manifest(category=category)))
    assert skill.extra["category"] == category
    assert skill.asks_network == (category == "network")


@pytest.mark.parametrize("level", ["observe", "suggest", "supervised_auto", "bounded_auto", "adaptive_auto"])
def test_each_level_of_the_ladder_is_taken_as_it_is(level: str) -> None:
    assert tool_of(minTrustLevel=level).minimum_trust == level


def test_what_is_left_out_is_reported_and_never_makes_it_easier() -> None:
    left_out = dict.fromkeys(("outputs", "cost", "risk", "minTrustLevel", "requiresApproval", "name"), ...)
    compiled = read(manifest(**left_out))
    _, tool = one(compiled)
    assert codes(compiled) == ["missing_field"] * 6
    assert all(note.severity == "warning" for note in compiled.diagnostics)
    assert (tool.effect, tool.risk, tool.cost) == ("act", "medium", "expensive")
    assert (tool.minimum_trust, tool.approval, tool.returns) == ("supervised_auto", "always", None)
    for key in left_out:
        assert any(key in note.message for note in compiled.diagnostics)


def test_without_a_word_about_approval_it_is_always_asked_and_counts_as_an_act() -> None:
    tool = tool_of(requiresApproval=...)
    assert (tool.approval, tool.effect) == ("always", "act")
    assert tool_of(requiresApproval=False).approval == "policy"


def test_a_skill_about_agents_may_ask_whether_one_runs_and_have_none_run() -> None:
    _, tool = one(read(manifest(category="agent")))
    assert tool.permissions.operations == {"agents.status"}
    assert (tool.effect, tool.risk) == ("read", "low")


def test_only_low_risk_without_approval_is_reading() -> None:
    assert tool_of(risk="low", requiresApproval=False).effect == "read"
    assert tool_of(risk="low", requiresApproval=True).effect == "act"
    assert tool_of(risk="medium", requiresApproval=False).effect == "act"
    assert tool_of(risk="high", requiresApproval=False).effect == "act"


def test_who_reaches_others_acts_though_it_says_low_and_that_gives_it_nothing_to_write() -> None:
    compiled = read(manifest(category="network", allowedDirectories=["memory/"]))
    _, tool = one(compiled)
    assert (tool.effect, tool.risk, tool.minimum_trust) == ("act", "high", "supervised_auto")
    assert codes(compiled) == ["risk_raised", "counts_as_act"]
    assert tool.permissions.reads == {"{workspace}/memory"}
    assert not tool.permissions.writes


@pytest.mark.parametrize(
    ("changed", "least"),
    [
        ({"category": "shell"}, "high"),
        ({"category": "network"}, "high"),
        ({"allowedDirectories": ["out/"]}, "high"),
        ({"commandWhitelist": ["bash"]}, "high"),
        ({"category": "memory"}, "medium"),
    ],
)
def test_a_declared_risk_is_raised_to_what_the_tool_can_do_and_that_is_said(
    changed: dict[str, Any], least: str
) -> None:
    compiled = read(manifest(risk="low", requiresApproval=True, **changed))
    _, tool = one(compiled)
    assert tool.risk == least
    assert "risk_raised" in codes(compiled)
    assert tool_of(risk=..., **changed).risk == least
    higher = read(manifest(risk="high", **changed))
    assert one(higher)[1].risk == "high"
    assert "risk_raised" not in codes(higher)


@pytest.mark.parametrize("kind", ["string", "number", "boolean", "object", "array"])
def test_each_type_of_input_and_output_is_checked_as_that_type(kind: str) -> None:
    values = {"string": "x", "number": 1.5, "boolean": True, "object": {"a": 1}, "array": [1]}
    tool = tool_of(inputs=an_input(type=kind), outputs={"cup": {"type": kind, "description": "d"}})
    assert tool.returns is not None
    for other, value in values.items():
        assert (problem_with(tool.parameters, {"cup": value}) == "") == (other == kind)
        assert (returned_problem(tool.returns, {"cup": value}) == "") == (other == kind)


def test_a_call_needs_what_is_required_and_nothing_else_is_taken() -> None:
    tool = tool_of(inputs=an_input() | {"milk": {"type": "boolean", "required": False, "description": "d"}})
    assert problem_with(tool.parameters, {"cup": "a"}) == ""
    assert "is required" in problem_with(tool.parameters, {"milk": True})
    assert "not known" in problem_with(tool.parameters, {"cup": "a", "sugar": 1})
    assert tool.returns is not None
    assert returned_problem(tool.returns, {}) == "", "no output has to be there"


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (an_input(type="integer"), "bad_inputs"),
        (an_input(type=["string"]), "bad_inputs"),
        (an_input(type=None), "bad_inputs"),
        (an_input(required="yes"), "bad_inputs"),
        (an_input(required=1), "bad_inputs"),
        (an_input(description=5), "bad_inputs"),
        ({"cup": "string"}, "bad_inputs"),
        ({"cup": None}, "bad_inputs"),
        ({"": an_input()["cup"]}, "bad_inputs"),
        ({"a b": an_input()["cup"]}, "bad_inputs"),
        ({"__proto__": an_input()["cup"]}, "bad_inputs"),
        ({"x" * 65: an_input()["cup"]}, "bad_inputs"),
        (["cup"], "bad_inputs"),
        (None, "bad_inputs"),
        (an_input(validation=None), "bad_validation"),
        (an_input(validation=True), "bad_validation"),
        (an_input(validation={"min": 1}), "bad_validation"),
        (an_input(validation=""), "bad_validation"),
        (an_input(validation="isTea"), "bad_validation"),
        (an_input(type="array", validation="isWhitelisted"), "bad_validation"),
    ],
)
def test_an_input_that_cannot_be_understood_refuses_the_skill(given: Any, code: str) -> None:
    assert refusal(read(manifest(inputs=given)))[0] == code


@pytest.mark.parametrize(
    "given", ["none", [], {"cup": "text"}, {"cup": {"type": "date", "description": "d"}}]
)
def test_an_output_that_cannot_be_understood_refuses_the_skill(given: Any) -> None:
    assert refusal(read(manifest(outputs=given)))[0] == "bad_outputs"


def test_an_input_that_does_not_say_whether_it_is_required_is_required() -> None:
    compiled = read(manifest(inputs={"cup": {"type": "string", "description": "d"}}))
    assert one(compiled)[1].parameters["required"] == ["cup"]
    assert codes(compiled) == ["missing_field"]


def test_what_an_input_says_beyond_the_dialect_is_kept_and_said() -> None:
    compiled = read(manifest(inputs=an_input(enum=["a"], default="a")))
    skill, tool = one(compiled)
    assert skill.extra["inputs"] == {"cup": {"enum": ["a"], "default": "a"}}
    assert codes(compiled) == ["unknown_field"]
    assert tool.parameters["properties"] == {"cup": {"type": "string", "description": "Which cup"}}


def test_unknown_fields_are_kept_and_said_once_each() -> None:
    compiled = read(manifest(author="me", tags=["x"], instructions=None))
    skill, _ = one(compiled)
    assert skill.extra == {"category": "fs", "name": "Tea", "author": "me", "tags": ["x"]}
    assert codes(compiled) == ["unknown_field", "unknown_field"]


def test_what_nobody_sees_in_a_description_is_said() -> None:
    compiled = read(
        manifest(
            description="Pours\u200b tea.", inputs=an_input(description="Which \u202ecup"), name="T\u2063ea"
        )
    )
    assert codes(compiled) == ["hidden_characters"] * 3


def test_a_skill_without_a_description_is_refused() -> None:
    assert refusal(read(manifest(description=...)))[0] == "no_description"
    assert refusal(read(manifest(description=["a"])))[0] == "no_description"


@pytest.mark.parametrize(
    ("text", "check"),
    [
        ("isWriteAllowed", "isWriteAllowed"),
        ("(path) => isWithinAllowedDirectory(path)", "isWithinAllowedDirectory"),
        ("path => isWithinAllowedDirectory(path)", "isWithinAllowedDirectory"),
        ("(cmd: string) => isWhitelisted(cmd)", "isWhitelisted"),
        ("(cmd: string): boolean => isWhitelisted( cmd );", "isWhitelisted"),
        ("(name) => { return isValidAgent(name); }", "isValidAgent"),
        ("function (p) {\n  return isWriteAllowed(p);\n}", "isWriteAllowed"),
        ("function validation(p) { return isWriteAllowed(p) }", "isWriteAllowed"),
        ("validation(p) { return isWriteAllowed(p); }", "isWriteAllowed"),
    ],
)
def test_a_function_that_only_asks_a_known_check_is_that_check(text: str, check: str) -> None:
    assert check_of(text) == check
    inputs = an_input(validation=text)
    assert tool_of(inputs=inputs).checks == {"cup": check}


@pytest.mark.parametrize(
    "text",
    [
        "(path) => true",
        "(path) => !isWriteAllowed(path)",
        "(path) => isWriteAllowed(path) || true",
        "(path) => isWriteAllowed('memory/x')",
        "(path) => isWriteAllowed(other)",
        "(path) => isWriteAllowed(path, true)",
        "(path) => isWriteAllowed(path) && isWhitelisted(path)",
        "(path, x) => isWriteAllowed(path)",
        "(path = 'memory/x') => isWriteAllowed(path)",
        "({path}) => isWriteAllowed(path)",
        "(...path) => isWriteAllowed(path)",
        "async (path) => isWriteAllowed(path)",
        "(isWriteAllowed) => isWriteAllowed(isWriteAllowed)",
        "(path) => { isWriteAllowed(path) }",
        "(path) => { return isWriteAllowed(path); } ; evil()",
        "(path) => { return isWriteAllowed(path)",
        "function (path) => isWriteAllowed(path)",
        "function(path) isWriteAllowed(path)",
        "(path) => fs.isWriteAllowed(path)",
        "(path) => isWriteAllowed?.(path)",
        "(path) => /* ok */ isWriteAllowed(path)",
        "iswriteallowed",
        " isWriteAllowed",
        "isWriteAllowed()",
        "toString",
        "(path) => isWriteAllowed(path)" + " " * 500,
    ],
)
def test_any_other_function_is_code_and_never_silently_left_out(text: str) -> None:
    assert check_of(text) is None
    code, message = refusal(read(manifest(inputs=an_input(validation=text))))
    assert code == "bad_validation"
    assert "inputs.cup" in message


def _of_code(fields: dict[str, Any], exports: tuple[str, ...] = (), path: str = "tea.ts") -> Compiled:
    languages: dict[str, Any] = {"ts": "typescript", "js": "javascript", "py": "python"}
    return of_manifest(
        fields,
        stem="tea",
        manifest=path,
        location="/skills",
        source="user",
        language=languages[path[-2:]],
        path=path,
        exports=exports,
    )


def test_a_validation_that_names_an_exported_function_runs_before_the_call() -> None:
    fields = manifest(inputs=an_input(validation="isTea"))
    _, tool = one(_of_code(fields, ("execute", "isTea")))
    assert tool.validator == ScriptHandler(path="tea.ts", language="typescript", export="isTea")
    _, tool = one(_of_code(fields, ("isTea",), "tea.py"))
    assert tool.validator == PythonHandler(path="tea.py", function="isTea")
    assert _of_code(fields, ("execute",)).skill is None
    two = an_input(validation="isTea") | {"pot": an_input(validation="isPot")["cup"]}
    assert refusal(_of_code(manifest(inputs=two), ("isTea", "isPot")))[0] == "bad_validation"


def test_a_manifest_that_was_run_gives_the_same_skill_as_one_that_was_read() -> None:
    from msgspec.structs import replace

    ours, theirs = one(read(manifest())), one(_of_code(manifest(), path="tea.js"))
    entry = ScriptHandler(path="tea.js", language="javascript", export="execute")
    assert theirs[1] == replace(ours[1], entry=entry)
    assert refusal(_of_code(manifest(id="coffee")))[0] == "not_metahuman"
    assert _of_code({"id": float("nan")}).diagnostics[0].code == "not_metahuman"


def test_the_file_with_the_code_may_be_named() -> None:
    _, tool = one(read(manifest(implementation="pot.ts")))
    assert tool.entry == ScriptHandler(path="pot.ts", language="typescript", export="execute")
    _, tool = one(read(manifest(implementation="pot.js")))
    assert tool.entry == ScriptHandler(path="pot.js", language="javascript", export="execute")
    _, tool = one(read(manifest(implementation="pot.py")))
    assert tool.entry == PythonHandler(path="pot.py", function="execute")
    assert refusal(_of_code(manifest(implementation="pot.ts")))[0] == "bad_implementation"


@pytest.mark.parametrize(
    "name",
    ["../pot.py", "/pot.py", "sub/pot.py", "pot.sh", "pot", ".py", "-x.py", "a b.py", 5, ["pot.py"], ""],
)
def test_code_that_is_no_file_beside_the_manifest_is_refused(name: Any) -> None:
    assert refusal(read(manifest(implementation=name)))[0] == "bad_implementation"


def test_folders_are_of_the_workspace_unless_they_begin_at_the_root() -> None:
    folders = ["memory/", "docs", "out/reports/", "/srv/notes/", "/srv/notes/old", "etc/"]
    assert tool_of(allowedDirectories=folders).permissions == PermissionSet(
        reads=frozenset(
            {
                "{workspace}/memory",
                "{workspace}/docs",
                "{workspace}/out/reports",
                "/srv/notes",
                "{workspace}/etc",
            }
        )
    )
    written = tool_of(allowedDirectories=["memory/", "/srv/notes/"], risk="high").permissions
    assert written.writes == written.reads == frozenset({"{workspace}/memory", "/srv/notes"})
    assert tool_of(allowedDirectories=[]).permissions == PermissionSet()


def test_the_skill_may_do_what_its_tool_may_and_read_its_own_folder() -> None:
    skill, tool = one(read(manifest(allowedDirectories=["memory/"], commandWhitelist=["git"])))
    assert skill.permissions == tool.permissions | PermissionSet(reads=frozenset({"{baseDir}"}))
    assert "{baseDir}" not in tool.permissions.reads


@pytest.mark.parametrize(
    "folder",
    [
        "", " ", "/", "//", ".", "./", "..", "../x/", "memory/../brain/", "/srv/../etc", "~", "~/notes", "~ada/",
        "memory//x", "./memory/", "memory/./x", "/srv/./x", "*", "memory/*", "mem?ry", "mem\\ory", "{workspace}/memory",
        "{baseDir}", "$HOME/x", "memory\n", "mem\u200bory/", "memory\x00", " memory/", "x" * 1025,
    ],
)  # fmt: skip
def test_fs_01_a_folder_that_could_mean_another_place_refuses_the_skill(folder: str) -> None:
    code, message = refusal(read(manifest(allowedDirectories=["memory/", folder])))
    assert code == "bad_folder"
    assert "\n" not in message


@pytest.mark.parametrize("risk", ["low", "high"])
@pytest.mark.parametrize(
    "folder",
    ["brain/", "brain", "Brain/", "BRAIN/agents/", "packages/", "packages/core/", "apps/", "node_modules/",
     "docs/node_modules/x/", "/srv/node_modules/"],
)  # fmt: skip
def test_no_skill_gets_the_folders_that_hold_code_neither_to_read_nor_to_write(
    folder: str, risk: str
) -> None:
    assert refusal(read(manifest(allowedDirectories=[folder], risk=risk)))[0] == "bad_folder"


def test_names_that_only_begin_like_a_folder_of_code_are_other_folders() -> None:
    assert tool_of(allowedDirectories=["brainstorm/", "docs/brain/", "apps2"]).permissions.reads == {
        "{workspace}/brainstorm",
        "{workspace}/docs/brain",
        "{workspace}/apps2",
    }


def test_persona_is_read_by_those_who_ask_and_written_by_nobody() -> None:
    for folder in ("persona/", "Persona/core/"):
        compiled = read(manifest(allowedDirectories=["memory/", folder], risk="high"))
        permissions = one(compiled)[1].permissions
        assert permissions.writes == {"{workspace}/memory"}
        assert permissions.reads == {"{workspace}/memory", "{workspace}/" + folder.rstrip("/")}
        assert codes(compiled) == ["only_read"]
    silent = read(manifest(allowedDirectories=["persona/"]))
    assert one(silent)[1].permissions == PermissionSet(reads=frozenset({"{workspace}/persona"}))
    assert silent.diagnostics == ()


@pytest.mark.parametrize(
    "program",
    [
        "",
        "*",
        "/bin/ls",
        "./ls",
        "../ls",
        "git status",
        "ls;rm",
        "ls|sh",
        "$SHELL",
        "-rf",
        "ls\n",
        "ls\u200b",
        "x" * 65,
    ],
)
def test_a_program_that_is_no_plain_name_refuses_the_skill(program: str) -> None:
    assert refusal(read(manifest(commandWhitelist=["ls", program])))[0] == "bad_program"


def test_programs_are_taken_by_their_names() -> None:
    assert tool_of(commandWhitelist=["ls", "git", "ls", "python3.12", "g++"]).permissions == PermissionSet(
        binaries=frozenset({"ls", "git", "python3.12", "g++"})
    )


@pytest.mark.parametrize(
    ("check", "changed"),
    [
        ("isWithinAllowedDirectory", {"allowedDirectories": ["memory/"]}),
        ("isWriteAllowed", {"allowedDirectories": ["memory/"], "risk": "high"}),
        ("isWhitelisted", {"commandWhitelist": ["ls"]}),
    ],
)
def test_a_check_that_nothing_can_pass_is_said(check: str, changed: dict[str, Any]) -> None:
    empty = read(manifest(inputs=an_input(validation=check)))
    assert codes(empty) == ["nothing_passes"]
    filled = read(manifest(inputs=an_input(validation=check), **changed))
    assert filled.diagnostics == ()


def test_fs_03_a_folder_of_nearly_the_same_name_is_not_allowed_by_the_check(tmp_path: Path) -> None:
    workspace = tmp_path.resolve()
    for folder in ("memory", "memory-evil"):
        (workspace / folder).mkdir()
        (workspace / folder / "x").write_text("x")
    tool = tool_of(inputs=an_input(validation="isWithinAllowedDirectory"), allowedDirectories=["memory/"])
    ground = Ground(workspace=str(workspace))
    assert check_problem(tool, {"cup": str(workspace / "memory" / "x")}, ground) == ""
    assert "none of the folders" in check_problem(tool, {"cup": str(workspace / "memory-evil" / "x")}, ground)


def test_fs_04_a_link_that_leads_out_of_an_allowed_folder_is_not_allowed_by_the_check(tmp_path: Path) -> None:
    workspace = tmp_path.resolve() / "workspace"
    (workspace / "memory").mkdir(parents=True)
    (tmp_path / "secret").write_text("s")
    (workspace / "memory" / "plain").write_text("p")
    (workspace / "memory" / "link").symlink_to(tmp_path / "secret")
    tool = tool_of(inputs=an_input(validation="isWithinAllowedDirectory"), allowedDirectories=["memory/"])
    ground = Ground(workspace=str(workspace))
    assert check_problem(tool, {"cup": "memory/plain"}, ground) == ""
    assert check_problem(tool, {"cup": "memory/link"}, ground) != ""


def test_the_commands_of_the_manifest_bound_what_may_be_asked_for() -> None:
    tool = tool_of(inputs=an_input(validation="isWhitelisted"), commandWhitelist=["ls"])
    assert check_problem(tool, {"cup": "ls"}, Ground()) == ""
    for other in ("rm", "/bin/ls", "ls;rm", "LS"):
        assert check_problem(tool, {"cup": other}, Ground()) != ""


@pytest.mark.parametrize(
    "code",
    [
        "export const manifest = {};\nexport async function execute(inputs) {}",
        "export const manifest: SkillManifest = { a: { b: 1 } };\nexport const execute = async (x: any) => ({});",
        "export let manifest={};export function execute(){}",
        "const manifest = {}; function execute() {}\nexport { manifest, execute };",
        "export { a as manifest, b as execute }",
        "module.exports = { manifest, execute };",
        "module.exports = { manifest: { id: 'x' }, async execute(inputs) { return {}; } };",
        "exports.manifest = {}; exports.execute = () => {};",
        "const re = /[`\"']/; export const manifest = {};\nexport function execute() {}",
        "const s = `a ${ `b ${1}` } }`; export const manifest = {};\nexport function execute() {}",
        "/* a */ export /* b */ const /* c */ manifest = {}; // d\nexport async function execute() {}",
        "const half = 10 / 2; const it = 'don\\'t'; export const manifest = {};\nexport function execute() {}",
    ],
)
def test_code_that_exports_a_manifest_and_execute_is_seen(code: str) -> None:
    assert is_code_manifest(code.encode())
    assert {"manifest", "execute"} <= exported(code.encode())


@pytest.mark.parametrize(
    "code",
    [
        "",
        "export const manifest = {};",
        "export function execute() {}",
        "const manifest = {}; function execute() {}",
        "// export const manifest = {}\n// export function execute() {}",
        "/* export const manifest = {}; export function execute() {} */",
        "const s = 'export const manifest = {}; export function execute() {}';",
        "const s = `\nexport const manifest = {};\nexport function execute() {}\n`;",
        "const s = `${1}\nexport const manifest = {};\nexport function execute() {}\n`;",
        "namespace a { export const manifest = {}; export function execute() {} }",
        "export const manifests = {}; export function executeAll() {}",
        "export type manifest = {}; export interface execute {}",
        "export declare const manifest: {}; export declare function execute(): void;",
        "export { manifest, execute } from './tea.js';",
        "export * from './tea.js'; import { manifest, execute } from './tea.js';",
        "if (exports.manifest == 1) {}; exports.execute === 2;",
        "x.exports.manifest = 1; x.exports.execute = 2;",
        "reexport const manifest = 1; reexport function execute() {}",
        "const a = { export: 1, manifest: 2, execute: 3 };",
        "import manifest from './manifest.json'; export default { manifest, execute };",
        "export { manifest as default, execute as run };",
    ],
)
def test_ordinary_files_are_not_taken_for_skills(code: str) -> None:
    assert not is_code_manifest(code.encode())


def test_bytes_that_are_no_text_or_too_many_are_no_skill() -> None:
    code = b"export const manifest = {}; export function execute() {}\n"
    assert is_code_manifest(code)
    assert not is_code_manifest(code + b"\xff")
    assert not is_code_manifest(code + b" " * MAX_BYTES)


@pytest.mark.parametrize(
    "sign", ["=/[", "`${", "{", "}", "'", '"', "/*", "//", "export{", "export ", "`", "<a/"]
)
def test_code_made_to_be_slow_is_looked_at_quickly(sign: str) -> None:
    import time

    def cost(sign: str) -> float:
        head = "export const manifest = {}; export function execute() {}\n"
        data = (head + sign * ((MAX_BYTES - len(head)) // len(sign))).encode()
        began = time.process_time()
        is_code_manifest(data)
        return time.process_time() - began

    # Against code of the same size that is looked at sign by sign, so that it holds on any machine.
    assert min(cost(sign), cost(sign)) < 6 * max(cost("{"), cost("{"))


def test_the_example_loads_without_a_word_and_its_code_does_what_the_manifest_says(tmp_path: Path) -> None:
    compiled = compile_skill((EXAMPLE / "word_count.json").read_bytes(), manifest="word_count.json")
    assert compiled.diagnostics == ()
    _, tool = one(compiled)
    assert isinstance(tool.entry, PythonHandler)
    assert (EXAMPLE / tool.entry.path).is_file()
    module: dict[str, Any] = {}
    exec((EXAMPLE / tool.entry.path).read_text(encoding="utf-8"), module)  # noqa: S102 (no compiled file is left behind)
    execute = module[tool.entry.function]
    note = tmp_path / "note.txt"
    note.write_text("one two\nthree\n", encoding="utf-8")
    given = {"path": str(note), "longest": True}
    assert problem_with(tool.parameters, given) == ""
    answer = execute(given)
    assert answer == {"success": True, "lines": 2, "words": 3, "longest": "three"}
    assert tool.returns is not None
    assert returned_problem(tool.returns, {key: answer[key] for key in answer if key != "success"}) == ""
    assert execute({"path": str(tmp_path / "none")})["success"] is False


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
FIELDS = st.sampled_from(
    [*manifest(), "allowedDirectories", "commandWhitelist", "implementation", "version", "x"]
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(FIELDS, JSON, max_size=5), st.dictionaries(st.text(max_size=8), JSON, max_size=2))
@example({"inputs": {"cup": {"type": "string", "validation": "("}}}, {})
@example({"inputs": {"cup\ud800": {"type": "string"}}}, {})
def test_whatever_a_manifest_holds_there_is_a_skill_or_an_error(
    changed: dict[str, Any], more: dict[str, Any]
) -> None:
    for fields in (
        manifest() | changed | more,
        changed | more,
        manifest(inputs=more),
        manifest(inputs=an_input(**more)),
    ):
        for compiled in (_of_code(fields), read(fields)):
            failed = any(note.severity == "error" for note in compiled.diagnostics)
            assert failed == (compiled.skill is None)
            if compiled.skill is not None:
                assert compiled.skill.permissions.covers(compiled.skill.tools[0].permissions)
                assert schema_problem(compiled.skill.tools[0].parameters) == ""


@settings(max_examples=300, deadline=None)
@given(
    st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass"))
)
def test_whatever_the_bytes_are_nothing_raises(data: bytes) -> None:
    assert read(data).skill is None
    is_code_manifest(b"export manifest execute " + data)
