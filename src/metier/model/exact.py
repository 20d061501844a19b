"""Foreign text as it really is, for somebody who decides by what he reads. Pure.

Every string stands in quotes, and what cannot be seen, or looks like something else, is spelled out: two different values
never look the same. What may still mislead a reader is said in words beside it.
"""

import re
from collections.abc import Iterator
from typing import Final

from metier.model.digest import Json
from metier.model.text import INVISIBLE

_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}
_SELECTORS: Final = "\ufe0e\ufe0f"
_PADDING: Final = re.compile(r"\s{24,}")
_WORD: Final = re.compile(r"[^\W_]+")
_LOOK_ALIKE: Final = frozenset(
    {"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU", "FULLWIDTH", "MATHEMATICAL"}
)
"""Scripts with letters that look like letters of another of them."""


def quoted(text: str) -> str:
    """`text` in double quotes, every character to be seen."""
    if text.isascii() and text.isprintable() and not ('"' in text or "\\" in text):
        return f'"{text}"'
    return '"' + "".join(map(_seen, text)) + '"'


def laid_out(value: Json, indent: str = "") -> str:
    """A JSON value over several lines, one item a line; nothing is left out."""
    inner = f"{indent}  "
    if isinstance(value, dict) and value:
        items = (f"{inner}{quoted(name)}: {laid_out(item, inner)}" for name, item in value.items())
        return "{\n" + ",\n".join(items) + f"\n{indent}}}"
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(f"{inner}{laid_out(item, inner)}" for item in value) + f"\n{indent}]"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return repr(value) if isinstance(value, int | float) else str(value)


def misleading(value: Json) -> list[str]:
    """What about the texts in `value` may be taken for something else, each thing said once."""
    return list(dict.fromkeys(said for place, text in _texts(value, "") for said in _about(place, text)))


def _seen(character: str) -> str:
    if character in _SHORT:
        return _SHORT[character]
    plain = character.isprintable() and character not in _SELECTORS and not INVISIBLE.match(character)
    return character if plain else f"\\u{{{ord(character):x}}}"


def _texts(value: Json, place: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield place or "the text", value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield "the name of an argument", name
            yield from _texts(item, f"{place}/{name}" if place else name)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, place)


def _about(place: str, text: str) -> Iterator[str]:
    where = quoted(place)
    if _PADDING.search(text):
        yield f"{where} holds a long run of blanks or empty lines: read it to its end"
    if text.isascii() and text.isprintable():
        return
    unseen = sorted(
        {each for each in text if each not in "\n\t" and _seen(each) != each and each not in _SHORT}
    )
    if unseen or "\r" in text:
        named = " ".join(f"U+{ord(each):04X}" for each in ["\r"] * ("\r" in text) + unseen[:8])
        yield f"{where} holds characters that cannot be seen or that move others ({named})"
    if text.isascii():
        return
    import unicodedata  # only what is beyond ASCII needs it

    if not unicodedata.is_normalized("NFC", text):
        yield f"{where} is written with characters that another spelling makes look the same"
    for word in _WORD.findall(text):
        scripts = {unicodedata.name(each, "").partition(" ")[0] for each in word} & _LOOK_ALIKE
        if len(scripts) > 1:
            named = " and ".join(sorted(scripts)).lower()
            yield f"{where} mixes letters that look alike in one word: {quoted(word)} ({named})"
