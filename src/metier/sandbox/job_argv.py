"""A command's line from its template: `{{name}}` stands for one argument of the call.

What a caller sent lands in exactly one element, is never split, never read by a shell and never expanded again. Where
it could be taken for an option the call is refused, unless the template ends the options with `--` before it or it is a
number.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from metier.model.digest import Json

_HOLE: Final = re.compile(r"\{\{\s*([^{}\s]+)\s*\}\}")
MOST_BYTES: Final = 131_072
"""What the system takes as one argument; the whole line may have eight times as much."""


def filled(template: Sequence[str], arguments: Mapping[str, Json]) -> tuple[str, ...] | str:
    """The line with every argument in its place, or what is wrong with it."""
    if not template or _HOLE.search(template[0]):
        return "a command names its program itself; no argument can choose it"
    line: list[str] = [template[0]]
    options_ended = False
    for element in template[1:]:
        problem = ""

        def put(hole: "re.Match[str]") -> str:
            nonlocal problem
            text = _text(hole[1], arguments)
            problem = problem or text[1]
            return text[0]

        text = _HOLE.sub(put, element)
        begins_with_hole = _HOLE.match(element)
        if problem:
            return problem
        if (
            begins_with_hole
            and text.startswith("-")
            and not options_ended
            and not _is_number(element, arguments)
        ):
            name = begins_with_hole[1]
            return f"the argument {name!r} begins with '-' and would be taken for an option"
        if len(text.encode("utf-8", "surrogatepass")) > MOST_BYTES or "\0" in text:
            return f"an argument of the command is longer than {MOST_BYTES:,} bytes, or holds a NUL"
        options_ended = options_ended or element == "--"
        line.append(text)
    if sum(len(each.encode("utf-8", "surrogatepass")) + 1 for each in line) > 8 * MOST_BYTES:
        return f"the command's line is longer than {8 * MOST_BYTES:,} bytes"
    return tuple(line)


def _text(name: str, arguments: Mapping[str, Json]) -> tuple[str, str]:
    """One argument as text, and why it has none."""
    value = arguments.get(name)
    match value:
        case bool():
            return ("true" if value else "false"), ""
        case str() | int() | float():
            return str(value), ""
        case None:
            return "", f"the command needs the argument {name!r}"
        case _:
            return "", f"the argument {name!r} must be a text or a number to stand in a command"


def _is_number(element: str, arguments: Mapping[str, Json]) -> bool:
    """Whether it stands for a number alone: one that the schema lets be a number, and no text that looks like one."""
    hole = _HOLE.fullmatch(element)
    return hole is not None and isinstance(arguments.get(hole[1]), int | float)
