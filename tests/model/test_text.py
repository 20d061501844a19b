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
        ("❤\ufe0f\ufe0f\ufe0e", "❤\ufe0f\\u{fe0f}\\u{fe0e}"),
        ("a\ufe0fb\ufe0ec", "a\\u{fe0f}b\\u{fe0e}c"),
        ("1\ufe0f2", "1\\u{fe0f}2"),
        ("1\ufe0f\u20e3 #\ufe0f\u20e3", "1\ufe0f\u20e3 #\ufe0f\u20e3"),
        ("©\ufe0f ™\ufe0e 🏳\ufe0f\u200d🌈", "©\ufe0f ™\ufe0e 🏳\ufe0f\u200d🌈"),
        ("x\ufe0f\u200d🌈", "x\\u{fe0f}\\u{200d}🌈"),
        ("\ufe0f", "\\u{fe0f}"),
        ("a\U0001bca0b\U0001bca3", "a\\u{1bca0}b\\u{1bca3}"),
        ("\U00013430\U0001345f", "\\u{13430}\\u{1345f}"),
    ],
)
def test_unseen_characters_are_spelled_out(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_inj_02_no_character_that_takes_no_room_stays_unseen() -> None:
    """What Unicode calls default ignorable, and its selectors, each between two letters. One for every letter would be a second text."""
    ignored = (
        *(0x00AD, 0x034F, 0x061C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFEFF, 0xFFA0),
        *range(0x180B, 0x1810),
        *range(0x200B, 0x2010),
        *range(0x202A, 0x202F),
        *range(0x2060, 0x2070),
        *range(0xFE00, 0xFE10),
        *range(0xFFF0, 0xFFF9),
        *range(0x1BCA0, 0x1BCA4),
        *range(0x1D173, 0x1D17B),
        *range(0xE0000, 0xE1000),
    )
    for code in ignored:
        assert visible(f"a{chr(code)}b") == f"a\\u{{{code:x}}}b"
        assert hidden(f"a{chr(code)}b") == [chr(code)]
