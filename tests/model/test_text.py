"""Text from a skill, made safe to show."""

import subprocess
import sys
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.model import text as module
from metier.model.text import hidden, one_line, piled, unpiled, visible


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
        ("to\ufffcday", "to\\u{fffc}day"),
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


def test_apr_24_what_only_stands_for_an_object_looks_blank_and_is_spelled_out() -> None:
    assert visible("rm \ufffc/") == "rm \\u{fffc}/"
    assert hidden("rm \ufffc/") == ["\ufffc"]
    assert visible("rm \ufffd/") == "rm \ufffd/"  # this one is seen


@pytest.mark.parametrize("mark", ["\u0301", "\u0489", "\u20dd", "\u0e49", "\U0001e8d0"])
def test_apr_24_the_fifth_mark_in_a_row_and_every_further_one_are_spelled_out(mark: str) -> None:
    four, spelled = "x" + mark * 4, f"\\u{{{ord(mark):x}}}"
    assert visible(four + "y") == four + "y"
    assert hidden(four + "y") == []
    assert visible(four + mark + "y") == four + spelled + "y"
    assert visible(f"{four}{mark * 60} and {four}{mark}") == f"{four}{spelled * 60} and {four}{spelled}"
    assert hidden(four + mark * 60) == [mark]
    assert one_line(four + mark * 2) == four + spelled * 2


def test_apr_24_different_marks_in_a_row_count_together_and_each_is_named_once() -> None:
    assert visible("x\u0300\u0489\u0302\u0303\u0304\u20dd") == "x\u0300\u0489\u0302\u0303\\u{304}\\u{20dd}"
    assert hidden("x" + "\u0300\u0489\u0302" * 9) == ["\u0489", "\u0302", "\u0300"]


def test_apr_24_an_unseen_character_among_marks_is_spelled_out_and_is_what_the_next_ones_stand_on() -> None:
    four = "\u0301" * 4
    assert visible(f"x{four}\u034f{four}") == f"x{four}\\u{{34f}}{four}"
    assert hidden(f"x{four}\u034f{four}") == ["\u034f"]


ORDINARY = {
    "Hebrew, with every point": "\u05d1\u05bc\u05b0\u05e8\u05b5\u05d0\u05e9\u05c1\u05b4\u0596\u05d9\u05ea \u05e9\u05c1\u05bc\u05b8\u0591",
    "Thai": "\u0e17\u0e35\u0e48\u0e19\u0e35\u0e48 \u0e19\u0e49\u0e33 \u0e01\u0e34\u0e4a",
    "Devanagari": "\u0939\u093f\u0928\u094d\u0926\u0940 \u0915\u094d\u0937\u0947\u0924\u094d\u0930\u0940\u092f",
    "Tibetan": "\u0f67\u0f71\u0f74\u0f83 \u0f56\u0f66\u0f92\u0fb2\u0f74\u0f56\u0f66",
    "Burmese": "\u1019\u103c\u1014\u103a\u1019\u102c\u1005\u102c \u1019\u103b\u103e\u102d\u102f\u1037",
    "Arabic, with vowels": "\u0627\u0644\u0644\u0651\u064e\u0647\u0650 \u0645\u064f\u062d\u064e\u0645\u0651\u064e\u062f\u064c",
    "Vietnamese": "Tiếng Việt",
    "Vietnamese, letters and marks apart": unicodedata.normalize("NFD", "Tiếng Việt ở Huế"),
    "emoji": "👩\u200d💻 ❤\ufe0f 🏳\ufe0f\u200d🌈 👍🏽 🏴",
    "flags": "🇫🇷🇩🇪🇯🇵🇧🇷🇮🇳",
    "keycaps": "1\ufe0f\u20e32\ufe0f\u20e33\ufe0f\u20e34\ufe0f\u20e35\ufe0f\u20e3",
    "Russian": "Съешь же ещё этих мягких французских булок",
    "Chinese": "这是一个很普通的句子，没有什么特别的。",
}


@pytest.mark.parametrize("script", ORDINARY)
def test_apr_24_ordinary_text_of_every_script_keeps_its_marks(script: str) -> None:
    assert visible(ORDINARY[script]) == ORDINARY[script]
    assert hidden(ORDINARY[script]) == []


MARKED = st.text(alphabet="ax\u0301\u0301\u0489\u034f\ufe0f\u200d❤👩1\u20e3\ufffc\\u{}", max_size=30)


@given(MARKED)
def test_what_is_hidden_is_what_is_spelled_out(text: str) -> None:
    assert (hidden(text) == []) == (visible(text) == text)
    assert all(f"\\u{{{ord(each):x}}}" in visible(text) for each in hidden(text))


@given(MARKED)
def test_what_was_made_visible_stays_as_it_is(text: str) -> None:
    assert visible(visible(text)) == visible(text)
    assert piled(visible(text)) == []


@given(MARKED)
def test_only_marks_too_many_are_spelled_out_by_themselves(text: str) -> None:
    run = 0
    expected = ""
    for each in text:
        run = run + 1 if unicodedata.category(each) in ("Mn", "Me") else 0
        expected += f"\\u{{{ord(each):x}}}" if run > 4 else each
    assert unpiled(text) == expected


MEGABYTES = {
    "one pile": "a" + "\u0301" * 500_000,
    "many piles": ("a" + "\u0301" * 5) * 90_000,
    "nearly piles": ("a" + "\u0301" * 4) * 110_000,
    "Russian": "съешь же ещё " * 42_000,
    "every character": "".join(chr(each) for each in range(0x300, 0x50000) if not 0xD800 <= each < 0xE000),
    "selectors": "\ufe0f" * 350_000,
}


@pytest.mark.parametrize("kind", MEGABYTES)
def test_apr_23_a_megabyte_is_made_visible_at_once(kind: str) -> None:
    began = time.process_time()
    visible(MEGABYTES[kind])
    hidden(MEGABYTES[kind])
    assert time.process_time() - began < 2


def test_what_is_remembered_of_characters_has_an_end() -> None:
    visible(MEGABYTES["every character"])
    assert len(module._kinds) <= module._REMEMBERED


def test_the_table_of_all_characters_is_not_read_for_text_that_needs_none_of_it() -> None:
    source = (
        "import sys; from metier.model.text import hidden, visible\n"
        "for text in ('plain', 'na\u00efve \u2014 \u2026', '\u043f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440!'):\n"
        "    assert visible(text) == text and hidden(text) == []\n"
        "assert 'unicodedata' not in sys.modules\n"
        "assert visible('x' + chr(0x301) * 5).endswith('{301}') and 'unicodedata' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", source], check=True)
