"""Text from a skill, made safe to show."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.model.text import hidden, one_line, visible


@given(st.text())
def test_what_is_shown_holds_nothing_unseen(text: str) -> None:
    kept = visible(text).replace("\u200d", "")
    assert not [
        char
        for char in kept
        if unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp", "Cs") and char not in "\t\n"
    ]


@given(st.text(), st.integers(0, 40))
def test_one_line_is_one_line_and_no_longer_than_asked(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert len(line.splitlines()) <= 1
    if limit:
        assert len(line) <= limit


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126)))
def test_plain_text_is_left_alone(text: str) -> None:
    assert visible(text) == text
    assert hidden(text) == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\u202eb", "a\\u{202e}b"),
        ("\x1b[31m", "\\u{1b}[31m"),
        ("x\U000e0041", "x\\u{e0041}"),
        ("zero\u200bwidth", "zero\\u{200b}width"),
        ("a\rb", "a\\u{d}b"),
        ("win\r\ndows", "win\ndows"),
        ("👩\u200d💻 ❤\ufe0f", "👩\u200d💻 ❤\ufe0f"),
        ("x\u200dy", "x\\u{200d}y"),
        ("\ue000", "\ufffd"),
        ("❤\ufe0f\ufe0f\ufe0e", "❤\\u{fe0f}\\u{fe0f}\ufe0e"),
    ],
)
def test_unseen_characters_are_spelled_out(text: str, shown: str) -> None:
    assert visible(text) == shown
