"""Secrets do not get into the record by way of a payload."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.record.payload import bounded_text, payload_bytes
from metier.record.redact import redact
from metier.record.secret_names import names_a_secret
from metier.record.secret_text import MASK

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
    "pa\u0455sword",
    "pásswôrd",
    "pass\u200bword",
    "api\u2060_key",
    "au\u00adth",
    "auth",
    "x-auth",
    "basicAuth",
    "pass",
    "db_pass",
    "passcode",
    "jwt",
    "otp",
    "pin",
    "userPIN",
    "pin_code",
    "key",
    "ssh_key",
    "client_key",
    "api:key",
    "api/key",
    "session",
    "session_id",
]


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_a_secret_is_known_by_its_name_however_it_is_spelled(name: str) -> None:
    assert names_a_secret(name)
    assert redact([{name: "s3cr3t"}, {name: {"deep": ["s3cr3t"]}}, {name: 1234}]) == [{name: MASK}] * 3


@pytest.mark.parametrize(
    "name",
    [
        "name",
        "path",
        "query",
        "monkey",
        "keyboard",
        "keys",
        "sort_key",
        "sort_keys",
        "author",
        "authored_by",
        "passenger",
        "passage",
        "compass",
        "bypass",
        "pinned",
        "spin",
        "pineapple",
        "sessions",
        "options",
        "residual",
        "été",
        "_",
        "",
    ],
)
def test_an_ordinary_name_is_left_alone(name: str) -> None:
    assert redact({name: "value"}) == {name: "value"}


def test_a_count_of_tokens_is_not_a_token() -> None:
    assert redact({"max_tokens": 100, "tokens": ["abc"], "token": 7}) == {
        "max_tokens": 100,
        "tokens": MASK,
        "token": MASK,
    }


def test_a_number_under_the_name_of_a_secret_is_masked() -> None:
    assert redact({"pin": 1234, "tokens": 123456, "recovery_tokens": 12345678, "otp": 0.5}) == {
        "pin": MASK,
        "tokens": MASK,
        "recovery_tokens": MASK,
        "otp": MASK,
    }


SHAPES: dict[str, Any] = {
    "name and value": [{"name": "Authorization", "value": "c4n4ry"}],
    "key and value": {"key": "api_key", "value": ["c4n4ry"]},
    "pair": [["Cookie", "c4n4ry"]],
    "option": ["curl", "--password", "c4n4ry", "-v"],
    "option with its value": ["--password=c4n4ry,;c4n4ry"],
    "short query": "https://example.org/?key=c4n4ry&page=2",
    "header": ["Authorization: Bearer c4n4ry"],
    "header in a command": "curl -H 'Authorization: Basic c4n4ry c4n4ry' https://example.org",
    "credential alone": "send Bearer c4n4ry-0123 along",
    "user of an address": "clone https://user:c4n4ry@c4n4ry@example.org/x",
    "token as a user": "https://c4n4ry@example.org/x",
    "database address": {"dsn": "postgres://u:c4n4ry@h/db"},
    "JSON": '{"a": [{"password": {"b": "c4n4ry"}}]}',
    "JSON in JSON": '["{\\"password\\": [\\"c4n4ry\\"]}"]',
    "JSON with a name twice": '{"password": "c4n4ry", "password": null}',
    "JSON in a sentence": 'post {"password": "c4n4ry \\" c4n4ry"} there',
    "assignment": "export DB_PASSWORD='c4n4ry c4n4ry'",
    "unseen character in a text": "pass\u200bword=c4n4ry",
    "private key": "-----BEGIN RSA PRIVATE KEY-----\nc4n4ry\n-----END RSA PRIVATE KEY-----",
    "cut private key": "-----BEGIN PRIVATE KEY-----\nc4n4ry",
    "key of an object": {"https://user:c4n4ry@example.org": 1},
    "sk-": "use sk-c4n4ry000000000000 now",
    "ghp_": "ghp_c4n4ry00000000000000",
    "xoxb-": "xoxb-c4n4ry-00000",
    "AKIA": "AKIAC4N4RY0000000000".replace("C4N4RY", "c4n4ry".upper()),
    "token of three parts": "eyJc4n4ry00.c4n4ry.c4n4ry",
}


@pytest.mark.parametrize("value", SHAPES.values(), ids=SHAPES.keys())
def test_a_secret_is_known_by_its_shape(value: Any) -> None:
    assert "c4n4ry" in str(value).lower()
    kept = redact(value)
    assert "c4n4ry" not in str(kept).lower()
    assert MASK in str(kept)
    assert redact(kept) == kept


@pytest.mark.parametrize(
    "value",
    [
        "the key: point; author: me; pass: yes; session: 3; pin: it",
        "basic knowledge, bearer of bad news",
        "ssh://git@example.org/x and git@example.org:a/b.git and mail me@example.org",
        "https://example.org/@user?mail=a@b",
        "sk-learn-based-classifier-with-many-words, risk-0123456789012345",
        "Token::new() and sort(key=len) and a:b=c",
        ["--verbose", "--author", "me", "--pinned"],
        ["keyboard", "monkey"],
        [{"name": "color", "value": "red"}, {"key": "size", "value": 3}],
        '{"author": "me", "sessions": [1, 2.0]}',
        "AKIA and xoxb- and ghp_short",
        "{not json",
    ],
)
def test_what_only_looks_like_a_secret_is_left_alone(value: Any) -> None:
    assert redact(value) == value


def test_an_option_without_a_value_does_not_hide_the_next_option() -> None:
    assert redact(["--no-password", "--verbose"]) == ["--no-password", "--verbose"]


@pytest.mark.parametrize(
    "piece",
    [
        *("sk-", "password=", "-----BEGIN PRIVATE KEY-----", "-----BEGIN ", "://a:", 'token:"', "token:'\\"),
        *("bearer ", "eyJaaaaaaaa.", "[", "x=[{", "a.b-"),
    ],
)
def test_hostile_text_takes_time_in_proportion(piece: str) -> None:
    from time import process_time

    def seconds(size: int) -> float:
        began = process_time()
        redact(piece * (size // len(piece)))
        return process_time() - began

    seconds(1000)
    assert seconds(400_000) < 40 * max(seconds(40_000), 0.002)


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
