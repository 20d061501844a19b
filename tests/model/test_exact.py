"""Somebody who decides by what he reads must read what is there."""

import json
import re
import time
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.model import misleading as module
from metier.model.digest import Json
from metier.model.exact import items_laid_out, laid_out, quoted
from metier.model.misleading import misleading

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
    "object": ("rm \ufffc/", "\\u{fffc}"),
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
    "marks": ("x" + "\u0489" * 5, "piles up marks"),
    "passing": ("evil\u2024com", "look like others"),
    "disguised": ("\u0430\u0440\u0440\u04cf\u0435.com", "looks Latin and is not"),
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


def test_apr_24_marks_piled_on_a_letter_are_spelled_out_and_said() -> None:
    """Hundreds of them paint over other lines, and sixty look like two hundred."""
    sixty, more = ("x" + "\u0489" * many for many in (60, 200))
    assert quoted(sixty) == '"x' + "\u0489" * 4 + "\\u{489}" * 56 + '"'
    assert quoted(sixty) != quoted(more)
    assert misleading({"text": sixty}) == [
        '"text" piles up marks that paint over what is around them: from the fifth on they are spelled out (U+0489)'
    ]
    assert any("U+0489" in said for said in misleading({sixty: 1}))


@pytest.mark.parametrize(
    "text",
    [
        "x" + "\u0489" * 4,
        "\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd",
        "\u0e17\u0e35\u0e48\u0e19\u0e35\u0e48",
        "\u0939\u093f\u0928\u094d\u0926\u0940 \u0915\u094d\u0937\u0947\u0924\u094d\u0930",
        "Tiếng Việt",
        "🇫🇷🇩🇪 👍🏽",
    ],
)
def test_apr_24_marks_as_people_write_them_stay_and_nothing_is_said(text: str) -> None:
    assert quoted(text) == f'"{text}"'
    assert misleading({"text": text}) == []


MARKED = st.text(alphabet='ax\u0301\u0301\u0489\u034f\ufe0f\\u{}301"', max_size=16)


def read_quoted(shown: str) -> str:
    """The text, for who knows how it is written."""
    return re.sub(
        r"\\(?:u\{([0-9a-f]+)\}|(.))",
        lambda found: (
            chr(int(found[1], 16)) if found[1] else {"n": "\n", "r": "\r", "t": "\t"}.get(found[2], found[2])
        ),
        shown[1:-1],
    )


@given(MARKED | st.text(max_size=20))
def test_apr_25_however_many_marks_there_are_what_is_quoted_can_be_read_back(text: str) -> None:
    assert read_quoted(quoted(text)) == text


@given(MARKED)
def test_apr_24_nothing_that_is_quoted_has_five_marks_in_a_row(text: str) -> None:
    kinds = "".join("m" if unicodedata.category(each) in ("Mn", "Me") else "." for each in quoted(text))
    assert "mmmmm" not in kinds
    told = any("piles up" in said for said in misleading({"text": text}))
    assert told == (quoted(text) != f'"{text.translate(ONE_BY_ONE)}"')


ONE_BY_ONE = {0x034F: "\\u{34f}", 0xFE0F: "\\u{fe0f}", ord('"'): '\\"', ord("\\"): "\\\\"}
"""How those in `MARKED` that are never shown as they are stand in quotes."""


def test_apr_24_marks_with_something_spelled_out_between_them_are_not_called_a_pile() -> None:
    assert quoted("x\u0489\u0489\u034f\u0489\u0489") == '"x\u0489\u0489\\u{34f}\u0489\u0489"'
    assert misleading({"text": "x\u0489\u0489\u034f\u0489\u0489"}) == [
        '"text" holds characters that cannot be seen or that move others (U+034F)'
    ]


LOOKS_LIKE = {
    "/": "\u2044\u2215\u29f8\u2571\uff0f",
    ".": "\u2024\uff0e\ufe52",
    ":": "\u2236\ua789\ufe55",
    "\\": "\u29f5\uff3c\u2216\ufe68",
    "-": "\u2010\u2011\u2012\u2212\ufe63\uff0d\u02d7\u2043",
    "l": "\u217c\u2113\u01c0\U0001d425",
    "s": "\u017f",
    "ffi": "\ufb03",
    "lj": "\u01c9",
    "Lj": "\u01c8",
    "VIII": "\u2167",
    "7": "\U0001d7d5\uff17",
    "a": "\u0251\uff41",
    "g": "\u0261",
}


