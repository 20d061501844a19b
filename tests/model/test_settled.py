"""A value has one form, and it is the one that its canonical bytes would give back."""

import enum
import math
from typing import Any

import msgspec
import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from metier.model.settled import settled
from metier.model.strictjson import MAX_BYTES, MAX_DEPTH, MAX_INTEGER, MAX_VALUES, check

PLAIN_TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]) | st.sampled_from("\t\n\r"))
SAFE_FLOATS = st.floats(allow_nan=False, allow_infinity=False).filter(
    lambda number: not (number.is_integer() and MAX_INTEGER < abs(number) < 1e21)
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-MAX_INTEGER, MAX_INTEGER) | SAFE_FLOATS | PLAIN_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(PLAIN_TEXT, inner, max_size=5),
    max_leaves=25,
)


def by_way_of_its_bytes(value: Any) -> Any:
    return msgspec.json.decode(rfc8785.dumps(value))


def exactly(value: Any) -> str:
    """Tells 1 from 1.0, 0.0 from -0.0, and one order of keys from another."""
    return repr(value)


@settings(max_examples=500, deadline=None)
@given(VALUES)
def test_the_one_form_is_what_the_canonical_bytes_give_back(value: Any) -> None:
    assert exactly(settled(value)) == exactly(by_way_of_its_bytes(value))
    assert rfc8785.dumps(settled(value)) == rfc8785.dumps(value)
    assert exactly(settled(settled(value))) == exactly(settled(value))


@pytest.mark.parametrize(
    "value",
    [
        1.0, -0.0, 0.0, 1e-7, 1e-6, 123e-20, 5e-324, 1.7976931348623157e308, 1e21, -1e21, 1.5e300, 0.1, 1 / 3,
        float(MAX_INTEGER), MAX_INTEGER, -MAX_INTEGER, 4.35, 9007199254740990.0,
        {"\U0001f9c0": 1, "\ue000": 2, "\ufb33": 3, "z": 4, "": 5, "é": 6},
        {"b": [{"y": 2.0, "x": 1}], "a": {"d": None, "c": False}},
        (1, (2.0, [3])), "\t\r\n", "\u0085\u2028\ufeff",
    ],
    ids=lambda value: ascii(value)[:40],
)  # fmt: skip
def test_the_odd_ones_are_what_the_canonical_bytes_give_back(value: Any) -> None:
    assert exactly(settled(value)) == exactly(by_way_of_its_bytes(value))


def test_one_and_one_point_zero_are_one_value_and_true_is_another() -> None:
    assert exactly(settled([1, 1.0, True, -0.0])) == "[1, 1, True, 0]"


class Steep(enum.IntEnum):
    LONG = 5


class Leaf(enum.StrEnum):
    GREEN = "green"


class Measure(float):
    pass


def test_values_of_derived_types_become_plain_ones() -> None:
    made = settled({"a": Steep.LONG, "b": Leaf.GREEN, "c": Measure(2.5), "d": (1,)})  # type: ignore[dict-item]
    assert exactly(made) == "{'a': 5, 'b': 'green', 'c': 2.5, 'd': [1]}"


def test_whoever_gave_the_value_cannot_change_it_any_more() -> None:
    given: dict[str, Any] = {"a": [1], "b": {"c": 1}}
    made = settled(given)
    given["a"].append(2)
    given["b"]["c"] = 2
    assert made == {"a": [1], "b": {"c": 1}}


