"""Texts as Telegram takes them: long ones in pieces, where it counts UTF-16 units, so a face counts twice; and nothing in them that it takes
out without a word. Pure."""

import re
from typing import Final

LONGEST: Final = 4096
_NO_EARLIER: Final = 0.5
"""A break is looked for in the second half of a piece: a first line of three words is no reason for one more message."""

_DROPPED: Final = re.compile("[\u030a\u0333\u033f]")
"""Marks above and below letters that Telegram takes out of every message. What else it takes out is spelled out for everybody."""


def dropped(text: str) -> list[str]:
    """The marks in it that nobody would be shown, each once, as `U+030A`."""
    return [f"U+{ord(each):04X}" for each in dict.fromkeys(_DROPPED.findall(text))]


def spelled(text: str) -> str:
    """The text with every such mark written as `\\u{30a}`: what is read is what is there."""
    return _DROPPED.sub(lambda found: f"\\u{{{ord(found[0]):x}}}", text)


def units(text: str) -> int:
    """How long Telegram says it is."""
    return len(text) + sum(letter > "\uffff" for letter in text)


def pieces(text: str, most: int = LONGEST) -> list[str]:
    """The text in pieces of at most `most` units: at the end of a line where there is one, else between words, else anywhere, and never
    inside of a character. Nothing is lost but the break itself."""
    made: list[str] = []
    while units(text) > most:
        end = _fitting(text, most)
        cut = _break(text, end)
        made.append(text[:cut])
        text = text[cut:].removeprefix("\n") if text[cut : cut + 1] == "\n" else text[cut:].removeprefix(" ")
    return [piece for piece in (*made, text) if piece.strip()]


def _fitting(text: str, most: int) -> int:
    """How many of its characters fit."""
    used = 0
    for count, letter in enumerate(text):
        used += 2 if letter > "\uffff" else 1
        if used > most:
            return count
    return len(text)


def _break(text: str, end: int) -> int:
    for mark in ("\n", " "):
        found = text.rfind(mark, int(end * _NO_EARLIER), end + 1)
        if found > 0:
            return found
    return end