@pytest.mark.parametrize("seen", LOOKS_LIKE)
def test_apr_24_a_character_that_looks_like_one_of_a_path_a_host_or_a_command_is_said(seen: str) -> None:
    for sign in LOOKS_LIKE[seen]:
        for run in (f"x{sign}y", f"{sign}1", f"example.org{sign}"):
            said = misleading({"command": f"curl {run} now"})
            assert any(
                f"look like others: {quoted(run)} (U+{ord(sign):04X} for {seen})" in each for each in said
            )
        assert misleading({"command": f"{sign} curl now"}) == []  # it stands alone


def test_apr_24_of_many_characters_that_look_like_others_the_first_are_named() -> None:
    assert misleading({"host": "goog\u217ce\u2024com"}) == [
        '"host" holds characters that look like others: "goog\u217ce\u2024com" (U+2024 for ., U+217C for l)'
    ]
    letters = "".join(map(chr, range(0x1D400, 0x1D41A)))
    assert any("U+1D407 for H and 18 more)" in said for said in misleading({"host": f"{letters}.com"}))


@pytest.mark.parametrize(
    "text",
    [
        "m²",
        "42 m², 3³",
        "Acme™ and Acme®",
        "wait…",
        "½",
        "1½ cups",
        "naïve café Grüße",
        "日本語,ひらがな",
        "用Python，然后",
        "用Python：看A、B。好（C）！",
        "第Ⅳ章",
        "10:30–11:00",
        "a word—and another",
        "“quoted” and ‘quoted’, it’s",
        "5 µm, 20 °C, ±2, ≤5, x→y",
        "1º ª 2ⁿ",
        "İstanbul ırmak",
        "Łódź, Ångström, smørrebrød, straße",
    ],
)
def test_apr_24_signs_and_letters_as_people_write_them_are_not_said(text: str) -> None:
    assert misleading({"note": text}) == []


@pytest.mark.parametrize(
    ("run", "word", "script"),
    [
        ("\u0430\u0440\u0440\u04cf\u0435.com", "\u0430\u0440\u0440\u04cf\u0435", "cyrillic"),
        ("https://\u0430\u0440\u0440\u04cf\u0435.com/x", "\u0430\u0440\u0440\u04cf\u0435", "cyrillic"),
        ("plan-\u0430.txt", "\u0430", "cyrillic"),
        ("\u0441\u0440\u04452.com", "\u0441\u0440\u04452", "cyrillic"),
        ("/\u0392\u0399\u039d/sh", "\u0392\u0399\u039d", "greek"),
        ("\u03bd\u03b9\u03bd\u03b1.com", "\u03bd\u03b9\u03bd\u03b1", "greek"),
        ("\u13aa\u13b7.com", "\u13aa\u13b7", "cherokee"),
        ("\ua4ee\ua4d1\ua4d1.com", "\ua4ee\ua4d1\ua4d1", "lisu"),
    ],
)
def test_apr_24_a_whole_word_that_looks_latin_among_latin_ones_is_said(
    run: str, word: str, script: str
) -> None:
    assert misleading({"host": f"curl {run} now"}) == [
        f'"host" holds a word that looks Latin and is not: "{word}" in "{run}" ({script})'
    ]


@pytest.mark.parametrize(
    "text",
    [
        "Съешь же ещё этих мягких французских булок, да выпей чаю.",
        "оса, ухо, сор и хор: с 10-е по 12-е",
        "USB-порт и API-сервер, см. README",
        "привет.com",
        "Η γλώσσα, αν και ο κόσμος, είναι τα νέα",
        "α-helix, χ²-test, γ-ray, 1α,25-dihydroxy",
        "Հայերեն լեզու",
    ],
)
def test_apr_24_a_text_in_its_own_script_is_not_said(text: str) -> None:
    assert misleading({"note": text}) == []


