"""Secrets do not get into the record by way of a payload."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.record.payload import bounded_text, payload_bytes
from metier.record.redact import MASK, names_a_secret, redact

SECRET_NAMES = [
    "token",
    "access_token",
    "accessToken",
    "refresh-token",
    "TOKEN",
    "secret",
    "client_secret",
    "password",
    "userPassword",
    "passwd",
    "passphrase",
    "api_key",
    "apiKey",
    "API-KEY",
    "x-api-key",
    "Api Key",
    "private_key",
    "aws.secret.access.key",
    "Authorization",
    "Proxy-Authorization",
    "Set-Cookie",
    "credentials",
    "ｐａｓｓｗｏｒｄ",
    "paſſword",
]


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_a_secret_is_known_by_its_name_however_it_is_spelled(name: str) -> None:
    assert names_a_secret(name)
    assert redact([{name: "s3cr3t"}, {name: {"deep": ["s3cr3t"]}}, {name: 1234}]) == [{name: MASK}] * 3


@pytest.mark.parametrize(
    "name", ["name", "path", "query", "key", "monkey", "author", "passenger", "sort_keys", ""]
)
def test_an_ordinary_name_is_left_alone(name: str) -> None:
    assert redact({name: "value"}) == {name: "value"}


def test_a_count_of_tokens_is_not_a_token() -> None:
    assert redact({"max_tokens": 100, "tokens": ["abc"], "token": 7}) == {
        "max_tokens": 100,
        "tokens": MASK,
        "token": MASK,
    }


def test_the_mask_does_not_tell_how_long_the_secret_is() -> None:
    assert redact({"token": "x"}) == redact({"token": "x" * 500}) == redact({"token": ""})


def test_that_nothing_was_given_stays_visible() -> None:
    assert redact({"token": None}) == {"token": None}


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20)
plain_names = st.text("bdfghjlmnqvxyz", max_size=6)
plain = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(plain_names, inner), max_leaves=15
)
CANARY = "canary-7f3a"
with_secrets = st.recursive(
    st.sampled_from(SECRET_NAMES).flatmap(
        lambda name: st.sampled_from(
            [{name: CANARY}, {name: [CANARY]}, {name: {CANARY: 1}}, {name: {"a": CANARY}}]
        )
    ),
    lambda inner: st.lists(inner | plain) | st.dictionaries(plain_names, inner | plain),
    max_leaves=15,
)


@given(with_secrets)
def test_no_secret_survives_at_any_depth(value: Any) -> None:
    assert CANARY.encode() not in payload_bytes(value, "redacted")
    assert CANARY.encode() not in payload_bytes(value, "hashes")


@given(plain)
def test_what_is_not_secret_is_kept_as_it_is(value: Any) -> None:
    assert redact(value) == value


@given(with_secrets)
def test_masking_twice_changes_nothing_more(value: Any) -> None:
    assert redact(redact(value)) == redact(value)


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()))
    | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=())), inner),
    max_leaves=10,
)


@given(anything)
def test_any_payload_becomes_valid_json_on_one_line(value: Any) -> None:
    data = payload_bytes(value, "full")
    assert b"\n" not in data
    msgspec.json.decode(data)


@given(st.text(st.characters(exclude_categories=()), max_size=30), st.integers(1, 400))
def test_any_text_becomes_bounded_and_valid(text: str, times: int) -> None:
    bounded = bounded_text(text * times)
    assert len(bounded.encode()) <= 4096
    spelled = (text * times).encode("utf-8", "backslashreplace").decode()
    assert bounded == spelled or bounded.endswith(f"… [cut, {len(spelled.encode())} bytes]")
