"""Sloppy frontmatter is read all the same, and what had to be repaired is said."""

import pytest

from metier.dialects.frontmatter import Document, read
from metier.dialects.ladder import MOST_REPAIRS


def _read(block: str) -> Document:
    return read(f"---\n{block}\n---\n".encode())


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Use it: now", "Use it: now"),
        ("**Bold** text", "**Bold** text"),
        ("*alias or not", "*alias or not"),
        ('"quoted" and more', '"quoted" and more'),
        ("[link] and text", "[link] and text"),
        ("{brace} and text", "{brace} and text"),
        ("@user asks", "@user asks"),
        ("`code` here", "`code` here"),
        ("%d percent", "%d percent"),
        (", starts with a comma", ", starts with a comma"),
        ("a: b\n  and more", "a: b and more"),
        ("starts here\nand goes on at the margin", "starts here and goes on at the margin"),
        ("'never closed", "'never closed"),
    ],
)
def test_a_value_that_breaks_yaml_is_read_as_text(value: str, expected: str) -> None:
    document = _read(f"name: x\ndescription: {value}\nlicense: MIT")
    assert document.fields == {"name": "x", "description": expected, "license": "MIT"}
    (found,) = document.diagnostics
    assert (found.code, found.severity, found.line) == ("yaml_repaired", "warning", 3)
    assert "quotes" in found.message


def test_only_the_broken_values_are_touched() -> None:
    document = _read(
        "description: a: b\nargument-hint: [x] [y]\ncount: 3\ntags: [p, q]\nmetadata:\n  k: v: w\n  n: 1"
    )
    assert document.fields == {
        "description": "a: b",
        "argument-hint": "[x] [y]",
        "count": 3,
        "tags": ["p", "q"],
        "metadata": {"k": "v: w", "n": 1},
    }
    assert [found.line for found in document.diagnostics] == [2, 3, 6]


def test_lines_without_a_blank_after_the_colon_are_read_line_by_line() -> None:
    document = _read("name:x\ndescription:does it\nnote: |\n  one\n  two")
    assert document.text("name") == "x"
    assert document.text("description") == "does it"
    assert [found.code for found in document.diagnostics] == ["yaml_by_lines"]


def test_what_no_rung_can_read_is_refused_with_the_first_reason() -> None:
    document = _read("name: [x\nother: }")
    assert document.text("name") == "[x"
    document = _read("just words\nand more of them")
    assert document.fields is None
    assert [(found.code, found.line) for found in document.diagnostics] == [("not_a_map", 2)]
    document = _read("- a\n: [")
    assert document.fields is None
    assert [found.code for found in document.diagnostics] == ["yaml_invalid"]


def test_a_tag_does_not_come_in_by_a_lower_rung() -> None:
    document = _read("description: a: b\nname: !!python/name:os.system x")
    assert document.fields is None
    assert [(found.code, found.line) for found in document.diagnostics] == [("yaml_tag", 3)]


def test_a_flood_of_broken_values_is_neither_slow_nor_loud() -> None:
    few = _read("description: d\n" + "".join(f"k{n}: a: b\n" for n in range(MOST_REPAIRS - 1)))
    assert few.fields is not None and few.fields["k7"] == "a: b"
    assert len(few.diagnostics) < 20
    many = _read("description: d\n" + "".join(f"k{n}: a: b\n" for n in range(MOST_REPAIRS * 20)))
    assert many.text("description") == "d"
    assert [found.code for found in many.diagnostics] == ["yaml_by_lines"]


def test_a_nested_value_of_nothing_but_unseen_blanks_is_no_value() -> None:
    assert _read("name: |\ndes\n  cription: \ufeff").fields is None


@pytest.mark.parametrize("stray", [":", ": text", "  :", ":\n  text"])
def test_an_entry_without_a_key_belongs_to_nobody(stray: str) -> None:
    document = _read(f"name: x\ndescription: d\n{stray}\nlicense: MIT")
    assert document.text("description") == "d"
    assert document.text("license") == "MIT"
    assert [found.code for found in document.diagnostics] == ["yaml_repaired"]
