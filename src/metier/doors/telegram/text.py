"""Long texts in pieces that Telegram takes. It counts UTF-16 units, so a face counts twice. Pure."""

from typing import Final

LONGEST: Final = 4096
_NO_EARLIER: Final = 0.5
"""A break is looked for in the second half of a piece: a first line of three words is no reason for one more message."""


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
