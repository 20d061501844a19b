"""Templates: `{{message.text}}` in a text becomes what happened. Only texts are filled, never a key and never the shape of an
argument, and what was filled in is not looked at again: what somebody writes in a chat stays a text.
"""

import re
from typing import Final, final

import msgspec

from metier.model.digest import Json
from metier.model.text import one_line

LONGEST_FILLED: Final = 65_536
"""Characters of one text once it is filled."""
MOST_FILLED: Final = 262_144
"""Characters that are put into all places of one value together: few places in a small file could ask for hundreds of megabytes."""
_PLACE: Final = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_-]{1,100}){0,8})\s*\}\}", re.ASCII)
_ROOTS: Final = ("message", "event", "tool", "trigger", "schedule", "result", "outcome", "error")


@final
class TooMuch(Exception):
    """More would be filled in than may be. Says so, for people."""

    def __init__(self) -> None:
        super().__init__(
            f"its places would be filled with more than {MOST_FILLED:,} characters in all; name fewer of them, or smaller parts "
            "of what happened"
        )


def places_problem(value: Json) -> str:
    """What is wrong with the places in a value; empty when nothing is."""
    for text in _texts(value):
        for place in _PLACE.finditer(text):
            if place[1].partition(".")[0] not in _ROOTS:
                return f"{{{{{one_line(place[1], 60)}}}}} is no place; they begin with {', '.join(_ROOTS)}"
        if "{{" in _PLACE.sub("", text):
            return f"{one_line(text, 60)!r} holds {{{{ that begins no place; write {{{{message.text}}}}"
    return ""


def speaks_of(text: str, *roots: str) -> bool:
    """Whether a place in it begins with one of these."""
    return any(place[1].partition(".")[0] in roots for place in _PLACE.finditer(text))


def filled(value: Json, around: dict[str, Json], missing: set[str]) -> Json:
    """`value` with every place in its texts filled. The names of places for which there was nothing go into `missing`.

    Raises:
        TooMuch: where that would be too large.
    """
    return _Filling(around, missing).value(value)


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


@final
class _Filling:
    """What is put into the places of one value."""

    def __init__(self, around: dict[str, Json], missing: set[str]) -> None:
        self._around = around
        self._missing = missing
        self._room = MOST_FILLED
        self._known: dict[str, str] = {}
        """What lies at a place, as a text: it is made once, however often the place is named."""

    def value(self, value: Json) -> Json:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            return [self.value(each) for each in value]
        if isinstance(value, dict):
            return {key: self.value(each) for key, each in value.items()}
        return value

    def _text(self, text: str) -> str:
        if "{{" not in text:
            return text
        room = LONGEST_FILLED

        def put(place: re.Match[str]) -> str:
            nonlocal room
            given = self._at(place[1])[: max(room, 0)]
            room -= len(given)
            self._room -= len(given)
            if self._room < 0:
                raise TooMuch
            return given

        return _PLACE.sub(put, text)[:LONGEST_FILLED]

    def _at(self, path: str) -> str:
        if path not in self._known:
            value = found(path, self._around)
            if value is None:
                self._missing.add(path)
            self._known[path] = plain(value)[:LONGEST_FILLED]
        return self._known[path]


def _texts(value: Json) -> list[str]:
    if isinstance(value, str):
        return [value]
    items: list[Json] = []
    if isinstance(value, list):
        items = value
    elif isinstance(value, dict):
        items = list(value.values())
    return [text for each in items for text in _texts(each)]
