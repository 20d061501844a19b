"""Templates: `{{message.text}}` in a text becomes what happened. Only texts are filled, never a key and never the shape of an
argument, and what was filled in is not looked at again: what somebody writes in a chat stays a text.
"""

import re
from typing import Final

import msgspec

from metier.model.digest import Json
from metier.model.text import one_line

LONGEST_FILLED: Final = 65_536
"""Characters of one text once it is filled."""
_PLACE: Final = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_-]{1,100}){0,8})\s*\}\}", re.ASCII)
_ROOTS: Final = ("message", "event", "tool", "trigger", "schedule", "result", "outcome", "error")


def places_problem(value: Json) -> str:
    """What is wrong with the places in a value; empty when nothing is."""
    for text in _texts(value):
        for place in _PLACE.finditer(text):
            if place[1].partition(".")[0] not in _ROOTS:
                return f"{{{{{one_line(place[1], 60)}}}}} is no place; they begin with {', '.join(_ROOTS)}"
        if "{{" in _PLACE.sub("", text):
            return f"{one_line(text, 60)!r} holds {{{{ that begins no place; write {{{{message.text}}}}"
    return ""


def filled(value: Json, around: dict[str, Json], missing: set[str]) -> Json:
    """`value` with every place in its texts filled. The names of places for which there was nothing go into `missing`."""
    if isinstance(value, str):
        return _text(value, around, missing)
    if isinstance(value, list):
        return [filled(each, around, missing) for each in value]
    if isinstance(value, dict):
        return {key: filled(each, around, missing) for key, each in value.items()}
    return value


def found(path: str, around: dict[str, Json]) -> Json:
    """What lies at a dotted path. None where nothing does."""
    at: Json = around
    for step in path.split("."):
        if isinstance(at, dict):
            at = at.get(step)
        elif isinstance(at, list) and step.isdecimal() and len(step) < 6 and int(step) < len(at):
            at = at[int(step)]
        else:
            return None
    return at


def plain(value: Json) -> str:
    """A value as a text: texts as they are, everything else as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()


def _text(text: str, around: dict[str, Json], missing: set[str]) -> str:
    if "{{" not in text:
        return text
    room = LONGEST_FILLED

    def put(place: re.Match[str]) -> str:
        nonlocal room
        value = found(place[1], around)
        if value is None:
            missing.add(place[1])
        given = plain(value)[: max(room, 0)]
        room -= len(given)
        return given

    return _PLACE.sub(put, text)[:LONGEST_FILLED]


def _texts(value: Json) -> list[str]:
    if isinstance(value, str):
        return [value]
    items: list[Json] = []
    if isinstance(value, list):
        items = value
    elif isinstance(value, dict):
        items = list(value.values())
    return [text for each in items for text in _texts(each)]
