"""A command line taken apart without a shell: words, quotes and backslashes, and nothing that a shell would act on.

A shell expands, pipes, redirects and chains. Here each sign that asks for it is refused with its position; in quotes it
is a letter like any other. So the words found are exactly the arguments a shell would pass, or there are none.
"""

import re
from typing import Final, final

from msgspec import Struct

from metier.model.text import hidden

PLACE: Final = re.compile(r"\{\{\s*([^{}\s]+)\s*\}\}")
_BLANK: Final = " \t"
_ENDS: Final = " \t\r\n"
# fmt: off
_MEANS: Final = {
    "|": "a pipe", "&": "a second command", ";": "a second command", "<": "a redirection", ">": "a redirection",
    "(": "a subshell", ")": "a subshell", "`": "a command within the command", "$": "a variable or a command's output",
    "*": "a pattern for file names", "?": "a pattern for file names", "[": "a pattern for file names",
    "{": "braces that a shell expands", "}": "braces that a shell expands",
}
_AT_START: Final = {"~": "somebody's home folder", "#": "a comment"}
# fmt: on
_ACTIVE_IN_QUOTES: Final = "$`"
_ESCAPED_IN_QUOTES: Final = '$`"\\'


@final
class NoWords(Struct, frozen=True, kw_only=True):
    """A line that is not taken apart, and why."""

    why: str


@final
class _Line:
    """Where the reading stands."""

    __slots__ = ("at", "text", "word", "words")

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.word: str | None = None
        """The word being read; None between two."""
        self.words: list[str] = []

    def add(self, letters: str, read: int) -> None:
        self.word = (self.word or "") + letters
        self.at += read

    def end_word(self) -> None:
        if self.word is not None:
            self.words.append(self.word)
        self.word = None


def split(line: str) -> tuple[str, ...] | NoWords:
    """The words of `line`, `{{name}}` places among them in one spelling; never empty."""
    text = line.strip(_ENDS)
    for end in ("\n", "\r"):
        if end in text:
            where = text.index(end) + 1
            return NoWords(why=f"a line break at position {where} begins a second command; write one line")
    if unseen := hidden(text):
        where = text.index(unseen[0]) + 1
        return NoWords(why=f"a character that cannot be seen (U+{ord(unseen[0][0]):04X}) at position {where}")
    reading = _Line(text)
    while reading.at < len(text):
        if problem := _step(reading):
            return NoWords(why=problem)
    reading.end_word()
    return tuple(reading.words) if reading.words else NoWords(why="there is no command in it")


def _step(reading: _Line) -> str:
    """Read on by one letter, quote or place. Returns why that is not possible."""
    text, at = reading.text, reading.at
    letter = text[at]
    if letter in _BLANK:
        reading.end_word()
        reading.at += 1
        return ""
    if letter == "'":
        end = text.find("'", at + 1)
        if end < 0:
            return f"the quote ' at position {at + 1} is never closed"
        reading.add(text[at + 1 : end], end + 1 - at)
        return ""
    if letter == '"':
        return _double(reading)
    if letter == "\\":
        if at + 1 == len(text):
            return f"the backslash at position {at + 1} stands before nothing"
        reading.add(text[at + 1], 2)
        return ""
    if place := PLACE.match(text, at):
        reading.add(f"{{{{{place[1]}}}}}", len(place[0]))
        return ""
    means = _MEANS.get(letter) or (_AT_START.get(letter) if reading.word is None else None)
    if means is None and letter.isspace():
        means = "a blank that no shell takes for one"
    if means:
        return f"{letter!r} at position {at + 1} would be {means}; in single quotes it is the sign itself"
    reading.add(letter, 1)
    return ""


def _double(reading: _Line) -> str:
    text, start = reading.text, reading.at
    inside = ""
    at = start + 1
    while at < len(text) and text[at] != '"':
        letter = text[at]
        if letter in _ACTIVE_IN_QUOTES:
            means = f"would be {_MEANS[letter]}, also in double quotes"
            return f"{letter!r} at position {at + 1} {means}; in single quotes it is the sign itself"
        if letter == "\\" and text[at + 1 : at + 2] and text[at + 1] in _ESCAPED_IN_QUOTES:
            at += 1
            letter = text[at]
        inside += letter
        at += 1
    if at >= len(text):
        return f'the quote " at position {start + 1} is never closed'
    reading.add(inside, at + 1 - start)
    return ""
