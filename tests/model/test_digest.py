"""One value, one digest."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.model import strictjson
from metier.model.digest import canonical, digest

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_the_canonical_bytes_say_the_same_value(value: object) -> None:
    def number(digits: str) -> float:
        return int(digits) if abs(int(digits)) < 2**53 else float(digits)

    assert json.loads(canonical(value), parse_int=number) == value  # type: ignore[arg-type]


def test_a_large_float_is_written_as_an_integer_so_strict_json_refuses_it() -> None:
    assert canonical(3.639054778036133e16) == b"36390547780361330"
    assert json.loads(canonical(3.639054778036133e16)) != 3.639054778036133e16
    with pytest.raises(ValueError, match="beyond"):
        strictjson.check({"n": 3.639054778036133e16})
    strictjson.check({"n": 1e30})  # written with an exponent, so it comes back as it was


@given(st.dictionaries(st.text(max_size=4), st.integers(0, 9), max_size=6))
def test_the_order_of_keys_does_not_matter(value: dict[str, int]) -> None:
    assert digest(dict(reversed(value.items()))) == digest(dict(value))


def test_known_vectors_of_rfc_8785() -> None:
    value = {
        "numbers": [333333333.33333329, 1e30, 4.50, 2e-3, 1e-27],
        "literals": [None, True, False],
        "\u20ac": "\u000f\n",
    }
    assert (
        canonical(value)
        == (  # type: ignore[arg-type]
            '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"€":"\\u000f\\n"}'
        ).encode()
    )


def test_one_and_one_point_zero_are_one_act() -> None:
    assert digest({"n": 1}) == digest({"n": 1.0})
    assert digest({"n": 1}) != digest({"n": "1"})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2**53, -(2**53), "\ud800", {"\ud800": 1}])
def test_what_has_no_canonical_form_is_refused(value: object) -> None:
    with pytest.raises(ValueError):
        canonical(value)  # type: ignore[arg-type]
