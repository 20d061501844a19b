"""The `{{name}}` places of an action: each stands for one argument that its schema knows and that fits there."""

from typing import Final

from metier.dialects.friday_part import Part
from metier.dialects.shell_words import PLACE
from metier.model.digest import Json
from metier.model.text import one_line

BY_NAME: Final = "secret:"
"""What a place begins with that stands for a secret."""
_NO_TEXT: Final = frozenset({"object", "array", "null"})


def tidy(template: str) -> str:
    """The same with every place in its one spelling, without blanks inside the braces."""
    return PLACE.sub(r"{{\1}}", template)


def without(template: str, letter: str = "") -> str:
    """The template with `letter` where its places are."""
    return PLACE.sub(letter, template)


def check(part: Part, schema: dict[str, Json], template: str, where: str, *, value: bool = False) -> None:
    """Say what is wrong with the places of a template.

    Args:
        where: what the template is, in words.
        value: whether an argument of any kind fits, because it becomes a JSON value of its own.
    """
    for found in PLACE.finditer(template):
        _check_one(part, schema, found[1], where, value=value)
    left = without(template)
    if "{{" in left or "}}" in left:
        message = f"{where} has double braces that name no argument; write {{{{name}}}}, or single braces"
        part.note("place_refused", "error", message)


def _check_one(part: Part, schema: dict[str, Json], name: str, where: str, *, value: bool) -> None:
    shown = one_line(name, 60)
    if name.startswith(BY_NAME):
        message = f"{where} names a secret; one may stand at the end of a header's value, and nowhere else"
        part.note("place_refused", "error", message)
        return
    known = schema.get("properties")
    argument = known.get(name) if isinstance(known, dict) else None
    if argument is None:
        message = (
            f"{where} needs the argument {shown!r}, but no schema names it; add an entry of the action's id to `tools`"
            f" and {shown!r} to the properties of its `parameters`"
        )
        part.note("place_refused", "error", message)
        return
    kind = argument.get("type") if isinstance(argument, dict) else None
    kinds = frozenset(each for each in (kind if isinstance(kind, list) else [kind]) if isinstance(each, str))
    if not value and kinds and kinds <= _NO_TEXT:
        message = (
            f"the argument {shown!r} cannot stand in {where}: its type must be string, number or boolean"
        )
        part.note("place_refused", "error", message)
    required = schema.get("required")
    if not isinstance(required, list) or name not in required:
        message = (
            f"{where} needs the argument {shown!r}, which a caller may leave out; list it under `required`"
        )
        part.note("place_optional", "warning", message)
