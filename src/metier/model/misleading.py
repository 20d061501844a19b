"""What about a text may be taken for something else, said in words for somebody who decides by what he reads. Pure."""

import re
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from itertools import islice
from typing import Final

from metier.model.digest import Json
from metier.model.exact import quoted, spelled, unseen
from metier.model.text import piled

_LONG: Final = 24
_PADDING: Final = re.compile(rf"\s{{{_LONG},}}")
_GAP: Final = re.compile(r"(?<!\s)[^\S\n]{8,}+(?!\n)|\n(?:[^\S\n]*\n){2,}")
"""Many blanks within a line, or some empty lines. What indents a line or ends it is none: code is full of those."""
_BETWEEN: Final = 3
"""Characters between two gaps that a reader takes for nothing."""
_GAPS: Final = 4
_WORD: Final = re.compile(r"[^\W_]+")
_RUN: Final = re.compile(r"\S+")
_ASCII_LETTER: Final = re.compile("[A-Za-z]")
_ASCII_SIGN: Final = re.compile("[A-Za-z0-9]")
_OF_A_KIND: Final = 5
"""Things that are said, of each kind that there is."""
_NAMED: Final = 8
_WORDS: Final = 80
"""Characters of a name or a word that are repeated in what is said."""
_LOOK_ALIKE: Final = frozenset(
    {"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU", "FULLWIDTH", "MATHEMATICAL"}
)
"""Scripts with letters that look like letters of another of them."""
_SIGNS: Final = {
    sign: seen
    for seen, signs in (
        ("/", "\u2044\u2215\u2571\u29f8\uff0f"),
        (".", "\u2024\ufe52\uff0e"),
        (":", "\u2236\ua789\ufe55"),
        ("\\", "\u2216\u29f5\ufe68\uff3c"),
        ("-", "\u02d7\u2010\u2011\u2012\u2043\u2212\ufe63\uff0d"),
        ("a", "\u0251"),
        ("g", "\u0261"),
        ("l", "\u01c0"),
    )
    for sign in signs
}
"""By what looks like it, a sign that matters in a path, a host or a command, or a letter of the same script. Longer dashes, and the wide
comma, colon and full stop, are not among them: that is how people write."""
_LETTERS: Final = frozenset({"Lu", "Ll", "Lt", "Nl", "Nd"})
"""Kinds of characters that may be a letter or a figure in another form; signs such as ™, ² and ½ are none."""
_LATIN_LOOKS: Final = (
    "асԁеԍһіјӏорԛѕԝухүҽѵАВСЕНҺІЈКМОРԚЅТԜУХҮӀѴ"  # Cyrillic
    "οϲϳΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹͿ"  # Greek
    "օոսհցզ"  # Armenian
    "ᎠᎡᎢᎪᎫᎬᎳᎵᎷᎻᏀᏃᏎᏒᏔᏙᏚᏞᏟᏢᏦᏧᏴ"  # Cherokee
    "ⲁⲃⲉⲏⲓⲕⲙⲛⲟⲣⲥⲧⲩⲭⲀⲂⲈⲎⲒⲔⲘⲚⲞⲢⲤⲦⲨⲬ"  # Coptic
    "ꓐꓑꓓꓔꓖꓗꓙꓚꓜꓝꓟꓠꓡꓢꓣꓦꓧꓪꓫꓬꓮꓰꓲꓳꓴ"  # Lisu
)
_LATIN_AT_A_GLANCE: Final = "αγηικνρτυχω"
"""Of these a single one is a sign of science, as in α-helix; a whole word of them is not."""
_DISGUISED: Final = re.compile(
    f"[0-9]*(?:[{_LATIN_LOOKS}][0-9]*)+|[0-9]*(?:[{_LATIN_LOOKS}{_LATIN_AT_A_GLANCE}][0-9]*){{2,}}"
)
_REMEMBERED: Final = 20_000


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
    PILED = (
        "{0} piles up marks that paint over what is around them: from the fifth on they are spelled out ({1})"
    )
    SPELLED_OTHERWISE = "{0} is written with characters that another spelling makes look the same"
    PASSING = "{0} holds characters that look like others: {1}"
    DISGUISED = "{0} holds a word that looks Latin and is not: {1}"
    MIXED = "{0} mixes letters that look alike in one word: {1}"


class _Scripts(dict[str, str]):
    """By character, to which script its name says that it belongs."""

    def __missing__(self, character: str) -> str:
        import unicodedata  # only what is beyond ASCII needs it

        made = self[character] = unicodedata.name(character, "").partition(" ")[0]
        return made


class _Plain(dict[str, str]):
    """By letter or figure beyond ASCII, what of ASCII it is another form of; empty when it is none."""

    def __missing__(self, character: str) -> str:
        made = self[character] = _plain_form(character)
        return made


