"""Lines of a body that pass for Metier's own headings and separators, marked as not ours.

Ours are: a heading of any level and any spelling that names a skill of the same prompt or the whole list, any
horizontal rule, and the separator. Such a line gets one backslash before its mark, also inside code blocks,
because a model reads lines and not Markdown. A skill may use its own name as a title, at every level but the
one that our headings have. Every other line stays as it was written.
"""

import re
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, final

from msgspec import Struct

from metier.disclosure.looks import key, keys, plain, unmarked

LONGEST: Final = 4_000
LEVEL: Final = 2
"""The level of the heading that Metier puts over a skill."""

_HASHES: Final = str.maketrans(dict.fromkeys("♯⌗⋕", "#"))
# Dashes of every kind, horizontal lines for boxes and tables, and Markdown's other two.
_DASHES: Final = "-\u2010-\u2015\u2043\u02d7\u2212\u23af\u2500\u2501\u2504\u2505\u2508\u2509\u254c\u254d\u2e3a\u2e3bー一*∗_"
_RULE: Final = re.compile(rf"(?:[{_DASHES}]\s*+){{3,}}+\\*|[\u2e3a\u2e3b]+|<\s*hr\b[^<>]*>")
_UNDERLINE: Final = re.compile(r"[\s>]*(?:(=|═)[=═]*|-+)\s*")
_LEAD: Final = re.compile(r"(?:[\W_]|(?:\d{1,9}|\w)[.)](?=\s))*+")
_HTML: Final = re.compile(r"<\s*h([1-6])\b")
_MARKUP: Final = re.compile(r"<[^<>]*>|(?<=\])\([^()]*\)|(?<=\])\[[^\[\]]*\]|\{[^{}]*\}")
# Where the backslash goes: before the mark of a heading, before anything else only behind a quote's.
_HEAD: Final = re.compile(r"[#&<♯⌗⋕＃﹟＜﹤]")
_LINE: Final = re.compile(r"[^\s>]")


@final
class Forgery(Struct, frozen=True):
    """Knows which lines are Metier's own in one prompt."""

    names: Counter[str]
    """How many skills of the prompt go by a key; the key of the title is there too."""
    separators: frozenset[str]

    @classmethod
    def of(cls, title: str, headings: Iterable[tuple[str, str]], separator: str) -> "Forgery":
        """`headings` has for each skill its name and the heading that it gets."""
        names = Counter([key(title)])
        for name, heading in headings:
            names.update({key(name), key(heading)})
        lines = {_even(plain(line)) for line in separator.splitlines()}
        return cls(names, frozenset(lines - {""}))

    def marked(self, text: str, *, own: Iterable[str]) -> str:
        """`text`, whose line ends are all line feeds, with a backslash in lines that are ours."""
        mine = frozenset(each for each in map(key, own) if self.names[each] == 1)
        lines = text.split("\n")
        marked = (self._marked(line, before, mine) for before, line in zip(["", *lines], lines, strict=False))
        return "\n".join(marked)

    def _marked(self, line: str, before: str, mine: frozenset[str]) -> str:
        kind = self._forged(line, before, mine)
        place = kind.search(line) if kind else None
        return f"{line[: place.start()]}\\{line[place.start() :]}" if place else line

    def _forged(self, line: str, before: str, mine: frozenset[str]) -> re.Pattern[str] | None:
        """What finds the mark in a line that passes for ours; None for every other line."""
        seen = _seen(line)
        text = seen.strip()
        if not text:
            return None
        if len(seen) - len(seen.lstrip()) < 4 and (_RULE.fullmatch(text) or _even(text) in self.separators):
            return _LINE
        if underline := _UNDERLINE.fullmatch(text):
            level = 1 if underline[1] else LEVEL
            return _LINE if before.strip() and self._ours(_seen(before), level, mine) else None
        level = _level(text) if _HEAD.search(line) else 0
        return _HEAD if level and self._ours(text, level, mine) else None

    def _ours(self, text: str, level: int, mine: frozenset[str]) -> bool:
        """Whether a heading of this text and level passes for one of ours."""
        found = keys(_MARKUP.sub("", text).lstrip("# "))
        return any(each in self.names and (level == LEVEL or each not in mine) for each in found)


def _seen(line: str) -> str:
    """A line as a reader sees it, as far as it could be one of ours: none of those is longer than a few hundred."""
    line = unmarked(line)[:LONGEST]
    if "&" in line:
        from html import unescape  # few lines need it

        with suppress(ValueError):  # a number of more digits than Python reads
            line = unescape(line)
    return plain(line.expandtabs(4)).translate(_HASHES)


def _even(text: str) -> str:
    return " ".join(text.split())


def _level(text: str) -> int:
    """The level of the heading in a line, whatever list, quote or emphasis it stands in; 0 when there is none."""
    lead = _LEAD.match(text)
    before, mark, after = lead[0].partition("#") if lead else ("", "", "")
    if mark:
        return 0 if before.endswith("\\") else 1 + len(after) - len(after.lstrip("#"))
    html = _HTML.search(text)
    return int(html[1]) if html and not text.startswith("\\") else 0
