"""The `metadata` field in all its spellings."""

import json

import pyjson5
import pytest

from metier.dialects.compiled import Compiled
from metier.dialects.frontmatter import read
from metier.dialects.metadata import metadata_of
from metier.dialects.skill_md import compile_skill

WATCHED = frozenset({"openclaw", "clawdbot"})
BLOCK = {"openclaw": {"emoji": "\U0001f50a", "always": True}}


def _compiled(metadata: str) -> Compiled:
    data = f"---\nname: x\ndescription: d\nmetadata: {metadata}\n---\n".encode()
    return compile_skill(data, folder="x")


def _codes(compiled: Compiled) -> list[str]:
    return [found.code for found in compiled.diagnostics]


@pytest.mark.parametrize(
    "written",
    [
        json.dumps(BLOCK, ensure_ascii=False),
        json.dumps(BLOCK),
        '{"openclaw": {"emoji": "🔊", "always": true,},}',
        "{'openclaw': {'emoji': '🔊', 'always': true}}",
        "'" + json.dumps(BLOCK) + "'",
        "\n  openclaw:\n    emoji: 🔊\n    always: true",
        '\n  {\n    "openclaw": {\n      "emoji": "🔊",\n      "always": true,\n    }\n  }',
        '|\n  {"openclaw": {"emoji": "🔊", "always": true}}',
    ],
    ids=[
        "json",
        "json with escapes",
        "trailing commas",
        "single quotes",
        "quoted",
        "map",
        "flow below",
        "block",
    ],
)
def test_every_spelling_of_a_block_is_the_same_block(written: str) -> None:
    compiled = _compiled(written)
    assert compiled.metadata == {"emoji": "\U0001f50a", "always": True}
    assert compiled.dialect == "openclaw"
    assert _codes(compiled) == []


@pytest.mark.parametrize(
    "written",
    ["{openclaw: {emoji: x}}", '{"openclaw": {"emoji": "x"}} # note', '{"openclaw": {\n  "emoji": "x"}}'],
    ids=["yaml only", "comment", "goes on below"],
)
def test_what_openclaw_does_not_see_counts_for_nothing_and_is_said(written: str) -> None:
    compiled = _compiled(written)
    assert compiled.skill is not None
    assert compiled.metadata is None
    assert _codes(compiled) == ["metadata_ignored"]
    assert compiled.diagnostics[0].line == 4
    assert compiled.skill.extra["metadata"]


@pytest.mark.parametrize(
    "written", ["[a, b]", "5", "just words", "'{broken'", "'[1]'", "'" + "[" * 3_000 + "'"]
)
def test_parse_06_metadata_that_is_no_map_is_ignored_and_said(written: str) -> None:
    compiled = _compiled(written)
    assert compiled.skill is not None and compiled.metadata is None
    assert _codes(compiled) == ["metadata_ignored"]


@pytest.mark.parametrize(
    "written",
    [
        '{"openclaw": {"always": false, "always": true}}',
        '{"openclaw": {}, "openclaw": {"always": true}}',
        '\'{"openclaw": {}, "openclaw": {"always": true}}\'',
        '\'{"openclaw": {"always": false, "always": true,}}\'',
        '\'{"openclaw": {"always": false, "\\u0061lways": true,}}\'',
        "'{openclaw: {always: false, \"always\": true}}'",
        "'{openclaw: {always: false, /* x: */ \\u0061lways: true}}'",
        "'{openclaw: {a: \"//\", always: false, always: true}}'",
        '\'{openclaw: {a: "\\"", always: false, always: true, b: "\\""}}\'',
        "|\n  {openclaw: {always: false, // '\n  always: true, // '\n  }}",
        '\'{"openclaw": {"always": false, "always": true}, "n": ' + "9" * 300 + "}'",
    ],
)
def test_parse_06_a_key_given_twice_in_metadata_is_refused(written: str) -> None:
    compiled = _compiled(written)
    assert compiled.skill is None
    assert _codes(compiled) == ["duplicate_key"]
    unquoted = written.lstrip("|").strip("'")
    assert isinstance(pyjson5.decode(unquoted), dict), "a plain reader takes the last one without a word"