_scripts: Final = _Scripts()
_plain: Final = _Plain()


def _cut(text: str) -> str:
    """Its beginning and its end: of two long ones, one or the other tells them apart."""
    return text if len(text) <= _WORDS else f"{text[: _WORDS // 2]}…{text[-_WORDS // 2 :]}"


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
    if _padded(text):
        yield _Kind.PADDED, ""
    if text.isascii() and text.isprintable():
        return
    letters = set(text)
    hidden = ["\r"] * ("\r" in letters) + unseen(letters)
    if hidden:
        yield _Kind.UNSEEN, _few(hidden)
    if text.isascii():
        return
    if piled(text) and (marks := piled(spelled(text))):
        yield _Kind.PILED, _few(marks)
    import unicodedata  # only what is beyond ASCII needs it

    if not unicodedata.is_normalized("NFC", text):
        yield _Kind.SPELLED_OTHERWISE, ""
    yield from _passing(text, letters)
    yield from _disguised(text, letters)
    yield from _mixed(text, letters)


def _code_point(character: str) -> str:
    return f"U+{ord(character):04X}"


def _few(characters: Sequence[str], said_as: Callable[[str], str] = _code_point) -> str:
    """The first of them, and how many more there are."""
    more = f" and {len(characters) - _NAMED:,} more" if len(characters) > _NAMED else ""
    return ", ".join(map(said_as, characters[:_NAMED])) + more


def _padded(text: str) -> bool:
    """Whether one gap is long, or several follow each other in which a dot here and there changes nothing for a reader."""
    if _PADDING.search(text):
        return True
    gaps = blanks = end = 0
    for gap in _GAP.finditer(text):
        if gap.start() - end > _BETWEEN or "\n" in text[end : gap.start()]:
            gaps = blanks = 0  # there are words, or the next line, which begins in plain sight
        gaps += 1
        blanks += len(gap[0])
        if gaps == _GAPS or blanks >= 2 * _LONG:
            return True
        end = gap.end()
    return False


def _passing(text: str, letters: set[str]) -> Iterator[tuple[_Kind, str]]:
    """Where a character looks like one of ASCII and stands among such: alone, or among its own, it is what it seems to be."""
    passing = _seen_as(letters)
    if not passing:
        return

    def said_as(character: str) -> str:
        return f"{_code_point(character)} for {passing[character]}"

    for run in dict.fromkeys(_RUN.findall(text)):
        if run.isascii() or not (found := sorted(passing.keys() & set(run))) or not _ASCII_SIGN.search(run):
            continue
        yield _Kind.PASSING, f"{quoted(_cut(run))} ({_few(found, said_as)})"


def _seen_as(letters: set[str]) -> dict[str, str]:
    """Those that look like something of ASCII, and what."""
    if len(_plain) > _REMEMBERED:
        _plain.clear()
    forms = {each: _plain[each] for each in letters if each.isalnum() and not each.isascii()}
    signs = {each: _SIGNS[each] for each in _SIGNS.keys() & letters}
    return {each: plain for each, plain in forms.items() if plain} | signs


def _plain_form(character: str) -> str:
    import unicodedata  # only what is beyond ASCII needs it

    if unicodedata.category(character) not in _LETTERS:
        return ""
    plain = unicodedata.normalize("NFKC", character)
    return plain if plain.isascii() and plain.isalnum() else ""


def _disguised(text: str, letters: set[str]) -> Iterator[tuple[_Kind, str]]:
    """A word that a reader takes for Latin letters, beside some that are: a whole text in its own script disguises nothing."""
    if letters.isdisjoint(_LATIN_LOOKS + _LATIN_AT_A_GLANCE):
        return
    for run in dict.fromkeys(_RUN.findall(text)):
        if run.isascii() or not _ASCII_LETTER.search(run):
            continue
        whole = quoted(_cut(run))
        for word in dict.fromkeys(_WORD.findall(run)):
            if not word.isascii() and _DISGUISED.fullmatch(word):
                script = next(_scripts[each] for each in word if not each.isascii())
                yield _Kind.DISGUISED, f"{quoted(_cut(word))} in {whole} ({script.lower()})"


def _mixed(text: str, letters: set[str]) -> Iterator[tuple[_Kind, str]]:
    if len(_scripts) > _REMEMBERED:
        _scripts.clear()
    if len(_LOOK_ALIKE.intersection(map(_scripts.__getitem__, filter(str.isalnum, letters)))) < 2:
        return  # nor has any word of it
    for word in dict.fromkeys(_WORD.findall(text)):
        if word.isascii():
            continue
        mixed = _LOOK_ALIKE.intersection(map(_scripts.__getitem__, word))
        if len(mixed) > 1:
            yield _Kind.MIXED, f"{quoted(_cut(word))} ({' and '.join(sorted(mixed)).lower()})"
