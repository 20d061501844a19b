"""Text has one meaning or none: what two readers could understand differently is refused."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.model.strictjson import MAX_BYTES, MAX_DEPTH, check, loads

ACCEPTED: dict[str, Any] = {
    "null": None,
    "true": True,
    "false": False,
    "0": 0,
    "-0": 0,
    "7": 7,
    "-7": -7,
    "0.5": 0.5,
    "-0.0": -0.0,
    "1e2": 100.0,
    "1E+2": 100.0,
    "25e-1": 2.5,
    "0e1": 0.0,
    "1e-400": 0.0,
    "1e21": 1e21,
    "9007199254740991": 2**53 - 1,
    "-9007199254740991": -(2**53) + 1,
    '""': "",
    '"tea"': "tea",
    '"käse \U0001f9c0"': "käse \U0001f9c0",
    r'"\u0041\n\t\r\b\f\"\\\/"': 'A\n\t\r\b\f"\\/',
    r'"\ud83e\uddc0"': "\U0001f9c0",
    r'"\uFEFF"': "\ufeff",
    r'"\\u0000"': "\\u0000",
    '"\x7f"': "\x7f",
    '"\u2028\u2029"': "\u2028\u2029",
    '"\ufffe"': "\ufffe",
    "[]": [],
    "[[]]": [[]],
    '[1, "a", null, true]': [1, "a", None, True],
    "{}": {},
    '{"a": {"b": [{}]}}': {"a": {"b": [{}]}},
    '{"": 0}': {"": 0},
    '{"a": 1, "A": 2, "\u00e5": 3, "a\u030a": 4}': {"a": 1, "A": 2, "\u00e5": 3, "a\u030a": 4},
    " \t\r\n[ 1 ,\n2 ]\n": [1, 2],
    '{"a":1,"b":[{"a":1},{"a":1}]}': {"a": 1, "b": [{"a": 1}, {"a": 1}]},
    '"' + "x" * (MAX_BYTES - 2) + '"': "x" * (MAX_BYTES - 2),
}

REFUSED = [
    "", " ", "\x00", "\ufeff1", "\ufeff{}", "tea", "nul", "nulll", "True", "None", "undefined", "TRUE",
    "01", "-01", "00", "-", "--1", "+1", ".5", "1.", "1.e2", "1e", "1e+", "0x1f", "1_000", "1,000", "1 2", "\uff11",
    "\u0661", "1\u00a0",
    "'a'", '"', '"a', 'a"', '"\n"', '"\t"', '"\x00"', '"\x1f"', r'"\x41"', r'"\u12"', r'"\u12G4"', r'"\u{41}"',
    r'"\'"', '"\\', r'"\a"', '"a" "b"',
    "[", "]", "[1", "[1,", "[1,]", "[,1]", "[1,,2]", "[1 2]", "[1}", "[1]]", "[1]x", "(1)", "[1;2]", "[1:2]",
    "{", "}", "{]", '{"a"}', '{"a":}', '{"a" 1}', '{"a":1,}', '{,"a":1}', "{a:1}", "{1:1}", "{'a':1}", '{"a"::1}',
    '{"a":1 "b":2}', '{"a":1}{"b":2}', '{"a":1};', "{null:1}",
    "// tea\n1", "1 // tea", "/* tea */ 1", "# tea\n1", "1 /**/",
    "\x0b1", "\x0c1", "\u20281", "<a/>", "a: 1", "...",
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "value"), ACCEPTED.items(), ids=[ascii(text[:30]).strip("'") for text in ACCEPTED]
)
def test_parse_07_every_text_that_is_json_is_read(text: str, value: Any) -> None:
    assert loads(text) == value
    assert loads(text.encode()) == value


@pytest.mark.parametrize("text", REFUSED, ids=ascii)
def test_parse_07_every_text_that_is_not_json_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        loads(text)
    with pytest.raises(ValueError, match=r"\w"):
        loads(text.encode())


def test_parse_07_there_are_enough_cases_on_both_sides() -> None:
    assert len(ACCEPTED) >= 30
    assert len(set(REFUSED)) == len(REFUSED) >= 40


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'"\xff"', "not UTF-8 at byte 1"),
        (b'"\xc0\xaf"', "not UTF-8 at byte 1"),
        (b'["\xe2\x82"]', "not UTF-8 at byte 2"),
        (b'"\xed\xa0\x80"', "not UTF-8 at byte 1"),
        (b'"\xf4\x90\x80\x80"', "not UTF-8 at byte 1"),
        ("[1]".encode("utf-16"), "not UTF-8 at byte 0"),
        ("[1]".encode("utf-16-le"), "Expecting value"),
        (b"\xef\xbb\xbf[1]", "BOM"),
    ],
)
def test_parse_07_bytes_that_are_not_plain_utf_8_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        loads(data)


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":'])
def test_parse_07_no_depth_can_break_the_reader(opening: str) -> None:
    with pytest.raises(ValueError, match="more than 32 levels deep"):
        loads(opening * 100_000)


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
def test_res_14_json_nested_a_hundred_thousand_deep_is_an_error_and_no_recursion(
    opening: str, closing: str
) -> None:
    few = 30 // len(closing)
    assert loads(opening * few + "1" + closing * few)
    for levels in (33, 100_000):
        whole = opening * levels + "1" + closing * levels
        for data in (whole, whole.encode()):
            with pytest.raises(ValueError, match="more than 32 levels deep"):
                loads(data)


AMBIGUOUS: list[tuple[str, str]] = [
    ('{"a":1,"a":2}', "key 'a' is given twice"),
    (r'{"a":1,"\u0061":1}', "key 'a' is given twice"),
    ('[{"x":{"a":1,"b":2,"a":1}}]', "key 'a' is given twice"),
    ('{"":1,"":1}', "key '' is given twice"),
    ("NaN", "NaN is not JSON"),
    ('{"a":NaN}', "NaN is not JSON"),
    ("[Infinity]", "Infinity is not JSON"),
    ("-Infinity", "-Infinity is not JSON"),
    ("1e400", "inf is not JSON"),
    ("[-1e999]", "-inf is not JSON"),
    ("9007199254740992", "beyond"),
    ("-9007199254740992", "beyond"),
    ("9007199254740992.0", "beyond"),
    ("1" + "0" * 5000, "beyond"),
    (r'"\ud800"', "lone surrogate"),
    (r'"\udc00\ud800"', "lone surrogate"),
    (r'{"\ud83e":1}', "lone surrogate"),
    (r'["a\ud83eb"]', "lone surrogate"),
]


@pytest.mark.parametrize(("text", "reason"), AMBIGUOUS)
def test_parse_11_what_readers_understand_differently_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        loads(text)


def test_parse_11_the_standard_reader_takes_all_of_it() -> None:
    taken = {}
    for text, _ in AMBIGUOUS:
        try:
            taken[text] = json.loads(text)
        except ValueError:
            continue
    assert taken['{"a":1,"a":2}'] == {"a": 2}
    assert taken['{"a":NaN}']["a"] != taken['{"a":NaN}']["a"]
    assert taken["1e400"] == float("inf")
    # All but the number with 5,001 digits, which Python itself refuses to convert.
    assert len(taken) == len(AMBIGUOUS) - 1


def test_parse_11_a_key_given_twice_among_very_many_is_found_in_time() -> None:
    pairs = ",".join(f'"{number:06}":1' for number in range(90_000))
    with pytest.raises(ValueError, match="key '089999' is given twice"):
        loads("{" + pairs + ',"089999":1}')


@pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: {"a": inner}], ids=["array", "object"])
def test_parse_11_thirty_two_levels_are_read_and_one_more_is_refused(wrap: Callable[[Any], Any]) -> None:
    value: Any = wrap("innermost")
    for _ in range(MAX_DEPTH - 2):
        value = wrap(value)
    assert loads(json.dumps(value)) == value
    check(value)
    with pytest.raises(ValueError, match="more than 32 levels deep"):
        loads(json.dumps(wrap(value)))
    with pytest.raises(ValueError, match="more than 32 levels deep"):
        check(wrap(value))


def test_parse_11_a_megabyte_is_read_and_one_byte_more_is_refused() -> None:
    assert loads(" " * (MAX_BYTES - 1) + "1") == 1
    for text in (" " * MAX_BYTES + "1", b" " * MAX_BYTES + b"1"):
        with pytest.raises(ValueError, match="more than 1,048,576 bytes"):
            loads(text)


LOOP: list[Any] = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (float("nan"), "nan is not JSON"),
        ([float("inf")], "inf is not JSON"),
        ({"a": -float("inf")}, "-inf is not JSON"),
        (2**53, "beyond"),
        (-(2**53), "beyond"),
        (float(2**53), "beyond"),
        pytest.param([10**5000], "of 16610 bits", id="huge"),
        ("\ud800", "lone surrogate"),
        ({"\udfff": 1}, "lone surrogate"),
        ({1: "a"}, "a key is of type int, not a string"),
        ({None: "a"}, "a key is of type NoneType, not a string"),
        (LOOP, "more than 32 levels deep"),
    ],
)
def test_parse_11_values_that_never_were_text_are_held_to_the_same_rules(value: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        check(value)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(-1e15, 1e15) | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
        max_leaves=20,
    )
)
def test_parse_07_whatever_python_writes_from_plain_values_is_read_back(value: Any) -> None:
    try:
        check(value)
    except ValueError as error:
        assert "levels deep" in str(error) or "lone surrogate" in str(error)
        return
    assert loads(json.dumps(value)) == loads(json.dumps(value, ensure_ascii=False)) == value


@given(st.text(st.sampled_from('{}[]",:0123456789.eE+-\\untrfalsb \n\x00\ud800é')) | st.text())
def test_parse_07_any_text_is_a_value_or_a_reason_and_never_more_than_the_standard_reader_takes(
    text: str,
) -> None:
    try:
        value = loads(text)
    except ValueError as error:
        assert str(error)
        return
    assert json.loads(text) == value


@given(st.binary())
def test_parse_07_any_bytes_are_a_value_or_a_reason(data: bytes) -> None:
    try:
        loads(data)
    except ValueError as error:
        assert str(error)


def test_parse_11_what_is_too_much_is_refused_before_it_is_looked_at() -> None:
    with pytest.raises(ValueError, match="more than 1,048,576 bytes"):
        check("x" * 1_048_576 + "\ud800")
    with pytest.raises(ValueError, match="more than 10 bytes"):
        check({"a" * 6: "b" * 5}, most=10)
    with pytest.raises(ValueError, match="more than 3 values"):
        check([[1, 2], float("nan")], values=3)
    check({"a" * 5: "b" * 5}, most=10, values=1)
