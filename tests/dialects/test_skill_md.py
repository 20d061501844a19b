"""From bytes to a skill: names, descriptions, dialects, and every field's way."""

import msgspec
import pytest

from metier.dialects.agent_skills import tool_names
from metier.dialects.compiled import Compiled
from metier.dialects.frontmatter import body, read
from metier.dialects.skill_md import compile_skill
from metier.model.skill import Activation, CommandDispatch, Skill


def _compiled(block: str, folder: str = "x", manifest: str = "SKILL.md") -> Compiled:
    return compile_skill(f"---\n{block}\n---\nbody\n".encode(), folder=folder, manifest=manifest)


def _skill(block: str) -> Skill:
    skill = _compiled(f"name: x\ndescription: d\n{block}").skill
    assert skill is not None
    return skill


def _codes(compiled: Compiled) -> list[str]:
    return [found.code for found in compiled.diagnostics]


def test_a_plain_skill_needs_no_words_about_it() -> None:
    compiled = _compiled("name: x\ndescription: d")
    assert compiled.diagnostics == ()
    assert compiled.dialect == "agent_skills"
    assert compiled.metadata is None
    assert compiled.skill is not None and compiled.skill.permissions.plain() == {"reads": ["{baseDir}"]}


def test_without_a_name_the_folder_gives_it() -> None:
    compiled = _compiled("description: d", folder="my-folder")
    assert compiled.skill is not None and compiled.skill.name == "my-folder"


def test_without_a_description_a_skill_is_refused_and_told_what_to_write() -> None:
    compiled = _compiled("name: x\nDescription: d")
    assert compiled.skill is None
    (found,) = [found for found in compiled.diagnostics if found.severity == "error"]
    assert (found.code, found.line) == ("no_description", 3)
    assert '"Description" is not read' in found.message
    assert "`description:" in found.message
    assert compiled.name == "x"


@pytest.mark.parametrize(
    "name",
    [
        "../up",
        "a/b",
        "a\\b",
        "..",
        ".",
        "CON",
        "nul.txt",
        "com1",
        "LPT9",
        "x" * 201,
        '"a\\nb"',
        '"a\\u200bb"',
        '"a\\0b"',
    ],
)
def test_sup_02_a_name_that_could_be_taken_for_something_else_is_refused(name: str) -> None:
    compiled = _compiled(f"name: {name}\ndescription: d")
    assert compiled.skill is None
    assert [(found.code, found.line) for found in compiled.diagnostics] == [("bad_name", 2)]
    assert compiled.description == "d"


def test_sup_02_a_folder_whose_name_is_no_text_is_refused_and_can_still_be_stored() -> None:
    compiled = _compiled("description: d", folder="bad\udcff")
    assert compiled.skill is None
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(compiled), type=Compiled) == compiled


@pytest.mark.parametrize(
    "name", ["My Skill", "UPPER", "a--b", "-a", "a" * 65, "a_b", "other", "\U0001f469\u200d\U0001f4bb"]
)
def test_a_name_that_only_breaks_the_standard_loads_with_a_warning(name: str) -> None:
    compiled = _compiled(f"name: '{name}'\ndescription: d")
    assert compiled.skill is not None and compiled.skill.name == name
    assert [(found.code, found.severity) for found in compiled.diagnostics] == [("name_style", "warning")]


def test_long_and_hidden_texts_are_said() -> None:
    assert _codes(_compiled("name: x\ndescription: " + "d" * 1025)) == ["long_description"]
    compiled = _compiled("name: x\ndescription: do\u202eevil\U000e0041")
    assert _codes(compiled) == ["hidden_characters"]
    assert "U+202E, U+E0041" in compiled.diagnostics[0].message
    assert (
        _codes(
            _compiled(
                "name: x\ndescription: family \U0001f468\u200d\U0001f469\u200d\U0001f467 and \u2764\ufe0f"
            )
        )
        == []
    )
    hidden_emoji = 'name: x\ndescription: d\nmetadata: {"openclaw": {"emoji": "\u200b"}}'
    assert _codes(_compiled(hidden_emoji)) == ["hidden_characters"]


