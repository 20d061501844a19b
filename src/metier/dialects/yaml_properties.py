"""Tags, anchors and aliases, found without following any of them.

A few aliases of one long text are gigabytes once they are followed, so a text that could hold such signs is first
read with every sign spelled in a way that YAML takes inside a text and nowhere else. The parser itself then says
where the first real one stands, and never sees it.
"""

import re
from typing import Final

from ryaml import loads  # pyright: ignore[reportPrivateImportUsage]

_MASK: Final = 0x100000
_SIGNS: Final = "!&*"
_NEVER_FIRST: Final = {ord(sign): "@" + chr(_MASK + ord(sign)) for sign in _SIGNS}
"""No YAML value begins with `@`; what follows it keeps keys with different signs different."""
_NO_ALIASES: Final = {ord("*"): "$"}
"""A sign that may begin a text and stand within a tag, as `*` may."""
_MAYBE: Final = re.compile(r"(?:^|[:\-?,\[{\r\x85\u2028\u2029\ufeff])[ \t]*[!&*]", re.MULTILINE)
_PLACE: Final = r"found character that cannot start any token(?: at line (\d{1,9}) column (\d{1,9}))?"


def could_hold(text: str) -> bool:
    """Whether there is any need to look closer, which is nearly never so."""
    return ("*" in text or "&" in text or "!" in text) and _MAYBE.search(text) is not None


def first_property(text: str) -> tuple[str, int] | None:
    """The first tag, anchor or alias as its sign and its line; None when all signs are text.

    Raises:
        ValueError: the text is no YAML, whatever the signs mean.
    """
    masked = text.translate(_NEVER_FIRST)
    try:
        loads(masked)
    except ValueError as error:
        message = str(error)
        place = re.match(_PLACE, message)
        found = _sign_at(masked, int(place[1] or 1), int(place[2] or 1)) if place else ""
        if not place or not found:
            # Never the real text instead: what stopped the parser here need not stop it there.
            raise ValueError(_unmasked(message)) from None
        return found, int(place[1] or 1)
    return None


def _unmasked(message: str) -> str:
    """What the parser says, with the signs that were written; it spells private characters in its own way."""
    for sign in _SIGNS:
        message = message.replace(_NEVER_FIRST[ord(sign)], sign).replace(
            f"@\\u{{{_MASK + ord(sign):x}}}", sign
        )
    return message


def _sign_at(masked: str, line: int, column: int) -> str:
    """The sign that was masked there; empty when something else stands there."""
    row = masked.split("\n", line)[line - 1] if masked.count("\n") >= line - 1 else ""
    pair = row[column - 1 : column + 1]
    return next((sign for sign in _SIGNS if pair == _NEVER_FIRST[ord(sign)]), "")


def check_without_aliases(text: str) -> None:
    """Read `text` with its aliases as plain text, so that nothing is repeated.

    Raises:
        ValueError: it would be no YAML even then.
    """
    loads(text.translate(_NO_ALIASES))
