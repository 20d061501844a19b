"""Long text: its beginning stands there at once, the rest is one key away, and it is said how much it is. Pure."""

import re
from typing import Final, final

from msgspec import Struct

_LINES: Final = 40
_CHARACTERS: Final = 3_000
_LITTLE: Final = 500
"""So few characters more are not worth a fold."""
_SPELLED: Final = re.compile(r"\\(u(\{[0-9a-f]{0,6})?)?$")
"""A character that is spelled out is not cut in two."""


@final
class Folded(Struct, frozen=True, kw_only=True):
    """A text in two parts, and nothing between them."""

    first: str
    rest: str
    more: str
    """How much the rest is, in words; empty when there is none."""


def folded(text: str) -> Folded:
    """`text` as it is shown at first."""
    lines = text.split("\n")
    first = "\n".join(lines[:_LINES])
    cut = len(first)
    if len(first) > _CHARACTERS:
        begun = _SPELLED.sub("", first[:_CHARACTERS])
        cut = len(begun)
    if len(text) - cut <= (_LITTLE if cut < len(first) else 0):
        return Folded(first=text, rest="", more="")
    goes_on = cut < len(first) and text[cut - 1] != "\n"
    rest = text[cut:].removeprefix("\n") if not goes_on else text[cut:]
    size = f"{len(rest.encode(errors='surrogatepass')):,} bytes"
    more = rest.count("\n") if goes_on else rest.count("\n") + 1
    count = f"{more:,} more line{'' if more == 1 else 's'}" if more else ""
    if not goes_on:
        return Folded(first=text[:cut], rest=rest, more=f"{count}, {size}")
    words = (
        f"The last line goes on, and there are {count}: {size}"
        if count
        else f"The last line goes on: {size} more"
    )
    return Folded(first=text[:cut], rest=rest, more=words)