LOOP: list[Any] = []
LOOP.extend((LOOP, LOOP))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (math.nan, "nan is not JSON"),
        ([math.inf], "inf is not JSON"),
        ({"a": -math.inf}, "-inf is not JSON"),
        (MAX_INTEGER + 1, "beyond"),
        ([{"a": -(2**53)}], "beyond"),
        (2.0**53, "beyond"),
        (1e20, "beyond"),
        pytest.param([10**5000], "of 16610 bits", id="huge"),
        ("\ud800", "lone surrogate"),
        ({"\udfff": 1}, "lone surrogate"),
        ({1: "a"}, "a key is of type int"),
        ({None: "a"}, "a key is of type NoneType"),
        ({Leaf.GREEN: "a"}, "a key is of type Leaf"),
        (b"bytes", "type bytes is not JSON"),
        ({"a": {1, 2}}, "type set is not JSON"),
        ([object()], "type object is not JSON"),
        (LOOP, "more than"),
        (["x" * MAX_BYTES, "x"], "more than 1,048,576 bytes"),
        ({"x" * MAX_BYTES: "x"}, "more than 1,048,576 bytes"),
        ([0] * (MAX_BYTES + 1), "more than 1,048,576 bytes"),
        # What is too much is not even looked at.
        ("x" * MAX_BYTES + "\x00", "more than 1,048,576 bytes"),
        ({"x" * MAX_BYTES + "\x00": 1}, "more than 1,048,576 bytes"),
        ([0] * (MAX_VALUES + 1), "more than 65,536 values"),
        ([[]] * (MAX_VALUES // 2) + [[0]] * (MAX_VALUES // 2), "more than 65,536 values"),
        ([math.nan] * (MAX_VALUES + 1), "more than 65,536 values"),
    ],
    ids=lambda value: ascii(value)[:30] if not isinstance(value, list) else "list",
)
def test_parse_11_what_has_no_one_form_is_refused_with_a_reason(value: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        settled(value)


CONTROLS = [chr(code) for code in (*range(0x20), 0x7F) if chr(code) not in "\t\n\r"]


def test_as_many_values_as_may_be_are_settled() -> None:
    value = [[0] * 255 for _ in range(256)]
    assert settled(value) == value


@pytest.mark.parametrize("control", CONTROLS, ids=ascii)
def test_parse_11_control_characters_are_refused_in_values_and_in_keys_at_any_depth(control: str) -> None:
    text = f"a{control}b"
    for value in (text, [text], {"k": [{"k": text}]}, {text: 1}, [{"k": {text: 1}}], f"é{control}"):
        with pytest.raises(ValueError, match="control character"):
            settled(value)
    for value in (f"\\u{ord(control):04x}", "a\tb\r\nc"):
        assert settled(value) == value


@pytest.mark.parametrize("control", [each for each in CONTROLS if each != "\x7f"], ids=ascii)
def test_texts_that_will_be_cleaned_may_hold_c0_characters_and_nothing_else_is_loosened(control: str) -> None:
    text = f"a{control}b"
    assert settled([text], unclean=True) == [text]
    for value in ({text: 1}, "\x7f", "\ud800", math.nan, 2**53):
        with pytest.raises(ValueError):
            settled(value, unclean=True)


def nested(levels: int, inner: Any) -> Any:
    for level in range(levels):
        inner = [inner] if level % 2 else {"a": inner}
    return inner


@pytest.mark.parametrize("inner", ["x", 1, [], {}])
def test_the_same_depth_is_allowed_as_in_text(inner: Any) -> None:
    for levels in range(MAX_DEPTH - 3, MAX_DEPTH + 2):
        value = nested(levels, inner)
        try:
            check(value)
        except ValueError as error:
            with pytest.raises(ValueError, match="more than 32 levels deep"):
                settled(value)
            assert "levels deep" in str(error)
            assert levels >= MAX_DEPTH - 1
        else:
            assert settled(value) == value
            assert levels < MAX_DEPTH


@settings(max_examples=300, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary(max_size=3),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4) | st.tuples(inner),
        max_leaves=15,
    )
)  # fmt: skip
def test_whatever_is_settled_a_strict_reader_would_have_let_in(value: Any) -> None:
    try:
        made = settled(value)
    except ValueError as error:
        assert str(error)
        return
    check(made)
    check(value)
    assert exactly(made) == exactly(by_way_of_its_bytes(value))
