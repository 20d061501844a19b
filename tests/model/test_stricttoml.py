"""TOML from outside: what it would cost is known before it is parsed, and what is read is what the parser reads."""

import time
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import metier
from metier.model.stricttoml import MAX_DEPTH, MAX_KEYS, MAX_PARTS, MAX_WORD, TomlError, loads

MANY = 6_000
"""Parts that cost 100 MB and a second where they are parsed. It grows with the square."""
DOTS = ".a" * MANY
TOO_MUCH: dict[str, tuple[str, int, str]] = {
    # what is written: line, what is said
    "parts of a key": (f"x = 1\na{DOTS} = 1\n", 2, f"more than {MAX_PARTS} parts"),
    "parts with blanks": ("a" + " .\ta" * MANY + " = 1\n", 1, "parts"),
    "parts in quotes": ("a" + """."b.c".'d'""" * MANY + " = 1\n", 1, "parts"),
    "parts of a table": (f"\n\n[a{DOTS}]\n", 3, "parts"),
    "parts of a list of tables": (f"[[a{DOTS}]]\n", 1, "parts"),
    "parts inside a table": (f"x = {{ y = 1, a{DOTS} = 1 }}\n", 1, "parts"),
    "parts of a key without a value": (f"a{DOTS}", 1, "parts"),
    "parts behind text that ends with a quote": (f'x = ["""t"""", {{ a{DOTS} = 1 }}, "t"]\n', 1, "parts"),
    "parts behind text that ends with two": (f'x = ["""t""""", {{ a{DOTS} = 1 }}, "t"]\n', 1, "parts"),
    "parts behind bare text that ends with a quote": (
        f"x = ['''t'''', {{ a{DOTS} = 1 }}, 't']\n",
        1,
        "parts",
    ),
    "parts behind an escaped quote": (f'x = ["t\\"", {{ a{DOTS} = 1 }}, "t"]\n', 1, "parts"),
    "parts behind an escaped backslash": (f'x = ["t\\\\", {{ a{DOTS} = 1 }}, "t"]\n', 1, "parts"),
    "parts behind a comment": (f'x = 1 # "\na{DOTS} = 1 # "\n', 2, "parts"),
    "lists in lists": ("x = 1\ny = " + "[" * 100_000, 2, "nested too deeply"),
    "tables in tables": ("x = " + "{ a = " * 100_000, 1, "nested too deeply"),
    "tables in tables of many parts": ("x = " + "{ a.a.a.a.a.a.a.a = " * 9 + "1" + " }" * 9, 1, "deeply"),
    "tables": ("".join(f"[{each}]\n" for each in range(MAX_KEYS + 1)), MAX_KEYS + 1, f"{MAX_KEYS:,} keys"),
    "lists": ("x = [" + "[]," * MAX_KEYS + "]", 1, "keys"),
    "digits": ("x = 1\ny = " + "1" * 5_000, 2, f"{MAX_WORD:,} characters"),
    "digits of another base": ("x = 0x" + "f" * 5_000, 1, "characters"),
    "digits after a point": ("x = 0." + "1" * 5_000, 1, "characters"),
}


@pytest.mark.parametrize("what", TOO_MUCH)
def test_what_would_cost_too_much_is_refused_before_it_is_parsed_and_it_is_said_where(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, line, said = TOO_MUCH[what]

    def never(_: str) -> None:
        pytest.fail("it was parsed")

    monkeypatch.setattr(tomllib, "loads", never)
    for given_as in (text, text.encode(), text.replace("\n", "\r\n")):
        with pytest.raises(TomlError) as refused:
            loads(given_as)
        assert said in str(refused.value) and f"(at line {line})" in str(refused.value)
        assert (refused.value.line, bool(refused.value.remedy)) == (line, True)


WRONG: dict[str, tuple[str | bytes, int, str]] = {
    "no TOML": ("x = 1\nnot toml\n", 2, "not valid TOML"),
    "a text that does not end": ('x = 1\ny = """\n\n', 4, "not valid TOML"),
    "a key given twice": ("x = 1\nx = 2\n", 2, "not valid TOML"),
    "not UTF-8": (b"x = 1\n\ny = '\xff'\n", 3, "byte 12 is not UTF-8"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_read_is_one_error_with_its_line(what: str) -> None:
    text, line, said = WRONG[what]
    with pytest.raises(TomlError, match=said) as refused:
        loads(text)
    assert refused.value.line == line


@pytest.mark.parametrize(
    "text",
    [
        '"."."..".x = "' + "a.b" * 500 + '"\n',
        "x = '" + "." * 5_000 + "'\n",
        'x = """' + "a.b.c\n" * 500 + '"""\n',
        "# " + "a." * 5_000 + "\nx = 1\n",
        "x = [" + "1.5, " * 5_000 + "]\n",
        "x = [\n" + "  1.5,\n" * 5_000 + "]\n",
        ".".join("a" * MAX_PARTS) + " = 1\n",
        "x = " + "[" * MAX_DEPTH + "]" * MAX_DEPTH,
        "".join(f"[[a]]\nb.c = {{ d = [{each}] }}\n" for each in range(10_000)),
        'x = "' + "f" * 100_000 + '"\n',
        "x = 1979-05-27T07:32:00.999999-07:00\n",
    ],
)
def test_what_people_write_is_read_as_ever(text: str) -> None:
    assert loads(text) == tomllib.loads(text)


_PIECES = st.sampled_from(
    [
        *"abc.=,[]{}#\n \\\"'",
        '"""',
        "'''",
        '\\"',
        "a.b = ",
        "1.5",
        "x = [",
        "{ a = ",
        '""',
        "''",
        "]\n",
        "\\\\",
    ]
)


@given(st.lists(_PIECES, max_size=40).map("".join))
def test_what_the_parser_reads_is_within_what_was_counted(text: str) -> None:
    try:
        expected = tomllib.loads(text)
    except ValueError:
        with pytest.raises(TomlError):
            loads(text)
    else:
        assert loads(text) == expected


@pytest.mark.parametrize("piece", ['"""', "'''", '"', "'", '"\n', '\\"""', '"""\\', "''' '", "#", "# '\n"])
def test_quotes_that_never_end_are_passed_over_once(piece: str) -> None:
    started = time.process_time()
    with pytest.raises(TomlError):
        loads(piece * (400_000 // len(piece)) + "\nno toml")
    assert time.process_time() - started < 5


def test_nobody_else_parses_toml() -> None:
    source = Path(metier.__file__).parent
    parsing = [
        str(each.relative_to(source))
        for each in source.rglob("*.py")
        if "import tomllib" in each.read_text("utf-8")
    ]
    assert parsing == ["model/stricttoml.py"]
