"""YAML without its traps."""

import math
import random
import time
import tracemalloc

import pytest
import ryaml

from metier.dialects.frontmatter import MAX_BLOCK, read
from metier.dialects.strict_yaml import MOST_BRACKETS, Trouble, load
from metier.dialects.yaml_properties import could_hold, first_property


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
        "name: !*a\ndescription: b",
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
        "description: b\nlist: [\n\ufeff&x a,\n\ufeff*x]",
        "%YAML 1.2\n--- {description: &x b}",
    ],
)
def test_parse_03_anchors_and_aliases_are_refused(block: str) -> None:
    assert _refused(block) == "yaml_anchor"


def test_parse_03_a_cycle_is_refused() -> None:
    assert _refused("description: b\nlist: &x [*x]") == "yaml_anchor"


def test_parse_03_the_parser_alone_would_follow_an_anchor_behind_a_byte_order_mark() -> None:
    assert ryaml.loads("list: [\n\ufeff&x a,\n\ufeff*x]\n") == {"list": ["a", "a"]}


def test_parse_03_an_anchor_is_pointed_at() -> None:
    document = read(b"---\ndescription: b\ntext: '&a'\nlist:\n  - &x a\n---\n")
    assert [(found.code, found.line) for found in document.diagnostics] == [("yaml_anchor", 5)]


SIGNS = [
    *"ab&*! :-?,[]{}\"'#|>~\\@%", "&x ", "*x", "*x ", "!t ", "\n", "\n ", "\n  ", ": ", "- ", "? ", " #", "|\n ", "--- ",
    "\ufeff", "<<: ",
]  # fmt: skip


def test_parse_03_whatever_is_given_to_the_parser_repeats_and_builds_nothing() -> None:
    """Texts of nothing but signs: where none was found, the parser gives back every sign it was given as text."""
    dice = random.Random(20261115)  # noqa: S311
    followed = kept = 0
    for _ in range(60_000):
        block = "".join(dice.choices(SIGNS, k=dice.randrange(2, 14)))
        block = f"k: [{block}]" if dice.random() < 0.5 else block
        try:
            raw = ryaml.loads(block)
        except ValueError:
            continue
        try:
            found = first_property(block) if could_hold(block) else None
        except ValueError:
            continue
        if found is None:
            letters = block.translate(dict.fromkeys(map(ord, "&*!"), "x"))
            try:
                plain = ryaml.loads(letters)
            except ValueError as error:
                assert "duplicate" in str(error)
                continue
            assert repr(raw).translate(dict.fromkeys(map(ord, "&*!"), "x")) == repr(plain), repr(block)
            kept += 1
        else:
            assert found[0] in "&!", repr(block)
            followed += 1
    assert min(followed, kept) > 1_000, "both ends must be met, or nothing was tried"


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


@pytest.mark.parametrize(
    "key", ["at line 77 column 3", "at line " + "9" * 5_000, 'a" at line 3 column 1', "a\\nb", "a!b"]
)
def test_parse_03_no_key_can_pretend_to_be_a_place_or_hide_that_it_is_given_twice(key: str) -> None:
    document = read(f"---\ndescription: b\n? '{key}'\n: 1\n? '{key}'\n: 2\nx: '*a'\n---\n".encode())
    (found,) = document.diagnostics
    assert found.code == "duplicate_key"
    assert found.line is not None and found.line <= 8


def test_parse_03_a_key_with_a_sign_is_named_as_it_was_written() -> None:
    found, _ = load("description: b\na!*: 1\na!*: 2\nx: '*a'\n")
    assert isinstance(found, Trouble)
    assert found.message.startswith('"a!*" is given twice') and found.line == 3


def test_parse_03_keys_that_differ_only_in_a_sign_are_two_keys() -> None:
    fields, _ = load("description: b\na!: 1\na*: 2\na&: 3\nx: '*a'\n")
    assert fields == {"description": "b", "a!": 1, "a*": 2, "a&": 3, "x": "*a"}


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
    assert _refused(bomb + "description: d") == "yaml_anchor"
    assert time.perf_counter() - started < 2
    small = ryaml.loads("a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n")
    assert str(small["c"]).count("x") == 8, "the parser alone multiplies"