def test_another_file_name_is_said() -> None:
    assert _codes(_compiled("name: x\ndescription: d", manifest="skill.md")) == ["manifest_name"]


_AMBER = (
    '{"capabilities": ["read"], "timeout_ms": 1000, "permissions": {},'
    ' "function_schema": {"name": "look", "description": "d", "parameters": {"type": "object"}}}'
)


@pytest.mark.parametrize(
    ("metadata", "dialect"),
    [
        ("{}", "agent_skills"),
        ("{author: me}", "agent_skills"),
        ('{"openclaw": {}}', "openclaw"),
        ('{"moltbot": {}, "hermes": {}}', "openclaw"),
        (f'{{"amber": {_AMBER}, "openclaw": {{}}}}', "amber"),
        (f'{{"metier": {{}}, "amber": {_AMBER}}}', "metier"),
    ],
)
def test_the_first_match_decides_the_dialect(metadata: str, dialect: str) -> None:
    compiled = _compiled(f"name: x\ndescription: d\nmetadata: {metadata}")
    assert compiled.dialect == dialect
    assert compiled.skill is not None and compiled.skill.dialect == dialect


@pytest.mark.parametrize(
    ("written", "version"),
    [
        ("version: 1.10", "1.10"),
        ("version: 1.10 # stable", "1.10"),
        ("version: '1.10'", "1.10"),
        ("version: 2", "2"),
        ("version: 2024-01-01", "2024-01-01"),
        ("metadata:\n  version: 1.20", "1.20"),
        ("metadata: {version: 1.5}", "1.5"),
        ("version: 3.0\nmetadata:\n  version: 1.0", "3.0"),
    ],
)
def test_parse_04_a_version_is_text_as_written(written: str, version: str) -> None:
    assert _skill(written).version == version


def test_parse_12_a_misspelt_field_is_kept_and_said_with_its_line() -> None:
    compiled = _compiled("name: x\ndescription: d\nuser-invokable: false")
    assert compiled.skill is not None
    assert compiled.skill.user_may_invoke is True
    assert compiled.skill.extra == {"user-invokable": False}
    assert [(found.code, found.severity, found.line) for found in compiled.diagnostics] == [
        ("unknown_field", "info", 4)
    ]


def test_fields_of_other_programs_are_kept_without_a_word() -> None:
    block = (
        "name: x\ndescription: d\nwhen_to_use: often\nargument-hint: '[file]'\nmodel: opus\neffort: high\ncontext: fork\n"
        "agent: Explore\nhooks: {PreToolUse: []}\npaths: ['*.py']\nshell: bash\nplatforms: [macos]\n"
        "prerequisites: {env_vars: [A], commands: [git]}\nrequired_environment_variables: [{name: A}]\nauthor: me\n"
    )
    compiled = _compiled(block)
    assert compiled.diagnostics == ()
    assert compiled.skill is not None
    assert set(compiled.skill.extra) == {line.split(":")[0] for line in block.split("\n")[2:-1]}
    assert compiled.skill.requirements.os == (), "what only Hermes reads decides nothing here"


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ("Bash(git log:*) Read", ("Bash(git log:*)", "Read")),
        ("Read, Write,Edit", ("Read", "Write", "Edit")),
        ("Bash(a (b) c), Read", ("Bash(a (b) c)", "Read")),
        ("Bash(never closed Read", ("Bash(never closed Read",)),
        (["Read", " Write ", 5], ("Read", "Write", "5")),
        (None, ()),
        ({"a": 1}, ()),
    ],
)
def test_proposed_tools_are_one_name_each(written: object, names: tuple[str, ...]) -> None:
    assert tool_names(written) == names  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("written", "user", "model"),
    [
        ("user-invocable: false", False, True),
        ("user-invocable: 'Off'", False, True),
        ("user-invocable: 0", False, True),
        ("disable-model-invocation: yes", True, False),
        ("disable-model-invocation: 1", True, False),
        ("disable-model-invocation: no", True, True),
        ("disable-model-invocation: maybe", True, True),
    ],
)
def test_who_may_start_it_in_openclaws_spellings(written: str, user: bool, model: bool) -> None:
    compiled = _compiled(f"name: x\ndescription: d\n{written}")
    assert compiled.skill is not None
    assert (compiled.skill.user_may_invoke, compiled.skill.model_may_invoke) == (user, model)
    assert _codes(compiled) == (["bad_boolean"] if "maybe" in written else [])


