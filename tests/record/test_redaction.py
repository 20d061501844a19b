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
    "pw",
    "db_pw",
    "creds",
    "aws.creds",
    "seed_phrase",
    "recoveryPhrase",
    "mnemonic",
    "cvv",
    "card_cvc",
    "sig",
    "licence_key",
    "LICENSE-KEY",
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
    "PGP": "-----BEGIN PGP PRIVATE KEY BLOCK-----\nc4n4ry\n-----END PGP PRIVATE KEY BLOCK-----",
    "age": "AGE-SECRET-KEY-1C4N4RY9X8GF2TVDW0S3JN54KHCE6MUA7L",
    "ya29": "use ya29.c4n4ry-6SMBx0123456789abcdef",
    "Telegram": "123456789:AAc4n4ryeik6ad9r_QXMENQjcrGbqCr4K",
    "Telegram address": "https://api.telegram.org/bot123456789:AAc4n4ryeik6ad9r_QXMENQjcrGbqCr4K/getMe",
    "SG": "SG.c4n4ryefghijklmnopqrst.c4n4ry6789abcdefghijkl",
    "xapp": "xapp-1-A0123-456-c4n4ry",
    "whsec": "whsec_c4n4ry0123456789abcdef",
    "Slack hook": "https://hooks.slack.com/services/T00000000/B00000000/c4n4ry",
    "Discord hook": "https://discord.com/api/webhooks/123456789012345678/c4n4ry",
    "signature in a query": "https://example.org/c?sv=1&sig=c4n4ry%3D",
    "signature of S3": "https://example.org/x?X-Amz-Signature=c4n4ry&X-Amz-Date=1",
    "variable": "export DB_PASS=c4n4ry",
    "variable of a file": "db_pass: c4n4ry",
    "plain variable": "PASS=c4n4ry",
    "curl in a text": "curl -u bob:c4n4ry https://example.org",
    "curl quoted": "curl --user 'bob:c4n4ry' https://example.org",
    "curl in a list": ["curl", "-u", "bob:c4n4ry", "https://example.org"],
    "sshpass in a text": "sshpass -p c4n4ry ssh x",
    "sshpass in a list": ["/usr/bin/sshpass", "-p", "c4n4ry", "ssh", "x"],
}


@pytest.mark.parametrize("value", SHAPES.values(), ids=SHAPES.keys())
def test_a_secret_is_known_by_its_shape(value: Any) -> None:
    assert "c4n4ry" in str(value).lower()
    kept = redact(value)
    assert "c4n4ry" not in str(kept).lower()
    assert MASK in str(kept)
    assert redact(kept) == kept


@pytest.mark.parametrize(
    "text",
    [
        "shpat_0123456789abcdef0123456789abcdef",
        "dop_v1_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "bearer abcdefABCDEFghijkl",
    ],
)
def test_a_token_of_letters_or_of_hexadecimal_digits_is_known_by_its_shape(text: str) -> None:
    masked = msgspec.json.decode(payload_bytes({"text": f"use {text} now"}, "redacted"))
    assert masked in ({"text": f"use {MASK} now"}, {"text": f"use bearer {MASK} now"})


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
        "docker run -u 1000:1000 and docker run --user 0:0 and a signature: below, 12:AA",
        ["docker", "run", "-u", "1000:1000", "image"],
        "basic understanding of bearer authentication; pass: 12, fail: 3; signal=9; design: new",
        "https://example.org/hooks/list and webhooks in general",
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
        *(
            "bearer ",
            "eyJaaaaaaaa.",
            "[",
            "x=[{",
            "a.b-",
            "-u a",
            "-u a:",
            "sshpass -p ",
            "ya29.",
            "SG.a",
            "1234567:AA",
            "hooks",
        ),
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


_PIECES = [
    *(
        "token",
        "Secret",
        "pass",
        "pwd",
        "pin",
        "otp",
        "jwt",
        "credential",
        "cookie",
        "Bearer ",
        "basic ",
        "auth",
        "sid",
    ),
    *(
        "key",
        "session",
        "private",
        "PRIVATE KEY",
        "-----BEGIN ",
        "sk-",
        "sk_live_",
        "ghp_",
        "github_pat_",
        "glpat-",
        "xoxb-",
    ),
    *(
        "-u ",
        "--user ",
        "bob:",
        "sshpass -p ",
        "sig",
        "signature",
        "pw",
        "cred",
        "cvv",
        "phrase",
        "seed",
        "mnemonic",
        "words",
        "hooks.slack.com/services/",
        "/api/webhooks/12345678/",
        "ya29.",
        "SG.",
        "xapp-",
        "whsec_",
        "shpat_",
        "dop_v1_",
        "1234567:AA",
        "AGE-SECRET-KEY-1",
    ),
    *(
        "AKIA",
        "ASIA",
        "AIza",
        "hf_",
        "npm_",
        "pypi-",
        "eyJ",
        "://",
        "@",
        "=",
        ": ",
        "&",
        "?",
        "--",
        "\\",
        '"',
        "{",
        "[",
        "}",
    ),
    *(
        "a1b2c3d4e5f6g7h8i9",
        "ABCDEFGHIJKLMNOP",
        "name",
        "value",
        "the",
        " ",
        "_",
        "-",
        ".",
        "é",
        "\u0430",
        "\u200b",
        "\n",
    ),
]
_SPELLED = st.lists(st.sampled_from(_PIECES), max_size=5).map("".join)
_ITEMS = (
    _SPELLED | st.text(max_size=12) | st.integers(-(2**53), 2**53) | st.floats() | st.booleans() | st.none()
)


@given(st.dictionaries(_SPELLED | st.text(max_size=12), _ITEMS | st.lists(_ITEMS, max_size=3), max_size=4))
def test_what_is_kept_without_a_closer_look_is_what_a_closer_look_would_keep(value: Any) -> None:
    storable = json_value(value)
    assert payload_bytes(value, "redacted") == msgspec.json.encode(redact(storable))
    assert payload_bytes(value, "full") == msgspec.json.encode(storable)


def json_value(value: Any) -> Any:
    """As it is stored: what no JSON text can hold is spelled out."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {json_value(name): json_value(item) for name, item in value.items()}
    return [json_value(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_no_spelling_of_a_name_is_passed_over(name: str) -> None:
    assert msgspec.json.decode(payload_bytes({name: "s3cr3t"}, "redacted")) == {name: MASK}
    said = {"text": f"?{name}=s3cr3t"}
    assert payload_bytes(said, "redacted") == msgspec.json.encode(redact(json_value(said)))


def test_an_ordinary_payload_is_kept_as_it_is() -> None:
    ordinary = {"text": "what the tool is given", "count": 3, "done": True, "rest": None}
    assert msgspec.json.decode(payload_bytes(ordinary, "redacted")) == ordinary
