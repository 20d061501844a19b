"""Long text: its beginning stands there at once, the rest is one key away, and it is said how much it is. Pure."""

import re
from typing import Final, NamedTuple, final

from msgspec import Struct

from metier.model.digest import Json
from metier.model.exact import items_laid_out, laid_out

_LITTLE: Final = 500
"""So few characters more are not worth a fold."""
_SPELLED: Final = re.compile(r"\\(u(\{[0-9a-f]{0,6})?)?$")
"""A character that is spelled out is not cut in two."""


class Size(NamedTuple):
    """How much of a text is shown at first."""

    lines: int
    characters: int


LARGE: Final = Size(40, 3_000)
_SMALL: Final = Size(8, 600)
"""Where there are several, so that all of them are on the screen."""
_FEW: Final = 4
_MANY: Final = 24


@final
class Folded(Struct, frozen=True, kw_only=True):
    """A text in two parts, and nothing between them."""

    first: str
    rest: str
    more: str
    """How much the rest is, in words; empty when there is none."""


def folded(text: str, most: Size = LARGE) -> Folded:
    """`text` as it is shown at first."""
    lines = text.split("\n")
    first = "\n".join(lines[: most.lines])
    cut = len(first)
    if len(first) > most.characters:
        begun = _SPELLED.sub("", first[: most.characters])
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


def folded_items(value: dict[str, Json]) -> list[Folded]:
    """Arguments as they are shown at first. Each long one is folded where it stands, so that none of the others is out of sight for it; beyond
    a number of them that anybody looks through, they are one text."""
    if not value or len(value) > _MANY:
        return [folded(laid_out(value))]
    size = LARGE if len(value) <= _FEW else _SMALL
    made: list[Folded] = []
    shown = "{"
    for item in items_laid_out(value):
        part = folded(item, size)
        shown = f"{shown}\n{part.first}" if shown else part.first
        if part.more:
            made.append(Folded(first=shown, rest=part.rest, more=part.more))
            shown = ""
    return [*made, Folded(first=f"{shown}\n}}" if shown else "}", rest="", more="")]