def test_a_command_may_go_straight_to_a_tool() -> None:
    assert _skill("command-dispatch: tool\ncommand-tool: t").command == CommandDispatch(tool="t")
    assert _skill(
        "command_dispatch: Tool\ncommand_tool: t\ncommand_arg_mode: raw"
    ).command == CommandDispatch(tool="t")
    for wrong in ("command-dispatch: tool", "command-dispatch: model\ncommand-tool: t"):
        compiled = _compiled(f"name: x\ndescription: d\n{wrong}")
        assert compiled.skill is not None and compiled.skill.command is None
        assert _codes(compiled) == ["bad_command"]


def test_when_a_skill_is_wanted_comes_from_every_field_that_says_so() -> None:
    skill = _skill(
        "tags: a, b\nkeywords: [k]\ntriggers: [t, k]\n"
        "activation: {keywords: [w], exclude_keywords: [no], patterns: ['^p'], tags: [c]}\n"
        "metadata:\n  hermes:\n    tags: [h]"
    )
    assert skill.activation == Activation(
        tags=("a", "b", "c", "h"), keywords=("k", "t", "w"), exclude_keywords=("no",), patterns=("^p",)
    )


def test_terms_beyond_the_caps_are_cut_and_said() -> None:
    compiled = _compiled(
        f"name: x\ndescription: d\ntags: [{','.join(f't{n}' for n in range(30))}, {'y' * 201}]"
    )
    assert compiled.skill is not None
    assert compiled.skill.activation.tags == tuple(f"t{n}" for n in range(10))
    assert _codes(compiled) == ["too_many_terms"]


def test_a_flood_of_findings_is_cut_but_never_an_error() -> None:
    compiled = _compiled("\n".join(f"k{n}: v" for n in range(500)) + "\nname: a/b")
    assert compiled.skill is None
    assert {"bad_name", "no_description", "more_findings"} <= set(_codes(compiled))
    assert len(compiled.diagnostics) < 60


SAME = b"---\nname: x\ndescription: |\n  one\n  two: three\nmetadata:\n  openclaw:\n    requires: {bins: [jq]}\n---\n\n# T\n\nend\n"


@pytest.mark.parametrize(
    "data",
    [SAME, SAME.replace(b"\n", b"\r\n"), SAME.replace(b"\n", b"\r"), b"\xef\xbb\xbf" + SAME],
    ids=["lf", "crlf", "cr", "bom"],
)
def test_parse_14_one_manifest_has_one_reading(data: bytes) -> None:
    first, again = compile_skill(data, folder="x"), compile_skill(data, folder="x")
    assert first == again == compile_skill(SAME, folder="x")
    assert msgspec.json.encode(first) == msgspec.json.encode(again)
    assert body(data) == "# T\n\nend"
    stored = msgspec.msgpack.decode(msgspec.msgpack.encode(first), type=Compiled)
    assert stored == first


def test_parse_14_what_was_read_as_a_field_is_never_shown_as_instructions() -> None:
    data = b"---\nname: x\ndescription: d\nnote: a\n--- \n---\nrest\n---\nmore\n"
    assert read(data).fields == {"name": "x", "description": "d", "note": "a"}
    assert body(data) == "---\nrest\n---\nmore"
