"""Somebody who decides by what he reads must read what is there."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.model.exact import laid_out, misleading, quoted

HOSTILE = {
    "right to left": ("invoice\u202efdp.exe", "\\u{202e}"),
    "isolate": ("a\u2066b", "\\u{2066}"),
    "zero width": ("pass\u200bword", "\\u{200b}"),
    "joiner": ("a\u200db", "\\u{200d}"),
    "tag": ("run\U000e0072\U000e006d", "\\u{e0072}"),
    "escape": ("\x1b[2K\x1b[1A", "\\u{1b}"),
    "carriage return": ("rm -rf /\rls       ", "\\r"),
    "both line ends": ("a\r\nb", "\\r\\n"),
    "bell": ("\a", "\\u{7}"),
    "no-break space": ("a\u00a0b", "\\u{a0}"),
    "wide space": ("a\u3000b", "\\u{3000}"),
    "line separator": ("a\u2028b", "\\u{2028}"),
    "selector": ("a\ufe0f", "\\u{fe0f}"),
    "private": ("\ue000", "\\u{e000}"),
    "filler": ("\u3164", "\\u{3164}"),
    "C1": ("\x9b2J", "\\u{9b}"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_apr_24_what_cannot_be_seen_is_spelled_out_and_said(kind: str) -> None:
    text, spelled = HOSTILE[kind]
    assert spelled in quoted(text)
    assert all(each.isascii() and each.isprintable() for each in quoted(text))
    assert misleading({"text": text}), kind


@pytest.mark.parametrize("text", ["p\u0430ypal.com", "\u0441url", "goo\u03bfgle", "ｐaypal"])
def test_apr_24_letters_that_look_alike_in_one_word_are_said(text: str) -> None:
    assert any("look alike" in said for said in misleading({"host": text}))
    assert (
        misleading({"note": "paypal and \u043f\u0440\u0438\u0432\u0435\u0442, Grüße, 日本語ひらがな"}) == []
    )


def test_apr_24_a_hostile_name_of_an_argument_is_said_too() -> None:
    assert any("name of an argument" in said for said in misleading({"p\u0430th": 1}))
    assert any("another spelling" in said for said in misleading({"a": "cafe\u0301"}))


def test_apr_24_markup_is_nothing_but_text_here() -> None:
    for text in ("<script>alert(1)</script>", "[safe](http://evil)", "**bold**"):
        assert quoted(text) == f'"{text}"'


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        ("rm ", '"rm "'),
        ("rm", '"rm"'),
        ("a\tb", '"a\\tb"'),
        ("a\\tb", '"a\\\\tb"'),
        ("a\nb", '"a\\nb"'),
        ('a" "b', '"a\\" \\"b"'),
        ("", '""'),
        ("\\u{202e}", '"\\\\u{202e}"'),
    ],
)
def test_apr_25_each_token_stands_in_quotes_exactly_as_it_is(token: str, shown: str) -> None:
    assert quoted(token) == shown
    assert laid_out({"argv": ["rm", token]}) == f'{{\n  "argv": [\n    "rm",\n    {shown}\n  ]\n}}'


@given(st.text(max_size=20), st.text(max_size=20))
def test_apr_25_two_texts_look_the_same_only_when_they_are(one: str, other: str) -> None:
    assert (quoted(one) == quoted(other)) == (one == other)


@given(st.text(max_size=40))
def test_nothing_that_is_printed_moves_a_cursor(text: str) -> None:
    assert quoted(text).isprintable()


def test_apr_23_a_tail_behind_blanks_is_pointed_at() -> None:
    assert misleading({"command": "ls" + " " * 200 + "; rm -rf /"})
    assert misleading({"command": "ls\n" * 3}) == []


def test_numbers_and_empty_things_are_written_as_in_json() -> None:
    value = {"a": None, "b": True, "c": 1, "d": 1.5, "e": [], "f": {}, "g": ""}
    assert laid_out(value) == (
        '{\n  "a": null,\n  "b": true,\n  "c": 1,\n  "d": 1.5,\n  "e": [],\n  "f": {},\n  "g": ""\n}'
    )