@pytest.mark.parametrize(
    "written",
    [
        """'{openclaw: {a: "b: c", "d: e": 1, f: ["g:", {h: 1}],}}'""",
        "'{openclaw: {/* a: 1 */ b: 1, c: {b: 1}, \"//x\": 2}} // d: 3'",
        "|\n  {openclaw: {// it\"s: x\n  a: 1, /* '\n ' */ 'x\\\"': 2}}",
    ],
)
def test_colons_in_texts_and_comments_are_no_keys(written: str) -> None:
    compiled = _compiled(written)
    assert compiled.skill is not None
    assert compiled.dialect == "openclaw"


def test_parse_06_a_line_inside_a_quoted_text_is_no_way_around_the_check() -> None:
    hidden = '{"openclaw": {"always": false, "always": true}}'
    data = f"---\ndescription: d\nx: '\nmetadata: {hidden}\n  '\nmetadata: {{openclaw: {{}}}}\n---\n"
    compiled = compile_skill(data.encode(), folder="x")
    assert _codes(compiled)[0] == "duplicate_key" and compiled.skill is None


@pytest.mark.parametrize("open_, close", [("[", "]"), ('{"a":', "}"), ("[", "")])
def test_parse_06_nesting_by_the_hundred_thousand_is_refused_or_ignored(open_: str, close: str) -> None:
    for depth in (30_000, 2_000):
        deep = open_ * depth + "1" + close * depth
        for written in (f"'{deep}'", deep):
            compiled = _compiled(written)
            assert _codes(compiled) in (["yaml_too_deep"], ["metadata_ignored"])


def test_parse_06_numbers_and_half_characters_that_cannot_be_stored_are_made_harmless() -> None:
    compiled = _compiled(
        """'{"openclaw": {"a": 1e999, "b": 99999999999999999999999, "c": "\\ud800", "d": NaN}}'"""
    )
    assert compiled.skill is not None and compiled.metadata is None
    assert _codes(compiled) == ["metadata_ignored"]
    compiled = _compiled("""'{"openclaw": {emoji: "x", a: Infinity, b: NaN}}'""")
    assert compiled.metadata == {"emoji": "x"}
    huge = metadata_of(
        read(b'---\ndescription: d\nmetadata: \'{"openclaw": {"n": 99999999999999999999}}\'\n---\n'), WATCHED
    )
    assert huge.openclaw == {"openclaw": {"n": 1e20}}


@pytest.mark.parametrize("timeout", ["1e9", "-1", '"3000"', "0", "1e999", "[]", "9" * 400])
def test_parse_13_absurd_numbers_in_a_manifest_reach_no_limit(timeout: str) -> None:
    """A number that is none, or beyond its bounds, refuses the skill; one within them is the tool's limit."""
    assert [compiled.skill for compiled in _with_timeout(timeout)] == [None, None]
    assert [compiled.dialect for compiled in _with_timeout(timeout)] == ["amber", "metier"]
    assert [skill.tools[0].limits.timeout for each in _with_timeout("3") if (skill := each.skill)] == [
        0.003,
        3.0,
    ]


def _with_timeout(timeout: str) -> tuple[Compiled, Compiled]:
    """A skill of each dialect whose manifest can say a time limit."""
    amber = f"""
  amber:
    capabilities: [read]
    timeout_ms: {timeout}
    permissions: {{}}
    function_schema: {{name: look, description: d, parameters: {{type: object, properties: {{}}}}}}"""
    metier = f"""
  metier:
    tools:
      - name: look
        description: d
        effect: read
        limits: {{timeout: {timeout}}}
        entry: {{kind: python, path: look.py}}"""
    return _compiled(amber), _compiled(metier)