@pytest.mark.parametrize(
    "text",
    [
        "ls" + (" " * 23 + ".") * 40 + "; rm -rf /",
        "ls" + (" " * 23 + ".") * 3 + "; rm -rf /",
        "ls" + (" " * 8 + "# x") * 3 + " " * 8 + "; rm -rf /",
        "ls" + (" " * 9 + "..") * 4 + " " * 9 + "; rm -rf /",
        "ls" + ("\n" * 23 + ".") * 3 + "\n; rm -rf /",
        "ls" + ("\n\n\n" + ".") * 4 + "\n; rm -rf /",
        "ls" + ("\n  \n \n" + "#") * 9 + "\n; rm -rf /",
        "ls" + (" " * 10 + "." + "\n" * 5 + ".") * 3 + "; rm -rf /",
    ],
)
def test_apr_23_a_tail_behind_many_gaps_with_next_to_nothing_between_is_pointed_at(text: str) -> None:
    assert any("run of blanks" in said for said in misleading({"command": text}))


CODE = """
def settle(self, given):
        for each in given:
                if each:
                        x
                        y
                else:
                        continue
        return None
"""


@pytest.mark.parametrize(
    "text",
    [
        CODE.replace(" " * 24, " " * 20),
        "        x\n        y\n        z\n        w\n" * 9,
        "if a:\n\n        x\n\n        y\n\n        z\n\n        w\n",
        "x = 1            # one\ny = 2            # two\nz = 3            # three\n" * 4,
        "1          2\n3          4\n5          6\n7          8\n",
        "NAME          STATUS          AGE          VERSION\nweb           Running         4d           v1.2.3\n"
        * 4,
        "|  left          |          right  |\n" * 9,
        "import os\n\n\ndef one():\n    pass\n\n\ndef two():\n    pass\n\n\nx = 1\n\n\ny = 2\n",
        "a       b       c       d       e       f",
        "a        b        c        d",
        "some         more         than         that         then         this",
        "x\n\ny\n\nz\n\nw\n\nv\n\nu\n",
        "if a:\n\n\n        x\n\n\n        y\n\n\n        z\n",
        "x        \n\n\ny        \n\n\nz        \n\n\nw\n",
        "ls" + " " * 23 + "x" + " " * 23 + "y",
    ],
)
def test_apr_23_code_tables_and_drawings_are_not_pointed_at(text: str) -> None:
    assert misleading({"text": text}) == []


MEGABYTES = {
    "one pile": "a" + "\u0301" * 500_000,
    "many piles": ("a" + "\u0301" * 5) * 90_000,
    "every character": "".join(chr(each) for each in range(0x300, 0x50000) if not 0xD800 <= each < 0xE000),
    "gaps and words": (" " * 23 + "word") * 37_000,
    "short gaps": (" " * 7 + ".") * 125_000,
    "lines of blanks": (" " * 20 + "\n\nword") * 38_000,
    "empty lines and words": ("\n" * 22 + "word") * 38_000,
    "deep lines": ("\n" + " " * 22 + "x") * 41_000,
    "blanks": " " * 1_000_000,
    "no blanks": "x" * 1_000_000,
    "slashes": "a\u2044" * 250_000,
    "many words with slashes": " ".join(f"{n:x}\u2044" for n in range(110_000)),
    "Roman figures": "\u217c" * 330_000,
    "one long disguise that fails": "c." + "\u0430" * 500_000 + "\u0431",
    "figures in a disguise that fails": "c." + "\u0430" + "1" * 1_000_000 + "\u0431",
    "figures and no disguise": "c." + "1" * 1_000_000 + "\u0431",
    "many disguises in one run": "c" + "".join(f".{n}\u0430" for n in range(110_000)),
    "many disguises": " ".join(f"{n}\u0430.c" for n in range(90_000)),
}


@pytest.mark.parametrize("kind", MEGABYTES)
def test_apr_23_a_megabyte_of_anything_is_looked_through_at_once(kind: str) -> None:
    began = time.process_time()
    misleading({"text": MEGABYTES[kind]})
    quoted(MEGABYTES[kind])
    assert time.process_time() - began < 3


def test_what_is_remembered_of_characters_is_forgotten_when_it_is_much() -> None:
    misleading({"text": MEGABYTES["every character"]})
    assert len(module._plain) > module._REMEMBERED
    assert any("look like others" in said for said in misleading({"host": "goog\u217ce\u2024com"}))
    assert len(module._plain) < 10
