"""What a text looks like to a reader who does not look closely.

A body must not pass for a part of Metier's own frame, and a reader is fooled long before the bytes are equal.
So both sides of a comparison are folded first: case, accents, widths and letters that look alike are one.
"""

import re
from typing import Final
from unicodedata import category, normalize

from metier.dialects.names import skeleton

_WORD: Final = re.compile(r"[^\W_]+")
_ANGLES: Final = "<＜﹤‹≮≺〈⟨❬❮˂ᐸ⧼\u2329"
# A cheap first look: after the bracket nothing else of ASCII can begin one of our tags.
_OPENING: Final = re.compile(rf"[{_ANGLES}](?=[\s/\\sS]|[^\x00-\x7f])")


def plain(text: str) -> str:
    """`text` in lower case, without marks over its letters and without wide, bold or joined forms."""
    if text.isascii():
        return text.lower()
    # Marks go first: normalizing sorts a long run of them, in time that grows with its square.
    return unmarked(normalize("NFKD", unmarked(text))).casefold()


def unmarked(text: str) -> str:
    """`text` without marks over letters and without what cannot be seen."""
    return "".join(c for c in text if c.isascii() or category(c) not in ("Mn", "Me", "Cf"))


def key(text: str) -> str:
    """What two headings must share to pass for one another: hyphens, emphasis, emoji and spaces say nothing."""
    seen = plain(text)
    return skeleton("".join(_WORD.findall(seen))) or "".join(seen.split())


def keys(heading: str) -> set[str]:
    """Every key that a heading may be taken for, also without a number or a letter in the place of an emoji."""
    found = {key(heading)}
    for seen in (plain(heading), skeleton(plain(heading))):  # the second knows signs that pass for letters
        words: list[str] = _WORD.findall(seen)
        if words:
            found.add(skeleton("".join(words)))
        if len(words) > 1 and (len(words[0]) == 1 or words[0].isdigit()):
            found.add(skeleton("".join(words[1:])))
    return found


def without_frame_tags(text: str) -> str:
    """`text` with `&lt;` wherever one of the tags around a skill's texts would begin or end."""
    return _OPENING.sub(lambda found: "&lt;" if _is_tag(text, found.end()) else found[0], text)


def _is_tag(text: str, start: int) -> bool:
    """Whether one of our tags follows a bracket, with spaces, marks or backslashes anywhere in it."""
    seen = ""
    for at in range(start, len(text)):
        letter = text[at]
        if letter.isspace() or letter == "\\":
            continue
        seen = (seen + _letter(letter)).removeprefix("/")
        if seen.startswith(_TAGS):
            return True
        if not any(tag.startswith(seen) for tag in _TAGS):
            return False
    return False


def _letter(letter: str) -> str:
    seen = plain(letter)
    return seen if seen in ("_", "-", ".") else skeleton(seen)


_TAGS: Final = tuple("".join(map(_letter, tag)) for tag in ("skill_content", "skill_resources", "skill_file"))
