"""Foreign text as it really is, for somebody who decides by what he reads. Pure.

Every string stands in quotes, and what cannot be seen, or looks like something else, is spelled out: two different values
never look the same. What may still mislead a reader is said in words beside it.
"""

import re
from collections.abc import Iterator
from enum import Enum
from itertools import islice
from typing import Final

from metier.model.digest import Json
from metier.model.text import INVISIBLE

_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}
_SELECTORS: Final = "\ufe0e\ufe0f"
_LONG: Final = 24
_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")
_PADDING: Final = re.compile(rf"\s{{{_LONG},}}")
_WORD: Final = re.compile(r"[^\W_]+")
_OF_A_KIND: Final = 5
"""Things that are said, of each kind that there is."""
_NAMED: Final = 8
_STEP: Final = "  "
_MARGIN: Final = "| "
_LITTLE: Final = 2_000
_WIDEST: Final = 24
"""Blanks before a line: what is deeper goes no further in, or the blanks would be most of what is shown."""
_WORDS: Final = 80
"""Characters of a name or a word that are repeated in what is said."""
_REMEMBERED: Final = 20_000
_LOOK_ALIKE: Final = frozenset(
    {"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU", "FULLWIDTH", "MATHEMATICAL"}
)
"""Scripts with letters that look like letters of another of them."""


def quoted(text: str) -> str:
    """`text` in double quotes, every character to be seen."""
    if text.isascii() and text.isprintable() and not ('"' in text or "\\" in text):
        return f'"{text}"'
    if len(_spelled) > _REMEMBERED:
        _spelled.clear()
    return '"' + text.translate(_spelled) + '"'


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


def misleading(value: Json) -> list[str]:
    """What about the texts in `value` may be taken for something else, each thing said once. Whoever wrote the texts decides how much there
    is of it, so only the first few of each kind are said, and then how many more there are. The first of each kind comes first: much
    of one kind puts no other out of sight."""
    found: dict[_Kind, dict[tuple[str, str], None]] = {}
    about: dict[str, list[tuple[_Kind, str]]] = {}
    for place, text in _texts(value):
        if text.isascii() and text.isprintable() and len(text) < _LONG:
            continue  # nearly all of them
        if text not in about:
            about[text] = list(_about(text))
        for kind, detail in about[text]:
            found.setdefault(kind, {})[place, detail] = None
    said = [
        [kind.value.format(quoted(place), detail) for place, detail in islice(things, _OF_A_KIND)]
        for kind, things in found.items()
    ]
    more = [
        f"{len(things) - _OF_A_KIND:,} more like this: {said_of[0]}"
        for said_of, things in zip(said, found.values(), strict=True)
        if len(things) > _OF_A_KIND
    ]
    return [*(each[0] for each in said), *more, *(again for each in said for again in each[1:])]


class _Kind(Enum):
    """In what way a text may mislead; with the place and what exactly."""

    PADDED = "{0} holds a long run of blanks or empty lines: read it to its end"
    UNSEEN = "{0} holds characters that cannot be seen or that move others ({1})"
    SPELLED_OTHERWISE = "{0} is written with characters that another spelling makes look the same"
    MIXED = "{0} mixes letters that look alike in one word: {1}"


class _Spelled(dict[int, str]):
    """By code point, what a character is shown as; each is thought about once."""

    def __missing__(self, code: int) -> str:
        made = self[code] = _seen(chr(code))
        return made


class _Scripts(dict[str, str]):
    """By character, to which script its name says that it belongs."""

    def __missing__(self, character: str) -> str:
        import unicodedata  # only what is beyond ASCII needs it

        made = self[character] = unicodedata.name(character, "").partition(" ")[0]
        return made


_spelled: Final = _Spelled()
_scripts: Final = _Scripts()


def _cut(text: str) -> str:
    """Its beginning and its end: of two long ones, one or the other tells them apart."""
    return text if len(text) <= _WORDS else f"{text[: _WORDS // 2]}…{text[-_WORDS // 2 :]}"


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


def _texts(value: Json) -> Iterator[tuple[str, str]]:
    """Every text with its place, in order. A place is cut here already: with whole names it would be as long as all of them together,
    once for every text."""
    left: list[tuple[str, Json]] = [("", value)]
    while left:
        place, each = left.pop()
        if isinstance(each, str):
            yield place or "the text", each
        elif isinstance(each, dict):
            for name in each:
                yield "the name of an argument", name
            left += [(_below(place, name), item) for name, item in reversed(each.items())]
        elif isinstance(each, list):
            left += [(place, item) for item in reversed(each)]


def _below(place: str, name: str) -> str:
    return _cut(f"{place}/{_cut(name)}" if place else name)


def _about(text: str) -> Iterator[tuple[_Kind, str]]:
    if _PADDING.search(text):
        yield _Kind.PADDED, ""
    if text.isascii() and text.isprintable():
        return
    letters = set(text)
    unseen = sorted(each for each in letters if each not in _SHORT and _spelled[ord(each)] != each)
    if unseen or "\r" in letters:
        named = [f"U+{ord(each):04X}" for each in ["\r"] * ("\r" in letters) + unseen]
        more = f" and {len(named) - _NAMED:,} more" if len(named) > _NAMED else ""
        yield _Kind.UNSEEN, " ".join(named[:_NAMED]) + more
    if text.isascii():
        return
    import unicodedata  # only what is beyond ASCII needs it

    if not unicodedata.is_normalized("NFC", text):
        yield _Kind.SPELLED_OTHERWISE, ""
    if len(_scripts) > _REMEMBERED:
        _scripts.clear()
    if len(_LOOK_ALIKE.intersection(map(_scripts.__getitem__, letters))) < 2:
        return  # nor has any word of it
    for word in dict.fromkeys(_WORD.findall(text)):
        if word.isascii():
            continue
        mixed = _LOOK_ALIKE.intersection(map(_scripts.__getitem__, word))
        if len(mixed) > 1:
            yield _Kind.MIXED, f"{quoted(_cut(word))} ({' and '.join(sorted(mixed)).lower()})"
