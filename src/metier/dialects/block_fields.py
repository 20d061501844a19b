"""The fields of one object in a manifest, taken out one by one. Nothing is guessed: what does not fit is an error.

Each finding says where it stands, what was found and what is allowed. What nobody took out is left over, so that no field
can be dropped in silence.
"""

import re
from typing import Final, TypeVar, final

from metier.dialects.draft import Draft
from metier.dialects.names import code_points
from metier.model import strictjson
from metier.model.digest import Json
from metier.model.text import hidden, one_line

MOST_ITEMS: Final = 100
LONGEST_ITEM: Final = 4_096
LARGEST_SCHEMA: Final = 262_144
MOST_SCHEMA_VALUES: Final = 10_000
_T = TypeVar("_T", bound=str)


@final
class Fields:
    """Takes fields out; an error lets the caller go on with a value that fits, for the skill is refused anyway."""

    __slots__ = ("_draft", "_left", "_where")

    def __init__(self, draft: Draft, where: str, given: Json) -> None:
        self._draft = draft
        self._where = where
        self._left: dict[str, Json] = dict(given) if isinstance(given, dict) else {}
        if not isinstance(given, dict):
            self._draft.note(
                "bad_field", "error", f"{where} is {kind(given)}; write an object with its fields", "metadata"
            )

    def __contains__(self, key: str) -> bool:
        return key in self._left

    def wrong(self, key: str, problem: str) -> None:
        """Refuse the skill for what is wrong with the field `key`."""
        self._draft.note("bad_field", "error", f"{self._where}: {key} {problem}", "metadata")

    def peek(self, key: str) -> Json:
        """The field as it stands, which stays; null when there is none."""
        return self._left.get(key)

    def take(self, key: str) -> Json:
        """The field as it stands; null when there is none."""
        return self._left.pop(key, None)

    def text(self, key: str, *, most: int, default: str | None = None) -> str:
        """A text that says something. It is required where there is no default."""
        value = self._required(key, default, f"a text of at most {most:,} characters")
        if value is None:
            return default or ""
        if not isinstance(value, str):
            self.wrong(key, f"is {kind(value)}; write a text of at most {most:,} characters")
            return default or ""
        if len(value) > most:
            self.wrong(key, f"has {len(value):,} characters; {most:,} are the most")
        elif not value.strip() and default is None:
            self.wrong(key, "is empty; say something")
        elif unseen := hidden(value):
            message = f"{self._where}: {key} holds characters that cannot be seen ({code_points(unseen)}); remove them"
            self._draft.note("hidden_characters", "warning", message, "metadata")
        return value

    def word(self, key: str, pattern: re.Pattern[str], allowed: str, default: str | None = None) -> str:
        """A text of a certain form. It is required where there is no default."""
        value = self._required(key, default, allowed)
        if value is None:
            return default or ""
        if not isinstance(value, str) or not pattern.fullmatch(value):
            self.wrong(key, f"is {shown(value)}; write {allowed}")
            return default or ""
        return value

    def choice(self, key: str, options: tuple[_T, ...], default: _T) -> _T:
        """One of some words."""
        if key not in self._left:
            return default
        value = self._left.pop(key)
        for option in options:
            if option == value:
                return option
        self.wrong(key, f"is {shown(value)}; write one of {', '.join(options)}")
        return default

    def flag(self, key: str) -> bool:
        """True or false as JSON has them; false when it is not there."""
        value = self._left.pop(key, False)
        if not isinstance(value, bool):
            self.wrong(key, f"is {shown(value)}; write true or false, without quotes")
            return False
        return value

    def number(self, key: str, *, most: float, default: float, unit: str) -> float:
        """A number above zero."""
        value = self._left.pop(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
            self.wrong(key, f"is {shown(value)}; write {unit} as a number above 0, at most {most:,}")
            return default
        return value

    def whole(self, key: str, *, least: int, most: int, default: int, unit: str) -> int:
        """A whole number."""
        value = self._left.pop(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            self.wrong(key, f"is {shown(value)}; write {unit} as a whole number from {least:,} to {most:,}")
            return default
        return value

    def texts(self, key: str, pattern: re.Pattern[str] | None = None, allowed: str = "") -> tuple[str, ...]:
        """A list of different texts, each of a certain form; empty when it is not there."""
        found = self.line(key, least=1)
        for item in found:
            if pattern is not None and not pattern.fullmatch(item):
                self.wrong(key, f"holds {shown(item)}; {allowed}")
                return ()
        return tuple(dict.fromkeys(found))

    def line(self, key: str, *, least: int = 0) -> tuple[str, ...]:
        """A list of texts as it stands; empty when it is not there. `least` is the length of each."""
        value = self._left.pop(key, [])
        if not isinstance(value, list):
            self.wrong(key, f"is {kind(value)}; write a list of texts")
            return ()
        if len(value) > MOST_ITEMS:
            self.wrong(key, f"has {len(value):,} items; {MOST_ITEMS} are the most")
            return ()
        found: list[str] = []
        for item in value:
            if not isinstance(item, str) or not least <= len(item) <= LONGEST_ITEM or "\0" in item:
                self.wrong(key, f"holds {shown(item)}; write texts of {least} to {LONGEST_ITEM:,} characters")
                return ()
            found.append(item)
        return tuple(found)

    def inner(self, key: str) -> "Fields":
        """The object that stands there; an empty one when there is none."""
        return Fields(self._draft, f"{self._where}: {key}", self._left.pop(key, {}))

    def schema(self, key: str, *, of_arguments: bool = True) -> dict[str, Json] | None:
        """A JSON Schema; None when it is not there. Whether it can be used is found out later."""
        if key not in self._left:
            return None
        value = self._left.pop(key)
        if not isinstance(value, dict):
            self.wrong(
                key, f'is {kind(value)}; write a JSON Schema: {{"type": "object", "properties": {{…}}}}'
            )
            return None
        if problem := _unfit(value) or (_not_of_arguments(value) if of_arguments else ""):
            self.wrong(key, problem)
            return None
        return value

    def rest(self) -> dict[str, Json]:
        """What nobody took."""
        return self._left

    def no_more(self, known: str) -> None:
        """Refuse what is left over: a misspelt restriction must not be a missing one."""
        if self._left:
            names = ", ".join(f'"{one_line(key, 40)}"' for key in [*self._left][:5])
            self.wrong(names, f"is not known here; there are {known}")

    def _required(self, key: str, default: str | None, allowed: str) -> Json:
        if key not in self._left:
            if default is None:
                self.wrong(key, f"is missing; write {allowed}")
            return None
        value = self._left.pop(key)
        if value is None:
            self.wrong(key, f"is nothing; write {allowed}")
        return value


def kind(value: Json) -> str:
    """What a value is, in words."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case str():
            return "a text"
        case int() | float():
            return "a number"
        case list():
            return "a list"
        case _:
            return "an object"


def shown(value: Json) -> str:
    """A value as a finding may quote it: on one line, cut, with nothing unseen in it."""
    if isinstance(value, str):
        return f'"{one_line(value, 60)}"'
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e100:
        return f"{value:.6g}"
    return kind(value)


def _unfit(schema: dict[str, Json]) -> str:
    try:
        strictjson.check(schema, most=LARGEST_SCHEMA, values=MOST_SCHEMA_VALUES)
    except ValueError as error:
        return f"is no usable JSON Schema: {one_line(str(error), 200)}"
    return ""


def _not_of_arguments(schema: dict[str, Json]) -> str:
    if schema.get("type") != "object":
        return f'has the type {shown(schema.get("type"))}; write "type": "object", for arguments have names'
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, dict):
        return f"has properties that are {kind(properties)}; write an object with a schema for each name"
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        return "has a `required` that is no list of names; write the names in a list"
    for name, each in properties.items():
        if not isinstance(each, dict | bool):
            return f'says of "{one_line(name, 40)}" that it is {kind(each)}; write a JSON Schema, for example {{"type": "string"}}'
    return ""
