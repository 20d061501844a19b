"""YAML without its traps."""

import math
import time

import pytest
import ryaml

from metier.dialects.frontmatter import read
from metier.dialects.strict_yaml import MOST_BRACKETS, Trouble, load


def _refused(block: str) -> str:
    document = read(f"---\n{block}\n---\n".encode())
    assert document.fields is None
    (found,) = document.diagnostics
    assert found.severity == "error" and found.line
    return found.code


@pytest.mark.parametrize(
    "block",
    [
        "name: !!python/object/apply:os.system [id]\ndescription: b",
        "name: a\ndescription: !!str b",
        "name: a\ndescription: b\nmetadata: {x: !foo {y: 1}}",
        "name: a\ndescription: b\ntags:\n  - !<tag:x> c",
        "!!map\nname: a\ndescription: b",
        "name: a\ndescription: ! b",
    ],
)
def test_parse_02_a_tag_is_refused(block: str) -> None:
    assert _refused(block) == "yaml_tag"


def test_parse_02_the_parser_alone_would_follow_the_tag() -> None:
    assert ryaml.loads("a: !!int '3'\n") == {"a": 3}


def test_parse_02_text_with_the_same_signs_is_text() -> None:
    block = (
        "name: a\n"
        "description: Wow! R&D *really* works - !important, &co, *all*\n"
        "allowed-tools: Bash(git:*) Read\n"
        "hint: '!x'\n"
        'list: ["*a", "&b", "!c"]\n'
        "text: |\n  !a\n  &b\n  *c\n"
        "# !comment &with *signs\n"
    )
    fields, _ = load(block)
    assert isinstance(fields, dict)
    assert fields == ryaml.loads(block)


@pytest.mark.parametrize(
    "block",
    [
        "base: &x text\ndescription: *x",
        "base: &x {a: 1}\ndescription: b\nmore:\n  <<: *x",
        "description: b\nlist: [&x a, *x]",
        "description: &x b",
    ],
)
def test_parse_03_anchors_and_aliases_are_refused(block: str) -> None:
    assert _refused(block) == "yaml_anchor"


def test_parse_03_a_cycle_is_refused() -> None:
    assert _refused("description: b\nlist: &x [*x]") == "yaml_too_deep"


def test_parse_03_a_merge_key_merges_nothing() -> None:
    assert read(b"---\ndescription: b\n<<: {name: evil}\n---\n").fields == {
        "description": "b",
        "<<": {"name": "evil"},
    }


@pytest.mark.parametrize(
    "block",
    [
        "description: a\ndescription: b",
        "description: a\nmetadata: {x: 1, x: 2}",
        "description: a\nmetadata:\n  x: 1\n  y: 2\n  x: 3",
        "description: a: broken\nname: x\nname: y",
        "description:a\nname:x\nname:y",
        "description: a\n1: x\ntrue: y",
        'description: a\n5: x\n"5": y',
    ],
)
def test_parse_03_a_key_given_twice_is_refused_on_every_rung(block: str) -> None:
    assert _refused(block) == "duplicate_key"


def test_parse_03_the_second_of_two_equal_keys_is_pointed_at() -> None:
    document = read(b"---\ndescription: a\nname: x\ndescription: b\n---\n")
    assert document.diagnostics[0].line == 4


def test_parse_04_only_json_types_come_out() -> None:
    block = (
        "description: d\na: yes\nb: 012\nc: 1:30\nd: 2024-01-01\ne: 9999-99-99\nf: ~\ng: .nan\nh: -.inf\n"
        "i: [.inf, {j: .nan}]\n7: seven\n1.5: x\n"
    )
    fields, notes = load(block)
    assert fields == {
        "description": "d", "a": "yes", "b": "012", "c": "1:30", "d": "2024-01-01", "e": "9999-99-99", "f": None,
        "g": "NaN", "h": "-Infinity", "i": ["Infinity", {"j": "NaN"}], "7": "seven", "1.5": "x",
    }  # fmt: skip
    assert [note.code for note in notes] == ["not_json"]
    assert math.isnan(ryaml.loads(block)["g"]), "the parser alone gives what JSON does not have"


# Written for this project after the kinds of input that trip YAML readers.
ODD = [
    "", "#", "-", "?", ":", "- a\n- b", "a", "[a, b]", "{a: b}", "a: [", "a: {", "a: ]", "a: 'b", 'a: "b', 'a: "\\q"',
    "a: |", "a: >9\n  x", "a: |\n x\n  y\n z", "a:\n\tb: c", "\ta: b", "a: b\n c: d", "a: b: c", "? a\n: b", "? [a]\n: b",
    "? {a: b}\n: c", "a: %x", "%YAML 1.2", "%TAG ! x\n", "a: @x", "a: `x`", "...", "a: b\n...\nc: d", "--- a", "a: --- b",
    "a: *", "a: &", "a: !", "*a: b", "&a b: c", "!a b: c", "a: !!binary x", "a: 0x", "a: 1e999", "a: -", "a:\n- b\n-c",
    "'a': b", '"a": b', "a : b", "a:b", "a: b #c", "a: b# c", "a: 'b'#c", "a: ''''", 'a: "\\u0000"', 'a: "\\ud800"',
    'a: "\\U00110000"', "a: \u0085", "a: \ufeff", "\ufeffa: b", "a:\u00a0b", "a: \U0010ffff *x", "a: [*x, &y z]",
    "a: 99999999999999999999999999", "null: a", "~: a", "true: a\nTrue: b", "1: a\n1.0: b", "a: [1, 2", "a: }",
]  # fmt: skip


@pytest.mark.parametrize("block", ODD)
def test_parse_05_odd_yaml_gives_a_value_or_our_own_trouble(block: str) -> None:
    found, notes = load(block)
    assert isinstance(found, dict | Trouble)
    assert all(isinstance(note, Trouble) for note in notes)
    document = read(f"---\n{block}\n---\n".encode())
    assert document.fields is not None or document.diagnostics


def test_parse_05_escapes_of_half_characters_are_joined() -> None:
    fields, _ = load('description: "\\ud83d\\udd0a \\ud83d \\\\ud83d"\n')
    assert fields == {"description": "\U0001f50a \ufffd \\ud83d"}


def test_res_13_a_few_bytes_never_become_a_billion() -> None:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(9)
    )
    started = time.perf_counter()
    assert _refused(bomb + "description: d") == "yaml_too_deep"
    assert time.perf_counter() - started < 2
    small = ryaml.loads("a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n")
    assert str(small["c"]).count("x") == 8, "the parser alone multiplies"


@pytest.mark.parametrize(
    "block",
    [
        "description: d\nx: " + "[" * 100_000,
        "description: d\nx: " + "{a: " * 100_000,
        "description: d\nx:\n " + "- " * 100_000,
        "".join(" " * depth + "a:\n" for depth in range(1_000)),
        "description: d\nx: " + "[" * (MOST_BRACKETS - 1),
        "description: d\nx: " + '["]", ' * (MOST_BRACKETS - 1),
    ],
    ids=["lists", "maps", "dashes", "lines", "just below the cap", "closed only in quotes"],
)
def test_res_14_depth_is_refused_quickly_and_without_recursion(block: str) -> None:
    started = time.perf_counter()
    assert _refused(block) == "yaml_too_deep"
    assert time.perf_counter() - started < 2
