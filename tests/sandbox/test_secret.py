"""The mask: a secret does not come back in any spelling that servers use, and what stands around it does."""

import base64
import html
import itertools
import json
import quopri
import textwrap
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from metier.sandbox.secret import LONG, MASK, Mask
from metier.sandbox.spelled import folded, views

KEYS = [
    "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
    "a&b<c>d'e\"f\\g/h+i=j k",
    "s3cr3t-value",
    "100%25 safe&amp;sound",
]
Spell = Callable[[str], str | bytes]


def go(value: str) -> str:
    return json.dumps(value).replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def dotnet(value: str) -> str:
    return go(value).replace("+", "\\u002B").replace("'", "\\u0027")


def packed(value: str, before: str = "", size: int = 76) -> str:
    return "\r\n".join(textwrap.wrap(base64.b64encode((before + value).encode()).decode(), size))


SPELLINGS: dict[str, Spell] = {
    "as it stands": str,
    "upper case": str.upper,
    "json": json.dumps,
    "json by PHP": lambda value: json.dumps(value).replace("/", "\\/"),
    "json by Go": go,
    "json by .NET": dotnet,
    "json in json": lambda value: json.dumps(dotnet(value)),
    "all of it escaped": lambda value: "".join(f"\\u{ord(each):04x}" for each in value),
    "escaped as JavaScript escapes": lambda value: "".join(f"\\x{ord(each):02X}" for each in value),
    "quote": quote,
    "quote, nothing safe": lambda value: quote(value, safe=""),
    "quote_plus": quote_plus,
    "encodeURIComponent": lambda value: quote(value, safe="!'()*~"),
    "small escapes": lambda value: quote(value, safe="").lower(),
    "quoted twice": lambda value: quote(quote(value, safe=""), safe=""),
    "every byte escaped": lambda value: "".join(f"%{each:02x}" for each in value.encode()),
    "html": html.escape,
    "html in html": lambda value: html.escape(html.escape(value)),
    "html by numbers": lambda value: "".join(f"&#{ord(each)};" for each in value),
    "html by hexadecimal numbers": lambda value: "".join(f"&#x{ord(each):X};" for each in value),
    "utf-16": lambda value: value.encode("utf-16-le"),
    "utf-16 the other way round": lambda value: value.encode("utf-16-be"),
    "broken over lines": lambda value: "\n  ".join(textwrap.wrap(value, 7, drop_whitespace=False)),
    "hexadecimal": lambda value: value.encode().hex(),
    "HEXADECIMAL": lambda value: value.encode().hex().upper(),
    "base64": packed,
    "base64 after one": lambda value: packed(value, "u"),
    "base64 after two": lambda value: packed(value, "us"),
    "base64 in short lines": lambda value: packed(value, "user:", 8),
    "base64 in lines in json": lambda value: json.dumps(packed(value, "user:", 8)),
    "base64 for URLs": lambda value: base64.urlsafe_b64encode(value.encode()).decode().rstrip("="),
    "base64, quoted": lambda value: quote(packed(value, "x"), safe=""),
    "base64 of utf-16": lambda value: base64.b64encode(value.encode("utf-16-le")).decode(),
}


def hidden(value: str, data: bytes, *, truncated: bool = False) -> bytes:
    mask = Mask()
    mask.add(value)
    return mask.data(data, truncated=truncated)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_secret_is_hidden_in_every_spelling_and_nothing_else_is(spelling: str, key: str) -> None:
    spelled = SPELLINGS[spelling](key)
    if isinstance(spelled, bytes):
        coding = "utf-16-be" if "round" in spelling else "utf-16-le"
        shown = hidden(key, "vor: ".encode(coding) + spelled + " – nach".encode(coding)).decode(coding)
        assert shown == f"vor: {MASK} – nach"
        return
    shown = hidden(
        key, f'{{"before": "ä%20&amp;", "it": [{spelled}], "after": "50% \\u00e4"}}'.encode()
    ).decode()
    assert shown.startswith('{"before": "ä%20&amp;", "it": [')
    assert shown.endswith('], "after": "50% \\u00e4"}')
    middle = shown.partition("[")[2].rpartition("]")[0]
    assert MASK in middle
    left = middle.replace(MASK, "").strip("\"'\\ \n")
    assert len(left) <= 10, "but for letters that its neighbours share"
    assert key[3:9].lower() not in left.lower()


