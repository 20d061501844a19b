"""The reader: what is frontmatter, what is body, and where in the file something stands."""

import pytest

from metier.dialects.frontmatter import MAX_BYTES, body, read

PLAIN = b"---\nname: a\ndescription: Does a thing.\n---\n\n# Title\n\ntext\n"


def _code(data: bytes) -> str:
    document = read(data)
    assert document.fields is None
    return next(found.code for found in document.diagnostics if found.severity == "error")


def test_fields_and_body_are_parted_by_the_fences() -> None:
    assert read(PLAIN).fields == {"name": "a", "description": "Does a thing."}
    assert body(PLAIN) == "# Title\n\ntext"


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf" + PLAIN,
        PLAIN.replace(b"\n", b"\r\n"),
        PLAIN.replace(b"\n", b"\r"),
        b"\xef\xbb\xbf" + PLAIN.replace(b"\n", b"\r\n"),
        PLAIN.replace(b"---\n", b"--- \t\n"),
        PLAIN.replace(b"---\n", "---\u3000\n".encode()),
    ],
    ids=["bom", "crlf", "cr", "bom and crlf", "trailing blanks", "wide blank"],
)
def test_parse_01_editors_habits_change_nothing(data: bytes) -> None:
    assert (read(data).fields, body(data)) == (read(PLAIN).fields, body(PLAIN))


def test_parse_01_a_file_without_frontmatter_is_refused_and_is_all_body() -> None:
    for data in (b"", b"# Title\n", b"name: a\ndescription: b\n", b"----\nname: a\n----\n", b"---"):
        assert _code(data) == "no_frontmatter"
        assert body(data) == data.decode().strip()


def test_parse_01_an_opening_fence_alone_is_refused_with_its_line() -> None:
    document = read(b"\n\n---\nname: a\ndescription: b\n")
    assert document.fields is None
    assert [(found.code, found.line) for found in document.diagnostics] == [("unterminated", 3)]


def test_parse_01_three_hyphens_within_a_value_do_not_end_the_frontmatter() -> None:
    data = b"---\nname: a\ndescription: before --- after\nnote: |\n  ---\n  text\n---\nbody --- more\n"
    fields = read(data).fields
    assert fields is not None
    assert fields["description"] == "before --- after"
    assert fields["note"] == "---\ntext\n"
    assert body(data) == "body --- more"
    naive = data.decode().split("---", 2)
    assert "after" not in naive[1], "splitting at any three hyphens is fooled"


def test_parse_01_characters_that_yaml_forbids_do_not_stop_the_reader() -> None:
    fields = read("---\nname: a\ndescription: x\x00y\x01z\x85w\u2028v\ufffe\n---\n".encode()).fields
    assert fields == {"name": "a", "description": "x\x00y\x01z\x85w\u2028v\ufffe"}


def test_parse_01_a_file_over_the_cap_is_refused_unread() -> None:
    assert _code(PLAIN + b" " * (MAX_BYTES - len(PLAIN) + 1)) == "too_large"
    assert read(PLAIN + b" " * (MAX_BYTES - len(PLAIN))).fields is not None
    assert _code(b"---\n" * 2_500_000) == "too_large"


def test_parse_01_tabs_are_no_indentation_but_a_blank_line_may_hold_them() -> None:
    assert read(b"---\nname:\ta\ndescription: b\n\t\n---\n").fields == {"name": "a", "description": "b"}
    document = read(b"---\nmetadata:\n\tx: 1\ndescription: b\n---\n")
    assert document.text("description") == "b"
    assert [found.severity for found in document.diagnostics] == ["warning"]


def test_bytes_that_are_not_utf8_are_refused_with_offset_and_line() -> None:
    document = read(b"---\r\nname: a\r\ndescription: caf\xe9\r\n---\r\n")
    assert document.fields is None
    (found,) = document.diagnostics
    assert (found.code, found.line) == ("not_utf8", 3)
    assert "byte 30" in found.message
    assert _code(PLAIN + b"\xff") == "not_utf8"


def test_blank_lines_before_the_fence_are_allowed_and_said() -> None:
    document = read(b"\n \n" + PLAIN)
    assert document.fields == read(PLAIN).fields
    assert [(found.code, found.severity) for found in document.diagnostics] == [("late_fence", "warning")]
    assert body(b"\n \n" + PLAIN) == body(PLAIN)


def test_lines_are_counted_in_the_file() -> None:
    document = read(b"\n---\nname: a\ndescription: use it: now\n---\n")
    (repaired,) = [found for found in document.diagnostics if found.code == "yaml_repaired"]
    assert repaired.line == 4
    assert document.line_of("name") == 3
    assert document.line_of("absent") is None


def test_the_body_keeps_its_first_indentation_and_loses_blank_lines_around() -> None:
    assert body(b"---\na: b\n---\n \n\n    code\n  \ntext \n\n") == "    code\n  \ntext"


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("1.10", "1.1"),
        ("012", "12"),
        ('"012"', "012"),
        ("012 # a comment", "12"),
        ("-007.50", "-7.5"),
        ("1e400", "Infinity"),
        ("'1e400'", "1e400"),
        ("012 apples", "012 apples"),
        ("1e21", "1e+21"),
        ("true", "true"),
        ("~", "~"),
        ("null", "null"),
        ("# only a comment", "# only a comment"),
        ("[a, b]", '["a","b"]'),
        ("[TODO: write it]", "[TODO: write it]"),
        ("{a: b}", "{a: b}"),
        ('""', ""),
        ("'  spaced\u3000'", "spaced"),
        ("2024-01-01", "2024-01-01"),
        ("yes", "yes"),
    ],
)
def test_a_value_becomes_the_text_that_openclaw_makes_of_it(written: str, expected: str) -> None:
    assert read(f"---\ndescription: {written}\n---\n".encode()).text("description") == expected


@pytest.mark.parametrize(
    "line", ["  description: {}", '"description": {}', "description : {}", "'description':  {}"]
)
def test_a_number_is_a_number_however_its_key_is_written(line: str) -> None:
    for written, expected in (("012", "12"), ("'012'", "012"), ("-1e400", "-Infinity")):
        data = f"---\n{line.format(written)}\n---\n".encode()
        assert read(data).text("description") == expected


@pytest.mark.parametrize("line", ["---x: 1", "----", "--- x", "---#", "---\u00b7"])
def test_parse_01_a_fence_counts_only_on_a_line_of_its_own(line: str) -> None:
    data = f"---\nname: a\ndescription: |\n  b\n{line}\nmore: c\n---\nbody\n".encode()
    assert body(data) == "body"


def test_parse_01_control_splitting_at_the_first_three_hyphens_cuts_the_frontmatter() -> None:
    text = "---\nname: a\ndescription: one --- two\n---\nbody\n"
    assert text.split("---", 2)[1] == "\nname: a\ndescription: one "
