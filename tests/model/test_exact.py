"""Somebody who decides by what he reads must read what is there."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.model.digest import Json
from metier.model.exact import items_laid_out, laid_out, misleading, quoted

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
    if "\n" not in token:
        assert laid_out({"argv": ["rm", token]}) == f'{{\n  "argv": [\n    "rm",\n    {shown}\n  ]\n}}'


def test_apr_25_a_text_of_several_lines_has_each_on_its_own_behind_a_margin_that_no_text_can_draw() -> None:
    script = 'ls\n\n| "rm"\n  "path": "x"'
    assert laid_out({"argv": ["sh", script], "code": script, "short": "tea\n"}) == (
        '{\n  "argv": [\n    "sh",\n    | "ls\\n"\n    | "\\n"\n    | "| \\"rm\\"\\n"\n    | "  \\"path\\": \\"x\\""\n  ],\n'
        '  "code":\n    | "ls\\n"\n    | "\\n"\n    | "| \\"rm\\"\\n"\n    | "  \\"path\\": \\"x\\"",\n  "short": "tea\\n"\n}'
    )


TEXTS = st.text(alphabet='a\n" |\\:{,', max_size=8)
VALUES: st.SearchStrategy[Json] = st.recursive(
    TEXTS | st.integers(0, 3) | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


def read_back(text: str) -> Any:
    """What stands there, for who knows how it is written: lines behind a margin are one text."""
    text = re.sub(r':\n *\| "', ': "', text)
    text = re.sub(r'"\n *\| "', "", text)
    return json.loads(re.sub(r'(^|\n) *\| "', r'\1"', text))


@given(VALUES)
def test_apr_25_what_is_laid_out_can_be_read_back_so_no_two_values_look_the_same(value: Json) -> None:
    assert read_back(laid_out(value)) == value


@given(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=4))
def test_arguments_in_parts_are_the_whole(value: dict[str, Json]) -> None:
    assert "\n".join(["{", *items_laid_out(value), "}"]) == laid_out(value)


@pytest.mark.parametrize("text", ["\n" * 200_000, "a\n" * 200_000, "a line of a script\n" * 20_000])
def test_apr_23_a_text_of_many_short_lines_does_not_grow_for_being_laid_out(text: str) -> None:
    assert len(laid_out({"a": {"b": {"c": text}}})) < 3 * len(text) + 10_000


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


KINDS = {
    "blanks": ("ls" + " " * 40 + "x", "run of blanks"),
    "unseen": ("a\u200bb", "cannot be seen"),
    "spelled": ("cafe\u0301", "another spelling"),
    "alike": ("p\u0430ypal", "look alike"),
}


@pytest.mark.parametrize("last", KINDS)
def test_apr_24_however_much_there_is_of_one_kind_every_other_kind_is_said_and_first(last: str) -> None:
    """Whoever asks could else fill what is said with what is harmless."""
    much = {f"{kind}{n}": text for kind, (text, _) in KINDS.items() if kind != last for n in range(500)}
    said = misleading({**much, "last": KINDS[last][0]})
    for _, words in KINDS.values():
        assert any(words in each for each in said[: len(KINDS)]), words
    assert any(each.startswith('"last" ') for each in said[: len(KINDS)])


def test_apr_24_of_much_that_misleads_a_part_is_said_and_how_much_more_there_is() -> None:
    assert len(misleading({str(n): "a\u200b" for n in range(5)})) == 5
    said = misleading({str(n): "a\u200b" for n in range(1_500)})
    assert len(said) == 6
    assert any(each.startswith("1,495 more like this") for each in said)
    mixed = misleading({"a": " ".join(f"p\u0430y{n}" for n in range(90))})
    assert len(mixed) == 6 and any(each.startswith("85 more") for each in mixed)
    unseen = "".join(map(chr, range(0xE0020, 0xE0060)))
    assert "U+E0020" in misleading({"a": unseen})[0] and "and 56 more" in misleading({"a": unseen})[0]


def test_apr_23_what_is_said_is_short_however_long_the_names_are() -> None:
    value: Json = {"n" * 5_000: {"m" * 5_000: ["a\u200b", "p\u0430y" * 5_000]}, "\u200b" * 5_000: 1}
    assert all(len(each) < 2_000 for each in misleading(value))
    assert all(each.isprintable() for each in misleading(value))


class Counted(str):
    """How often something is made of a name."""

    read = 0

    def __getitem__(self, key: Any) -> str:
        Counted.read += len(str.__getitem__(self, key))
        return str.__getitem__(self, key)

    def __format__(self, spec: str) -> str:
        Counted.read += len(self)
        return str.__format__(self, spec)


def test_apr_29_a_long_name_is_not_read_again_for_every_text_below_it() -> None:
    """Else one request of 65 kB keeps whoever should decide it waiting for half a minute, at every door."""
    below: dict[str, Json] = {str(n): "é" for n in range(3_000)}
    assert misleading({Counted("é" * 15_000): below}) == []
    assert Counted.read < 20_000


@pytest.mark.parametrize("levels", [1, 30])
def test_apr_23_what_is_laid_out_grows_with_what_is_in_it_and_not_with_how_deep_it_is(levels: int) -> None:
    value: Json = list(range(2_000))
    for _ in range(levels):
        value = {"a": value}
    text = laid_out(value)
    assert len(text) < 45 * 2_000
    assert json.loads(text) == value