@settings(max_examples=300, deadline=None)
@given(
    key=st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=8, max_size=40),
    before=st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20),
    names=st.lists(
        st.sampled_from(["json", "json by .NET", "quote", "html", "as it stands"]), min_size=1, max_size=3
    ),
)
def test_spellings_of_spellings_are_undone_together(key: str, before: str, names: list[str]) -> None:
    assume(all(len(folded(view.text)) >= LONG for view in views(key.encode())))
    data = f"{before} {key} after"
    for name in names:
        data = str(SPELLINGS[name](data))
    shown = hidden(key, data.encode()).decode()
    assert MASK in shown


@pytest.mark.parametrize("spelling", ["json", "json by .NET", "quote", "html", "as it stands"])
def test_a_secret_that_is_short_once_its_own_escapes_are_undone_is_known_as_it_is_usually_written(
    spelling: str,
) -> None:
    key = "0000%00<"
    shown = hidden(key, f"before {SPELLINGS[spelling](key)} after".encode()).decode()
    assert MASK in shown and "0000" not in shown


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_secret_that_a_cut_goes_through_is_hidden_too(spelling: str) -> None:
    key = KEYS[0]
    spelled = SPELLINGS[spelling](key)
    data = spelled if isinstance(spelled, bytes) else spelled.encode()
    for size in range(len(data) // 4, len(data)):
        shown = hidden(key, b"xxx:" + data[:size], truncated=True)
        left = shown.removeprefix(b"xxx:")
        for coding in ("utf-8", "utf-16-le", "utf-16-be"):
            left = left.replace(MASK.encode(coding), b"")
        assert len(left) <= 8, (spelling, size, left)


def test_what_holds_no_secret_stays_as_it_is_byte_by_byte() -> None:
    for data in (
        bytes(range(256)) * 50,
        b"%41%zz&amp;&nosuch;\\u00e4\\ud83d\\ude00\\x4 &#9999999; " * 9,
        b"",
    ):
        assert hidden(KEYS[0], data) == data


def test_two_secrets_beside_each_other_and_one_inside_the_other_are_hidden() -> None:
    mask = Mask()
    for key in ("first-secret", "second-secret", "my-second-secret-too"):
        mask.add(key)
    data = b"first-secretSECOND%2dsecret my-second-secret-too\\u002d first-SECRET"
    assert mask.data(data).decode() == f"{MASK}{MASK} {MASK}\\u002d {MASK}"


def test_a_short_secret_is_known_as_it_is_usually_written_and_tears_nothing_apart() -> None:
    assert hidden("Ab/1", b"Ab/1 ab/1 Ab%2F1 Ab\\/1") == b" ".join([MASK.encode()] * 4)
    assert hidden("Ab/1", b"AB/1 A b/1") == b"AB/1 A b/1"
    assert hidden("abc", b"abc") == b"abc"
    assert not Mask()


def test_bytes_that_are_no_text_are_hidden_as_they_are() -> None:
    value = b"\xff\xfe-secret-\x80".decode(errors="surrogateescape")
    assert hidden(value, b"a\xff\xfe-secret-\x80b") == b"a" + MASK.encode() + b"b"


def test_what_is_not_known_is_known_not_to_be() -> None:
    """The limit of what is promised: who works with the server finds a spelling nobody undoes."""
    for spelled in (
        KEYS[0][::-1].encode(),
        quopri.encodestring(KEYS[1].encode()),
        base64.b32encode(KEYS[0].encode()),
    ):
        assert hidden(KEYS[0], spelled) == spelled


@pytest.mark.parametrize("piece", [b"some text, ", b"%41", b"\\u0041", b"&amp;", b"\\n", b"\0", b"a b "])
@pytest.mark.parametrize("with_it", [False, True])
def test_a_large_body_is_looked_through_whole(piece: bytes, with_it: bool) -> None:
    data = piece * (1_000_000 // len(piece)) + (KEYS[0].encode() if with_it else b"")
    shown = hidden(KEYS[0], data)
    assert shown == data.replace(KEYS[0].encode(), MASK.encode())
    assert (shown != data) == with_it


def test_control_the_spellings_differ_from_each_other() -> None:
    made = [SPELLINGS[name](KEYS[1]) for name in SPELLINGS]
    assert len(set(map(str, made))) > len(made) - 3
    assert all(a != b for a, b in itertools.pairwise(map(str, made)))
