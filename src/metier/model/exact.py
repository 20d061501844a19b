"""Foreign text as it really is, for somebody who decides by what he reads. Pure.

Every string stands in quotes, and what cannot be seen is spelled out: two different values never look the same. What may still mislead a
reader is said in words beside it (`misleading.py`).
"""

import re
from collections.abc import Iterable
from typing import Final

from metier.model.digest import Json
from metier.model.text import INVISIBLE, unpiled

_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}
_SELECTORS: Final = "\ufe0e\ufe0f"
_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")
_STEP: Final = "  "
_MARGIN: Final = "| "
_LITTLE: Final = 2_000
_WIDEST: Final = 24
"""Blanks before a line: what is deeper goes no further in, or the blanks would be most of what is shown."""
_REMEMBERED: Final = 20_000


def quoted(text: str) -> str:
    """`text` in double quotes, every character to be seen."""
    if text.isascii() and text.isprintable() and not ('"' in text or "\\" in text):
        return f'"{text}"'
    return '"' + unpiled(spelled(text)) + '"'


def spelled(text: str) -> str:
    """`text` with every character to be seen, but for those that are only too many."""
    if len(_spelled) > _REMEMBERED:
        _spelled.clear()
    return text.translate(_spelled)


def unseen(letters: Iterable[str]) -> list[str]:
    """Which of them cannot be seen, in order; ends of lines, tabs and what stands around a text are known to everybody."""
    return sorted(each for each in letters if each not in _SHORT and _spelled[ord(each)] != each)


def laid_out(value: Json) -> str:
    """A JSON value over several lines, one item a line; nothing is left out. A text of several lines has each of them on a line of its own,
    in quotes and behind a margin that no text can draw: a script is read as it was written, and no line of it passes for another argument."""
    made: list[str] = []
    _lay(value, "", made)
    return "".join(made)


def items_laid_out(value: dict[str, Json]) -> list[str]:
    """The same in parts, one for each name: with `{` before them and `}` after them, a line each, they are the whole."""
    said: list[str] = []
    for number, (name, item) in enumerate(value.items(), 1):
        made = [_STEP, quoted(name), ": "]
        _lay(item, _STEP, made)
        said.append("".join(made) + "," * (number < len(value)))
    return said


class _Spelled(dict[int, str]):
    """By code point, what a character is shown as; each is thought about once."""

    def __missing__(self, code: int) -> str:
        made = self[code] = _seen(chr(code))
        return made


_spelled: Final = _Spelled()


def _seen(character: str) -> str:
    if character in _SHORT:
        return _SHORT[character]
    plain = character.isprintable() and character not in _SELECTORS and not INVISIBLE.match(character)
    return character if plain else f"\\u{{{ord(character):x}}}"


def _lay(value: Json, indent: str, made: list[str]) -> None:
    """Every piece once: what is deep down is not copied for every level above it."""
    inner = indent if len(indent) >= _WIDEST else indent + _STEP
    between = f"\n{inner}"
    if isinstance(value, dict) and value:
        made.append("{")
        for name, item in value.items():
            made += (between, quoted(name), ": ")
            _lay(item, inner, made)
            between = f",\n{inner}"
        made.append(f"\n{indent}}}")
    elif isinstance(value, list) and value:
        made.append("[")
        for item in value:
            made.append(between)
            _lay(item, inner, made)
            between = f",\n{inner}"
        made.append(f"\n{indent}]")
    elif isinstance(value, str):
        _lay_text(value, indent, made)
    elif isinstance(value, bool) or value is None:
        made.append({True: "true", False: "false", None: "null"}[value])
    else:
        made.append(repr(value) if isinstance(value, int | float) else str(value))


def _lay_text(text: str, indent: str, made: list[str]) -> None:
    """Lines that are so short that what stands around them would be most of what is shown stay together."""
    many = text.count("\n")
    if "\n" not in text[:-1] or many * (len(indent) + len(_MARGIN)) > len(text) + _LITTLE:
        made.append(quoted(text))
        return
    between = f"\n{indent}{_MARGIN}"
    if made and made[-1] == ": ":  # below its name, and further in
        made[-1] = ":"
        between = f"\n{indent}{_STEP}{_MARGIN}"
        made.append(between)
    else:
        made.append(_MARGIN)
    made.append(between.join(map(quoted, _LINE.findall(text))))