LONG = "x" * 100_000
BOMBS = [
    f'description: b\na: &a "{LONG}"\nb: [{",".join(["*a"] * 9_000)}]',
    f'description: b\na: &a "{LONG}"\nb: [{",".join(["*a"] * 9_000)}]\nc: d: e',
    "description: b\na: &a {"
    + ",".join(f"k{n}: 1" for n in range(3_000))
    + "}\n"
    + "".join(f"m{n}:\n  <<: *a\n" for n in range(1_000)),
    f'description: b\nb: [\n\ufeff&a "{LONG}",\n' + "\ufeff*a,\n" * 9_000 + "]",
    f'description: b\na!: 1\n"a@\U00100021": 2\nb: &a "{LONG}"\nc: [{",".join(["*a"] * 9_000)}]',
    f'description: b\na!: 1\na!: 2\nb: &a "{LONG}"\nc: [{",".join(["*a"] * 9_000)}]',
    f'%TAG ! tag:x,2000:\n--- {{description: &a "{LONG}", b: [{",".join(["*a"] * 9_000)}]}}',
]


@pytest.mark.parametrize(
    "block",
    BOMBS,
    ids=[
        "text",
        "broken file",
        "merged maps",
        "byte order marks",
        "key like a mask",
        "key twice",
        "directive",
    ],
)
def test_res_13_no_alias_is_ever_followed(block: str) -> None:
    started = time.process_time()
    document = read(f"---\n{block}\n---\n".encode())
    assert document.fields is None
    (found,) = document.diagnostics
    assert found.code in ("yaml_anchor", "yaml_invalid", "duplicate_key")
    assert time.process_time() - started < 1


def test_res_13_the_parser_alone_makes_many_bytes_of_few() -> None:
    block = f'a: &a "{LONG}"\nb: [{",".join(["*a"] * 200)}]'
    tracemalloc.start()
    try:
        kept = ryaml.loads(block)
        assert tracemalloc.get_traced_memory()[1] > 100 * len(block)
        del kept
        tracemalloc.reset_peak()
        assert _refused("description: b\n" + block) == "yaml_anchor"
        assert tracemalloc.get_traced_memory()[1] < 20 * len(block)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "block",
    [
        "description: d\nx: " + "[" * 100_000,
        "description: d\nx: " + "{a: " * 60_000,
        "description: d\nx:\n " + "- " * 100_000,
        "description: d\nx:\n " + "? " * 100_000,
        "description: d\nx:\n " + "-\t?  " * 50_000,
        "".join(" " * depth + "a:\n" for depth in range(700)),
        "description: d\nx: " + "[" * (MOST_BRACKETS - 1),
        "description: d\nx: " + '["]", ' * (MOST_BRACKETS - 1),
    ],
    ids=[
        "lists",
        "maps",
        "dashes",
        "questions",
        "both",
        "lines",
        "just below the cap",
        "closed only in quotes",
    ],
)
def test_res_14_depth_is_refused_quickly_and_without_recursion(block: str) -> None:
    started = time.perf_counter()
    assert _refused(block) == "yaml_too_deep"
    assert time.perf_counter() - started < 2


@pytest.mark.parametrize("sign", ["- ", "? ", "-\t?  "])
def test_res_14_nested_dashes_are_counted_before_the_parser_sees_them(sign: str) -> None:
    found, _ = load("description: d\nx:\n " + sign * (MOST_BRACKETS + 2))
    assert isinstance(found, Trouble) and str(MOST_BRACKETS) in found.message
    found, _ = load("description: d\nx:\n" + "  - a - b\n" * (MOST_BRACKETS + 1))
    assert isinstance(found, dict), "a long list is not a deep one"


# The most expensive shapes that are known, each as long as a frontmatter may be.
COSTLY = [
    "&a ", "* ", "!", "\x01", "\x85", "\\ud83d", "\n- k: >", "\n!t >", "a,", "a: b, ", "|\n? !@1.", " \n- |>", "[", "\n ", "#- !t x: 1",
    "- \n", "? a\n", "a\n\n", "\ufeff*a\n", "0", "9", ": ", "'", '"',
]  # fmt: skip


@pytest.mark.parametrize("unit", COSTLY)
@pytest.mark.parametrize("head", ["description: b\nx: ", "description: a: b\nx: [", 'description: "'])
def test_res_14_no_frontmatter_of_the_greatest_length_costs_a_second(head: str, unit: str) -> None:
    block = head + unit * ((MAX_BLOCK - 100) // len(unit.encode()))
    started = time.process_time()
    document = read(f"---\n{block}\n---\n".encode())
    assert time.process_time() - started < 1
    assert document.fields is not None or document.diagnostics


def test_res_14_a_frontmatter_beyond_its_length_is_refused_and_a_long_body_is_not() -> None:
    long = "x" * (MAX_BLOCK + 1)
    assert _refused(f"description: {long}") == "too_large"
    assert read(f"---\ndescription: d\n---\n{long}".encode()).fields == {"description": "d"}
